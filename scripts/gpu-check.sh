#!/usr/bin/env bash
# Builds Tessera on a machine with a GPU, runs the tests labelled gpu, NVIDIA's memory checkers and the benchmarks with their
# peers, and writes the results.
#
#   scripts/gpu-check.sh [options]
#
# Each step has a time limit and cannot stop the later ones; failures are listed at the end. Peers that are not installed
# (PyTorch, Triton, cuTile Python) are skipped.
#
#   --quick         tests and the first benchmarks (the default)
#   --full          everything
#   --only STEPS    only the named steps: build, smoke, tests, generate, sanitize, bench, flight, torch, soak, mortar,
#                   generality, tune (comma-separated). flight (bench/in_flight beside the driver's own API), torch
#                   (examples/torch_op) and soak (tests/soak) run with --full or if named. Only if named: mortar
#                   (bench/mortar/run.sh: the sizes of Qwen3 with random weights; 15 minutes), generality
#                   (bench/generality compared with PyTorch, then by hints; 20 minutes and more)
#   --soak N        the step soak takes N seconds (default: 600)
#   --tune N        after the others, for about N seconds: `tessera tune` of the plan's shapes (docs/tuning.md). Its
#                   report is tune.txt; its records are in h200.tune, where a second run with the same --out continues.
#                   Alone: --only build,tune --tune N
#   --minutes N     ends after about N minutes (default: 9.5 for --quick, 60 for --full); steps that do not fit are shortened
#   --bundle FILE   unpacks NVIDIA's assembler from FILE, as scripts/get-tileiras.sh --bundle has packed it
#   --prefix DIR    looks here first for GoogleTest and nlohmann-json (CMAKE_PREFIX_PATH); also an archive, as --pack makes
#   --wheels DIR    installs the wheels in DIR for the peers (cuTile Python)
#   --pack DIR      on a machine with packages: puts into DIR what a machine without them needs (the assembler's
#                   bundle, GoogleTest and nlohmann-json, cuTile Python for Python 3.12), prints the options to use there, and exits
#   --out DIR       where the results go (default: build/gpu-check/out): summary.txt, RESULTS.md, results.jsonl, tests.txt,
#                   sanitize.txt, generate.txt, smoke.txt, build.txt, machine.txt,
#                   flight.jsonl, flight.txt, timeline.svg, torch_op.txt, soak.txt
#   --groups LIST   only these groups of benchmarks (see bench/gpu/plan.py)
#   --commit ID     the commit in the results, for sources without git (default: git's HEAD)
#   --device D      cuda (default), or cpu to try this script where there is no GPU
#   --build DIR     uses an existing build folder instead of building (with TESSERA_BUILD_GPU_CHECK=ON)
#   --jobs N        compiles and test programs at a time (default: the processors)
#   --help          this text
set -uo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

mode=quick steps='' soak=600 minutes='' bundle='' prefix='' wheels='' pack='' out='' groups='' commit='' device=cuda jobs='' build='' tune=''
while [ $# -gt 0 ]; do
  case $1 in
    --quick) mode=quick ;;
    --full) mode=full ;;
    --only) steps=${2:?--only needs a list of steps}; shift ;;
    --minutes) minutes=${2:?--minutes needs a number}; shift ;;
    --bundle) bundle=${2:?--bundle needs a file}; shift ;;
    --prefix) prefix=${2:?--prefix needs a folder}; shift ;;
    --wheels) wheels=${2:?--wheels needs a folder}; shift ;;
    --pack) pack=${2:?--pack needs a folder}; shift ;;
    --out) out=${2:?--out needs a folder}; shift ;;
    --soak) soak=${2:?--soak needs a number of seconds}; shift ;;
    --tune) tune=${2:?--tune needs a number of seconds}; shift ;;
    --groups) groups=${2:?--groups needs a list}; shift ;;
    --commit) commit=${2:?--commit needs a name}; shift ;;
    --device) device=${2:?--device needs cuda or cpu}; shift ;;
    --build) build=${2:?--build needs a folder}; shift ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift ;;
    -h | --help) usage "$0"; exit 0 ;;
    *) die "unknown option $1; see scripts/gpu-check.sh --help" ;;
  esac
  shift
