// The walk over a module, and the rules that follow from the op table: operand groups and classes, results, attributes,
// equal types, regions, terminators, dominance. An operation's own rules run only where these hold.
#include "tessera/ir/verifier.hpp"

#include "ir/verify_rules.hpp"
#include "tessera/base/error.hpp"

namespace tessera::ir {

namespace {

constexpr std::size_t kMaxReported = 5;

/// The alternative of Attribute::Storage that a kind of attribute is kept in.
bool has_kind(const Attribute& value, AttrKind kind) {
  switch (kind) {
    case AttrKind::Unit: return value.as<UnitAttr>() != nullptr;
    case AttrKind::Bool: return value.as<bool>() != nullptr;
    case AttrKind::I32:
    case AttrKind::I64: return value.as<IntAttr>() != nullptr;
    case AttrKind::String:
    case AttrKind::Symbol: return value.as<std::string>() != nullptr;
    case AttrKind::Dense: return value.as<DenseAttr>() != nullptr;
    case AttrKind::Dict: return value.as<DictAttr>() != nullptr;
    case AttrKind::Tagged: return true;  // checked by the operation's rule
    case AttrKind::TaggedArray: return value.as<ArrayAttr>() != nullptr;
    case AttrKind::I32Array: return value.as<I32ArrayAttr>() != nullptr;
    case AttrKind::BoolArray: return value.as<BoolArrayAttr>() != nullptr;
    default: {
      const auto* e = value.as<EnumAttr>();
      return e && e->value < enum_names(kind).size();
    }
  }
}

class ModuleVerifier {
 public:
  explicit ModuleVerifier(const Module& module) : check_(module), module_(module) {}

  std::vector<Diagnostic> run() {
    for (const Global& g : module_.globals) global(g);
    for (const auto& f : module_.functions) function(*f);
    return check_.take();
  }

 private:
  template <class Subject>
  void symbol(const Subject& subject) {
    if (subject.name.empty()) check_.fail(subject, "a function or global has no name");
    if (!symbols_.insert(subject.name).second) check_.fail(subject, "@", subject.name, " is defined twice");
  }

  void global(const Global& g) {
    symbol(g);
    if (std::string p = dense_problem(g.value); !p.empty()) {
      check_.fail(g, "global @", g.name, ": ", p);
    } else if (g.value.type.rank() != 1) {
      check_.fail(g, "global @", g.name, ": expected a tile of one axis, found ", g.value.type.str());
    }
    if (g.alignment < 0 || (g.alignment & (g.alignment - 1)) != 0)
      check_.fail(g, "global @", g.name, ": expected an alignment that is a power of two or 0, found ", g.alignment);
  }

  void function(const Function& f) {
    symbol(f);
    if (std::string p = hints_problem(f.hints, nullptr); !p.empty()) check_.fail(f, "entry @", f.name, ": ", p);
    if (!f.entry && !f.hints.entries.empty()) check_.fail(f, "func @", f.name, ": only an entry has hints, found some");
    visible_.clear();
    for (std::size_t i = 0; i < f.body().num_args(); ++i) {
      Type t = f.body().arg(i).type();
      std::string problem = type_problem(t);
      if (problem.empty() && (!t.is_tile() || t.rank() != 0))
        problem = concat("expected a scalar tile, found ", t.str());
      if (!problem.empty()) check_.fail(f, "entry @", f.name, ": argument ", i, ": ", problem);
    }
    if (!f.body().terminator())
      check_.fail(f, "entry @", f.name, ": expected a body that ends with return");
    else if (f.body().terminator()->op() != Op::Return)
      check_.fail(*f.body().terminator(), "expected return at the end of entry @", f.name);
    block(f.body());
  }

  /// Values of the block are visible in it and in what its operations hold.
  void block(const Block& b) {
    std::vector<const ValueImpl*> added;
    for (std::size_t i = 0; i < b.num_args(); ++i) show(b.arg(i), added);
    for (const Operation& op : b) {
      if (operation(op))
        for (std::size_t r = 0; r < op.num_regions(); ++r) block(op.region(r));
      for (std::size_t i = 0; i < op.num_results(); ++i) show(op.result(i), added);
    }
    for (const ValueImpl* v : added) visible_.erase(v);
  }

  void show(Value v, std::vector<const ValueImpl*>& added) {
    if (visible_.insert(v.impl()).second) added.push_back(v.impl());
  }

  /// False if what is wrong makes looking inside meaningless.
  bool operation(const Operation& op) {
    const std::size_t before = check_.count();
    if (op.info().has(traits::ModuleLevel)) return check_.fail(op, "cannot stand in a function");
    if (!operands(op) || !results(op) || !attributes(op) || !regions(op)) return false;
    if (op.info().has(traits::Terminator) && op.next())
      check_.fail(op, "expected a terminator to be the last operation of its block");
    if (!relations(op)) return true;
    for (OpRule (*table)(Op) : {math_rule, shape_rule, memory_rule, control_rule})
      if (OpRule rule = table(op.op()); rule && check_.count() == before) rule(check_, op);
    return true;
  }

