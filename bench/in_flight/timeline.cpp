// A timeline of two streams: kernels of a few blocks each, independent of each other, and then each dependent on the
// one before on the other stream. Marks in the order of each stream give their times; the picture is text, and an SVG.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <vector>

#include "in_flight/figures.hpp"
#include "tessera/runtime/timing.hpp"

namespace in_flight {
namespace {

constexpr int kBlock = 256;
constexpr std::int64_t kElements = 8 * kBlock;  // leaves most SMs to the other stream

void iterate(Mut<f32, kBlock> y, In<f32, dyn> x, Scalar<i32> steps) {
  auto t = x.load_like(y);
  for (auto i : range(steps)) t = t * 0.5f + 1.0f + cast<f32>(i - i);
  y.store(t + y.load());
}

struct Span {
  int stream;
  double begin, end;  // seconds
};
using Mark = std::shared_ptr<const runtime::TimeMark>;

/// Runs `count` kernels on each of two streams; `dependent`: each reads what the other stream's last one has written.
std::vector<Span> run(const Options& options, int count, i32 steps, bool dependent) {
  Stream streams[2] = {Stream(options.device), Stream(options.device)};
  const auto x = ones<f32>({kElements}).sync();
  Tensor<f32, 1> y[2] = {zeros<f32>({kElements}).sync(), zeros<f32>({kElements}).sync()};
  struct Marks {
    int stream;
    Mark begin, end;
  };
  std::vector<Marks> marks;
  const Mark start = runtime::place_time_mark(streams[0]);
  for (int i = 0; i < count; ++i) {
    for (int s = 0; s < 2; ++s) {
      const View<f32, 1> read = dependent ? y[1 - s].view() : x.view();
      if (dependent) streams[s].wait_for(read);  // so that the mark comes behind it too
      Mark begin = runtime::place_time_mark(streams[s]);
      kernel<iterate>(mut(y[s]), read, steps).on(streams[s]);
      marks.push_back({s, std::move(begin), runtime::place_time_mark(streams[s])});
    }
  }
  for (Stream& stream : streams) stream.synchronize();
  std::vector<Span> spans;
  for (const Marks& m : marks)
    spans.push_back({m.stream, m.begin->seconds_since(*start), m.end->seconds_since(*start)});
  return spans;
}

/// The time during which both streams are busy, as a share of the time of the one that is busy for less.
double overlap(const std::vector<Span>& spans) {
  double both = 0, busy[2] = {};
  for (const Span& a : spans) {
    busy[a.stream] += a.end - a.begin;
    for (const Span& b : spans)
      if (a.stream == 0 && b.stream == 1) both += std::max(0.0, std::min(a.end, b.end) - std::max(a.begin, b.begin));
  }
  const double less = std::min(busy[0], busy[1]);
  return less > 0 ? both / less : 0;
}

double first(const std::vector<Span>& spans) {
  double begin = spans.front().begin;
  for (const Span& s : spans) begin = std::min(begin, s.begin);
  return begin;
}
double last(const std::vector<Span>& spans) {
  double end = 0;
  for (const Span& s : spans) end = std::max(end, s.end);
  return end;
}

void print_text(const char* title, const std::vector<Span>& spans) {
  constexpr int kColumns = 96;
  const double begin = first(spans), length = std::max(last(spans) - begin, 1e-9);
  std::fprintf(stderr, "%s, %.3f ms\n", title, length * 1e3);
  for (int stream = 0; stream < 2; ++stream) {
    std::string line(kColumns, '.');
    int number = 0;
    for (const Span& s : spans) {
      if (s.stream != stream) continue;
      const auto column = [&](double t) {
        return std::clamp(static_cast<int>((t - begin) / length * kColumns), 0, kColumns - 1);
      };
      for (int c = column(s.begin); c <= column(s.end); ++c)
        line[static_cast<std::size_t>(c)] = number % 2 == 0 ? '#' : '=';
      ++number;
    }
    std::fprintf(stderr, "  stream %d  %s\n", stream, line.c_str());
  }
}

void write_svg(const std::string& path, const std::vector<Span>& independent, const std::vector<Span>& dependent) {
  std::ofstream svg(path);
  svg << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"820\" height=\"190\" font-family=\"sans-serif\" "
         "font-size=\"13\">\n";
  int top = 20;
  for (const auto& [title, spans] :
       {std::pair("independent", &independent), std::pair("each reads the other stream's last result", &dependent)}) {
    const double begin = first(*spans), length = std::max(last(*spans) - begin, 1e-9);
    svg << "<text x=\"10\" y=\"" << top << "\">" << title << ", " << length * 1e3 << " ms</text>\n";
    for (const Span& s : *spans) {
      svg << "<rect x=\"" << 10 + (s.begin - begin) / length * 800 << "\" y=\"" << top + 8 + 26 * s.stream
          << "\" width=\"" << std::max(0.5, (s.end - s.begin) / length * 800) << "\" height=\"22\" fill=\""
          << (s.stream == 0 ? "#4477aa" : "#cc6677") << "\" stroke=\"white\"/>\n";
    }
    top += 88;
  }
  svg << "</svg>\n";
  if (!svg.flush()) throw IoError("the timeline could not be written to " + path);
}

}  // namespace

void measure_timeline(const Options& options) {
  const int count = options.count(8, 3);
  const i32 steps = options.tiny ? 20 : 100000;  // some 0.2 ms on a GPU
  run(options, count, steps, false);
  const std::vector<Span> independent = run(options, count, steps, false), dependent = run(options, count, steps, true);
  print_text("independent work on two streams", independent);
  print_text("work that reads the other stream's last result", dependent);
  if (!options.svg.empty()) write_svg(options.svg, independent, dependent);
  const bool asks = options.has_driver() && options.executes;
  print({"two streams, independent kernels: time during which both are busy",
         "share",
         overlap(independent),
         {},
         0,
         asks ? least(0.8) : Asked{}});
  print({"two streams, dependent kernels: time during which both are busy",
         "share",
         overlap(dependent),
         {},
         0,
         asks ? most(0.02) : Asked{}});
}

}  // namespace in_flight
