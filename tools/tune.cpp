// tessera tune: measures the tuning spaces of the library's kernels for given shapes, or for those of the plan, and
// compares the library's defaults with the best that was found.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "command_rows.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/jit/forms.hpp"
#include "tessera/jit/tuning.hpp"
#include "tune_cases.hpp"

namespace tessera {
namespace {

/// A selection of the project's benchmarks (bench/gpu/plan.py; rows of half as many elements), the most important
/// first.
constexpr const char* kPlan[] = {"gemm n=4096",
                                 "gemm n=8192",
                                 "gemm n=2048",
                                 "gemm n=1024",
                                 "softmax columns=4096",
                                 "rms_norm columns=4096",
                                 "layer_norm columns=4096",
                                 "attention length=8192 d=128 causal=1",
                                 "attention length=8192 d=128 causal=0",
                                 "linear m=1 k=2560 n=19456",
                                 "linear m=1 k=9728 n=2560",
                                 "linear m=8 k=2560 n=19456",
                                 "linear m=8 k=9728 n=2560",
                                 "softmax columns=1024",
                                 "rms_norm columns=1024",
                                 "layer_norm columns=1024",
                                 "softmax columns=16384",
                                 "rms_norm columns=16384",
                                 "layer_norm columns=16384",
                                 "gemm n=4096 layout=NN",
                                 "gemm n=2048 layout=NN",
                                 "gemm n=8192 layout=NN",
                                 "softmax columns=512",
                                 "rms_norm columns=512",
                                 "layer_norm columns=512",
                                 "softmax columns=50257",
                                 "rms_norm columns=50257",
                                 "layer_norm columns=50257",
                                 "softmax columns=1000",
                                 "softmax columns=1023",
                                 "softmax columns=4097",
                                 "linear m=1 k=2560 n=6144",
                                 "linear m=1 k=4096 n=2560",
                                 "linear m=1 k=5120 n=51200",
                                 "linear m=1 k=2560 n=151936",
                                 "linear m=16 k=2560 n=19456",
                                 "linear m=64 k=2560 n=19456",
                                 "attention length=8192 d=64 causal=1",
                                 "attention length=8192 d=256 causal=1",
                                 "attention length=8192 d=64 causal=0",
                                 "attention length=8192 d=256 causal=0",
                                 "attention length=2048 d=128 causal=1",
                                 "attention length=16384 d=128 causal=1",
                                 "gemm m=512 n=19456 k=2560",
                                 "gemm m=2048 n=2560 k=9728",
                                 "gemm n=1536",
                                 "gemm n=3072",
                                 "gemm n=5120"};

constexpr double kLeastSeconds = 1e-3, kMaxJobs = 1024;

struct Command {
  TuneOptions options;
  std::vector<std::string> asked;
  std::string gpu = "sm_90", listed, device;
  double seconds = 0;
  bool list = false, dry = false, again = false, all = false;
};

std::vector<TuneCase> all_cases() {
  std::vector<TuneCase> all = tune_product_cases();
  for (auto some : {tune_split_cases, tune_attention_cases, tune_decode_cases, tune_row_cases}) {
    for (const TuneCase& c : some()) all.push_back(c);
  }
  return all;
}

/// "softmax columns=512 , gemm n=128": the words of each kernel, joined.
std::vector<std::string> kernels_of(const std::vector<std::string>& words) {
  std::vector<std::string> kernels;
  std::string kernel;
  const auto end_kernel = [&] {
    if (!kernel.empty()) kernels.push_back(kernel);
    kernel.clear();
  };
  for (std::string word : words) {
    const bool ends = word.ends_with(",");
    if (ends) word.pop_back();
    if (!word.empty()) kernel += (kernel.empty() ? "" : " ") + word;
    if (ends) end_kernel();
  }
  end_kernel();
  return kernels;
}

Command parse_tune(Words words) {
  const Given given(row_of("tune"), words);
  Command c;
  if (given.has("--plan")) c.asked.assign(std::begin(kPlan), std::end(kPlan));
  for (std::string& kernel : kernels_of(given.words())) c.asked.push_back(std::move(kernel));
  c.options.file = given.text("--out", c.options.file);
  c.options.hints = given.text("--hints", c.options.hints);
  c.gpu = given.text("--gpu", c.gpu);
  c.seconds = given.number("--seconds", 0, kLeastSeconds);
  c.options.jobs = static_cast<int>(std::min(given.number("-j", c.options.jobs, 1), kMaxJobs));
  c.list = given.has("--list");
  c.listed = given.text("--list");
  c.device = given.text("--device");
  if (!c.device.empty() && given.has("--dry-run"))
    throw UsageError("--dry-run compiles for --gpu and runs on no device: leave --device out");
  c.dry = given.has("--dry-run");
  c.again = given.has("--again");
  c.all = given.has("-v");
  if (!c.list && c.asked.empty()) throw UsageError("expected a kernel (tessera tune --list), or --plan");
  if (c.options.hints != "-") jit::hint_combinations(c.options.hints);  // checks them; on the CPU nothing else would
  return c;
}

int list_kernels() {
  for (const TuneCase& c : all_cases()) std::printf("%-11s %s\n            hints: %s\n", c.name, c.arguments, c.hints);
  return 0;
}

int list_records(const std::string& path) {
  const auto records = read_records(path, {});
  for (const TuningRecord& r : records) {
    std::printf("%s  %s\n    %s %s; %.4f ms, default %.4f ms; %s, assembler %s, Tessera %s, %s\n", r.space.c_str(),
                r.arguments.c_str(), r.choice.c_str(), r.hints.empty() ? "without hints" : r.hints.c_str(), r.ms,
                r.default_ms, r.device.c_str(), r.assembler.empty() ? "none" : r.assembler.c_str(), r.library.c_str(),
                r.date.c_str());
  }
  std::printf("%zu records\n", records.size());
  return 0;
}

/// `arguments` of a case names all of them: "n=4096 m=n".
bool has_key(const TuneCase& c, const std::string& key) {
  return concat(" ", c.arguments).find(concat(" ", key, "=")) != std::string::npos;
}

TuningReport run(const std::string& asked, const TuneOptions& options) {
  measure::Args args;
  std::string name;
  std::vector<std::string> keys;
  for (std::size_t at = 0; at < asked.size();) {
    const std::size_t end = std::min(asked.find(' ', at), asked.size());
    const std::string word = asked.substr(at, end - at);
    at = end + 1;
    const std::size_t equals = word.find('=');
    if (name.empty() && equals == std::string::npos)
      name = word;
    else if (equals != std::string::npos)
      args.set(keys.emplace_back(word.substr(0, equals)), word.substr(equals + 1));
    else
      throw std::runtime_error(concat("expected key=value, found ", word, " (kernels are separated by a comma)"));
  }
  for (const TuneCase& c : all_cases()) {
    if (name != c.name) continue;
    for (const std::string& key : keys) {
      if (!has_key(c, key)) throw std::runtime_error(concat(name, " has no argument ", key, ", only ", c.arguments));
    }
    return c.run(args, options);
  }
  throw std::runtime_error(concat("there is no kernel \"", name, "\" to tune; tessera tune --list prints them"));
}

void print_trial(const TuningTrial& t) {
  const jit::CubinResources& r = t.code.notes.resources;
  const std::string time = t.ms > 0 ? concat(static_cast<double>(static_cast<long>(t.ms * 1e5)) / 1e5, " ms") : "";
  std::printf("    %-14s %-34s %-12s %-17s", t.choice.c_str(), t.hints.empty() ? "(default hints)" : t.hints.c_str(),
              time.c_str(), name_of(t.outcome));
  if (r.registers > 0)
    std::printf(" %3u registers, %5.1f KiB shared", r.registers, static_cast<double>(r.shared) / 1024);
  if (r.stack > 0) std::printf(", %u bytes spilled", r.stack);
  if (t.code.form != jit::Form::Chosen)
    std::printf("  form %s (%s)", jit::name_of(t.code.form), jit::text_of(t.code.form).c_str());
  if (!t.note.empty()) std::printf("  %s", t.note.substr(0, 160).c_str());
  std::puts("");
}

/// Prints the best few, or all, and the number of points per outcome.
void print_report(const TuningReport& report, bool all) {
  std::vector<const TuningTrial*> shown;
  int counts[8] = {};
  for (const TuningTrial& t : report.trials) {
    ++counts[static_cast<int>(t.outcome)];
    if (all || t.outcome == TrialOutcome::Measured) shown.push_back(&t);
  }
  std::stable_sort(shown.begin(), shown.end(), [](auto* a, auto* b) {
    return a->outcome == TrialOutcome::Measured && (b->outcome != TrialOutcome::Measured || a->ms < b->ms);
  });
  if (!all && shown.size() > 4) shown.resize(4);
  for (const TuningTrial* t : shown) print_trial(*t);
  std::printf("    %zu points:", report.trials.size());
  for (int i = 0; i < 8; ++i) {
    if (counts[i] > 0) std::printf(" %d %s", counts[i], name_of(static_cast<TrialOutcome>(i)));
  }
  std::puts("");
}

struct Line {
  std::string asked;
  TuningRecord best;
};

/// Compares the library's defaults with the best that was found.
int summary(const std::vector<Line>& lines, int failed, int left) {
  constexpr double kAllowed = 1.05;
  int within = 0;
  double worst = 1;
  std::printf("\n%-44s %11s %11s %7s\n", "default compared with tuned", "default ms", "tuned ms", "ratio");
  for (const Line& l : lines) {
    const double ratio = l.best.default_ms > 0 ? l.best.default_ms / l.best.ms : INFINITY;
    worst = std::max(worst, ratio);
    within += ratio <= kAllowed ? 1 : 0;
    std::printf("%-44s %11.4f %11.4f %7.3f  %s %s\n", l.asked.c_str(), l.best.default_ms, l.best.ms, ratio,
                l.best.choice.c_str(), l.best.hints.c_str());
  }
  std::printf("within 5 %%: %d of %zu, worst %.3f; %d failed, %d not begun\n", within, lines.size(), worst, failed,
              left);
  return failed > 0 ? 1 : 0;
}

int tune_all(const Command& c) {
  using Clock = std::chrono::steady_clock;
  const auto started = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - started).count(); };
  std::vector<Line> lines;
  int failed = 0, left = 0;
  for (const std::string& asked : c.asked) {
    TuneOptions options = c.options;
    if (c.seconds > 0) options.seconds = c.seconds - elapsed();
    if (c.seconds > 0 && options.seconds <= 0) {
      ++left;
      continue;
    }
    try {
      const double before = elapsed();
      const TuningReport report = run(asked, options);
      std::printf("%s  (%.1f s%s)\n", asked.c_str(), elapsed() - before, report.kept ? ", known" : "");
      if (!report.kept) print_report(report, c.all || c.dry);
      if (!c.dry) lines.push_back({asked, report.best});
    } catch (const std::exception& error) {
      ++failed;
      std::printf("%s\n    %s\n", asked.c_str(), error.what());
    }
    std::fflush(stdout);
  }
  return c.dry ? (failed > 0 ? 1 : 0) : summary(lines, failed, left);
}

}  // namespace

int tune_command(Words words) {
  if (asks_for_help(words)) return print_usage(row_of("tune"));
  Command c;
  try {
    c = parse_tune(words);
  } catch (const UsageError& error) { return report_usage(row_of("tune"), error); }
  if (c.list) return c.listed.empty() ? list_kernels() : list_records(c.listed);
  c.options.keep = !c.again;
  if (c.dry) {
    c.options.only_compile = c.gpu.starts_with("sm_") ? std::atoi(c.gpu.c_str() + 3) : 0;
    if (c.options.only_compile <= 0) throw std::runtime_error(concat("--gpu takes a GPU such as sm_90, found ", c.gpu));
    set_default_device(Device::cpu());
  }
  if (!c.device.empty()) set_default_device(runtime::parse_device(c.device));
  std::printf("on %s\n", c.dry ? c.gpu.c_str() : default_device().name().c_str());
  return tune_all(c);
}

}  // namespace tessera
