#!/usr/bin/env bash
# Runs the CPU benchmarks on one and on two threads, repetitions of Tessera and peers interleaved at random, and prints the
# section "CPU" of bench/RESULTS.md: medians, and the peer's time over Tessera's (above 1: Tessera is faster).
# Rows of f32, bf16 and f16 are compared with a copy of as many bytes. Takes about six minutes on a quiet machine.
#
# usage: bench/run_cpu.sh [--write] [BUILD_FOLDER]      default: build/release
#   --write   also puts the section into bench/RESULTS.md, replacing that of a former run
#   TESSERA_BENCH_REPETITIONS (5) and TESSERA_BENCH_FILTER (all) are passed to Google Benchmark.
set -euo pipefail
write=
case "${1:-}" in
  --help | -h) sed -n '2,8p' "$0"; exit 0 ;;
  --write) write=1; shift ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-build/release}
program=$build/bench/bench_cpu
[ -x "$program" ] || { echo "$program is missing: cmake --preset release && ninja -C $build bench_cpu" >&2; exit 1; }
# OpenBLAS takes a generic kernel, four times slower, on processors it does not know by number (new ones, virtual ones): select
# the best of its kernels that runs here, so that the peer runs at its full speed.
if [ -z "${OPENBLAS_CORETYPE:-}" ]; then
  if grep -qm1 avx512vl /proc/cpuinfo; then export OPENBLAS_CORETYPE=SkylakeX
  elif grep -qm1 avx2 /proc/cpuinfo; then export OPENBLAS_CORETYPE=Haswell; fi
fi
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
for threads in 1 2; do
  [ "$threads" -le "$(nproc)" ] || continue
  TESSERA_DEVICE=cpu TESSERA_CPU_THREADS=$threads OPENBLAS_NUM_THREADS=$threads "$program" \
    --benchmark_filter="${TESSERA_BENCH_FILTER:-.}" --benchmark_repetitions="${TESSERA_BENCH_REPETITIONS:-5}" \
    --benchmark_enable_random_interleaving=true --benchmark_min_time=0.2 --benchmark_format=json >"$results/$threads"
done
compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[^=]*=//p' "$build/CMakeCache.txt" | head -1)
export COMPILER="$("${compiler:-c++}" --version | head -1)" COMMIT="$(git -C "$here" rev-parse --short HEAD 2>/dev/null || true)"
section=$(python3 - "$results" <<'PY'
import json, os, pathlib, re, sys, textwrap

folder = pathlib.Path(sys.argv[1])
TITLES = {"add": "add, 2^26 elements", "saxpy": "saxpy, 2^26 elements"}

def title(work):
    if m := re.fullmatch(r"softmax<(\d+)>", work):
        return f"softmax, 2^26 elements, rows of {m[1]}"
    if m := re.fullmatch(r"matmul/(\d+)", work):
        return f"matrix multiply, n = {m[1]}"
    return TITLES.get(work, work)

lines, shares = [], []
for file in sorted(folder.iterdir()):
    report = json.loads(file.read_text())
    rows = {b["run_name"].split("/process_time")[0].replace("/real_time", ""): b
            for b in report["benchmarks"] if b.get("aggregate_name", "median" if b["repetitions"] == 1 else "") == "median"}
    in_order = sorted(rows.items(), key=lambda row: (row[1]["family_index"], row[1]["per_family_instance_index"]))
    for name, ours in in_order:  # the runs were shuffled
        if (m := re.fullmatch(r"(\w+)<(b?f\d+), (\d+)>", name)) and "copy" in rows:
            copy = rows["copy"]
            shares.append(f"| {m[1]} | {m[3]} | {m[2]} | {file.name} | {ours['GB/s']:.1f} GB/s | {copy['GB/s']:.1f} "
                          f"| {copy['real_time'] / ours['real_time']:.2f} | {copy['cpu_time'] / ours['cpu_time']:.2f} |")
        if "tessera" not in name:
            continue
        peer = next(rows[n] for p in ("peer", "openblas") if (n := name.replace("tessera", p)) in rows)
        unit = "GFLOP/s" if "GFLOP/s" in ours else "GB/s"
        lines.append(f"| {title(name.replace('_tessera', ''))} | {file.name} | {ours[unit]:.1f} {unit} | {peer[unit]:.1f} "
                     f"| {peer['real_time'] / ours['real_time']:.2f} | {peer['cpu_time'] / ours['cpu_time']:.2f} |")
context = report["context"]
model = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
load = max(json.loads(f.read_text())["context"]["load_avg"][0] for f in folder.iterdir())
section = "\n".join([
    "<!-- begin: bench/run_cpu.sh -->",
    "## CPU",
    "",
    textwrap.fill(
        f"`bench/run_cpu.sh` at {os.environ['COMMIT'] or 'an unknown commit'}, {context['date'][:10]}: "
        f"{model[1] if model else 'unknown processor'}, {context['num_cpus']} processors, load {load:.1f} when it began; "
        f"{os.environ['COMPILER']}; OPENBLAS_CORETYPE={os.environ.get('OPENBLAS_CORETYPE', 'unset')}. Medians of "
        "interleaved repetitions. The peers are the hand-vectorised loops of `bench/cpu_peers.cpp` and OpenBLAS, in f32; "
        "ratio: the peer's time over Tessera's, by the clock and by the processor time of all threads (which a busy "
        "machine distorts less).", 100, break_long_words=False, break_on_hyphens=False),
    "",
    "| work | threads | Tessera | peer | ratio | ratio of processor time |",
    "|---|---|---|---|---|---|",
    *lines,
    "",
    textwrap.fill("Rows of tensors of 256 MiB. The peer is a copy of as many bytes by `std::memcpy`, split over the threads; "
                  "share: the copy's time over Tessera's.", 100),
    "",
    "| kernel | columns | type | threads | Tessera | copy | share | share by processor time |",
    "|---|---|---|---|---|---|---|---|",
    *shares,
    "<!-- end: bench/run_cpu.sh -->",
])
print(section)
PY
)
echo "$section"
[ -z "$write" ] || "$here/put_section.py" "$here/RESULTS.md" <<<"$section"
