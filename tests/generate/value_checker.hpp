// The rules of values: which operands an expression takes and which type it has. check.cpp has the statements.
#pragma once
#include <bit>
#include <map>

#include "generate/program.hpp"

namespace tessera::generate {

struct Wrong {
  const char* what;
};
inline void want(bool ok, const char* what) {
  if (!ok) throw Wrong{what};
}

class ValueChecker {
 protected:
  explicit ValueChecker(Program& p) : p_(p) {}
  static constexpr int kMaxElements = 16384;
  static bool power(int n) { return n > 0 && std::has_single_bit(static_cast<unsigned>(n)); }
  void shape(const Node& n, std::size_t numbers, std::size_t kids) {
    want(n.n.size() == numbers && n.kids.size() == kids, "the parts of a node");
  }

  // ---- variables ----------------------------------------------------------------------------------------------------

  void declare(std::int64_t var, const Type& t) {
    want(var >= 0 && !vars_.contains(var), "a variable is declared once");
    vars_[var] = t;
  }
  const Type& variable(std::int64_t var) {
    const auto found = vars_.find(var);
    want(found != vars_.end(), "a variable that is not there");
    return found->second;
  }

  // ---- parameters ---------------------------------------------------------------------------------------------------

  const Param& parameter_of(std::int64_t number, ParamKind kind) {
    want(number >= 0 && number < static_cast<int>(p_.params.size()), "a parameter");
    const Param& p = p_.params[static_cast<std::size_t>(number)];
    want(p.kind == kind, "the kind of a parameter");
    return p;
  }
  /// `part`: what has parts is accessed through them.
  Type piece(std::int64_t number, bool part) {
    want(!in_function_ && number >= 0 && param_of(number) < static_cast<int>(p_.params.size()), "a piece");
    const Param& p = p_.params[static_cast<std::size_t>(param_of(number))];
    want(p.kind == ParamKind::Mut || (p.kind == ParamKind::MutTiles && in_tile_loop_[param_of(number)]), "a piece");
    const int axis = part_axis(p);
    if (axis < 0) {
      want(part_of(number) == 0, "a piece has one part");
    } else {
      const auto parts = parts_of(p.extents[static_cast<std::size_t>(axis)]).size();
      want(part_of(number) < static_cast<int>(parts) || (!part && part_of(number) == kWhole), "a part");
    }
    return piece_type(p_, number);
  }
  Type tensor(std::int64_t number, bool in_only) {
    want(!in_function_ && number >= 0, "a tensor");
    const std::size_t count = number >= kFirstView ? p_.views.size() : p_.params.size();
    want(static_cast<std::size_t>(number >= kFirstView ? number - kFirstView : number) < count, "a tensor");
    if (number < kFirstView) {
      const Param& p = p_.params[static_cast<std::size_t>(number)];
      want(p.kind == ParamKind::In || (!in_only && (p.kind == ParamKind::Acc || p.kind == ParamKind::MutTiles)),
           "a tensor");
    }
    return tensor_type(p_, number);
  }
  static void axis(std::int64_t a, int rank) { want(a >= 0 && a < rank, "an axis"); }

  // ---- loads --------------------------------------------------------------------------------------------------------

