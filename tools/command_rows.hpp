// The table of the tessera command: its subcommands, their forms and their options. Help, parsing, the man page and the
// completions of shells come from it (scripts/docs/command_pages.py reads what `tessera --list-options` prints).
#pragma once
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commands.hpp"

namespace tessera {

struct OptionRow {
  const char* name;   ///< with its dashes
  const char* value;  ///< what stands for the value in the help; in brackets: it may be left out; nullptr: a flag
  const char* help;
};

/// A way to write the command, and what it does then.
struct UsageForm {
  const char* line;
  const char* text;
};

struct CommandRow {
  const char* name;
  const char* summary;
  std::span<const UsageForm> forms;
  std::span<const OptionRow> options;
  const char* words = "";  ///< what its first argument may be, separated by spaces; empty: anything
  bool program = false;    ///< it takes "-- PROGRAM ARGUMENTS"
};

/// All commands, in the order of the help.
std::span<const CommandRow> command_rows();
/// Throws std::logic_error if there is no row of this name.
const CommandRow& row_of(std::string_view command);

/// The text of `tessera COMMAND --help`, and that of `tessera help`.
std::string usage_of(const CommandRow& row);
std::string program_usage();
/// What `tessera --list-options` prints: lines of fields that are separated by tabs.
std::string option_list();

/// The arguments of a command, read by its rows. Asking for an option without a row is a std::logic_error.
class Given {
 public:
  /// Throws UsageError: an option without a row, a value that is missing, nothing after "--".
  Given(const CommandRow& row, Words words);

  bool has(std::string_view option) const;
  /// The value given last; `otherwise` if the option was not given.
  std::string text(std::string_view option, const std::string& otherwise = "") const;
  /// A number of at least `least`; UsageError otherwise.
  double number(std::string_view option, double otherwise, double least) const;
  /// What is neither an option nor the value of one.
  const std::vector<std::string>& words() const { return words_; }
  /// The program and its arguments: what follows "--".
  const std::vector<char*>& program() const { return program_; }

 private:
  const CommandRow* row_;
  std::map<std::string, std::string, std::less<>> values_;
  std::vector<std::string> words_;
  std::vector<char*> program_;
};

}  // namespace tessera
