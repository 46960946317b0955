// Which access becomes what, and that pointer tiles touch the same elements.
#include "passes/hints.hpp"
#include "passes/pass_support.hpp"
#include "tessera/passes/tuning_text.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::test;
using ir::AttrName;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

/// A kernel that stores what it loads.
struct Copy {
  Kernel k;
  ir::Function* f = nullptr;
  Copy(std::vector<std::int32_t> tile, std::vector<bool> inside, std::optional<ir::PaddingValue> padding = {}) {
    const Value from = k.view(Elem::F32, tile, padding), to = k.view(Elem::F32, tile);
    const Value block = k.b.create(Op::GetTileBlockId, {}, std::vector<Type>(3, Type::tile(Elem::I32)))->result();
    std::vector<Value> index(tile.size(), k.i32(0));
    index[0] = block;
    k.store(k.load(from, index, inside)->result(), to, index, inside);
    f = &k.function();
  }
  void choose(passes::Tuning tuning = {}, passes::Target target = kHopper) {
    passes::choose_access_paths(*f, target, tuning);
    EXPECT_EQ(problems_of(k.module), "");
  }
};

bool uses_tma(const Operation& access) {
  const ir::Attribute* allowed = passes::hint(access, "allow_tma");
  return !allowed || *allowed->as<bool>();
}

TEST(AccessPaths, InBoundsRowsUseViewsWithoutTensorCopies) {
  Copy copy({1, 1024}, {true, true});
  copy.choose();
  ASSERT_EQ(count(*copy.f, Op::LoadViewTko), 1u);
  EXPECT_FALSE(uses_tma(*first(*copy.f, Op::LoadViewTko)));
  EXPECT_FALSE(uses_tma(*first(*copy.f, Op::StoreViewTko)));
}

TEST(AccessPaths, AnAxisOfExtentOneNeedsNoProof) {
  Copy copy({1, 1024}, {false, true});
  copy.choose();
  ASSERT_EQ(count(*copy.f, Op::LoadViewTko), 1u);
  EXPECT_EQ(first(*copy.f, Op::LoadViewTko)->attr(AttrName::inbounds)->as<ir::BoolArrayAttr>()->values,
            (std::vector<bool>{true, true}));
}

/// The assembler reads small tiles of two axes wrongly through views: passes/pointer_tiles.hpp, views_misread.
TEST(AccessPaths, SmallTilesOfTwoAxesAreLoadedThroughPointers) {
  for (const std::vector<std::int32_t>& tile : {std::vector{4, 16}, {1, 2, 256}, {2, 1, 1, 2}, {16, 1, 32}})
    for (const bool asked : {false, true}) {
      Copy copy(tile, std::vector<bool>(tile.size(), true));
      passes::Tuning tuning;
      if (asked) tuning.access = passes::AccessPath::View;
      copy.choose(tuning);
      EXPECT_EQ(count(*copy.f, Op::LoadPtrTko), 1u) << tile.size() << asked;
      EXPECT_EQ(count(*copy.f, Op::StoreViewTko), 1u) << "stores are right";
      EXPECT_FALSE(first(*copy.f, Op::LoadPtrTko)->single("mask"));
    }
}
TEST(AccessPaths, LargerTilesAndTilesOfOneAxisAreLoadedThroughViews) {
  for (const std::vector<std::int32_t>& tile : {std::vector{4, 256}, {1, 512}, {1, 64, 1}, {1, 1}, {64}}) {
    Copy copy(tile, std::vector<bool>(tile.size(), true));
    copy.choose();
    EXPECT_EQ(count(*copy.f, Op::LoadViewTko), 1u) << tile.size();
  }
}

TEST(AccessPaths, RaggedRowsUseMaskedPointers) {
  Copy copy({1, 1024}, {true, false}, ir::PaddingValue::NegInf);
  copy.choose();
  EXPECT_EQ(count(*copy.f, Op::LoadViewTko) + count(*copy.f, Op::StoreViewTko), 0u);
  const Operation* load = first(*copy.f, Op::LoadPtrTko);
  ASSERT_TRUE(load && load->single("mask") && load->single("paddingValue"));
  EXPECT_EQ(load->single("paddingValue").type(), Type::tile(Elem::F32, {1, 1024}));
  ASSERT_TRUE(first(*copy.f, Op::StorePtrTko));
  EXPECT_TRUE(first(*copy.f, Op::StorePtrTko)->single("mask"));
  EXPECT_EQ(count(*copy.f, Op::CmpI), 2u) << "one mask for the load's axis, one for the store's";
}

