// A template as a tree.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_value.hpp"

namespace mortar::text::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

enum class Op : std::uint8_t {
  Constant,
  Name,
  List,
  Tuple,
  Dict,  // keys and values by turns
  Attribute,
  Item,
  Slice,  // value, start, stop, step (null where left out)
  // operands[0]: the callee, or the value.
  Call,
  Filter,
  Test,
  // Operators.
  Not,
  Negative,
  Positive,
  And,
  Or,
  Add,
  Subtract,
  Multiply,
  Divide,
  FloorDivide,
  Modulo,
  Power,
  Concat,
  Compare,      // operands[0], then one for each of `comparisons`
  Conditional,  // condition, then, else (may be null)
};
enum class Comparison : std::uint8_t { Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, In, NotIn };

struct Expression {
  Op op;
  int line;
  int depth = 1;
  std::string name;   ///< of an attribute, a filter, a test, a name
  int variable = -1;  ///< of a name
  Value constant;
  std::vector<ExpressionPtr> operands;
  std::vector<std::pair<std::string, ExpressionPtr>> named;  ///< keyword arguments
  std::vector<Comparison> comparisons;
};

struct Statement;
using Block = std::vector<Statement>;

/// What is assigned: a variable, several, or an attribute of a namespace.
struct Target {
  std::vector<int> variables;
  bool several = false;
  std::string attribute;
};

struct MacroNode {
  std::string name;
  std::vector<int> parameters;
  std::vector<std::string> parameter_names;
  std::vector<ExpressionPtr> defaults;  ///< null: none
  Block body;
};

enum class StatementKind : std::uint8_t {
  Data,
  Print,
  If,
  For,
  Set,
  SetBlock,
  Macro,
  With,
  FilterBlock,
  Break,
  Continue
};

struct Statement {
  StatementKind kind;
  int line;
  std::string text = {};                        ///< Data
  std::vector<ExpressionPtr> expressions = {};  ///< If: conditions; For: what is iterated, and a condition or null
  std::vector<Block> blocks = {};               ///< If: one per condition and one for else; For: body, else
  std::vector<Target> targets = {};
  std::unique_ptr<MacroNode> macro = {};
};

struct Tree {
  Block body;
  std::vector<std::string> variables;  ///< by number
};

/// Throws SyntaxError.
Tree parse_template(std::string_view source);

/// Whether there is a filter or test of this name.
bool has_filter(std::string_view name);
bool has_test(std::string_view name);

}  // namespace mortar::text::jinja
