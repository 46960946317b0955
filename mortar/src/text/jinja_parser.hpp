// The grammar of Jinja: expressions here, statements in jinja_statements.cpp.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "text/jinja_lexer.hpp"
#include "text/jinja_tree.hpp"

namespace mortar::text::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  const Token& now() const { return tokens_[at_]; }
  bool is(TokenKind kind, std::string_view text = {}) const {
    return now().kind == kind && (text.empty() || now().text == text);
  }
  bool is_op(std::string_view text) const { return is(TokenKind::Operator, text); }
  bool is_name(std::string_view text) const { return is(TokenKind::Name, text); }
  bool skip_op(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_op(std::string_view text);
  std::string expect_any_name();
  Token take() { return tokens_[at_++]; }
  [[noreturn]] void wrong(std::string_view expected) const;
  [[noreturn]] void fail(std::string message) const;
  int variable(const std::string& name);

  ExpressionPtr conditional();
  ExpressionPtr disjunction();
  /// An expression, or several with commas between as a tuple.
  ExpressionPtr tuple(bool conditionals);
  /// Filters after a value, from the current `|`.
  ExpressionPtr filters(ExpressionPtr value);
  ExpressionPtr node(Op op, int line, std::vector<ExpressionPtr> operands = {}) const;
  template <class... Operands>
  ExpressionPtr make(Op op, int line, Operands... operands) const {
    std::vector<ExpressionPtr> list;
    (list.push_back(std::move(operands)), ...);
    return node(op, line, std::move(list));
  }
  void arguments(Expression& call);
  void deeper();
  void shallower() { --nesting_; }

  std::vector<std::string> variables_;

 private:
  ExpressionPtr conjunction();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concat();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filters);
  ExpressionPtr primary();
  ExpressionPtr constant(Value value);
  ExpressionPtr postfix(ExpressionPtr value);
  ExpressionPtr postfix_filters(ExpressionPtr value);
  ExpressionPtr subscript(ExpressionPtr value);
  ExpressionPtr test(ExpressionPtr value);
  ExpressionPtr bracketed();
  ExpressionPtr dict();

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0;
  std::unordered_map<std::string, int> numbers_;
};

}  // namespace mortar::text::jinja
