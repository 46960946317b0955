#!/usr/bin/env bash
# Measures the host cost of a launch and of a start with a warm cache, with a driver that does nothing (no GPU is needed), and
# prints the section "Host" of bench/RESULTS.md. Takes about half a minute; waits a while for a quiet machine.
#
# usage: bench/run_host.sh [--write] [BUILD_FOLDER]      default: build/release
#   --write   also puts the section into bench/RESULTS.md, replacing that of a former run
#   TESSERA_BENCH_LOAD (1.5) is the highest load average to begin with, TESSERA_BENCH_WAIT (300) how many seconds to wait for it.
set -euo pipefail
write=
case "${1:-}" in
  --help | -h) sed -n '2,7p' "$0"; exit 0 ;;
  --write) write=1; shift ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-build/release}
for program in bench_launch bench_start; do
  [ -x "$build/bench/$program" ] || { echo "$program is missing: cmake --preset release && ninja -C $build bench_launch bench_start" >&2; exit 1; }
done
load() { cut -d' ' -f1 /proc/loadavg; }
quiet() { awk -v l="$(load)" -v most="${TESSERA_BENCH_LOAD:-1.5}" 'BEGIN { exit !(l < most) }'; }
for ((waited = 0; waited < ${TESSERA_BENCH_WAIT:-300}; waited += 5)); do quiet && break; sleep 5; done
compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[^=]*=//p' "$build/CMakeCache.txt" | head -1)
export COMPILER="$("${compiler:-c++}" --version | head -1)" COMMIT="$(git -C "$here" rev-parse --short HEAD 2>/dev/null || true)" LOAD="$(load)"
LAUNCH=$("$build/bench/bench_launch")
START=$("$build/bench/bench_start")
export LAUNCH START
section=$(python3 - <<'PY'
import datetime, os, pathlib, re

model = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
section = "\n".join([
    "<!-- begin: bench/run_host.sh -->",
    "## Host",
    "",
    f"`bench/run_host.sh` at {os.environ['COMMIT'] or 'an unknown commit'}, {datetime.date.today()}: "
    f"{model[1] if model else 'unknown processor'}, {os.cpu_count()} processors, load {os.environ['LOAD']} when it began; "
    f"{os.environ['COMPILER']}. The driver is one that does nothing, so what is left is Tessera; on a GPU `bench/in_flight` "
    "compares a launch with the driver's own. Required: a launch at most 300 ns above the driver's, without allocation; passes and "
    "bytecode of the attention kernel at most 10 ms; a start with a warm cache at most 1 ms a kernel.",
    "",
    "```",
    os.environ["LAUNCH"],
    "",
    os.environ["START"],
    "```",
    "<!-- end: bench/run_host.sh -->",
])
print(section)
PY
)
echo "$section"
[ -z "$write" ] || "$here/put_section.py" "$here/RESULTS.md" <<<"$section"
