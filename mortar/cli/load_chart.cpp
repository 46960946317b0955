// The chart of `mortar load`.
#include "load_chart.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "svg_file.hpp"

namespace mortar::cli {
namespace {

constexpr int kRow = 26, kTitle = 40, kLeft = 150, kBar = 420, kWidth = 900;

template <class... Args>
std::string print(const char* format, Args... args) {
  char text[512];
  std::snprintf(text, sizeof text, format, args...);
  return text;
}

class Chart {
 public:
  void title(const std::string& text) {
    body_ += print("<text x=\"10\" y=\"%d\" font-size=\"15\">", y_ + 24) + svg_text(text) + "</text>\n";
    y_ += kTitle;
  }
  void bars(const std::vector<std::pair<std::string, double>>& rows) {
    double largest = 0;
    for (const auto& row : rows) largest = std::max(largest, row.second);
    for (const auto& [name, value] : rows) {
      label(name);
      const double width = largest > 0 ? kBar * value / largest : 0;
      body_ += print("<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"18\" fill=\"#4878a8\"/>", kLeft, y_, width);
      body_ += print("<text x=\"%.1f\" y=\"%d\">%.1f</text>\n", kLeft + width + 6, y_ + 14, value);
      y_ += kRow;
    }
  }
  /// In milliseconds; a line from p50 to p99, with a dot at each percentile.
  void ranges(const std::vector<std::pair<std::string, Percentiles>>& rows) {
    double least = 1e300, largest = 0;
    for (const auto& row : rows) {
      if (row.second.count == 0) continue;
      least = std::min(least, row.second.p50);
      largest = std::max(largest, row.second.p99);
    }
    least = std::max(least, 1e-6);
    const double span = std::max(std::log10(std::max(largest, least) / least), 0.3);
    const auto place = [&](double value) {
      return kLeft + 6 + (kBar - 12) * std::log10(std::max(value, least) / least) / span;
    };
    for (const auto& [name, p] : rows) {
      label(name);
      if (p.count > 0) {
        const int middle = y_ + 9;
        body_ += print("<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#4878a8\" stroke-width=\"2\"/>",
                       place(p.p50), middle, place(p.p99), middle);
        for (const auto& [value, radius] : {std::pair(p.p50, 6), {p.p90, 4}, {p.p95, 4}, {p.p99, 4}})
          body_ += print("<circle cx=\"%.1f\" cy=\"%d\" r=\"%d\" fill=\"#4878a8\"/>", place(value), middle, radius);
        body_ += print("<text x=\"%d\" y=\"%d\">%.2f, %.2f, %.2f, %.2f</text>", kLeft + kBar + 10, y_ + 14, 1e3 * p.p50,
                       1e3 * p.p90, 1e3 * p.p95, 1e3 * p.p99);
      }
      body_ += "\n";
      y_ += kRow;
    }
  }
  std::string text() const {
    return print(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
               "font-size=\"13\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
               kWidth, y_ + 10) +
           body_ + "</svg>\n";
  }

 private:
  void label(const std::string& name) {
    body_ += print("<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", kLeft - 8, y_ + 14) + svg_text(name) + "</text>";
  }

  std::string body_;
  int y_ = 0;
};

}  // namespace

std::string name_of(const Arrivals& arrivals) {
  if (arrivals.rate > 0) return print("%g requests/s", arrivals.rate);
  return print("%lld client%s", static_cast<long long>(arrivals.concurrency), arrivals.concurrency == 1 ? "" : "s");
}

std::string load_chart(const std::vector<LoadResult>& rows) {
  std::vector<std::pair<std::string, double>> speeds;
  std::vector<std::pair<std::string, Percentiles>> first, between, turns;
  for (const LoadResult& row : rows) {
    const std::string name = name_of(row.arrivals);
    speeds.emplace_back(name, row.output_tokens_per_s);
    first.emplace_back(name, row.first_token);
    between.emplace_back(name, row.between_tokens);
    for (std::size_t i = 0; i < row.first_token_of_turn.size(); ++i)
      turns.emplace_back((rows.size() > 1 ? name + ", turn " : "turn ") + std::to_string(i + 1),
                         row.first_token_of_turn[i]);
  }
  Chart chart;
  chart.title((rows.empty() ? "" : rows[0].model) + ": output tokens per second");
  chart.bars(speeds);
  chart.title("first token, ms: p50, p90, p95, p99");
  chart.ranges(first);
  chart.title("between tokens, ms: p50, p90, p95, p99");
  chart.ranges(between);
  if (!turns.empty()) {
    chart.title("first token by turn, ms: p50, p90, p95, p99");
    chart.ranges(turns);
  }
  return chart.text();
}

}  // namespace mortar::cli
