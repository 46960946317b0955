// The rows of `mortar bench`, and a chart of them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "svg_file.hpp"

namespace mortar::cli {

struct BenchRow {
  std::string model, test;
  double tokens_per_s = 0, stddev = 0, ms_per_step = 0;
  double bytes_per_step = 0, share_of_read_roof = 0;  ///< 0: not for this test, or the roofline is not known
  double device_ms_per_step = 0, idle_share = -1;     ///< -1: not measured
  std::int64_t batch = 1, context = 0;
};

/// Writes bars of tokens per second as SVG, with the share of the roofline beside each. Throws RequestError if the file
/// cannot be written.
void write_chart(const std::vector<BenchRow>& rows, const std::string& path);

}  // namespace mortar::cli
