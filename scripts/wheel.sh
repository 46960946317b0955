#!/usr/bin/env bash
# Builds the Python wheel and tries it in a new environment. docs/python.md describes the package.
#
#   scripts/wheel.sh [options]
#
#   --out FOLDER     where the wheel goes (default: build/wheels)
#   --glibc VERSION  fails if a program of the wheel needs a newer C library (default: 2.34)
#   --mib N          fails if the wheel is larger (default: 10)
#   --jobs N         compiles at a time (default: the processors, as memory allows)
#   --no-mortar      leaves Mortar and its command out
#   --no-torch       leaves the operators of PyTorch out, and does without PyTorch
#   --help           this text
#
# It builds in build/wheel. What the programs need of the C library is read from them and becomes the tag of the platform
# (manylinux_2_34_x86_64).
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$root"

out=build/wheels glibc=2.34 mib=10 jobs='' mortar=ON torch=ON
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=${2:?--out needs a folder}; shift ;;
    --glibc) glibc=${2:?--glibc needs a version such as 2.34}; shift ;;
    --mib) mib=${2:?--mib needs a number}; shift ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift ;;
    --no-mortar) mortar=OFF ;;
    --no-torch) torch=OFF ;;
    -h | --help) usage "$0"; exit 0 ;;
    *) die "unknown option $1; see scripts/wheel.sh --help" ;;
  esac
  shift
done
[[ $glibc =~ ^[0-9]+\.[0-9]+$ ]] || die "--glibc takes a version such as 2.34, found $glibc"
[[ $mib =~ ^[0-9]+$ ]] || die "--mib takes a number, found $mib"
jobs=${jobs:-$(default_jobs)}
mkdir -p "$out" build
out=$(cd "$out" && pwd)

[ $torch = OFF ] || get_torch
torch_folder=NOTFOUND
[ $torch = OFF ] || torch_folder=$(echo "${TESSERA_TORCH_PYTHON%/bin/python}"/lib/python3*/site-packages/torch)

say "the wheel"
work=build/wheel-tools
[ -x $work/bin/pip ] || python3 -m venv $work
$work/bin/pip -q install 'scikit-build-core>=0.10' wheel
rm -rf build/wheel-made && mkdir build/wheel-made
$work/bin/pip wheel ./python --no-build-isolation --no-deps -w build/wheel-made -C cmake.define.TESSERA_BUILD_MORTAR=$mortar \
  -C cmake.define.TESSERA_PYTHON_NEEDS_TORCH=$torch -C cmake.define.TESSERA_TORCH_DIR="$torch_folder" \
  -C build.tool-args="-j$jobs" >build/wheel.log 2>&1 || { tail -n 20 build/wheel.log >&2; die "see build/wheel.log"; }
made=$(ls build/wheel-made/*.whl)

say "what it needs"
rm -rf build/wheel-try && mkdir build/wheel-try
python3 -m zipfile -e "$made" build/wheel-try/files
programs=(build/wheel-try/files/tessera/*.so build/wheel-try/files/tessera/bin/*)
scripts/packaging/needs.py --limit "GLIBC_$glibc" "${programs[@]}" ||
  die "the wheel would need more than glibc $glibc: build on an older system (docs/packaging.md), or pass --glibc"
needed=$(scripts/packaging/needs.py --glibc "${programs[@]}")
$work/bin/wheel tags --remove --platform-tag "manylinux_${needed/./_}_$(uname -m)" "$made" >/dev/null
made=$(ls build/wheel-made/*.whl)
bytes=$(stat -c %s "$made")
printf '%s: %s KiB\n' "$(basename "$made")" $((bytes / 1024))
[ "$bytes" -le $((mib * 1048576)) ] || die "the wheel is larger than $mib MiB"

say "in a new environment"
python3 -m venv build/wheel-try/venv
build/wheel-try/venv/bin/pip -q install numpy "$made"
for check in '' TESSERA_CHECK=1 MALLOC_PERTURB_=85; do
  (cd build/wheel-try && env TESSERA_DEVICE=cpu $check venv/bin/python -B ../../tests/python/package_test.py | tail -n 2)
done
build/wheel-try/venv/bin/tessera --help >/dev/null
if [ $mortar = ON ]; then
  build/wheel-try/venv/bin/mortar generate tests/mortar/data/models/dense-tied --device cpu --prompt-ids 1,2,3 --greedy -n 4 >/dev/null
  ! readelf -d build/wheel-try/files/tessera/libtessera_python.so | grep -q 'NEEDED.*libssl' || die "importing tessera would need OpenSSL"
fi
[ -f build/wheel-try/files/tessera/share/doc/libtessera-dev/AGENTS.md ] || die "the wheel has no AGENTS.md"
for test in operators gradients; do
  [ $torch = OFF ] || TESSERA_DEVICE=cpu "$TESSERA_TORCH_PYTHON" -B tests/python/${test}_test.py build/wheel-try/files | tail -n 1
done
cmake -S tests/consumer/find_package -B build/wheel-try/consumer -G Ninja \
  -DCMAKE_PREFIX_PATH="$(build/wheel-try/venv/bin/python -c 'import tessera; print(tessera.cmake_dir())')" >build/wheel.log
ninja -C build/wheel-try/consumer >>build/wheel.log
TESSERA_DEVICE=cpu build/wheel-try/consumer/consumer
mv "$made" "$out"
say "$out/$(basename "$made")"
