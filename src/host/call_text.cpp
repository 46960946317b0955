// Finds a kernel call in a source file. Not a C++ parser: it matches brackets, skips strings, comments and character
// literals, and returns nothing if that is not enough.
#include "host/call_text.hpp"

#include <cctype>
#include <cstdio>
#include <string_view>

namespace tessera::detail {
namespace {

constexpr std::uint32_t kMaxLines = 24;      // of a call
constexpr std::size_t kMaxBytes = 1u << 16;  // of these lines

/// Up to kMaxLines lines from `where` on; empty if they cannot be read.
std::string lines_at(SourceLocation where) {
  std::string text;
  if (!where.known()) return text;
  std::FILE* file = std::fopen(where.file, "r");
  if (!file) return text;
  std::uint32_t line = 1;
  for (int c = std::fgetc(file); c != EOF && line < where.line + kMaxLines && text.size() < kMaxBytes;
       c = std::fgetc(file)) {
    if (line >= where.line) text += static_cast<char>(c);
    if (c == '\n') ++line;
  }
  std::fclose(file);
  return text;
}

/// Position after the string, character literal or comment that begins at `i`; `i` itself if none does.
std::size_t skip_quiet(std::string_view s, std::size_t i) {
  if (s[i] == '"' || (s[i] == '\'' && (i == 0 || !std::isalnum(static_cast<unsigned char>(s[i - 1]))))) {
    const char quote = s[i];
    for (++i; i < s.size() && s[i] != quote; ++i) {
      if (s[i] == '\\') ++i;
    }
    return i + 1;
  }
  if (s.substr(i, 2) == "//") {
    const std::size_t end = s.find('\n', i);
    return end == std::string_view::npos ? s.size() : end;
  }
  if (s.substr(i, 2) == "/*") {
    const std::size_t end = s.find("*/", i + 2);
    return end == std::string_view::npos ? s.size() : end + 2;
  }
  return i;
}

/// Without blanks at both ends and without comments in front.
std::string trimmed(std::string_view s) {
  const char* space = " \t\n\r";
  for (;;) {
    const std::size_t first = s.find_first_not_of(space);
    if (first == std::string_view::npos) return "";
    s.remove_prefix(first);
    if (s[0] != '/' || skip_quiet(s, 0) == 0) break;
    s.remove_prefix(skip_quiet(s, 0));
  }
  return std::string(s.substr(0, s.find_last_not_of(space) + 1));
}

/// The closing partner of an opening bracket, or 0. `<` counts only where template arguments are expected.
char partner(char c, bool angles) {
  if (c == '(') return ')';
  if (c == '[') return ']';
  if (c == '{') return '}';
  return angles && c == '<' ? '>' : '\0';
}

/// The parts between the bracket at `i` and its closing bracket, split at commas outside inner brackets; sets `i` after
/// the closing bracket. Empty if there is none. `angles`: the bracket is that of template arguments.
std::vector<std::string> bracketed(std::string_view s, std::size_t& i, bool angles) {
  std::vector<std::string> parts;
  std::string open;  // the closing brackets that are expected
  std::size_t start = i + 1;
  while (i < s.size()) {
    const std::size_t next = skip_quiet(s, i);
    if (next != i) {
      i = next;
      continue;
    }
    const char c = s[i];
    const bool in_angles = angles && (open.empty() || open.back() == '>');
    if (const char close = partner(c, in_angles)) {
      open += close;
    } else if (c == open.back()) {
      open.pop_back();
    }
    if (open.empty() || (open.size() == 1 && c == ',')) {
      parts.push_back(trimmed(s.substr(start, i - start)));
      start = i + 1;
    }
    ++i;
    if (open.empty()) return parts;
  }
  return {};
}

/// The arguments of the call whose `kernel` begins at `i`; empty if it is not a call of `name`.
std::vector<std::string> arguments_after(std::string_view s, std::size_t i, const std::string& name) {
  i += 6;  // "kernel"
  if (i >= s.size() || s[i] != '<') return {};
  const auto kernel = bracketed(s, i, true);
  if (kernel.empty() || kernel[0].find(name) == std::string::npos) return {};
  for (;;) {  // .blocks(n) and other options stand before the arguments
    while (i < s.size() && std::isspace(static_cast<unsigned char>(s[i]))) ++i;
    if (i >= s.size()) return {};
    if (s[i] == '(') return bracketed(s, i, false);
    if (s[i] != '.') return {};
    const std::size_t open = s.find('(', i);
    if (open == std::string_view::npos) return {};
    i = open;
    if (bracketed(s, i, false).empty()) return {};
  }
}

}  // namespace

std::vector<std::string> call_arguments(const std::string& kernel, SourceLocation where) {
  const std::string text = lines_at(where);
  const std::string_view s = text;
  // The line of a call is that of its opening bracket or of its start, depending on the compiler: `kernel` must be on
  // that line.
  const std::size_t line_end = s.find('\n');
  std::vector<std::string> found;
  for (std::size_t i = 0; i < line_end && i < s.size(); ++i) {
    if (const std::size_t next = skip_quiet(s, i); next != i) {
      i = next - 1;
      continue;
    }
    if (s.substr(i, 7) != "kernel<") continue;
    auto arguments = arguments_after(s, i, kernel);
    if (arguments.empty()) continue;
    if (!found.empty() && found != arguments) return {};  // two calls on the line: which one is not known
    found = std::move(arguments);
  }
  return found;
}

namespace {

/// True if every round bracket of `text` is opened and closed in it.
bool balanced(std::string_view text) {
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (depth < 0) return false;
  }
  return depth == 0;
}

}  // namespace

std::string bare_name(const std::string& argument) {
  for (const std::string_view wrapper : {"std::move(", "move(", "mut(", "tessera::mut("}) {
    if (!argument.starts_with(wrapper)) continue;
    // The wrapper's own closing bracket is the first one up to which the brackets match.
    for (std::size_t end = argument.find(')'); end != std::string::npos; end = argument.find(')', end + 1)) {
      const std::string inside = argument.substr(wrapper.size(), end - wrapper.size());
      if (!balanced(inside)) continue;
      const std::string rest = argument.substr(end + 1);  // mut(y).slice<0>(0, n) lends a part of y
      return rest.empty() || rest.front() == '.' ? inside + rest : argument;
    }
  }
  return argument;
}

}  // namespace tessera::detail
