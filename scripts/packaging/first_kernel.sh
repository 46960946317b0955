#!/usr/bin/env bash
# Times what a new user waits for: from an empty Debian 12, with all packages at hand, to a kernel of one's own on the CPU
# (within three minutes) and to an operator of PyTorch (within five). Fails where it takes longer.
#
#   scripts/packaging/first_kernel.sh --wheel FILE [options]
#
#   --wheel FILE      the Python wheel, which scripts/wheel.sh makes
#   --torch FOLDER    wheels of PyTorch and of what it needs; without them the operator is left out
#   --root FOLDER     where the system is made (default: build/first-kernel); it is removed at the end
#   --help            this text
#
# It runs as root and needs debootstrap. Making the system and fetching Debian's packages is not counted; installing them is.
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
cd "$root"

wheel='' torch='' system=build/first-kernel
while [ $# -gt 0 ]; do
  case $1 in
    --wheel) wheel=${2:?--wheel needs a file}; shift ;;
    --torch) torch=${2:?--torch needs a folder}; shift ;;
    --root) system=${2:?--root needs a folder}; shift ;;
    -h | --help) usage "$0"; exit 0 ;;
    *) die "unknown option $1; see scripts/packaging/first_kernel.sh --help" ;;
  esac
  shift
done
[ -f "$wheel" ] || die "--wheel names no file: '$wheel'. scripts/wheel.sh makes the wheel"
[ -z "$torch" ] || [ -d "$torch" ] || die "--torch names no folder: '$torch'"
[ "$(id -u)" = 0 ] || die "a system is made and entered as root: run this as root"
command -v debootstrap >/dev/null || die "debootstrap is missing: apt-get install debootstrap"
[ ! -e "$system" ] || die "$system is there already: remove it, or name another folder with --root"

inside() { chroot "$system" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/srv LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"; }
leave() {
  for folder in /srv/torch /proc; do ! mountpoint -q "$system$folder" || umount "$system$folder"; done
  rm -rf --one-file-system "$system"
}
trap leave EXIT

say "an empty Debian 12, and its packages at hand (not counted)"
packages=(g++ cmake ninja-build python3-venv)
debootstrap --variant=minbase bookworm "$system" >build/first-kernel.log 2>&1 || { tail -n 5 build/first-kernel.log >&2; die "debootstrap failed"; }
mount -t proc proc "$system/proc"
inside apt-get -q update >>build/first-kernel.log
inside apt-get -q install -y --no-install-recommends --download-only "${packages[@]}" >>build/first-kernel.log
cp "$wheel" "$system/srv/"
mkdir -p "$system/srv/app" "$system/srv/torch"
[ -z "$torch" ] || mount --bind "$torch" "$system/srv/torch"

cat >"$system/srv/app/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.25)
project(app LANGUAGES CXX)
find_package(tessera 0.1 REQUIRED)
add_executable(app EXCLUDE_FROM_ALL app.cpp)
target_compile_features(app PRIVATE cxx_std_20)
target_link_libraries(app PRIVATE tessera::tessera)
if(TESSERA_TORCH_DIR)
  tessera_torch_library(app_ops ops.cpp)
endif()
EOF
cat >"$system/srv/app/kernel.hpp" <<'EOF'
#pragma once
#include <tessera/tessera.hpp>
using namespace tessera;

template <int N>
void scale_rows(Mut<f32, 1, N> y, In<f32, dyn, dyn> x) {
  auto t = x.load_like(y);
  y.store(t / max(abs(t), axis<1>));
}
EOF
cat >"$system/srv/app/app.cpp" <<'EOF'
#include "kernel.hpp"

#include <cmath>
#include <cstdio>

int main() {
  const auto x = random::normal<f32>({100, 300}, 1).sync();
  const auto y = kernel<scale_rows<512>>(empty_like(x), x).sync();
  const auto in = host(x).sync(), out = host(y).sync();
  for (int row = 0; row < 100; ++row) {
    float most = 0;
    for (int c = 0; c < 300; ++c) most = std::fmax(most, std::fabs(in[row * 300 + c]));
    for (int c = 0; c < 300; ++c)
      if (std::fabs(out[row * 300 + c] - in[row * 300 + c] / most) > 1e-6f) return 1;
  }
  std::puts("right");
}
EOF
cat >"$system/srv/app/ops.cpp" <<'EOF'
#include <tessera/torch.hpp>

#include "kernel.hpp"

TESSERA_TORCH_LIBRARY(app, m) {
  m.op("scale_rows(x)", like<0>, [](View<f32, 2> x) { return kernel<scale_rows<512>>(empty_like(x), x); });
}
EOF
cat >"$system/srv/app/use.py" <<'EOF'
import torch
torch.ops.load_library("build/app_ops.so")
x = torch.randn(100, 300)
wanted = x / x.abs().amax(1, keepdim=True)
torch.testing.assert_close(torch.ops.app.scale_rows(x), wanted)
torch.testing.assert_close(torch.compile(torch.ops.app.scale_rows, fullgraph=True, backend="aot_eager")(x), wanted)
print("right")
EOF

cat >"$system/srv/kernel.sh" <<'EOF'
set -e
apt-get -q install -y --no-install-recommends --no-download "$@" >$HOME/apt.log 2>&1
python3 -m venv $HOME/env
$HOME/env/bin/pip -q install --no-index $HOME/*.whl
cd $HOME/app
cmake -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$($HOME/env/bin/python -c 'import tessera; print(tessera.cmake_dir())')" >$HOME/cmake.log
ninja -C build app >$HOME/ninja.log
TESSERA_DEVICE=cpu build/app
EOF
cat >"$system/srv/operator.sh" <<'EOF'
set -e
$HOME/env/bin/pip -q install --no-index --no-deps /srv/torch/*.whl
cd $HOME/app
cmake -B build -DTESSERA_TORCH_DIR="$(echo $HOME/env/lib/python3*/site-packages/torch)" >$HOME/cmake.log
ninja -C build app_ops >$HOME/ninja.log
TESSERA_DEVICE=cpu $HOME/env/bin/python use.py
EOF

began=$(date +%s)
say "a kernel of one's own"
[ "$(inside bash /srv/kernel.sh "${packages[@]}")" = right ] || die "the kernel did not run"
kernel=$(($(date +%s) - began))
echo "a kernel on the CPU: $kernel s (at most 180)"
if [ -n "$torch" ]; then
  say "an operator of PyTorch"
  [ "$(inside bash /srv/operator.sh | tail -n 1)" = right ] || die "the operator did not run"
  operator=$(($(date +%s) - began))
  echo "an operator of PyTorch: $operator s (at most 300)"
fi
[ "$kernel" -le 180 ] || die "the kernel took longer than three minutes"
[ "${operator:-0}" -le 300 ] || die "the operator took longer than five minutes"
