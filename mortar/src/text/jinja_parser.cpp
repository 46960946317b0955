// Precedence from the loosest: if-else, or, and, not, comparisons, + and -, ~, * / // %, **, signs; filters and tests
// bind to the operand that they follow.
#include "text/jinja_parser.hpp"

#include <charconv>
#include <cstdlib>

#include "tessera/base/format.hpp"

namespace mortar::text::jinja {
namespace {

constexpr int kDeepestExpression = 60, kMaxDeep = 150;

std::string shown(const Token& token) {
  switch (token.kind) {
    case TokenKind::Data: return "text";
    case TokenKind::BlockBegin: return "{%";
    case TokenKind::BlockEnd: return "%}";
    case TokenKind::VariableBegin: return "{{";
    case TokenKind::VariableEnd: return "}}";
    case TokenKind::End: return "the end of the template";
    default: return tessera::concat("'", token.text.substr(0, 40), "'");
  }
}

}  // namespace

void ExpressionParser::fail(std::string message) const {
  throw SyntaxError{is(TokenKind::Error) ? now().text : std::move(message), now().line};
}
void ExpressionParser::wrong(std::string_view expected) const {
  fail(tessera::concat("expected ", expected, ", found ", shown(now())));
}

void ExpressionParser::deeper() {
  if (++nesting_ > kDeepestExpression)
    fail(tessera::concat("expected at most ", kDeepestExpression, " levels of brackets and blocks, found more"));
}

bool ExpressionParser::skip_op(std::string_view text) { return is_op(text) && (++at_, true); }
bool ExpressionParser::skip_name(std::string_view text) { return is_name(text) && (++at_, true); }
void ExpressionParser::expect_op(std::string_view text) {
  if (!skip_op(text)) wrong(tessera::concat("'", text, "'"));
}
std::string ExpressionParser::expect_any_name() {
  if (!is(TokenKind::Name)) wrong("a name");
  return take().text;
}

int ExpressionParser::variable(const std::string& name) {
  const auto [found, is_new] = numbers_.try_emplace(name, static_cast<int>(variables_.size()));
  if (is_new) variables_.push_back(name);
  return found->second;
}

ExpressionPtr ExpressionParser::node(Op op, int line, std::vector<ExpressionPtr> operands) const {
  auto out = std::make_unique<Expression>();
  out->op = op;
  out->line = line;
  for (const ExpressionPtr& e : operands) {
    if (e) out->depth = std::max(out->depth, e->depth + 1);
  }
  if (out->depth > kMaxDeep)
    fail(tessera::concat("expected an expression of at most ", kMaxDeep, " operations within each other, found more"));
  out->operands = std::move(operands);
  return out;
}

ExpressionPtr ExpressionParser::tuple(bool conditionals) {
  const int line = now().line;
  std::vector<ExpressionPtr> items;
  bool comma = false;
  while (!is(TokenKind::BlockEnd) && !is(TokenKind::VariableEnd) && !is_op(")")) {
    items.push_back(conditionals ? conditional() : disjunction());
    comma = skip_op(",");
    if (!comma) break;
  }
  if (items.empty()) wrong("an expression");
  if (items.size() == 1 && !comma) return std::move(items[0]);
  return node(Op::Tuple, line, std::move(items));
}

ExpressionPtr ExpressionParser::conditional() {
  const int line = now().line;
  ExpressionPtr value = disjunction();
  while (skip_name("if")) {
    ExpressionPtr condition = disjunction();
    deeper();
    ExpressionPtr other = skip_name("else") ? conditional() : nullptr;
    shallower();
    value = make(Op::Conditional, line, std::move(condition), std::move(value), std::move(other));
  }
  return value;
}

ExpressionPtr ExpressionParser::disjunction() {
  ExpressionPtr left = conjunction();
  while (skip_name("or")) {
    const int line = now().line;
    left = make(Op::Or, line, std::move(left), conjunction());
  }
  return left;
}

ExpressionPtr ExpressionParser::conjunction() {
  ExpressionPtr left = negation();
  while (skip_name("and")) {
    const int line = now().line;
    left = make(Op::And, line, std::move(left), negation());
  }
  return left;
}

ExpressionPtr ExpressionParser::negation() {
  const int line = now().line;
  if (!skip_name("not")) return comparison();
  deeper();
  ExpressionPtr out = make(Op::Not, line, negation());
  shallower();
  return out;
}

ExpressionPtr ExpressionParser::comparison() {
  static constexpr std::pair<std::string_view, Comparison> operators[] = {
      {"==", Comparison::Equal},     {"!=", Comparison::NotEqual}, {"<", Comparison::Less},
      {"<=", Comparison::LessEqual}, {">", Comparison::Greater},   {">=", Comparison::GreaterEqual}};
  const int line = now().line;
  std::vector<ExpressionPtr> operands;
  std::vector<Comparison> comparisons;
  operands.push_back(sum());
  for (;;) {
    const std::size_t before = comparisons.size();
    for (const auto& [text, comparison] : operators) {
      if (comparisons.size() == before && skip_op(text)) comparisons.push_back(comparison);
    }
    if (comparisons.size() == before && skip_name("in")) comparisons.push_back(Comparison::In);
    if (comparisons.size() == before && is_name("not") && tokens_[at_ + 1].kind == TokenKind::Name &&
        tokens_[at_ + 1].text == "in") {
      at_ += 2;
      comparisons.push_back(Comparison::NotIn);
    }
    if (comparisons.size() == before) break;
    operands.push_back(sum());
  }
  if (comparisons.empty()) return std::move(operands[0]);
  ExpressionPtr out = node(Op::Compare, line, std::move(operands));
  out->comparisons = std::move(comparisons);
  return out;
}

ExpressionPtr ExpressionParser::sum() {
  ExpressionPtr left = concat();
  while (is_op("+") || is_op("-")) {
    const Token op = take();
    left = make(op.text == "+" ? Op::Add : Op::Subtract, op.line, std::move(left), concat());
  }
  return left;
}

ExpressionPtr ExpressionParser::concat() {
  const int line = now().line;
  std::vector<ExpressionPtr> parts;
  parts.push_back(product());
  while (skip_op("~")) parts.push_back(product());
  return parts.size() == 1 ? std::move(parts[0]) : node(Op::Concat, line, std::move(parts));
}

ExpressionPtr ExpressionParser::product() {
  ExpressionPtr left = power();
  while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
    const Token op = take();
    const Op kind = op.text == "*"    ? Op::Multiply
                    : op.text == "/"  ? Op::Divide
                    : op.text == "//" ? Op::FloorDivide
                                      : Op::Modulo;
    left = make(kind, op.line, std::move(left), power());
  }
  return left;
}

