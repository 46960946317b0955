// In the SVG each piece of work stands below all that it depends on, level by level.
#include "host/graph_picture.hpp"

#include <algorithm>
#include <vector>

#include "tessera/base/format.hpp"

namespace tessera::detail {

namespace {

using runtime::Access;
using runtime::AccessMode;
using runtime::RecordedWork;

constexpr int kWidth = 220, kHeight = 44, kGapX = 30, kGapY = 46, kMargin = 20;  // pixels of a box and between boxes

/// The last part of a path.
std::string file_name(const char* path) {
  const std::string text(path);
  const std::size_t slash = text.find_last_of('/');
  return slash == std::string::npos ? text : text.substr(slash + 1);
}

std::string line_of(const RecordedWork& entry) {
  return entry.where.known() ? concat(file_name(entry.where.file), ":", entry.where.line) : std::string();
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

/// The tensors because of which `later` follows `earlier`: by label, else by their number in the recording.
std::string cause(const runtime::GraphRecording& recording, const RecordedWork& earlier, const RecordedWork& later) {
  std::string text;
  for (const Access& a : earlier.accesses) {
    for (const Access& b : later.accesses) {
      if (a.storage != b.storage || (a.mode == AccessMode::Read && b.mode == AccessMode::Read)) continue;
      const auto all = recording.accesses();
      const auto at = std::find_if(all.begin(), all.end(), [&](const Access& x) { return x.storage == a.storage; });
      if (!text.empty()) text += ", ";
      text += a.storage->label().empty() ? concat("tensor ", at - all.begin()) : a.storage->label();
    }
  }
  return text;
}

}  // namespace

std::string graph_dot(const runtime::GraphRecording& recording) {
  std::string out = "digraph graph_of_work {\n  node [shape=box];\n";
  const auto work = recording.work();
  for (std::size_t i = 0; i < work.size(); ++i) {
    out += concat("  n", i, " [label=\"", escaped(work[i].label), "\\n", escaped(line_of(work[i])), "\"];\n");
    for (const std::size_t before : work[i].after)
      out +=
          concat("  n", before, " -> n", i, " [label=\"", escaped(cause(recording, work[before], work[i])), "\"];\n");
  }
  return out + "}\n";
}

std::string graph_svg(const runtime::GraphRecording& recording) {
  const auto work = recording.work();
  std::vector<int> level(work.size()), column(work.size());
  std::vector<int> in_level;  // boxes so far
  for (std::size_t i = 0; i < work.size(); ++i) {
    for (const std::size_t before : work[i].after) level[i] = std::max(level[i], level[before] + 1);
    in_level.resize(std::max(in_level.size(), static_cast<std::size_t>(level[i]) + 1));
    column[i] = in_level[static_cast<std::size_t>(level[i])]++;
  }
  const int columns = in_level.empty() ? 1 : *std::max_element(in_level.begin(), in_level.end());
  const int width = 2 * kMargin + columns * (kWidth + kGapX) - kGapX;
  const int height = 2 * kMargin + std::max<int>(1, static_cast<int>(in_level.size())) * (kHeight + kGapY) - kGapY;
  const auto x = [&](std::size_t i) { return kMargin + column[i] * (kWidth + kGapX); };
  const auto y = [&](std::size_t i) { return kMargin + level[i] * (kHeight + kGapY); };
  std::string out = concat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"", height,
                           "\" font-family=\"sans-serif\" font-size=\"12\">\n");
  for (std::size_t i = 0; i < work.size(); ++i) {
    for (const std::size_t before : work[i].after) {
      out += concat("<line x1=\"", x(before) + kWidth / 2, "\" y1=\"", y(before) + kHeight, "\" x2=\"",
                    x(i) + kWidth / 2, "\" y2=\"", y(i), "\" stroke=\"#888\"><title>",
                    escaped(cause(recording, work[before], work[i])), "</title></line>\n");
    }
  }
  for (std::size_t i = 0; i < work.size(); ++i) {
    out += concat("<rect x=\"", x(i), "\" y=\"", y(i), "\" width=\"", kWidth, "\" height=\"", kHeight,
                  "\" fill=\"#eef\" stroke=\"#336\"/>\n<text x=\"", x(i) + kWidth / 2, "\" y=\"", y(i) + 18,
                  "\" text-anchor=\"middle\">", escaped(work[i].label), "</text>\n<text x=\"", x(i) + kWidth / 2,
                  "\" y=\"", y(i) + 35, "\" text-anchor=\"middle\" fill=\"#666\">", escaped(line_of(work[i])),
                  "</text>\n");
  }
  return out + "</svg>\n";
}

}  // namespace tessera::detail
