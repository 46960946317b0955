// Writing charts.
#include "svg_file.hpp"

#include <filesystem>
#include <fstream>

#include "mortar/errors.hpp"
#include "output_path.hpp"

namespace mortar::cli {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void cannot_write(const std::string& path) { throw RequestError(path + ": the chart cannot be written"); }

}  // namespace

std::string svg_text(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '&'   ? std::string("&amp;")
           : c == '<' ? std::string("&lt;")
           : c == '>' ? std::string("&gt;")
                      : std::string(1, c);
  return out;
}

void check_chart_path(const std::string& path) { check_output_path(path, "the chart", Existing::Any); }

void write_svg(const std::string& svg, const std::string& path) {
  // Beside the file first, so that one that cannot be written whole leaves the old one; but not beside a device.
  const fs::path file = link_target(path);
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
