// Grammars of JSON in general: any value, white space, numbers; and the entry points for schemas.
#include "grammar/grammar_state.hpp"
#include "grammar/schema_compiler.hpp"

namespace mortar::grammar {

void require_source_size(std::size_t bytes, const GrammarLimits& limits) {
  if (bytes > limits.source_bytes)
    throw RequestError(tessera::concat("the description of the grammar has ", bytes, " bytes; at most ",
                                       limits.source_bytes, " are accepted"));
}

Pc JsonPieces::expression(const std::string& text, Pc next) {
  return program_.dfa(
      program_.shared_dfa(text,
                          [&] { return *make_dfa(parse_regex(text, "schema", budget_), Spelling::Raw, budget_); }),
      next);
}

Pc JsonPieces::space(Pc next) { return expression("(?: |\n(?: {0,40}|\t{0,10}))?", next); }
Pc JsonPieces::space_after_colon(Pc next) { return expression(" ?", next); }
Pc JsonPieces::number(Pc next) { return expression("-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", next); }

Pc JsonPieces::return_pc() {
  if (!return_.has_value()) return_ = program_.add({Op::Return});
  return *return_;
}

std::uint32_t JsonPieces::new_rule(std::string name) {
  const std::uint32_t rule = program_.add_rule();
  rule_names_.resize(rule + 1);
  rule_names_[rule] = std::move(name);
  return rule;
}

std::uint32_t JsonPieces::any_rule() {
  if (any_rule_.has_value()) return *any_rule_;
  const std::uint32_t rule = new_rule("any value");
  any_rule_ = rule;
  const Pc end = return_pc();
  const Pc array_end = space(program_.text("]", end)), array_more = program_.forward();
  const Pc item = any_value(program_.split({array_end, array_more}));
  program_.set_target(array_more, program_.text(",", space(item)));
  const Pc array = program_.text("[", program_.split({array_end, space(item)}));
  program_.set_rule(rule, program_.split({any_object(end), array, string(end), number(end),
                                          program_.names({"true", "false", "null"}, end)}));
  return rule;
}

Pc JsonPieces::any_object(Pc next) {
  const Pc end = space(program_.text("}", next)), more = program_.forward();
  const Pc value = any_value(program_.split({end, more}));
  const Pc member = string(program_.text(":", space_after_colon(value)));
  program_.set_target(more, program_.text(",", space(member)));
  return program_.text("{", program_.split({end, space(member)}));
}

}  // namespace mortar::grammar

namespace mortar {

Grammar Grammar::json_object() {
  grammar::Budget budget(GrammarLimits{}.steps);
  auto state = std::make_shared<State>(budget);
  grammar::JsonPieces pieces(state->program, budget);
  const grammar::Pc root = pieces.any_object(state->program.add({grammar::Op::Finish}));
  state->program.finish(root, pieces.rule_names());
  return Grammar(std::move(state));
}

Grammar Grammar::from_json_schema(std::string_view schema, const GrammarLimits& limits) {
  grammar::require_source_size(schema.size(), limits);
  const grammar::Json root = grammar::read_schema(schema, "schema");
  grammar::Budget budget(limits.steps);
  auto state = std::make_shared<State>(budget);
  grammar::JsonPieces pieces(state->program, budget);
  grammar::SchemaCompiler compiler(pieces, root, "");
  const grammar::Pc begin = compiler.root(state->program.add({grammar::Op::Finish}));
  compiler.finish_rules();
  state->program.finish(begin, pieces.rule_names());
  return Grammar(std::move(state));
}

}  // namespace mortar
