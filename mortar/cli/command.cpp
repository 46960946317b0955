// Options of commands: parsing, environment variables, help; and the program's dispatch to its commands.
#include "command.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "closest.hpp"
#include "environment.hpp"
#include "processes.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/jit/tuning.hpp"

namespace mortar::cli {
namespace {

std::vector<Command>& registered() {
  static std::vector<Command> commands;
  return commands;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

[[noreturn]] void wrong_value(std::string_view option, const std::string& expected, std::string_view found) {
  throw UsageError(std::string(option) + ": expected " + expected + ", found \"" + std::string(found) + "\"");
}

template <class T>
T number_of(std::string_view option, std::string_view text, T lowest, T highest, const char* kind) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= lowest && value <= highest) return value;
  char range[96];
  if constexpr (std::is_floating_point_v<T>)
    std::snprintf(range, sizeof range, " from %g to %g", lowest, highest);
  else
    std::snprintf(range, sizeof range, " from %lld to %lld", static_cast<long long>(lowest),
                  static_cast<long long>(highest));
  wrong_value(option, kind + std::string(range), text);
}

std::string program_help() {
  std::string text = "mortar COMMAND [arguments]: runs Qwen3 and Llama 3 models\n\n";
  for (const Command& c : registered()) {
    std::string name = c.name;
    name.resize(std::max<std::size_t>(name.size(), 12), ' ');
    text += "  " + name + " " + c.summary + "\n";
  }
  return text +
         "\nmortar help COMMAND has the options. Every option is also an environment variable.\n"
         "mortar --version prints the version.\n";
}

/// Whether its first argument is a model.
bool has_model(const Command& command) { return std::string_view(command.positional).starts_with("MODEL"); }

int print(std::FILE* out, const std::string& text, int code) {
  (void)std::fflush(stdout);  // what was printed before stands before it, where both go to one file
  std::fputs(text.c_str(), out);
  return code;
}

/// `code`, or kFailed if something that was written to standard output did not get there.
int finish(const std::string& program, int code) {
  std::cout.flush();
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
  return written ? code : print(stderr, program + ": standard output cannot be written\n", kFailed);
}

/// Without the place in the program's source, which an error that is thrown through Tessera has.
std::string message_of(const std::exception& error) {
  const auto* known = dynamic_cast<const tessera::Error*>(&error);
  const std::string all = error.what();
  if (known == nullptr || !known->where().known() || dynamic_cast<const tessera::InternalError*>(&error)) return all;
  const std::string place = tessera::concat(known->where().file, ":", known->where().line, ": ");
  return all.starts_with(place) ? all.substr(place.size()) : all;
}

}  // namespace

Registration::Registration(const Command& command) {
  auto& commands = registered();
  const auto after = std::find_if(commands.begin(), commands.end(),
                                  [&](const Command& other) { return std::string_view(other.name) > command.name; });
  commands.insert(after, command);
}

std::vector<Option> all_options(const Command& command) {
  std::vector<Option> rows(command.options.begin(), command.options.end());
  const auto add = [&](std::span<const Option> more) { rows.insert(rows.end(), more.begin(), more.end()); };
  if (command.shared == OptionSet::Generation) add(kSamplingOptions);
  if (command.shared != OptionSet::None) add(kModelOptions);
  add(kCommonOptions);
  return rows;
}

