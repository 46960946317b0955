// Rules of loops, branches and terminators.
#include "ir/verify_rules.hpp"

namespace tessera::ir {

namespace {

std::string types_text(const std::vector<Type>& types) {
  std::string out = "(";
  for (std::size_t i = 0; i < types.size(); ++i) out += concat(i == 0 ? "" : ", ", types[i].str());
  return out + ")";
}
std::vector<Type> types_of(const std::vector<Value>& values) {
  std::vector<Type> types;
  for (Value v : values) types.push_back(v ? v.type() : Type());
  return types;
}
std::vector<Type> result_types(const Operation& op) {
  std::vector<Type> types;
  for (std::size_t i = 0; i < op.num_results(); ++i) types.push_back(op.result(i).type());
  return types;
}

/// Views do not travel through loops and branches.
bool no_views(Checker& c, const Operation& op, const std::vector<Type>& types, const char* what) {
  for (Type t : types)
    if (t.is_view()) return c.fail(op, what, " cannot be a view, found ", t.str());
  return true;
}

bool argument_types(Checker& c, const Operation& op, const std::vector<Type>& expected) {
  const Block& body = op.region(0);
  std::vector<Type> found;
  for (std::size_t i = 0; i < body.num_args(); ++i) found.push_back(body.arg(i).type());
  if (found == expected) return true;
  return c.fail(op, "expected region arguments ", types_text(expected), ", found ", types_text(found));
}

bool for_op(Checker& c, const Operation& op) {
  Type bound = op.single("lowerBound").type();
  for (const char* other : {"upperBound", "step"})
    if (Type t = op.single(other).type(); t != bound)
      return c.fail(op, "expected bounds and step of one type, found ", bound.str(), " and ", t.str());
  std::vector<Type> carried = types_of(op.group("initValues"));
  if (!no_views(c, op, carried, "a loop-carried value")) return false;
  if (result_types(op) != carried)
    return c.fail(op, "expected results ", types_text(carried), ", found ", types_text(result_types(op)));
  carried.insert(carried.begin(), bound);
  return argument_types(c, op, carried);
}

bool loop_op(Checker& c, const Operation& op) {
  std::vector<Type> carried = types_of(op.group("initValues"));
  return no_views(c, op, carried, "a loop-carried value") && no_views(c, op, result_types(op), "a result") &&
         argument_types(c, op, carried);
}

bool branch(Checker& c, const Operation& op, std::size_t region, const char* name) {
  const Operation* end = op.region(region).terminator();
  if (!end || end->op() != Op::Yield) return true;  // leaves otherwise: break, continue, return
  const std::vector<Type> expected = result_types(op), found = types_of(end->operand_values());
  if (found == expected) return true;
  return c.fail(op, "expected the ", name, " branch to yield ", types_text(expected), ", found ", types_text(found));
}

bool if_op(Checker& c, const Operation& op) {
  if (!no_views(c, op, result_types(op), "a result")) return false;
  for (std::size_t r = 0; r < op.num_regions(); ++r)
    if (op.region(r).num_args() != 0) return c.fail(op, "expected branches without arguments");
  const bool has_else = op.num_regions() == 2 && !op.region(1).empty();
  if (!has_else && op.num_results() != 0) return c.fail(op, "expected an else branch for the results, found none");
  return branch(c, op, 0, "then") && (!has_else || branch(c, op, 1, "else"));
}

/// The operation around an `if` chain: what a break, continue or return leaves. Null: the function.
const Operation* beyond_branches(const Operation& op) {
  const Operation* outer = op.parent_op();
  while (outer && outer->op() == Op::If) outer = outer->parent_op();
  return outer;
}

bool operand_types(Checker& c, const Operation& op, const std::vector<Type>& expected, const char* of) {
  const std::vector<Type> found = types_of(op.operand_values());
  if (found == expected) return true;
  return c.fail(op, "expected operands ", types_text(expected), " for ", of, ", found ", types_text(found));
}

bool break_op(Checker& c, const Operation& op) {
  const Operation* loop = beyond_branches(op);
  if (!loop || loop->op() != Op::Loop)
    return c.fail(op, "expected to stand in a loop (through ifs only), found ",
                  loop ? loop->info().mnemonic : std::string_view("the function"));
  return operand_types(c, op, result_types(*loop), "the results of its loop");
}

bool continue_op(Checker& c, const Operation& op) {
  const Operation* loop = beyond_branches(op);
  if (!loop || (loop->op() != Op::Loop && loop->op() != Op::For))
    return c.fail(op, "expected to stand in a for or loop (through ifs only), found ",
                  loop ? loop->info().mnemonic : std::string_view("the function"));
  return operand_types(c, op, types_of(loop->group("initValues")), "the values its loop carries");
}

bool return_op(Checker& c, const Operation& op) {
  const Operation* outer = beyond_branches(op);
  if (outer) return c.fail(op, "expected to stand in an entry (through ifs only), found ", outer->info().mnemonic);
  const Function* f = op.function();
  if (f && f->entry && op.num_operands() != 0)
    return c.fail(op, "expected no operands in an entry, found ", op.num_operands());
  return true;
}

bool yield_op(Checker& c, const Operation& op) {
  const Operation* parent = op.parent_op();
  const bool fits = parent && (parent->op() == Op::If || parent->op() == Op::Reduce || parent->op() == Op::Scan);
  return fits || c.fail(op, "expected to stand in an if, reduce or scan, found ",
                        parent ? parent->info().mnemonic : std::string_view("the function"));
}

}  // namespace

OpRule control_rule(Op op) {
  switch (op) {
    case Op::For: return for_op;
    case Op::Loop: return loop_op;
    case Op::If: return if_op;
    case Op::Break: return break_op;
    case Op::Continue: return continue_op;
    case Op::Return: return return_op;
    case Op::Yield: return yield_op;
    default: return nullptr;
  }
}

}  // namespace tessera::ir
