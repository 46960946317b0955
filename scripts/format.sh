#!/usr/bin/env bash
# Formats every C++ file of the project with clang-format 16 (or the files given).
#
#   scripts/format.sh [files...]
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
case ${1:-} in -h | --help) usage "$0"; exit 0 ;; esac
cd "$root"
command -v clang-format-16 >/dev/null || die "clang-format 16 is not installed: apt-get install clang-format-16"
if [ $# -gt 0 ]; then
  clang-format-16 -i "$@"
else
  find include src mortar tests examples bench tools \( -name '*.hpp' -o -name '*.cpp' \) -print0 2>/dev/null | xargs -0 clang-format-16 -i
fi
