// The programs of verify/rules.txt: what the verifier must accept and, rule by rule, what it must reject.
#pragma once
#include <algorithm>
#include <fstream>

#include "ir/case_reader.hpp"

namespace tessera::ir::testing {

/// A legal program, and lines that replace one of its lines to break a rule.
struct Rule {
  std::vector<std::string> accept;
  struct Reject {
    std::string line, replacement, message;
  };
  std::vector<Reject> rejects;
};

/// rules.txt: "accept" starts a program; "reject <message>" follows with "- <line>" and "+ <replacement>" (empty:
/// removed).
inline std::vector<Rule> read_rules() {
  std::ifstream in(TESSERA_TEST_DATA "/ir/verify/rules.txt");
  std::vector<Rule> rules;
  bool program = false;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line == "accept") {
      rules.emplace_back();
      program = true;
    } else if (line.starts_with("reject ")) {
      rules.back().rejects.push_back({"", "", line.substr(7)});
      program = false;
    } else if (program) {
      rules.back().accept.push_back(line);
    } else {
      Rule::Reject& r = rules.back().rejects.back();
      (line[0] == '-' ? r.line : r.replacement) = line.size() > 2 ? line.substr(2) : "";
    }
  }
  return rules;
}

inline std::vector<std::string> broken(const Rule& rule, const Rule::Reject& reject) {
  std::vector<std::string> lines = rule.accept;
  auto at = std::ranges::find(lines, reject.line);
  if (at == lines.end()) throw std::runtime_error("no line to replace: " + reject.line);
  *at = reject.replacement;
  return lines;
}

}  // namespace tessera::ir::testing
