// Identifiers of answers and calls, and the time of the wall clock.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace mortar::server {

/// `prefix` and 32 hexadecimal digits that were not given before.
std::string new_id(std::string_view prefix);
/// A seed for a request that has none: below 2^53, so that every client can read it exactly.
std::uint64_t drawn_seed();
/// Seconds since 1970.
std::int64_t wall_clock();

}  // namespace mortar::server
