#!/usr/bin/env bash
# What needs several GPUs: the tests of meshes, all-reduce by size compared with torch.distributed, Mortar by number of devices,
# a server, and a model in several processes, of which one is killed or stopped.
#
#   scripts/several-gpus.sh [options]
#
# Each step has a time limit and cannot stop the later ones; failures are listed at the end. NVLink multicast stays off.
#
#   --only STEPS    only the named steps: build, tests, reduce, exact, mortar, serve, processes
#                   (comma-separated)
#   --gpus N        uses the first N GPUs (default: all)
#   --models LIST   folders with a config.json, or names of bench/mortar/configs, for the step mortar, which takes random
#                   weights (default: Qwen3-8B,Qwen3-32B,Qwen3-30B-A3B)
#   --build DIR     uses an existing build folder instead of building (release preset, TESSERA_BUILD_GPU_CHECK=ON)
#   --prefix DIR    looks here first for GoogleTest with its CMake package, nlohmann-json and Boost (CMAKE_PREFIX_PATH)
#   --out DIR       where the results go (default: build/several-gpus): summary.txt, tests.txt, reduce.jsonl,
#                   exact.txt, mortar.jsonl, serve.txt, processes.txt
#   --device D      cuda (default), or cpu to try this script with ranks on the CPU
#   --jobs N        compiles N files at a time (default: the processors)
#   --help          this text
set -uo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

steps=build,tests,reduce,exact,mortar,serve,processes known=$steps gpus='' models=Qwen3-8B,Qwen3-32B,Qwen3-30B-A3B build='' prefix='' out='' device=cuda jobs=''
while [ $# -gt 0 ]; do
  case $1 in
    --only) steps=${2:?--only needs a list of steps}; shift ;;
    --gpus) gpus=${2:?--gpus needs a number}; shift ;;
    --models) models=${2:?--models needs a list}; shift ;;
    --build) build=${2:?--build needs a folder}; shift ;;
    --prefix) prefix=${2:?--prefix needs a folder}; shift ;;
    --out) out=${2:?--out needs a folder}; shift ;;
    --device) device=${2:?--device needs cuda or cpu}; shift ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift ;;
    -h | --help) usage "$0"; exit 0 ;;
    *) die "unknown option $1; see scripts/several-gpus.sh --help" ;;
  esac
  shift
