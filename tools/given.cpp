// Help and parsing by the table of commands.
#include <algorithm>
#include <stdexcept>

#include "command_rows.hpp"
#include "tessera/base/format.hpp"

namespace tessera {
namespace {

constexpr std::size_t kHelpWidth = 116;  // columns of the help

/// `text` in lines, all of which but the first begin with `indent` spaces.
std::string wrapped(std::string_view text, std::size_t indent) {
  std::string out;
  std::size_t column = indent;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (column > indent && column + 1 + end > kHelpWidth) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

const OptionRow* find_option(const CommandRow& row, std::string_view name) {
  const auto found =
      std::find_if(row.options.begin(), row.options.end(), [&](const OptionRow& o) { return name == o.name; });
  return found == row.options.end() ? nullptr : &*found;
}

void expect_declared(const CommandRow& row, std::string_view name) {
  if (find_option(row, name) == nullptr)
    throw std::logic_error(concat("tessera ", row.name, " has no row for ", std::string(name)));
}

}  // namespace

const CommandRow& row_of(std::string_view command) {
  for (const CommandRow& row : command_rows())
    if (command == row.name) return row;
  throw std::logic_error(concat("there is no row for the command ", std::string(command)));
}

std::string usage_of(const CommandRow& row) {
  std::string text;
  for (const UsageForm& form : row.forms) text += concat(form.line, "\n    ", wrapped(form.text, 4), "\n");
  for (const OptionRow& o : row.options) {
    std::string left = concat("  ", o.name, o.value != nullptr ? concat(" ", o.value) : std::string());
    left.resize(std::max<std::size_t>(left.size(), 17), ' ');
    text += concat(left, "  ", wrapped(o.help, 19), "\n");
  }
  return text;
}

std::string program_usage() {
  std::string text = "tessera <command>\n";
  for (const CommandRow& row : command_rows()) {
    std::string name = row.name;
    name.resize(std::max<std::size_t>(name.size(), 12), ' ');
    text += concat("  ", name, "  ", row.summary, "\n");
  }
  return text + "tessera COMMAND --help prints the options of a command, tessera --version the library's version\n";
}

std::string option_list() {
  std::string text = "program\ttessera\tcompiles, explains, measures and tunes kernels of Tessera\n";
  for (const CommandRow& row : command_rows()) {
    text += concat("command\t", row.name, "\t", row.summary, "\t", row.words, "\t", row.program ? "program" : "", "\n");
    for (const UsageForm& form : row.forms) text += concat("form\t", form.line, "\t", form.text, "\n");
    for (const OptionRow& o : row.options)
      text += concat("option\t", o.name, "\t", o.value != nullptr ? o.value : "", "\t", o.help, "\n");
  }
  return text;
}

Given::Given(const CommandRow& row, Words words) : row_(&row) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i];
    if (word == "--" && row.program) {
      program_.assign(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
      if (program_.empty()) throw UsageError("expected a program after --");
      return;
    }
    const bool number = word.size() > 1 && word[1] >= '0' && word[1] <= '9';  // -5
    if (!word.starts_with("-") || number) {
      words_.push_back(word);
      continue;
    }
    const OptionRow* option = find_option(row, word);
    if (option == nullptr) throw UsageError(concat("there is no option ", word));
    std::string& value = values_[word] = "";
    if (option->value == nullptr) continue;
    const bool may_end = option->value[0] == '[';
    if (!may_end || i + 1 < words.size()) value = value_of(words, i);
  }
}

bool Given::has(std::string_view option) const {
  expect_declared(*row_, option);
  return values_.contains(option);
}

std::string Given::text(std::string_view option, const std::string& otherwise) const {
  return has(option) ? values_.find(option)->second : otherwise;
}

double Given::number(std::string_view option, double otherwise, double least) const {
  return has(option) ? number_of(std::string(option), text(option), least) : otherwise;
}

}  // namespace tessera
