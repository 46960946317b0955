// Memory that values share: tiles handed on by address, merged with what is carried, overwritten in place, borrowed
// from tensors. Random control flow over tiles against an evaluator in which nothing shares anything.
#include <gtest/gtest.h>

#include <random>

#include "base/rounds.hpp"
#include "codegen/cpu/naive.hpp"

namespace tessera::test {
namespace {

constexpr std::int64_t kInputs = 4, kOutputs = 6;

/// A random program: square tiles and scalars in nested branches and loops that hand values on, mostly unchanged.
class Writer {
 public:
  Writer(unsigned seed, std::int64_t side) : random_(seed), tile_(Kernel::t(Elem::I32, {side, side})), side_(side) {
    const auto view = [&](Value p, std::int64_t tiles) {
      const auto n = static_cast<std::int32_t>(side);
      return k_.partition(k_.tensor(p, {tiles * side - 1, side}, {side, 1}), {n, n});  // the last tile is clipped
    };
    const Value x = k_.pointer(Elem::I32), y = k_.pointer(Elem::I32);
    Pool pool;
    for (int i = 0; i < 3; ++i) pool.scalars.push_back(k_.arg(Kernel::t(Elem::I32)));
    zero_ = k_.i32(0);
    one_ = k_.i32(1);
    x_ = view(x, kInputs);
    y_ = view(y, kOutputs);
    pool.scalars.push_back(k_.i32(2));
    pool.tiles.push_back(load(x_, k_.i32(pick(kInputs))));
    pool.tiles.push_back(k_.i32(7, {side, side}));
    statements(pool, 0, 4 + pick(6));
    for (int i = 0; i < 3; ++i) store(any(pool.tiles));
  }
  Kernel& kernel() { return k_; }

 private:
  struct Pool {
    std::vector<Value> tiles, scalars;
  };
  /// The innermost loop: what `continue` passes is the count of rounds (for `loop`) and tiles.
  struct Around {
    bool is_for;
    std::size_t carried, results;
    Value next;
  };

  std::int64_t pick(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }
  bool chance(int percent) { return pick(100) < percent; }
  Value any(const std::vector<Value>& v) {  // late ones more often: chains of what was just made
    const auto n = static_cast<std::int64_t>(v.size());
    return v[static_cast<std::size_t>(chance(60) ? n - 1 - pick(std::min<std::int64_t>(n, 3)) : pick(n))];
  }
  /// Often for the last time in this region: what dies is what others are put in place of.
  Value use(std::vector<Value>& v) {
    const Value value = any(v);
    if (v.size() > 2 && chance(50)) std::erase(v, value);
    return value;
  }
  std::vector<Value> some(const std::vector<Value>& from, std::size_t n) {
    std::vector<Value> out;
    while (out.size() < n) out.push_back(any(from));
    return out;
  }
  Value load(Value view, Value row) { return k_.load(view, {row, zero_})->result(0); }
  void store(Value tile) { k_.store(tile, y_, {k_.i32(pick(kOutputs)), zero_}); }
  Value condition(const Pool& pool) { return k_.less(any(pool.scalars), any(pool.scalars)); }

  void statements(Pool& pool, int depth, std::int64_t n) {
    for (; n > 0; --n) statement(pool, depth);
  }

