// Pairs of operations: what one leaves (a layout, registers, barriers) meets the other.
#include <algorithm>
#include <bit>

#include "generate/generator.hpp"

namespace tessera::generate {
namespace {

constexpr int kMaxExtent = 256, kPairBytes = 1 << 15;  // of a tile, by elements of 4 bytes at least
constexpr int kGpus[] = {90, 80, 100, 120};

/// A number of 1, 2, 4, ..., most.
int power(Random& r, int most) { return 1 << r.below(std::bit_width(static_cast<unsigned>(most))); }

int bytes_of(const Type& t) { return t.size() * std::max(4, tessera::info(t.elem).bits / 8); }

/// The largest whole number up to which the type has all of them.
std::int64_t exact(ElementType e) {
  if (e == ElementType::bf16) return 256;
  if (e == ElementType::f16) return 2048;
  return std::int64_t{1} << 24;
}

class PairGenerator : Generator {
 public:
  explicit PairGenerator(std::uint64_t number) : Generator(number), number_(number), sm_(gpu_of_pair(number)) {}

  Program make() {
    add_param(ParamKind::Mut, ElementType::f32, {});  // the output, whose shape follows from the operations
    tiles_.push_back({});
    Type t = Type::scalar(random_.pick({ElementType::f32, ElementType::f32, ElementType::f16, ElementType::bf16,
                                        ElementType::f64, ElementType::i32, ElementType::i32, ElementType::i8,
                                        ElementType::u8, ElementType::i16, ElementType::u32, ElementType::i64}));
    t.rank = random_.between(1, 3);
    // One axis has any extent up to the largest; the others share what is left.
    const int first = random_.below(t.rank);
    for (int k = 0; k < t.rank; ++k) {
      const int axis = (first + k) % t.rank;
      t[axis] = 1;
      t[axis] = power(random_, std::min(kMaxExtent, kPairBytes / bytes_of(with_ones(t))));
    }
    const bool loops = random_.chance(35);
    std::vector<Node> body;
    loop_ = loops ? new_var() : -1;
    const Variable x = let(body, loaded(t), t);
    const std::int64_t walked = tensor_of_x_;
    // 89 has no factor in common with the number of pairs, so neighbours differ in both operations.
    const auto pair = static_cast<int>(number_ % kPairs * 89 % kPairs);
    const Variable one = applied(body, pair / kPairedOperations, x);
    const bool beside = random_.chance(35);
    const Variable other = applied(body, pair % kPairedOperations, beside ? x : one);
    const Variable result = beside ? joined(body, one, other) : other;
    std::vector<Node> all;
    if (loops) {
      wrap(all, std::move(body), result, walked, t);
    } else {
      all = std::move(body);
      finish(all, result);
    }
    if (p_.params[0].kind == ParamKind::MutTiles)
      p_.body = Node{Kind::Body, {}, {Node{Kind::TileLoop, {0, 0, 0}, {Node{Kind::Body, {}, std::move(all)}}}}};
    else
      p_.body = Node{Kind::Body, {}, std::move(all)};
    launches();
    set_lines(p_);
    return std::move(p_);
  }

 private:
  static Type with_ones(Type t) {
    for (int a = 0; a < t.rank; ++a) t[a] = std::max(t[a], 1);
    return t;
  }
  static Node var(const Variable& v) { return Node{Kind::Var, {v.id}}; }
  Variable let(std::vector<Node>& out, Node value, const Type& t) {
    const int id = new_var();
    out.push_back(Node{Kind::Let, {id}, {std::move(value)}});
    return {id, t, true};
  }
  Variable cast(std::vector<Node>& out, const Variable& v, ElementType e) {
    return v.type.elem == e ? v : let(out, Node{Kind::Cast, {0}, {var(v)}, Type::scalar(e)}, v.type.with(e));
  }
  bool has_8bit_floats() const { return sm_ >= 89; }

  // ---- loads --------------------------------------------------------------------------------------------------------

