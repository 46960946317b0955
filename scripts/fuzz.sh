#!/usr/bin/env bash
# Fuzzes the inputs of the library (the rows of tests/fuzz/targets.def) with libFuzzer and the address and
# undefined-behaviour sanitizers.
#
#   scripts/fuzz.sh [options] [targets]
#
# Builds the programs in build/clang and runs each target from its seeds in tests/fuzz/seeds. The corpus is kept in
# build/fuzz/<target>. A finding is written to build/fuzz/findings; minimize it (--minimize) and add it to the seeds, and
# every build tests it (fuzz.<target>).
#
#   --seconds N     time of each target (default: 60)
#   --minimize FILE minimizes a finding of the one named target, for a minute
#   --jobs N        compiles at a time (default: the processors, as memory allows)
#   --parallel N    targets that run at a time (default: 1)
#   --no-build      runs what was built before
#   --help          this text
set -uo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

seconds=60 jobs='' parallel=1 build=yes minimize='' targets=()
while [ $# -gt 0 ]; do
  case $1 in
    --seconds) seconds=${2:?--seconds needs a number}; shift ;;
    --minimize) minimize=$(realpath "${2:?--minimize needs a file}"); shift ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift ;;
    --parallel) parallel=${2:?--parallel needs a number}; shift ;;
    --no-build) build=no ;;
    -h | --help) usage "$0"; exit 0 ;;
    -*) die "unknown option $1; see scripts/fuzz.sh --help" ;;
    *) targets+=("$1") ;;
  esac
  shift
done
cd "$root" || exit 1

table=tests/fuzz/targets.def
bytes_of() { sed -nE "s/^TESSERA_FUZZ\($1, ([0-9]+),.*/\1/p" $table; }
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(sed -nE 's/^TESSERA_FUZZ\(([a-z_]+),.*/\1/p' $table)
for target in "${targets[@]}"; do
  [ -n "$(bytes_of "$target")" ] || die "there is no target $target in $table"
done

if [ $build = yes ]; then
  clang=$(clang_version)
  need_to_build
  need_to_fuzz "$clang"
  install_missing
  mkdir -p build
  cmake --preset clang "-DCMAKE_CXX_COMPILER=clang++-$clang" >build/fuzz.configure.log 2>&1 ||
    { cat build/fuzz.configure.log; die "the configuration failed"; }
  ninja -C build/clang -j "${jobs:-$(default_jobs)}" fuzzers || die "the build failed"
fi

# A finding ends the program, so does an allocation far above the input's size (MiB).
export ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=0:${ASAN_OPTIONS:-}" UBSAN_OPTIONS="print_stacktrace=1:${UBSAN_OPTIONS:-}"
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm  # inputs that are files: in memory
# The timeout is wall time, which a busy machine stretches.
limits=(-timeout=60 -malloc_limit_mb=64 -rss_limit_mb=3000)

run_target() {
  local target=$1 program=build/clang/tests/fuzz_$1 corpus=build/fuzz/$1 log=build/fuzz/$1.log dictionary=()
  mkdir -p "$corpus" build/fuzz/findings
  if [ -n "$minimize" ]; then
    "$program" "${limits[@]}" -minimize_crash=1 -max_total_time=60 "-exact_artifact_path=$minimize.small" "$minimize"
    return
  fi
  [ ! -e "tests/fuzz/dictionaries/$target.dict" ] || dictionary=("-dict=tests/fuzz/dictionaries/$target.dict")
  if "$program" "${limits[@]}" ${dictionary[@]+"${dictionary[@]}"} "-max_total_time=$seconds" "-max_len=$(bytes_of "$target")" -print_final_stats=1 \
    "-artifact_prefix=build/fuzz/findings/$target-" "$corpus" "tests/fuzz/seeds/$target" >"$log" 2>&1; then
    printf '%-16s ok      %12s runs  %6s covered\n' "$target" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
      "$(grep -oE 'cov: [0-9]+' "$log" | tail -1 | cut -d' ' -f2)"
  else
    printf '%-16s FAILED\n%s\n' "$target" "$(grep -vE '^#[0-9]+	' "$log" | tail -40)"
    echo "$target" >>"$failures"
  fi
}

mkdir -p build/fuzz
failures=build/fuzz/failed.txt
: >"$failures"
for target in "${targets[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "$parallel" ]; do wait -n; done
  run_target "$target" &
done
wait
[ ! -s "$failures" ] || { printf 'failed: %s\n' "$(tr '\n' ' ' <"$failures")"; exit 1; }