done
[ -n "$steps" ] || steps=build,smoke,tests,generate,sanitize,bench$([ $mode = quick ] || echo ,flight,torch,soak)
known='build|smoke|tests|generate|sanitize|flight|torch|bench|mortar|soak|generality|tune'  # in the order in which they run
for step in ${steps//,/ }; do [[ $step =~ ^($known)$ ]] || die "unknown step $step; there are ${known//|/, }"; done
[ -z "$tune" ] || [[ ,$steps, == *,tune,* ]] || steps=$steps,tune
# Seconds: a quick check leaves part of ten minutes for the benchmarks. checker_limit is for one program under one checker:
# one that hangs leaves half of the step to the others. (A part of gpu_test_kernels_gemm needs 110 under initcheck, which
# slows the compiler.)
checker_limit=300
if [ $mode = quick ]; then tests_limit=150 sanitize_limit=90; else tests_limit=900 sanitize_limit=600; fi
[ -n "$minutes" ] || { [ $mode = quick ] && minutes=9.5 || minutes=75; }
jobs=${jobs:-$(nproc)}
[ -n "$commit" ] || commit=$(git -C "$root" describe --always --dirty=+changes --exclude '*' 2>/dev/null || echo unknown)
[ -z "$out" ] || { mkdir -p "$out" && out=$(cd "$out" && pwd); }
[ -z "$bundle" ] || bundle=$(realpath "$bundle")
work=$root/build/gpu-check
out=${out:-$work/out}
if [ -n "$build" ]; then build=$(realpath "$build") steps=${steps/build,/}; else build=$work/build; fi
mkdir -p "$work/logs" "$out" "$build"
if [ -f "$prefix" ]; then
  mkdir -p "$work/prefix.carried" && tar -xf "$prefix" -C "$work/prefix.carried" && prefix=$work/prefix.carried
fi
[ -z "$prefix" ] || prefix=$(realpath "$prefix")
cd "$root" || exit 1
wanted() { [[ ,$steps, == *,$1,* ]]; }

# -- time --------------------------------------------------------------------------------------------------------------

deadline=$((SECONDS + $(awk "BEGIN { print int($minutes * 60) }") - 10))  # the last seconds are for the summary
left() { echo $((deadline > SECONDS ? deadline - SECONDS : 0)); }
# limit <seconds>: that many, or what is left.
limit() { local l; l=$(left); echo $((l < $1 ? l : $1)); }
# run_limited <seconds> <command...>: under a limit, killed for good 5 s later. 124: it ran past it.
run_limited() {
  local seconds
  seconds=$(limit "$1")
  shift
  [ "$seconds" -gt 0 ] || return 124
  timeout -k 5 "$seconds" "$@"
}

summary=() failed=no
record() {  # <step> <outcome> <seconds> <text>
  summary+=("$(printf '%-10s %-8s %5ss  %s' "$1" "$2" "$3" "$4")")
  [ "$2" = ok ] || [ "$2" = skipped ] || failed=yes
  printf '%s\n' "${summary[@]}" >"$out/summary.txt"
}

# -- packing for a machine without packages ----------------------------------------------------------------------------

pack_up() {
  local prefix=$work/packed file
  rm -rf "$prefix" && mkdir -p "$pack" "$prefix/include" "$prefix/lib" "$prefix/share/cmake"
  scripts/get-tileiras.sh --bundle "$pack/tileiras.tar.xz" || die "the assembler could not be packed"
  for file in /usr/lib/*/libgtest.a /usr/lib/*/libgtest_main.a; do
    [ -e "$file" ] || die "libgtest-dev is missing here: apt-get install libgtest-dev"
    cp "$file" "$prefix/lib/"
  done
  [ -d /usr/share/cmake/nlohmann_json ] || die "nlohmann-json3-dev is missing here: apt-get install nlohmann-json3-dev"
  cp -r /usr/share/cmake/nlohmann_json "$prefix/share/cmake/"
  cp -r /usr/include/gtest /usr/include/nlohmann "$prefix/include/"
  tar -cJf "$pack/prefix.tar.xz" -C "$prefix" . || die "the libraries could not be packed"
  python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp --platform "manylinux_2_28_$(uname -m)" \
    --platform "manylinux_2_17_$(uname -m)" --platform "manylinux2014_$(uname -m)" -d "$pack/wheels" cuda-tile==1.7.0 ||
    say "cuTile Python could not be fetched: its figures will be missing"
  du -sh "$pack"/*
  local there
  there=$(basename "$pack")
  echo "there: scripts/gpu-check.sh --commit $commit --bundle $there/tileiras.tar.xz --prefix $there/prefix.tar.xz --wheels $there/wheels"
}
if [ -n "$pack" ]; then pack_up; exit 0; fi

# -- what is here ------------------------------------------------------------------------------------------------------

describe_machine() {
  date -u '+%Y-%m-%d %H:%M UTC'
  echo "commit $commit"
  nproc | sed 's/$/ processors/'
  command -v nvidia-smi >/dev/null && run_limited 20 nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem --format=csv
  local tool
  for tool in c++ cmake ninja nvcc ncu compute-sanitizer python3; do
    printf '%-18s %s\n' "$tool" "$(command -v "$tool" >/dev/null && run_limited 20 "$tool" --version 2>&1 | grep -m1 -E '[0-9]+\.[0-9]+' || echo missing)"
  done
  run_limited 60 python3 -c '
import importlib
for name in ("torch", "triton", "cuda.tile", "numpy"):
    try: print(f"{name:18} {importlib.import_module(name).__version__}")
    except Exception as e: print(f"{name:18} missing ({type(e).__name__})")' 2>/dev/null
}

unpack_assembler() {
  local folder
  folder=$(scripts/get-tileiras.sh --where)
  if [ -n "$bundle" ] && [ ! -x "$folder/bin/tileiras" ]; then
    mkdir -p "$folder.part" && tar -xf "$bundle" -C "$folder.part" && mkdir -p "$folder" && mv "$folder.part"/* "$folder/" && rmdir "$folder.part"
  fi
  local tileiras=${TESSERA_TILEIRAS:-$folder/bin/tileiras}
  if [ -x "$tileiras" ]; then
    echo "tileiras           $(env -u CUDA_HOME "$tileiras" --version 2>&1 | grep -o 'V[0-9.]*$' | head -n 1)"
  else
    echo "tileiras           missing: nothing can be compiled for the GPU (scripts/get-tileiras.sh, or --bundle)"
  fi
}

# For the peers: what was carried, and the assembler where cuTile Python looks for it.
install_peers() {
  local tileiras=${TESSERA_TILEIRAS:-$(scripts/get-tileiras.sh --where)/bin/tileiras}
  [ ! -x "$tileiras" ] || export PATH=$PATH:${tileiras%/*}
  [ -n "$wheels" ] || return 0
  run_limited 120 python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target "$work/site" "$wheels"/*.whl &&
    export PYTHONPATH=$work/site${PYTHONPATH:+:$PYTHONPATH}
}

# -- building ----------------------------------------------------------------------------------------------------------

# First builds what the smoke test and the benchmarks need; the rest with -k, so that one broken file only affects one
# program.
do_build() {
  local start=$SECONDS log=$out/build.txt code
  run_limited 120 cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O2 -DTESSERA_BUILD_TESTS=OFF \
    -DTESSERA_BUILD_TOOLS="$(wanted tune && echo ON || echo OFF)" -DTESSERA_BUILD_GPU_CHECK=ON ${prefix:+"-DCMAKE_PREFIX_PATH=$prefix"} ${prefix:+"-DTESSERA_GTEST_PREFIX=$prefix"} >"$log" 2>&1 ||
    { tail -n 20 "$log"; record build FAILED $((SECONDS - start)) "cmake could not configure; see build.txt"; return 1; }
  if wanted tune && ! [[ ,$steps, =~ ,(smoke|tests|generate|sanitize|bench|flight|torch|soak|generality), ]]; then  # the tuner alone
    run_limited 400 ninja -C "$build" -j "$jobs" tessera_command >>"$log" 2>&1
  elif ! [[ ,$steps, =~ ,(smoke|tests|generate|sanitize|generality), ]]; then  # without the tests: the library and these programs
    local targets=(tessera_host tessera_measure)
    wanted bench && targets+=(gpu_bench gpu_warm_start)
    wanted flight && targets+=(in_flight_bench)
    wanted soak && targets+=(soak)
    wanted tune && targets+=(tessera_command)
    run_limited 500 ninja -C "$build" -j "$jobs" "${targets[@]}" >>"$log" 2>&1
  else
    run_limited 400 ninja -C "$build" -j "$jobs" gpu_small gpu_bench >>"$log" 2>&1
    run_limited 400 ninja -C "$build" -j "$jobs" -k 0 >>"$log" 2>&1
  fi
  code=$?
  if [ $code = 0 ]; then
    record build ok $((SECONDS - start)) "$(grep -c 'Building CXX' "$log") files, $jobs at a time"
  else
    grep -E -m 10 'error|FAILED' "$log" | sed 's/^/    /'
    record build FAILED $((SECONDS - start)) "$([ $code = 124 ] && echo 'ran past its limit' || echo "$(grep -c '^FAILED' "$log") targets; see build.txt")"
  fi
}

# -- running -----------------------------------------------------------------------------------------------------------

export TESSERA_DEVICE=$device
small=$build/tests/gpu/gpu_small

do_smoke() {
  local start=$SECONDS code
  [ -x "$small" ] || { record smoke FAILED 0 "gpu_small was not built"; return; }
  run_limited 180 "$small" >"$out/smoke.txt" 2>&1
  code=$?
  if [ $code = 0 ]; then
    record smoke ok $((SECONDS - start)) "$(tail -n 1 "$out/smoke.txt")"
  else
    grep -E 'WRONG|FAILED' "$out/smoke.txt" | head -n 20
    tail -n 3 "$out/smoke.txt"
    record smoke FAILED $((SECONDS - start)) "$([ $code = 124 ] && echo 'ran past its limit;') $(tail -n 1 "$out/smoke.txt" | cut -c1-100)"
  fi
}

# One process per test suite, so that a fault of the device spoils one suite.
run_suite() {  # <program> <suite> <log>
  local start=$SECONDS code
  timeout -k 5 240 "$1" --gtest_filter="$2*" --gtest_brief=1 >"$3" 2>&1
  code=$?
  case $code in
    0) ;;
    1) grep -E '^\[  FAILED  \] [A-Za-z_0-9/]+\.' "$3" | sort -u | awk '{ print $4 }' | sed 's/^/FAILED /' ;;
    124 | 137) echo "TIMEOUT $(basename "$1"):$2" ;;
    *) echo "CRASHED($code) $(basename "$1"):$2" ;;
  esac
  echo "DONE $(basename "$1"):$2 exit $code in $((SECONDS - start)) s: $(grep -E -m1 'tests? ran|PASSED' "$3" | tail -n 1)"
}
export -f run_suite

# An example checks itself; the device is chosen by the environment.
run_example() {  # <program> <log>
  local start=$SECONDS code
  (cd "$(dirname "$1")" && timeout -k 5 60 "$1") >"$2" 2>&1
  code=$?
  [ $code = 0 ] || echo "FAILED example $(basename "$1") (exit $code)"
  echo "DONE example $(basename "$1") exit $code in $((SECONDS - start)) s: $(grep -m1 '^RESULT' "$2")"
}
export -f run_example
run_one() { if [ "$2" = example ]; then run_example "$1" "$3"; else run_suite "$@"; fi; }
export -f run_one

do_tests() {
  local start=$SECONDS program suite list=$work/suites results=$work/results.txt number=0
  : >"$list"
  : >"$results"
  rm -rf "$work/logs/tests" && mkdir -p "$work/logs/tests"
  local faults=$build/tests/gpu/gpu_test_faults
  for program in "$build"/tests/gpu/gpu_test_*; do
    if [ ! -f "$program" ] || [ ! -x "$program" ] || [ "$program" = "$faults" ]; then continue; fi
    while read -r suite; do
      number=$((number + 1))
      printf '%s\0%s\0%s\0' "$program" "$suite" "$work/logs/tests/$number.txt" >>"$list"
    done < <(timeout 60 "$program" --gtest_list_tests 2>/dev/null | grep -E '^[A-Za-z0-9_/]+\.$')
  done
  for program in "$build"/examples/[0-9]* "$build"/tests/gpu/guide_[0-9]*; do
    if [ ! -f "$program" ] || [ ! -x "$program" ]; then continue; fi
    number=$((number + 1))
    printf '%s\0%s\0%s\0' "$program" example "$work/logs/tests/$number.txt" >>"$list"
  done
  if [ $number = 0 ]; then record tests FAILED 0 "no test program was built (is GoogleTest here? see --prefix)"; return; fi
  # shellcheck disable=SC2016
  TESSERA_CPU_THREADS=2 run_limited "$tests_limit" xargs -0 -n 3 -P "$jobs" bash -c 'run_one "$@"' run_one <"$list" >"$results" 2>&1
  local ended=$? bad done_
  # By itself: it asks for all of the card's memory, and for a moment has all that is free.
  if [ -x "$faults" ]; then
    number=$((number + 1))
    run_limited 120 bash -c 'run_one "$@"' run_one "$faults" Faults. "$work/logs/tests/$number.txt" >>"$results" 2>&1
  fi
  done_=$(grep -c '^DONE' "$results")
  bad=$(grep -cE '^(FAILED|TIMEOUT|CRASHED)' "$results")
  { grep -E '^(FAILED|TIMEOUT|CRASHED)' "$results"; echo; grep '^DONE' "$results" | sort; echo; echo "== output of what failed"; failed_output; } >"$out/tests.txt"
  local skipped
  skipped=$(grep -hE '^\[  SKIPPED \] [A-Za-z]' "$work"/logs/tests/*.txt 2>/dev/null | sort -u | wc -l)
  if [ "$bad" = 0 ] && [ $ended != 124 ] && [ "$done_" = $number ]; then
    record tests ok $((SECONDS - start)) "$number suites, $skipped tests skipped"
  else
    grep -E '^(FAILED|TIMEOUT|CRASHED)' "$results" | head -n 40
    record tests FAILED $((SECONDS - start)) "$bad of $number suites or tests ($done_ suites ended, $skipped tests skipped); see tests.txt"
  fi
}
# The output of failed suites, capped per suite so that the file stays small.
failed_output() {
  local file
  for file in "$work"/logs/tests/*.txt; do
    if ! grep -q '^\[  FAILED  \]' "$file" && grep -qE 'PASSED|SKIPPED|^RESULT' "$file"; then continue; fi
    echo "---- $(basename "$file")"
    head -c 6000 "$file"
    echo
  done
}

# One program under one of NVIDIA's checkers; the error exit code is 9. Before 2025.4 initcheck does not know bulk copies and
# reports memory that tensor copies (TMA) have stored as uninitialized. So its programs store without them.
check_memory() {  # <tool> <program> <log> <seconds> <part> <of parts of its tests>
  local start=$SECONDS code arguments=() settings=(GTEST_TOTAL_SHARDS="$6" GTEST_SHARD_INDEX=$(($5 - 1)) TESSERA_KEEP_MEMORY=0)
  [ "$(basename "$2")" != gpu_small ] || arguments=(--tiny)
  [ "$1" != initcheck ] || settings+=(TESSERA_TUNING=stores=view)
  timeout -k 5 "$4" env "${settings[@]}" compute-sanitizer --tool "$1" --target-processes application-only --error-exitcode 9 --print-limit 20 "$2" "${arguments[@]}" >"$3" 2>&1
  code=$?
  echo "$1 $(basename "$2")$([ "$6" = 1 ] || echo " ($5 of $6)") exit $code in $((SECONDS - start)) s: $(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$3" | tail -n 1 | sed 's/=* *//')"
}
export -f check_memory

# The small cases of every kernel; with --full the tests of the kernel library as well.
do_sanitize() {
  local start=$SECONDS tool program part parts number=0 list=$work/checks results=$work/checks.txt bad
  if ! command -v compute-sanitizer >/dev/null; then record sanitize skipped 0 "compute-sanitizer is not here"; return; fi
  [ -x "$small" ] || { record sanitize FAILED 0 "gpu_small was not built"; return; }
  local programs=("$small")
  [ $mode = quick ] || programs+=("$build"/tests/gpu/gpu_test_kernels_* "$build"/tests/gpu/gpu_test_{access,accumulators,control})
  rm -f "$work"/logs/sanitize-* "$list"
  # initcheck first: its programs are not in the compiler's cache. Those of many tests in parts (products take minutes).
  for tool in initcheck memcheck racecheck synccheck; do
    for program in "${programs[@]}"; do
      if [ ! -f "$program" ] || [ ! -x "$program" ]; then continue; fi
      parts=1
      if [ $tool = initcheck ] && [ "$program" != "$small" ] && [ "$(timeout 60 "$program" --gtest_list_tests 2>/dev/null | grep -c '^  ')" -ge 16 ]; then parts=4; fi
      for part in $(seq $parts); do
        number=$((number + 1))
        printf '%s\0%s\0%s\0%s\0%s\0%s\0' $tool "$program" "$work/logs/sanitize-$number.txt" "$(limit $((sanitize_limit < checker_limit ? sanitize_limit : checker_limit)))" "$part" $parts >>"$list"
      done
    done
  done
  # shellcheck disable=SC2016
  TESSERA_CPU_THREADS=2 run_limited "$sanitize_limit" xargs -0 -n 6 -P 8 bash -c 'check_memory "$@"' check_memory <"$list" >"$results" 2>&1
  bad=$(grep -cv ' exit 0 in ' "$results")
  {
    sort "$results"
    for program in "$work"/logs/sanitize-*.txt; do
      grep -qE 'SUMMARY: 0 (errors|hazards)' "$program" && continue
      echo "==== $(basename "$program")"
      head -c 8000 "$program"
    done
  } >"$out/sanitize.txt"
  if [ "$bad" = 0 ] && [ "$(wc -l <"$results")" = $number ]; then
    record sanitize ok $((SECONDS - start)) "$number runs of memcheck, racecheck, initcheck and synccheck are clean"
  else
    grep -v ' exit 0 in ' "$results" | head -n 12
    record sanitize FAILED $((SECONDS - start)) "$bad of $(wc -l <"$results") runs ($number wanted); see sanitize.txt"
  fi
}

# Random programs (docs/testing.md), in several processes that share the device, because the assembler takes most of the
# time.
do_generate() {
  local start=$SECONDS code count=5000 minutes=15 program
  [ $mode = full ] || { count=200 minutes=0.5; }
  program=$(find "$build/tests" -name test_generate -type f -perm -u+x | head -n 1)
  [ -n "$program" ] || { record generate FAILED 0 "test_generate was not built"; return; }
  run_limited 1200 "$program" --seed today --count $count --minutes $minutes --jobs "$jobs" --device >"$out/generate.txt" 2>&1
  code=$?
  if [ $code = 0 ]; then
    record generate ok $((SECONDS - start)) "$(tail -n 1 "$out/generate.txt")"
  else
    head -n 60 "$out/generate.txt"
    record generate FAILED $((SECONDS - start)) "$([ $code = 124 ] && echo 'ran past its limit;') $(tail -n 1 "$out/generate.txt" | cut -c1-160); see generate.txt"
  fi
}

do_bench() {
  local start=$SECONDS code seconds
  [ -x "$build/bench/gpu/gpu_bench" ] || { record bench FAILED 0 "gpu_bench was not built"; return; }
  # Twice: the first run fills the cache that the second one starts from.
  if [ "$device" = cuda ] && [ -x "$build/bench/gpu/gpu_warm_start" ]; then
    run_limited 60 "$build/bench/gpu/gpu_warm_start" >"$work/logs/cold_start.txt" 2>&1
    run_limited 60 "$build/bench/gpu/gpu_warm_start" 2>&1 | tee -a "$out/machine.txt"
  fi
  seconds=$(left)
  run_limited 3600 python3 bench/gpu/peers.py --bench "$build/bench/gpu/gpu_bench" --device "$device" --"$mode" --seconds $((seconds - 10)) --jobs "$jobs" \
    ${groups:+--groups "$groups"} --out "$out/results.jsonl" >"$work/logs/bench.txt" 2>"$work/logs/bench.err"
  code=$?
  run_limited 30 python3 bench/gpu/report.py "$out/results.jsonl" --commit "$commit" --machine "$out/machine.txt" --results "$out/RESULTS.md" >"$work/logs/report.txt" 2>&1
  cat "$work/logs/report.txt"
  if [ $code = 0 ]; then
    record bench ok $((SECONDS - start)) "$(tail -n 1 "$work/logs/report.txt")"
  else
    tail -n 5 "$work/logs/bench.err"
    record bench FAILED $((SECONDS - start)) "$([ $code = 124 ] && echo 'ran past its limit' || echo "exit $code"); $(tail -n 1 "$work/logs/report.txt")"
  fi
}

# Work in flight beside the driver's own API, and a picture of two streams.
do_flight() {
  local start=$SECONDS code program=$build/bench/in_flight/in_flight_bench arguments=() more=(--peers) machine
  [ -x "$program" ] || { record flight FAILED 0 "in_flight_bench was not built"; return; }
  machine=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1)
  [ "$device" = cuda ] || arguments=(--tiny) more=() machine="the CPU, tiny sizes"
  run_limited 240 "$program" --device "$device" ${arguments[@]+"${arguments[@]}"} --svg "$out/timeline.svg" >"$out/flight.jsonl" 2>"$out/flight.txt"
  code=$?
  cat "$out/flight.txt"
  run_limited 150 python3 bench/in_flight/table.py "$out/flight.jsonl" ${more[@]+"${more[@]}"} --commit "$commit" --machine "$machine" \
    --results "$out/RESULTS.md" >>"$out/flight.txt" 2>&1 || code=1
  tail -n 1 "$out/flight.txt"
  if [ $code = 0 ]; then
    record flight ok $((SECONDS - start)) "$(tail -n 1 "$out/flight.txt")"
  else
    record flight FAILED $((SECONDS - start)) "$([ $code = 124 ] && echo 'ran past its limit' || echo "exit $code"); see flight.txt"
  fi
}

