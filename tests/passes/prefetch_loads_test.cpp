// Loads of loops go one iteration ahead where their places are known then, and nowhere else.
#include <limits>

#include "analysis/launches.hpp"
#include "base/rounds.hpp"
#include "passes/pass_support.hpp"
#include "passes/passed.hpp"
#include "passes/values.hpp"
#include "tessera/base/float_types.hpp"
#include "tessera/codegen/cpu/program.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::test;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

enum class Place { Induction, Carried };

/// sums = for i in 0 to n by `step`: sums + row[i or carried], [another row[i] = the load], with rows of `elem`.
struct Walk {
  Kernel k;
  ir::Function* f = nullptr;
  explicit Walk(Place place = Place::Induction, bool inbounds = true, bool wide = false, std::int64_t step = 1,
                bool stores = true) {
    Value from = k.view(Elem::F16, {1024}), to = k.view(Elem::F16, {1024});
    if (wide) from = aligned(from);
    const Type tile = from.type().view_tile();
    const Value zero = k.i32(0), start = k.b.constant_float(Elem::F16, 0, tile.shape());
    Operation* loop = k.b.create(Op::For, {zero, k.arg(Elem::I32), k.i32(step), start, zero}, {tile, zero.type()});
    ir::Block& body = loop->add_region();
    const Value i = body.add_arg(zero.type()), sums = body.add_arg(tile), at = body.add_arg(zero.type());
    const ir::Builder outside = k.b;
    k.b.set_to_end(body);
    const Value next = k.binary(Op::AddI, at, k.i32(3));
    const Value x = k.load(from, {place == Place::Induction ? k.binary(Op::AddI, i, zero) : at}, {inbounds})->result();
    if (stores) k.store(x, to, {i}, {true});
    k.b.create(Op::Continue, {k.binary(Op::AddF, sums, x), next}, {});
    k.b = outside;
    k.keep(loop->result());
    f = &k.function();
  }
  /// The view with its base known to be a multiple of 16 bytes.
  Value aligned(Value view) {
    Operation* tensor = view.def()->operand(0).def();
    ir::Builder before = ir::Builder::before(tensor);
    const Value base = tensor->operand(0);
    const Value known =
        before.create(Op::Assume, {base}, {base.type()}, {{ir::AttrName::predicate, ir::DivByAttr{16, {}, {}}}})
            ->result();
    tensor->set_operand(0, known);
    return view;
  }
  bool ahead(bool wide = false) {
    const bool changed = passes::prefetch_loads(*f, wide);
    EXPECT_EQ(problems_of(k.module), "");
    return changed;
  }
};

TEST(PrefetchLoads, TheLoadOfTheNextIterationComesBeforeTheWorkOfThisOne) {
  Walk w;
  EXPECT_TRUE(w.ahead());
  EXPECT_EQ(count(*w.f, Op::LoadViewTko), 2u) << "before the loop, and in it";
  EXPECT_EQ(count(*w.f, Op::StoreViewTko), 2u) << "in the loop, and for the last iteration";
  const Operation* loop = first(*w.f, Op::For);
  bool loaded = false;
  for (const Operation& op : loop->region(0)) {
    loaded = loaded || op.op() == Op::LoadViewTko;
    const bool works = op.op() == Op::StoreViewTko || op.op() == Op::AddF;
    EXPECT_TRUE(loaded || !works);
  }
  EXPECT_EQ(loop->num_results(), 3u);
  EXPECT_EQ(loop->parent_op()->op(), Op::If) << "no iteration, no load";
}

/// An element of the sum of the first `n` of 4 rows, which hold 2, 3, 4 and 5.
float sum_of_rows(const Walk& w, std::int32_t n) {
  constexpr std::size_t kRow = 1024;
  std::vector<f16> rows(6 * kRow);  // a row in front and one behind, which must not be read
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<f16>(static_cast<float>(1 + i / kRow));
  f16 out(0.0F);
  const auto address = [](const f16* p) { return reinterpret_cast<std::uintptr_t>(p); };
  const std::vector<std::uint64_t> slots{address(&rows[kRow]),          4 * kRow,     address(nullptr), 0,
                                         static_cast<std::uint32_t>(n), address(&out)};
  cpu::Program::compile(w.k.module)->run({}, slots, {});
  return static_cast<float>(out);
}

