#!/usr/bin/env bash
# Builds Tessera and runs its tests.
#
#   scripts/test.sh [options]
#
# Missing Debian or Ubuntu packages are installed first (with sudo unless run as root). Each step builds in build/<step>.
#
#   --full          all that CI runs: also clang with its typestate checks and the address and undefined-behaviour
#                   sanitizers, the thread sanitizer, a selection of tests for 64-bit ARM in an emulator, half a minute of
#                   each of the long tests, clang-tidy and clang-query, the documentation site, NVIDIA's assembler over
#                   every kernel (both fetched from PyPI), and Mortar's page in Chromium (Debian's package, installed in
#                   a minute) and behind nginx and HAProxy (unpacked into the cache)
#   --torch         also the tests torch.* and those of the Python package with PyTorch (python.torch, python.operators,
#                   python.gradients), with PyTorch in an environment of its own in the cache (0.5 GB to fetch)
#   --only STEPS    only the named steps: dev, clang, tsan, aarch64, long, lint, docs (comma-separated)
#   --jobs N        compiles and tests at a time (default: the processors, as memory allows)
#   --filter REGEX  runs only the tests whose names match
#   --no-install    installs nothing and lists what is missing
#   --help          this text
#
# Each step's processor time is printed beside the limit in docs/testing.md, "How long the tests take"; a step that needs
# more fails.
set -uo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

steps=dev jobs='' filter='.' full=no torch=no
while [ $# -gt 0 ]; do
  case $1 in
    --full) full=yes steps=dev,clang,tsan,aarch64,long,lint,docs ;;
    --torch) torch=yes ;;
    --only) steps=${2:?--only needs a list of steps}; shift ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift ;;
    --filter) filter=${2:?--filter needs a regular expression}; shift ;;
    --no-install) may_install=no ;;
    -h | --help) usage "$0"; exit 0 ;;
    *) die "unknown option $1; see scripts/test.sh --help" ;;
  esac
  shift
done
wanted() { [[ ,$steps, == *,$1,* ]]; }
for step in ${steps//,/ }; do
  [[ $step =~ ^(dev|clang|tsan|aarch64|long|lint|docs)$ ]] || die "unknown step $step; there are dev, clang, tsan, aarch64, long, lint and docs"
done
cd "$root" || exit 1

need_to_build
need libgtest-dev gtest/gtest.h
need libgmock-dev gmock/gmock.h
need mold mold
need dpkg-dev dpkg-shlibdeps
clang=$(clang_version)
if wanted clang || wanted lint; then need "clang-$clang" "clang++-$clang"; fi
if wanted tsan; then need_to_fuzz "$clang"; fi
if wanted aarch64; then need_to_cross_compile; fi
if wanted long; then need_to_fuzz "$clang"; fi
if wanted lint; then
  need "clang-tidy-$clang" "clang-tidy-$clang"
  need "clang-tools-$clang" "clang-query-$clang"
fi
if [ $full = yes ]; then
  need clang-format-16 clang-format-16
  export TESSERA_FORMATTING_SHARE=4  # a fourth of the files, another one every day; `ctest -L structure` alone looks at all
fi
if [ $full = yes ] || [ $torch = yes ] || wanted docs; then need python3-venv py:ensurepip; fi
if [ $full = yes ]; then need openssl openssl; fi
if [ $full = yes ]; then need libopenmpi-dev mpicxx && need openmpi-bin mpirun; fi
install_missing
jobs=${jobs:-$(default_jobs)}

# Processor time of all commands that have ended, in seconds. The second line of `times` has it, as 1m2.345s; in a pipe or
# $( ) it would be that of another process.
measure_cpu() {
  times >build/times.txt
  cpu=$(awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); sum += 60 * t[1] + t[2] } printf "%.0f", sum }' build/times.txt)
}
# limit_of <step>: the processor minutes that docs/testing.md allows.
limit_of() { awk -F' *[|] *' -v step="$1" '$2 == step && NF == 7 { print $5; exit }' docs/testing.md; }

