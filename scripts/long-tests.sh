#!/usr/bin/env bash
# Runs what finds more the longer it runs: random programs, fuzzing, operations in flight, random products, scans and
# pairs of operations, every kernel through NVIDIA's assembler for every GPU, the model checks that take long, and clients that leave a
# server in every state. docs/testing.md keeps the results.
#
#   scripts/long-tests.sh [options]
#
#   --minutes N     the time of each part (default: 60). What has to be built comes on top
#   --only PARTS    only these parts, comma-separated: programs, inputs, flight, products, scans, pairs, kernels,
#                   models, server (half of the time under the address sanitizer, half under the thread sanitizer),
#                   sanitizers (all tests with the address and undefined-behaviour sanitizers, whatever they take),
#                   races (all tests of what runs at the same time with the thread sanitizer, whatever they take),
#                   aarch64 (tests for 64-bit ARM in an emulator, whatever they take)
#   --write         adds the results to the table in docs/testing.md
#   --jobs N        processes at a time (default: the processors, as memory allows)
#   --together      as many parts at a time as --jobs says, each with one process: less of each part in less time
#   --no-build      runs what was built before
#   --help          this text
#
# scripts/test.sh --full gives programs, inputs, flight and scans half a minute each. The random numbers start from
# the day's date: the output has what repeats a failure.
set -uo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

minutes=60 known=programs,inputs,flight,products,scans,pairs,kernels,models,server,sanitizers,races,aarch64 parts='' write=no jobs='' build=yes together=no
while [ $# -gt 0 ]; do
  case $1 in
    --minutes) minutes=${2:?--minutes needs a number}; shift ;;
    --only) parts=${2:?--only needs a list of parts}; shift ;;
    --write) write=yes ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift ;;
    --together) together=yes ;;
    --no-build) build=no ;;
    -h | --help) usage "$0"; exit 0 ;;
    *) die "unknown option $1; see scripts/long-tests.sh --help" ;;
  esac
  shift
