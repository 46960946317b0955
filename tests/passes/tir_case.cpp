// Reads and runs tests of passes that are files.
#include "passes/tir_case.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "tessera/analysis/facts.hpp"
#include "tessera/base/format.hpp"
#include "tessera/certify/certify.hpp"
#include "tessera/ir/parser.hpp"
#include "tessera/ir/printer.hpp"
#include "tessera/ir/verifier.hpp"
#include "tessera/passes/pipeline.hpp"
#include "tessera/passes/predicates.hpp"

namespace tessera::test {
namespace {

constexpr std::string_view kAfter = "// after\n";

std::string trimmed(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  return text.substr(std::min(text.find_first_not_of(" \n"), text.size()));
}

/// "[8, 1000]" as its numbers.
std::vector<std::int64_t> numbers_of(const std::string& list) {
  std::vector<std::int64_t> numbers;
  std::string clean = list;
  for (char& c : clean)
    if (c == '[' || c == ']' || c == ',') c = ' ';
  std::istringstream in(clean);
  for (std::int64_t n = 0; in >> n;) numbers.push_back(n);
  if (!in.eof()) throw std::runtime_error("expected numbers, found " + list);
  return numbers;
}

/// The parameters of a launch: lists in brackets, and numbers.
void read_launch(const std::string& text, TirCase& test) {
  analysis::LaunchContract& c = test.contract.emplace();
  for (std::size_t at = 0; (at = text.find_first_not_of(' ', at)) != text.npos;) {
    const std::size_t end = text[at] == '[' ? text.find(']', at) + 1 : std::min(text.find(' ', at), text.size());
    constexpr std::string_view kBlocks = "blocks=";
    const bool blocks = text.compare(at, kBlocks.size(), kBlocks) == 0;
    if (blocks) at += kBlocks.size();
    const std::vector<std::int64_t> numbers = numbers_of(text.substr(at, end - at));
    if (text[at] == '[') {
      const int tensor = static_cast<int>(c.tensors.size()), rank = static_cast<int>(numbers.size());
      c.tensors.push_back({static_cast<int>(c.args.size()), rank, true, true, false});
      c.args.push_back({analysis::ArgRole::Base, tensor, -1});
      for (int a = 0; a < rank; ++a) c.args.push_back({analysis::ArgRole::Dim, tensor, a});
      for (int a = 0; a < rank; ++a) c.args.push_back({analysis::ArgRole::Stride, tensor, a});
      test.slots.push_back(0x100000 * c.tensors.size());
      for (const std::int64_t n : numbers) test.slots.push_back(static_cast<std::uint64_t>(n));
      for (std::size_t a = 0; a < numbers.size(); ++a) {
        std::int64_t stride = 1;
        for (std::size_t b = a + 1; b < numbers.size(); ++b) stride *= numbers[b];
        test.slots.push_back(static_cast<std::uint64_t>(stride));
      }
    } else {
      if (blocks) c.blocks_arg = static_cast<int>(c.args.size());
      c.args.push_back({blocks ? analysis::ArgRole::Blocks : analysis::ArgRole::Value, -1, -1});
      test.slots.push_back(static_cast<std::uint64_t>(numbers.at(0)));
    }
    at = end;
  }
}

void read_line(const std::string& key, const std::string& value, TirCase& test) {
  const std::map<std::string, std::function<void()>> known{
      {"passes",
       [&] {
         std::istringstream in(value);
         for (std::string name; std::getline(in, name, ',');) test.passes.push_back(trimmed(name));
       }},
      {"target",
       [&] {
         test.target = value == "cpu" ? passes::Target{} : passes::Target{std::stoi(value.substr(3)), 132};
       }},
      {"tuning", [&] { test.tuning = passes::parse_tuning(value); }},
      {"launch", [&] { read_launch(value, test); }},
      {"pieces",
       [&] {
         if (!test.contract) throw std::runtime_error("expected `launch` before `pieces`");
         test.contract->pieces_of_tensor = 0;
         test.contract->piece = numbers_of(value);
         test.contract->tensors.at(0).nonempty = true;
       }},
  };
  const bool is_word = key.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == key.npos;
  if (const auto found = known.find(key); found != known.end())
    found->second();
  else if (is_word)
    throw std::runtime_error("there is no line `" + key + ": ...`");
}

/// Proves the claims of passes from what the launch is known to fulfil, as a compile does.
class Proving final : public passes::Certifier {
 public:
  Proving(const TirCase& test, const analysis::Facts& facts)
      : test_(test), facts_(facts), predicates_(facts.evaluate(test.slots)) {}
  std::vector<bool> judge(const ir::Function& f, std::span<const analysis::Claim> claims) const override {
    analysis::Certificate certificate = facts_.certificate();
    certificate.invariants.clear();  // the operations have other numbers by now
    return certify::check(f, *test_.contract, certificate, claims, predicates_).certified;
  }
  std::uint64_t predicates() const { return predicates_; }

