#!/usr/bin/env bash
# Compares two builds on one GPU, in alternation, at random shapes of every function of the kernel library: what has become
# slower. docs/gpu.md, "Two builds compared".
#
#   scripts/gpu-compare.sh [options] OLD NEW                     builds, compiles and measures: on a machine that has everything
#   scripts/gpu-compare.sh --prepare [options] OLD NEW           builds both and compiles all kernels; no GPU is needed
#   scripts/gpu-compare.sh --run FOLDER [options]                measures; needs python3 and the driver
#   scripts/gpu-compare.sh --peers FOLDER [options]              compares the new build with PyTorch at the same shapes
#
# OLD and NEW are revisions, folders with sources, or folders that hold a built compare_bench.
# Exit status: 0; 1 if something is slower, or wrong; 3 if time did not suffice; 2 for a wrong call.
#
#   --out FOLDER      with --prepare: where everything goes (default: build/gpu-compare/run). A second call continues
#   --pack FILE       with --prepare: also as an archive (.tar.xz)
#   --seed N          the shapes; the default is the date
#   --count N         how many cases (default: 200)
#   --cases FILE      these cases, one a line as reports name them, instead of random ones
#   --plant SHARE     with --run: the new build's times are lengthened by this share (0.05), to see what is found
#   --target sm_90    the GPU that kernels are compiled for
#   --jobs N          compilations at a time (default: the processors)
#   --seconds N       the time for compiling kernels (7200), or for measuring (450)
#   --device D        cuda (default), or cpu to try this script where there is no GPU; then shapes are tiny
#   --cmake FLAG      one more flag for cmake; may be repeated
#   --help            this text
set -uo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

mode=both out='' pack='' seed=() count=(--count 200) target=sm_90 jobs=$(nproc) seconds=() device=cuda flags=() places=() plant=()
while [ $# -gt 0 ]; do
  case $1 in
    --prepare) mode=prepare ;;
    --run) mode=run ;;
    --peers) mode=peers ;;
    --out) out=${2:?--out needs a folder}; shift ;;
    --pack) pack=${2:?--pack needs a file}; shift ;;
    --seed) seed=(--seed "${2:?--seed needs a number}"); shift ;;
    --count) count=(--count "${2:?--count needs a number}"); shift ;;
    --cases) count=(--cases "$(realpath "${2:?--cases needs a file}")"); shift ;;
    --plant) plant=(--plant "${2:?--plant needs a share, as 0.05}"); shift ;;
    --target) target=${2:?--target needs a GPU}; shift ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift ;;
    --seconds) seconds=(--seconds "${2:?--seconds needs a number}"); shift ;;
    --device) device=${2:?--device needs cuda or cpu}; shift ;;
    --cmake) flags+=("${2:?--cmake needs a flag}"); shift ;;
    -h | --help) usage "$0"; exit 0 ;;
    -*) echo "unknown option $1; see scripts/gpu-compare.sh --help" >&2; exit 2 ;;
    *) places+=("$1") ;;
  esac
  shift
done
work=$root/build/gpu-compare
out=${out:-$work/run}

