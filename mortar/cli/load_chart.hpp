// A chart of the rows of `mortar load`.
#pragma once
#include <string>
#include <vector>

#include "load/load_test.hpp"

namespace mortar::cli {

/// "64 clients", or "8 requests/s".
std::string name_of(const Arrivals& arrivals);
/// Panels below each other: tokens per second as bars; time to the first token and between tokens from the median to
/// the 99th percentile, on a logarithmic axis; of conversations also the first token by turn.
std::string load_chart(const std::vector<LoadResult>& rows);

}  // namespace mortar::cli
