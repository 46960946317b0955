// Charts: files of SVG.
#pragma once
#include <string>

namespace mortar::cli {

/// Throws RequestError if the file cannot be written; changes nothing. Before anything is measured.
void check_chart_path(const std::string& path);
/// Replaces the file as a whole. Throws RequestError if it cannot be written.
void write_svg(const std::string& svg, const std::string& path);
/// The text with &, < and > escaped.
std::string svg_text(const std::string& text);

}  // namespace mortar::cli