  void indices(Node& n, std::size_t first, int rank) {
    want(n.kids.size() >= first + static_cast<std::size_t>(rank), "an index per axis");
    for (int a = 0; a < rank; ++a) {
      const Type t = value(n.kids[first + static_cast<std::size_t>(a)]);
      want(t.rank == 0 && (t.elem == ElementType::i32 || t.elem == ElementType::u32), "an index is i32 or u32");
    }
  }
  /// The shape that the first `rank` operands, positions, broadcast to.
  Type positions(Node& n, int rank) {
    Type common = Type::scalar(ElementType::i32);
    for (Node& kid : n.kids) value(kid);
    for (int a = 0; a < rank; ++a) {
      want(is_integer(n.kids[static_cast<std::size_t>(a)].type.elem), "a position is an integer");
      common = joint(common, n.kids[static_cast<std::size_t>(a)].type);
    }
    return common;
  }
  static Type joint(const Type& a, const Type& b) {
    if (a.rank == 0) return b.with(a.elem);
    if (b.rank == 0) return a;
    want(a.rank == b.rank, "shapes that fit");
    Type t = a;
    for (int i = 0; i < a.rank; ++i) {
      want(a[i] == b[i] || a[i] == 1 || b[i] == 1, "shapes that fit");
      t[i] = std::max(a[i], b[i]);
    }
    return t;
  }
  static void sub_tile(const Type& piece, const Type& t) {
    want(t.elem == piece.elem && t.rank == piece.rank, "a part of a piece");
    for (int a = 0; a < t.rank; ++a) want(power(t[a]) && t[a] <= piece[a], "a part of a piece");
  }
  Type slices(const Type& from, std::int64_t a, Node& index) {
    axis(a, from.rank);
    const Type i = value(index);
    int longer = 0;
    for (int k = 0; k < i.rank; ++k) longer += i[k] > 1 ? 1 : 0;
    want(is_integer(i.elem) && longer <= 1, "an index along one axis");
    for (int k = 0; k < from.rank; ++k) want(k == a || power(from[k]), "whole slices have static extents");
    const Type t = from.with_extent(static_cast<int>(a), i.size());
    return sized(t);
  }
  static Type sized(const Type& t) {
    for (int a = 0; a < t.rank; ++a) want(power(t[a]), "extents are powers of two");
    want(t.size() <= kMaxElements, "a tile that is small");
    return t;
  }
  /// `kids` operands and the number of pad(value).
  void padding(Node& n, std::int64_t pad, std::size_t kids, ElementType elem) {
    want(pad >= 0 && pad <= 4, "a padding");
    const auto kind = static_cast<lang::PadKind>(pad);
    const bool number = kind == lang::PadKind::Value;
    want(n.kids.size() == kids + (number ? 1 : 0), "the parts of a node");
    if (number) want(value(n.kids.back()) == Type::scalar(elem), "the padding has the tensor's element type");
    const bool special = !number && kind != lang::PadKind::Zero;
    want(!special || (is_float(elem) && elem != ElementType::f8e4m3), "a padding of this element type");
  }
  Type load(Node& n) {
    want(!n.n.empty(), "the parts of a node");
    switch (n.kind) {
      case Kind::LoadPiece: {
        want(n.n.size() == 2, "the parts of a node");
        const Type t = piece(n.n[0], true);
        padding(n, n.n[1], 0, t.elem);
        return t;
      }
      case Kind::LoadLike: return load_like(n);
      case Kind::LoadTile:
      case Kind::LoadAt:
      case Kind::LoadSub: {
        want(n.n.size() == 2, "the parts of a node");
        const Type from = n.kind == Kind::LoadSub ? piece(n.n[0], true) : tensor(n.n[0], true);
        want(from.rank == n.given.rank && n.given.elem == from.elem, "a tile of the tensor");
        if (n.kind == Kind::LoadSub) sub_tile(from, n.given);
        padding(n, n.n[1], static_cast<std::size_t>(from.rank), from.elem);
        indices(n, 0, from.rank);
        return sized(n.given);
      }
      case Kind::Gather:
      case Kind::PieceGather: {
        want(n.n.size() == 3, "the parts of a node");
        const Type from = n.kind == Kind::Gather ? tensor(n.n[0], true) : piece(n.n[0], true);
        padding(n, n.n[2], 1, from.elem);
        return slices(from, n.n[1], n.kids[0]);
      }
      default: {
        const Type from = n.kind == Kind::GatherElements ? tensor(n.n[0], true) : piece(n.n[0], true);
        shape(n, 1, static_cast<std::size_t>(from.rank));
        return sized(positions(n, from.rank).with(from.elem));
      }
    }
  }
  Type load_like(Node& n) {
    want(n.n.size() >= 4 && (n.n[3] == 0 || n.n[3] == 1), "the parts of a node");
    const Type x = tensor(n.n[0], true), y = piece(n.n[1], true);
    want(n.n.size() == 4 + static_cast<std::size_t>(x.rank), "an axis of the piece per axis");
    padding(n, n.n[2], 0, x.elem);
    Type t = y.with(x.elem);
    unsigned named = 0;
    for (std::size_t k = 4; k < n.n.size(); ++k) {
      axis(n.n[k], y.rank);
      want((named >> n.n[k] & 1U) == 0, "an axis is named once");
      named |= 1U << n.n[k];
    }
    for (int a = 0; a < y.rank; ++a) t[a] = (named >> a & 1U) != 0 ? y[a] : 1;
    return t;
  }

