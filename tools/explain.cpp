// Prints the compiler's report on each kernel of a program, then that of NVIDIA's assembler: its remarks with the
// user's lines, its warnings, and the registers and shared memory that the cubin declares.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collecting.hpp"
#include "command_rows.hpp"
#include "library_cases.hpp"
#include "tessera/base/format.hpp"
#include "tessera/jit/bundle.hpp"
#include "tessera/jit/code_report.hpp"
#include "tessera/jit/cubin.hpp"
#include "tessera/jit/forms.hpp"
#include "tessera/passes/pipeline.hpp"
#include "tessera/runtime/cuda.hpp"

namespace tessera {
namespace {

struct ExplainOptions {
  std::string gpus = "sm_90", filter, device, kernel;
  std::vector<std::string> values;  ///< of the library's kernel
  std::vector<std::string> after;   ///< passes whose results are printed, instead of everything else
  bool list_passes = false;
  bool all_predicates = false;  ///< also those that hold
  std::vector<char*> program;
};

/// The value of "Key:  'value'" in a line of YAML; empty if it has another key.
std::string yaml_value(const std::string& line, const std::string& key) {
  std::size_t at = line.find_first_not_of(" -");
  if (at == std::string::npos || line.compare(at, key.size() + 1, key + ":") != 0) return "";
  at = line.find_first_not_of(" '", at + key.size() + 1);
  if (at == std::string::npos) return "";
  const std::size_t end = line.find_last_not_of(" '\r");
  return line.substr(at, end - at + 1);
}

/// "kernels.hpp:54" out of "{ File: '../kernels.hpp', Line: 54, Column: 0 }".
std::string place_of(const std::string& location) {
  const std::size_t file = location.find("File: '"), line = location.find("Line: ");
  if (file == std::string::npos || line == std::string::npos) return "";
  std::string name = location.substr(file + 7, location.find('\'', file + 7) - file - 7);
  name.erase(0, name.rfind('/') + 1);
  return concat(name, ":", std::atoi(location.c_str() + line + 6));
}

/// Prints every remark once, with its count; remarks about default hints are left out.
void print_remarks(const std::string& yaml) {
  std::map<std::string, int> remarks;
  std::string place, text, instruction, shape, name;
  for (std::size_t at = 0; at < yaml.size();) {
    const std::size_t end = std::min(yaml.find('\n', at), yaml.size());
    const std::string line = yaml.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("--- ")) {
      place = text = instruction = shape = name = "";
    } else if (line == "...") {
      if (name == "RemarkHintDefault" || text.empty()) continue;
      if (!instruction.empty()) text += ": " + instruction;
      if (!shape.empty()) text += " " + shape;
      ++remarks[concat(place, std::string(place.size() < 28 ? 28 - place.size() : 0, ' '), " ", text)];
    } else if (line.starts_with("DebugLoc:")) {
      place = place_of(line);
    } else {
      for (const auto& [key, field] :
           {std::pair{"Name", &name}, {"Remark", &text}, {"Instruction", &instruction}, {"Shape", &shape}}) {
        if (std::string value = yaml_value(line, key); !value.empty()) *field = std::move(value);
      }
    }
  }
  for (const auto& [remark, count] : remarks) {
    std::printf("    %s%s\n", remark.c_str(), count > 1 ? concat(" (", count, " times)").c_str() : "");
  }
}

/// The processor time of each form that was assembled. Forms are assembled at the same time.
class Times {
 public:
  void add(jit::Form form, double seconds) {
    const std::lock_guard lock(mutex_);
    all_ += seconds;
    ++count_;
    if (seconds > slowest_) slowest_ = seconds, form_ = form;
  }
  /// "; 3 forms in all 12.10 s, of which the slowest (stores) 8.20 s"; empty for one form.
  std::string slowest() const {
    if (count_ < 2) return "";
    char text[128];
    std::snprintf(text, sizeof text, "; %d forms in all %.2f s, of which the slowest (%s) %.2f s", count_, all_,
                  form_ == jit::Form::Chosen ? "chosen" : jit::name_of(form_), slowest_);
    return text;
  }