  void statement(Pool& pool, int depth) {
    const std::int64_t what = pick(depth < 3 ? 21 : 13);
    auto& tiles = pool.tiles;
    if (what < 6) {
      constexpr Op ops[] = {Op::AddI, Op::MulI, Op::XOrI};
      const Op op = ops[pick(3)];
      const Value a = use(tiles), b = use(tiles);
      tiles.push_back(op == Op::XOrI ? k_.same(op, {a, b}) : op == Op::AddI ? k_.addi(a, b) : k_.muli(a, b));
    } else if (what == 6) {
      tiles.push_back(k_.permute(use(tiles), {1, 0}));
    } else if (what == 7) {
      tiles.push_back(load(chance(60) ? x_ : y_, k_.i32(pick(kInputs))));
    } else if (what == 8) {
      store(use(tiles));
    } else if (what == 9) {
      const Value sum = k_.fold(Op::Reduce, use(tiles), pick(2), Kernel::t(Elem::I32, {side_}), IntAttr{Elem::I32, 0},
                                Op::AddI, {{AttrName::overflow, IntegerOverflow::None}});
      tiles.push_back(k_.broadcast(k_.reshape(sum, chance(50) ? Shape{1, side_} : Shape{side_, 1}), {side_, side_}));
    } else if (what == 10) {
      pool.scalars.push_back(k_.addi(any(pool.scalars), any(pool.scalars)));
    } else if (what == 11) {  // a row over all rows: a window on the tile
      const Value row = k_.op(Op::Extract, {use(tiles), k_.i32(pick(side_)), zero_}, Kernel::t(Elem::I32, {1, side_}));
      tiles.push_back(k_.broadcast(row, {side_, side_}));
    } else if (what == 12) {
      tiles.push_back(k_.spread(any(pool.scalars), {side_, side_}));
    } else if (what < 17) {
      branch(pool, depth);
    } else if (what < 19) {
      for_loop(pool, depth);
    } else {
      loop(pool, depth);
    }
  }

  /// Ends an arm: yields, or leaves the loop around it.
  void arm(Pool pool, int depth, std::size_t results) {
    statements(pool, depth + 1, pick(4));
    if (!around_.empty() && chance(20)) {
      const Around& loop = around_.back();
      if (!loop.is_for && chance(50)) return k_.end(Op::Break, some(pool.tiles, loop.results));
      return next_round(pool);
    }
    k_.end(Op::Yield, some(pool.tiles, results));
  }

  void next_round(const Pool& pool) {
    const Around& loop = around_.back();
    std::vector<Value> values = some(pool.tiles, loop.carried);
    if (!loop.is_for) values.insert(values.begin(), loop.next);
    k_.end(Op::Continue, values);
  }

  void branch(Pool& pool, int depth) {
    const auto results = static_cast<std::size_t>(pick(3));
    const Value c = condition(pool);
    Operation* op = k_.if_else(
        c, std::vector<Type>(results, tile_), [&] { arm(pool, depth, results); }, [&] { arm(pool, depth, results); });
    for (std::size_t i = 0; i < results; ++i) pool.tiles.push_back(op->result(i));
    if (results > 0 && chance(40)) use_beside_result(pool, *op);
  }

  /// A tile that an arm handed on and the result that it may have become are used for the last time side by side.
  void use_beside_result(Pool& pool, const Operation& branch) {
    const Operation& end = *branch.region(static_cast<std::size_t>(pick(2))).terminator();
    if (end.op() != Op::Yield) return;
    const Value given = end.operand(0), result = branch.result(0);
    if (std::erase(pool.tiles, given) == 0) return;  // made within the arm
    std::erase(pool.tiles, result);
    std::vector<Value> both{k_.addi(given, any(pool.tiles)), k_.muli(result, any(pool.tiles))};
    pool.tiles.insert(pool.tiles.end(), both.begin(), both.end());
  }

  void for_loop(Pool& pool, int depth) {
    const auto carried = static_cast<std::size_t>(pick(3));
    Operation* op =
        k_.for_loop(zero_, k_.i32(pick(4)), one_, some(pool.tiles, carried), [&](Value i, const std::vector<Value>& v) {
          Pool inner = pool;
          inner.scalars.push_back(i);
          inner.tiles.insert(inner.tiles.end(), v.begin(), v.end());
          around_.push_back({true, carried, 0, {}});
          statements(inner, depth + 1, 1 + pick(4));
          around_.pop_back();
          return some(inner.tiles, carried);
        });
    for (std::size_t i = 0; i < carried; ++i) pool.tiles.push_back(op->result(i));
  }