std::string environment_name(std::string_view option) {
  std::string name = "MORTAR_";
  for (const char c : option.substr(2))
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::string option_help(const Option& row) {
  std::string text = row.help;
  if (row.fallback != nullptr) text += std::string(" (default: ") + row.fallback + ")";
  if (row.repeated) text += "; may be repeated";
  if (row.letter != 0) text += std::string("; short: -") + row.letter;
  return text;
}

std::string option_list() {
  std::string text = "program\tmortar\truns Qwen3 and Llama 3 models\n";
  for (const Command& c : registered()) {
    text += tessera::concat("command\t", c.name, "\t", c.summary, "\t\t\n");
    text += tessera::concat("form\tmortar ", c.name, " ", c.positional, " [options]\t\n");
    for (const Option& row : all_options(c))
      text += tessera::concat("option\t", row.name, "\t", row.value != nullptr ? row.value : "", "\t", option_help(row),
                              "\t", environment_name(row.name), "\n");
  }
  return text;
}

std::string help_of(const Command& command) {
  std::string text =
      std::string("mortar ") + command.name + " " + command.positional + " [options]: " + command.summary + "\n\n";
  if (has_model(command)) text += "  MODEL                    a folder as published; -m MODEL is the same\n";
  for (const Option& row : all_options(command)) {
    std::string left = std::string("  ") + row.name + (row.value != nullptr ? std::string(" ") + row.value : "");
    if (left.size() < 26)
      left.resize(26, ' ');
    else
      left += "\n" + std::string(26, ' ');
    text += left + " " + option_help(row) + "  [" + environment_name(row.name) + "]\n";
  }
  return text;
}

Arguments::Arguments(const Command& command, std::span<const std::string> words)
    : command_(&command), rows_(all_options(command)) {
  bool only_positional = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "-h" && !only_positional) {
      given_["--help"] = {"1"};
      continue;
    }
    if (only_positional || word == "-" || !word.starts_with('-')) {
      positional_.push_back(word);
      continue;
    }
    if (word == "--") {
      only_positional = true;
      continue;
    }
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto value_behind = [&](const char* what) {
      if (equals != std::string::npos) return word.substr(equals + 1);
      if (i + 1 == words.size()) throw UsageError(name + " needs a value: " + name + " " + what);
      return words[++i];
    };
    if (name == "-m" && has_model(command)) {
      positional_.push_back(value_behind("MODEL"));
      continue;
    }
    const Option& row = row_of(name);
    if (row.value == nullptr && equals != std::string::npos) throw UsageError(name + " takes no value");
    auto& values = given_[row.name];
    if (!values.empty() && !row.repeated) throw UsageError(std::string(row.name) + " was given twice");
    values.push_back(row.value == nullptr ? "1" : value_behind(row.value));
  }
  if (given_.contains("--help")) return;
  const auto names = split(command.positional, ' ');
  if (positional_.size() < names.size())
    throw UsageError("expected " + std::string(names[positional_.size()]) + ", found nothing");
  if (positional_.size() > names.size()) throw UsageError("unexpected argument \"" + positional_[names.size()] + "\"");
}

/// The row of "--prompt" or "-p". Throws UsageError if there is none.
const Option& Arguments::row_of(const std::string& name) const {
  for (const Option& row : rows_)
    if (name == row.name || (row.letter != 0 && name == std::string{'-', row.letter})) return row;
  std::vector<std::string> names;
  for (const Option& row : rows_) names.emplace_back(row.name);
  throw UsageError("unknown option " + name + did_you_mean(name, names));
}

const Option& Arguments::declared(std::string_view option) const {
  for (const Option& row : rows_)
    if (option == row.name) return row;
  throw std::logic_error("mortar " + std::string(command_->name) + " does not declare " + std::string(option));
}

std::optional<std::string> Arguments::find(std::string_view option) const {
  const Option& row = declared(option);
  if (const auto found = given_.find(option); found != given_.end()) return found->second.back();
  if (const char* variable = std::getenv(environment_name(option).c_str()))
    if (option != "--port" || !is_service_address(variable)) return variable;
  if (row.fallback != nullptr) return row.fallback;
  return std::nullopt;
}

bool Arguments::flag(std::string_view option) const {
  const std::string value = find(option).value_or("0");
  if (value == "1" || value == "true" || value == "on") return true;
  if (value.empty() || value == "0" || value == "false" || value == "off") return false;
  wrong_value(environment_name(option), "0 or 1", value);
}

std::string Arguments::text(std::string_view option) const {
  if (auto value = find(option)) return *std::move(value);
  throw UsageError(std::string(option) + " is required");
}

std::vector<std::string> Arguments::all(std::string_view option) const {
  declared(option);
  if (const auto found = given_.find(option); found != given_.end()) return found->second;
  if (auto value = find(option)) return {*std::move(value)};
  return {};
}