done
parts=${parts:-$known}
for part in ${parts//,/ }; do [[ ,$known, == *,$part,* ]] || die "unknown part $part; there are ${known//,/, }"; done
[[ $minutes =~ ^[0-9]+(\.[0-9]+)?$ ]] || die "--minutes needs a number, not '$minutes'"
cd "$root" || exit 1
jobs=${jobs:-$(default_jobs)}
seconds=$(awk "BEGIN { print int(60 * $minutes) }")
wanted() { [[ ,$parts, == *,$1,* ]]; }
logs=build/long-tests
mkdir -p $logs

# -- building: programs come from build/dev, what the sanitizers watch from build/clang and build/sanitizers ------------

arm_programs=(test_base test_ir test_lang test_passes test_codegen_cpu test_runtime test_host test_mortar_text test_mortar)
declare -A targets=([aarch64]="${arm_programs[*]} tessera_command mortar_command" [programs]=test_generate [flight]=soak [products]=test_kernels_programs [scans]=test_kernels_programs [pairs]=test_pairs [kernels]="assembled_programs assembled_gpu_programs"
  [inputs]=fuzzers [models]=test_runtime_model [server]=mortar_command [sanitizers]=all [races]=concurrency_tests)
# build_in <folder> <preset> <parts> [cmake options]: what these parts need, if they are wanted.
build_in() {
  local folder=$1 preset=$2 part needed=() more
  for part in $3; do wanted "$part" && read -ra more <<<"${targets[$part]}" && needed+=("${more[@]}"); done
  shift 3
  [ ${#needed[@]} -gt 0 ] || return 0
  cmake --preset "$preset" -B "build/$folder" "$@" >"$logs/$folder.configure.log" 2>&1 ||
    { cat "$logs/$folder.configure.log"; die "cmake could not configure build/$folder"; }
  ninja -C "build/$folder" -j "$jobs" "${needed[@]}" || die "the build failed"
}
build_parts() {
  local clang of_kernels=()
  clang=$(clang_version)
  need_to_build
  need libgtest-dev gtest/gtest.h
  need libgmock-dev gmock/gmock.h
  need mold mold
  need libboost-dev boost/asio.hpp
  wanted server && need libssl-dev openssl/ssl.h
  if wanted aarch64; then need_to_cross_compile; fi
  if wanted inputs || wanted models || wanted server || wanted sanitizers || wanted races; then need_to_fuzz "$clang"; fi
  install_missing
  if wanted kernels; then of_kernels=(-DTESSERA_BUILD_GENERALITY=ON -DTESSERA_GPU_TESTS_SHARE=1); fi
  build_in dev dev "programs flight products scans pairs kernels" "${of_kernels[@]}"
  build_in clang clang "inputs models server" "-DCMAKE_CXX_COMPILER=clang++-$clang" -DTESSERA_BUILD_GPU_TESTS=OFF
  build_in tsan tsan "server races" "-DCMAKE_CXX_COMPILER=clang++-$clang" -DTESSERA_BUILD_GPU_TESTS=OFF
  build_in aarch64 aarch64 "aarch64"
  build_in sanitizers clang "sanitizers" "-DCMAKE_CXX_COMPILER=clang++-$clang" -DTESSERA_BUILD_GPU_TESTS=OFF
}
[ $build = no ] || build_parts

# -- the parts: each writes its log, and one line about what it did as the last one -----------------------------------------

do_programs() { build/dev/tests/test_generate --seed today --minutes "$minutes" --jobs "$jobs"; }
# Every target has an equal share of the time.
do_inputs() {
  local count
  count=$(grep -c '^TESSERA_FUZZ(' tests/fuzz/targets.def)
  scripts/fuzz.sh --no-build --parallel "$jobs" --seconds $((seconds * jobs / count > 1 ? seconds * jobs / count : 1)) || return 1
  echo "$count targets"
}
do_flight() { build/dev/tests/soak --seconds "$seconds" --seed today --device cpu; }
# assembled <filter>: random kernels of a test, as many as there is time for.
assembled() {
  TESSERA_CACHE=0 TESSERA_TEST_SEED=$(date +%Y%m%d) TESSERA_TEST_FORMS=1000000 TESSERA_TEST_SECONDS=$seconds \
    build/dev/tests/test_kernels_programs --gtest_filter="$1"
}
do_products() { assembled 'Spills.*' && echo "$(grep -c 'bytes of stack$' $logs/products.txt) forms"; }
do_scans() { assembled 'Scans.*' && echo "$(grep -c ' of stack' $logs/scans.txt) kernels"; }
# Numbers of the day, 4000 at most; a run that has been stopped continues where its file ends.
do_pairs() {
  build/dev/tests/test_pairs --first today --count 4000 --seconds "$seconds" --results "$logs/pairs-$(date -u +%Y%m%d).txt"
}
# The time is for the programs that run on the CPU, and again for those of the GPU tests. First every row of the reject table,
# by both compilers: on one day CI has each row by one of them.
do_kernels() {
  TESSERA_TEST_ROUNDS=all ctest --test-dir build/dev --output-on-failure --no-tests=error -j "$jobs" -L reject | grep -E 'tests passed|\*\*\*Failed'
  [ "${PIPESTATUS[0]}" = 0 ] || return 1
  python3 tests/assemble/gpu_programs.py --all --programs build/dev/assembled_gpu_programs.txt \
    --null-driver "$(find build/dev -name libcuda.so.1 | head -n 1)" --jobs "$jobs" --seconds "$seconds" &&
    python3 tests/assemble/assemble_all.py --dumps build/dev/assemble --programs build/dev/assembled_programs.txt \
    --jobs "$jobs" --seconds "$seconds"
}
do_models() {
  build/clang/tests/test_runtime_model --gtest_brief=1 --gtest_filter='Model*.*AtRandom*:ModelAtRandom.*:ModelFailures.*:ModelGraphs.*'
}
# storm <build>: clients that leave in every state; a sanitizer's finding ends the server with another code than 0.
storm() {
  TSAN_OPTIONS=$(tsan_options) python3 tests/mortar/server_storm.py "build/$1/mortar/mortar" tests/mortar/data/models \
    tests/mortar/data/templates --seconds $((seconds / 2)) --seed "$(date +%Y%m%d)" --sanitized --patience 60
}
do_server() { storm clang && storm tsan && echo "$((seconds / 2)) s under each sanitizer"; }
# What build/clang leaves out of CI is tested here too.
do_sanitizers() {
  TESSERA_TEST_ROUNDS=all ctest --test-dir build/sanitizers --output-on-failure --no-tests=error -j "$jobs" -LE "structure|consumer|tileiras|reject" \
    -E '^Model.*AtRandom|^ModelFailures|^ModelGraphs|^pages' | grep -E 'tests passed|\*\*\*Failed|\*\*\*Exception|\*\*\*Timeout'
  return "${PIPESTATUS[0]}"
}
# What build/tsan leaves out of CI is tested here too.
do_races() {
  TESSERA_TEST_ROUNDS=all TSAN_OPTIONS=$(tsan_options) ctest --test-dir build/tsan --output-on-failure --no-tests=error -j "$jobs" \
    -L concurrency | grep -E 'tests passed|\*\*\*Failed|\*\*\*Exception|\*\*\*Timeout'
  return "${PIPESTATUS[0]}"
}
# Each program as a whole: the emulator would translate it anew for each test.
do_aarch64() {
  local program outcome=0 emulator=(qemu-aarch64 -L /usr/aarch64-linux-gnu)
  "${emulator[@]}" build/aarch64/tools/tessera doctor || outcome=1
  "${emulator[@]}" build/aarch64/mortar/mortar generate tests/mortar/data/models/dense-tied --device cpu --prompt-ids 1,2,3 --greedy \
    --ignore-eos --max-tokens 8 --max-context 256 --json || outcome=1
  for program in "${arm_programs[@]}"; do
    echo "$program"
    TESSERA_TEST_ROUNDS=all TESSERA_VERIFY=claims "${emulator[@]}" "build/aarch64/tests/$program" --gtest_brief=1 || outcome=1
  done
  echo "${#arm_programs[@]} programs of tests, both commands"
  return $outcome
}

failed=() rows=()
commit=$(git describe --always --dirty=+changes --exclude '*' 2>/dev/null || echo unknown)
# run_part <part>: its output into a file, its seconds into another one.
run_part() {
  local start=$SECONDS outcome=0
  "do_$1" >"$logs/$1.txt" 2>&1 || outcome=$?
  echo $((SECONDS - start)) >"$logs/$1.seconds"
  return $outcome
}
# report <part> <exit code>
report() {
  local part=$1 outcome taken
  taken=$(cat "$logs/$part.seconds" 2>/dev/null || echo 0)
  if [ "$2" = 0 ]; then
    outcome=$(tail -n 1 "$logs/$part.txt")
  else
    tail -n 60 "$logs/$part.txt"
    failed+=("$part")
    outcome="FAILED"
  fi
  printf '%s: %s (%s s)\n' "$part" "$outcome" "$taken"
  rows+=("| $(date -u +%Y-%m-%d) | $commit | $part | $(((taken + 30) / 60)) | ${outcome//|/,} |")
}
at_once=1
if [ $together = yes ]; then at_once=$jobs jobs=1; fi
todo=()
for part in ${known//,/ }; do ! wanted "$part" || todo+=("$part"); done
for ((first = 0; first < ${#todo[@]}; first += at_once)); do
  now=("${todo[@]:first:at_once}") processes=()
  say "${now[*]}"
  for part in "${now[@]}"; do
    run_part "$part" &
    processes+=($!)
  done
  for i in "${!now[@]}"; do
    wait "${processes[i]}"
    report "${now[i]}" $?
  done
done

if [ $write = yes ]; then
  python3 - docs/testing.md "${rows[@]}" <<'PY' || die "docs/testing.md has no table of long tests"
import sys
path, rows = sys.argv[1], sys.argv[2:]
text = open(path, encoding="utf-8").read()
head = "| date | commit | part | minutes | outcome |\n|---|---|---|---|---|\n"
if head not in text: sys.exit(1)
open(path, "w", encoding="utf-8").write(text.replace(head, head + "".join(row + "\n" for row in rows), 1))
PY
fi
[ ${#failed[@]} = 0 ] || die "failed: ${failed[*]}. Their output is in $logs/<part>.txt"