  /// A tile of a tensor of its own: by its axes or permuted, by tiles or from any element on.
  Node loaded(const Type& t) {
    const auto number = static_cast<std::int64_t>(p_.params.size());
    std::vector<std::int64_t> order;
    for (int a = 0; a < t.rank; ++a) order.push_back(a);
    const bool permuted = t.rank > 1 && random_.chance(30);
    if (permuted) std::swap(order[static_cast<std::size_t>(random_.below(t.rank - 1))], order.back());
    Type own = t;
    for (int a = 0; a < t.rank; ++a) own[static_cast<int>(order[static_cast<std::size_t>(a)])] = t[a];
    add_param(ParamKind::In, t.elem, std::vector<int>(static_cast<std::size_t>(t.rank), -1));
    tiles_.push_back(own);
    tensor_of_x_ = number;
    if (permuted) {
      tensor_of_x_ = kFirstView + static_cast<std::int64_t>(p_.views.size());
      p_.views.push_back({static_cast<int>(number), {order.begin(), order.end()}});
    }
    const bool anywhere = random_.chance(15);
    Node n{anywhere ? Kind::LoadAt : Kind::LoadTile, {tensor_of_x_, 0}, {}, t};
    for (int a = 0; a < t.rank; ++a) {
      Node at = a == t.rank - 1 && loop_ >= 0 ? Node{Kind::Var, {loop_}} : a == 0 ? Node{Kind::Block} : int32(0);
      if (anywhere) at = Node{Kind::Mul, {}, {std::move(at), int32(t[a])}};
      n.kids.push_back(std::move(at));
    }
    return n;
  }
  /// Whole numbers of few, which are added exactly.
  Node factor(const Type& t) { return is_float(t.elem) ? bounded(loaded(t), t.elem, 2) : loaded(t); }
  /// `v` so that n elements of it can be added exactly in any order.
  Variable summable(std::vector<Node>& out, Variable v, int n, int most = 2) {
    if (!is_float(v.type.elem)) return v;
    if (exact(v.type.elem) < n) v = cast(out, v, ElementType::f32);
    const auto bound = static_cast<int>(std::min<std::int64_t>(most, exact(v.type.elem) / n));
    return let(out, bounded(var(v), v.type.elem, bound), v.type);
  }

  // ---- operations ---------------------------------------------------------------------------------------------------

  Variable applied(std::vector<Node>& out, int operation, Variable v) {
    const int axis = random_.below(v.type.rank);
    v = between(out, v);
    switch (operation) {
      case 0: return scan(out, v, axis);
      case 1: return reduce(out, v, axis);
      case 2: return reduce_all(out, v);
      case 3: return extremum(out, v, axis);
      case 4: return fold(out, v, axis);
      case 5: return operand(out, v, true);
      case 6: return operand(out, v, false);
      case 7: return beside_product(out, v);
      case 8: return gather(out, v, axis);
      case 9: return gather_elements(out, v);
      case 10: return permute(out, v);
      case 11: return reshape(out, v);
      default: return halves(out, v, axis);
    }
  }
  /// Sometimes another element type, or another tensor that is added.
  Variable between(std::vector<Node>& out, Variable v) {
    using enum ElementType;
    if (random_.chance(25)) v = cast(out, v, random_.pick({f32, f16, bf16, i32, i8, f32, i64, u8, f64}));
    if (random_.chance(20)) v = let(out, Node{Kind::Add, {}, {var(v), loaded(v.type)}}, v.type);
    return v;
  }
  Variable scan(std::vector<Node>& out, Variable v, int axis) {
    const bool sum = random_.chance(65);
    v = summable(out, v, sum ? v.type[axis] : 1, sum ? 2 : 1);
    return let(out, Node{sum ? Kind::CumSum : Kind::CumProd, {axis, random_.below(2)}, {var(v)}}, v.type);
  }
  /// What is reduced, or its distance from that, as in a softmax.
  Variable reduce(std::vector<Node>& out, Variable v, int axis) {
    const Kind op = random_.pick({Kind::Sum, Kind::Sum, Kind::MaxOf, Kind::MinOf, Kind::Prod});
    if (op == Kind::Sum || op == Kind::Prod)
      v = summable(out, v, op == Kind::Sum ? v.type[axis] : 1, op == Kind::Sum ? 2 : 1);
    const Variable r = let(out, Node{op, {axis}, {var(v)}}, v.type.with_extent(axis, 1));
    return random_.chance(50) ? r : joined(out, v, r);
  }
  Variable reduce_all(std::vector<Node>& out, Variable v) {
    const bool sum = random_.chance(60);
    if (sum) v = summable(out, v, v.type.size());
    const Variable r = let(out, Node{sum ? Kind::Sum : Kind::MaxOf, {-1}, {var(v)}}, Type::scalar(v.type.elem));
    return joined(out, v, r);
  }
  Variable extremum(std::vector<Node>& out, const Variable& v, int axis) {
    const bool index = random_.chance(70);
    const Type t = v.type.with_extent(axis, 1).with(index ? ElementType::i32 : v.type.elem);
    const Variable r = let(out, Node{random_.pick({Kind::ArgMax, Kind::ArgMin}), {axis, index ? 1 : 0}, {var(v)}}, t);
    return random_.chance(50) ? r : joined(out, v, cast(out, r, v.type.elem));
  }
  Variable fold(std::vector<Node>& out, Variable v, int axis) {
    using lang::BinaryOp;
    if (is_float(v.type.elem)) v = cast(out, v, ElementType::i32);
    const auto op = static_cast<std::int64_t>(random_.pick({BinaryOp::Add, BinaryOp::Xor, BinaryOp::Or}));
    return joined(out, v, let(out, Node{Kind::Fold, {op, axis}, {var(v)}}, v.type.with_extent(axis, 1)));
  }