std::int64_t Arguments::integer(std::string_view option, std::int64_t lowest, std::int64_t highest) const {
  return number_of(option, text(option), lowest, highest, "an integer");
}

double Arguments::number(std::string_view option, double lowest, double highest) const {
  return number_of(option, text(option), lowest, highest, "a number");
}

std::int64_t Arguments::bytes(std::string_view option) const {
  const std::string given = text(option);
  std::string_view digits = given;
  std::int64_t unit = 1;
  constexpr std::string_view kUnits = "KMG";
  if (const std::size_t at = digits.empty() ? kUnits.npos : kUnits.find(static_cast<char>(digits.back() & ~0x20));
      at != kUnits.npos) {
    unit = std::int64_t{1} << (10 * (at + 1));
    digits.remove_suffix(1);
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 32;
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  if (error != std::errc() || end != digits.data() + digits.size() || count < 1 || count > kMost)
    wrong_value(option, "a number of bytes as 32M", given);
  return count * unit;
}

std::vector<std::int64_t> Arguments::integers(std::string_view option, std::int64_t lowest,
                                              std::int64_t highest) const {
  const std::string list = text(option);
  std::vector<std::int64_t> values;
  for (const std::string_view part : split(list, ','))
    values.push_back(number_of(option, part, lowest, highest, "integers separated by commas,"));
  if (values.empty()) wrong_value(option, "integers separated by commas", list);
  return values;
}

namespace {

/// The command of a name; null: none.
const Command* command_of(const std::string& name) {
  for (const Command& c : registered())
    if (name == c.name) return &c;
  return nullptr;
}

int unknown_command(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& c : registered()) names.emplace_back(c.name);
  return print(stderr, "mortar: unknown command " + name + did_you_mean(name, names) + "\n\n" + program_help(),
               kWrongUsage);
}

/// mortar help, mortar help COMMAND.
int print_help(std::span<const std::string> words) {
  const Command* command = words.size() > 1 ? command_of(words[1]) : nullptr;
  if (words.size() > 1 && command == nullptr) return unknown_command(words[1]);
  std::fputs((command != nullptr ? help_of(*command) : program_help()).c_str(), stdout);
  return finish("mortar", kDone);
}

/// What the environment has that looks like options and is none. One of several processes says it.
void report_environment(const std::string& program) {
  if (is_follower()) return;
  std::vector<std::string> known;
  for (const Command& c : registered())
    for (const Option& row : all_options(c)) known.push_back(environment_name(row.name));
  std::ranges::sort(known);
  const auto [first, last] = std::ranges::unique(known);
  known.erase(first, last);
  for (const std::string& line : environment_notes(known)) print(stderr, program + ": " + line + "\n", kDone);
}

}  // namespace

int run_program(std::span<const std::string> words) {
  if (words.empty()) return print(stderr, program_help(), kWrongUsage);
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") return print_help(words);
  if (words[0] == "--version") {
    std::printf("mortar %s\n", tessera::jit::library_version());
    return finish("mortar", kDone);
  }
  if (words[0] == "--list-options") {
    std::fputs(option_list().c_str(), stdout);
    return finish("mortar", kDone);
  }
  const Command* command = command_of(words[0]);
  if (command == nullptr) return unknown_command(words[0]);
  const std::string name = std::string("mortar ") + command->name;
  try {
    const Arguments arguments(*command, words.subspan(1));
    if (arguments.flag("--help")) {
      std::fputs(help_of(*command).c_str(), stdout);
      return finish(name, kDone);
    }
    if (!arguments.quiet()) report_environment(name);
    return finish(name, command->run(arguments));
  } catch (const UsageError& error) {
    return print(stderr, name + ": " + error.what() + "\n" + name + " --help has the options\n", kWrongUsage);
  } catch (const Followed&) { return kDone; } catch (const Interrupted&) {
    return kInterrupted;
  } catch (const std::exception& error) { return print(stderr, name + ": " + message_of(error) + "\n", kFailed); }
}

}  // namespace mortar::cli