# A kernel as an operator of PyTorch, built against the library as it is installed.
do_torch() {
  local start=$SECONDS code folder=$work/torch_op
  python3 -c 'import torch' 2>/dev/null || { record torch skipped 0 "PyTorch is not here"; return; }
  {
    run_limited 60 cmake --install "$build" --prefix "$work/prefix" &&
      run_limited 60 cmake -S examples/torch_op -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix" \
        -DPython3_EXECUTABLE="$(command -v python3)" &&
      run_limited 240 ninja -C "$folder" &&
      run_limited 180 python3 examples/torch_op/test_torch_op.py "$folder" --device "$device" &&
      run_limited 60 cmake -S bench/torch -B "$folder/bench" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix" \
        -DPython3_EXECUTABLE="$(command -v python3)" &&
      run_limited 240 ninja -C "$folder/bench" &&
      run_limited 240 python3 bench/torch/check.py --build "$folder/bench" --device "$device"
  } >"$out/torch_op.txt" 2>&1
  code=$?
  if [ $code = 0 ]; then
    record torch ok $((SECONDS - start)) "$(tail -n 1 "$out/torch_op.txt")"
  else
    grep -E -m 10 'FAILED|error' "$out/torch_op.txt" | cut -c1-200
    record torch FAILED $((SECONDS - start)) "$([ $code = 124 ] && echo 'ran past its limit' || echo "exit $code"); see torch_op.txt"
  fi
}