 private:
  std::mutex mutex_;
  double all_ = 0, slowest_ = 0;
  int count_ = 0;
  jit::Form form_ = jit::Form::Chosen;
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

constexpr const char* kPredicates = "  predicates of the launch";
constexpr const char* kLargest = "  largest tile: ";
constexpr const char* kAdvice = "  advice: ";

/// A report as it is shown: of the predicates those that do not hold, unless all are requested, and no largest tile,
/// which is for kernels that spill. `advised` is set if it has advice.
std::string shown(const std::string& report, bool all_predicates, bool& advised) {
  std::string text;
  std::size_t held = 0, at_predicates = std::string::npos;
  bool in_predicates = false, any = false;
  for (std::size_t at = 0; at < report.size();) {
    const std::size_t end = std::min(report.find('\n', at), report.size() - 1);
    const std::string line = report.substr(at, end + 1 - at);
    at = end + 1;
    advised |= line.starts_with(kAdvice);
    if (line.starts_with(kLargest)) continue;
    if (line.starts_with(kPredicates)) {
      in_predicates = true;
      at_predicates = text.size();
      if (all_predicates) text += line;
      continue;
    }
    in_predicates = in_predicates && line.starts_with("    ");
    if (in_predicates && !all_predicates) {
      if (line.starts_with("    + ") || line.starts_with("    none")) {
        held += line.starts_with("    + ") ? 1 : 0;
        continue;
      }
      any = true;
    }
    text += line;
  }
  if (!all_predicates && at_predicates != std::string::npos)
    text.insert(at_predicates, any        ? concat(kPredicates, " that do not hold (", held, " hold: -v)\n")
                               : held > 0 ? concat(kPredicates, ": all ", held, " hold (-v)\n")
                                          : concat(kPredicates, ": none\n"));
  return text;
}

/// What the report says of the largest tile, for a kernel that spills; empty if it says nothing.
std::string largest_tile(const std::string& report) {
  const std::size_t at = report.find(kLargest);
  if (at == std::string::npos) return "";
  const std::size_t start = at + std::char_traits<char>::length(kLargest);
  return report.substr(start, report.find('\n', start) - start);
}

/// The first line of the user's that a report names, "app.cpp:12"; empty if it names none.
std::string first_place(const std::string& report) {
  std::size_t at = 0;
  for (; at < report.size(); at = report.find('\n', at) + 1) {
    if (report.compare(at, 4, "    ") != 0) continue;
    const std::size_t start = report.find_first_not_of(" +-", at);
    const std::size_t end = report.find_first_of(" \n", start);
    const std::string word = report.substr(start, end - start);
    const std::size_t colon = word.rfind(':');
    if (colon != std::string::npos && colon + 1 < word.size() && word.find('.') < colon &&
        word.find_first_not_of("0123456789", colon + 1) == std::string::npos)
      return word;
    if (report.find('\n', at) == std::string::npos) break;
  }
  return "";
}

/// Returns false if the kernel does not compile, which is printed.
bool explain(const jit::Collected& kernel, bool all_predicates, bool& advised) {
  std::string why;
  const auto assembler = jit::assembler_for(kernel.gpu, &why);
  if (!assembler) {
    std::printf("%s  %s\n\n", shown(read_text(kernel.forms.front().report), all_predicates, advised).c_str(),
                why.c_str());
    return true;
  }
  tileiras::AssembleOptions options;
  options.gpu = kernel.gpu;
  options.assembler = assembler->path;
  options.remarks = true;
  const auto notes_of = [](const tileiras::AssembleResult& r) {
    return jit::CodeNotes{jit::resources_of(r.cubin), {}, r.register_pressure};
  };
  Times times;
  jit::Asked asked;
  tileiras::AssembleResult made;
  std::string report;
  try {
    auto best = jit::best_form(
        kernel.forms, stored_form,
        [&](const StoredForm& s) {
          tileiras::AssembleOptions of_form = options;
          const jit::Effort effort = jit::effort_of(s.form, s.patient);
          of_form.opt_level = effort.opt_level;
          of_form.processor_limit_s = effort.processor_seconds;
          tileiras::AssembleResult result = tileiras::assemble(s.bytecode, of_form);
          times.add(s.form, result.seconds);
          return result;
        },
        notes_of);
    report = read_text(best.prepared.report);
    std::fputs(shown(report, all_predicates, advised).c_str(), stdout);
    if (best.cause != jit::Cause::None)
      std::printf("    %s: %s\n",
                  best.prepared.form == jit::Form::Chosen ? "no other form takes less" : "instead of the chosen one",
                  first_line(best.reason).c_str());
    asked = best.prepared.asked;
    made = std::move(best.made);
  } catch (const CompileError& error) {
    report = read_text(kernel.forms.front().report);
    std::fputs(shown(report, all_predicates, advised).c_str(), stdout);
    std::printf("  %s at %s does not compile: %s\n\n", kernel.label.c_str(), first_place(report).c_str(), error.what());
    return false;
  }
  std::printf("  assembler %d.%d, %.2f s of processor time%s\n", assembler->major, assembler->minor, made.seconds,
              times.slowest().c_str());
  print_remarks(made.remarks);
  for (const std::string& warning : made.warnings) std::printf("    %s\n", warning.c_str());
  const jit::CubinResources r = jit::resources_of(made.cubin);
  std::printf("  %u registers, %.1f KiB of shared memory, %u bytes of stack%s\n", r.registers,
              static_cast<double>(r.shared) / 1024, r.stack, r.stack > 0 ? " (spilled registers: slow)" : "");
  if (const std::string largest = largest_tile(report); r.stack > 0 && !largest.empty()) {
    std::printf("%s%s\n", kAdvice, largest.c_str());
    advised = true;
  }
  if (const int fit = jit::fewer_blocks(asked, notes_of(made)); fit > 0)
    std::printf("  only %d of these blocks %s on an SM: a persistent kernel is launched with as many\n", fit,
                fit == 1 ? "fits" : "fit");
  std::puts("");
  return true;
}

}  // namespace

namespace {

/// "unmask,clean_up_last".
std::vector<std::string> passes_of(const std::string& list) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    names.push_back(list.substr(at, end - at));
    if (names.back() != "all" && !passes::find_pass(names.back()))
      throw UsageError(concat("there is no pass ", names.back(), "; tessera explain --passes lists them"));
    at = end + 1;
  }
  return names;
}

