// Values of the reference interpreter.
#include <algorithm>
#include <cmath>

#include "generate/reference_state.hpp"
#include "tessera/base/philox.hpp"

namespace tessera::generate {
namespace {

using Cells = std::vector<Cell>;

Value scalar_of(ElementType e, std::int64_t v) {
  return {Type::scalar(e), {integer(wrapped(e, static_cast<std::uint64_t>(v)))}};
}
Value i32(std::int64_t v) { return scalar_of(ElementType::i32, v); }

/// f(k) for every element of a tile of type `t`.
template <class F>
Value each(const Type& t, F f) {
  Value v{t, Cells(static_cast<std::size_t>(t.size()))};
  for (int k = 0; k < t.size(); ++k) v.cells[static_cast<std::size_t>(k)] = f(k);
  return v;
}
Cell at(const Value& v, const Type& to, int k) {
  if (v.type.rank == 0) return v.cells[0];
  if (v.cells.size() == static_cast<std::size_t>(to.size())) return v.cells[static_cast<std::size_t>(k)];
  return v.cells[static_cast<std::size_t>(source(v.type, to, k))];
}
int linear(const Type& t, const Position& at) {
  std::int64_t n = 0;
  for (std::size_t a = 0; a < static_cast<std::size_t>(t.rank); ++a) n = n * t.extents[a] + at[a];
  return static_cast<int>(n);
}

Cell uniform(ElementType e, std::uint64_t seed, std::uint64_t offset) {
  switch (e) {
    case ElementType::f64: return real(tessera::uniform_at<double>(seed, offset));
    case ElementType::f32: return real(static_cast<double>(tessera::uniform_at<float>(seed, offset)));
    case ElementType::u32: return integer(tessera::uniform_at<std::uint32_t>(seed, offset));
    default: throw std::logic_error("no random numbers");
  }
}

}  // namespace

Value Interpreter::value(const Node& n) {
  step(1 + n.type.size() / 4);
  switch (info(n.kind).cls) {
    case KindClass::Leaf: return leaf(n);
    case KindClass::Load: return load(n);
    case KindClass::Unary: {
      const Value x = value(n.kids[0]);
      return each(n.type, [&](int k) { return unary(n.kind, n.type.elem, x.cells[static_cast<std::size_t>(k)]); });
    }
    case KindClass::Binary: {
      const Value x = value(n.kids[0]), y = value(n.kids[1]);
      const auto op = static_cast<lang::BinaryOp>(info(n.kind).op);
      return each(n.type, [&](int k) { return binary(op, n.type.elem, at(x, n.type, k), at(y, n.type, k)); });
    }
    case KindClass::Compare: {
      const Value x = value(n.kids[0]), y = value(n.kids[1]);
      const auto op = static_cast<lang::CompareOp>(info(n.kind).op);
      return each(n.type,
                  [&](int k) { return integer(compare(op, x.type.elem, at(x, n.type, k), at(y, n.type, k)) ? 1 : 0); });
    }
    case KindClass::Reduce:
    case KindClass::Scan: return reduce(n);
    case KindClass::Other: return shaped(n);
    case KindClass::Statement: break;
  }
  throw std::logic_error("no value");
}

Tensor Interpreter::tensor(std::int64_t number) const {
  if (number < kFirstView) return tensors_[static_cast<std::size_t>(number)];
  const View& v = p_.views[static_cast<std::size_t>(number - kFirstView)];
  const Tensor& from = tensors_[static_cast<std::size_t>(v.param)];
  Tensor t = from;
  for (std::size_t a = 0; a < v.order.size(); ++a) {
    t.dims[a] = from.dims[static_cast<std::size_t>(v.order[a])];
    t.strides[a] = from.strides[static_cast<std::size_t>(v.order[a])];
  }
  return t;
}

/// Of a part: in the grid of its own extents. The parts of all pieces lie one after the other, largest first.
Position Interpreter::piece_index(std::int64_t piece) const {
  const auto number = static_cast<std::size_t>(param_of(piece));
  const Param& param = p_.params[number];
  Position at = index_[number];
  const int axis = part_axis(param);
  if (axis < 0 || part_of(piece) == kWhole) return at;
  const auto a = static_cast<std::size_t>(axis);
  const std::int64_t pieces = (tensors_[number].dims[a] + param.extents[a] - 1) / param.extents[a];
  const std::vector<int> parts = parts_of(param.extents[a]);
  std::int64_t before = 0;
  for (int k = 0; k < part_of(piece); ++k) before += parts[static_cast<std::size_t>(k)];
  at[a] += pieces * before / parts[static_cast<std::size_t>(part_of(piece))];
  return at;
}
std::int64_t Interpreter::piece_count(std::int64_t piece, int axis) const {
  const std::int64_t extent = piece_type(p_, piece)[axis];
  return (tensors_[static_cast<std::size_t>(param_of(piece))].dims[static_cast<std::size_t>(axis)] + extent - 1) /
         extent;
}

Value Interpreter::leaf(const Node& n) {
  const auto axis = [&] { return static_cast<std::size_t>(n.n[1]); };
  switch (n.kind) {
    case Kind::Var: return variable(n.n[0]);
    case Kind::Number: return each(n.given, [&](int) { return literal(n.given.elem, n.n[0]); });
    case Kind::Infinity: {
      const double v = n.n[0] == 0 ? std::nan("") : n.n[0] > 0 ? INFINITY : -INFINITY;
      return each(n.given, [&](int) { return real(v); });
    }
    case Kind::Iota:
      return each(n.given, [&](int k) { return integer(place(n.given, k)[static_cast<std::size_t>(n.n[0])]); });
    case Kind::ScalarArg:
    case Kind::ConstantArg: {
      const auto number = static_cast<std::size_t>(n.n[0]);
      return {n.type, {literal(n.type.elem, numbers_[number])}};
    }
    case Kind::Dim: return i32(tensor(n.n[0]).dims[axis()]);
    case Kind::Stride: return scalar_of(ElementType::i64, tensor(n.n[0]).strides[axis()]);
    case Kind::Count: {
      const std::int64_t extent = n.given.extents[axis()];
      return i32((tensor(n.n[0]).dims[axis()] + extent - 1) / extent);
    }
    case Kind::PieceIndex: return i32(piece_index(n.n[0])[axis()]);
    case Kind::PieceOrigin: return i32(piece_index(n.n[0])[axis()] * piece_type(p_, n.n[0]).extents[axis()]);
    case Kind::PieceDim: return i32(tensors_[static_cast<std::size_t>(param_of(n.n[0]))].dims[axis()]);
    case Kind::PieceCount: return i32(piece_count(n.n[0], static_cast<int>(n.n[1])));
    case Kind::PieceOffsets: {
      const Position index = piece_index(n.n[0]);
      const Tensor& t = tensors_[static_cast<std::size_t>(param_of(n.n[0]))];
      return each(n.type, [&](int k) {
        const Position in = place(n.type, k);
        std::int64_t offset = 0;
        for (std::size_t a = 0; a < static_cast<std::size_t>(t.rank); ++a) {
          offset = offset * t.dims[a] + index[a] * n.type.extents[a] + in[a];
        }
        return integer(offset);
      });
    }
    case Kind::Block: return i32(block_);
    case Kind::Blocks: return i32(blocks_);
    default: throw std::logic_error("no leaf");
  }
}

Cell Interpreter::padding(const Node& n, std::int64_t pad, ElementType e) {
  switch (static_cast<lang::PadKind>(pad)) {
    case lang::PadKind::Zero: break;
    case lang::PadKind::NegInf: return real(-INFINITY);
    case lang::PadKind::PosInf: return real(INFINITY);
    case lang::PadKind::NaN: return real(std::nan(""));
    case lang::PadKind::Value: return value(n.kids.back()).cells[0];
  }
  return is_float(e) ? real(0) : integer(0);
}

Value Interpreter::region(const Tensor& t, const Type& tile, const Position& start, Cell pad) {
  step(tile.size());
  return each(tile, [&](int k) {
    Position at = place(tile, k);
    for (std::size_t a = 0; a < static_cast<std::size_t>(t.rank); ++a) at[a] += start[a];
    return t.inside(at) ? generate::load(t.elem, t.address(at)) : pad;
  });
}

Value Interpreter::load(const Node& n) {
  switch (n.kind) {
    case Kind::LoadPiece: {
      Position start = piece_index(n.n[0]);
      for (std::size_t a = 0; a < start.size(); ++a) start[a] *= n.type.extents[a];
      return region(tensors_[static_cast<std::size_t>(param_of(n.n[0]))], n.type, start,
                    padding(n, n.n[1], n.type.elem));
    }
    case Kind::LoadLike: return load_like(n);
    case Kind::LoadTile:
    case Kind::LoadAt:
    case Kind::LoadSub: return load_tile(n);
    case Kind::Gather:
    case Kind::PieceGather: return gather(n);
    default: return gather_elements(n);
  }
}

Value Interpreter::load_tile(const Node& n) {
  const auto rank = static_cast<std::size_t>(n.type.rank);
  const bool sub = n.kind == Kind::LoadSub;
  const Tensor t = sub ? tensors_[static_cast<std::size_t>(param_of(n.n[0]))] : tensor(n.n[0]);
  const Cell pad = padding(n, n.n[1], t.elem);
  Position start{};
  bool inside = true;
  for (std::size_t a = 0; a < rank; ++a) {
    std::int64_t i = scalar(n.kids[a]);
    if (n.kind == Kind::LoadAt) {
      start[a] = wrapped(ElementType::i32, static_cast<std::uint64_t>(i));
      continue;
    }
    if (sub) {
      const std::int64_t per_piece = piece_type(p_, n.n[0]).extents[a] / n.type.extents[a];
      inside = inside && i >= 0 && i < per_piece;
      i += piece_index(n.n[0])[a] * per_piece;
    }
    start[a] = i * n.type.extents[a];
    inside = inside && start[a] >= 0 && start[a] < t.dims[a];
  }
  if (!inside) return each(n.type, [&](int) { return pad; });
  return region(t, n.type, start, pad);
}

/// Unless it is partial, an axis of one element is repeated where the piece's tensor is longer.
Value Interpreter::load_like(const Node& n) {
  const bool partial = static_cast<lang::Regions>(n.n[3]) == lang::Regions::Partial;
  const Tensor x = tensor(n.n[0]), y = tensors_[static_cast<std::size_t>(param_of(n.n[1]))];
  const Type piece = piece_type(p_, n.n[1]);
  const Position index = piece_index(n.n[1]);
  const Cell pad = padding(n, n.n[2], x.elem);
  step(n.type.size());
  return each(n.type, [&](int k) {
    const Position in = place(n.type, k);
    Position at{};
    for (std::size_t a = 0; a < static_cast<std::size_t>(x.rank); ++a) {
      const auto of = static_cast<std::size_t>(n.n[4 + a]);
      const bool repeats = !partial && x.dims[a] == 1 && y.dims[of] > 1;
      at[a] = repeats ? 0 : index[of] * piece.extents[of] + in[of];
    }
    return x.inside(at) ? generate::load(x.elem, x.address(at)) : pad;
  });
}

Value Interpreter::gather(const Node& n) {
  const bool of_piece = n.kind == Kind::PieceGather;
  const Tensor t = of_piece ? tensors_[static_cast<std::size_t>(param_of(n.n[0]))] : tensor(n.n[0]);
  const auto axis = static_cast<std::size_t>(n.n[1]);
  const Value index = value(n.kids[0]);
  const Cell pad = padding(n, n.n[2], t.elem);
  const Type piece = of_piece ? piece_type(p_, n.n[0]) : Type{};
  const Position piece_at = of_piece ? piece_index(n.n[0]) : Position{};
  step(n.type.size());
  return each(n.type, [&](int k) {
    Position at = place(n.type, k);
    const std::int64_t i = index.cells[static_cast<std::size_t>(at[axis])].i;
    if (of_piece && (i < 0 || i >= piece.extents[axis])) return pad;
    at[axis] = i;
    for (std::size_t a = 0; of_piece && a < static_cast<std::size_t>(t.rank); ++a)
      at[a] += piece_at[a] * piece.extents[a];
    return t.inside(at) ? generate::load(t.elem, t.address(at)) : pad;
  });
}

Value Interpreter::gather_elements(const Node& n) {
  const bool of_piece = n.kind == Kind::PieceGatherElements;
  const Tensor t = of_piece ? tensors_[static_cast<std::size_t>(param_of(n.n[0]))] : tensor(n.n[0]);
  const Type piece = of_piece ? piece_type(p_, n.n[0]) : Type{};
  const Position piece_at = of_piece ? piece_index(n.n[0]) : Position{};
  std::vector<Value> index;
  for (const Node& kid : n.kids) index.push_back(value(kid));
  const Cell zero = is_float(t.elem) ? real(0) : integer(0);
  return each(n.type, [&](int k) {
    Position where{};
    for (std::size_t a = 0; a < static_cast<std::size_t>(t.rank); ++a) {
      const std::int64_t i = at(index[a], n.type, k).i;
      if (of_piece && (i < 0 || i >= piece.extents[a])) return zero;
      where[a] = of_piece ? i + piece_at[a] * piece.extents[a] : i;
    }
    return t.inside(where) ? generate::load(t.elem, t.address(where)) : zero;
  });
}

Value Interpreter::shaped(const Node& n) {
  if (n.kind == Kind::Mma) return product(n);
  if (n.kind == Kind::ArgMax || n.kind == Kind::ArgMin) return extremum(n);
  if (n.kind == Kind::Fold) return reduce(n);
  std::vector<Value> v;
  for (const Node& kid : n.kids) v.push_back(value(kid));
  const Type from = v[0].type, t = n.type;
  const auto cell = [&](std::size_t o, int k) { return at(v[o], t, k); };
  switch (n.kind) {
    case Kind::Where: return each(t, [&](int k) { return cell(0, k).i != 0 ? cell(1, k) : cell(2, k); });
    case Kind::Fma: return each(t, [&](int k) { return fma(t.elem, cell(0, k), cell(1, k), cell(2, k)); });
    case Kind::Cast: return each(t, [&](int k) { return convert(cell(0, k), from.elem, t.elem, n.n[0] != 0); });
    case Kind::Bitcast: return each(t, [&](int k) { return bitcast(cell(0, k), from.elem, t.elem); });
    case Kind::Reshape: v[0].type = t; return v[0];
    case Kind::Broadcast: return each(t, [&](int k) { return cell(0, k); });
    case Kind::Permute:
      return each(t, [&](int k) {
        const Position to = place(t, k);
        Position at{};
        for (std::size_t a = 0; a < static_cast<std::size_t>(t.rank); ++a) at[static_cast<std::size_t>(n.n[a])] = to[a];
        return v[0].cells[static_cast<std::size_t>(linear(from, at))];
      });
    case Kind::Cat:
      return each(t, [&](int k) {
        Position at = place(t, k);
        const auto axis = static_cast<std::size_t>(n.n[0]);
        const bool second = at[axis] >= from.extents[axis];
        if (second) at[axis] -= from.extents[axis];
        return v[second ? 1 : 0].cells[static_cast<std::size_t>(linear(from, at))];
      });
    case Kind::Extract:
      return each(t, [&](int k) {
        Position at = place(t, k);
        for (std::size_t a = 0; a < static_cast<std::size_t>(t.rank); ++a) {
          const std::int64_t last = from.extents[a] / t.extents[a] - 1;
          at[a] += std::clamp<std::int64_t>(v[a + 1].cells[0].i, 0, last) * t.extents[a];
        }
        return v[0].cells[static_cast<std::size_t>(linear(from, at))];
      });
    case Kind::Uniform:
      return each(t, [&](int k) {
        return uniform(t.elem, static_cast<std::uint64_t>(v[0].cells[0].i), static_cast<std::uint64_t>(cell(1, k).i));
      });
    default: throw std::logic_error("no value");
  }
}

Value Interpreter::reduce(const Node& n) {
  using lang::BinaryOp;
  const Value x = value(n.kids[0]);
  const bool fold = n.kind == Kind::Fold, scan = info(n.kind).cls == KindClass::Scan;
  static constexpr BinaryOp kOps[] = {BinaryOp::Add, BinaryOp::Mul, BinaryOp::Max,
                                      BinaryOp::Min, BinaryOp::And, BinaryOp::Or};
  const BinaryOp op = fold ? static_cast<BinaryOp>(n.n[0]) : kOps[info(n.kind).op];
  const ElementType e = x.type.elem;
  const auto join = [&](Cell a, Cell b) { return binary(op, e, a, b); };
  const std::int64_t axis = fold ? n.n[1] : n.n[0];
  if (axis < 0) {
    Cell all = x.cells[0];
    for (std::size_t k = 1; k < x.cells.size(); ++k) all = join(all, x.cells[k]);
    return {n.type, {all}};
  }
  const auto a = static_cast<std::size_t>(axis);
  const int length = x.type.extents[a];
  Value out{n.type, Cells(static_cast<std::size_t>(n.type.size()))};
  const bool reverse = scan && n.n[1] != 0;
  for (int line = 0; line < x.type.size() / length; ++line) {
    Position where = place(x.type.with_extent(static_cast<int>(axis), 1), line);
    Cell all{};
    for (int k = 0; k < length; ++k) {
      where[a] = reverse ? length - 1 - k : k;
      const Cell next = x.cells[static_cast<std::size_t>(linear(x.type, where))];
      all = k == 0 ? next : join(all, next);
      if (scan) out.cells[static_cast<std::size_t>(linear(x.type, where))] = all;
    }
    if (!scan) out.cells[static_cast<std::size_t>(line)] = all;
  }
  return out;
}

/// The lowest index of equal values; a NaN counts as the extreme.
Value Interpreter::extremum(const Node& n) {
  const Value x = value(n.kids[0]);
  const auto a = static_cast<std::size_t>(n.n[0]);
  const ElementType e = x.type.elem;
  const int length = x.type.extents[a];
  const auto op = n.kind == Kind::ArgMax ? lang::CompareOp::Greater : lang::CompareOp::Less;
  const auto nan = [&](Cell c) { return is_float(e) && std::isnan(c.d); };
  Value out{n.type, Cells(static_cast<std::size_t>(n.type.size()))};
  for (int line = 0; line < x.type.size() / length; ++line) {
    Position where = place(x.type.with_extent(static_cast<int>(n.n[0]), 1), line);
    Cell best{};
    int index = 0;
    for (int k = 0; k < length; ++k) {
      where[a] = k;
      const Cell next = x.cells[static_cast<std::size_t>(linear(x.type, where))];
      if (k != 0 && (nan(best) || !(nan(next) || compare(op, e, next, best)))) continue;
      best = next;
      index = k;
    }
    out.cells[static_cast<std::size_t>(line)] = n.n[1] == 1 ? integer(index) : best;
  }
  return out;
}

Value Interpreter::product(const Node& n) {
  const Value a = value(n.kids[0]), b = value(n.kids[1]), c = value(n.kids[2]);
  const int r = n.type.rank, depth = a.type[r - 1];
  step(n.type.size() * depth);
  const ElementType from_a = a.type.elem, from_b = b.type.elem, e = n.type.elem;
  return each(n.type, [&](int k) {
    Position to = place(n.type, k), in_a = to, in_b = to;
    Cell sum = c.cells[static_cast<std::size_t>(k)];
    for (int d = 0; d < depth; ++d) {
      in_a[static_cast<std::size_t>(r - 1)] = d;
      in_b[static_cast<std::size_t>(r - 2)] = d;
      const Cell x = convert(a.cells[static_cast<std::size_t>(linear(a.type, in_a))], from_a, e, false);
      const Cell y = convert(b.cells[static_cast<std::size_t>(linear(b.type, in_b))], from_b, e, false);
      sum = binary(lang::BinaryOp::Add, e, sum, binary(lang::BinaryOp::Mul, e, x, y));
    }
    return sum;
  });
}

}  // namespace tessera::generate