# What measures a prepared folder is in the folder: a machine with a GPU needs nothing else.
run_folder() { python3 -B "$1/run.py" "$1" --device "$device" ${seconds[@]+"${seconds[@]}"} ${plant[@]+"${plant[@]}"}; }
case $mode in
  run | peers)
    [ ${#places[@]} = 1 ] && [ -f "${places[0]}/plan.json" ] || { echo "--$mode takes one folder, as --prepare makes it" >&2; exit 2; }
    if [ $mode = run ]; then run_folder "${places[0]}"; exit; fi
    python3 -B "${places[0]}/against_torch.py" "${places[0]}" ${seconds[@]+"${seconds[@]}"}
    exit ;;
esac
[ ${#places[@]} = 2 ] || { echo "two builds are compared: scripts/gpu-compare.sh OLD NEW" >&2; exit 2; }

# -- building ----------------------------------------------------------------------------------------------------------

# sources_of <revision or folder>: a folder with those sources, and with the comparison of the checkout that this script
# is in, so that both programs measure the same. Its name is that of the commit: a second call builds what has changed.
sources_of() {
  local folder commit
  if [ -f "$1/CMakeLists.txt" ]; then
    commit=tree-$(basename "$(realpath "$1")") folder=$work/$commit
    mkdir -p "$folder" && tar -C "$1" -cf - --exclude=./build --exclude=./.git . | tar -C "$folder" -xf - || return 1
  else
    commit=$(git -C "$root" rev-parse --verify --quiet "$1^{commit}") || { echo "$1 is neither a revision nor a folder" >&2; return 1; }
    folder=$work/${commit:0:12}
    mkdir -p "$folder" && git -C "$root" archive "$commit" | tar -C "$folder" -xf - || return 1
  fi
  mkdir -p "$folder/bench/compare" "$folder/bench/generality" "$folder/bench/gpu" "$folder/bench/host"
  local part
  for part in compare generality; do
    rm -rf "${folder:?}/bench/$part" && cp -rp "$root/bench/$part" "$folder/bench/" || return 1
  done
  cp -p "$root/bench/gpu/harness.hpp" "$folder/bench/gpu/" &&
    cp -p "$root"/bench/host/null_driver.* "$folder/bench/host/" || return 1
  grep -q 'bench/compare' "$folder/CMakeLists.txt" || echo 'add_subdirectory(bench/compare)' >>"$folder/CMakeLists.txt"
  echo "$folder"
}

# program_of <revision or folder>: the path of its compare_bench.
program_of() {
  if [ -x "$1/compare_bench" ]; then echo "$1/compare_bench"; return; fi
  local folder build
  folder=$(sources_of "$1") || return 1
  build=$folder/build/compare
  # Compiled kernels carry the paths of their source lines. They have to be equal in both builds, which share what they
  # compile alike; ccache makes them relative to the sources.
  local paths=()
  command -v ccache >/dev/null || paths=("-DCMAKE_CXX_FLAGS=-fmacro-prefix-map=$folder/=../../")
  # The library is built as by the preset dev, which ccache may have: the host's speed is not measured.
  CCACHE_BASEDIR=$folder CCACHE_NOHASHDIR=1 cmake -S "$folder" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Dev \
    "-DCMAKE_CXX_FLAGS_DEV=-O0 -g1" -DTESSERA_WERROR=ON "-DTESSERA_COMPARE_FLAGS=-O1;-Wno-error" -DTESSERA_BUILD_TESTS=OFF \
    -DTESSERA_BUILD_EXAMPLES=OFF -DTESSERA_BUILD_TOOLS=OFF -DTESSERA_BUILD_MORTAR=OFF -DTESSERA_BUILD_GPU_CHECK=OFF \
    -DTESSERA_BUILD_BENCH=OFF -DTESSERA_BUILD_COMPARE=ON ${paths[@]+"${paths[@]}"} ${flags[@]+"${flags[@]}"} \
    >"$folder/configure.txt" 2>&1 || { tail -n 20 "$folder/configure.txt" >&2; return 1; }
  CCACHE_BASEDIR=$folder CCACHE_NOHASHDIR=1 ninja -C "$build" -j "$jobs" compare_bench null_driver >"$folder/build.txt" 2>&1 ||
    { grep -E -A 8 'error|FAILED' "$folder/build.txt" | head -n 40 >&2; return 1; }
  find "$build" -name compare_bench -type f -perm -u+x | head -n 1
}

mkdir -p "$work" "$out"
start=$SECONDS
new=$(program_of "${places[1]}") && old=$(program_of "${places[0]}") || die "a build has failed"
say "built in $((SECONDS - start)) s: $old, $new"

# -- compiling kernels, and measuring ----------------------------------------------------------------------------------

assembler='' driver='' tiny=()
if [ "$device" = cpu ]; then
  tiny=(--tiny)
else
  assembler=${TESSERA_TILEIRAS:-$(scripts/get-tileiras.sh --where)/bin/tileiras}
  [ -x "$assembler" ] || die "NVIDIA's assembler is missing: scripts/get-tileiras.sh"
  driver=$(find "$(dirname "$new")" "$work" "$root/build" -name 'libcuda.so.1' 2>/dev/null | head -n 1)
  [ -n "$driver" ] || die "the null driver is not built: ninja null_driver"
fi
prepare_seconds=("${seconds[@]}")
[ $mode = prepare ] || prepare_seconds=()
python3 -B "$root/bench/compare/prepare.py" "$out" --old "$old" --new "$new" --names "${places[0]}" "${places[1]}" \
  --assembler "$assembler" --null-driver "$driver" --target "$target" --jobs "$jobs" ${seed[@]+"${seed[@]}"} "${count[@]}" \
  ${tiny[@]+"${tiny[@]}"} ${prepare_seconds[@]+"${prepare_seconds[@]}"}
status=$?
[ $status = 0 ] || [ $status = 3 ] || exit $status
if [ -n "$pack" ]; then
  tar -C "$(dirname "$out")" -cJf "$pack" --exclude='compiled-*.json' "$(basename "$out")" && du -h "$pack"
fi
[ $mode = both ] || exit $status
run_folder "$out"
