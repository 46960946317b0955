// Which build of the compiler this is, for what must not outlive it.
#pragma once
#include <cstddef>
#include <span>

namespace tessera {

/// The build ID that the linker gave to the program or shared library that contains this function, and with it the
/// passes and analyses: a hash over everything that was linked (ld's --build-id, which the library asks for). Empty if
/// there is none that is long enough to be a hash; then nothing is known of the build.
std::span<const std::byte> build_id() noexcept;

}  // namespace tessera
