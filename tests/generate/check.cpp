// The rules of the language on trees, which a generated program must obey so that it can be recorded and printed as C++
// that compiles. The generator follows them; reduction tries steps and drops those that break one.
#include "generate/value_checker.hpp"

namespace tessera::generate {
namespace {

class Checker : ValueChecker {
 public:
  explicit Checker(Program& p) : ValueChecker(p) {}

  void program() {
    for (const Param& param : p_.params) parameter(param);
    for (const View& v : p_.views) view(v);
    for (std::size_t f = 0; f < p_.functions.size(); ++f) function(p_.functions[f], f);
    open_functions_ = p_.functions.size();
    want(p_.body.kind == Kind::Body, "a program is a list of statements");
    block(p_.body);
    for (const Launch& l : p_.launches) launch(l);
  }

 private:
  void parameter(const Param& p) {
    want(p.rank() <= kMaxAxes && (p.rank() > 0) == p.is_tensor(), "the rank of a parameter");
    int parts = 0;
    for (const int e : p.extents) {
      if (p.has_pieces()) {
        want(e > 0 && parts_of(e).size() <= 3, "the extent of a piece");
        parts += power(e) ? 0 : 1;
      } else if (p.is_tensor()) {
        want(e == -1 || e > 0, "an extent");
      }
    }
    want(parts <= 1, "one extent has parts");
  }
  void view(const View& v) {
    want(v.param >= 0 && v.param < static_cast<int>(p_.params.size()), "a view's parameter");
    const Param& p = p_.params[static_cast<std::size_t>(v.param)];
    want(p.kind == ParamKind::In && v.order.size() == p.extents.size(), "a view of an In");
    unsigned seen = 0;
    for (const int a : v.order) seen |= a >= 0 && a < p.rank() ? 1U << a : 0;
    want(seen == (1U << p.rank()) - 1, "a view's order");
  }
  void function(Function& f, std::size_t number) {
    open_functions_ = number;  // functions call earlier ones only
    in_function_ = true;
    const auto outer = vars_;
    for (const auto& a : f.params) declare(a.var, a.type);
    want(f.body.kind == Kind::Body, "a function is a list of statements");
    block(f.body);
    vars_ = outer;
    in_function_ = false;
  }
  void launch(const Launch& l) {
    std::size_t tensors = 0, scalars = 0;
    for (const Param& p : p_.params) {
      if (!p.is_tensor()) {
        ++scalars;
        continue;
      }
      want(tensors < l.tensors.size(), "a launch has one layout per tensor");
      const Layout& t = l.tensors[tensors++];
      want(t.dims.size() == p.extents.size() && t.strides.size() == p.extents.size(), "the rank of a layout");
    }
    want(tensors == l.tensors.size() && scalars == l.scalars.size() && l.blocks >= 0, "the arguments of a launch");
  }

  // ---- statements ---------------------------------------------------------------------------------------------------

  void block(Node& n) {
    want(n.kind == Kind::Body, "a list of statements");
    const auto outer = vars_;
    for (Node& kid : n.kids) statement(kid);
    vars_ = outer;
  }
  void statement(Node& n) {
    want(info(n.kind).cls == KindClass::Statement, "a statement");
    switch (n.kind) {
      case Kind::Body: return block(n);
      case Kind::Let: shape(n, 1, 1); return declare(n.n[0], value(n.kids[0]));
      case Kind::Set: shape(n, 1, 1); return want(variable(n.n[0]) == value(n.kids[0]), "a variable keeps its type");
      case Kind::If:
        shape(n, 0, 3);
        condition(n.kids[0]);
        want(records(n.kids[1]), "an arm does something");
        block(n.kids[1]);
        return block(n.kids[2]);
      case Kind::HostIf:
        shape(n, 2, 2);
        host_number(n);
        block(n.kids[0]);
        return block(n.kids[1]);
      case Kind::HostFor:
        shape(n, 2, 1);
        host_number(n);
        return block(n.kids[0]);
      case Kind::For: return loop(n);
      case Kind::While: {
        shape(n, 2, 2);
        const auto outer = vars_;
        declare(n.n[0], Type::scalar(ElementType::i32));
        condition(n.kids[0]);
        block(n.kids[1]);
        vars_ = outer;
        return;
      }
      case Kind::TileLoop: return tile_loop(n);
      case Kind::Call: return call(n);
      case Kind::Require:
        shape(n, 0, 1);
        condition(n.kids[0]);
        return want(host_only(n.kids[0]) && !in_function_, "a requirement is about the launch");
      case Kind::Check: shape(n, 0, 1); return want(value(n.kids[0]).elem == ElementType::boolean, "a check");
      default: return write(n);
    }
  }
  void host_number(const Node& n) {
    const Param& p = parameter_of(n.n[0], ParamKind::Constant);
    want(!in_function_ && !is_float(p.elem), "a number that the host branches by");
  }
  void condition(Node& n) { want(value(n) == Type::scalar(ElementType::boolean), "a condition"); }

