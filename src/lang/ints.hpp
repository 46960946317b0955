// The integer emission helpers under the name that new code uses.
#pragma once
#include "lang/emit.hpp"

namespace tessera::lang {
namespace ints = emit;
}  // namespace tessera::lang
