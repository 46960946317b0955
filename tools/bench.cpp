// `tessera bench`: measures the library's kernels, or the cases of a user's program (tessera/measure), over sizes, in a
// child process, and compares rates with the device's roofline.
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "collecting.hpp"
#include "command_rows.hpp"
#include "coprocess.hpp"
#include "plot.hpp"
#include "sweep.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera {
namespace {

struct BenchOptions {
  std::string kernel, device, ms = "150", svg, json;
  double most_ms = 400;
  bool list = false;
  std::vector<std::string> values, program;
};

BenchOptions parse_bench(Words words) {
  const Given given(row_of("bench"), words);
  BenchOptions o;
  o.list = given.has("--list");
  o.device = given.text("--device");
  o.ms = given.text("--ms", o.ms);
  number_of("--ms", o.ms, 0);
  o.most_ms = given.number("--most-ms", o.most_ms, 0);
  o.svg = given.text("--svg");
  o.json = given.text("--json");
  o.program.assign(given.program().begin(), given.program().end());
  for (const std::string& word : given.words()) {
    if (word.find('=') != std::string::npos)
      o.values.push_back(word);
    else if (o.kernel.empty())
      o.kernel = word;
    else
      throw UsageError(concat("expected one kernel, found ", o.kernel, " and ", word));
  }
  if (!o.list && o.kernel.empty()) throw UsageError("expected a kernel; tessera bench --list prints them");
  return o;
}

std::vector<std::string> command(const BenchOptions& o, std::vector<std::string> more) {
  std::vector<std::string> words = o.program;
  if (words.empty()) words = {"/proc/self/exe", "bench-library", "--strict"};
  if (!o.device.empty()) words.insert(words.end(), {"--device", o.device});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// -- answers: the lines of measure::run_cases -------------------------------------------------------------------------

/// The value of "key" in a line of JSON that run_cases has written; empty if the key is not there.
std::string field(const std::string& line, const std::string& key) {
  const std::string mark = concat("\"", key, "\": ");
  std::size_t at = line.find(mark);
  if (at == std::string::npos) return "";
  at += mark.size();
  if (line[at] != '"') return line.substr(at, line.find_first_of(",}", at) - at);
  std::string text;
  for (++at; at < line.size() && line[at] != '"'; ++at) {
    if (line[at] == '\\') ++at;
    text += line[at];
  }
  return text;
}
double figure(const std::string& line, const std::string& key) { return std::atof(field(line, key).c_str()); }

struct Run {
  double at = 0, ms = 0, rate = 0, share = 0;  ///< share 0: unknown
  bool cached = false;                         ///< the inputs fit into caches: memory's roofline may be exceeded
  std::string unit, text, failed;
};

/// Groups of tensors that are larger than this do not fit into any cache (sets_for aims at 256 MB).
constexpr double kBeyondCaches = 200e6;

Run read_run(const std::string& line, double at) {
  Run r;
  r.at = at;
  r.text = line;
  r.failed = field(line, "failed");
  if (field(line, "correct") == "false") r.failed = concat("WRONG: error ", field(line, "error"));
  if (!r.failed.empty()) return r;
  r.ms = figure(line, "ms");
  r.unit = field(line, "TFLOP/s").empty() ? "GB/s" : "TFLOP/s";
  r.rate = figure(line, r.unit);
  r.share = r.ms > 0 ? figure(line, "roofline_ms") / r.ms : 0;
  r.cached = figure(line, "bytes") * figure(line, "sets") < kBeyondCaches;
  return r;
}

/// The default sizes of `kernel` in the program.
std::string default_sweep(const BenchOptions& o) {
  Coprocess program(command(o, {"--list"}));
  std::string found;
  bool any = false;
  while (auto line = program.receive()) {
    std::istringstream words(*line);
    std::string name;
    words >> name;
    if (o.list) std::puts(line->c_str());
    if (name != o.kernel) continue;
    any = true;
    std::getline(words, found);
  }
  if (const int code = program.finish(); code != 0)
    throw Error("ConfigError", concat("the benchmark program ended with code ", code), {});
  if (!any && !o.list)
    throw UsageError(concat("there is no kernel ", o.kernel, o.program.empty() ? "" : concat(" in ", o.program[0]),
                            "; tessera bench --list", o.program.empty() ? "" : concat(" -- ", o.program[0]),
                            " prints them"));
  return found;
}

// -- tables and charts ------------------------------------------------------------------------------------------------

struct Measured {
  SweepSeries series;
  std::vector<Run> runs;
};

void print_run(const std::string& words, const Run& r) {
  if (!r.failed.empty()) {
    std::printf("  %-44s %s\n", words.c_str(), r.failed.c_str());
    return;
  }
  char share[32] = "";
  if (r.share > 0) std::snprintf(share, sizeof share, "%6.1f %%%s", 100 * r.share, r.cached ? " *" : "");
  std::printf("  %-44s %10.4g ms %9.4g %-8s %s\n", words.c_str(), r.ms, r.rate, r.unit.c_str(), share);
  std::fflush(stdout);
}

Panel panel_of(const BenchOptions& o, const std::string& device, const std::string& axis,
               const std::vector<Measured>& all) {
  Panel panel{concat(o.kernel, " on ", device), axis, "", {}};
  std::vector<Series> rooflines;
  for (const Measured& m : all) {
    Series line{m.series.name.empty() ? o.kernel : m.series.name, {}, false}, roofline{"roofline", {}, true};
    for (const Run& r : m.runs) {
      if (!r.failed.empty()) continue;
      panel.y_label = r.unit;
      line.points.emplace_back(r.at, r.rate);
      if (r.share > 0) roofline.points.emplace_back(r.at, r.rate / r.share);
    }
    if (!line.points.empty()) panel.series.push_back(std::move(line));
    const auto close =
        [&](const Series& other) {  // one line for rooflines that differ by the rounding of their figures
          if (other.points.size() < roofline.points.size()) return false;
          for (std::size_t i = 0; i < roofline.points.size(); ++i) {
            if (std::fabs(roofline.points[i].second - other.points[i].second) > 0.01 * other.points[i].second)
              return false;
          }
          return true;
        };
    bool known = roofline.points.empty();
    for (const Series& other : rooflines) known |= close(other);
    if (!known) rooflines.push_back(std::move(roofline));
  }
  panel.series.insert(panel.series.end(), rooflines.begin(), rooflines.end());
  return panel;
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush()) throw IoError(concat("cannot write ", path, ": ", std::strerror(errno)));
}

/// Called before anything is measured, so that no measurement is lost.
void expect_writable(const std::string& path) {
  if (path.empty() || path == "-") return;
  if (!std::ofstream(path, std::ios::binary | std::ios::app))
    throw IoError(concat("cannot write ", path, ": ", std::strerror(errno)));
}

std::string json_of(const BenchOptions& o, const std::string& device, const std::vector<Measured>& all) {
  std::string text = concat("{\"kernel\": \"", o.kernel, "\", \"device\": \"", device, "\", \"runs\": [");
  const char* between = "\n  ";
  for (const Measured& m : all) {
    for (const Run& r : m.runs) {
      text += between + r.text;
      between = ",\n  ";
    }
  }
  return text + "\n]}\n";
}

/// Measures one series in order; ends early when a launch takes too long. False if the program has ended.
bool run_series(const BenchOptions& o, Coprocess& program, bool quiet, Measured& m) {
  for (std::size_t i = 0; i < m.series.words.size(); ++i) {
    const std::string& words = m.series.words[i];
    program.send(concat("run ", o.kernel, " ", words));
    const auto answer = program.receive();
    if (!answer) return false;
    if (const std::string why = field(*answer, "rejected"); !why.empty()) throw UsageError(why);
    m.runs.push_back(read_run(*answer, m.series.at[i]));
    if (!quiet) print_run(words, m.runs.back());
    if (m.runs.back().ms <= o.most_ms || i + 1 == m.series.words.size()) continue;
    if (!quiet) std::printf("  (a launch takes longer than %g ms: --most-ms)\n", o.most_ms);
    break;
  }
  return true;
}

int bench(const BenchOptions& o, bool one_size) {
  Sweep sweep(default_sweep(o));
  for (const std::string& word : o.values) sweep.set(word);
  if (one_size) sweep.keep_first();
  expect_writable(o.svg);
  expect_writable(o.json);
  Coprocess program(command(o, {"--ms", o.ms, "--serve"}));
  const auto greeting = program.receive();
  if (!greeting) throw Error("ConfigError", "the benchmark program does not start", {});
  const std::string device = field(*greeting, "device");
  const bool quiet = o.json == "-";
  if (!quiet) std::printf("%s on %s\n", o.kernel.c_str(), device.c_str());
  std::vector<Measured> all;
  bool failed = false, cached = false;
  for (SweepSeries& series : series_of(sweep)) {
    all.push_back({std::move(series), {}});
    const bool alive = run_series(o, program, quiet, all.back());
    for (const Run& r : all.back().runs) failed |= !r.failed.empty(), cached |= r.cached && r.share > 0;
    if (alive) continue;
    std::fprintf(stderr, "tessera bench: the benchmark program ended with code %d\n", program.finish());
    failed = true;
    break;
  }
  if (!quiet) std::printf("%%: of the device's roofline (%s)\n", field(*greeting, "roofline").c_str());
  if (!quiet && cached) std::puts("*: the inputs fit into caches, which are faster than memory");
  const int axis = sweep.main_axis();
  const std::string axis_name = axis < 0 ? "" : sweep.axes()[static_cast<std::size_t>(axis)].key;
  if (!o.svg.empty()) write_file(o.svg, svg_of({panel_of(o, device, axis_name, all)}));
  if (quiet) std::fputs(json_of(o, device, all).c_str(), stdout);
  if (!quiet && !o.json.empty()) write_file(o.json, json_of(o, device, all));
  return failed ? 1 : 0;
}

}  // namespace

int bench_command(Words words, bool one_size) {
  if (asks_for_help(words)) return print_usage(row_of("bench"));
  try {
    const BenchOptions o = parse_bench(words);
    if (o.list) return default_sweep(o), 0;
    return bench(o, one_size);
  } catch (const UsageError& error) { return report_usage(row_of("bench"), error); }
}

}  // namespace tessera
