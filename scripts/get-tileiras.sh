#!/usr/bin/env bash
# Fetches NVIDIA's Tile IR assembler from PyPI into the user's cache, where Tessera finds it.
#
#   scripts/get-tileiras.sh [options]
#
# It downloads the wheels nvidia-cuda-tileiras, nvidia-cuda-nvcc and nvidia-nvvm (about 120 MB, once) and keeps the three
# files that compiling needs (bin/tileiras, bin/ptxas, lib/libnvvm.so.4; 230 MB) and the disassembler bin/tileirdisasm. They
# are NVIDIA's, under the CUDA EULA: for your use, not to be distributed with a project. Needs no root, no GPU and no CUDA
# toolkit. Running it again does nothing if everything is in place.
#
#   --bundle FILE   also packs the three files as FILE (tar.xz, at most 54 MiB), for a machine without a package index:
#                   there `mkdir -p FOLDER && tar -xf FILE -C FOLDER`, with FOLDER as --where prints it
#   --force         fetches again even if everything is in place
#   --where         prints the folder and exits
#   --help          this text
#
# The folder is tileiras-VERSION under TESSERA_CACHE_DIR, else XDG_CACHE_HOME/tessera, else ~/.cache/tessera.
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

version=$(tileiras_version)
packages=(nvidia-cuda-tileiras nvidia-cuda-nvcc nvidia-nvvm)
needed=(bin/tileiras bin/ptxas lib/libnvvm.so.4)
kept=("${needed[@]}" bin/tileirdisasm)
most_bundle_bytes=$((54 * 1024 * 1024))
folder=${TESSERA_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/tessera}/tileiras-$version

bundle='' force=no
while [ $# -gt 0 ]; do
  case $1 in
    --bundle) bundle=${2:?--bundle needs a file name}; shift ;;
    --force) force=yes ;;
    --where) echo "$folder"; exit 0 ;;
    -h | --help) usage "$0"; exit 0 ;;
    *) die "unknown option $1; see scripts/get-tileiras.sh --help" ;;
  esac
  shift
done

# The assembler at $1 says the pinned version. CUDA_HOME would make it load another CUDA's libraries.
works() { env -u CUDA_HOME "$1/bin/tileiras" --version 2>/dev/null | grep -qF "V$version"; }
complete() {
  local file
  for file in "${kept[@]}"; do [ -s "$1/$file" ] || return 1; done
  works "$1"
}

check_machine() {
  [ "$(uname -s)" = Linux ] || die "NVIDIA's wheels of the assembler are for Linux here; on $(uname -s) run it in a Linux container"
  case $(uname -m) in
    x86_64 | aarch64) ;;
    *) die "NVIDIA has no assembler for $(uname -m): only x86_64 and aarch64" ;;
  esac
  command -v python3 >/dev/null || die "python3 is missing (apt-get install python3 python3-pip)"
  python3 -m pip --version >/dev/null 2>&1 ||
    die "pip is missing: apt-get install python3-pip, or python3 -m ensurepip --user. Then run this again."
  local parent=$folder free
  while [ ! -d "$parent" ]; do parent=$(dirname "$parent"); done
  free=$(df -Pk "$parent" | awk 'NR == 2 { print $4 }')
  [ "$free" -ge 1000000 ] || die "1 GB of free space is needed at $parent, there are $((free / 1000)) MB"
}

fetch() {
  local work package file
  check_machine
  mkdir -p "$(dirname "$folder")"
  work=$(mktemp -d "$(dirname "$folder")/.tileiras-XXXXXX")
  # shellcheck disable=SC2064  # the folder of now
  trap "rm -rf '$work'" EXIT
  for package in "${packages[@]}"; do
    say "fetching $package $version from the package index"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --dest "$work/wheels" \
      "$package==$version" ||
      die "pip could not fetch $package $version. Is there a network? (behind a proxy: export https_proxy=...; an index of your own: export PIP_INDEX_URL=...)"
  done
  say "unpacking"
  for file in "$work"/wheels/*.whl; do python3 -m zipfile -e "$file" "$work/all"; done
  for file in "${kept[@]}"; do
    local found
    found=$(find "$work/all/nvidia" -path "*/$file" | head -n 1)
    [ -n "$found" ] || die "$file is in none of the wheels of $version: did NVIDIA change their layout?"
    mkdir -p "$work/new/$(dirname "$file")"
    mv "$found" "$work/new/$file"
  done
  chmod +x "$work"/new/bin/*
  works "$work/new" || die "the fetched assembler does not run on this machine: $("$work/new/bin/tileiras" --version 2>&1 | head -n 1)"
  # Put in place by renaming, so that programs never see half of it.
  [ ! -e "$folder" ] || mv "$folder" "$work/old"
  mv "$work/new" "$folder"
  rm -rf "$work"
  trap - EXIT
}

make_bundle() {
  command -v xz >/dev/null || die "xz is missing (apt-get install xz-utils)"
  case $(uname -m) in x86_64) local filter=--x86 ;; *) local filter=--arm64 ;; esac
  say "packing $bundle (some minutes, 3 GB of memory)"
  tar -C "$folder" -cf - "${needed[@]}" | xz $filter --lzma2=preset=9e,dict=256MiB >"$bundle.part"
  mv "$bundle.part" "$bundle"
  local bytes
  bytes=$(stat -c %s "$bundle")
  [ "$bytes" -le "$most_bundle_bytes" ] || die "$bundle has $bytes bytes, more than the $most_bundle_bytes it should have"
  echo "$bundle: $((bytes / 1024 / 1024)) MiB; unpack it on the other machine with"
  echo "  d=\${XDG_CACHE_HOME:-\$HOME/.cache}/tessera/tileiras-$version; mkdir -p \$d && tar -xf $(basename "$bundle") -C \$d"
}

if [ "$force" = no ] && complete "$folder"; then
  echo "tileiras $version is in $folder already"
else
  fetch
  say "tileiras $version is in $folder"
fi
[ -z "$bundle" ] || make_bundle