  /// Element types of a product whose operand is made from `e`.
  ElementType factor_of(ElementType e) {
    using enum ElementType;
    if (!is_float(e)) return is_signed(e) ? i8 : u8;
    if (e == f64) return f64;
    if (has_8bit_floats() && random_.chance(15)) return f8e4m3;
    return e == f32 ? random_.pick({f32, tf32, bf16, f16}) : e;
  }
  static ElementType sum_of(ElementType factor) {
    using enum ElementType;
    return factor == i8 || factor == u8 ? i32 : factor == f64 ? f64 : f32;
  }
  Node zeros(const Type& t) { return Node{Kind::Number, {0}, {}, t}; }
  /// As an operand of a product: whole numbers of few, of the element type.
  Variable as_factor(std::vector<Node>& out, Variable v, ElementType e) {
    v = summable(out, v, 1);
    return cast(out, v, e);
  }
  Variable loaded_factor(std::vector<Node>& out, Type t, ElementType e) {
    using enum ElementType;
    t.elem = e == tf32 ? f32 : e == f8e4m3 ? f16 : e;  // which compute
    return cast(out, let(out, factor(t), t), e);
  }
  Variable operand(std::vector<Node>& out, Variable v, bool left) {
    if (v.type.rank == 1) v = of_two_axes(out, v);
    const ElementType e = factor_of(v.type.elem);
    v = as_factor(out, v, e);
    const int r = v.type.rank;
    Type other = v.type, sum = v.type.with(sum_of(e));
    const int kept = left ? r - 2 : r - 1, lost = left ? r - 1 : r - 2;
    int most = std::min(128, kPairBytes / bytes_of(sum.with_extent(lost, 1)));
    most = std::min(most, kPairBytes / bytes_of(other.with_extent(kept, 1)));
    const int n = power(random_, std::max(most, 1));
    sum[lost] = n;
    other[r - 2] = left ? v.type[r - 1] : n;
    other[r - 1] = left ? n : v.type[r - 2];
    const Variable w = loaded_factor(out, other, e);
    Node product{Kind::Mma, {}, {var(left ? v : w), var(left ? w : v), zeros(sum)}};
    return let(out, std::move(product), sum);
  }
  /// A product of matrices that the tile scales or masks; its rows or columns of one are stretched.
  Variable beside_product(std::vector<Node>& out, Variable v) {
    if (v.type.rank == 1) v = of_two_axes(out, v);
    const ElementType e = factor_of(v.type.elem);
    Type sum = v.type.with(sum_of(e));
    const int r = sum.rank;
    for (int a = r - 2; a < r; ++a)
      if (sum[a] == 1) sum[a] = std::max(1, std::min(64, kPairBytes / bytes_of(sum)));
    Type left = sum, right = sum;
    left[r - 1] = right[r - 2] = std::min({128, kPairBytes / bytes_of(sum.with_extent(r - 1, 1)),
                                           kPairBytes / bytes_of(sum.with_extent(r - 2, 1)), 16 << random_.below(4)});
    const Variable a = loaded_factor(out, left, e), b = loaded_factor(out, right, e);
    const Variable product = let(out, Node{Kind::Mma, {}, {var(a), var(b), zeros(sum)}}, sum);
    if (random_.chance(50)) return joined(out, product, cast(out, v, sum.elem));
    Node below{Kind::Less, {}, {var(v), Node{Kind::Number, {4}, {}, Type::scalar(v.type.elem)}}};
    const Variable mask = let(out, std::move(below), v.type.with(ElementType::boolean));
    Node none = Node{Kind::Number, {0}, {}, Type::scalar(sum.elem)};
    return let(out, Node{Kind::Where, {}, {var(mask), var(product), std::move(none)}}, sum);
  }

