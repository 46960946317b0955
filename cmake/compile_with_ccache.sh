#!/usr/bin/env bash
# How CMake calls the compiler where there is ccache:
#
#   compile_with_ccache.sh <ccache> <top source folder> <compiler> <argument>...
#
# ccache tells a precompiled header by its bytes, and these hold the folder it was made in: a clone elsewhere would find
# none of the objects made with one. So a precompiled header is compiled here, never fetched (its paths are this clone's),
# and beside it comes a file .sum with a checksum of all it was made from, names relative to the source folder. ccache
# takes that for the header's contents (its manual: pch_external_checksum, and "Precompiled headers" for the two kinds of
# sloppiness that these need).
set -euo pipefail
ccache=$1 root=$2
shift 2
export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=true

case " $* " in
  *" c++-header "*) ;;
  *) exec "$ccache" "${@/#"$PWD"\//}" ;;  # ccache leaves the paths behind clang's -Xclang absolute
esac
"$@"
output='' rule='' previous=''
for argument in "$@"; do
  case $previous in
    -o) output=$argument ;;
    -MF) rule=$argument ;;
  esac
  previous=$argument
done
# The dependencies are a rule of make: "output: file file \". Names with spaces are not understood: then ccache takes the
# bytes, as without a checksum.
checksum() {
  local files prefix
  files=$(sed -e 's/^[^ ]*: *//' -e 's/\\$//' "$rule")
  prefix=$(printf '%s/' "$root" | sed 's/[][\.*^$|]/\\&/g')
  # shellcheck disable=SC2086
  { "$1" --version && echo "$@" && cat $files; } | sed "s|$prefix||g" | sha256sum
}
if sum=$(checksum "$@" 2>/dev/null); then echo "$sum" >"$output.sum"; else rm -f "$output.sum"; fi
