// Lines are "error: text", "file:line:column: error: text", or carry loc("file":line:column); warnings likewise.
#include "codegen/tileiras/messages.hpp"

#include <cstdlib>
#include <mutex>
#include <string_view>
#include <unordered_set>

namespace tessera::tileiras {

namespace {

/// Locations hold pointers to strings that are never freed.
const char* interned(std::string_view file) {
  static std::mutex mutex;
  static auto* files = new std::unordered_set<std::string>;
  std::lock_guard lock(mutex);
  return files->emplace(file).first->c_str();
}

bool is_digits(std::string_view s) { return !s.empty() && s.find_first_not_of("0123456789") == std::string_view::npos; }

/// Takes ":number" off the end of `text`.
bool take_number(std::string_view& text, std::uint32_t& number) {
  std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || !is_digits(text.substr(colon + 1))) return false;
  number = static_cast<std::uint32_t>(std::strtoul(std::string(text.substr(colon + 1)).c_str(), nullptr, 10));
  text = text.substr(0, colon);
  return true;
}

/// file:line:column, with or without quotes around the file.
SourceLocation parse_location(std::string_view text) {
  SourceLocation where;
  if (std::size_t loc = text.rfind("loc("); loc != std::string_view::npos) {
    text = text.substr(loc + 4);
    text = text.substr(0, text.find(')'));
  }
  std::uint32_t line = 0, column = 0;
  if (!take_number(text, column)) return {};
  if (!take_number(text, line)) std::swap(line, column);
  while (text.starts_with('"')) text.remove_prefix(1);
  while (text.ends_with('"')) text.remove_suffix(1);
  if (text.empty() || line == 0 || text.find('\0') != std::string_view::npos) return {};
  where.file = interned(text);
  where.line = line;
  where.column = column;
  return where;
}

void read_line(std::string_view line, Messages& out) {
  if (line.find("High register usage") != std::string_view::npos) out.register_pressure = true;
  if (line.find("warning") != std::string_view::npos || line.find("High register usage") != std::string_view::npos) {
    out.warnings.emplace_back(line);
    return;
  }
  std::size_t at = line.find("error: ");
  if (at == std::string_view::npos) return;
  if (out.first_error.empty()) out.first_error = line.substr(at + 7);
  if (out.where.known() || at < 2) return;
  std::string_view prefix = line.substr(0, at);
  while (prefix.ends_with(' ') || prefix.ends_with(':')) prefix.remove_suffix(1);
  out.where = parse_location(prefix);
}

}  // namespace

Messages read_messages(const std::string& stderr_text) {
  Messages messages;
  std::string_view rest = stderr_text;
  while (!rest.empty()) {
    std::size_t end = rest.find('\n');
    read_line(rest.substr(0, end), messages);
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  }
  return messages;
}

}  // namespace tessera::tileiras