void print_passes() {
  int number = 0;
  for (const passes::PassInfo& p : passes::pass_table()) {
    const std::string off = p.switch_word ? concat("; off with TESSERA_TUNING=", p.switch_word, "=0") : std::string();
    std::printf("%2d  %-24s %s (%s%s)\n", ++number, p.name, p.doc, passes::text(p.when), off.c_str());
  }
}

bool is_library_case(const std::string& name) {
  for (const auto& cases : {library_row_cases(), library_product_cases()})
    if (std::any_of(cases.begin(), cases.end(), [&](const measure::Case& c) { return c.name == name; })) return true;
  return false;
}

ExplainOptions parse_explain(Words words) {
  const Given given(row_of("explain"), words);
  ExplainOptions o;
  check_gpus(o.gpus = given.text("--gpu", o.gpus));
  o.filter = given.text("--kernel");
  if (given.has("--after")) o.after = passes_of(given.text("--after"));
  o.list_passes = given.has("--passes");
  o.all_predicates = given.has("-v");
  o.device = given.text("--device");
  o.program = given.program();
  for (const std::string& word : given.words()) {
    if (word.find('=') != std::string::npos)
      o.values.push_back(word);
    else if (o.kernel.empty())
      o.kernel = word;
    else
      throw UsageError(concat("expected one kernel, found ", o.kernel, " and ", word));
  }
  if (!o.program.empty() && !given.words().empty())
    throw UsageError("a kernel of the library or a program, not both; --kernel NAME selects kernels of a program");
  if (o.program.empty() && o.kernel.empty() && !o.list_passes)
    throw UsageError("expected a kernel of the library (tessera bench --list), or -- PROGRAM");
  if (!o.kernel.empty() && !is_library_case(o.kernel))
    throw UsageError(concat("there is no kernel ", o.kernel, "; tessera bench --list prints them"));
  return o;
}

