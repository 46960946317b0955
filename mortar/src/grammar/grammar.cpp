// The grammars that need no schema: expressions, choices.
#include "mortar/grammar.hpp"

#include <algorithm>

#include "grammar/grammar_state.hpp"
#include "grammar/schema_compiler.hpp"
#include "mortar/errors.hpp"
#include "text/utf8.hpp"

namespace mortar {

using grammar::Budget;
using grammar::Op;
using grammar::Pc;

Grammar::Grammar(std::shared_ptr<const State> state) : state_(std::move(state)) {}

std::size_t Grammar::bytes() const { return state_->bytes(); }

Grammar Grammar::from_regex(std::string_view expression, const GrammarLimits& limits) {
  grammar::require_source_size(expression.size(), limits);
  Budget budget(limits.steps);
  const grammar::Regex regex = grammar::parse_regex(expression, "regular expression", budget);
  auto dfa = grammar::make_dfa(regex, grammar::Spelling::Raw, budget);
  if (!dfa.has_value()) throw RequestError("regular expression: no text matches it");
  auto state = std::make_shared<State>(budget);
  grammar::Program& program = state->program;
  const Pc end = program.add({Op::Finish});
  program.finish(program.dfa(program.add_dfa(std::move(*dfa)), end), {});
  return Grammar(std::move(state));
}

Grammar Grammar::from_choice(std::span<const std::string> choices, const GrammarLimits& limits) {
  if (choices.empty()) throw RequestError("choice: expected at least one text, found none");
  std::size_t size = 0;
  for (const std::string& choice : choices) {
    size += choice.size();
    if (text::valid_utf8(choice) != choice.size()) throw RequestError("choice: expected UTF-8, found other bytes");
  }
  grammar::require_source_size(size, limits);
  Budget budget(limits.steps);
  auto state = std::make_shared<State>(budget);
  grammar::Program& program = state->program;
  const Pc end = program.add({Op::Finish});
  program.finish(program.names({choices.begin(), choices.end()}, end), {});
  return Grammar(std::move(state));
}

}  // namespace mortar
