// The chart of `mortar bench`: bars with numbers.
#include "bench_chart.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "mortar/errors.hpp"

namespace mortar::cli {
namespace {

namespace fs = std::filesystem;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '&'   ? std::string("&amp;")
           : c == '<' ? std::string("&lt;")
           : c == '>' ? std::string("&gt;")
                      : std::string(1, c);
  return out;
}

[[noreturn]] void cannot_write(const std::string& path) { throw RequestError(path + ": the chart cannot be written"); }

/// The file behind symbolic links, which need not exist.
fs::path target_of(fs::path path) {
  constexpr int kMostLinks = 40;  // as Linux
  std::error_code error;
  for (int i = 0; i < kMostLinks && fs::is_symlink(path, error); ++i)
    path = path.parent_path() / fs::read_symlink(path, error);
  return path;
}

}  // namespace

void check_chart_path(const std::string& path) {
  const fs::path file = target_of(path);
  std::error_code error;
  if (fs::exists(file, error)) {
    if (fs::is_directory(file, error) || ::access(file.c_str(), W_OK) != 0) cannot_write(path);
    return;
  }
  const fs::path folder = file.has_parent_path() ? file.parent_path() : ".";
  if (!fs::is_directory(folder, error) || ::access(folder.c_str(), W_OK | X_OK) != 0) cannot_write(path);
}

void write_chart(const std::vector<BenchRow>& rows, const std::string& path) {
  constexpr int kRow = 26, kLeft = 170, kBar = 420, kWidth = 780, kTop = 44;
  double most = 0;
  for (const BenchRow& row : rows) most = std::max(most, row.tokens_per_s);
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + std::to_string(kWidth) + "\" height=\"" +
      std::to_string(kTop + kRow * static_cast<int>(rows.size()) + 10) +
      "\" font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  svg += "<text x=\"10\" y=\"24\" font-size=\"15\">" + escaped(rows.empty() ? "" : rows[0].model) +
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
        kLeft - 8, y + 14, escaped(row.test).c_str(), kLeft, y, width, kLeft + width + 6, y + 14, row.tokens_per_s,
        share);
    svg += line;
  }
  svg += "</svg>\n";
  // Beside the file first, so that one that cannot be written whole leaves the old one; but not beside a device.
  const fs::path file = target_of(path);
  std::error_code error;
  const bool in_place = fs::exists(file, error) && !fs::is_regular_file(file, error);
  const fs::path part = in_place ? file : fs::path(file.string() + ".part");
  std::ofstream out(part, std::ios::binary);
  out << svg;
  out.close();
  if (out && !in_place) fs::rename(part, file, error);
  if (out && !error) return;
  if (!in_place) fs::remove(part, error);
  cannot_write(path);
}

}  // namespace mortar::cli
