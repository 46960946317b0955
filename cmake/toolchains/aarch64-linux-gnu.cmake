# Cross-compiles for 64-bit ARM with the compiler of Debian's or Ubuntu's package g++-aarch64-linux-gnu, and runs programs
# of the build (tests, what lists them) with the emulator of the package qemu-user. The preset `aarch64` uses this file.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)  # GoogleTest's project asks for one
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# The C library of the target, which the compiler's package brings. Libraries and packages of the machine that builds are
# in folders named after its own architecture, which are not looked into; headers alone (nlohmann-json) serve both.
set(tessera_target_root /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH ${tessera_target_root})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-aarch64;-L;${tessera_target_root}")