  void loop(Pool& pool, int depth) {
    const auto carried = static_cast<std::size_t>(pick(3)), results = static_cast<std::size_t>(pick(3));
    std::vector<Value> init = some(pool.tiles, carried);
    init.insert(init.begin(), zero_);
    Operation* op = k_.loop(init, std::vector<Type>(results, tile_), [&](const std::vector<Value>& v) {
      Pool inner = pool;
      const Value next = k_.addi(v[0], one_);
      inner.scalars.push_back(v[0]);
      inner.tiles.insert(inner.tiles.end(), v.begin() + 1, v.end());
      around_.push_back({false, carried, results, next});
      k_.if_only(k_.less(k_.i32(2), v[0]), [&] { k_.end(Op::Break, some(inner.tiles, results)); });
      statements(inner, depth + 1, 1 + pick(4));
      next_round(inner);
      around_.pop_back();
    });
    for (std::size_t i = 0; i < results; ++i) pool.tiles.push_back(op->result(i));
  }

  std::mt19937 random_;
  Kernel k_;
  Type tile_;
  std::int64_t side_;
  Value zero_, one_, x_, y_;
  std::vector<Around> around_;
};

/// Runs a kernel over (x, y, scalars) both ways.
void compare(Kernel& k, std::int64_t side, std::int32_t seed) {
  const auto program = k.compile();
  const auto elements = [&](std::int64_t tiles) { return static_cast<std::size_t>(tiles * side * side); };
  Ints x(elements(kInputs));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::int32_t>(i * 2654435761U) >> 8;
  Ints want(elements(kOutputs), -1), have = want;
  for (const std::int32_t c : {0, 1, 2, 5}) {
    const auto args = [&](Ints& y) {
      return std::vector<std::uint64_t>{slot(x.data()), slot(y.data()), slot(c), slot((c + seed) % 3), slot(c ^ 1)};
    };
    Naive(args(want)).run(k.entry);
    RunOptions options;
    options.threads = 1;
    program->run({}, args(have), options);
    ASSERT_EQ(have, want) << "c = " << c;
  }
}

TEST(Sharing, RandomControlFlowMeansWhatItsValuesMean) {
  for (unsigned seed = 0; seed < rounds(800); ++seed) {
    const std::int64_t side = seed % 4 == 0 ? 4 : 16;  // tiles of 4x4 are too small for chains
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Writer w(seed, side);
    compare(w.kernel(), side, static_cast<std::int32_t>(seed));
    if (HasFatalFailure()) return;
  }
}

/// Inputs of 8x8 i32 tiles at x, outputs at y, one scalar.
struct Directed {
  static constexpr std::int64_t kSide = 8;
  Kernel k;
  Value x = view(), y = view(), c = k.arg(Kernel::t(Elem::I32)), zero = k.i32(0);
  Type tile = Kernel::t(Elem::I32, {kSide, kSide});