# Random operations in flight, compared with a sequential replay; memory is afterwards where it was.
do_soak() {
  local start=$SECONDS code seconds program
  program=$(find "$build/tests" -name soak -type f -perm -u+x | head -n 1)
  [ -n "$program" ] || { record soak FAILED 0 "soak was not built"; return; }
  seconds=$(($(limit $((soak + 30))) - 30))
  [ $seconds -ge 5 ] || { record soak FAILED 0 "no time was left"; return; }
  run_limited $((seconds + 30)) "$program" --seconds "$seconds" --seed today --device "$device" >"$out/soak.txt" 2>&1
  code=$?
  if [ $code = 0 ]; then
    record soak ok $((SECONDS - start)) "$(tail -n 1 "$out/soak.txt")"
  else
    record soak FAILED $((SECONDS - start)) "$([ $code = 124 ] && echo 'ran past its limit;') $(tail -n 1 "$out/soak.txt" | cut -c1-200); see soak.txt"
  fi
}

# Kernels as a newcomer writes them, compared with PyTorch, and, with --full, by hints.
do_generality() {
  local start=$SECONDS code program=$build/bench/generality/generality_bench hints=() short=()
  [ -x "$program" ] || { record generality FAILED 0 "generality_bench was not built"; return; }
  [ $mode = full ] || short=(--rounds 3 --ms 30)
  run_limited 3600 python3 bench/generality/peers.py --bench "$program" --device "$device" --seconds $(($(left) - 10)) \
    --jobs "$jobs" ${short[@]+"${short[@]}"} --out "$out/generality.jsonl" >"$out/generality.txt" 2>&1
  code=$?
  if [ $mode = full ]; then
    run_limited 3600 python3 bench/generality/peers.py --bench "$program" --device "$device" --hints --jobs "$jobs" \
      --out "$out/generality_hints.jsonl" >>"$out/generality.txt" 2>&1 && hints=(--hints "$out/generality_hints.jsonl")
  fi
  run_limited 30 python3 bench/generality/table.py "$out/generality.jsonl" ${hints[@]+"${hints[@]}"} 2>&1 | tee -a "$out/generality.txt" | tail -n 12
  if [ $code = 0 ]; then
    record generality ok $((SECONDS - start)) "$(wc -l <"$out/generality.jsonl") cases; see generality.txt"
  else
    record generality FAILED $((SECONDS - start)) "$([ $code = 124 ] && echo 'ran past its limit' || echo "exit $code"); see generality.txt"
  fi
}

