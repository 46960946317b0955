// Charts as SVG: rates over sizes, one panel below the other.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace tessera {

struct Series {
  std::string name;  ///< in the legend; empty: none
  std::vector<std::pair<double, double>> points;
  bool limit = false;  ///< a roofline: dashed
};

struct Panel {
  std::string title, x_label, y_label;
  std::vector<Series> series;  ///< x is drawn by its logarithm, y from 0
};

/// A whole document.
std::string svg_of(const std::vector<Panel>& panels);

}  // namespace tessera
