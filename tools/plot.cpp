// Axes, ticks, lines with a mark at each point, a legend to the right.
#include "plot.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "tessera/base/format.hpp"

namespace tessera {
namespace {

constexpr double kWidth = 760, kHeight = 360, kLeft = 70, kRight = 190, kTop = 36, kBottom = 52;
/// Colours that people with colour blindness can distinguish (Okabe and Ito, 2008).
constexpr const char* kColors[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

/// 4096 as 4K, 1048576 as 1M; others as they are.
std::string size_text(double x) {
  const char* units[] = {"", "K", "M", "G"};
  int unit = 0;
  while (unit < 3 && x >= 1024 && std::fmod(x, 1024) == 0) x /= 1024, ++unit;
  char text[32];
  std::snprintf(text, sizeof text, "%g%s", x, units[unit]);
  return text;
}

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", v);
  return text;
}

/// The least of 1, 2, 2.5, 5 times a power of ten that is at least v.
double nice(double v) {
  const double base = std::pow(10.0, std::floor(std::log10(v)));
  for (const double step : {1.0, 2.0, 2.5, 5.0}) {
    if (step * base >= v * 0.999999) return step * base;
  }
  return 10 * base;
}

class Frame {
 public:
  Frame(const Panel& panel, double top) : panel_(panel), top_(top) {
    double highest = 0, first = 1e300, last = 0;
    for (const Series& s : panel.series) {
      for (const auto& [x, y] : s.points) {
        xs_.insert(x);
        first = std::min(first, x), last = std::max(last, x), highest = std::max(highest, y);
      }
    }
    if (xs_.empty()) first = last = 1;
    low_ = std::log2(std::max(first, 1e-9));
    span_ = std::max(std::log2(std::max(last, 1e-9)) - low_, 1e-9);
    step_ = nice(std::max(highest, 1e-9) / 4);
    most_ = step_ * std::ceil(std::max(highest, 1e-9) / step_);
  }

  std::string draw() const {
    std::string out;
    text(out, kLeft, top_ + 20, panel_.title, "start", 14);
    for (double y = 0; y <= most_ * 1.0001; y += step_) {
      line(out, kLeft, at_y(y), kWidth - kRight, at_y(y), "#dddddd");
      char label[32];
      std::snprintf(label, sizeof label, "%g", y);
      text(out, kLeft - 6, at_y(y) + 4, label, "end", 11);
    }
    ticks(out);
    text(out, (kLeft + kWidth - kRight) / 2, top_ + kHeight - 12, panel_.x_label, "middle", 12);
    text(out, kLeft - 6, top_ + kTop - 4, panel_.y_label, "end", 11);
    curves(out);
    return out;
  }

 private:
  double at_x(double x) const {
    return kLeft + (std::log2(std::max(x, 1e-9)) - low_) / span_ * (kWidth - kRight - kLeft);
  }
  double at_y(double y) const { return top_ + kHeight - kBottom - y / most_ * (kHeight - kBottom - kTop); }

  static void text(std::string& out, double x, double y, const std::string& words, const char* anchor, int size) {
    out += concat("<text x=\"", number(x), "\" y=\"", number(y), "\" text-anchor=\"", anchor, "\" font-size=\"", size,
                  "\">", escaped(words), "</text>\n");
  }
  static void line(std::string& out, double x1, double y1, double x2, double y2, const char* color) {
    out += concat("<line x1=\"", number(x1), "\" y1=\"", number(y1), "\" x2=\"", number(x2), "\" y2=\"", number(y2),
                  "\" stroke=\"", color, "\"/>\n");
  }

  /// Sizes below the axis; labels that would overlap are left out.
  void ticks(std::string& out) const {
    double last = -1e300;
    for (const double x : xs_) {
      line(out, at_x(x), at_y(0), at_x(x), at_y(0) + 4, "#888888");
      if (at_x(x) - last < 38) continue;
      last = at_x(x);
      text(out, last, at_y(0) + 17, size_text(x), "middle", 11);
    }
  }

  void curves(std::string& out) const {
    int color = 0, row = 0;
    for (const Series& s : panel_.series) {
      const char* stroke = s.limit ? "#888888" : kColors[color++ % std::size(kColors)];
      const char* dash = s.limit ? " stroke-dasharray=\"6 4\"" : "";
      std::string path;
      for (const auto& [x, y] : s.points)
        path += concat(path.empty() ? "" : " ", number(at_x(x)), ",", number(at_y(y)));
      out += concat("<polyline fill=\"none\" stroke-width=\"2\" stroke=\"", stroke, "\"", dash, " points=\"", path,
                    "\"/>\n");
      for (const auto& [x, y] : s.points) {
        if (s.limit) break;
        out += concat("<circle r=\"3\" fill=\"", stroke, "\" cx=\"", number(at_x(x)), "\" cy=\"", number(at_y(y)),
                      "\"/>\n");
      }
      if (s.name.empty()) continue;
      const double y = top_ + kTop + 10 + 18 * row++, x = kWidth - kRight + 14;
      out += concat("<line x1=\"", number(x), "\" y1=\"", number(y - 4), "\" x2=\"", number(x + 22), "\" y2=\"",
                    number(y - 4), "\" stroke-width=\"2\" stroke=\"", stroke, "\"", dash, "/>\n");
      text(out, x + 28, y, s.name, "start", 11);
    }
  }

  const Panel& panel_;
  double top_, low_ = 0, span_ = 1, most_ = 1, step_ = 1;
  std::set<double> xs_;
};

}  // namespace

std::string svg_of(const std::vector<Panel>& panels) {
  const double height = kHeight * static_cast<double>(panels.size());
  std::string out = concat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", number(kWidth), "\" height=\"",
                           number(height), "\" viewBox=\"0 0 ", number(kWidth), " ", number(height),
                           "\" font-family=\"sans-serif\" fill=\"#222222\">\n<rect width=\"100%\" height=\"100%\" "
                           "fill=\"white\"/>\n");
  double top = 0;
  for (const Panel& panel : panels) {
    out += Frame(panel, top).draw();
    top += kHeight;
  }
  return out + "</svg>\n";
}

}  // namespace tessera
