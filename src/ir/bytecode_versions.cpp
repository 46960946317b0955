// Version gates, read off the tables: operations, attributes, values of enumerations, operands, results, types,
// globals.
#include "ir/bytecode_versions.hpp"

#include "ir/bytecode_tags.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::ir {

namespace {

/// First version of a type and of what it is made of.
int type_since(Type t) {
  int since = 1;
  switch (t.kind()) {
    case TypeKind::StridedView:
    case TypeKind::GatherScatterView: since = 3; break;
    case TypeKind::Token:
    case TypeKind::Function: return 1;
    default: break;
  }
  return std::max<int>(since, info(t.elem()).since);
}

/// First version that knows an attribute's value; `since` of the attribute where the value says more than its absence.
int attribute_since(const AttrInfo& a, const Attribute& value) {
  if (const EnumAttr* e = value.as<EnumAttr>()) {
    const bool implied = e->value == a.implied;
    const bool nearest_away =
        a.kind == AttrKind::Rounding && e->value == static_cast<std::uint8_t>(Rounding::NearestAway);
    return std::max<int>(implied ? 1 : a.since, nearest_away ? 4 : 1);
  }
  if (const BoolArrayAttr* b = value.as<BoolArrayAttr>()) {
    for (bool item : b->values)
      if (item != (a.implied != 0)) return a.since;
    return 1;
  }
  return a.since;
}

/// Calls `need(minor version, function that says what, where)` for everything in the module that has a first version.
template <class Need>
class VersionWalk {
 public:
  explicit VersionWalk(Need& need) : need_(need) {}

  void module(const Module& m) {
    for (const Global& g : m.globals) {
      type(g.value.type, {});
      if (g.is_private || g.constant)
        need_(
            3, [&] { return concat("global @", g.name, " being ", g.is_private ? "private" : "constant"); },
            SourceLocation{});
    }
    for (const auto& f : m.functions) {
      for (std::size_t i = 0; i < f->body().num_args(); ++i) type(f->body().arg(i).type(), f->loc);
      walk(f->body(), [this](const Operation& op) { operation(op); });
    }
  }

 private:
  void operation(const Operation& op) {
    const OpInfo& info = op.info();
    need_(
        info.since, [&] { return concat("operation ", info.mnemonic); }, op.loc);
    for (const NamedAttr& named : op.attrs()) {
      const AttrInfo* a = info.attribute(named.name);
      if (a)
        need_(
            attribute_since(*a, named.value), [&] { return concat(text(a->name), " of ", info.mnemonic); }, op.loc);
    }
    for (std::size_t g = 0; g < info.operands.size(); ++g)
      if (op.group_sizes()[g] != 0)
        need_(
            info.operands[g].since, [&] { return concat("operand ", info.operands[g].name, " of ", info.mnemonic); },
            op.loc);
    if (op.op() == Op::FToF && op.num_results() == 1) conversion(op);
    results(op);
    for (std::size_t r = 0; r < op.num_regions(); ++r)
      for (std::size_t i = 0; i < op.region(r).num_args(); ++i) type(op.region(r).arg(i).type(), op.loc);
  }

  /// Roundings other than to nearest came with 13.4, but for f8E8M0FNU.
  void conversion(const Operation& op) {
    const auto rounding = op.enum_attr<Rounding>(AttrName::rounding_mode, Rounding::NearestEven);
    if (rounding != Rounding::NearestEven && op.result().type().elem() != Elem::F8E8M0FNU)
      need_(
          4,
          [&] {
            return concat("rounding ", enum_text(AttrKind::Rounding, static_cast<std::uint8_t>(rounding)), " of ftof");
          },
          op.loc);
  }

  /// A result that an older version does not know is dropped there, so it must not be used.
  void results(const Operation& op) {
    for (std::size_t i = 0; i < op.num_results(); ++i) {
      type(op.result(i).type(), op.loc);
      if (i < op.info().results.size() && op.result(i).has_uses() && op.info().results[i].since > op.info().since)
        need_(
            op.info().results[i].since,
            [&] { return concat("result ", op.info().results[i].name, " of ", op.info().mnemonic); }, op.loc);
    }
  }

  void type(Type t, const SourceLocation& where) {
    need_(
        type_since(t), [&] { return concat("type ", t.str()); }, where);
  }

  Need& need_;
};

template <class Need>
void for_each_need(const Module& m, Need need) {
  VersionWalk<Need>(need).module(m);
}

}  // namespace

void check_version(const Module& module, BytecodeVersion version) {
  if (version < kOldestBytecode || version > kNewestBytecode)
    throw CompileError(concat("expected a bytecode version from ", version_text(kOldestBytecode), " to ",
                              version_text(kNewestBytecode), ", found ", version_text(version)));
  for_each_need(module, [version](int minor, auto what, const SourceLocation& where) {
    if (minor > version.minor)
      throw CompileError(concat(what(), " needs Tile IR bytecode 13.", minor, ", but ", version_text(version),
                                " was requested: use a newer version or avoid it"),
                         where);
  });
}

BytecodeVersion required_version(const Module& module) {
  BytecodeVersion required = kOldestBytecode;
  for_each_need(module, [&required](int minor, auto, const SourceLocation&) {
    required.minor = std::max(required.minor, static_cast<std::uint8_t>(minor));
  });
  return required;
}

}  // namespace tessera::ir
