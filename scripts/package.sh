#!/usr/bin/env bash
# Builds the packages: a .deb of each library and command, and an archive for other systems. docs/packaging.md describes them.
#
#   scripts/package.sh [options]
#
#   --out FOLDER     where they go (default: build/package/packages)
#   --glibc VERSION  fails if a program of the archive needs a newer C library (default: 2.34)
#   --release        also tests the packages, adds an archive of the sources and the Python wheel (scripts/wheel.sh), and
#                    writes and prints SHA256SUMS: the list of what to upload. The tree must be clean.
#   --jobs N         compiles at a time (default: the processors, as memory allows)
#   --no-install     installs no Debian package and lists what is missing
#   --help           this text
#
# It builds in build/package: a quarter of an hour on two cores, less with the compiler's cache. The programs need the C
# library of the machine that builds, or an older one: what they need is read from them and printed.
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$root"

out=build/package/packages glibc=2.34 release=no jobs=''
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=${2:?--out needs a folder}; shift ;;
    --glibc) glibc=${2:?--glibc needs a version such as 2.34}; shift ;;
    --release) release=yes ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift ;;
    --no-install) may_install=no ;;
    -h | --help) usage "$0"; exit 0 ;;
    *) die "unknown option $1; see scripts/package.sh --help" ;;
  esac
  shift
done
[[ $glibc =~ ^[0-9]+\.[0-9]+$ ]] || die "--glibc takes a version such as 2.34, found $glibc"
if [ $release = yes ] && [ -n "$(git status --porcelain)" ]; then
  die "--release packs a commit: there are files that are changed or not committed (git status)"
fi

need_to_build
need dpkg-dev dpkg-shlibdeps
need xz-utils xz
need binutils strip
install_missing
jobs=${jobs:-$(default_jobs)}
mkdir -p build "$out"
out=$(cd "$out" && pwd)
build=build/package

pack() {  # <generator> [options of cpack]
  (cd $build && cpack -G "$@" -B "$out" >packages.log 2>&1) || { tail -n 20 $build/packages.log >&2; die "CPack failed"; }
  rm -rf "$out/_CPack_Packages"
}

say "the .deb packages"
# Both kinds come from one build: only the folder of libraries and what the commands are linked with differ.
cmake --preset package -DTESSERA_PORTABLE=OFF -UCMAKE_INSTALL_LIBDIR >$build.log 2>&1 || { tail -n 20 $build.log >&2; exit 1; }
grep -q libmortar_server.a $build/build.ninja || die "mortar serve would be missing: see $build.log"
ninja -C $build -j "$jobs"
rm -f "$out"/*.deb "$out"/tessera-*.tar.xz "$out"/*.whl "$out/SHA256SUMS"
pack DEB

say "the archive"
cmake --preset package -DTESSERA_PORTABLE=ON -DCMAKE_INSTALL_LIBDIR=lib >$build.log 2>&1 || { tail -n 20 $build.log >&2; exit 1; }
ninja -C $build -j "$jobs" tessera_command mortar_command
programs=($build/tools/tessera $build/mortar/mortar)
scripts/packaging/needs.py --limit "GLIBC_$glibc" "${programs[@]}" ||
  die "the archive would need more than glibc $glibc: build on an older system (docs/packaging.md), or pass --glibc"
needed=$(scripts/packaging/needs.py --glibc "${programs[@]}")
version=$(sed -n 's/^project(tessera VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
pack TXZ -D "CPACK_PACKAGE_FILE_NAME=tessera-$version-linux-$(uname -m)-glibc$needed"

if [ $release = yes ]; then
  say "the archive of the sources"
  git archive --format=tar --prefix="tessera-$version/" HEAD | xz -9 >"$out/tessera-$version-source.tar.xz"
  say "the packages, installed, used and removed"
  python3 tests/packages/debs.py --work $build/try "$out"
  python3 tests/packages/archive.py --work $build/try "$out"/tessera-"$version"-linux-*.tar.xz
  if command -v lintian >/dev/null; then
    lintian --fail-on error --tag-display-limit 0 "$out"/*.deb || die "lintian found errors"
  else
    echo "lintian is not installed: the packages were not held against Debian's policy"
  fi
  scripts/wheel.sh --out "$out" --glibc "$glibc" --jobs "$jobs"
  (cd "$out" && sha256sum -- *.deb *.tar.xz *.whl >SHA256SUMS)
  say "to upload from $out, for commit $(git rev-parse HEAD)"
  cat "$out/SHA256SUMS"
else
  say "in $out"
  ls -l "$out"
fi