 private:
  const TirCase& test_;
  const analysis::Facts& facts_;
  const std::uint64_t predicates_;
};

void require_valid(const ir::Module& module, const char* when) {
  std::string text;
  for (const ir::Diagnostic& d : ir::verify(module)) text += d.message + "\n";
  if (!text.empty()) throw std::runtime_error(concat("the kernel is not valid ", when, ": ", text));
}

}  // namespace

TirCase read_tir_case(const std::filesystem::path& file) {
  std::stringstream content;
  content << std::ifstream(file).rdbuf();
  const std::string text = content.str();
  std::size_t begin = 0;
  while (text.compare(begin, 2, "//") == 0) begin = std::min(text.find('\n', begin), text.size() - 1) + 1;
  const std::size_t cut = text.find(kAfter, begin);
  if (begin == 0 || cut == text.npos)
    throw std::runtime_error(file.string() + ": expected comments, a kernel, the line `// after` and a kernel");
  TirCase test;
  test.head = text.substr(0, begin);
  test.before = text.substr(begin, cut - begin);
  test.after = text.substr(cut + kAfter.size());
  std::istringstream lines(test.head);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("// ") && colon != line.npos)
      read_line(line.substr(3, colon - 3), trimmed(line.substr(colon + 1)), test);
  }
  if (test.passes.empty()) throw std::runtime_error(file.string() + ": expected a line `// passes: ...`");
  return test;
}

std::string run_tir_case(const TirCase& test) {
  const auto module = ir::parse(test.before);
  require_valid(*module, "before the passes");
  passes::Work work;
  work.only = test.passes;
  const auto needs = [&](passes::When when) {
    return std::ranges::any_of(test.passes, [&](const std::string& name) {
      const passes::PassInfo* pass = passes::find_pass(name);
      return pass != nullptr && pass->when == when;
    });
  };
  work.lower = needs(passes::When::Code);
  work.checked = needs(passes::When::Checked);
  std::optional<analysis::Facts> facts;
  std::optional<Proving> certifier;
  if (test.contract) {
    if (module->functions.front()->body().num_args() != test.contract->args.size())
      throw std::runtime_error(concat("the kernel has ", module->functions.front()->body().num_args(),
                                      " arguments, `launch` gives ", test.contract->args.size()));
    facts = analysis::Facts::analyze(*module, *test.contract, passes::predicate_table());
    certifier.emplace(test, *facts);
    work.claims = facts->claims();
    work.predicates = certifier->predicates();
    work.contract = &*test.contract;
    work.certifier = &*certifier;
  }
  passes::run_passes(*module, test.target, &test.tuning, work);
  require_valid(*module, "after the passes");
  return ir::print(*module);
}

std::string text_of(const TirCase& test, const std::string& after) {
  return test.head + test.before + std::string(kAfter) + after;
}

}  // namespace tessera::test