done
for step in ${steps//,/ }; do [[ ,$known, == *,$step,* ]] || die "unknown step $step; there are ${known//,/, }"; done
if [ "$device" = cpu ]; then
  gpus=${gpus:-2}
else
  gpus=${gpus:-$(nvidia-smi --list-gpus 2>/dev/null | wc -l)}
  [ "$gpus" -ge 2 ] || die "expected at least two GPUs, found $gpus; --device cpu tries this script without"
fi
cd "$root" || exit 1
out=${out:-build/several-gpus}
mkdir -p "$out" && out=$(cd "$out" && pwd)
if [ -n "$build" ]; then build=$(realpath "$build") steps=${steps/build,/}; else build=$root/build/several-gpus/build; fi
jobs=${jobs:-$(nproc)}
export NCCL_NVLS_ENABLE=0 TESSERA_MESH_TIMEOUT=30
wanted() { [[ ,$steps, == *,$1,* ]]; }
counts=(1) && for ((n = 2; n <= gpus; n *= 2)); do counts+=("$n"); done  # devices of one model

summary=() failed=no
record() {  # <step> <outcome> <text>
  summary+=("$(printf '%-8s %-8s %s' "$1" "$2" "$3")")
  [ "$2" = ok ] || [ "$2" = skipped ] || failed=yes
  printf '%s\n' "${summary[@]}" >"$out/summary.txt"
}

do_build() {
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O2 -DTESSERA_BUILD_TESTS=ON -DTESSERA_BUILD_TOOLS=OFF \
    -DTESSERA_BUILD_GPU_CHECK=ON ${prefix:+"-DCMAKE_PREFIX_PATH=$prefix"} ${prefix:+"-DTESSERA_GTEST_PREFIX=$prefix"} >"$out/build.txt" 2>&1 &&
    timeout 900 ninja -C "$build" -j "$jobs" gpu_test_nccl gpu_test_mesh collective_bench mortar_command test_mortar_parallel >>"$out/build.txt" 2>&1
}

# The memory checker leaves out what NCCL asks the driver and expects to fail.
do_tests() {
  local program code=0 checker=(compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 9)
  for program in gpu_test_nccl gpu_test_mesh; do
    timeout 300 "$build/tests/gpu/$program" >>"$out/tests.txt" 2>&1 || code=1
  done
  if [ -x "$build/tests/test_mortar_parallel" ]; then
    timeout 900 "$build/tests/test_mortar_parallel" --gtest_filter='MortarExact.*:MortarFast.*' >>"$out/tests.txt" 2>&1 || code=1
  fi
  [ "$device" = cuda ] && command -v compute-sanitizer >/dev/null || return $code
  timeout 300 "${checker[@]}" "$build/tests/gpu/gpu_test_mesh" --gtest_filter='*Graphs*' >>"$out/tests.txt" 2>&1 || code=1
  return $code
}

# All-reduce from 8 KB to 64 MB, in the same minutes as the peer's; a table of both.
do_reduce() {
  local n most=$((64 << 20))
  [ "$device" = cuda ] || most=65536
  for n in "${counts[@]:1}"; do
    timeout 120 "$build/bench/mesh/collective_bench" --device "$device" --ranks "$n" --most $most >>"$out/reduce.jsonl" || return 1
    python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null || continue
    timeout 180 python3 -m torch.distributed.run --standalone --nproc-per-node "$n" bench/mesh/torch_collectives.py >>"$out/reduce.jsonl" 2>"$out/torch.txt" || return 1
  done
  python3 - "$out/reduce.jsonl" <<'PY'
import json, sys
rows = {}
for r in map(json.loads, open(sys.argv[1])):
    rows.setdefault((r["ranks"], r["how"], r["bytes"]), {})[r["program"]] = r["us"]
print("ranks  how        bytes      us      torch us  torch / ours")
for (ranks, how, size), us in sorted(rows.items()):
    peer = us.get("torch")
    print(f"{ranks:5}  {how:8} {size:9}  {us['tessera']:8.2f}  " + (f"{peer:8.2f}  {peer / us['tessera']:.2f}" if peer else "       -     -"))
PY
}

small=$root/tests/mortar/data/models
# generate <model> <devices> <options>: tokens and log-probabilities.
generate() {
  local model=$1 n=$2
  shift 2
  timeout 120 "$mortar" generate "$model" --device "$first" --tensor-parallel "$n" --prompt-ids 5,9,14,3,8,20 --max-tokens 40 --ignore-eos --temperature 1 --seed 7 \
    --logprobs 3 --max-context 256 --quiet "$@"
}
# In the exact mode, several devices give the text of one.
do_exact() {
  local model n code=0 one
  for model in dense-tied dense-untied moe; do
    one=$(generate "$small/$model" 1 --exact 2>>"$out/exact.txt") || return 1
    for n in "${counts[@]:1}"; do
      [ "$n" -le 4 ] || continue  # what these models can be divided by
      if [ "$model" = dense-untied ] && [ "$n" = 4 ]; then continue; fi
      if [ "$(generate "$small/$model" "$n" --exact 2>>"$out/exact.txt")" = "$one" ]; then
        echo "$model on $n devices: as on one" >>"$out/exact.txt"
      else
        echo "$model on $n devices: DIFFERS" >>"$out/exact.txt" && code=1
      fi
    done
  done
  return $code
}

# One sequence, and 64 at a time: tokens per second and the share of the roofline of one device.
do_mortar() {
  local model folder n code=0 sizes=(--prompt-tokens 512 --generate 128 --context 0 --batch "1,64" --max-context 2048)
  [ "$device" = cuda ] || sizes=(--prompt-tokens 64 --generate 16)
  for model in ${models//,/ }; do
    folder=$model && [ -f "$folder/config.json" ] || folder=bench/mortar/configs/$model
    for n in "${counts[@]}"; do
      timeout 300 "$mortar" bench "$folder" --random-weights 1 --device "$first" --tensor-parallel "$n" --json "${sizes[@]}" 2>>"$out/mortar.txt" |
        sed "s/^{/{\"devices\": $n, /" >>"$out/mortar.jsonl" || code=1
    done
  done
  return $code
}

# A server on all devices whose process is stopped by SIGTERM while it answers: it answers, and ends with 0.
do_serve() {
  local port=$((20000 + RANDOM % 20000)) pid code=0 n=${counts[-1]}
  [ "$n" -le 4 ] || n=4
  "$mortar" serve "$small/dense-tied" --device "$first" --tensor-parallel "$n" --port $port --max-context 256 >"$out/serve.txt" 2>&1 &
  pid=$!
  for _ in $(seq 600); do curl -sf -o /dev/null "http://127.0.0.1:$port/ready" && break; sleep 0.2; done
  curl -s "http://127.0.0.1:$port/v1/completions" -H 'Content-Type: application/json' -d '{"prompt": [5, 9, 14], "max_tokens": 100, "ignore_eos": true}' >>"$out/serve.txt" || code=1
  kill -TERM $pid
  timeout 60 tail --pid=$pid -f /dev/null || { kill -KILL $pid; code=1; }
  wait $pid || code=1
  return $code
}

# in_processes <n> <words of mortar>: a process for each rank, with the variables of torchrun; mpirun starts those without GPUs. The
# exit code of each is a line of ranks.txt, the output of rank 0 that of the function.
in_processes() {
  local n=$1 rank port=$((20000 + RANDOM % 20000)) all=()
  shift
  # shellcheck disable=SC2016
  local one='"$@"; code=$?; echo "${RANK:-$OMPI_COMM_WORLD_RANK} $code" >>"$0"; exit $code'
  : >"$out/ranks.txt"
  if [ "$device" = cpu ]; then
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe --enable-recovery -n "$n" sh -c "$one" "$out/ranks.txt" "$mortar" "$@" --device cpu
    return
  fi
  for ((rank = 0; rank < n; ++rank)); do
    RANK=$rank WORLD_SIZE=$n LOCAL_RANK=$rank LOCAL_WORLD_SIZE=$n MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
      sh -c "$one" "$out/ranks.txt" "$mortar" "$@" --device cuda </dev/null &
    all+=($!)
  done
  wait "${all[@]}"
}

# In the exact mode, several processes give the text of one device; a server of several processes ends when one of them does.
do_processes() {
  local model n code=0 one words
  if [ "$device" = cpu ] && ! command -v mpirun >/dev/null; then echo "skipped: no mpirun" >"$out/processes.txt"; return 0; fi
  words=(--exact --prompt-ids "5,9,14,3,8,20" --max-tokens 40 --ignore-eos --temperature 1 --seed 7 --logprobs 3 --max-context 256 --quiet)
  for model in dense-tied moe; do
    one=$(generate "$small/$model" 1 --exact 2>>"$out/processes.txt") || return 1
    for n in "${counts[@]:1}"; do
      [ "$n" -le 4 ] || continue
      if [ "$(in_processes "$n" generate "$small/$model" "${words[@]}" --tensor-parallel "$n" 2>>"$out/processes.txt")" = "$one" ]; then
        echo "$model in $n processes: as on one device" >>"$out/processes.txt"
      else
        echo "$model in $n processes: DIFFERS" >>"$out/processes.txt" && code=1
      fi
    done
  done
  rm -rf "$out/long" && cp -r "$small/dense-tied" "$out/long" || return 1
  sed -i 's/"max_position_embeddings": [0-9]*/"max_position_embeddings": 32768/' "$out/long/config.json"
  end_a_rank KILL || code=1
  end_a_rank STOP || code=1
  return $code
}
# A server of two processes answers, and the signal reaches the process of the last rank in the middle of an answer: the answer ends
# with an error, and the other process with 1. A stopped process ends only when this function kills it.
end_a_rank() {
  local signal=$1 n=2 port=$((20000 + RANDOM % 20000)) code=0 begin pid last
  rm -f "$out/processes-answer.txt"
  in_processes $n serve "$out/long" --tensor-parallel $n --port $port --max-context 32768 --quiet >"$out/processes-serve-$signal.txt" 2>&1 &
  pid=$!
  for _ in $(seq 600); do curl -sf -o /dev/null "http://127.0.0.1:$port/ready" && break; sleep 0.2; done
  curl -sN "http://127.0.0.1:$port/v1/completions" -H 'Content-Type: application/json' \
    -d '{"prompt": [5, 9, 14], "max_tokens": 30000, "ignore_eos": true, "stream": true}' >"$out/processes-answer.txt" &
  for _ in $(seq 500); do [ -s "$out/processes-answer.txt" ] && break; sleep 0.02; done
  last=$(rank_of_server $((n - 1)) $port) || return 1
  begin=$(date +%s%N)
  kill -"$signal" "$last"
  for _ in $(seq 1200); do grep -q "^0 " "$out/ranks.txt" && break; sleep 0.1; done
  echo "SIG$signal: $((($(date +%s%N) - begin) / 1000000)) ms until rank 0 has ended" | tee -a "$out/processes.txt"
  [ "$signal" = KILL ] || kill -KILL "$last" || code=1
  wait $pid
  echo "exit codes by rank: $(sort "$out/ranks.txt" | tr '\n' ' ')" | tee -a "$out/processes.txt"
  grep -q '"error"' "$out/processes-answer.txt" || { echo "the answer ends without an error" >>"$out/processes.txt" && code=1; }
  [ "$(sort "$out/ranks.txt" | tr '\n' ' ')" = "0 1 1 137 " ] || code=1
  return $code
}
# rank_of_server <rank> <port>: the process of that rank of the server on that port.
rank_of_server() {
  local entry
  for entry in /proc/[0-9]*; do
    [ "$(readlink "$entry/exe" 2>/dev/null)" = "$(realpath "$mortar")" ] || continue
    tr '\0' ' ' <"$entry/cmdline" | grep -q -- "--port $2 " || continue
    tr '\0' '\n' <"$entry/environ" | grep -qxE "(RANK|OMPI_COMM_WORLD_RANK)=$1" && basename "$entry" && return
  done
  return 1
}

first=$device && [ "$device" = cpu ] || first=cuda:0
if wanted build; then
  say "building"
  if do_build; then record build ok ""; else record build FAILED "see build.txt"; tail -n 20 "$out/build.txt"; exit 1; fi
fi
mortar=$build/mortar/mortar
for step in tests reduce exact mortar serve processes; do
  wanted $step || continue
  say "$step"
  start=$SECONDS
  if do_$step; then record $step ok "$((SECONDS - start)) s"; else record $step FAILED "$((SECONDS - start)) s; see $out"; fi
done
say "summary"
cat "$out/summary.txt"
[ $failed = no ]
