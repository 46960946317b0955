// Reads the list of parameters that stands before a line of a function: no parser, so what it does not understand gives
// no names.
#include "jit/compile/source_names.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>

namespace tessera::jit {
namespace {

constexpr std::size_t kSourceLimit = 4 << 20;  // bytes that are read of a source file

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The first lines of a file, up to and with `line`; empty if it cannot be read.
std::string text_until(const std::string& path, std::uint32_t line) {
  std::ifstream in(path, std::ios::binary);
  std::string text, one;
  for (std::uint32_t i = 0; i < line && text.size() < kSourceLimit && std::getline(in, one); ++i) text += one + '\n';
  return text;
}

/// What is between the parenthesis at `open` and the one that closes it; empty if it is not closed.
std::string_view within(std::string_view text, std::size_t open) {
  int depth = 0;
  for (std::size_t at = open; at < text.size(); ++at) {
    if (text[at] == '(') ++depth;
    if (text[at] == ')' && --depth == 0) return text.substr(open + 1, at - open - 1);
  }
  return {};
}

/// Without comments and with blanks instead of line ends.
std::string plain(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text.substr(at, 2) == "//")
      at = std::min(text.find('\n', at), text.size());
    else if (text.substr(at, 2) == "/*")
      at = std::min(text.find("*/", at), text.size() - 2) + 1;
    else
      out += text[at];
    if (at < text.size() && text[at] == '\n') out += ' ';
  }
  std::replace(out.begin(), out.end(), '\n', ' ');
  return out;
}

/// "In<f32, dyn> x" -> "x"; empty for a parameter without a name, or one that is a Constant.
struct Parameter {
  std::string name;
  bool is_constant = false;
};
Parameter parameter_of(std::string text) {
  text = text.substr(0, text.find('='));
  const std::size_t end = text.find_last_not_of(" \t");
  if (end == std::string::npos) return {};
  std::size_t start = end + 1;
  while (start > 0 && is_word(text[start - 1])) --start;
  const bool named =
      start <= end && start > 0 && (text[start - 1] == ' ' || text[start - 1] == '>' || text[start - 1] == '&');
  return {named ? text.substr(start, end + 1 - start) : std::string(), text.find("Constant<") != std::string::npos};
}

/// The parameters of a list, split at the commas that are in no brackets.
std::vector<Parameter> parameters_of(std::string_view list) {
  std::vector<Parameter> found;
  int depth = 0;
  std::string one;
  for (const char c : plain(list)) {
    if (c == '<' || c == '(' || c == '{' || c == '[') ++depth;
    if (c == '>' || c == ')' || c == '}' || c == ']') --depth;
    if (c == ',' && depth == 0) {
      found.push_back(parameter_of(one));
      one.clear();
    } else {
      one += c;
    }
  }
  if (one.find_first_not_of(" \t") != std::string::npos) found.push_back(parameter_of(one));
  return found;
}

}  // namespace

std::vector<std::string> parameter_names(const SourceLocation& inside, std::string_view label) {
  const std::string_view function = label.substr(0, label.find_first_of("<( "));
  if (!inside.known() || function.empty()) return {};
  const std::string text = text_until(inside.file, inside.line);
  for (std::size_t at = text.rfind(function); at != std::string::npos && at > 0; at = text.rfind(function, at - 1)) {
    const std::size_t open = at + function.size();
    if (is_word(text[at - 1]) || open >= text.size() || text[open] != '(') continue;
    if (text[at - 1] != ' ' && text[at - 1] != '\n') continue;  // a call in an expression
    std::vector<std::string> names;
    for (const Parameter& p : parameters_of(within(text, open))) {
      if (p.is_constant) continue;
      if (p.name.empty()) return {};
      names.push_back(p.name);
    }
    return names;
  }
  return {};
}

std::string with_names(const std::string& text, const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool starts = text.compare(at, 3, "arg") == 0 && (at == 0 || !is_word(text[at - 1]));
    std::size_t end = at + 3, number = 0;
    while (starts && end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0)
      number = 10 * number + static_cast<std::size_t>(text[end++] - '0');
    if (number == 0 || number > names.size()) {
      out += text[at];
      continue;
    }
    out += names[number - 1];
    at = end - 1;
  }
  return out;
}

}  // namespace tessera::jit