# One line per step for the end: name, outcome, seconds, processor minutes, counts.
mkdir -p build
summary=() failed=no step_start=0 step_cpu=0 total_cpu=0
begin() { step_start=$SECONDS && measure_cpu && step_cpu=$cpu; }
record() {  # <step> <outcome> <text>
  local outcome=$2 limit tenths
  measure_cpu
  total_cpu=$((total_cpu + cpu - step_cpu)) tenths=$(((cpu - step_cpu) / 6)) limit=$(limit_of "$1")
  if [ -z "$limit" ]; then
    outcome=FAILED
    say "docs/testing.md has no row for the step $1 in \"How long the tests take\""
  elif [ $tenths -gt $((10 * limit)) ]; then
    outcome=FAILED
    say "$1 took $((tenths / 10)) minutes of processor time; docs/testing.md allows $limit. Make it cheaper, or measure anew and change the table"
  fi
  summary+=("$(printf '%-6s %-7s %5ss  %3d.%d CPU minutes (limit %s)  %s' "$1" "$outcome" $((SECONDS - step_start)) $((tenths / 10)) $((tenths % 10)) "${limit:-none}" "$3")")
  [ "$outcome" = ok ] || failed=yes
}

# A step's title, the targets that it builds (none: all), the options of ctest, and those of CMake: set by the list of steps below.
declare -A titles targets test_options cmake_options
set_step() {  # <step> <title> <targets> <ctest options> [cmake options]
  titles[$1]=$2 targets[$1]=$3 test_options[$1]=$4 cmake_options[$1]=''
  [ $# -le 4 ] || cmake_options[$1]=$(printf '%q ' "${@:5}")
}

configure_and_build() {  # <step>
  local step=$1 options=()
  eval "options=(${cmake_options[$step]})"
  cmake --preset "$step" -DTESSERA_JOIN_SOURCES=ON "${options[@]}" >"build/$step.configure.log" 2>&1 || { cat "build/$step.configure.log"; return 1; }
  # shellcheck disable=SC2086
  ninja -C "build/$step" -j "$jobs" -k 20 ${targets[$step]}
}

# Jobs in the background are process groups of their own, which end with the script.
jobs_of_script=()
end_jobs() { for job in "${jobs_of_script[@]}"; do kill -- "-$job" 2>/dev/null; done; }
trap end_jobs EXIT

# Work of a later step that begins early, because tests wait for each other and for a time to pass: it runs at the lowest
# priority, one job at a time for each two, so that tests lose little. `collect` interrupts a build and goes on with it in the
# foreground; for anything else it waits. The processor time counts from then on, because the subshell ends no earlier.
ahead_of=''
ahead() {  # <step> <command>
  if [ -n "$ahead_of" ] || ! wanted "$1"; then return; fi
  ahead_of=$1
  rm -f "build/$1.collected"
  set -m
  (
    renice -n 19 $BASHPID >/dev/null
    jobs=$(((jobs + 1) / 2)) "${@:2}" >"build/$1.ahead.log" 2>&1
    status=$?
    until [ -e "build/$1.collected" ]; do sleep 0.1; done
    exit $status
  ) &
  ahead_pid=$!
  set +m
  jobs_of_script+=("$ahead_pid")
}
collect() {  # <step> <command>: the outcome of what began early, or of the command
  if [ "$ahead_of" != "$1" ]; then
    "${@:2}"
    return
  fi
  local status=0
  touch "build/$1.collected"
  if [ "$2" = configure_and_build ]; then
    kill -INT -- "-$ahead_pid" 2>/dev/null
    wait "$ahead_pid"
    ahead_of=''
    "${@:2}" || status=$?
    return $status
  fi
  wait "$ahead_pid" || status=$?
  ahead_of=''
  cat "build/$1.ahead.log"
  return $status
}

# One more at a time than there are processors: many tests of servers and of processes wait for a time to pass.
run_tests() {  # <step> [ctest options]
  local step=$1
  shift
  ASAN_OPTIONS=${asan_options:-}:${ASAN_OPTIONS:-} TSAN_OPTIONS=$(tsan_options) ctest --test-dir "build/$step" --output-on-failure --no-tests=error -j $((jobs + 1)) -R "$filter" "$@" 2>&1 | tee "build/$step.tests.log" |
    grep --line-buffered -vE '^ *Start +[0-9]+:|^ *[0-9]+/[0-9]+ Test .* Passed '
}

do_step() {  # <step> [<later step> <command>]: that begins while the tests run
  local step=$1
  wanted "$step" || return 0
  say "${titles[$step]} (build/$step, $jobs jobs)"
  begin
  rm -f "build/$step.tests.log"
  if ! collect "$step" configure_and_build "$step"; then
    record "$step" FAILED "the build failed; see above"
    return
  fi
  [ $# = 1 ] || ahead "${@:2}"
  say "${titles[$step]}: tests"
  # shellcheck disable=SC2086
  if run_tests "$step" ${test_options[$step]}; then
    record "$step" ok "$(grep 'tests passed' "build/$step.tests.log")"
  else
    record "$step" FAILED "$(grep 'tests passed' "build/$step.tests.log" || echo 'no tests ran')"
  fi
}

do_long() {
  wanted long || return 0
  say "half a minute of each of the long tests (build/dev, build/clang)"
  begin
  if scripts/long-tests.sh --minutes 0.5 --together --only programs,inputs,flight,scans --jobs "$jobs"; then
    record long ok ''
  else
    record long FAILED 'see above; scripts/long-tests.sh runs them alone'
  fi
}

do_docs() {
  wanted docs || return 0
  begin
  say "the documentation site, strictly"
  if scripts/site.sh; then
    record docs ok ''
  else
    record docs FAILED 'see above; scripts/site.sh builds it alone'
  fi
}

lint() { scripts/lint.sh --clang "$clang" --jobs "$jobs" --share 6; }
do_lint() {
  wanted lint || return 0
  begin
  say "clang-tidy and clang-query $clang"
  if collect lint lint; then
    record lint ok ''
  else
    record lint FAILED 'see above'
  fi
}

# NVIDIA's assembler and the package whose bytecode writer and text the tests compare with; kept between runs.
get_nvidia_packages() {
  local venv=${TESSERA_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/tessera}/test-venv
  local pins=("nvidia-cuda-tileiras==$(tileiras_version)" cuda-tile==1.7.0 numpy)
  say "NVIDIA's Tile IR tools from PyPI (${pins[*]})"
  if [ "$(cat "$venv/pins" 2>/dev/null)" != "${pins[*]}" ]; then
    { python3 -m venv --clear "$venv" && "$venv/bin/pip" install -q --disable-pip-version-check --retries 5 "${pins[@]}"; } ||
      die "pip could not install ${pins[*]}. Is there a network? (a mirror: PIP_INDEX_URL; a proxy: https_proxy)"
    echo "${pins[*]}" >"$venv/pins"
  fi
  TESSERA_TILEIRAS=$(echo "$venv"/lib/python3*/site-packages/nvidia/cu13/bin/tileiras)
  [ -x "$TESSERA_TILEIRAS" ] || die "$TESSERA_TILEIRAS is not there; remove $venv and try again"
  # With this setting, tests that need these tools fail instead of being skipped.
  export TESSERA_TILEIRAS TESSERA_PYTHON="$venv/bin/python" TESSERA_REQUIRE_TILEIRAS=1
}

# A checker of Python's types, and what the texts of Mortar are compared with, into the same environment; of dashscope only the
# vocabulary of Qwen is used.
get_text_packages() {
  local python=$TESSERA_PYTHON vocabulary=dashscope==2.0.2
  local pins=(mypy==2.4.1 tokenizers==0.23.3 jinja2==3.1.6 llguidance==1.9.1 openai==3.57.0 anthropic==2.14.0 schemathesis==4.32.5)
  local done_file=${TESSERA_PYTHON%/bin/python}/text-pins
  say "a checker of types, what Mortar is compared with, Qwen's vocabulary, and clients of the server from PyPI (${pins[*]} $vocabulary)"
  # With this setting, tests that need the clients fail instead of being skipped.
  export MORTAR_REQUIRE_CLIENTS=1
  [ "$(cat "$done_file" 2>/dev/null)" != "${pins[*]} $vocabulary" ] || return 0
  { "$python" -m pip install -q --disable-pip-version-check --retries 5 "${pins[@]}" &&
    "$python" -m pip install -q --disable-pip-version-check --retries 5 --no-deps "$vocabulary"; } ||
    die "pip could not install ${pins[*]} $vocabulary. Is there a network? (a mirror: PIP_INDEX_URL; a proxy: https_proxy)"
  echo "${pins[*]} $vocabulary" >"$done_file"
}

# What the page of the server is tested in: Debian's package, which starts nothing (120 MB, a minute). Ubuntu has a snap alone.
get_chromium() {
  command -v chromium >/dev/null && return
  is_package() {
    local about
    about=$(apt-cache show chromium 2>/dev/null)
    [[ $about == *Filename:*chromium* && $about != *snapd* ]]
  }
  is_package || { [ "${may_install:-yes}" = yes ] && as_root apt-get update -q -o Acquire::Retries=3; } || true
  if is_package; then
    need chromium chromium
    install_missing
  else
    export MORTAR_NO_CHROMIUM="the system has no package chromium"
    say "the page of the server is not tested: $MORTAR_NO_CHROMIUM"
  fi
}

# Programs that Debian packages as services, which are neither installed nor started: apt finds and fetches the packages
# that are missing here, and they are unpacked into the cache (some MB, seconds). A script for each program names the
# libraries.
get_debian_programs() {
  local cache=${TESSERA_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/tessera}/debian-programs packages=() pair name path libraries
  for pair in nginx:nginx haproxy:haproxy promtool:prometheus systemd-analyze:systemd; do
    PATH=$PATH:/usr/sbin command -v "${pair%:*}" >/dev/null || packages+=("${pair#*:}")
  done
  [ ${#packages[@]} -gt 0 ] || return 0
  export PATH=$cache/bin:$PATH
  [ "$(cat "$cache/packages" 2>/dev/null)" != "${packages[*]}" ] || return 0
  say "unpacking Debian packages into $cache: ${packages[*]}"
  [ "${may_install:-yes}" = yes ] || die "missing: ${packages[*]}. Without --no-install they are unpacked into $cache"
  rm -rf "$cache" && mkdir -p "$cache/archives/partial" "$cache/bin" "$cache/root"
  fetch() { apt-get install -y -q --no-install-recommends --download-only -o Acquire::Retries=3 -o Debug::NoLocking=1 -o "Dir::Cache::archives=$cache/archives" "${packages[@]}"; }
  fetch || { as_root apt-get update -q -o Acquire::Retries=3 && fetch; } || die "apt-get could not fetch ${packages[*]}; see its message above"
  for path in "$cache"/archives/*.deb; do dpkg-deb -x "$path" "$cache/root" || die "$path cannot be unpacked"; done
  libraries=$(find "$cache/root" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
  for pair in nginx:nginx haproxy:haproxy promtool:prometheus systemd-analyze:systemd; do
    name=${pair%:*}
    path=$(find "$cache/root" -type f -perm -u+x -path "*bin/$name" -print -quit)
    [ -z "$path" ] || printf '#!/bin/sh\nSYSTEMD_UNIT_PATH=%s: LD_LIBRARY_PATH=%s exec %s "$@"\n' \
      "$cache/root/lib/systemd/system:$cache/root/usr/lib/systemd/system" "$libraries" "$path" >"$cache/bin/$name"
  done
  chmod +x "$cache"/bin/*
  rm -rf "$cache/archives"
  echo "${packages[*]}" >"$cache/packages"
}
# PyTorch's wheel is unpacked while the others are fetched.
if [ $torch = yes ]; then
  set -m
  (get_torch) >build/torch.log 2>&1 &
  torch_job=$!
  set +m
  jobs_of_script+=("$torch_job")
fi
[ $full = no ] || { get_nvidia_packages && get_text_packages && get_chromium && get_debian_programs; }
if [ $torch = yes ]; then
  wait "$torch_job" || { cat build/torch.log; exit 1; }
  get_torch
fi

# The kernels of the benchmarks, 500 of them, are compiled and tested by the long tests (part kernels). The GPU tests are
# skipped here, and have to compile: a third of the programs each day.
gpu_share=1
[ $full = no ] || gpu_share=3
set_step dev "g++" "" "" "-DTESSERA_GPU_TESTS_SHARE=$gpu_share" ${TESSERA_PYTHON:+"-DTESSERA_PYTHON=$TESSERA_PYTHON"} ${TESSERA_TORCH_PYTHON:+"-DTESSERA_TORCH_PYTHON=$TESSERA_TORCH_PYTHON"} -DTESSERA_BUILD_GENERALITY=OFF
# One build for both: clang's diagnostics do not depend on the sanitizers, and the fuzzers and clang-tidy use it too.
# Not here: model checks that take long with the sanitizers (part models of the long tests; other exhaustive searches run), pages of commands, what
# the assembler makes of kernels, and whole models whose numbers are compared. The command, the examples, the programs of the
# guide and the tests of the kernel library have few pointers of their own. The long tests (part sanitizers) watch what is left out.
# Reports name eight callers of an allocation: recording thirty for each took a twentieth of the tests' time.
asan_options=malloc_context_size=8
set_step clang "clang $clang with its typestate checks, address and undefined-behaviour sanitizers" "" "-LE structure|consumer|tileiras|reject -E ^Model.*AtRandom|^ModelFailures|^ModelGraphs.(On|Leases|FailuresOf)|^pages|/GpuCode|/PublishedSizes|^NearTies|^Mortar(Exact|Fast)[.]|^MortarParallelLoad[.](Random|Plans)|/ExpertLayer|^MortarSampler.Draws|^mortar[.](command|load_command|server_fuzz|page|proxy|sizing|processes)|^mesh[.]mpi.*4$" "-DCMAKE_CXX_COMPILER=clang++-$clang" -DTESSERA_BUILD_GPU_TESTS=OFF -DTESSERA_BUILD_KERNEL_TESTS=OFF -DTESSERA_BUILD_GUIDE=OFF -DTESSERA_BUILD_TOOLS=OFF -DTESSERA_BUILD_EXAMPLES=OFF
# Compiled by clang, which takes half of g++'s time for it. Not here: what one thread computes, and what the assembler makes
# of kernels. The long tests (part races) have these too.
set_step tsan "thread sanitizer" concurrency_tests "-L concurrency -E ^(Elementwise|Elementary|Matmul|Chains|SameBits|Reproducible|NpyHeader)[.]|/GpuCode" "-DCMAKE_CXX_COMPILER=clang++-$clang" -DTESSERA_BUILD_GPU_TESTS=OFF
set_step aarch64 "64-bit ARM, cross-compiled and emulated" processor_tests "-L processor"

do_step dev clang configure_and_build clang
do_step clang tsan configure_and_build tsan
do_step tsan aarch64 configure_and_build aarch64
do_step aarch64 lint lint
do_long
do_lint
do_docs

# The first step runs every kind of test; its closing lines stand for the run. The summary comes last, where the end of a
# long log shows it, with the tests that failed in any step.
first=build/${steps%%,*}.tests.log
[ ! -e "$first" ] || sed -n '/% tests passed/,$p' "$first"
say "summary"
for step in ${steps//,/ }; do
  [ ! -e "build/$step.tests.log" ] || sed -n '/tests FAILED:/,$p' "build/$step.tests.log" | grep -E ' - .* \(' | grep -vE '\((Skipped|Disabled|Not Run)' | sed "s/^[[:space:]]*/$step: /"
done
printf '%s\n' "${summary[@]}"
printf 'all: %s minutes, %s minutes of processor time\n' $(((SECONDS + 30) / 60)) $(((total_cpu + 30) / 60))
if [ $full = yes ] && [ $total_cpu -gt $((60 * $(limit_of all))) ]; then
  echo "docs/testing.md allows $(limit_of all) minutes of processor time for all steps together"
  failed=yes
fi
[ $failed = no ] || exit 1
