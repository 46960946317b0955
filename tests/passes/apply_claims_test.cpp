// Modules before and after the claims of a launch are written into them, as text.
#include "tessera/passes/apply_claims.hpp"

#include <gtest/gtest.h>

#include "passes/pass_support.hpp"
#include "tessera/ir/dead_code.hpp"
#include "tessera/passes/predicates.hpp"

namespace tessera::test {
namespace THIS_FILE {

using analysis::ArgRole;
using analysis::Facts;
using analysis::LaunchContract;
using ir::AttrName;
using ir::Elem;
using ir::Op;
using ir::Type;
using ir::Value;

/// One vector of pieces of `extent` elements.
LaunchContract vector_of_pieces(std::int64_t extent) {
  LaunchContract c;
  c.args = {{ArgRole::Base, 0, -1}, {ArgRole::Dim, 0, 0}, {ArgRole::Stride, 0, 0}};
  c.tensors.push_back({.base_arg = 0, .rank = 1, .written = true, .exclusive = true});
  c.pieces_of_tensor = 0;
  c.piece = {extent};
  return c;
}

/// A kernel over such a vector: the arguments, the number of its block, and its size as an i32.
struct OverVector : Kernel {
  Value base = pointer(Elem::F32), dim = arg(Elem::I64), stride = arg(Elem::I64), block, size;
  OverVector() {
    const Type i32 = Type::tile(Elem::I32);
    block = b.create(Op::GetTileBlockId, {}, {i32, i32, i32})->result(0);
    size = b.create(Op::TruncI, {dim}, {i32})->result();
  }
  Value below(Value x, Value y) {
    return b
        .create(Op::CmpI, {x, y}, {x.type().with_element(Elem::I1)},
                {{AttrName::comparison_predicate, ir::ComparisonPredicate::Less},
                 {AttrName::signedness, ir::Signedness::Unsigned}})
        ->result();
  }
  Value count(std::int64_t extent) {
    return b
        .create(Op::DivI, {size, i32(extent)}, {size.type()},
                {{AttrName::signedness, ir::Signedness::Unsigned}, {AttrName::rounding, ir::Rounding::PositiveInf}})
        ->result();
  }
  /// Positions block * extent + 0, 1, ...
  Value positions(std::int64_t extent) {
    const Type line = Type::tile(Elem::I32, {extent});
    const Value first = b.create(Op::MulI, {block, i32(extent)}, {block.type()})->result();
    return b.create(Op::AddI, {b.create(Op::Iota, {}, {line})->result(), splat(first, extent)}, {line})->result();
  }
  Value splat(Value v, std::int64_t n) {
    const std::int64_t one[] = {1}, all[] = {n};
    const Value r = b.create(Op::Reshape, {v}, {v.type().with_shape(one)})->result();
    return b.create(Op::Broadcast, {r}, {v.type().with_shape(all)})->result();
  }
  /// Ends the kernel, applies what holds for a vector of `n` elements at address 0, and cleans up.
  std::string after(std::int64_t extent, std::uint64_t n) {
    b.create(Op::Return, {}, {});
    EXPECT_EQ(problems_of(module), "");
    const Facts facts = Facts::analyze(module, vector_of_pieces(extent), passes::predicate_table());
    const std::uint64_t slots[] = {0, n, 1};
    passes::apply_claims(module, facts, facts.evaluate(slots));
    ir::remove_dead_code(*module.functions.front());
    EXPECT_EQ(problems_of(module), "");
    return ir::print(module);
  }
};

/// if (block < count) store(load) at the block's tile.
void guarded_copy(OverVector& k) {
  const std::int64_t dynamic[] = {ir::kDynamic}, one[] = {1};
  const std::int32_t tile[] = {64};
  const Value view =
      k.b.create_grouped(Op::MakeTensorView, std::vector<Value>{k.base, k.dim}, std::vector<std::uint32_t>{1, 1, 0},
                         std::vector<Type>{Type::tensor_view(Elem::F32, dynamic, one)})
          ->result();
  const Type part = Type::partition_view(view.type(), tile, {}, ir::PaddingValue::Zero);
  const Value tiles = k.b.create(Op::MakePartitionView, {view}, {part})->result();
  ir::Operation* branch = k.b.create(Op::If, {k.below(k.block, k.count(64))}, {});
  ir::Builder in(branch->add_region()), skip(branch->add_region());
  const ir::NamedAttr weak{AttrName::memory_ordering_semantics, ir::MemoryOrdering::Weak};
  const Value loaded =
      in.create_grouped(Op::LoadViewTko, std::vector<Value>{tiles, k.block}, std::vector<std::uint32_t>{1, 1, 0},
                        std::vector<Type>{part.view_tile(), Type::token()}, {weak})
          ->result();
  in.create_grouped(Op::StoreViewTko, std::vector<Value>{loaded, tiles, k.block},
                    std::vector<std::uint32_t>{1, 1, 1, 0}, std::vector<Type>{Type::token()}, {weak});
  in.create(Op::Yield, {}, {});
  skip.create(Op::Yield, {}, {});
}

TEST(ApplyClaims, AGuardGoesAndAccessesAreInbounds) {
  OverVector k;
  guarded_copy(k);
  EXPECT_EQ(k.after(64, 128), R"(entry @kernel(%arg0: tile<ptr<f32>>, %arg1: tile<i64>, %arg2: tile<i64>) {
  %assume = assume div_by<16>, %arg0 : tile<ptr<f32>>
  %assume_0 = assume bounded<0, 2147483647>, %arg1 : tile<i64>
  %assume_assume = assume div_by<64>, %assume_0 : tile<i64>
  %blockId_x, %blockId_y, %blockId_z = get_tile_block_id : tile<i32>
  %tview = make_tensor_view %assume, shape = [%assume_assume], strides = [1] : tile<i64> -> tensor_view<?xf32, strides=[1]>
  %pview = make_partition_view %tview : partition_view<tile=(64), padding_value = zero, tensor_view<?xf32, strides=[1]>>
  %tile, %result_token = load_view_tko weak %pview[%blockId_x] inbounds = [true] : partition_view<tile=(64), padding_value = zero, tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<64xf32>, token
  %0 = store_view_tko weak %tile, %pview[%blockId_x] inbounds = [true] : tile<64xf32>, partition_view<tile=(64), padding_value = zero, tensor_view<?xf32, strides=[1]>>, tile<i32> -> token
  return
}
)");
}

TEST(ApplyClaims, ARaggedVectorIsNotInbounds) {
  OverVector k;
  guarded_copy(k);
  EXPECT_EQ(k.after(64, 100), R"(entry @kernel(%arg0: tile<ptr<f32>>, %arg1: tile<i64>, %arg2: tile<i64>) {
  %assume = assume div_by<16>, %arg0 : tile<ptr<f32>>
  %assume_0 = assume bounded<0, 2147483647>, %arg1 : tile<i64>
  %assume_assume = assume div_by<4>, %assume_0 : tile<i64>
  %blockId_x, %blockId_y, %blockId_z = get_tile_block_id : tile<i32>
  %tview = make_tensor_view %assume, shape = [%assume_assume], strides = [1] : tile<i64> -> tensor_view<?xf32, strides=[1]>
  %pview = make_partition_view %tview : partition_view<tile=(64), padding_value = zero, tensor_view<?xf32, strides=[1]>>
  %tile, %result_token = load_view_tko weak %pview[%blockId_x] : partition_view<tile=(64), padding_value = zero, tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<64xf32>, token
  %0 = store_view_tko weak %tile, %pview[%blockId_x] : tile<64xf32>, partition_view<tile=(64), padding_value = zero, tensor_view<?xf32, strides=[1]>>, tile<i32> -> token
  return
}
)");
}