TEST(AccessPaths, PointersOfWhatIsInBoundsHaveNoMask) {
  Copy copy({16, 64}, {true, true});
  passes::Tuning tuning;
  tuning.access = passes::AccessPath::Pointer;
  copy.choose(tuning);
  ASSERT_TRUE(first(*copy.f, Op::LoadPtrTko));
  EXPECT_FALSE(first(*copy.f, Op::LoadPtrTko)->single("mask"));
  EXPECT_FALSE(first(*copy.f, Op::LoadPtrTko)->single("paddingValue"));
}

TEST(AccessPaths, OldAssemblersGetPointersInsteadOfClaims) {
  Copy copy({1, 1024}, {true, true});
  passes::Target old = kHopper;
  old.bytecode_minor = 3;
  copy.choose({}, old);
  ASSERT_TRUE(first(*copy.f, Op::LoadPtrTko));
  EXPECT_FALSE(first(*copy.f, Op::LoadPtrTko)->single("mask"));
  EXPECT_LE(ir::required_version(copy.k.module).minor, 3);
}

TEST(AccessPaths, TheCpuIsLeftAlone) {
  Copy copy({1, 1024}, {true, false});
  const std::string before = copy.k.text();
  copy.choose({}, passes::Target{});
  EXPECT_EQ(copy.k.text(), before);
}

/// c = a * b over tiles of `n` squared, loads guarded by a branch.
struct Multiply {
  Kernel k;
  ir::Function* f = nullptr;
  explicit Multiply(std::int32_t n, bool loaded_operands = true) {
    const Value a = k.view(Elem::F16, {n, n}, ir::PaddingValue::Zero), c = k.view(Elem::F16, {n, n});
    const Value guard = k.arg(Elem::I1), zero = k.i32(0);
    const Type half = Type::tile(Elem::F16, {n, n}), single = Type::tile(Elem::F32, {n, n});
    Operation* branch = k.b.create(Op::If, {guard}, {half});
    ir::Block& yes = branch->add_region();
    ir::Block& no = branch->add_region();
    const ir::Builder outside = k.b;
    k.b.set_to_end(yes);
    k.b.create(Op::Yield, {k.load(a, {zero, zero})->result()}, {});
    k.b.set_to_end(no);
    k.b.create(Op::Yield, {k.b.constant_float(Elem::F16, 0, half.shape())}, {});
    k.b = outside;
    Value x = branch->result();
    if (!loaded_operands) x = k.binary(Op::AddF, x, x);
    const Value turned = k.op(Op::Permute, {x}, half, {{AttrName::permutation, ir::I32ArrayAttr{{1, 0}}}});
    const Value acc = k.b.constant_float(Elem::F32, 0, single.shape());
    const Value product = k.op(Op::MmaF, {turned, x, acc}, single);
    k.store(k.op(Op::FToF, {product}, half), c, {zero, zero});
    f = &k.function();
  }
};

TEST(AccessPaths, OperandsAndResultsOfProductsUseTensorCopies) {
  Multiply m(64);
  passes::choose_access_paths(*m.f, kHopper);
  EXPECT_EQ(problems_of(m.k.module), "");
  ASSERT_TRUE(first(*m.f, Op::LoadViewTko) && first(*m.f, Op::StoreViewTko));
  EXPECT_TRUE(uses_tma(*first(*m.f, Op::LoadViewTko)));
  EXPECT_TRUE(uses_tma(*first(*m.f, Op::StoreViewTko)));
}

TEST(AccessPaths, StoresMayBeAskedForAlone) {
  for (const auto& [access, loads_by_tma] : {std::pair{"stores=view", true}, {"access=view stores=tma", false}}) {
    Multiply m(64);
    passes::choose_access_paths(*m.f, kHopper, passes::parse_tuning(access));
    ASSERT_TRUE(first(*m.f, Op::LoadViewTko) && first(*m.f, Op::StoreViewTko)) << access;
    EXPECT_EQ(uses_tma(*first(*m.f, Op::LoadViewTko)), loads_by_tma) << access;
    EXPECT_EQ(uses_tma(*first(*m.f, Op::StoreViewTko)), !loads_by_tma) << access;
  }
}

TEST(AccessPaths, NotWhereTheOperandIsComputed) {
  Multiply m(64, false);
  passes::choose_access_paths(*m.f, kHopper);
  EXPECT_EQ(count(*m.f, Op::LoadViewTko), 0u) << "ragged, and no operand of a product: masked pointers";
  EXPECT_EQ(count(*m.f, Op::LoadPtrTko), 1u);
}

TEST(AccessPaths, NotForSmallTiles) {
  Multiply m(16);
  passes::choose_access_paths(*m.f, kHopper);
  EXPECT_EQ(count(*m.f, Op::LoadViewTko), 0u);
}

}  // namespace THIS_FILE
