// Values of random programs.
#include <algorithm>

#include "generate/generator.hpp"

namespace tessera::generate {

Node Generator::value(const Type& t, int depth) { return t.rank == 0 ? scalar(t.elem, depth) : tile(t, depth); }

Node Generator::number(const Type& t) {
  std::int64_t v = random_.between(-8, 8);
  if (t.elem == ElementType::boolean) {
    v &= 1;
  } else if (is_float(t.elem)) {
    if (random_.chance(4) && computes(t.elem)) return Node{Kind::Infinity, {random_.between(-1, 1)}, {}, t};
  } else {
    const int bits = tessera::info(t.elem).bits;
    if (!is_signed(t.elem)) v = std::abs(v);
    if (random_.chance(6)) {
      const auto most = static_cast<std::int64_t>(~std::uint64_t{0} >> (65 - bits));
      v = random_.chance(50) ? most - random_.below(3) : most / 2 + random_.below(3);
    }
    if (is_signed(t.elem) && bits < 64 && random_.chance(2)) v = -(std::int64_t{1} << (bits - 1));
  }
  return Node{Kind::Number, {v}, {}, t};
}

// ---- indices --------------------------------------------------------------------------------------------------------

/// An i32 that is there already.
Node Generator::leaf_index() {
  const int k = random_.below(10);
  if (k < 5) {
    if (const Variable* v = find(Type::scalar(ElementType::i32), false)) return Node{Kind::Var, {v->id}};
  }
  if (in_function_) return int32(random_.between(-2, 5));
  if (k < 6 && !grids_.empty()) {
    const Grid& g = random_.pick(grids_);
    const int axis = random_.below(g.tile.rank);
    if (random_.chance(30)) return Node{Kind::Dim, {g.tensor, axis}};
    return Node{Kind::Count, {g.tensor, axis}, {}, g.tile};
  }
  if (k < 8) {
    std::vector<Node> known;
    for (std::size_t i = 0; i < p_.params.size(); ++i) {
      const auto number = static_cast<std::int64_t>(i);
      if (p_.params[i].is_tensor()) continue;
      const Kind argument = argument_of(p_.params[i]);
      if (p_.params[i].elem == ElementType::i32) known.push_back(Node{argument, {number}});
      if (is_integer(p_.params[i].elem) && random_.chance(20)) {
        known.push_back(
            Node{Kind::Cast, {random_.below(2)}, {Node{argument, {number}}}, Type::scalar(ElementType::i32)});
      }
    }
    if (!known.empty()) return random_.pick(known);
  }
  if (const auto all = pieces(); k < 9 && !all.empty()) {
    const std::int64_t piece = random_.pick(all);
    const int axis = random_.below(piece_type(p_, piece).rank);
    return Node{random_.pick({Kind::PieceIndex, Kind::PieceIndex, Kind::PieceOrigin, Kind::PieceDim, Kind::PieceCount}),
                {piece, axis}};
  }
  if (random_.chance(15)) return Node{random_.pick({Kind::Block, Kind::Blocks})};
  return int32(random_.chance(90) ? random_.between(-2, 6)
                                  : random_.pick({INT32_MAX, INT32_MIN, 65536, 1 << 30, -100, 1000}));
}

Node Generator::index(int depth) {
  if (depth <= 0 || random_.chance(25)) return leaf_index();
  const int k = random_.below(20);
  if (k < 12) {
    const Kind op = random_.pick({Kind::Add, Kind::Add, Kind::Sub});
    return Node{op, {}, {index(depth - 1), random_.chance(55) ? int32(random_.between(1, 3)) : leaf_index()}};
  }
  if (k < 14)
    return Node{Kind::Mul, {}, {index(depth - 1), random_.chance(80) ? int32(random_.between(-2, 4)) : leaf_index()}};
  if (k == 14)
    return Node{random_.pick({Kind::Div, Kind::Rem, Kind::CeilDiv}),
                {},
                {index(depth - 1), random_.chance(70) ? int32(random_.between(1, 5)) : leaf_index()}};
  if (k == 15) return Node{random_.pick({Kind::Min, Kind::Max}), {}, {index(depth - 1), leaf_index()}};
  if (k == 16)
    return Node{random_.pick({Kind::And, Kind::Or, Kind::Xor, Kind::Shl, Kind::Shr}),
                {},
                {index(depth - 1), int32(random_.between(0, 7))}};
  if (k == 17) return Node{Kind::Where, {}, {condition(0), index(depth - 1), leaf_index()}};
  if (k == 18) return scalar(ElementType::i32, 1);
  const ElementType e =
      random_.pick({ElementType::i64, ElementType::u32, ElementType::i16, ElementType::u8, ElementType::u64});
  Node wide = Node{Kind::Cast, {0}, {index(depth - 1)}, Type::scalar(e)};
  if (random_.chance(50)) wide = Node{Kind::Add, {}, {std::move(wide), number(Type::scalar(e))}};
  return Node{Kind::Cast, {random_.below(2)}, {std::move(wide)}, Type::scalar(ElementType::i32)};
}

Node Generator::small_index(int extent) {
  if (const Variable* v = find(Type::scalar(ElementType::i32), false); v != nullptr && random_.chance(65)) {
    Node var = Node{Kind::Var, {v->id}};
    if (random_.chance(40)) var = Node{Kind::Add, {}, {std::move(var), int32(random_.between(-1, 1))}};
    return random_.chance(40) ? Node{Kind::And, {}, {std::move(var), int32(extent - 1)}} : std::move(var);
  }
  return int32(random_.between(0, extent));
}

Node Generator::position_tile(const Type& shape) {
  using enum ElementType;
  const ElementType e =
      random_.chance(70) || shape.size() > 128 ? ElementType::i32 : random_.pick({i64, u32, i16, u8, i8, u64});
  const Type t = shape.with(e);
  if (t.rank == 0) return e == ElementType::i32 ? index(1) : Node{Kind::Cast, {0}, {index(1)}, Type::scalar(e)};
  if (random_.chance(25)) return value(t, 1);
  Node n = Node{Kind::Iota, {random_.below(t.rank)}, {}, t};
  if (random_.chance(30))
    n = Node{Kind::Mul, {}, {std::move(n), Node{Kind::Number, {random_.between(1, 3)}, {}, Type::scalar(e)}}};
  if (random_.chance(60)) {
    Node offset = e == ElementType::i32 ? index(1) : Node{Kind::Cast, {0}, {index(1)}, Type::scalar(e)};
    n = Node{random_.pick({Kind::Add, Kind::Add, Kind::Xor, Kind::Sub}), {}, {std::move(n), std::move(offset)}};
  }
  if (random_.chance(20)) n = Node{Kind::Shr, {}, {std::move(n), Node{Kind::Number, {1}, {}, Type::scalar(e)}}};
  return n;
}

/// Often what a guard of an access looks like: lo <= v && v < count.
Node Generator::condition(int depth) {
  const Type flag = Type::scalar(ElementType::boolean);
  const int k = random_.below(10);
  if (const Variable* v = find(flag, false); v != nullptr && k == 0) return Node{Kind::Var, {v->id}};
  const Kind below = random_.pick({Kind::Less, Kind::Less, Kind::LessEqual});
  if (k < 4 && !grids_.empty() && !in_function_) {
    const Grid& g = random_.pick(grids_);
    const int axis = random_.below(g.tile.rank);
    const Node v = leaf_index();
    latest_ = Guard{v, g, axis};
    Node hi = random_.chance(75) ? Node{Kind::Count, {g.tensor, axis}, {}, g.tile} : leaf_index();
    Node upper = Node{below, {}, {v, std::move(hi)}};
    if (random_.chance(25)) return upper;
    Node lower = Node{
        random_.pick({Kind::GreaterEqual, Kind::GreaterEqual, Kind::Greater}), {}, {v, int32(random_.between(-1, 2))}};
    return Node{Kind::And, {}, {std::move(lower), std::move(upper)}};
  }
  if (k < 8 || depth <= 0) {
    const Kind op =
        random_.pick({Kind::Less, Kind::LessEqual, Kind::Greater, Kind::GreaterEqual, Kind::Equal, Kind::NotEqual});
    return Node{op, {}, {leaf_index(), random_.chance(60) ? int32(random_.between(-1, 4)) : index(1)}};
  }
  if (k == 8)
    return Node{random_.pick({Kind::And, Kind::Or, Kind::Xor}), {}, {condition(depth - 1), condition(depth - 1)}};
  if (random_.chance(30)) return Node{Kind::Not, {}, {condition(depth - 1)}};
  return scalar(ElementType::boolean, 1);
}

// ---- scalars and tiles ----------------------------------------------------------------------------------------------

Node Generator::scalar(ElementType e, int depth) {
  const Type t = Type::scalar(e);
  if (const Variable* v = find(t, false); v != nullptr && random_.chance(depth <= 0 ? 80 : 40))
    return Node{Kind::Var, {v->id}};
  if (!spend() || depth <= 0) return number(t);
  const int k = random_.below(12);
  if (k < 2 && !in_function_) {
    for (std::size_t i = 0; i < p_.params.size(); ++i) {
      if (!p_.params[i].is_tensor() && p_.params[i].elem == e)
        return Node{argument_of(p_.params[i]), {static_cast<std::int64_t>(i)}};
    }
  }
  if (k < 5) return operation(t, depth);
  if (k < 7 && !grids_.empty() && !in_function_) return reduced(t, depth);
  if (k < 9) return cast_from(t, depth);
  if (e == ElementType::i32) return index(1);
  if (e == ElementType::boolean) return compare(t, depth);
  return number(t);
}

Node Generator::tile(const Type& t, int depth) {
  if (const Variable* v = find(t, false); v != nullptr && random_.chance(depth <= 0 ? 80 : 40))
    return Node{Kind::Var, {v->id}};
  if (!spend() || depth <= 0) {
    const bool countable = is_integer(t.elem) && (tessera::info(t.elem).bits > 8 || t.size() <= 128);
    if (countable && random_.chance(40)) return Node{Kind::Iota, {random_.below(t.rank)}, {}, t};
    return number(t);
  }
  const int k = random_.below(100);
  Node loaded;
  if (k < 38 && load(t, loaded)) return loaded;
  if (k < 66) return operation(t, depth);
  if (k < 76) return cast_from(t, depth);
  if (k < 88) return reshaped(t, depth);
  if (k < 94) return reduced(t, depth);
  if (k < 97) return product(t, depth);
  if (t.elem == ElementType::f32 || t.elem == ElementType::u32 || t.elem == ElementType::f64) {
    const Type offsets = t.with(ElementType::i64);
    Node seed = scalar(ElementType::u64, 1);
    return Node{Kind::Uniform, {}, {std::move(seed), value(offsets, 1)}, Type::scalar(t.elem)};
  }
  return number(t);
}

Node Generator::compare(const Type& t, int depth) {
  const ElementType e =
      random_.pick({ElementType::i32, ElementType::i32, ElementType::f32, ElementType::u8, ElementType::i64});
  const Kind op =
      random_.pick({Kind::Less, Kind::LessEqual, Kind::Greater, Kind::GreaterEqual, Kind::Equal, Kind::NotEqual});
  Node right = random_.chance(40) ? number(Type::scalar(e)) : value(t.with(e), depth - 1);
  return Node{op, {}, {value(t.with(e), depth - 1), std::move(right)}};
}

/// An operation of two or three operands of the type, one of which may be a scalar or have axes of extent 1.
Node Generator::operation(const Type& t, int depth) {
  if (t.elem == ElementType::boolean) {
    if (random_.chance(55)) return compare(t, depth);
    if (random_.chance(25)) return Node{Kind::Not, {}, {value(t, depth - 1)}};
    return Node{random_.pick({Kind::And, Kind::Or, Kind::Xor}), {}, {value(t, depth - 1), value(t, depth - 1)}};
  }
  Type narrow = t;
  for (int a = 0; a < t.rank; ++a) {
    if (random_.chance(12)) narrow[a] = 1;
  }
  const Type other = random_.chance(30) ? Type::scalar(t.elem) : narrow;
  if (random_.chance(14))
    return Node{
        Kind::Where,
        {},
        {value(random_.chance(50) ? t.with(ElementType::boolean) : Type::scalar(ElementType::boolean), depth - 1),
         value(t, depth - 1), value(other, depth - 1)}};
  if (!computes(t.elem)) return value(t, depth - 1);
  if (random_.chance(12)) {
    if (!is_float(t.elem)) return Node{random_.pick({Kind::Neg, Kind::Abs, Kind::BitNot}), {}, {value(t, depth - 1)}};
    return Node{random_.pick({Kind::Neg, Kind::Abs, Kind::Floor, Kind::Ceil, Kind::Sqrt}), {}, {value(t, depth - 1)}};
  }
  if (is_float(t.elem)) {
    if (random_.chance(6) && t.elem != ElementType::bf16)
      return Node{Kind::Fma, {}, {value(t, depth - 1), value(other, depth - 1), value(t, depth - 1)}};
    const Kind op =
        random_.pick({Kind::Add, Kind::Add, Kind::Sub, Kind::Mul, Kind::Min, Kind::Max, Kind::Div, Kind::Rem});
    return Node{op, {}, {value(t, depth - 1), value(other, depth - 1)}};
  }
  const Kind op = random_.pick({Kind::Add, Kind::Add, Kind::Sub, Kind::Mul, Kind::Div, Kind::Rem, Kind::CeilDiv,
                                Kind::Min, Kind::Max, Kind::And, Kind::Or, Kind::Xor, Kind::Shl, Kind::Shr});
  Node a = value(t, depth - 1), b = value(other, depth - 1);
  if (random_.chance(20)) std::swap(a, b);
  return Node{op, {}, {std::move(a), std::move(b)}};
}

Node Generator::cast_from(const Type& t, int depth) {
  ElementType from = random_.chance(50) ? ElementType::i32 : element();
  if (from == t.elem) from = from == ElementType::i32 ? ElementType::i16 : ElementType::i32;
  const bool bits = tessera::info(from).bits == tessera::info(t.elem).bits && from != ElementType::boolean &&
                    t.elem != ElementType::boolean;
  // The bits of a NaN are not defined: none is looked at.
  if (bits && random_.chance(35) && !is_float(from))
    return Node{Kind::Bitcast, {}, {value(t.with(from), depth - 1)}, Type::scalar(t.elem)};
  return Node{Kind::Cast, {random_.chance(20) ? 1 : 0}, {value(t.with(from), depth - 1)}, Type::scalar(t.elem)};
}

Node Generator::reshaped(const Type& t, int depth) {
  const int axis = random_.below(t.rank);
  Type from = t;
  switch (random_.below(5)) {
    case 0: {  // a reshape between one and two axes
      from = Type::of(t.elem, {t.size()});
      if (t.rank == 1 && t.size() > 1) from = Type::of(t.elem, {2, t.size() / 2});
      return Node{Kind::Reshape, {}, {value(from, depth - 1)}, t};
    }
    case 1:
      if (random_.chance(30)) return Node{Kind::Broadcast, {}, {scalar(t.elem, depth - 1)}, t};
      from[axis] = 1;
      return Node{Kind::Broadcast, {}, {value(from, depth - 1)}, t};
    case 2: {
      if (t.rank < 2) break;
      std::vector<std::int64_t> order;
      for (int a = 0; a < t.rank; ++a) order.push_back(a);
      std::swap(order[0], order[static_cast<std::size_t>(t.rank - 1)]);
      for (int a = 0; a < t.rank; ++a) from[static_cast<int>(order[static_cast<std::size_t>(a)])] = t[a];
      return Node{Kind::Permute, std::move(order), {value(from, depth - 1)}};
    }
    case 3:
      if (t[axis] == 1) break;
      from[axis] /= 2;
      return Node{Kind::Cat, {axis}, {value(from, depth - 1), value(from, depth - 1)}};
    default: {
      if (t.size() > 64) break;
      from[axis] *= 2;
      std::vector<Node> kids{value(from, depth - 1)};
      for (int a = 0; a < t.rank; ++a) kids.push_back(small_index(from[a] / t[a]));
      return Node{Kind::Extract, {}, std::move(kids), t};
    }
  }
  return operation(t, depth);
}

Node Generator::bounded(Node v, ElementType e, int most) {
  const auto n = [&](int k) { return Node{Kind::Number, {4 * k}, {}, Type::scalar(e)}; };
  Node low = Node{Kind::Max, {}, {std::move(v), n(-most)}};
  return Node{Kind::Floor, {}, {Node{Kind::Min, {}, {std::move(low), n(most)}}}};
}

/// Sums and products of floats are of whole numbers that are added exactly in any order.
Node Generator::reduced(const Type& t, int depth) {
  Type from = t;
  int axis = 0;
  if (t.rank == 0) {
    from = random_.pick(grids_).tile.with(t.elem);
    axis = -1;
  } else {
    axis = random_.below(t.rank);
    if (random_.chance(60)) from[axis] = 1 << random_.below(5);
  }
  if (from.size() > 512) from = t.rank == 0 ? Type::of(t.elem, {8}) : t;
  if (t.elem == ElementType::boolean) {
    Node n = Node{random_.pick({Kind::Any, Kind::All}), {axis}, {value(from, depth - 1)}};
    if (t.rank == 0 || t[axis] == 1) return n;
    return Node{Kind::Broadcast, {}, {std::move(n)}, t};
  }
  if (!computes(t.elem)) return number(t);
  Node x = value(from, depth - 1);
  const int k = random_.below(10);
  if (t.rank > 0 && from == t && k < 3) {  // a scan
    const bool sum = random_.chance(60);
    if (is_float(t.elem))
      x = bounded(std::move(x), t.elem, sum ? (t.elem == ElementType::bf16 && from.size() > 64 ? 0 : 2) : 1);
    return Node{sum ? Kind::CumSum : Kind::CumProd, {axis, random_.below(2)}, {std::move(x)}};
  }
  Node n;
  if (t.rank > 0 && k == 3) {
    const ElementType by = random_.pick({ElementType::i32, ElementType::f32, ElementType::u8});
    Node values = t.elem == ElementType::i32 ? value(from.with(by), depth - 1) : std::move(x);
    n = Node{
        random_.pick({Kind::ArgMax, Kind::ArgMin}), {axis, t.elem == ElementType::i32 ? 1 : 0}, {std::move(values)}};
  } else if (t.rank > 0 && k == 4 && is_integer(t.elem)) {
    using lang::BinaryOp;
    n = Node{
        Kind::Fold,
        {static_cast<std::int64_t>(random_.pick({BinaryOp::Add, BinaryOp::Mul, BinaryOp::Xor, BinaryOp::Or})), axis},
        {std::move(x)}};
  } else {
    const Kind op = random_.pick({Kind::Sum, Kind::Sum, Kind::Prod, Kind::MaxOf, Kind::MinOf});
    const bool exact = op == Kind::MaxOf || op == Kind::MinOf || !is_float(t.elem);
    if (!exact) x = bounded(std::move(x), t.elem, op == Kind::Sum ? (from.size() > 128 ? 1 : 2) : 1);
    if (!exact && op == Kind::Sum && tessera::info(t.elem).bits == 16 && from.size() > 64) return number(t);
    n = Node{op, {axis}, {std::move(x)}};
  }
  if (t.rank == 0 || t[axis] == 1) return n;
  return Node{Kind::Broadcast, {}, {std::move(n)}, t};
}

Node Generator::product(const Type& t, int depth) {
  using enum ElementType;
  const bool integers = t.elem == ElementType::i32;
  if (t.rank < 2 || t.size() > 256 || !(integers || t.elem == f32 || t.elem == f64)) return operation(t, depth);
  const ElementType e = integers ? random_.pick({i8, u8}) : t.elem == f64 ? f64 : random_.pick({f32, f16, bf16});
  const int depth_extent = 1 << random_.below(5), r = t.rank;
  Type a = t.with(e), b = a;
  a[r - 1] = depth_extent;
  b[r - 2] = depth_extent;
  const auto operand = [&](const Type& of) {
    Node n = value(of, depth - 1);
    return integers ? n : bounded(std::move(n), e, 2);
  };
  Node x = operand(a), y = operand(b), c = value(t, depth - 1);
  if (!integers) c = bounded(std::move(c), t.elem, 8);
  if (!integers && t.elem == f32 && e == f32 && random_.chance(20)) {
    x = Node{Kind::Cast, {0}, {std::move(x)}, Type::scalar(tf32)};
    y = Node{Kind::Cast, {0}, {std::move(y)}, Type::scalar(tf32)};
  }
  return Node{Kind::Mma, {}, {std::move(x), std::move(y), std::move(c)}};
}

// ---- loads ----------------------------------------------------------------------------------------------------------

/// Fills in the padding's number and the operand after it, if the load's last number is a padding.
void Generator::pad(Node& n, ElementType e) {
  const std::size_t at = n.kind == Kind::LoadLike || n.kind == Kind::Gather || n.kind == Kind::PieceGather ? 2 : 1;
  n.n[at] = 0;
  if (random_.chance(55)) return;
  if (is_float(e) && computes(e) && random_.chance(40)) {
    n.n[at] = random_.between(1, 3);
    return;
  }
  n.n[at] = static_cast<std::int64_t>(lang::PadKind::Value);
  n.kids.push_back(random_.chance(70) ? number(Type::scalar(e)) : scalar(e, 1));
  if (n.kids.back().kind == Kind::Infinity) n.kids.back() = Node{Kind::Number, {4}, {}, Type::scalar(e)};
}

/// A load that gives exactly this type, if there is one.
bool Generator::load(const Type& t, Node& out) {
  if (in_function_) return false;
  std::vector<Node> found;
  for (const Grid& g : grids_) {
    if (g.tile == t) found.push_back(load_grid(g));
  }
  for (const std::int64_t piece : pieces()) {
    const Type whole = piece_type(p_, piece);
    if (whole == t) {
      Node n = Node{Kind::LoadPiece, {piece, 0}};
      pad(n, t.elem);
      found.push_back(std::move(n));
    }
    bool part = whole.elem == t.elem && whole.rank == t.rank;
    for (int a = 0; part && a < t.rank; ++a) part = t[a] <= whole[a];
    if (part && random_.chance(60)) {
      Node n = Node{Kind::LoadSub, {piece, 0}, {}, t};
      for (int a = 0; a < t.rank; ++a) n.kids.push_back(random_.chance(60) ? small_index(whole[a] / t[a]) : index());
      pad(n, t.elem);
      found.push_back(std::move(n));
    }
    for (std::int64_t x = 0; x < static_cast<std::int64_t>(p_.params.size()); ++x) {
      const Param& param = p_.params[static_cast<std::size_t>(x)];
      if (param.kind != ParamKind::In || param.elem != t.elem || whole.rank != t.rank) continue;
      Node n = Node{Kind::LoadLike, {x, piece, 0, random_.chance(25) ? 1 : 0}};
      std::vector<int> axes;
      for (int a = 0; a < t.rank; ++a) {
        if (t[a] == whole[a] && (t[a] > 1 || static_cast<int>(axes.size()) < param.rank())) axes.push_back(a);
        if (t[a] != whole[a] && t[a] != 1) axes.clear();
      }
      if (static_cast<int>(axes.size()) != param.rank()) continue;
      if (random_.chance(15)) std::swap(axes.front(), axes.back());
      Type made = whole.with(t.elem);
      for (int a = 0; a < whole.rank; ++a) {
        if (std::find(axes.begin(), axes.end(), a) == axes.end()) made[a] = 1;
      }
      if (made != t) continue;
      for (const int a : axes) n.n.push_back(a);
      pad(n, t.elem);
      found.push_back(std::move(n));
      found.push_back(found.back());
    }
  }
  for (std::int64_t x = 0; x < static_cast<std::int64_t>(p_.params.size()); ++x) {
    const Param& param = p_.params[static_cast<std::size_t>(x)];
    if (param.kind != ParamKind::In || param.elem != t.elem) continue;
    if (param.rank() == t.rank && random_.chance(35)) {
      Node n = Node{Kind::LoadAt, {x, 0}, {}, t};
      for (int a = 0; a < t.rank; ++a) n.kids.push_back(index());
      pad(n, t.elem);
      found.push_back(std::move(n));
    }
    if (random_.chance(25)) found.push_back(gather(x, t));
  }
  if (found.empty()) return false;
  out = random_.pick(found);
  return true;
}

Node Generator::near_guard() {
  const Node from = random_.chance(45) || guards_.empty() ? leaf_index() : guards_.back().v;
  if (random_.chance(20)) return from;
  const Kind op = random_.pick({Kind::Add, Kind::Add, Kind::Add, Kind::Sub});
  Node by = random_.chance(50) ? int32(random_.between(1, 2)) : leaf_index();
  return Node{op, {}, {from, std::move(by)}};
}

Node Generator::load_grid(const Grid& g) {
  Node n = Node{random_.chance(85) ? Kind::LoadTile : Kind::LoadAt, {g.tensor, 0}, {}, g.tile};
  for (int a = 0; a < g.tile.rank; ++a) {
    const bool near = !guards_.empty() && random_.chance(65);
    n.kids.push_back(near ? near_guard() : index());
  }
  pad(n, g.tile.elem);
  return n;
}

Node Generator::gather(std::int64_t tensor, const Type& t) {
  const Type from = tensor_type(p_, tensor);
  for (int axis = 0; axis < from.rank && from.rank == t.rank; ++axis) {
    bool slices = true;
    for (int a = 0; a < t.rank; ++a) slices = slices && (a == axis || from[a] == t[a]);
    if (!slices || random_.chance(30)) continue;
    Node n = Node{Kind::Gather, {tensor, axis, 0}, {position_tile(Type::of(ElementType::i32, {t[axis]}))}};
    pad(n, t.elem);
    return n;
  }
  Node n = Node{Kind::GatherElements, {tensor}};
  n.kids.push_back(position_tile(t));
  for (int a = 1; a < from.rank; ++a) n.kids.push_back(random_.chance(60) ? position_tile(t) : index(1));
  return n;
}

}  // namespace tessera::generate
