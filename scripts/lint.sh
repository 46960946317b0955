#!/usr/bin/env bash
# Static checks: clang-tidy (checks in .clang-tidy) over the sources that handle ownership (runtime, jit, host, examples and
# their tests), and searches of the syntax tree with clang-query: for `continue` in tile_if and host variables assigned in
# recorded regions, over everything that records kernels (examples, the library's kernels, the guide, tests), and for flows
# that refer to what ends before them. These look at several files at a time (tests/structure/batches.py); an eighth of the
# sources is compiled alone, to see whether they include what they use.
#
#   scripts/lint.sh [--clang VERSION] [--jobs N] [--share N]
#
#   --share N   looks at an N-th of the files, another one every day
set -uo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

clang=$(clang_version) jobs=$(default_jobs) share=1
while [ $# -gt 0 ]; do
  case $1 in
    --clang) clang=${2:?}; shift ;;
    --jobs) jobs=${2:?}; shift ;;
    --share) share=${2:?}; shift ;;
    -h | --help) usage "$0"; exit 0 ;;
    *) die "unknown option $1; see scripts/lint.sh --help" ;;
  esac
  shift
done
cd "$root" || exit 1
command -v "clang-tidy-$clang" >/dev/null || die "clang-tidy-$clang is not installed: apt-get install clang-tidy-$clang"

# The compile commands come from a clang configuration of everything; only the sources of the guide's programs are
# generated from it, and nothing is compiled.
database=build/lint
mkdir -p build
cmake --preset clang -B $database "-DCMAKE_CXX_COMPILER=clang++-$clang" >build/lint.log 2>&1 || { cat build/lint.log; exit 1; }

ninja -C "$database" guide_sources >build/lint.log || { cat build/lint.log; exit 1; }

status=0
mapfile -t owners < <(find src/runtime src/jit src/host tests/runtime tests/host tests/api examples kernels -name '*.cpp' -not -path 'examples/torch_op/*' 2>/dev/null | sort)  # torch_op needs PyTorch's headers
echo "clang-tidy: use after move"
moves=(python3 -B tests/structure/moves_lint.py --clang-tidy "clang-tidy-$clang")
"${moves[@]}" --fixtures || status=1
"${moves[@]}" --database "$database" --jobs "$jobs" --share "$share" "${owners[@]}" || status=1

echo "clang++: sources by themselves"
alone=(python3 -B tests/structure/alone_lint.py --compiler "clang++-$clang")
"${alone[@]}" --fixtures || status=1
"${alone[@]}" --database "$database" --jobs "$jobs" --share $((share * 8)) || status=1

for lint in regions flows; do
  echo "clang-query: $lint"
  search=(python3 -B "tests/structure/${lint}_lint.py" --clang-query "clang-query-$clang")
  "${search[@]}" --fixtures || status=1
  "${search[@]}" --database "$database" --tree --jobs "$jobs" --share "$share" || status=1
done
exit $status
