// Lists the cases, verifies all of them at small sizes on any device, or measures them on a GPU:
//
//   generality_bench --list [--small] [--shapes] [--only NAMES]    a line of JSON for each case: sizes, tensors, work
//   generality_bench --small [--first] [--only NAMES] [--dump FOLDER]    verifies every output on the default device
//   generality_bench [--shapes] [--only NAMES] [--out FILE] [--ms N]     measures; a line of JSON for each case
//   generality_bench --serve ..., run NAME key=value ...        as gpu_bench: tessera/measure/measure.hpp
//
// A case is listed and measured at the first of its sizes; with --shapes at all of them, a line each. NAMES are
// separated by commas. --first leaves out the sizes that are not divisible: `tessera explain --
// generality_bench --small --first` reports the specializations of the full sizes. --dump writes the inputs and outputs
// of each case into a folder of its name, for peers.py --verify. The exit code is 1 if a result is wrong or a case does
// not run.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <utility>

#include "cases.hpp"

namespace generality {
namespace {

std::vector<Entry> all_entries() {
  std::vector<Entry> all;
  for (auto some : {product_entries,
                    library_product_entries,
                    attention_entries,
                    vector_entries,
                    row_entries,
                    library_row_entries,
                    row_loss_entries,
                    row_gradient_entries,
                    column_entries,
                    elementwise_entries,
                    activation_entries,
                    number_entries,
                    training_entries,
                    move_entries,
                    lookup_entries,
                    image_entries,
                    window_entries,
                    pool_entries,
                    shared_entries,
                    time_entries,
                    science_entries,
                    signal_entries,
                    network_entries,
                    table_entries,
                    transformer_entries,
                    vision_entries,
                    dataset_entries,
                    physics_entries,
                    unpacked_entries,
                    first_axis_entries,
                    draw_entries,
                    axis_scan_entries,
                    ragged_entries,
                    system_entries,
                    filter_entries,
                    stride_entries,
                    operand_entries,
                    uneven_entries,
                    two_pass_entries,
                    wide_attention_entries,
                    attention_gradient_entries,
                    transcendental_entries,
                    library_layer_entries,
                    library_gradient_entries}) {
    const auto entries = some();
    all.insert(all.end(), entries.begin(), entries.end());
  }
  return all;
}

struct Options {
  bool list = false, small = false, first = false, shapes = false;
  std::string only, out, dump, ms = "150", device = "cuda";
};

bool chosen(const Entry& e, const Options& options) {
  return options.only.empty() || ("," + options.only + ",").find("," + std::string(e.name) + ",") != std::string::npos;
}

Args args_of(const std::string& text) {
  Args args;
  std::istringstream words(text);
  for (std::string word; words >> word;) args.set(word.substr(0, word.find('=')), word.substr(word.find('=') + 1));
  return args;
}

/// The sizes of a case, which are separated by semicolons; with `first` only the first of them.
std::vector<std::string> sizes_of(const char* list, bool first) {
  std::vector<std::string> all;
  std::istringstream text(list);
  for (std::string sizes; std::getline(text, sizes, ';');) all.push_back(sizes.substr(sizes.find_first_not_of(' ')));
  if (first) all.resize(1);
  return all;
}

// -- --list -----------------------------------------------------------------------------------------------------------

std::string json_of(const std::vector<TensorText>& tensors) {
  constexpr const char* kFills[] = {"normal", "uniform", "whole", "steps"};
  std::ostringstream out;
  for (const TensorText& t : tensors) {
    out << (&t == tensors.data() ? "" : ", ") << "{\"type\": \"" << t.type << "\", \"dims\": [";
    for (std::size_t a = 0; a < t.dims.size(); ++a) out << (a ? ", " : "") << t.dims[a];
    out << "], \"fill\": \"" << kFills[static_cast<int>(t.fill)] << "\", \"low\": " << t.low << ", \"high\": " << t.high
        << "}";
  }
  return out.str();
}

void list(const Entry& e, const Options& options) {
  int shape = 0;
  for (const std::string& sizes : sizes_of(options.small ? e.small : e.full, !options.shapes)) {
    const Plan p = e.plan(args_of(sizes));
    std::ostringstream out;
    out << "{\"name\": \"" << e.name << "\", \"family\": \"" << e.family << "\", \"shape\": " << shape++
        << ", \"arguments\": \"" << sizes << "\", \"bytes\": " << p.cost.bytes << ", \"flops\": " << p.cost.flops
        << ", \"inputs\": [" << json_of(p.inputs) << "], \"outputs\": [" << json_of(p.outputs) << "]}";
    std::puts(out.str().c_str());
  }
}

// -- --small ----------------------------------------------------------------------------------------------------------

/// What is wrong with the case at these sizes; empty if nothing is. Leaves its tensors in a folder, unless that is "".
std::string problem_of(const Entry& e, const std::string& sizes, const std::string& folder) {
  Args args = args_of(sizes);
  args.set("one_set", "1");
  args.set("all", "1");
  const Ready ready = e.plan(args).ready(args);
  Stream stream = Stream::default_of(default_device({}));
  ready.prepared.launch(0, stream);
  stream.synchronize();
  const Accuracy a = ready.prepared.check();
  if (!folder.empty()) {
    std::filesystem::create_directories(folder);
    ready.save(folder);
  }
  if (a.error <= a.tolerance) return {};
  return "WRONG: error " + std::to_string(a.error) + ", allowed " + std::to_string(a.tolerance);
}

int verify(const std::vector<Entry>& entries, const Options& options) {
  int bad = 0, count = 0;
  for (const Entry& e : entries) {
    if (!chosen(e, options)) continue;
    // The tensors of the first sizes are kept: those that --list --small prints.
    std::string folder = options.dump.empty() ? "" : options.dump + "/" + e.name;
    for (const std::string& sizes : sizes_of(e.small, options.first)) {
      std::string problem;
      try {
        problem = problem_of(e, sizes, std::exchange(folder, ""));
      } catch (const std::exception& error) { problem = std::string("FAILED: ") + error.what(); }
      ++count;
      bad += problem.empty() ? 0 : 1;
      std::printf("%-24s %-40s %s\n", e.name, sizes.c_str(), problem.empty() ? "ok" : problem.c_str());
      std::fflush(stdout);
    }
  }
  std::printf("%d of %d small cases are right\n", count - bad, count);
  return bad == 0 && count > 0 ? 0 : 1;
}

// -- measuring --------------------------------------------------------------------------------------------------------

int measure_words(std::vector<std::string> words, const std::vector<measure::Case>& cases) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return measure::run_cases(static_cast<int>(argv.size()), argv.data(), cases);
}

int measure_all(const std::vector<Entry>& entries, const std::vector<measure::Case>& cases, const Options& options) {
  if (!options.out.empty() && !std::freopen(options.out.c_str(), "w", stdout)) {
    std::fprintf(stderr, "generality_bench: cannot write %s\n", options.out.c_str());
    return 1;
  }
  int failed = 0;
  for (const Entry& e : entries) {
    if (!chosen(e, options)) continue;
    for (const std::string& sizes : sizes_of(e.full, !options.shapes)) {
      std::vector<std::string> words{"generality_bench", "--device", options.device, "--ms", options.ms, "run", e.name};
      std::istringstream text(sizes);
      for (std::string word; text >> word;) words.push_back(word);
      failed += measure_words(words, cases) != 0;
    }
  }
  return failed == 0 ? 0 : 1;
}

/// False if an argument is invalid.
bool read_options(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&](std::string& to) {
      if (i + 1 < argc) to = argv[++i];
    };
    if (word == "--list")
      options.list = true;
    else if (word == "--small")
      options.small = true;
    else if (word == "--first")
      options.first = true;
    else if (word == "--shapes")
      options.shapes = true;
    else if (word == "--only")
      value(options.only);
    else if (word == "--out")
      value(options.out);
    else if (word == "--dump")
      value(options.dump);
    else if (word == "--ms")
      value(options.ms);
    else if (word == "--device")
      value(options.device);
    else
      return false;
  }
  return true;
}

int run(int argc, char** argv) {
  const std::vector<Entry> entries = all_entries();
  std::vector<std::string> first_sizes;  // which the cases point at
  for (const Entry& e : entries) first_sizes.push_back(sizes_of(e.full, true).front());
  std::vector<measure::Case> cases;
  for (const Entry& e : entries) cases.push_back({e.name, first_sizes[cases.size()].c_str(), e.prepare});
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--serve") == 0 || std::strcmp(argv[i], "run") == 0)
      return measure_words({argv, argv + argc}, cases);
  }
  Options options;
  if (!read_options(argc, argv, options)) {
    std::fprintf(
        stderr,
        "usage: %s [--list] [--small] [--first] [--shapes] [--only NAMES] [--dump FOLDER] [--out FILE] [--ms N] "
        "[--device D]\n",
        argv[0]);
    return 2;
  }
  if (!options.list) return options.small ? verify(entries, options) : measure_all(entries, cases, options);
  for (const Entry& e : entries) {
    if (chosen(e, options)) list(e, options);
  }
  return 0;
}

}  // namespace
}  // namespace generality

int main(int argc, char** argv) {
  try {
    return generality::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
    return 1;
  }
}
