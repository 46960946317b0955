// Tessera: memory-safe, data-race-free GPU kernels over tiles, as ordinary C++ functions. The one header that users
// include.
#pragma once
#include "tessera/base/dims.hpp"
#include "tessera/base/element.hpp"
#include "tessera/base/error.hpp"
#include "tessera/host/op.hpp"
#include "tessera/host/tensor.hpp"
#include "tessera/runtime/device.hpp"
#include "tessera/runtime/stream.hpp"
