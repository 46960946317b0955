// Structured answers: a JSON schema, a regular expression, a list of choices or a set of tools decides which tokens may
// come next.
//
//   auto vocabulary = std::make_shared<const mortar::Vocabulary>(tokenizer);    // once per model
//   auto grammar = std::make_shared<const mortar::Grammar>(mortar::Grammar::from_json_schema(R"({"type": "object"})"));
//   request.constraint = mortar::constrain(grammar, vocabulary, {.begins_after = think_end, .eos = {151645}});
//
// docs/mortar/structured.md has the keywords and the syntax that are supported.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mortar/constraint.hpp"
#include "mortar/tokenizer.hpp"

namespace mortar {

/// The tokens of a tokenizer, sorted for masks. About 10 MB for 151,936 tokens; made once per model and shared by
/// threads.
class Vocabulary {
 public:
  /// Throws ModelError if a byte that UTF-8 text may have is not a token: an answer could then be stuck.
  explicit Vocabulary(const Tokenizer& tokenizer);
  ~Vocabulary();
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  struct State;  ///< internal
  const State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

/// What compiling may take. Steps are states and transitions that are built: about 10 ns and at most 40 bytes each.
struct GrammarLimits {
  std::size_t source_bytes = 1 << 20;  ///< the text of the schema, expression, choices or tools
  std::size_t steps = 5'000'000;
};

enum class CallFormat : std::uint8_t {
  Json,  ///< <tool_call>{"name": ..., "arguments": {...}}</tool_call>: Qwen3
  Xml,   ///< <tool_call><function=...><parameter=...>...</parameter></function></tool_call>: Qwen3-Coder, Qwen3.5
};

enum class CallChoice : std::uint8_t {
  Auto,      ///< the inside of a call, from the token <tool_call> on, whenever the model begins one
  Required,  ///< at least one call and nothing else
};

struct ToolGrammarOptions {
  CallFormat format = CallFormat::Json;
  CallChoice choice = CallChoice::Auto;
  std::string name = {};  ///< only this function may be called; empty: all of `tools`
  bool parallel = true;   ///< more than one call
};

/// A compiled description of answers. Immutable: requests of several threads share one.
class Grammar {
 public:
  /// Answers are JSON that the schema accepts. Throws RequestError: the text is not JSON, a keyword is not supported or
  /// malformed (with its path, as `/properties/a/uniqueItems`), no value satisfies it, or a limit is exceeded.
  static Grammar from_json_schema(std::string_view schema, const GrammarLimits& limits = {});
  /// The whole answer matches the expression. Throws RequestError with the offset of what is not supported.
  static Grammar from_regex(std::string_view expression, const GrammarLimits& limits = {});
  /// The answer is one of the texts. Throws RequestError if there is none.
  static Grammar from_choice(std::span<const std::string> choices, const GrammarLimits& limits = {});
  /// The answer is any JSON object.
  static Grammar json_object();
  /// `tools`: a JSON array as the OpenAI API has it ({"type": "function", "function": {"name": ..., "parameters":
  /// ...}}, or the functions alone). Throws RequestError as from_json_schema, with paths as
  /// `/0/function/parameters/...`, and if `options.name` is not among them.
  static Grammar from_tools(std::string_view tools, const ToolGrammarOptions& options = {},
                            const GrammarLimits& limits = {});

  /// Host memory that it takes now: the compiled form, and the masks that are kept for it.
  std::size_t bytes() const;

  struct State;  ///< internal
  const std::shared_ptr<const State>& state() const { return state_; }

 private:
  explicit Grammar(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

struct ConstraintOptions {
  std::optional<TokenId> begins_after = {};  ///< unrestricted up to this token (</think>); then up to two newlines may
                                             ///< precede the answer. A token that begins a call ends the thinking too.
                                             ///< Absent: restricted at once
  std::optional<TokenId> triggered_by = {};  ///< unrestricted up to this token (<tool_call>) and again after the call;
                                             ///< for grammars of CallChoice::Auto. Text between calls stays free
  std::vector<TokenId> eos = {};             ///< ids that end the answer; at least one
};

/// The state of one answer, at its beginning. Throws RequestError if there is no eos, or the grammar has a name of a
/// token (<tool_call>) that is not in the vocabulary.
std::unique_ptr<TokenConstraint> constrain(std::shared_ptr<const Grammar> grammar,
                                           std::shared_ptr<const Vocabulary> vocabulary,
                                           const ConstraintOptions& options);

}  // namespace mortar