/// A masked store of zeros at the block's positions below `end`.
void masked_store(OverVector& k, Value end) {
  const Value at = k.positions(16), mask = k.below(at, k.splat(end, 16));
  const Value pointers = k.splat(k.base, 16);
  const Value there = k.b.create(Op::Offset, {pointers, at}, {pointers.type()})->result();
  const std::int64_t shape[] = {16};
  k.b.create_grouped(Op::StorePtrTko, std::vector<Value>{there, k.b.constant_float(Elem::F32, 0, shape), mask},
                     std::vector<std::uint32_t>{1, 1, 1, 0}, std::vector<Type>{Type::token()},
                     {{AttrName::memory_ordering_semantics, ir::MemoryOrdering::Weak}});
}

TEST(ApplyClaims, AMaskThatIsAlwaysTrueIsDropped) {
  OverVector k;
  masked_store(k, k.size);
  EXPECT_EQ(k.after(16, 64), R"(entry @kernel(%arg0: tile<ptr<f32>>, %arg1: tile<i64>, %arg2: tile<i64>) {
  %assume = assume div_by<16>, %arg0 : tile<ptr<f32>>
  %blockId_x, %blockId_y, %blockId_z = get_tile_block_id : tile<i32>
  %cst_16_i32 = constant <i32: 16> : tile<i32>
  %0 = muli %blockId_x, %cst_16_i32 : tile<i32>
  %1 = iota : tile<16xi32>
  %reshape = reshape %0 : tile<i32> -> tile<1xi32>
  %bcast = broadcast %reshape : tile<1xi32> -> tile<16xi32>
  %2 = addi %1, %bcast : tile<16xi32>
  %reshape_0 = reshape %assume : tile<ptr<f32>> -> tile<1xptr<f32>>
  %bcast_1 = broadcast %reshape_0 : tile<1xptr<f32>> -> tile<16xptr<f32>>
  %3 = offset %bcast_1, %2 : tile<16xptr<f32>>, tile<16xi32> -> tile<16xptr<f32>>
  %cst_0_f32 = constant <f32: 0.000000e+00> : tile<16xf32>
  %4 = store_ptr_tko weak %3, %cst_0_f32 : tile<16xptr<f32>>, tile<16xf32> -> token
  return
}
)");
}