  /// Slices at places that are known, or that are loaded.
  Variable gather(std::vector<Node>& out, const Variable& v, int axis) {
    const Type line = Type::of(ElementType::i32, {v.type[axis]});
    Node at = random_.chance(50) ? Node{Kind::Iota, {0}, {}, line} : loaded(line);
    at = Node{Kind::And, {}, {Node{Kind::Mul, {}, {std::move(at), int32(3)}}, int32(v.type[axis] - 1)}};
    const Variable index = let(out, std::move(at), line);
    std::vector<int> extents;
    for (int a = 0; a < v.type.rank; ++a) extents.push_back(a == axis ? -1 : v.type[a]);
    const auto number = static_cast<std::int64_t>(p_.params.size());
    add_param(ParamKind::In, v.type.elem, extents);
    tiles_.push_back(v.type);
    const Variable g = let(out, Node{Kind::Gather, {number, axis, 0}, {var(index)}}, v.type);
    return joined(out, v, g);
  }
  /// Elements at places that the tile holds.
  Variable gather_elements(std::vector<Node>& out, const Variable& v) {
    Variable at = cast(out, v, ElementType::i32);
    at = let(out, Node{Kind::And, {}, {var(at), int32(63)}}, at.type);
    const auto number = static_cast<std::int64_t>(p_.params.size());
    add_param(ParamKind::In, v.type.elem, {-1, -1});
    tiles_.push_back(Type::of(v.type.elem, {64, 16}));
    const Variable g = let(out, Node{Kind::GatherElements, {number}, {var(at), int32(random_.below(16))}}, v.type);
    return random_.chance(50) ? g : joined(out, v, g);
  }
  Variable permute(std::vector<Node>& out, Variable v) {
    if (v.type.rank == 1) v = of_two_axes(out, v);
    std::vector<std::int64_t> order;
    for (int a = 0; a < v.type.rank; ++a) order.push_back(a);
    std::swap(order[static_cast<std::size_t>(random_.below(v.type.rank - 1))], order.back());
    Type t = v.type;
    for (int a = 0; a < t.rank; ++a) t[a] = v.type[static_cast<int>(order[static_cast<std::size_t>(a)])];
    return let(out, Node{Kind::Permute, std::move(order), {var(v)}}, t);
  }
  Variable reshape(std::vector<Node>& out, const Variable& v) {
    Type t = Type::scalar(v.type.elem);
    t.rank = random_.between(1, kMaxAxes);
    int left = v.type.size();
    for (int a = 0; a < t.rank - 1; ++a) left /= t[a] = power(random_, left);
    t[t.rank - 1] = left;
    return let(out, Node{Kind::Reshape, {}, {var(v)}, t}, t);
  }
  Variable of_two_axes(std::vector<Node>& out, const Variable& v) {
    const int rows = power(random_, v.type.size());
    const Type t = Type::of(v.type.elem, {rows, v.type.size() / rows});
    return let(out, Node{Kind::Reshape, {}, {var(v)}, t}, t);
  }
  /// The two halves in the other order.
  Variable halves(std::vector<Node>& out, const Variable& v, int axis) {
    if (v.type[axis] == 1) return permute(out, v);
    const Type half = v.type.with_extent(axis, v.type[axis] / 2);
    const auto part = [&](int k) {
      Node n{Kind::Extract, {}, {var(v)}, half};
      for (int a = 0; a < half.rank; ++a) n.kids.push_back(int32(a == axis ? k : 0));
      return let(out, std::move(n), half);
    };
    const Variable first = part(1), second = part(0);
    return let(out, Node{Kind::Cat, {axis}, {var(first), var(second)}}, v.type);
  }

