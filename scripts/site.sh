#!/usr/bin/env bash
# Builds the documentation site from docs/ into build/site. A link that leads nowhere, a missing anchor, a page that stands
# nowhere in the navigation or any other warning fails.
#
#   scripts/site.sh            builds
#   scripts/site.sh --serve    builds, and serves the pages at http://127.0.0.1:8000 until it is stopped; changes show at once
#   scripts/site.sh --help     this text
#
# The generator is mkdocs with the theme Material, from PyPI into the user's cache, at the versions pinned below. Debian 12
# and Ubuntu 24.04 package mkdocs 1.4 and 1.5, which do not check anchors.
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

pins=(mkdocs==1.6.1 mkdocs-material==9.8.1 pymdown-extensions==13.1 Markdown==3.11.3 Pygments==2.21.0)
serve=no
while [ $# -gt 0 ]; do
  case $1 in
    --serve) serve=yes ;;
    -h | --help) usage "$0"; exit 0 ;;
    *) die "unknown option $1; see scripts/site.sh --help" ;;
  esac
  shift
done
cd "$root"
command -v python3 >/dev/null || die "python3 is not installed: apt-get install python3 python3-venv"

venv=${TESSERA_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/tessera}/site-venv
if [ "$(cat "$venv/pins" 2>/dev/null)" != "${pins[*]}" ]; then
  say "the site generator from PyPI (${pins[*]})"
  { python3 -m venv --clear "$venv" && "$venv/bin/pip" install -q --disable-pip-version-check --retries 5 "${pins[@]}"; } ||
    die "pip could not install ${pins[*]}. Is there a network? (a mirror: PIP_INDEX_URL; a proxy: https_proxy; python3 -m venv needs python3-venv)"
  echo "${pins[*]}" >"$venv/pins"
fi

# Material prints a notice about the future of mkdocs unless this is disabled.
export NO_MKDOCS_2_WARNING=1 PYTHONDONTWRITEBYTECODE=1
if [ $serve = yes ]; then
  exec "$venv/bin/mkdocs" serve --dev-addr 127.0.0.1:8000 --watch scripts/docs
fi
"$venv/bin/mkdocs" build --strict --clean
echo "build/site: $(find build/site -name '*.html' | wc -l) pages; open build/site/index.html, or serve it: its search needs a server"
