# Shared by the scripts: messages, Debian packages, compilers. Sourced, not run.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '\n==> %s\n' "$*"; }
die() {
  printf '\nerror: %s\n' "$*" >&2
  exit 1
}

# The options of a script are documented in the comment block at its top: everything from line 2 to the first other line.
usage() { awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$1"; }

# need <package> <probe>...: remembers the package unless all probes are there: a command, a header (x.h, x.hpp), a Python module (py:x), a file
# (by its path).
missing=()
has_header() {
  local found
  for found in /usr/include/"$1" /usr/local/include/"$1" /usr/include/*-linux-gnu/"$1"; do
    [ -e "$found" ] && return
  done
  return 1
}
need() {
  local package=$1 probe
  shift
  for probe in "$@"; do
    case $probe in
      *.h | *.hpp) has_header "$probe" ;;
      py:*) python3 -c "import ${probe#py:}" ;;
      /*) [ -e "$probe" ] ;;
      *) command -v "$probe" ;;
    esac >/dev/null 2>&1 || { missing+=("$package"); return; }
  done
}

need_to_build() {
  need g++ c++
  need cmake cmake
  need ninja-build ninja
  need ccache ccache
  need git git
  need python3 python3
  need libpng-dev png.h
  need nlohmann-json3-dev nlohmann/json.hpp
  need libboost-dev boost/asio.hpp boost/beast/http.hpp
  need libssl-dev openssl/ssl.h
  need libedit-dev histedit.h
}

# The compiler for 64-bit ARM, an emulator that runs its programs, and GoogleTest's sources, which are compiled for it.
need_to_cross_compile() {
  need g++-aarch64-linux-gnu aarch64-linux-gnu-g++ /usr/aarch64-linux-gnu/lib/libc.so.6
  need qemu-user qemu-aarch64
  need googletest /usr/src/googletest/CMakeLists.txt
}

# libFuzzer and its sanitizers, for clang $1.
need_to_fuzz() {
  need "clang-$1" "clang++-$1"
  need "libclang-rt-$1-dev" "/usr/lib/llvm-$1/lib/clang/$1/lib/linux/libclang_rt.fuzzer-$(uname -m).a"
}

# What programs of build/tsan need: the races that are none, and a program that finds the names in them. Clang's runtime
# looks for one of LLVM's, which is another package; addr2line is beside every linker.
tsan_options() { echo "suppressions=$root/tests/tsan.supp external_symbolizer_path=$(command -v addr2line) atexit_sleep_ms=50 ${TSAN_OPTIONS:-}"; }

# Runs a command as root, with sudo if need be.
as_root() {
  [ "$(id -u)" = 0 ] && { "$@"; return; }
  command -v sudo >/dev/null || die "this has to be run as root, and there is no sudo: $*"
  sudo "$@"
}

# Installs what `need` found missing; without apt-get, permissions or network it prints what to do instead.
install_missing() {
  [ ${#missing[@]} -gt 0 ] || return 0
  local command="apt-get install -y --no-install-recommends ${missing[*]}"
  [ "${may_install:-yes}" = yes ] || die "missing: ${missing[*]}. Install them with: sudo $command"
  command -v apt-get >/dev/null ||
    die "missing (named as in Debian): ${missing[*]}. There is no apt-get here; install their equivalents and run this again."
  [ "$(id -u)" = 0 ] || command -v sudo >/dev/null || die "missing: ${missing[*]}. As root, run: $command"
  say "installing Debian packages: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  as_root apt-get update -q -o Acquire::Retries=3 ||
    die "apt-get update failed. Is there a network, and does /etc/apt name a mirror that can be reached? (behind a proxy: export http_proxy=...)"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" ||
    die "apt-get could not install all of: ${missing[*]}. Debian 12 and Ubuntu 24.04 have them (Ubuntu: component universe); see its message above."
  missing=()
}

# The newest clang of at least 16: the one installed, else the first that the package lists offer. Prints its version.
clang_version() {
  local v
  for v in 16 17 18 19 20; do
    command -v "clang++-$v" >/dev/null && { echo "$v"; return; }
  done
  for v in 16 17 18 19 20; do
    apt-cache show "clang-$v" >/dev/null 2>&1 && { echo "$v"; return; }
  done
  echo 16
}

# The release of NVIDIA's assembler that everything here is tested with; it is defined in the library's header.
tileiras_version() {
  sed -n 's/.*kPinnedVersion = "\([0-9.]*\)".*/\1/p' "$root/include/tessera/codegen/tileiras/tileiras.hpp"
}

# PyTorch for the tests torch.* and for building the wheel, kept between runs: its build for CPUs from its own index (200 MB), or where that cannot be
# reached the one of PyPI, for GPUs (530 MB, 1.2 GB unpacked), with substitutes for NVIDIA's libraries. The import at the end compiles the modules
# that the tests use to bytecode, which they do not write themselves; pip would compile all.
get_torch() {
  local venv=${TESSERA_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/tessera}/torch-venv version=2.11.0
  local pip=("$venv/bin/pip" install -q --no-compile --disable-pip-version-check --retries 2)
  say "PyTorch $version"
  if [ "$(cat "$venv/version" 2>/dev/null)" != $version ]; then
    { python3 -m venv --clear "$venv" && "${pip[@]}" filelock typing-extensions sympy networkx jinja2 fsspec numpy "setuptools<82" &&
      { "${pip[@]}" --no-deps --timeout 10 --index-url "${TESSERA_TORCH_INDEX:-https://download.pytorch.org/whl/cpu}" "torch==$version" ||
        { "${pip[@]}" --no-deps --no-cache-dir "torch==$version" && "$root/scripts/torch_substitutes.py" "$venv"/lib/python3*/site-packages/torch; }; } &&
      "$venv/bin/python" -W ignore -c 'import torch._dynamo, torch._functorch.aot_autograd, torch._inductor.compile_fx'; } ||
      die "pip could not install PyTorch $version. Is there a network? (a mirror: PIP_INDEX_URL; a proxy: https_proxy)"
    echo $version >"$venv/version"
  fi
  # With the second setting, the tests fail without PyTorch instead of being skipped.
  export TESSERA_TORCH_PYTHON="$venv/bin/python" TESSERA_REQUIRE_TORCH=1
}

# Parallel compile jobs: the number of CPUs, but at most one per 1.5 GB of memory.
default_jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/MemAvailable/ { print int($2 / 1500000) }' /proc/meminfo)
  [ "$memory" -ge 1 ] || memory=1
  echo $((cores < memory ? cores : memory))
}

# Objects are shared by all build folders and clones of this project.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
export NINJA_STATUS='[%f/%t %es] '