  // ---- values -------------------------------------------------------------------------------------------------------

  const Type& value(Node& n) {
    n.type = type_of(n);
    return n.type;
  }
  Type type_of(Node& n) {
    switch (info(n.kind).cls) {
      case KindClass::Leaf: return leaf(n);
      case KindClass::Load: return load(n);
      case KindClass::Unary: {
        shape(n, 0, 1);
        const Type t = value(n.kids[0]);
        unary(n.kind, t.elem);
        return t;
      }
      case KindClass::Binary: {
        shape(n, 0, 2);
        const Type a = value(n.kids[0]), b = value(n.kids[1]);
        want(a.elem == b.elem && accepts(n.kind, a.elem), "the operands of an operation");
        return joint(a, b);
      }
      case KindClass::Compare: {
        shape(n, 0, 2);
        const Type a = value(n.kids[0]), b = value(n.kids[1]);
        want(a.elem == b.elem && (computes(a.elem) || a.elem == ElementType::boolean), "the operands of a comparison");
        return joint(a, b).with(ElementType::boolean);
      }
      case KindClass::Reduce:
      case KindClass::Scan: return reduction(n);
      case KindClass::Other: return other(n);
      case KindClass::Statement: break;
    }
    throw Wrong{"a value"};
  }
  static void unary(Kind k, ElementType e) {
    if (k == Kind::Not) return want(e == ElementType::boolean, "`not` of bool");
    if (k == Kind::BitNot) return want(is_integer(e), "`bit_not` of integers");
    if (k == Kind::Neg || k == Kind::Abs) return want(computes(e), "numbers");
    want(computes(e) && is_float(e), "floats");
  }
  static bool accepts(Kind k, ElementType e) {
    switch (k) {
      case Kind::And:
      case Kind::Or:
      case Kind::Xor: return is_integer(e) || e == ElementType::boolean;
      case Kind::Shl:
      case Kind::Shr:
      case Kind::CeilDiv: return is_integer(e);
      default: return computes(e);
    }
  }
  Type leaf(Node& n) {
    want(n.kids.empty(), "the parts of a node");
    const Type i32 = Type::scalar(ElementType::i32);
    const auto numbers = [&](std::size_t k) { want(n.n.size() == k, "the parts of a node"); };
    switch (n.kind) {
      case Kind::Var: numbers(1); return variable(n.n[0]);
      case Kind::Number: numbers(1); return number(n);
      case Kind::Infinity:
        numbers(1);
        want(is_float(n.given.elem) && computes(n.given.elem), "an infinity");
        return sized(n.given);
      case Kind::Iota:
        numbers(1);
        axis(n.n[0], n.given.rank);
        want(is_integer(n.given.elem) &&
                 n.given[static_cast<int>(n.n[0])] <= (tessera::info(n.given.elem).bits == 8 ? 128 : kMaxElements),
             "an iota");
        return sized(n.given);
      case Kind::ScalarArg:
        numbers(1);
        want(!in_function_, "a parameter");
        return Type::scalar(parameter_of(n.n[0], ParamKind::Scalar).elem);
      case Kind::ConstantArg:
        numbers(1);
        want(!in_function_, "a parameter");
        return Type::scalar(parameter_of(n.n[0], ParamKind::Constant).elem);
      case Kind::Dim:
      case Kind::Stride: {
        numbers(2);
        const Type t = tensor(n.n[0], n.kind == Kind::Stride);
        axis(n.n[1], t.rank);
        return n.kind == Kind::Dim ? i32 : Type::scalar(ElementType::i64);
      }
      case Kind::Count: return count(n);
      case Kind::PieceOffsets: numbers(1); return piece(n.n[0], true).with(ElementType::i64);
      case Kind::Block:
      case Kind::Blocks: numbers(0); return i32;
      default:
        numbers(2);
        axis(n.n[1], piece(n.n[0], n.kind == Kind::PieceOrigin).rank);
        return i32;
    }
  }
  Type count(Node& n) {
    want(n.n.size() == 2, "the parts of a node");
    const Type t = tensor(n.n[0], false);
    axis(n.n[1], t.rank);
    want(n.given.rank == t.rank, "the tiles of a count");
    if (n.n[0] < kFirstView && p_.params[static_cast<std::size_t>(n.n[0])].kind == ParamKind::MutTiles) {
      const auto& extents = p_.params[static_cast<std::size_t>(n.n[0])].extents;
      for (int a = 0; a < t.rank; ++a) want(n.given[a] == extents[static_cast<std::size_t>(a)], "the tiles of a count");
    } else {
      sized(n.given);
    }
    return Type::scalar(ElementType::i32);
  }
  Type number(Node& n) {
    const ElementType e = n.given.elem;
    const int bits = tessera::info(e).bits;
    const std::int64_t v = n.n[0];
    if (e == ElementType::boolean) want(v == 0 || v == 1, "a bool is 0 or 1");
    if (is_integer(e) && bits < 64) {
      const std::int64_t low = is_signed(e) ? -(std::int64_t{1} << (bits - 1)) : 0;
      const std::int64_t high = (std::int64_t{1} << (is_signed(e) ? bits - 1 : bits)) - 1;
      want(v >= low && v <= high, "a number that fits");
    }
    if (e == ElementType::u64) want(v >= 0, "a number that fits");
    if (is_float(e)) want(v >= -(1 << 20) && v <= 1 << 20, "a number that fits");
    return sized(n.given);
  }
  Type reduction(Node& n) {
    want(n.kids.size() == 1, "the parts of a node");
    const bool scan = info(n.kind).cls == KindClass::Scan;
    want(n.n.size() == (scan ? 2U : 1U), "the parts of a node");
    const Type t = value(n.kids[0]);
    const bool logical = n.kind == Kind::All || n.kind == Kind::Any;
    want(logical ? t.elem == ElementType::boolean : computes(t.elem), "the operand of a reduction");
    if (!scan && n.n[0] == -1) return Type::scalar(t.elem);
    axis(n.n[0], t.rank);
    return scan ? t : t.with_extent(static_cast<int>(n.n[0]), 1);
  }
  Type other(Node& n) {
    for (Node& kid : n.kids) value(kid);
    const auto parts = [&](std::size_t numbers, std::size_t kids) { shape(n, numbers, kids); };
    switch (n.kind) {
      case Kind::Where: {
        parts(0, 3);
        want(n.kids[0].type.elem == ElementType::boolean && n.kids[1].type.elem == n.kids[2].type.elem, "a choice");
        return joint(joint(n.kids[1].type, n.kids[2].type), n.kids[0].type);
      }
      case Kind::Fma: {
        parts(0, 3);
        const ElementType e = n.kids[0].type.elem;
        want(is_float(e) && computes(e) && n.kids[1].type.elem == e && n.kids[2].type.elem == e, "floats");
        return joint(joint(n.kids[0].type, n.kids[1].type), n.kids[2].type);
      }
      case Kind::Cast: parts(1, 1); return n.kids[0].type.with(n.given.elem);
      case Kind::Bitcast: {
        parts(0, 1);
        const ElementType from = n.kids[0].type.elem, to = n.given.elem;
        for (const ElementType e : {from, to}) {
          want(e != ElementType::boolean && e != ElementType::tf32, "bits in memory");
        }
        want(tessera::info(from).bits == tessera::info(to).bits, "elements of one size");
        return n.kids[0].type.with(to);
      }
      case Kind::Extract: return extract(n);
      case Kind::Mma: return mma(n);
      case Kind::Uniform:
        parts(0, 2);
        want(n.kids[0].type == Type::scalar(ElementType::u64) && n.kids[1].type.elem == ElementType::i64, "a seed");
        want(n.given.elem == ElementType::u32 || n.given.elem == ElementType::u64 ||
                 (is_float(n.given.elem) && computes(n.given.elem)),
             "random numbers of this type");
        return n.kids[1].type.with(n.given.elem);
      default: return reshaped(n);
    }
  }
  Type reshaped(Node& n) {
    want(!n.kids.empty(), "the parts of a node");
    const Type t = n.kids[0].type;
    switch (n.kind) {
      case Kind::Reshape:
        shape(n, 0, 1);
        want(n.given.size() == t.size(), "a reshape keeps the elements");
        return sized(n.given.with(t.elem));
      case Kind::Broadcast:
        shape(n, 0, 1);
        want(joint(t, n.given) == n.given.with(t.elem), "a broadcast repeats");
        return sized(n.given.with(t.elem));
      case Kind::Permute: {
        shape(n, static_cast<std::size_t>(t.rank), 1);
        Type to = t;
        unsigned seen = 0;
        for (int a = 0; a < t.rank; ++a) {
          axis(n.n[static_cast<std::size_t>(a)], t.rank);
          seen |= 1U << n.n[static_cast<std::size_t>(a)];
          to[a] = t[static_cast<int>(n.n[static_cast<std::size_t>(a)])];
        }
        want(t.rank > 0 && seen == (1U << t.rank) - 1, "an order");
        return to;
      }
      case Kind::Cat:
        shape(n, 1, 2);
        axis(n.n[0], t.rank);
        want(n.kids[1].type == t, "tiles of one type");
        return sized(t.with_extent(static_cast<int>(n.n[0]), 2 * t[static_cast<int>(n.n[0])]));
      case Kind::ArgMax:
      case Kind::ArgMin:
        shape(n, 2, 1);
        axis(n.n[0], t.rank);
        want(computes(t.elem), "numbers");
        return t.with_extent(static_cast<int>(n.n[0]), 1).with(n.n[1] == 1 ? ElementType::i32 : t.elem);
      case Kind::Fold:
        shape(n, 2, 1);
        axis(n.n[1], t.rank);
        fold(static_cast<lang::BinaryOp>(n.n[0]), t.elem);
        return t.with_extent(static_cast<int>(n.n[1]), 1);
      default: throw Wrong{"a value"};
    }
  }
  static void fold(lang::BinaryOp op, ElementType e) {
    using lang::BinaryOp;
    want(is_integer(e) && (op == BinaryOp::Add || op == BinaryOp::Mul || op == BinaryOp::Xor || op == BinaryOp::Or),
         "a function of a reduction");
  }
  Type extract(Node& n) {
    want(!n.kids.empty(), "the parts of a node");
    const Type t = n.kids[0].type;
    shape(n, 0, 1 + static_cast<std::size_t>(t.rank));
    want(t.rank > 0 && n.given.rank == t.rank, "a slice");
    for (int a = 0; a < t.rank; ++a) {
      want(power(n.given[a]) && n.given[a] <= t[a], "a slice");
      want(n.kids[static_cast<std::size_t>(a) + 1].type == Type::scalar(ElementType::i32), "an index of a slice");
    }
    return n.given.with(t.elem);
  }
  Type mma(Node& n) {
    shape(n, 0, 3);
    const Type a = n.kids[0].type, b = n.kids[1].type, c = n.kids[2].type;
    want((c.rank == 2 || c.rank == 3) && a.rank == c.rank && b.rank == c.rank, "the ranks of a product");
    const int r = c.rank;
    want(a[r - 1] == b[r - 2] && a[r - 2] == c[r - 2] && b[r - 1] == c[r - 1], "the extents of a product");
    want(r == 2 || (a[0] == b[0] && a[0] == c[0]), "the batch of a product");
    const bool bytes = a.elem == ElementType::i8 || a.elem == ElementType::u8;
    if (bytes) {
      want((b.elem == ElementType::i8 || b.elem == ElementType::u8) && c.elem == ElementType::i32,
           "a product of bytes");
      return c;
    }
    want(is_float(a.elem) && a.elem == b.elem, "the elements of a product");
    want(c.elem == (a.elem == ElementType::f64 ? ElementType::f64 : ElementType::f32), "the elements of a product");
    return c;
  }

  Program& p_;
  std::map<std::int64_t, Type> vars_;
  std::map<std::int64_t, bool> in_tile_loop_;
  bool in_function_ = false;
};

}  // namespace tessera::generate