  bool operands(const Operation& op) {
    const OpInfo& info = op.info();
    std::size_t next = 0;
    for (std::size_t g = 0; g < info.operands.size(); ++g) {
      const GroupInfo& group = info.operands[g];
      const std::uint32_t size = op.group_sizes()[g];
      if (group.arity == Arity::One && size != 1)
        return check_.fail(op, "expected one operand ", group.name, ", found ", size);
      if (group.arity == Arity::Optional && size > 1)
        return check_.fail(op, "expected at most one operand ", group.name, ", found ", size);
      for (std::uint32_t i = 0; i < size; ++i)
        if (!operand(op, op.operand(next++), group)) return false;
    }
    return true;
  }

  bool operand(const Operation& op, Value v, const GroupInfo& group) {
    if (!v) return check_.fail(op, "operand ", group.name, " is null");
    if (!visible_.contains(v.impl()))
      return check_.fail(op, "operand ", group.name, " is not defined before its use in a block around it");
    return value(op, v.type(), group, "operand ");
  }

  bool value(const Operation& op, Type t, const GroupInfo& group, const char* kind) {
    if (std::string p = type_problem(t); !p.empty()) return check_.fail(op, kind, group.name, ": ", p);
    if (accepts(group.type_class, t)) return true;
    return check_.fail(op, "expected ", kind, group.name, " to be ", text(group.type_class), ", found ", t.str());
  }

  bool results(const Operation& op) {
    const auto& declared = op.info().results;
    const bool variadic = !declared.empty() && declared.back().arity == Arity::Variadic;
    if (!variadic && op.num_results() != declared.size())
      return check_.fail(op, "expected ", declared.size(), " results, found ", op.num_results());
    for (std::size_t i = 0; i < op.num_results(); ++i)
      if (!value(op, op.result(i).type(), declared[std::min(i, declared.size() - 1)], "result ")) return false;
    return true;
  }

  bool attributes(const Operation& op) {
    for (const AttrInfo& a : op.info().attributes) {
      const Attribute* value = op.attr(a.name);
      if (!value && !a.optional && a.implied < 0)
        return check_.fail(op, "expected the attribute ", text(a.name), ", found none");
      if (value && !has_kind(*value, a.kind))
        return check_.fail(op, "the attribute ", text(a.name), " is not of its kind or names no value of it");
    }
    for (const NamedAttr& named : op.attrs())
      if (!op.info().attribute(named.name)) return check_.fail(op, "has no attribute ", text(named.name));
    return true;
  }

  bool regions(const Operation& op) {
    const std::size_t n = op.num_regions();
    if (!op.info().has(traits::Regions)) return n == 0 || check_.fail(op, "expected no region, found ", n);
    const bool branch = op.op() == Op::If;
    if (n != 1 && !(branch && n == 2))
      return check_.fail(op, "expected one region", branch ? " or two" : "", ", found ", n);
    for (std::size_t r = 0; r < n; ++r) {
      const Block& body = op.region(r);
      if (branch && r == 1 && body.empty()) continue;
      if (!body.terminator()) return check_.fail(op, "expected region ", r, " to end with a terminator");
      for (std::size_t i = 0; i < body.num_args(); ++i)
        if (std::string p = type_problem(body.arg(i).type()); !p.empty())
          return check_.fail(op, "region argument ", i, ": ", p);
    }
    return true;
  }

  /// The traits SameType and SameShape.
  bool relations(const Operation& op) {
    const bool type = op.info().has(traits::SameType), shape = op.info().has(traits::SameShape);
    if (!type && !shape) return true;
    Type first = op.num_operands() != 0 ? op.operand(0).type() : op.result(0).type();
    std::vector<Type> all;
    for (Value v : op.operand_values()) all.push_back(v.type());
    for (std::size_t i = 0; i < op.num_results(); ++i) all.push_back(op.result(i).type());
    for (Type t : all) {
      if (type && t != first)
        return check_.fail(op, "expected operands and result of one type, found ", first.str(), " and ", t.str());
      if (shape && !same_shape(t, first))
        return check_.fail(op, "expected operands and result of one shape, found ", first.str(), " and ", t.str());
    }
    return true;
  }

  Checker check_;
  const Module& module_;
  std::unordered_set<std::string> symbols_;
  std::unordered_set<const ValueImpl*> visible_;
};

}  // namespace

std::vector<Diagnostic> verify(const Module& module) { return ModuleVerifier(module).run(); }

void verify_or_throw(const Module& module) {
  const std::vector<Diagnostic> found = verify(module);
  if (found.empty()) return;
  std::string message = found.front().message;
  for (std::size_t i = 1; i < found.size() && i < kMaxReported; ++i)
    message += concat("\n  ", found[i].where.known() ? concat(found[i].where.file, ":", found[i].where.line, ": ") : "",
                      found[i].message);
  if (found.size() > kMaxReported) message += concat("\n  and ", found.size() - kMaxReported, " more");
  throw CompileError(message, found.front().where);
}

}  // namespace tessera::ir
