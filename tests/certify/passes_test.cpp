// What passes claim themselves: that accesses share no element, and that a loop they made stays inside a tensor. Every
// claim that is rejected has a relative that is not.
#include "certify/support.hpp"
#include "passes/accepting.hpp"
#include "passes/pass_support.hpp"
#include "tessera/passes/pipeline.hpp"

namespace tessera::test {
namespace {

using analysis::Claim;
using analysis::ClaimKind;

/// A kernel after the passes that take its guards away, and what is asked about it there.
struct Cleaned final : passes::Certifier {
  const Recorded& r;
  std::uint64_t held;
  std::unique_ptr<ir::Module> module;
  mutable std::vector<Claim> asked;  ///< by the passes that have run
  mutable std::size_t rejected = 0;

  Cleaned(const Recorded& recorded, const std::vector<std::vector<std::int64_t>>& dims, const char* stop_after)
      : r(recorded), held(r.held(dims)), module(ir::clone(*r.trace.module)) {
    const std::vector<Claim> claims = r.facts.claims_of(*module);
    passes::Work work;
    work.claims = claims;
    work.predicates = held;
    work.stop_after = stop_after;
    work.certifier = this;
    work.contract = &r.contract;
    passes::run_passes(*module, passes::Target{.sm = 90, .num_sms = 132}, nullptr, work);
  }
  std::vector<bool> judge(const ir::Function& f, std::span<const Claim> of_passes) const override {
    asked.insert(asked.end(), of_passes.begin(), of_passes.end());
    const certify::Verdict v = judged(f, of_passes);
    rejected += v.unproven;
    for (Claim forged : of_passes) {  // while its operation is there
      if (forged.kind == ClaimKind::CountsPieces) {
        forged.index = forged.index == 0 ? 1 : 0;
        EXPECT_FALSE(judged(f, {&forged, 1}).certified[0]) << "the pieces along axis " << forged.index;
      }
      if (forged.kind == ClaimKind::AtMost) {  // bound_loops, far more than is so
        forged.upper = -1;
        EXPECT_FALSE(judged(f, {&forged, 1}).certified[0]) << "operand " << forged.index << " is below 0";
      }
      if (forged.kind != ClaimKind::AtLeast) continue;
      const bool of_loop = forged.op->op() == ir::Op::For;  // bound_loops claims far less than is so
      forged.lower = of_loop ? 100000 : forged.lower;
      for (const std::int64_t more : {200, 1000000}) {  // within and beyond what the number may be
        forged.lower += more;
        EXPECT_FALSE(judged(f, {&forged, 1}).certified[0]) << forged.lower;
      }
    }
    return v.certified;
  }
  std::vector<bool> answer(const ir::Function& f, std::span<const Claim> of_passes) const override {
    const std::size_t before = rejected;
    std::vector<bool> answers = judge(f, of_passes);
    rejected = before;
    return answers;
  }
  certify::Verdict judged(const ir::Function& f, std::span<const Claim> claims) const {
    analysis::Certificate certificate = r.facts.certificate();
    certificate.invariants.clear();
    return certify::check(f, r.facts.contract(), certificate, claims, held);
  }
  std::vector<ir::Operation*> stores() const {
    std::vector<ir::Operation*> found;
    ir::walk(entry_of(*module).body(), [&](ir::Operation& op) {
      if (op.op() == ir::Op::StoreViewTko) found.push_back(&op);
    });
    return found;
  }
  bool certifies(const Claim& claim) const { return judged(entry_of(*module), {&claim, 1}).certified[0]; }
  std::size_t count(ClaimKind kind) const {
    return static_cast<std::size_t>(std::ranges::count(asked, kind, &Claim::kind));
  }
};

// ---- iterations -----------------------------------------------------------------------------------------------------

template <auto Place>
void in_a_loop(Mut<f32, 128> y) {
  auto parts = y.sub(shape<16>);
  for (auto i : range(8)) parts.store(Place(i), full<f32, 16>(7.0f));
}
Tile<i32> forwards(Tile<i32> i) { return i; }
Tile<i32> backwards(Tile<i32> i) { return 7 - i; }
Tile<i32> twice(Tile<i32> i) { return i / 2; }
Tile<i32> first([[maybe_unused]] Tile<i32> i) { return 0; }
Tile<i32> there_and_back(Tile<i32> i) { return min(i, 7 - i); }

template <auto K>
bool iterations_are_apart(const std::vector<std::vector<std::int64_t>>& dims) {
  const Recorded r = recorded<K>();
  const Cleaned c(r, dims, "clean_up");
  const auto stores = c.stores();
  EXPECT_EQ(stores.size(), 1u);
  EXPECT_EQ(stores.front()->parent_op()->op(), ir::Op::For) << "the guard is gone";
  return c.certifies({.kind = ClaimKind::DisjointIterations, .op = stores.front()});
}

TEST(CertifyPasses, IterationsAreApartWhereAnIndexCounts) {
  EXPECT_TRUE((iterations_are_apart<in_a_loop<forwards>>({{256}})));
  EXPECT_TRUE((iterations_are_apart<in_a_loop<backwards>>({{256}})));
  EXPECT_FALSE((iterations_are_apart<in_a_loop<twice>>({{256}})));
  EXPECT_FALSE((iterations_are_apart<in_a_loop<first>>({{256}})));
  EXPECT_FALSE((iterations_are_apart<in_a_loop<there_and_back>>({{256}})));
}

template <int Rows, int Columns>
void in_rows(Mut<f32, 8, 32> y) {
  auto parts = y.sub(shape<Rows, Columns>);
  for (auto i : range(32 / Columns)) parts.store(0, i, full<f32, Rows, Columns>(7.0f));
}

TEST(CertifyPasses, IterationsAreApartOnOneLineOnly) {
  EXPECT_TRUE((iterations_are_apart<in_rows<1, 8>>({{16, 64}})));
  EXPECT_FALSE((iterations_are_apart<in_rows<2, 8>>({{16, 64}}))) << "rows of a tensor may overlap";
}

/// for i in (0 to 8) store number i of a view that is made before the loop or in it.
bool apart_in_loop(bool view_inside) {
  Kernel k;
  const ir::Value p = k.pointer(ir::Elem::F32), extent = k.arg(ir::Elem::I64);
  const auto view = [&] {
    const std::vector<std::int64_t> shape{ir::kDynamic}, strides{1};
    const std::vector<ir::Value> operands{p, extent};
    const std::vector<ir::Type> type{ir::Type::tensor_view(ir::Elem::F32, shape, strides)};
    const std::vector<std::uint32_t> groups{1, 1, 0};
    const ir::Value tensor = k.b.create_grouped(ir::Op::MakeTensorView, operands, groups, type)->result();
    return k.op(ir::Op::MakePartitionView, {tensor},
                ir::Type::partition_view(tensor.type(), std::vector<std::int32_t>{16}, {}, {}));
  };
  const ir::Value tile =
      k.op(ir::Op::IToF, {k.op(ir::Op::Iota, {}, ir::Type::tile(ir::Elem::I32, {16}))},
           ir::Type::tile(ir::Elem::F32, {16}), {{ir::AttrName::signedness, ir::Signedness::Signed}});
  const ir::Value before = view();
  ir::Operation* loop = k.b.create(ir::Op::For, {k.i32(0), k.i32(8), k.i32(1)}, {});
  ir::Block& body = loop->add_region();
  const ir::Value i = body.add_arg(ir::Type::tile(ir::Elem::I32));
  const ir::Builder outside = k.b;
  k.b = ir::Builder(body);
  ir::Operation* store = k.store(tile, view_inside ? view() : before, {i});
  k.b.create(ir::Op::Continue, {}, {});
  k.b = outside;
  const ir::Function& f = k.function();
  const Claim claim{.kind = ClaimKind::DisjointIterations, .op = store};
  return certify::check(f, analysis::LaunchContract(), analysis::Certificate(), {&claim, 1}, 0).certified[0];
}
TEST(CertifyPasses, IterationsAreApartInATensorThatStays) {
  EXPECT_TRUE(apart_in_loop(false));
  EXPECT_FALSE(apart_in_loop(true)) << "it may begin elsewhere in each iteration";
}

// ---- pairs ----------------------------------------------------------------------------------------------------------

template <auto A, auto B>
void two_parts(Mut<f32, 128> y, Scalar<i32> v, Scalar<i32> w) {
  auto parts = y.sub(shape<16>);
  tile_if (v >= 0 && v < 3 && w >= 0 && w < 3) {
    parts.store(A(v, w), full<f32, 16>(7.0f));
    parts.store(B(v, w), full<f32, 16>(8.0f));
  }
}
Tile<i32> at_v(Tile<i32> v, Tile<i32>) { return v; }
Tile<i32> at_w(Tile<i32>, Tile<i32> w) { return w; }
Tile<i32> behind_v(Tile<i32> v, Tile<i32>) { return v + 1; }
Tile<i32> even(Tile<i32> v, Tile<i32>) { return 2 * v; }
Tile<i32> odd(Tile<i32>, Tile<i32> w) { return 2 * w + 1; }
Tile<i32> above(Tile<i32>, Tile<i32> w) { return w + 3; }

template <auto A, auto B>
bool parts_are_apart() {
  const Recorded r = recorded<two_parts<A, B>>();
  const Cleaned c(r, {{256}}, "clean_up");
  const auto stores = c.stores();
  EXPECT_EQ(stores.size(), 2u);
  EXPECT_EQ(stores.front()->block(), stores.back()->block()) << "the guards are gone";
  EXPECT_FALSE(c.certifies({.kind = ClaimKind::Disjoint, .op = stores.back()})) << "apart from nothing";
  return c.certifies({.kind = ClaimKind::Disjoint, .op = stores.back(), .other = stores.front()});
}

TEST(CertifyPasses, PartsAreApartWhereTheirIndicesNeverMeet) {
  EXPECT_TRUE((parts_are_apart<at_v, behind_v>()));
  EXPECT_TRUE((parts_are_apart<even, odd>()));
  EXPECT_TRUE((parts_are_apart<at_v, above>()));
  EXPECT_FALSE((parts_are_apart<at_v, at_v>()));
  EXPECT_FALSE((parts_are_apart<at_v, at_w>()));
  EXPECT_FALSE((parts_are_apart<even, at_w>()));
}

// ---- what the passes ask --------------------------------------------------------------------------------------------

constexpr int kWholeRow = 1 << 30;
void doubled(Mut<f32, 1, kWholeRow> y, In<f32, dyn, dyn> x) {
  auto X = x.tiles(shape<1, 1024>);
  auto parts = y.sub(shape<1, 1024>);
  auto [row, zero] = y.index();
  for (auto i : range(X.count(1))) parts.store(0, i, X.load(row, i) * 2.0f);
}
void doubled_matrix(Mut<f32, 8, 64> y, In<f32, dyn, dyn> x) { y.store(x.load_like(y) * 2.0f); }
void doubled_in_parts(Mut<f32, 128> y) {
  auto parts = y.sub(shape<32>);
  for (int i = 0; i < 4; ++i) parts.store(i, parts.load(i) * 2.0f);
}

TEST(CertifyPasses, EveryPassAsksForWhatItTakesAway) {
  const Recorded row = recorded<doubled>();
  const Cleaned all(row, {{64, 5000}, {64, 5000}}, "");
  EXPECT_GT(all.count(ClaimKind::DisjointIterations), 0u) << "relax_loop_tokens";
  EXPECT_GT(all.count(ClaimKind::Inbounds), 0u) << "split_loops";
  const Recorded parts = recorded<doubled_in_parts>();
  const Cleaned some(parts, {{256}}, "");
  EXPECT_GT(some.count(ClaimKind::Disjoint), 0u) << "relax_block_tokens";
  const Recorded ragged = recorded<api_kernels::softmax<1024>>();
  const Cleaned masks(ragged, {{64, 1000}, {64, 1000}}, "");
  EXPECT_GT(masks.count(ClaimKind::AtLeast), 0u) << "unmask";
  const Recorded matrix = recorded<doubled_matrix>();
  const Cleaned grid(matrix, {{64, 1000}, {64, 1000}}, "");
  EXPECT_GT(grid.count(ClaimKind::CountsPieces), 0u) << "use_grid_axes";
  EXPECT_GT(grid.count(ClaimKind::AtLeast), 0u) << "define_results";
  EXPECT_EQ(all.rejected + some.rejected + masks.rejected + grid.rejected, 0u);
}

/// The tokens that accesses wait for.
std::size_t waits(const ir::Module& module) {
  std::size_t n = 0;
  ir::walk(entry_of(module).body(), [&](const ir::Operation& op) {
    const bool tiles = op.op() == ir::Op::LoadViewTko || op.op() == ir::Op::StoreViewTko;
    n += tiles && op.single("token") ? 1 : 0;
  });
  return n;
}

struct Rejecting final : passes::Certifier {
  std::vector<bool> judge(const ir::Function&, std::span<const Claim> claims) const override {
    return std::vector<bool>(claims.size(), false);
  }
};

TEST(CertifyPasses, WhatIsRejectedIsNotUsed) {
  const Rejecting rejecting;
  const Recorded parts = recorded<doubled_in_parts>();
  const Recorded row = recorded<doubled>();
  for (const Recorded* r : {&parts, &row}) {
    const std::uint64_t held = r == &row ? r->held({{64, 5000}, {64, 5000}}) : r->held({{256}});
    std::size_t left[3], inside[3];
    const passes::Certifier* const certifiers[] = {&rejecting, &kAcceptAll, nullptr};
    for (std::size_t i = 0; i < 3; ++i) {
      const auto module = ir::clone(*r->trace.module);
      const std::vector<Claim> claims = r->facts.claims_of(*module);
      passes::Work work;
      work.claims = claims;
      work.predicates = held;
      work.certifier = certifiers[i];
      work.stop_after = "split_loops";
      passes::run_passes(*module, passes::Target{.sm = 90, .num_sms = 132}, nullptr, work);
      left[i] = waits(*module);
      inside[i] = 0;
      ir::walk(entry_of(*module).body(), [&](const ir::Operation& op) {
        if (const ir::Attribute* flags = op.attr(ir::AttrName::inbounds))
          inside[i] += static_cast<std::size_t>(std::ranges::count(flags->as<ir::BoolArrayAttr>()->values, true));
      });
    }
    EXPECT_GE(left[0], left[1]);
    EXPECT_LE(inside[0], inside[1]);
    EXPECT_TRUE(left[0] > left[1] || inside[0] < inside[1]);
    EXPECT_EQ(left[2], left[0]) << "without a certifier every claim is rejected";
    EXPECT_EQ(inside[2], inside[0]);
  }
}

}  // namespace
}  // namespace tessera::test