/// The command line of a case of the library: small, and run once.
std::vector<std::string> library_words(const ExplainOptions& o) {
  std::vector<std::string> words = {
      "/proc/self/exe", "bench-library", "--strict", "--device", "cpu", "--ms", "0", "run", o.kernel};
  words.insert(words.end(), o.values.begin(), o.values.end());
  words.emplace_back("one_set=1");
  return words;
}

/// Prints the files of TESSERA_DUMP=after:..., of the forms that were chosen for GPUs; returns their number.
std::size_t print_texts(const std::string& folder, const std::string& filter) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const std::size_t hash = name.rfind('-', name.find('.')), gpu = name.rfind('-', hash - 1) + 1;
    if (name.ends_with(".tileir") && name.compare(gpu, 3, "sm_") == 0 && name.find(filter) < gpu) files.push_back(name);
  }
  std::sort(files.begin(), files.end());
  for (const std::string& name : files) {
    std::printf("// %s\n%s\n", name.substr(0, name.rfind('.')).c_str(), read_text(folder + "/" + name).c_str());
  }
  return files.size();
}

struct Explained {
  std::size_t shown = 0, failed = 0;  ///< kernels, and those of them that do not compile
};

/// Prints every kernel that a run has collected.
Explained explain_all(const ExplainOptions& o, const std::vector<char*>& program) {
  const TemporaryFolder folder;
  const Output output = o.program.empty() ? Output::Discarded : Output::ToErrors;
  if (const int code = run_collecting(program, o.gpus, folder.path, output, o.after); code != 0) {
    const char* name = o.program.empty() ? o.kernel.c_str() : program[0];
    std::fprintf(stderr, "tessera explain: %s ended with code %d; kernels that it launched until then:\n", name, code);
  }
  if (!o.after.empty()) return {print_texts(folder.path, o.filter), 0};
  Explained done;
  bool advised = false;
  std::puts("");
  for (const jit::Collected& kernel : jit::collected(folder.path)) {
    if (!kernel.asked || kernel.label.find(o.filter) == std::string::npos) continue;
    done.failed += explain(kernel, o.all_predicates, advised) ? 0 : 1;
    ++done.shown;
  }
  if (advised && !o.program.empty())
    std::puts(
        "Predicates and advice are those of the sizes that this run launched: run the program with the sizes that you "
        "mean.");
  if (done.failed > 0)
    std::fprintf(stderr, "tessera explain: %zu of %zu kernels do not compile\n", done.failed, done.shown);
  return done;
}

/// Measures the library's kernel on a device, at one size, as `tessera bench` does.
int measured(const ExplainOptions& o) {
  std::vector<std::string> words = {o.kernel};
  words.insert(words.end(), o.values.begin(), o.values.end());
  if (!o.device.empty()) words.insert(words.end(), {"--device", o.device});
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  return bench_command(pointers, true);
}

}  // namespace

int explain_command(Words words) {
  if (asks_for_help(words)) return print_usage(row_of("explain"));
  ExplainOptions o;
  try {
    o = parse_explain(words);
  } catch (const UsageError& error) { return report_usage(row_of("explain"), error); }
  if (o.list_passes) return print_passes(), 0;
  std::vector<std::string> library = library_words(o);
  std::vector<char*> program = o.program;
  if (program.empty()) {
    for (std::string& word : library) program.push_back(word.data());
  }
  const auto [shown, failed] = explain_all(o, program);
  if (shown == 0) std::printf("no kernel%s%s was launched\n", o.filter.empty() ? "" : " named ", o.filter.c_str());
  if (!o.after.empty()) return shown > 0 ? 0 : 1;
  const bool measurable = o.program.empty() && shown > 0;
  if (measurable && (!o.device.empty() || runtime::cuda::available())) return measured(o);
  if (measurable) std::puts("not measured: there is no GPU here (--device cpu measures on the CPU)");
  return shown > 0 && failed == 0 ? 0 : 1;
}

}  // namespace tessera
