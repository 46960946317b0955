// What the launcher guarantees about a kernel's arguments, as a contract for the compiler.
#pragma once
#include <span>

#include "tessera/jit/kernel.hpp"
#include "tessera/lang/trace.hpp"

namespace tessera::detail {

/// The contract of a recording of a kernel with these parameters (laid out). Launch (launch.cpp) checks everything in
/// it: extents in [0, 2^31 - 1], one block per piece, written tensors that overlap nothing, extents that are the same.
jit::LaunchContract launch_contract(std::span<const lang::ParamInfo> params, bool wide_grid,
                                    std::span<const lang::SameExtent> same = {});

}  // namespace tessera::detail
