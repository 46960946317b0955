// Chains of elementwise operations against an interpreter that goes element by element: random expressions over whole
// and clipped tiles, with splats, rows, columns, guarded loads, widened elements, results used twice, and stores onto
// what is being read.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "base/rounds.hpp"
#include "codegen/cpu/kernel.hpp"

namespace tessera::test {
namespace {

using Ints = std::vector<std::int32_t>;

struct Layout {
  std::int64_t m, n, pitch;  ///< of the tensors
  std::int64_t r, c;         ///< of a tile
  std::size_t elements() const { return static_cast<std::size_t>((m - 1) * pitch + n); }
};

/// One operation of the expression; operands are numbers of earlier values.
struct Node {
  enum Kind { Add, Mul, Xor, ThroughI64, ThroughI8 } kind;
  std::size_t a, b;
};
struct Expression {
  std::vector<Node> nodes;
  std::size_t extra;     ///< also stored
  bool guarded = false;  ///< x is loaded under a condition
};
constexpr std::size_t kLeaves = 5;  // x, y, scalar, row, column

Expression random_expression(std::mt19937& random) {
  Expression e;
  const std::size_t n = 1 + random() % 10;
  for (std::size_t i = 0; i < n; ++i)
    e.nodes.push_back({static_cast<Node::Kind>(random() % 5), random() % (kLeaves + i), random() % (kLeaves + i)});
  e.nodes.back().b = 1;  // y takes part, and the result is a whole tile
  if (e.nodes.back().kind > Node::Xor) e.nodes.back().kind = Node::Add;
  e.extra = kLeaves + random() % n;
  e.guarded = random() % 2 != 0;
  return e;
}

std::int32_t apply(const Node& node, std::int32_t a, std::int32_t b) {
  const auto x = static_cast<std::uint32_t>(a), y = static_cast<std::uint32_t>(b);
  switch (node.kind) {
    case Node::Add: return static_cast<std::int32_t>(x + y);
    case Node::Mul: return static_cast<std::int32_t>(x * y);
    case Node::Xor: return static_cast<std::int32_t>(x ^ y);
    case Node::ThroughI64: return a;
    default: return static_cast<std::int8_t>(a);
  }
}

/// Tile by tile in the order of the blocks: a tile is read whole before it is written.
void interpret(const Expression& e, const Layout& l, Ints& memory, std::size_t x, std::size_t y, std::size_t out,
               std::size_t extra, std::int32_t scalar) {
  for (std::int64_t j0 = 0; j0 < l.n; j0 += l.c)
    for (std::int64_t i0 = 0; i0 < l.m; i0 += l.r) {
      std::vector<std::array<std::int32_t, 2>> results;
      std::vector<std::size_t> where;
      for (std::int64_t i = i0; i < std::min(l.m, i0 + l.r); ++i)
        for (std::int64_t j = j0; j < std::min(l.n, j0 + l.c); ++j) {
          const auto at = static_cast<std::size_t>(i * l.pitch + j);
          const std::int32_t from_x = e.guarded && i0 / l.r % 2 != 0 ? 7 : memory[x + at];
          Ints v{from_x, memory[y + at], scalar, static_cast<std::int32_t>(j - j0), static_cast<std::int32_t>(i - i0)};
          for (const Node& node : e.nodes) v.push_back(apply(node, v[node.a], v[node.b]));
          results.push_back({v.back(), v[e.extra]});
          where.push_back(at);
        }
      for (std::size_t k = 0; k < where.size(); ++k) {
        memory[out + where[k]] = results[k][0];
        memory[extra + where[k]] = results[k][1];
      }
    }
}

std::shared_ptr<const Program> build(const Expression& e, const Layout& l) {
  Kernel k;
  const Value px = k.pointer(Elem::I32), py = k.pointer(Elem::I32), po = k.pointer(Elem::I32),
              pe = k.pointer(Elem::I32), scalar = k.arg(k.t(Elem::I32));
  const Shape shape{l.r, l.c};
  const auto view = [&](Value p) {
    return k.partition(k.tensor(p, {l.m, l.n}, {l.pitch, 1}),
                       {static_cast<std::int32_t>(l.r), static_cast<std::int32_t>(l.c)});
  };
  const std::vector<Value> index{k.block(0), k.block(1)};
  const Value vx = view(px);
  std::vector<Value> v;
  if (e.guarded) {
    const Value even = k.equal(k.op(Op::AndI, {index[0], k.i32(1)}, k.t(Elem::I32)), k.i32(0));
    v.push_back(k.if_else(
                     even, {k.t(Elem::I32, shape)}, [&] { k.end(Op::Yield, {k.load(vx, index)->result()}); },
                     [&] { k.end(Op::Yield, {k.i32(7, shape)}); })
                    ->result());
  } else {
    v.push_back(k.load(vx, index)->result());
  }
  v.push_back(k.load(view(py), index)->result());
  v.push_back(k.spread(scalar, shape));
  v.push_back(k.broadcast(k.reshape(k.iota(l.c), {1, l.c}), shape));
  v.push_back(k.broadcast(k.reshape(k.iota(l.r), {l.r, 1}), shape));
  for (const Node& node : e.nodes) {
    const Value a = v[node.a], b = v[node.b];
    switch (node.kind) {
      case Node::Add: v.push_back(k.addi(a, b)); break;
      case Node::Mul: v.push_back(k.muli(a, b)); break;
      case Node::Xor: v.push_back(k.same(Op::XOrI, {a, b})); break;
      case Node::ThroughI64:
        v.push_back(k.op(Op::TruncI,
                         {k.op(Op::ExtI, {a}, k.t(Elem::I64, shape), {{AttrName::signedness, Signedness::Signed}})},
                         k.t(Elem::I32, shape), {{AttrName::overflow, IntegerOverflow::None}}));
        break;
      default:
        v.push_back(k.op(Op::ExtI,
                         {k.op(Op::TruncI, {a}, k.t(Elem::I8, shape), {{AttrName::overflow, IntegerOverflow::None}})},
                         k.t(Elem::I32, shape), {{AttrName::signedness, Signedness::Signed}}));
        break;
    }
  }
  k.store(v.back(), view(po), index);
  k.store(v[e.extra], view(pe), index);
  return k.compile();
}

/// x, y, out and extra are first elements of tensors in one memory.
void compare(const Expression& e, const Layout& l, Ints memory, std::size_t x, std::size_t y, std::size_t out,
             std::size_t extra) {
  Ints want = memory;
  interpret(e, l, want, x, y, out, extra, -12345);
  const std::uint64_t args[] = {slot(memory.data() + x), slot(memory.data() + y), slot(memory.data() + out),
                                slot(memory.data() + extra), slot(-12345)};
  RunOptions options;
  options.threads = 1;
  const cpu::Grid grid{static_cast<std::uint32_t>((l.m + l.r - 1) / l.r),
                       static_cast<std::uint32_t>((l.n + l.c - 1) / l.c), 1};
  build(e, l)->run(grid, args, options);
  ASSERT_EQ(memory, want);
}

Ints random_memory(std::mt19937& random, std::size_t n) {
  Ints memory(n);
  for (auto& v : memory) v = static_cast<std::int32_t>(random());
  return memory;
}

// Whole tiles of one row or many, tiles clipped on both axes, rows with gaps, tiles of less than a strip and of many.
const Layout kLayouts[] = {{1, 4096, 4096, 1, 1024}, {6, 2048, 2048, 1, 2048}, {3, 3000, 3000, 1, 1024},
                           {70, 64, 64, 32, 64},     {40, 50, 57, 16, 32},     {64, 256, 256, 16, 256},
                           {256, 4, 4, 64, 4},       {8, 512, 600, 8, 512}};

TEST(Chains, RandomExpressionsMeanWhatTheirElementsMean) {
  std::mt19937 random(1);
  for (const Layout& l : kLayouts)
    for (std::uint64_t round = 0; round < rounds(25); ++round) {
      SCOPED_TRACE(::testing::Message() << "tile " << l.r << 'x' << l.c << " round " << round);
      const std::size_t n = l.elements();
      compare(random_expression(random), l, random_memory(random, 4 * n), 0, n, 2 * n, 3 * n);
    }
}

TEST(Chains, AStoreOntoWhatIsReadSeesWholeTiles) {
  std::mt19937 random(2);
  for (const Layout& l : kLayouts)
    for (const std::size_t shift : {0, 1, 16, 300})  // out lies this many elements after y (and x before y)
      for (std::uint64_t round = 0; round < rounds(6); ++round) {
        SCOPED_TRACE(::testing::Message() << "tile " << l.r << 'x' << l.c << " shift " << shift << " round " << round);
        const std::size_t n = l.elements(), y = 512;
        compare(random_expression(random), l, random_memory(random, 2 * n + 1024), y - shift, y,
                round % 2 != 0 ? y + shift : y - shift, n + 1024);
      }
}

}  // namespace
}  // namespace tessera::test