TEST(ApplyClaims, AMaskOfARaggedVectorStays) {
  OverVector k;
  masked_store(k, k.size);
  const std::string text = k.after(16, 63);
  EXPECT_NE(text.find("cmpi less_than"), std::string::npos) << text;
  EXPECT_NE(text.find("tile<16xi1>"), std::string::npos) << text;
}

TEST(ApplyClaims, AMaskThatIsAlwaysFalseIsNotDropped) {
  OverVector k;
  masked_store(k, k.i32(0));
  const std::string text = k.after(16, 64);
  EXPECT_TRUE(text.find("store_ptr_tko") == std::string::npos || text.find("tile<16xi1>") != std::string::npos) << text;
}

TEST(ApplyClaims, ASelectTakesTheSideThatIsKnown) {
  for (const bool holds : {true, false}) {
    OverVector k;
    const Value condition = k.below(k.block, holds ? k.count(16) : k.i32(0));
    const Value yes = k.i32(11), no = k.i32(22);
    k.keep(k.op(Op::Select, {condition, yes, no}, yes.type()));
    k.b.create(Op::Return, {}, {});
    LaunchContract contract = vector_of_pieces(16);
    contract.args.push_back({});  // where it is kept
    passes::apply_claims(k.module, Facts::analyze(k.module, contract, passes::predicate_table()), 0);
    const ir::Operation& store = *first(*k.module.functions.front(), Op::StorePtrTko);
    EXPECT_EQ(store.single("value"), holds ? yes : no);
  }
}

