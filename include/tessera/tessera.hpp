// Tessera: memory-safe, data-race-free GPU kernels over tiles, as ordinary C++ functions. The one header that users
// include.
#pragma once
#include "tessera/base/dims.hpp"
#include "tessera/base/element.hpp"
#include "tessera/base/error.hpp"
#include "tessera/host/checking.hpp"
#include "tessera/host/create.hpp"
#include "tessera/host/kernel.hpp"
#include "tessera/host/npy.hpp"
#include "tessera/host/op.hpp"
#include "tessera/host/print.hpp"
#include "tessera/host/random.hpp"
#include "tessera/host/tensor.hpp"
#include "tessera/host/transfer.hpp"
#include "tessera/lang/lang.hpp"
#include "tessera/runtime/device.hpp"
#include "tessera/runtime/stream.hpp"