  /// Both, element by element; where their shapes do not fit, what all of the second add up to.
  Variable joined(std::vector<Node>& out, const Variable& a, Variable b) {
    b = cast(out, b, a.type.elem);
    bool fits = a.type.rank == b.type.rank || a.type.rank == 0 || b.type.rank == 0;
    Type t = a.type.rank == 0 ? b.type : a.type;
    for (int k = 0; fits && k < b.type.rank && k < a.type.rank; ++k) {
      fits = a.type[k] == b.type[k] || a.type[k] == 1 || b.type[k] == 1;
      t[k] = std::max(a.type[k], b.type[k]);
    }
    if (!fits || bytes_of(t) > 2 * kPairBytes) {
      b = summable(out, b, b.type.size());
      b = let(out, Node{Kind::Sum, {-1}, {var(b)}}, Type::scalar(b.type.elem));
      b = cast(out, b, a.type.elem), t = a.type;
    }
    const Kind op = random_.pick({Kind::Add, Kind::Sub, Kind::Mul, Kind::Max});
    return let(out, Node{op, {}, {var(a), var(b)}}, t);
  }

  // ---- the kernel ---------------------------------------------------------------------------------------------------

  /// The operations as the body of a loop over the tiles of the first tensor, whose results are added.
  void wrap(std::vector<Node>& all, std::vector<Node> body, const Variable& result, std::int64_t walked,
            const Type& tile) {
    Variable sum = let(all, zeros(result.type), result.type);
    body.push_back(Node{Kind::Set, {sum.id}, {Node{Kind::Add, {}, {var(sum), var(result)}}}});
    Node count{Kind::Count, {walked, tile.rank - 1}, {}, tile};
    all.push_back(
        Node{Kind::For, {loop_}, {int32(0), std::move(count), int32(1), Node{Kind::Body, {}, std::move(body)}}});
    finish(all, sum);
  }
  /// Stores the result, whole or slice by slice.
  void finish(std::vector<Node>& out, Variable v) {
    using enum ElementType;
    if (random_.chance(35)) v = cast(out, v, random_.pick({f32, f16, bf16, i32}));
    Param& to = p_.params[0];
    to.kind = random_.chance(15) ? ParamKind::MutTiles : ParamKind::Mut;
    to.elem = v.type.elem;
    to.extents.assign(v.type.extents.begin(), v.type.extents.begin() + v.type.rank);
    tiles_[0] = v.type;
    if (!random_.chance(10)) return out.push_back(Node{Kind::Store, {0}, {var(v)}});
    const int axis = random_.below(v.type.rank);
    Node last = Node{Kind::Number, {v.type[axis] - 1}, {}, Type::scalar(i32)};
    Node at{Kind::Sub, {}, {std::move(last), Node{Kind::Iota, {0}, {}, Type::of(i32, {v.type[axis]})}}};
    out.push_back(Node{Kind::Scatter, {0, axis}, {std::move(at), var(v)}});
  }

  /// First with extents that are multiples of the tiles, as tuned code has them, or any; then the other.
  void launches() {
    const bool whole_first = random_.chance(65);
    for (const bool whole : {whole_first, !whole_first}) {
      Launch l;
      l.blocks = 2;
      for (std::size_t i = 0; i < p_.params.size(); ++i) {
        Layout t;
        t.fill = random_.next() >> 16;
        std::int64_t step = 1;
        for (int a = 0; a < tiles_[i].rank; ++a) {
          const bool fixed =
              p_.params[i].kind == ParamKind::In && p_.params[i].extents[static_cast<std::size_t>(a)] > 0;
          const int e = tiles_[i][a], times = bytes_of(tiles_[i]) > 4096 ? 1 : random_.between(1, 2);
          t.dims.push_back(fixed || (whole && e % 16 == 0) ? e * (fixed ? 1 : times)
                           : whole                         ? std::max(e, 16)
                                                           : std::max(1, e * times - random_.below(3)));
        }
        t.strides.assign(t.dims.size(), 1);
        for (std::size_t a = t.dims.size(); a-- > 0;) t.strides[a] = step, step *= t.dims[a];
        l.tensors.push_back(std::move(t));
      }
      p_.launches.push_back(std::move(l));
    }
  }

  std::uint64_t number_;
  int sm_, loop_ = -1;
  std::int64_t tensor_of_x_ = 0;  ///< what loaded() has read from
  std::vector<Type> tiles_;       ///< by parameter
};

}  // namespace

int gpu_of_pair(std::uint64_t number) { return kGpus[number % std::size(kGpus)]; }
Program random_pair(std::uint64_t number) { return PairGenerator(number).make(); }

}  // namespace tessera::generate