TEST(PrefetchLoads, LoopsOfAnyNumberOfIterationsComputeTheSame) {
  const Walk plain(Place::Induction, true, false, 1, false);
  Walk ahead(Place::Induction, true, false, 1, false);
  ASSERT_TRUE(ahead.ahead());
  for (const std::int32_t n : {-3, 0, 1, 2, 4}) {
    const float expected = n < 1 ? 0 : static_cast<float>(n * (n + 3)) / 2;
    EXPECT_EQ(sum_of_rows(plain, n), expected) << n;
    EXPECT_EQ(sum_of_rows(ahead, n), expected) << n;
  }
}

TEST(PrefetchLoads, WideLoadsOnlyIfAsked) {
  Walk narrow(Place::Induction, true, true), all(Place::Induction, true, true);
  EXPECT_FALSE(narrow.ahead());
  EXPECT_TRUE(all.ahead(true));
}

TEST(PrefetchLoads, NotWhereThePlaceIsNotKnownOrMayBeOutside) {
  EXPECT_FALSE(Walk(Place::Carried).ahead());
  EXPECT_FALSE(Walk(Place::Induction, false).ahead());
  EXPECT_FALSE(Walk(Place::Induction, true, false, 2).ahead());
  EXPECT_TRUE(Walk(Place::Induction, true, false, 1, false).ahead());
}

// ---- several iterations at once -------------------------------------------------------------------------------------

constexpr int kSteps = 64, kColumns = 64;

void recurrence(Mut<i32, kSteps, kColumns> y, In<i32, dyn, dyn> a, In<i32, dyn, dyn> x) {
  auto [zero, c] = y.origin();
  auto Y = y.sub(shape<1, kColumns>);
  auto h = full<i32, 1, kColumns>(1);
  for (auto t : range(x.dim(0))) {
    h = a.load_at(shape<1, kColumns>, t, c) * h + x.load_at(shape<1, kColumns>, t, c);
    Y.store(t, 0, h);
  }
}
/// With a state besides, and rows of the iteration before and the one after.
void neighbours(Mut<i32, kSteps, kColumns> y, In<i32, dyn, dyn> a, In<i32, dyn, dyn> x) {
  auto [zero, c] = y.origin();
  auto Y = y.sub(shape<1, kColumns>);
  Scalar<i32> even = 0;
  for (auto t : range(1, x.dim(0))) {
    auto row = x.load_at(shape<1, kColumns>, t - 1, c) + x.load_at(shape<1, kColumns>, t + 1, c);
    Y.store(t, 0, row * even + a.load_at(shape<1, kColumns>, t, c));
    even = 1 - even;
  }
}
void without_stores(Mut<i32, kSteps, kColumns> y, In<i32, dyn, dyn> a, In<i32, dyn, dyn> x) {
  auto [zero, c] = y.origin();
  auto h = full<i32, 1, kColumns>(1);
  for (auto t : range(x.dim(0))) h = a.load_at(shape<1, kColumns>, t, c) * h + x.load_at(shape<1, kColumns>, t, c);
  y.sub(shape<1, kColumns>).store(0, 0, h);
}
/// Up to any number: the loop does not run where it is below its start.
void up_to(Mut<i32, kSteps, kColumns> y, In<i32, dyn, dyn> a, In<i32, dyn, dyn> x, Scalar<i32> end) {
  auto [zero, c] = y.origin();
  auto Y = y.sub(shape<1, kColumns>);
  auto h = full<i32, 1, kColumns>(1);
  for (auto t : range(1, end)) {
    h = a.load_at(shape<1, kColumns>, t, c) * h + x.load_at(shape<1, kColumns>, t, c);
    Y.store(t, 0, h);
  }
}
/// What an iteration stores, the next one loads.
void through_memory(Mut<i32, kSteps, kColumns> y, In<i32, dyn, dyn> a, In<i32, dyn, dyn> x) {
  auto [zero, c] = y.origin();
  auto Y = y.sub(shape<1, kColumns>);
  Y.store(0, 0, x.load_at(shape<1, kColumns>, 0, c));
  for (auto t : range(1, x.dim(0))) Y.store(t, 0, Y.load(t - 1, 0) * 3 + a.load_at(shape<1, kColumns>, t, c));
}
void much_work(Mut<i32, kSteps, kColumns> y, In<i32, dyn, dyn> a, In<i32, dyn, dyn> x) {
  auto [zero, c] = y.origin();
  auto Y = y.sub(shape<1, kColumns>);
  auto h = full<i32, 1, kColumns>(1);
  for (auto t : range(x.dim(0))) {
    for (int n = 0; n < 100; ++n) h = h * 5 + a.load_at(shape<1, kColumns>, t, c);
    Y.store(t, 0, h);
  }
}

