#!/usr/bin/env bash
# Builds Tessera and its examples, runs every example and prints a table of what each computed; at last Mortar answers with
# a small model.
#
#   scripts/demo.sh [options]
#
# Missing Debian or Ubuntu packages are installed first (with sudo unless run as root). The build is in build/demo; it
# optimises the loops that kernels on the CPU run in, and host code little. Every example checks itself against a plain
# reference; the table has the error that it found.
#
#   --jobs N        compiles at a time (default: the processors, as memory allows)
#   --no-install    installs nothing and lists what is missing
#   --help          this text
set -uo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

jobs=''
while [ $# -gt 0 ]; do
  case $1 in
    --jobs) jobs=${2:?--jobs needs a number}; shift ;;
    --no-install) may_install=no ;;
    -h | --help) usage "$0"; exit 0 ;;
    *) die "unknown option $1; see scripts/demo.sh --help" ;;
  esac
  shift
done
cd "$root" || exit 1

need_to_build
install_missing
jobs=${jobs:-$(default_jobs)}

say "building the examples and Mortar (build/demo, $jobs jobs)"
mkdir -p build/demo
cmake --preset demo >build/demo/configure.log 2>&1 ||
  { cat build/demo/configure.log; die "cmake could not configure the build; its messages are above"; }
ninja -C build/demo -j "$jobs" || die "the build failed; the compiler's messages are above"

# Processor time of all that the script has run so far. The second line of `times` is that of the children, as 1m2.345s.
# In a pipe or $( ) it would be that of another process.
times >build/demo/times.txt
build_seconds=$(awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); sum += 60 * t[1] + t[2] } printf "%.0f", sum }' build/demo/times.txt)

# An example ends with a line per result: RESULT|name|size|error|milliseconds
say "running the examples"
rows=() failures=()
for source in examples/*.cpp; do
  name=$(basename "$source" .cpp)
  log=build/demo/$name.log
  printf '  %s\n' "$name"
  if ! (cd build/demo/examples && "./$name") >"$log" 2>&1; then
    failures+=("$name")
    rows+=("$name|-|-|-|FAILED")
    tail -n 20 "$log" | sed 's/^/    /'
  elif ! grep -q '^RESULT|' "$log"; then
    failures+=("$name")
    rows+=("$name|-|-|-|printed no result")
  else
    while IFS='|' read -r _ title size error time; do rows+=("$title|$size|$error|$time|ok"); done < <(grep '^RESULT|' "$log")
  fi
done

echo
printf '%s\n' "example|size|max error|ms|" "${rows[@]}" | awk -F'|' '
  { for (i = 1; i <= 5; i++) { cell[NR, i] = $i; if (length($i) > width[i]) width[i] = length($i) } }
  END {
    for (r = 1; r <= NR; r++) {
      printf "  %-*s  %-*s  %*s  %*s  %s\n", width[1], cell[r, 1], width[2], cell[r, 2], width[3], cell[r, 3], width[4], cell[r, 4], cell[r, 5]
      if (r == 1) { line = sprintf("%*s", width[1] + width[2] + width[3] + width[4] + width[5] + 8, ""); gsub(/ /, "-", line); print "  " line }
    }
  }'
echo
say "an answer of the small Qwen3 model of the tests. Its weights are random: the text means nothing"
if [ ! -x build/demo/mortar/mortar ] ||
  ! build/demo/mortar/mortar generate tests/mortar/data/models/dense-untied --prompt "What is a tile?" --max-tokens 40 --max-context 256 --seed 1; then
  failures+=("mortar")
fi
[ ${#failures[@]} -eq 0 ] || die "failed: ${failures[*]}. Their output is in build/demo/<name>.log"
echo "All examples agree with their references, and Mortar answered (with a model of random weights, so its text means nothing). The build took $build_seconds s of processor time."
