#!/usr/bin/env bash
# Runs `tessera get-tileiras` in a clone that has not built the command yet: it compiles that command alone, in some seconds.
#
#   scripts/get-tileiras.sh [options]
#
# The options are those of `tessera get-tileiras`; --help prints them.
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$root"

program=build/get-tileiras
sources=(tools/alone/get_tileiras.cpp tools/get_tileiras.cpp tools/download.cpp tools/wheel.cpp tools/child.cpp
  tools/command_rows.cpp tools/given.cpp tools/usage.cpp src/codegen/tileiras/folder.cpp src/base/env.cpp src/base/error.cpp
  src/base/format.cpp src/base/stack.cpp)
headers=(tools/*.hpp include/tessera/base/*.hpp include/tessera/codegen/tileiras/tileiras.hpp)
stale() {
  local file
  for file in "${sources[@]}" "${headers[@]}"; do [ "$program" -nt "$file" ] || return 0; done
  return 1
}
if stale; then
  command -v "${CXX:-c++}" >/dev/null || die "a C++20 compiler is missing (apt-get install g++)"
  mkdir -p build
  "${CXX:-c++}" -std=c++20 -Iinclude -Itools "${sources[@]}" -o "$program.$$" && mv "$program.$$" "$program"
fi
cd "$OLDPWD"
exec "$root/$program" "$@"
