// The host layer's own work (fills, copies, casts) as kernels, for devices whose memory the host cannot address. They
// compute the same bits as the host functions they stand for; their element types are known at run time only, so they
// are recorded through the language's untyped functions.
#pragma once
#include <cstdint>

#include "tessera/host/create.hpp"

namespace tessera::detail {

/// Overwrites all `count` elements of `to` as `recipe` says. False, having done nothing, if the recipe has no kernel or
/// the device has no way to compile one.
bool fill_by_kernel(const Stream&, const runtime::StorageRef& to, const Recipe&, std::int64_t count);

/// Copies and converts the elements of `from` to those of `to` (same extents, another storage). False, having done
/// nothing, if the device has no way to compile for, or the arrays need more axes than kernels have.
bool convert_by_kernel(const Stream&, const LayoutRef& from, const LayoutRef& to, const char* label, SourceLocation);

}  // namespace tessera::detail
