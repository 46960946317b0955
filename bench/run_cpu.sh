#!/usr/bin/env bash
# Runs the CPU benchmarks on one and on two threads, three interleaved repetitions each, and prints the table of ratios
# (peer's median time / ours: above 1 is faster) that goes into bench/RESULTS.md.
#
# usage: bench/run_cpu.sh [BUILD_FOLDER]      default: build/release
set -euo pipefail
case "${1:-}" in --help | -h) sed -n '2,5p' "$0"; exit 0 ;; esac
build=${1:-build/release}
program=$build/bench/bench_cpu
[ -x "$program" ] || { echo "$program is missing: cmake --preset release && ninja -C $build bench_cpu" >&2; exit 1; }
# OpenBLAS takes a generic kernel on processors it does not know by name (virtual machines): name the best one that fits.
if [ -z "${OPENBLAS_CORETYPE:-}" ]; then
  if grep -qm1 avx512vl /proc/cpuinfo; then export OPENBLAS_CORETYPE=SkylakeX
  elif grep -qm1 avx2 /proc/cpuinfo; then export OPENBLAS_CORETYPE=Haswell; fi
fi
for threads in 1 2; do
  out=$(mktemp)
  TESSERA_DEVICE=cpu TESSERA_CPU_THREADS=$threads OPENBLAS_NUM_THREADS=$threads "$program" --benchmark_repetitions=3 \
    --benchmark_enable_random_interleaving=true --benchmark_min_time=0.3 --benchmark_format=json >"$out"
  python3 - "$out" "$threads" <<'PY'
import json, sys
rows = {}
for b in json.load(open(sys.argv[1]))["benchmarks"]:
    if b.get("aggregate_name") == "median":
        rows[b["run_name"].replace("/real_time", "")] = b
print(f"\n{sys.argv[2]} thread(s)\n\n| work | Tessera | peer | ratio |\n|---|---|---|---|")
for name, b in rows.items():
    if "tessera" not in name:
        continue
    peer = next(rows[name.replace("tessera", p)] for p in ("peer", "openblas") if name.replace("tessera", p) in rows)
    unit = "GFLOP/s" if "GFLOP/s" in b else "GB/s"
    print(f"| {name.replace('_tessera', '')} | {b[unit]:.1f} {unit} | {peer[unit]:.1f} | {peer['real_time'] / b['real_time']:.2f} |")
PY
  rm -f "$out"
done