# Mortar's tokens per second with random weights of all published sizes, beside a torch.compile decoder.
do_mortar() {
  local start=$SECONDS code program=$build/mortar/mortar
  [ -x "$program" ] || { record mortar FAILED 0 "the program mortar was not built (nlohmann-json3-dev)"; return; }
  [ "$device" = cuda ] || export MORTAR_BENCH_DEVICE=cpu
  run_limited $(($(left) - 10)) bench/mortar/run.sh "$program" "$out/mortar" 2>&1 | tee "$out/mortar_rows.txt"
  code=${PIPESTATUS[0]}
  if [ "$code" = 0 ]; then
    record mortar ok $((SECONDS - start)) "$(wc -l <"$out/mortar_rows.txt") rows; see mortar/"
  else
    record mortar FAILED $((SECONDS - start)) "$([ "$code" = 124 ] && echo 'ran past its limit' || echo "exit $code"); see mortar/mortar.txt"
  fi
}

# Tunes the plan's shapes and compares the defaults with the best that was found.
do_tune() {
  local start=$SECONDS code seconds tool=$build/tools/tessera shapes=(--plan)
  [ "$device" = cuda ] || shapes=(gemm n=128 "," softmax columns=512 rows=64)
  [ -x "$tool" ] || { record tune FAILED 0 "the tessera command was not built"; return; }
  seconds=$(($(limit $((${tune:-240} + 60))) - 60))  # what has begun by then still ends
  [ $seconds -ge 10 ] || { record tune FAILED 0 "no time was left"; return; }
  run_limited $((seconds + 60)) "$tool" tune "${shapes[@]}" --seconds "$seconds" -j "$jobs" --out "$out/h200.tune" >"$out/tune.txt" 2>&1
  code=$?
  sed -n '/^default compared with tuned/,$p' "$out/tune.txt"
  if [ $code = 0 ]; then
    record tune ok $((SECONDS - start)) "$(tail -n 1 "$out/tune.txt")"
  else
    record tune FAILED $((SECONDS - start)) "$([ $code = 124 ] && echo 'ran past its limit' || echo "exit $code"); $(tail -n 1 "$out/tune.txt" | cut -c1-120)"
  fi
}

say "the machine"
assembler=$(unpack_assembler 2>&1)
install_peers >"$work/logs/peers.txt" 2>&1  # needs the assembler in its place
{ describe_machine; echo "$assembler"; } 2>&1 | tee "$out/machine.txt"
torch_warm=''
if wanted bench && [ "$device" = cuda ] && [ $mode = full ] && python3 -c 'import torch' 2>/dev/null; then
  run_limited 300 python3 bench/gpu/peers.py --precompile >"$work/logs/precompile.txt" 2>&1 &
  torch_warm=$!
fi
for step in ${known//|/ }; do
  wanted "$step" || continue
  if [ "$(left)" -le 5 ]; then record "$step" FAILED 0 "no time was left"; continue; fi
  say "$step ($(left) s left)"
  [ $step != bench ] || [ -z "$torch_warm" ] || wait "$torch_warm"
  do_$step
done
[ -z "$torch_warm" ] || kill "$torch_warm" 2>/dev/null

say "summary ($SECONDS s)"
cat "$out/summary.txt"
[ $failed = no ] || exit 1
