#!/usr/bin/env bash
# How CMake calls the compiler where there is ccache:
#
#   compile_with_ccache.sh <ccache> <top source folder> <compiler> <argument>...
#
# The bytes of a precompiled header are a part of the cache key of every object that uses it, and they contain the path
# of the folder where it was compiled. So a clone in another folder would get no cache hit for these objects. Therefore a
# precompiled header is always compiled, not taken from the cache, and a file .sum is written beside it: a checksum of the
# compiler's version, its arguments and the contents of all included files, without the path of the source folder. ccache
# hashes that file instead of the header (its manual: pch_external_checksum, and "Precompiled headers" for the two
# settings of sloppiness that these need).
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
# The dependency file is a rule of make: "output: file file \". Escaped spaces in names are not handled: then there is no
# checksum, and ccache hashes the bytes of the header.
checksum() {
  local files prefix
  files=$(sed -e 's/^[^ ]*: *//' -e 's/\\$//' "$rule")
  prefix=$(printf '%s/' "$root" | sed 's/[][\.*^$|]/\\&/g')
  # shellcheck disable=SC2086
  { "$1" --version && echo "$@" && cat $files; } | sed "s|$prefix||g" | sha256sum
}
if sum=$(checksum "$@" 2>/dev/null); then echo "$sum" >"$output.sum"; else rm -f "$output.sum"; fi
