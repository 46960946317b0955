// The chart of `mortar bench`: bars with numbers.
#include "bench_chart.hpp"

#include <algorithm>
#include <cstdio>

namespace mortar::cli {

void write_chart(const std::vector<BenchRow>& rows, const std::string& path) {
  constexpr int kRow = 26, kLeft = 170, kBar = 420, kWidth = 780, kTop = 44;
  double most = 0;
  for (const BenchRow& row : rows) most = std::max(most, row.tokens_per_s);
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + std::to_string(kWidth) + "\" height=\"" +
      std::to_string(kTop + kRow * static_cast<int>(rows.size()) + 10) +
      "\" font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  svg += "<text x=\"10\" y=\"24\" font-size=\"15\">" + svg_text(rows.empty() ? "" : rows[0].model) +
         ": tokens per second</text>\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const BenchRow& row = rows[i];
    const int y = kTop + kRow * static_cast<int>(i);
    const double width = most > 0 ? kBar * row.tokens_per_s / most : 0;
    char line[512];
    char share[64] = "";
    if (row.share_of_read_roof > 0)
      std::snprintf(share, sizeof share, " (%.0f %% of the roofline)", 100 * row.share_of_read_roof);
    std::snprintf(
        line, sizeof line,
        "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text><rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"18\" "
        "fill=\"#4878a8\"/><text x=\"%.1f\" y=\"%d\">%.1f%s</text>\n",
        kLeft - 8, y + 14, svg_text(row.test).c_str(), kLeft, y, width, kLeft + width + 6, y + 14, row.tokens_per_s,
        share);
    svg += line;
  }
  svg += "</svg>\n";
  write_svg(svg, path);
}

}  // namespace mortar::cli
