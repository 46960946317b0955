// Modules: globals, functions, and the problems of a whole text.
#include "tessera/ir/parser.hpp"

#include <algorithm>

#include "ir/parser.hpp"
#include "ir/text_values.hpp"
#include "tessera/ir/verifier.hpp"

namespace tessera::ir {

namespace {

constexpr std::size_t kMaxText = std::size_t{1} << 30;

/// Lines and columns of offsets that are asked in ascending order.
class LineCounter {
 public:
  explicit LineCounter(std::string_view text) : text_(text) {}
  TextProblem place(const PlacedProblem& problem) {
    if (problem.at < line_start_) line_ = 1, line_start_ = 0;
    for (std::size_t end = text_.find('\n', line_start_); end < problem.at; end = text_.find('\n', line_start_)) {
      ++line_;
      line_start_ = end + 1;
    }
    return {line_, static_cast<std::uint32_t>(problem.at - line_start_ + 1), problem.message};
  }

 private:
  std::string_view text_;
  std::uint32_t line_ = 1;
  std::size_t line_start_ = 0;
};

class ModuleParser {
 public:
  ModuleParser(std::string_view text, const ParseOptions& options)
      : options_(options),
        in_(text, std::max<std::size_t>(options.most_problems, 1)),
        parts_(in_),
        operations_(in_, parts_) {}

  std::unique_ptr<Module> run() {
    if (in_.text().size() > kMaxText) {
      in_.report(0, concat("expected a text of at most ", kMaxText, " bytes, found ", in_.text().size()));
      throw_problems();
    }
    try {
      producer();
      while (!in_.at_end()) top_level();
      if (open_module_) in_.report(in_.at(), "expected `}` at the end of the module, found the end of the text");
    } catch (const TooManyProblems&) {}
    if (!in_.problems().empty()) throw_problems();
    if (options_.verify) verify_module();
    return std::move(module_);
  }

 private:
  /// print() writes the producer as a comment in the first line.
  void producer() {
    if (!in_.text().starts_with(kProducerComment)) return;
    std::string_view line = in_.text().substr(kProducerComment.size());
    line = line.substr(0, line.find('\n'));
    module_->producer = unescaped(line);
  }

  std::string unescaped(std::string_view line) {
    const std::string quoted = concat("\"", escape_quotes(line), "\"");
    TextCursor text(quoted, 1);
    try {
      return text.string("a string");
    } catch (const TextCursor::Stop&) { return std::string(line); }
  }

  static std::string escape_quotes(std::string_view line) {
    std::string out;
    for (char c : line) out += c == '"' ? std::string("\\22") : std::string(1, c);
    return out;
  }

  void top_level() {
    in_.skip();
    const std::size_t start = in_.at();
    try {
      if (open_module_ && in_.take("}")) {
        open_module_ = false;
        in_.take("loc(unknown)");
        return;
      }
      const std::string_view word = without_dialect(in_.peek_word());
      if (word == "entry" || word == "func") return function(word == "entry");
      if (word == "global") return global();
      if (word == "module" && start_of_module()) return;
      in_.fail("entry, func or global");
    } catch (const TextCursor::Stop&) {
      if (in_.is_full()) throw TooManyProblems{};
      operations_.recover(start);
      if (in_.at() == start) in_.move_to(start + 1);  // a brace that closes nothing
    }
  }

  /// `module @name {`, around everything.
  bool start_of_module() {
    if (open_module_ || !module_->globals.empty() || !module_->functions.empty()) return false;
    in_.word();
    module_->name = parts_.symbol();
    if (in_.take("attributes {")) {
      in_.expect("producer =");
      module_->producer = in_.string("a string");
      in_.expect("}");
    }
    in_.expect("{");
    open_module_ = true;
    return true;
  }

  void function(bool entry) {
    const std::size_t start = in_.at();
    in_.word();
    Function& f = module_->add_function(parts_.symbol(), entry);
    functions_.emplace_back(&f, start);
    operations_.function(f);
  }

  /// `global [private] [constant] @name [alignment = n] <values> : type`
  void global() {
    globals_.push_back(in_.at());
    in_.word();
    Global g;
    g.is_private = in_.take("private");
    g.constant = in_.take("constant");
    g.name = parts_.symbol();
    if (in_.take("alignment =")) g.alignment = in_.integer("an alignment", 0, INT64_MAX);
    g.value = parts_.dense();
    module_->globals.push_back(std::move(g));
  }

  std::size_t place_of(const Diagnostic& d) const {
    if (d.op) {
      for (const auto& [op, at] : operations_.places())
        if (op == d.op) return at;
    }
    for (const auto& [function, at] : functions_)
      if (function == d.function) return at;
    for (std::size_t i = 0; i < module_->globals.size(); ++i)
      if (&module_->globals[i] == d.global) return globals_[i];
    return 0;
  }

  void verify_module() {
    for (const Diagnostic& d : verify(*module_)) {
      if (in_.is_full()) break;
      in_.report(place_of(d), d.message);
    }
    if (!in_.problems().empty()) throw_problems();
  }

  [[noreturn]] void throw_problems() {
    auto& found = in_.problems();
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.at < b.at; });
    LineCounter lines(in_.text());
    std::vector<TextProblem> problems;
    for (const PlacedProblem& p : found) problems.push_back(lines.place(p));
    throw ParseError(options_.file, std::move(problems));
  }

  const ParseOptions& options_;
  TextCursor in_;
  TextParts parts_;
  OperationParser operations_;
  std::unique_ptr<Module> module_ = std::make_unique<Module>();
  std::vector<std::pair<const Function*, std::size_t>> functions_;  ///< and where they begin
  std::vector<std::size_t> globals_;                                ///< where they begin
  bool open_module_ = false;
};

std::string all_problems(const std::string& file, const std::vector<TextProblem>& problems) {
  std::string out;
  for (const TextProblem& p : problems)
    out += concat(out.empty() ? "" : "\n", file, ":", p.line, ":", p.column, ": ", p.message);
  return out;
}

}  // namespace

ParseError::ParseError(const std::string& file, std::vector<TextProblem> problems)
    : CompileError(all_problems(file, problems)), problems_(std::move(problems)) {}
ParseError::~ParseError() = default;

std::unique_ptr<Module> parse(std::string_view text, const ParseOptions& options) {
  return ModuleParser(text, options).run();
}

}  // namespace tessera::ir