TEST(ApplyClaims, AnAssertionThatHoldsGoes) {
  OverVector k;
  k.b.create(Op::Assert, {k.below(k.block, k.count(16))}, {}, {{AttrName::message, "inside"}});
  k.b.create(Op::Assert, {k.below(k.block, k.i32(3))}, {}, {{AttrName::message, "small"}});
  const std::string text = k.after(16, 1024);
  EXPECT_EQ(text.find("inside"), std::string::npos) << text;
  EXPECT_NE(text.find("small"), std::string::npos) << text;
}

TEST(ApplyClaims, NothingHeldChangesOnlyWhatIsAlwaysTrue) {
  OverVector k;
  guarded_copy(k);
  k.b.create(Op::Return, {}, {});
  const Facts facts = Facts::analyze(k.module, vector_of_pieces(64), passes::predicate_table());
  passes::apply_claims(k.module, facts, 0);
  EXPECT_EQ(problems_of(k.module), "");
  EXPECT_EQ(count(*k.module.functions.front(), Op::If), 0u);  // a block's number is below the number of pieces
  EXPECT_EQ(first(*k.module.functions.front(), Op::LoadViewTko)->attr(AttrName::inbounds), nullptr);
}

/// if (3 < size) for i in (0 to size) store 0 at the vector's address.
std::string loop_behind_guard(std::uint64_t n) {
  OverVector k;
  const Value zero = k.i32(0), one = k.i32(1), three = k.i32(3), nothing = k.b.constant_float(Elem::F32, 0);
  const Value runs = k.b.create(Op::CmpI, {three, k.size}, {Type::tile(Elem::I1)},
                                {{AttrName::comparison_predicate, ir::ComparisonPredicate::Less},
                                 {AttrName::signedness, ir::Signedness::Signed}})
                         ->result();
  ir::Operation* branch = k.b.create(Op::If, {runs}, {});
  ir::Builder in(branch->add_region()), skip(branch->add_region());
  ir::Operation* loop = in.create(Op::For, {zero, k.size, one}, {});
  in.create(Op::Yield, {}, {});
  skip.create(Op::Yield, {}, {});
  ir::Block& body = loop->add_region();
  body.add_arg(zero.type());
  ir::Builder b(body);
  b.create_grouped(Op::StorePtrTko, std::vector<Value>{k.base, nothing}, std::vector<std::uint32_t>{1, 1, 0, 0},
                   std::vector<Type>{Type::token()}, {{AttrName::memory_ordering_semantics, ir::MemoryOrdering::Weak}});
  b.create(Op::Continue, {}, {});
  return k.after(64, n);
}

TEST(ApplyClaims, ALoopIsToldThatItRuns) {
  const std::string runs = loop_behind_guard(64), small = loop_behind_guard(3);
  EXPECT_NE(runs.find("assume bounded<4, ?>"), std::string::npos) << runs;
  EXPECT_EQ(runs.find("if %"), std::string::npos) << runs;
  EXPECT_EQ(small.find("assume bounded<4, ?>"), std::string::npos) << small;
}

/// A branch that may leave a loop stays where it is, also when it is decided.
TEST(ApplyClaims, ABranchThatBreaksStays) {
  OverVector k;
  ir::Operation* loop = k.b.create(Op::Loop, {}, {});
  ir::Builder body(loop->add_region());
  const ir::Builder outer = k.b;
  k.b = body;
  k.b.create(Op::Assert, {k.below(k.block, k.i32(3))}, {}, {{AttrName::message, "small"}});
  const Value inside = k.below(k.block, k.count(16));
  ir::Operation* branch = k.b.create(Op::If, {inside}, {});
  ir::Builder(branch->add_region()).create(Op::Break, {}, {});
  ir::Builder(branch->add_region()).create(Op::Yield, {}, {});
  k.b.create(Op::Assert, {k.below(k.block, k.i32(3))}, {}, {{AttrName::message, "keeps the loop alive"}});
  k.b.create(Op::Continue, {}, {});
  k.b = outer;
  const std::string text = k.after(16, 64);
  EXPECT_NE(text.find("break"), std::string::npos) << text;
}

}  // namespace THIS_FILE
}  // namespace tessera::test
