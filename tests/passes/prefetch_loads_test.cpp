// Loads of loops go one iteration ahead where their places are known then, and nowhere else.
#include "passes/pass_support.hpp"
#include "tessera/base/float_types.hpp"
#include "tessera/codegen/cpu/program.hpp"

using namespace tessera;
using namespace tessera::test;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

namespace {

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

}  // namespace
