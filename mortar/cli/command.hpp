// A command of the program `mortar`: a file of its own that declares its options as rows and registers itself.
//
//   int run(const Arguments& arguments) { ... }
//   const Option kOptions[] = {{"--file", "PATH", "what is read (default: standard input)"},
//                              {"--json", nullptr, "the result as one JSON object"}};
//   const Registration kRegistration({"tokenize", "MODEL", "ids of a text", kOptions, OptionSet::None, run});
//
// Every option is also an environment variable: MORTAR_MAX_TOKENS for --max-tokens; the command line wins. Answers go
// to standard output, everything else to standard error. A command returns kDone, or throws: UsageError (exit code 2),
// Interrupted (130), any other exception (1, its message on standard error).
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace mortar::cli {

enum ExitCode { kDone = 0, kFailed = 1, kWrongUsage = 2, kInterrupted = 130 };

struct Option {
  const char* name;             ///< with its two dashes
  const char* value = nullptr;  ///< what stands for the value in the help ("N"); nullptr: a flag
  const char* help = "";
  const char* fallback = nullptr;  ///< the default, as it would be typed; nullptr: none
  bool repeated = false;           ///< may be given several times
  char letter = 0;                 ///< of its short form ("-p"), as people know it from llama.cpp; 0: none
};

/// Options that several commands share, besides --help and --quiet, which all have.
enum class OptionSet {
  None,
  Model,       ///< kModelOptions: the device, sizes, random weights
  Generation,  ///< these, and kSamplingOptions
};
inline constexpr Option kStrictOption = {
    "--strict", nullptr, "rounds intermediate results as Hugging Face transformers does in bf16; slower"};
inline constexpr Option kFp8ActivationsOption = {
    "--fp8-activations", nullptr,
    "rounds the inputs of FP8 products of more than 16 tokens to FP8, as the published models do: faster, less exact"};
inline constexpr Option kModelOptions[] = {
    {"--device", "NAME", "cuda:0 or cpu (default: the first GPU that kernels can be compiled for, else the CPU)"},
    {"--max-context", "N", "tokens of the longest sequence (default: what the model and the memory allow)"},
    {"--batch-size", "N", "sequences at a time (default: chosen by the command)"},
    {"--kv-dtype", "TYPE", "element type of the KV cache: bf16 or f8", "bf16"},
    {"--tensor-parallel", "N",
     "devices that compute the model together: GPUs from --device on, ranks on the CPU, or processes of mpirun", "1"},
    {"--exact", nullptr, "results depend neither on other requests nor on the number of devices; slower"},
    {"--random-weights", "SEED", "makes weights on the device instead of reading them; config.json is enough"},
};
inline constexpr Option kSamplingOptions[] = {
    {"--max-tokens", "N", "tokens of an answer (default: 128 in generate, what the context leaves in chat)", nullptr,
     false, 'n'},
    {"--greedy", nullptr, "the most likely token each time"},
    {"--temperature", "T", "divides the logits; 0: greedy (default of this and the next five: generation_config.json)"},
    {"--top-k", "K", "keeps the K most likely tokens; 0: all"},
    {"--top-p", "P", "keeps the most likely tokens that have the probability P together"},
    {"--min-p", "P", "keeps tokens with this share of the most likely one's probability"},
    {"--repetition-penalty", "R", "divides the logits of tokens that occurred"},
    {"--presence-penalty", "R", "is subtracted from the logits of tokens of the answer"},
    {"--seed", "N", "the same seed gives the same answer"},
    {"--stop", "TEXT", "ends the answer before TEXT", nullptr, true},
    {"--ignore-eos", nullptr, "goes on after the end-of-sequence token"},
    {"--think", nullptr, "the model thinks before it answers"},
    {"--no-think", nullptr, "the model answers at once"},
    {"--system", "TEXT", "the system message"},
    kStrictOption,
};
inline constexpr Option kCommonOptions[] = {
    {"--quiet", nullptr, "prints errors only on standard error"},
    {"--help", nullptr, "prints this text"},
};

class Arguments;

struct Command {
  const char* name;
  /// Names of the positional arguments, separated by spaces; all are required. MODEL may be given as -m MODEL.
  const char* positional;
  const char* summary;
  std::span<const Option> options;
  OptionSet shared = OptionSet::None;
  int (*run)(const Arguments&) = nullptr;
};

/// Adds a command to the program. The rows must be static.
class Registration {
 public:
  explicit Registration(const Command& command);
};

/// The command line is wrong: the program prints the message and how to get help, and ends with kWrongUsage.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
/// This process has followed rank 0 of several to its end: the program ends with kDone and prints nothing.
class Followed : public std::exception {
 public:
  const char* what() const noexcept override { return "followed rank 0 to its end"; }
};
/// The user pressed Ctrl-C while it was counted (interrupt.hpp): the program ends with kInterrupted and prints nothing
/// more.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

/// The values of a command's options: from the command line, else the environment, else the default. Asking for an
/// option that the command does not declare is a std::logic_error.
class Arguments {
 public:
  /// Throws UsageError for unknown options, missing values, and missing or additional positional arguments.
  Arguments(const Command& command, std::span<const std::string> words);

  const std::string& positional(std::size_t index) const { return positional_.at(index); }
  bool flag(std::string_view option) const;
  bool has(std::string_view option) const { return find(option).has_value(); }
  /// True if it is on the command line itself.
  bool given(std::string_view option) const { return given_.contains(option); }
  /// The text of an option with a default, or one that was checked with has(); UsageError if it has no value.
  std::string text(std::string_view option) const;
  std::vector<std::string> all(std::string_view option) const;
  // Numbers; UsageError unless all of the text is a number of the range, bounds included.
  std::int64_t integer(std::string_view option, std::int64_t lowest, std::int64_t highest) const;
  double number(std::string_view option, double lowest, double highest) const;
  /// A number of bytes, at least 1, with K, M or G behind it for powers of 1024.
  std::int64_t bytes(std::string_view option) const;
  /// A list separated by commas.
  std::vector<std::int64_t> integers(std::string_view option, std::int64_t lowest, std::int64_t highest) const;
  bool quiet() const { return flag("--quiet"); }

 private:
  std::optional<std::string> find(std::string_view option) const;
  const Option& declared(std::string_view option) const;
  const Option& row_of(const std::string& name) const;

  const Command* command_;
  std::vector<Option> rows_;
  std::vector<std::string> positional_;
  std::map<std::string, std::vector<std::string>, std::less<>> given_;
};

/// The rows of a command: its own, those of its set, those of all commands.
std::vector<Option> all_options(const Command& command);
/// "MORTAR_MAX_TOKENS" for "--max-tokens".
std::string environment_name(std::string_view option);
/// The text of `mortar COMMAND --help`.
std::string help_of(const Command& command);
/// The text of an option in the help, with its default.
std::string option_help(const Option& row);
/// What `mortar --list-options` prints: the rows of all commands, as lines of fields that are separated by tabs. The
/// man page and the completions of shells are made from them (scripts/docs/command_pages.py).
std::string option_list();
/// Runs the program: finds the command, prints help and errors. Returns the exit code.
int run_program(std::span<const std::string> words);

}  // namespace mortar::cli
