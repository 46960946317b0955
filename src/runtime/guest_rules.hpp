// What guest streams (tessera/runtime/guest.hpp) and storages may be used for.
#pragma once
#include "tessera/runtime/backend.hpp"

namespace tessera::runtime {

/// The error of work whose stream and storage differ: one is a guest, the other is none.
[[noreturn]] void throw_guest_mix(const Submission& submission, bool guest_stream);

}  // namespace tessera::runtime
