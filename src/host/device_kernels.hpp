// The host layer's own operations (fills, copies, casts) as kernels, for devices whose memory the host cannot address.
// They compute the same bits as the host functions. Their element types are known at run time only, so they are
// recorded with the language's untyped functions.
#pragma once
#include <cstdint>

#include "tessera/host/create.hpp"

namespace tessera::detail {

/// Overwrites all `count` elements of `to` with `recipe`. Returns false without effect if the recipe has no kernel, or
/// none can be compiled for the device.
bool fill_by_kernel(const Stream&, const runtime::StorageRef& to, const Recipe&, std::int64_t count);

/// Copies and converts the elements of `from` to those of `to` (same extents, another storage). Returns false without
/// effect if no kernel can be compiled for the device, or the arrays need more axes than kernels have.
bool convert_by_kernel(const Stream&, const LayoutRef& from, const LayoutRef& to, const char* label, SourceLocation);

}  // namespace tessera::detail
