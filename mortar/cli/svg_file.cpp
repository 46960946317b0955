// Writing charts.
#include "svg_file.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "mortar/errors.hpp"

namespace mortar::cli {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void cannot_write(const std::string& path) { throw RequestError(path + ": the chart cannot be written"); }

/// The file behind symbolic links, which need not exist. (Tessera has its own for whole files, which is internal to it
/// and rejects what is no regular file; a chart may go to /dev/stdout.)
fs::path target_of(fs::path path) {
  constexpr int kLinkLimit = 40;  // as Linux
  std::error_code error;
  for (int i = 0; i < kLinkLimit && fs::is_symlink(path, error); ++i)
    path = path.parent_path() / fs::read_symlink(path, error);
  return path;
}

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

void write_svg(const std::string& svg, const std::string& path) {
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
