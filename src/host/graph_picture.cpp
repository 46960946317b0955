// Both pictures nest: a loop or a branch contains its bodies, a replayed graph what it recorded. In the SVG each piece
// of work stands below all that it depends on, level by level.
#include "host/graph_picture.hpp"

#include <algorithm>
#include <vector>

#include "tessera/base/format.hpp"

namespace tessera::detail {

namespace {

using runtime::Access;
using runtime::AccessMode;
using runtime::GraphRecording;
using runtime::kNoEntry;
using runtime::RecordedWork;

constexpr int kWidth = 220, kHeight = 44, kGapX = 30, kGapY = 46, kMargin = 20;  // pixels of a box and between boxes
constexpr int kTitle = 24;                                                       // height of a container's title

/// The last part of a path.
std::string file_name(const char* path) {
  const std::string text(path);
  const std::size_t slash = text.find_last_of('/');
  return slash == std::string::npos ? text : text.substr(slash + 1);
}

std::string line_of(SourceLocation where) {
  return where.known() ? concat(file_name(where.file), ":", where.line) : std::string();
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
std::string cause(const GraphRecording& recording, const RecordedWork& earlier, const RecordedWork& later) {
  std::string text;
  for (const Access& a : earlier.accesses) {
    for (const Access& b : later.accesses) {
      if (a.storage != b.storage || (a.mode == AccessMode::Read && b.mode == AccessMode::Read)) continue;
      const auto all = recording.accesses();
      const auto at = std::find_if(all.begin(), all.end(), [&](const Access& x) { return x.storage == a.storage; });
      if (!text.empty()) text += ", ";
      if (!a.storage->label().empty()) {
        text += a.storage->label();
      } else {
        text += at == all.end() ? "a temporary" : concat("tensor ", at - all.begin());
      }
    }
  }
  return text;
}

const char* body_name(const RecordedWork& entry, std::size_t body) {
  if (entry.kind == RecordedWork::Kind::While) return "body";
  return body == 0 ? "then" : "else";
}
std::string group_title(const GraphRecording& recording, std::size_t group) {
  const std::string line = line_of(recording.groups()[group].where);
  return line.empty() ? "graph" : concat("graph, replayed at ", line);
}

/// Entries from `first` on that belong to one group inside `group`, or a single entry.
struct Item {
  std::size_t first = 0, last = 0;  ///< without `last`
  std::size_t group = kNoEntry;     ///< kNoEntry: a single entry
};
std::vector<Item> items_of(const GraphRecording& recording, std::size_t first, std::size_t last, std::size_t group) {
  const auto child = [&](std::size_t entry) {  // of `group`, that contains the entry
    std::size_t g = recording.work()[entry].group;
    while (g != group && recording.groups()[g].parent != group) g = recording.groups()[g].parent;
    return g == group ? kNoEntry : g;
  };
  std::vector<Item> items;
  for (std::size_t i = first; i < last; ++i) {
    const std::size_t inside = child(i);
    if (inside != kNoEntry && !items.empty() && items.back().group == inside) {
      items.back().last = i + 1;
    } else {
      items.push_back({i, i + 1, inside});
    }
  }
  return items;
}

// -- DOT -------------------------------------------------------------------------------------------------------------

class Dot {
 public:
  std::string picture(const GraphRecording& recording) {
    out_ = "digraph graph_of_work {\n  node [shape=box];\n";
    all(recording, "n");
    return out_ + "}\n";
  }

 private:
  void all(const GraphRecording& recording, const std::string& prefix) {
    part(recording, prefix, 0, recording.work().size(), kNoEntry);
    const auto work = recording.work();
    for (std::size_t i = 0; i < work.size(); ++i) {
      for (const std::size_t before : work[i].after)
        out_ += concat("  ", prefix, before, " -> ", prefix, i, " [label=\"",
                       escaped(cause(recording, work[before], work[i])), "\"];\n");
    }
  }
  void part(const GraphRecording& recording, const std::string& prefix, std::size_t first, std::size_t last,
            std::size_t group) {
    for (const Item& item : items_of(recording, first, last, group)) {
      if (item.group != kNoEntry) {
        open(group_title(recording, item.group));
        part(recording, prefix, item.first, item.last, item.group);
        out_ += "  }\n";
      } else {
        entry(recording.work()[item.first], concat(prefix, item.first));
      }
    }
  }
  void entry(const RecordedWork& work, const std::string& name) {
    if (!work.bodies.empty()) open(work.label);
    out_ += concat("  ", name, " [label=\"", escaped(work.label), "\\n", escaped(line_of(work.where)), "\"];\n");
    for (std::size_t b = 0; b < work.bodies.size(); ++b) {
      open(body_name(work, b));
      all(*work.bodies[b], concat(name, "_", body_name(work, b), "_"));
      out_ += "  }\n";
    }
    if (!work.bodies.empty()) out_ += "  }\n";
  }
  void open(const std::string& title) {
    out_ += concat("  subgraph cluster_", clusters_++, " {\n  label=\"", escaped(title), "\";\n");
  }
  std::string out_;
  int clusters_ = 0;
};

// -- SVG -------------------------------------------------------------------------------------------------------------

/// A rectangle; its children are placed relative to it.
struct Box {
  std::string title, line;
  int x = 0, y = 0, width = kWidth, height = kHeight;
  std::vector<Box> children;
  struct Edge {
    std::size_t from, to;
    std::string cause;
  };
  std::vector<Edge> edges;  ///< between children
  bool container = false;
};

Box box_of(const RecordedWork& entry);

/// Places children level by level, `top` pixels below the upper edge.
void place(Box& box, int top) {
  std::vector<std::size_t> level(box.children.size());
  for (const Box::Edge& edge : box.edges) level[edge.to] = std::max(level[edge.to], level[edge.from] + 1);
  const std::size_t levels = level.empty() ? 0 : *std::max_element(level.begin(), level.end()) + 1;
  int y = top;
  box.width = kWidth;
  for (std::size_t l = 0; l < levels; ++l) {
    int x = kMargin, height = 0;
    for (std::size_t i = 0; i < level.size(); ++i) {
      if (level[i] != l) continue;
      box.children[i].x = x;
      box.children[i].y = y;
      x += box.children[i].width + kGapX;
      height = std::max(height, box.children[i].height);
    }
    box.width = std::max(box.width, x - kGapX + kMargin);
    y += height + kGapY;
  }
  box.height = std::max(y - (levels > 0 ? kGapY : 0) + kMargin, top + kMargin);
}

/// The entries of a recording that belong to `group`, as the children of a box.
Box part(const GraphRecording& recording, std::size_t first, std::size_t last, std::size_t group, int top) {
  Box box;
  box.container = true;
  const auto items = items_of(recording, first, last, group);
  std::vector<std::size_t> item_of(recording.work().size(), kNoEntry);
  for (std::size_t n = 0; n < items.size(); ++n) {
    const Item& item = items[n];
    for (std::size_t i = item.first; i < item.last; ++i) item_of[i] = n;
    if (item.group == kNoEntry) {
      box.children.push_back(box_of(recording.work()[item.first]));
    } else {
      box.children.push_back(part(recording, item.first, item.last, item.group, kTitle + kMargin));
      box.children.back().title = group_title(recording, item.group);
    }
  }
  for (std::size_t i = first; i < last; ++i) {
    for (const std::size_t before : recording.work()[i].after) {
      const std::size_t from = item_of[before], to = item_of[i];
      if (from == kNoEntry || from == to) continue;
      box.edges.push_back({from, to, cause(recording, recording.work()[before], recording.work()[i])});
    }
  }
  place(box, top);
  return box;
}

Box box_of(const RecordedWork& entry) {
  Box box;
  box.title = entry.label;
  box.line = line_of(entry.where);
  if (entry.bodies.empty()) return box;
  box.container = true;
  box.title += box.line.empty() ? "" : concat(", ", box.line);
  for (std::size_t b = 0; b < entry.bodies.size(); ++b) {
    const GraphRecording& body = *entry.bodies[b];
    box.children.push_back(part(body, 0, body.work().size(), kNoEntry, kTitle + kMargin));
    box.children.back().title = body_name(entry, b);
  }
  place(box, kTitle + kMargin);
  return box;
}

void draw(const Box& box, int x, int y, std::string& out) {
  if (!box.container) {
    out += concat("<rect x=\"", x, "\" y=\"", y, "\" width=\"", kWidth, "\" height=\"", kHeight,
                  "\" fill=\"#eef\" stroke=\"#336\"/>\n<text x=\"", x + kWidth / 2, "\" y=\"", y + 18,
                  "\" text-anchor=\"middle\">", escaped(box.title), "</text>\n<text x=\"", x + kWidth / 2, "\" y=\"",
                  y + 35, "\" text-anchor=\"middle\" fill=\"#666\">", escaped(box.line), "</text>\n");
    return;
  }
  if (!box.title.empty()) {
    out += concat("<rect class=\"group\" x=\"", x, "\" y=\"", y, "\" width=\"", box.width, "\" height=\"", box.height,
                  "\" fill=\"none\" stroke=\"#a86\" stroke-dasharray=\"4 3\"/>\n<text x=\"", x + kMargin / 2, "\" y=\"",
                  y + 17, "\" fill=\"#a60\">", escaped(box.title), "</text>\n");
  }
  for (const Box::Edge& edge : box.edges) {
    const Box &from = box.children[edge.from], &to = box.children[edge.to];
    out += concat("<line x1=\"", x + from.x + from.width / 2, "\" y1=\"", y + from.y + from.height, "\" x2=\"",
                  x + to.x + to.width / 2, "\" y2=\"", y + to.y, "\" stroke=\"#888\"><title>", escaped(edge.cause),
                  "</title></line>\n");
  }
  for (const Box& child : box.children) draw(child, x + child.x, y + child.y, out);
}

}  // namespace

std::string graph_dot(const GraphRecording& recording) { return Dot().picture(recording); }

std::string graph_svg(const GraphRecording& recording) {
  const Box all = part(recording, 0, recording.work().size(), kNoEntry, kMargin);
  std::string out = concat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", all.width, "\" height=\"", all.height,
                           "\" font-family=\"sans-serif\" font-size=\"12\">\n");
  draw(all, 0, 0, out);
  return out + "</svg>\n";
}

}  // namespace tessera::detail
