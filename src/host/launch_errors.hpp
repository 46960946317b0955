// The errors of launches, composed here so that the launch path itself builds no strings. Arguments are numbered from 0
// here and from 1 in the messages.
#pragma once
#include "host/launch.hpp"
#include "tessera/lang/difference.hpp"

namespace tessera::detail {

using Context = const LaunchContextText&;
using Dimensions = std::span<const std::int64_t>;

[[noreturn]] void throw_number_too_large(Context, int param);
[[noreturn]] void throw_spent_argument(Context, int param);
[[noreturn]] void throw_empty_argument(Context, int param);
/// A lend whose tensor has changed its owner.
[[noreturn]] void throw_stale_argument(Context, int param);
/// `writer` is written; `other` is read, or written as well.
[[noreturn]] void throw_alias(Context, int writer, int other, bool both_write);
[[noreturn]] void throw_axis_too_long(Context, int param, int axis, Dimensions found);
[[noreturn]] void throw_wrong_extent(Context, int param, int axis, Dimensions found);
[[noreturn]] void throw_wrong_device(Context, int param, const std::string& expected, const std::string& found);
[[noreturn]] void throw_too_many_pieces(Context, int param, Dimensions found);
[[noreturn]] void throw_unequal_pieces(Context, int first, std::uint64_t first_pieces, Dimensions first_dims,
                                       int second, std::uint64_t second_pieces, Dimensions second_dims);
[[noreturn]] void throw_blocks_not_free(Context);
[[noreturn]] void throw_blocks_missing(Context);
[[noreturn]] void throw_blocks_out_of_range(Context, std::int64_t found, std::int64_t most);
[[noreturn]] void throw_regions_differ(Context, const lang::SameExtent&, const Launch&);
/// A TraceError at the place where the recordings differ.
[[noreturn]] void throw_recorded_differently(const KernelState::Signature&, const lang::Difference&,
                                             SourceLocation launch);
/// `slots`: the arguments of the launch.
[[noreturn]] void throw_requirement(Context, const lang::Requirement&, std::span<const std::uint64_t> slots);

}  // namespace tessera::detail