  void loop(Node& n) {
    shape(n, 1, 4);
    const Type t = value(n.kids[0]);
    want(t.rank == 0 && is_integer(t.elem), "the bounds of a loop");
    want(value(n.kids[1]) == t && value(n.kids[2]) == t, "the bounds of a loop agree");
    want(n.kids[2].kind != Kind::Number || n.kids[2].n[0] > 0, "a step is positive");
    const auto outer = vars_;
    declare(n.n[0], t);
    block(n.kids[3]);
    vars_ = outer;
  }
  void tile_loop(Node& n) {
    shape(n, 3, 1);
    const Param& p = parameter_of(n.n[0], ParamKind::MutTiles);
    want(!in_function_ && !in_tile_loop_[n.n[0]], "tiles are visited by one loop at a time");
    const auto order = std::pair(n.n[1], n.n[2]);
    want(n.n[1] >= 0 && n.n[1] <= 2 && (n.n[1] != 2 || (n.n[2] >= 1 && p.rank() >= 2)), "an order");
    const auto [before, first] = orders_.emplace(n.n[0], order);
    want(first || before->second == order, "tiles are visited in one order");
    in_tile_loop_[n.n[0]] = true;
    block(n.kids[0]);
    in_tile_loop_[n.n[0]] = false;
  }
  void call(Node& n) {
    want(n.n.size() == 1 && n.n[0] >= 0 && n.n[0] < static_cast<int>(open_functions_), "a function that is known");
    const Function& f = p_.functions[static_cast<std::size_t>(n.n[0])];
    want(f.params.size() == n.kids.size(), "the arguments of a call");
    for (std::size_t i = 0; i < n.kids.size(); ++i) {
      want(value(n.kids[i]) == f.params[i].type, "the type of an argument");
      want(!f.params[i].by_reference || n.kids[i].kind == Kind::Var, "an argument by reference is a variable");
    }
  }

  void write(Node& n) {
    switch (n.kind) {
      case Kind::Store:
        shape(n, 1, 1);
        return want(value(n.kids[0]) == piece(n.n[0], true), "a stored tile has the piece's shape");
      case Kind::StoreSub: {
        const Type p = piece(n.n.at(0), true);
        shape(n, 1, static_cast<std::size_t>(p.rank) + 1);
        indices(n, 0, p.rank);
        return sub_tile(p, value(n.kids.back()));
      }
      case Kind::Scatter: {
        shape(n, 2, 2);
        const Type p = piece(n.n[0], true);
        return want(value(n.kids[1]) == slices(p, n.n[1], n.kids[0]), "the values of a scatter");
      }
      case Kind::ScatterElements: {
        const Type p = piece(n.n.at(0), true);
        shape(n, 1, static_cast<std::size_t>(p.rank) + 1);
        const Type common = positions(n, p.rank);
        return want(n.kids.back().type.elem == p.elem && joint(common, value(n.kids.back())).size() <= 256,
                    "the values of a scatter");
      }
      case Kind::Accumulate: return accumulate(n);
      case Kind::AccumulateTile: {
        want(n.n.size() == 1, "the parts of a node");
        const Param& p = parameter_of(n.n[0], ParamKind::Acc);
        shape(n, 1, p.extents.size() + 1);
        indices(n, 0, p.rank());
        const Type t = value(n.kids.back());
        one_operation(n.n[0], lang::AccOp::Add);
        return want(t.elem == p.elem && t.rank == p.rank() && can_accumulate(t.elem, lang::AccOp::Add),
                    "an added tile");
      }
      default: want(false, "a statement");
    }
  }
  static bool can_accumulate(ElementType e, lang::AccOp op) {
    const bool wide = is_integer(e) && tessera::info(e).bits >= 32;
    const bool extreme = op == lang::AccOp::Max || op == lang::AccOp::Min;
    return wide || (op == lang::AccOp::Add && is_float(e) && computes(e)) ||
           (extreme && (e == ElementType::f32 || e == ElementType::f64));
  }
  /// Different operations on an element happen in any order: such a program has several outcomes.
  void one_operation(std::int64_t parameter, lang::AccOp op) {
    want(operations_.try_emplace(parameter, op).first->second == op, "one operation on an accumulator");
  }
  void accumulate(Node& n) {
    want(n.n.size() == 2 && n.n[1] >= 0 && n.n[1] <= 5, "the parts of a node");
    one_operation(n.n[0], static_cast<lang::AccOp>(n.n[1]));
    const Param& p = parameter_of(n.n[0], ParamKind::Acc);
    shape(n, 2, p.extents.size() + 1);
    const Type common = positions(n, p.rank());
    want(can_accumulate(p.elem, static_cast<lang::AccOp>(n.n[1])), "an accumulation of this element type");
    want(value(n.kids.back()).elem == p.elem && joint(common, n.kids.back().type).size() <= kMaxElements,
         "the value of an accumulation");
  }

  static bool host_only(const Node& n) {
    const KindClass cls = info(n.kind).cls;
    const bool known = n.kind == Kind::Number || n.kind == Kind::ScalarArg || n.kind == Kind::ConstantArg ||
                       n.kind == Kind::Dim || n.kind == Kind::Stride || n.kind == Kind::Count ||
                       n.kind == Kind::PieceDim || n.kind == Kind::PieceCount || n.kind == Kind::Cast ||
                       cls == KindClass::Unary || cls == KindClass::Binary || cls == KindClass::Compare;
    if (!known || n.type.rank != 0 || is_float(n.type.elem)) return false;
    for (const Node& kid : n.kids) {
      if (!host_only(kid)) return false;
    }
    return true;
  }

  std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> orders_;
  std::map<std::int64_t, lang::AccOp> operations_;
  std::size_t open_functions_ = 0;
};

}  // namespace

std::string check(Program& p) {
  try {
    Checker(p).program();
  } catch (const Wrong& w) { return w.what; }
  return {};
}

}  // namespace tessera::generate