  Value view() { return k.partition(k.tensor(k.pointer(Elem::I32), {4 * kSide, kSide}, {kSide, 1}), {kSide, kSide}); }
  Value load() { return k.load(x, {zero, zero})->result(0); }
  Value number(std::int64_t n) { return k.i32(n, {kSide, kSide}); }
  void store(Value v, std::int64_t row) { k.store(v, y, {k.i32(row), zero}); }
  /// The tile itself unless c > 0.
  Value or_zero(Value v) {
    return k
        .if_else(
            k.less(zero, c), {tile}, [&] { k.end(Op::Yield, {number(0)}); }, [&] { k.end(Op::Yield, {v}); })
        ->result();
  }
  void expect_as_written() {
    const auto program = k.compile();
    Ints in(4 * kSide * kSide);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::int32_t>(i);
    for (const std::int64_t scalar : {0, 1, 2}) {
      Ints have(in.size(), -1), want = have;
      Naive(std::vector<std::uint64_t>{slot(in.data()), slot(want.data()), slot(scalar)}).run(k.entry);
      program->run({}, std::vector<std::uint64_t>{slot(in.data()), slot(have.data()), slot(scalar)});
      EXPECT_EQ(have, want) << "c = " << scalar;
    }
  }
};

TEST(Sharing, AChainDoesNotOverwriteWhatAnArmHandedOn) {
  Directed d;
  const Value t = d.load();
  const Value u = d.k.addi(t, d.number(1000));
  const Value v = d.or_zero(t);
  d.store(d.k.addi(v, d.number(5)), 0);  // one chain with u, which takes the place of t
  d.store(u, 1);
  d.expect_as_written();
}

TEST(Sharing, AResultTakesThePlaceOfWhatAnArmHandedOnLater) {  // the legal twin: by then it is read for the last time
  Directed d;
  const Value t = d.load();
  const Value v = d.or_zero(t);
  d.store(v, 0);
  d.store(d.k.permute(d.k.addi(t, d.number(1000)), {1, 0}), 1);
  d.expect_as_written();
}

TEST(Sharing, AnElementwiseResultDoesNotOverwriteARowOfItsOperand) {
  Directed d;
  const Value t = d.k.addi(d.load(), d.number(1));
  const Value v = d.or_zero(t);
  const Value row = d.k.op(Op::Extract, {v, d.k.i32(1), d.zero}, Kernel::t(Elem::I32, {1, d.kSide}));
  d.store(d.k.permute(d.k.addi(t, d.k.broadcast(row, {d.kSide, d.kSide})), {1, 0}), 0);
  d.expect_as_written();
}

TEST(Sharing, WhatALoopCarriesOutlivesTheInnerLoopThatReadsIt) {
  Directed d;
  Kernel& k = d.k;
  const Value one = k.i32(1);
  k.for_loop(d.zero, k.i32(2), one, {d.load()}, [&](Value, const std::vector<Value>& carried) {
    k.for_loop(d.zero, k.i32(3), one, {}, [&](Value j, const std::vector<Value>&) {
      const Value sum = k.addi(carried[0], k.spread(k.addi(j, one), {d.kSide, d.kSide}));
      k.store(k.permute(sum, {1, 0}), d.y, {j, d.zero});
      return std::vector<Value>{};
    });
    return std::vector<Value>{k.addi(d.load(), d.number(9))};
  });
  d.expect_as_written();
}

/// The inner branch has one arm that hands on a tile, the other leaves the loop: its result is written once, and handed
/// on again by the outer branch.
TEST(Sharing, ATileHandedOnTwiceLivesUntilItsLastReader) {
  Directed d;
  Kernel& k = d.k;
  const Value n = k.i32(3), one = k.i32(1);
  Operation* loop = k.for_loop(d.zero, n, one, {d.number(0)}, [&](Value i, const std::vector<Value>& carried) {
    const Value t = k.addi(d.load(), k.spread(i, {d.kSide, d.kSide}));
    const Value twice = k.if_else(
                             k.less(i, k.i32(2)), {d.tile},
                             [&] {
                               Operation* inner = k.if_else(
                                   k.less(i, d.c), {d.tile}, [&] { k.end(Op::Continue, {carried[0]}); },
                                   [&] { k.end(Op::Yield, {t}); });
                               k.end(Op::Yield, {inner->result()});
                             },
                             [&] { k.end(Op::Yield, {d.number(3)}); })
                            ->result();
    const Value other = k.muli(k.permute(k.addi(carried[0], d.number(7)), {1, 0}), d.number(3));
    return std::vector<Value>{k.addi(k.permute(other, {1, 0}), twice)};
  });
  d.store(loop->result(), 0);
  d.expect_as_written();
}

}  // namespace
}  // namespace tessera::test