ExpressionPtr ExpressionParser::power() {
  ExpressionPtr left = unary(true);
  while (is_op("**")) {
    const int line = take().line;
    left = make(Op::Power, line, std::move(left), unary(true));
  }
  return left;
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  const int line = now().line;
  ExpressionPtr value;
  if (is_op("-") || is_op("+")) {
    const Op op = take().text == "-" ? Op::Negative : Op::Positive;
    deeper();
    value = make(op, line, unary(false));
    shallower();
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filters ? postfix_filters(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::constant(Value value) {
  ExpressionPtr out = node(Op::Constant, now().line);
  out->constant = std::move(value);
  return out;
}

ExpressionPtr ExpressionParser::primary() {
  if (is(TokenKind::Name)) {
    const Token name = take();
    if (name.text == "true" || name.text == "True") return constant(true);
    if (name.text == "false" || name.text == "False") return constant(false);
    if (name.text == "none" || name.text == "None") return constant(None{});
    ExpressionPtr out = node(Op::Name, name.line);
    out->name = name.text;
    out->variable = variable(name.text);
    return out;
  }
  if (is(TokenKind::String)) {
    std::string text;
    while (is(TokenKind::String)) text += take().text;
    return constant(std::move(text));
  }
  if (is(TokenKind::Integer)) {
    const std::string& digits = now().text;
    std::int64_t value = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc{})
      wrong("a number of 64 bits");
    ++at_;
    return constant(value);
  }
  if (is(TokenKind::Float)) return constant(std::strtod(take().text.c_str(), nullptr));
  if (!is_op("(") && !is_op("[") && !is_op("{")) wrong("an expression");
  deeper();
  ExpressionPtr out = is_op("{") ? dict() : bracketed();
  shallower();
  return out;
}

ExpressionPtr ExpressionParser::bracketed() {
  const Token open = take();
  if (open.text == "(") {
    ExpressionPtr out = is_op(")") ? node(Op::Tuple, open.line) : tuple(true);
    expect_op(")");
    return out;
  }
  std::vector<ExpressionPtr> items;
  while (!is_op("]")) {
    items.push_back(conditional());
    if (!skip_op(",")) break;
  }
  expect_op("]");
  return node(Op::List, open.line, std::move(items));
}

ExpressionPtr ExpressionParser::dict() {
  const int line = take().line;
  std::vector<ExpressionPtr> items;
  while (!is_op("}")) {
    items.push_back(conditional());
    expect_op(":");
    items.push_back(conditional());
    if (!skip_op(",")) break;
  }
  expect_op("}");
  return node(Op::Dict, line, std::move(items));
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr value) {
  for (;;) {
    const int line = now().line;
    if (skip_op(".")) {
      if (is(TokenKind::Integer)) {
        ExpressionPtr index = primary();
        value = make(Op::Item, line, std::move(value), std::move(index));
      } else {
        std::string name = expect_any_name();
        value = make(Op::Attribute, line, std::move(value));
        value->name = std::move(name);
      }
    } else if (is_op("[")) {
      value = subscript(std::move(value));
    } else if (is_op("(")) {
      value = make(Op::Call, line, std::move(value));
      arguments(*value);
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::postfix_filters(ExpressionPtr value) {
  for (;;) {
    const int line = now().line;
    if (is_op("|"))
      value = filters(std::move(value));
    else if (is_name("is"))
      value = test(std::move(value));
    else if (is_op("(")) {
      value = make(Op::Call, line, std::move(value));
      arguments(*value);
    } else
      return value;
  }
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr value) {
  const int line = take().line;
  deeper();
  std::vector<ExpressionPtr> parts;
  parts.push_back(std::move(value));
  bool slice = false;
  const auto part = [&] { parts.push_back(is_op(":") || is_op("]") ? nullptr : conditional()); };
  part();
  while (parts.size() < 4 && skip_op(":")) {
    slice = true;
    part();
  }
  if (!slice && parts[1] == nullptr) wrong("an index");
  if (is_op(",")) fail("expected one index in the brackets, found a comma: several are not supported");
  expect_op("]");
  shallower();
  parts.resize(slice ? 4 : 2);
  return node(slice ? Op::Slice : Op::Item, line, std::move(parts));
}

void ExpressionParser::arguments(Expression& call) {
  expect_op("(");
  deeper();
  while (!is_op(")")) {
    if (is_op("*") || is_op("**")) wrong("an argument (lists of arguments are not supported)");
    if (is(TokenKind::Name) && tokens_[at_ + 1].kind == TokenKind::Operator && tokens_[at_ + 1].text == "=") {
      std::string name = take().text;
      ++at_;
      call.named.emplace_back(std::move(name), conditional());
      call.depth = std::max(call.depth, call.named.back().second->depth + 1);
    } else {
      if (!call.named.empty()) wrong("an argument with its name, as those before it");
      call.operands.push_back(conditional());
      call.depth = std::max(call.depth, call.operands.back()->depth + 1);
    }
    if (!skip_op(",")) break;
  }
  if (call.depth > kMaxDeep)
    fail(tessera::concat("expected an expression of at most ", kMaxDeep, " operations within each other, found more"));
  shallower();
  expect_op(")");
}

ExpressionPtr ExpressionParser::filters(ExpressionPtr value) {
  while (is_op("|")) {
    const int line = take().line;
    std::string name = expect_any_name();
    if (!has_filter(name))
      throw SyntaxError{tessera::concat("expected a filter that this version knows, found '", name, "'"), line};
    value = make(Op::Filter, line, std::move(value));
    value->name = std::move(name);
    if (is_op("(")) arguments(*value);
  }
  return value;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr value) {
  const int line = take().line;
  const bool negated = skip_name("not");
  std::string name = expect_any_name();
  if (!has_test(name))
    throw SyntaxError{tessera::concat("expected a test that this version knows, found '", name, "'"), line};
  value = make(Op::Test, line, std::move(value));
  value->name = std::move(name);
  const bool value_follows = is(TokenKind::Name) || is(TokenKind::String) || is(TokenKind::Integer) ||
                             is(TokenKind::Float) || is_op("[") || is_op("{");
  if (is_op("(")) {
    arguments(*value);
  } else if (value_follows && !is_name("else") && !is_name("or") && !is_name("and")) {
    if (is_name("is")) wrong("no second test after a test");
    ExpressionPtr argument = postfix(primary());
    value->depth = std::max(value->depth, argument->depth + 1);
    value->operands.push_back(std::move(argument));
  }
  return negated ? make(Op::Not, line, std::move(value)) : std::move(value);
}

}  // namespace mortar::text::jinja
