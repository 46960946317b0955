#!/usr/bin/env bash
# Measures Mortar with random weights of the published sizes, beside a torch.compile decoder where PyTorch is installed,
# and beside llama.cpp if LLAMA_BENCH names its llama-bench (built for the GPU). Files of up to 16 GB for it are written
# into LLAMA_MODELS (default: /dev/shm) and removed again.
#
#   bench/mortar/run.sh MORTAR [OUT]
#
# MORTAR is the program. OUT (default: .) gets mortar.jsonl, peers.jsonl, a chart per model and mortar.txt with what went
# wrong. MORTAR_BENCH_DEVICE=cpu tries the script with a small model where there is no GPU.
#
#   --help          this text
set -uo pipefail
case ${1:-} in
  -h | --help | '') awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0"; exit 0 ;;
esac
mortar=$(readlink -f "$1") out=${2:-.}
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
mkdir -p "$out"
failed=0
export -n MORTAR_BENCH_DEVICE  # which is none of the program's variables

bench() {  # <model> <options>
  local model=$1
  shift
  "$mortar" bench "$model" --random-weights 1 --json --svg "$out/$(basename "$model").svg" "$@" >>"$out/mortar.jsonl" 2>>"$out/mortar.txt" || failed=1
}
peer() {
  python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null || return 0
  python3 bench/mortar/torch_decoder.py "$@" >>"$out/peers.jsonl" 2>>"$out/mortar.txt" || failed=1
}

llama() {  # <model> <options of llama-bench>; its rows in the form of mortar's
  [ -n "${LLAMA_BENCH:-}" ] || return 0
  local model=$1 file
  file=${LLAMA_MODELS:-/dev/shm}/$(basename "$model").gguf
  shift
  trap 'rm -f "$file"; exit 130' INT TERM
  python3 bench/mortar/random_gguf.py "$model" "$file" 2>>"$out/mortar.txt" &&
    "$LLAMA_BENCH" -m "$file" -fa 1 -r 3 -o jsonl "$@" 2>>"$out/mortar.txt" | python3 -c '
import json, sys
for r in map(json.loads, sys.stdin):
    name = "pp%d" % r["n_prompt"] if r["n_prompt"] else "tg%d" % r["n_gen"]
    test = name + ("@%d" % r["n_depth"] if r["n_depth"] else "")
    print(json.dumps({"peer": "llama.cpp", "model": sys.argv[1], "test": test, "tokens_per_s": r["avg_ts"]}))
' "$(basename "$model")" >>"$out/peers.jsonl" || failed=1
  rm -f "$file"
  trap - INT TERM
}

: >"$out/mortar.jsonl"
: >"$out/peers.jsonl"
: >"$out/mortar.txt"
if [ "${MORTAR_BENCH_DEVICE:-}" = cpu ]; then
  bench tests/mortar/data/models/dense-tied --device cpu --prompt-tokens 64 --generate 16 --context 0,64 --batch 1,4 --max-context 128 --repetitions 2
  llama tests/mortar/data/models/dense-tied -p 64 -n 16 -d 0,64
else
  configs=bench/mortar/configs
  for size in 0.6B 4B 8B; do
    bench $configs/Qwen3-$size --prompt-tokens 128,2048,8192 --context 0,512,32768 --max-context 33000
    peer $configs/Qwen3-$size --context 0,512
    llama $configs/Qwen3-$size -p 2048 -n 128 -d 0,512
  done
  bench $configs/Qwen3-32B --prompt-tokens 2048 --context 0,512 --max-context 4096
  bench $configs/Qwen3-30B-A3B --prompt-tokens 2048 --context 0,512 --max-context 4096
  bench $configs/Qwen3-8B-FP8 --prompt-tokens 2048 --context 0,512 --max-context 4096
  bench $configs/Qwen3-8B --prompt-tokens 0 --context 128 --generate 256 --batch 1,8,32,64,128,256 --max-context 512 --repetitions 3
fi
python3 - "$out" <<'PYTHON'
import json, pathlib, sys
out = pathlib.Path(sys.argv[1])
peers = {}
for line in (out / "peers.jsonl").read_text().splitlines():
    row = json.loads(line)
    peers.setdefault((row["model"], row["test"]), []).append((row.get("peer", "torch.compile"), row["tokens_per_s"]))
for line in (out / "mortar.jsonl").read_text().splitlines():
    r = json.loads(line)
    beside = peers.get((r["model"], r["test"]), [])
    share = f"{100 * r['share_of_read_roof']:5.1f} %" if r["share_of_read_roof"] else "      -"
    print(f"{r['model']:16} {r['test']:16} {r['tokens_per_s']:10.1f} tok/s {r['ms_per_step']:9.3f} ms/step {share}" +
          "".join(f"  {r['tokens_per_s'] / speed:5.2f} x {peer} ({speed:.1f})" for peer, speed in beside))
PYTHON
exit $failed