/// Loads and stores in the bodies of loops with this step.
template <auto K>
std::pair<std::size_t, std::size_t> accesses_by_step(std::int64_t step) {
  const Passed p = passed<K>({{30, 64}, {30, 64}, {30, 64}}, {}, "prefetch_loads");
  std::size_t loads = 0, stores = 0;
  ir::walk(p.module->functions[0]->body(), [&](const Operation& loop) {
    if (loop.op() != Op::For || passes::constant_int(loop.operand(2)) != step) return;
    ir::walk(loop.region(0), [&](const Operation& op) {
      loads += op.op() == Op::LoadPtrTko || op.op() == Op::LoadViewTko ? 1 : 0;
      stores += op.op() == Op::StorePtrTko || op.op() == Op::StoreViewTko ? 1 : 0;
    });
  });
  return {loads, stores};
}

/// Warps, and blocks of an SM.
template <auto K>
std::pair<int, int> hints() {
  const passes::Choices c = passed<K>({{30, 64}, {30, 64}, {30, 64}}, {}).choices;
  return {c.warps, c.occupancy};
}

TEST(LoadsOfSeveralIterations, AreThoseOfSmallTilesInLoopsThatStore) {
  using Count = std::pair<std::size_t, std::size_t>;
  EXPECT_EQ(accesses_by_step<&recurrence>(8), Count(16, 8)) << "two tiles of 256 bytes: 4 KiB of eight iterations";
  EXPECT_EQ(accesses_by_step<&recurrence>(1), Count(2, 1)) << "what is left";
  EXPECT_EQ(accesses_by_step<&neighbours>(4), Count(12, 4));
  EXPECT_EQ(accesses_by_step<&without_stores>(1).first, 2u);
  EXPECT_EQ(accesses_by_step<&without_stores>(8), Count(0, 0));
  EXPECT_EQ(accesses_by_step<&much_work>(1).second, 1u);
  EXPECT_EQ(hints<&recurrence>(), std::pair(1, 0)) << "neither neighbours nor bound by instructions";
  EXPECT_EQ(hints<&neighbours>(), std::pair(1, 0));
}
TEST(LoadsOfSeveralIterations, NothingIsLoadedThatTheLoopWouldNotLoad) {
  std::mt19937_64 rng(3);
  for (const std::int64_t steps : {8, 9, 16, 31}) {
    const Extents2 dims(3, {steps, kColumns});
    const Recorded r = recorded<&recurrence>();
    const RandomLaunch launch(r.trace, dims, rng);
    const Passed p = passed(r, dims, {}, "prefetch_loads");
    EXPECT_NO_THROW(launch.run(*p.module, {1, 1, 1})) << steps << " in checked mode";
  }
}
TEST(LoadsOfSeveralIterations, LoopsThatDoNotRunLoadNothing) {
  const std::int32_t lowest = std::numeric_limits<std::int32_t>::min();
  const auto number = [](std::int64_t i) { return static_cast<std::int32_t>((i * 7919) % 1009 - 504); };
  for (const std::int32_t end : {lowest, lowest + 1, lowest + 6, lowest + 8, -9, -1, 0, 1, 2, 8, 9, 10, 17, 30})
    expect_same<&up_to>({}, 1, Array<std::int32_t>({30, 64}, 5), Array<std::int32_t>({30, 64}).each(number),
                        Array<std::int32_t>({30, 64}, 3).each(number), end);
}
TEST(LoadsOfSeveralIterations, AnyNumberOfIterationsComputesTheSame) {
  const auto number = [](std::int64_t i) { return static_cast<std::int32_t>((i * 7919) % 1009 - 504); };
  const auto expect = [&]<auto K>(std::int64_t steps, std::int64_t columns) {
    SCOPED_TRACE(std::to_string(steps) + " steps");
    expect_same<K>({}, static_cast<int>((columns + kColumns - 1) / kColumns), Array<std::int32_t>({steps, columns}, 5),
                   Array<std::int32_t>({steps, columns}).each(number),
                   Array<std::int32_t>({steps, columns}, 3).each(number));
  };
  for (const std::int64_t columns : {64, 100}) {
    if (kSanitizer && columns == 64) continue;
    for (const std::int64_t steps : {1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 15, 16, 17, 31, 64}) {
      expect.template operator()<&recurrence>(steps, columns);
      expect.template operator()<&neighbours>(steps, columns);
      expect.template operator()<&through_memory>(steps, columns);
    }
  }
}

unsigned dice = 0;  // of the loop that is recorded next; every recording of it throws the same

/// A loop with random bounds, places, states and stores, some of them in a branch.
void random_walk(Mut<i32, kSteps, kColumns> y, Mut<i32, kSteps, kColumns> z, In<i32, dyn, dyn> a, In<i32, dyn, dyn> x) {
  std::mt19937 random(dice);
  const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
  auto [zero, c] = y.origin();
  auto Y = y.sub(shape<1, kColumns>), Z = z.sub(shape<1, kColumns>);
  auto h = full<i32, 1, kColumns>(1), g = full<i32, 1, kColumns>(2);
  for (auto t : range(below(3), x.dim(0) - below(3))) {
    auto v = h * 3 + g;
    for (int n = 1 + below(3); n > 0; --n) {
      auto row = below(2) ? t + (below(5) - 2) : x.dim(0) - 1 - t;
      auto loaded = below(2) ? a.load_at(shape<1, kColumns>, row, c) : x.load_at(shape<1, kColumns>, row, c + below(2));
      v = below(2) ? v + loaded : v ^ (loaded * (1 + below(7)));
    }
    if (below(2)) h = v;
    if (below(2)) g = g + v * t;
    Y.store(t, 0, v);
    if (below(2)) {
      tile_if (t % 3 == below(3)) { Z.store(t, 0, h + g); }
    }
  }
}
TEST(LoadsOfSeveralIterations, RandomLoopsComputeTheSame) {
  const auto number = [](std::int64_t i) { return static_cast<std::int32_t>((i * 7919) % 1009 - 504); };
  int unrolled = 0;
  for (dice = 0; dice < rounds(40); ++dice) {
    SCOPED_TRACE("dice " + std::to_string(dice));
    const Recorded r = recorded<&random_walk>();
    for (const std::int64_t steps : {3 + dice % 5, 8 + dice % 9, 40 + dice % 24}) {
      const Array<std::int32_t> out({steps, 100}, 5);
      const auto in = Array<std::int32_t>({steps, 100}).each(number);
      const Passed p = expect_same(r, passes::Tuning(), 2, out, out, in, in);
      ir::walk(p.module->functions[0]->body(), [&](const Operation& op) {
        const auto step = op.op() == Op::For ? passes::constant_int(op.operand(2)) : std::nullopt;
        unrolled += step && *step > 1 ? 1 : 0;
      });
    }
  }
  EXPECT_GT(unrolled, static_cast<int>(rounds(60))) << "of " << rounds(120) << " launches";
}

}  // namespace THIS_FILE
