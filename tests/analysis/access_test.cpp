// What an operation of memory is as an Access: for every such operation of the table, and for views.
#include "tessera/analysis/access.hpp"

#include <gtest/gtest.h>

#include "passes/pass_support.hpp"

namespace tessera::test {
namespace {

using analysis::Access;
using analysis::AccessKind;
using ir::Elem;
using ir::Op;
using ir::Type;
using ir::Value;

/// An operation with one operand in each of its groups, which are of these types in turn, and its results.
ir::Operation* made_of_dummies(ir::Function& f, const ir::OpInfo& info) {
  ir::Builder b(f.body());
  ir::Operation* op = b.create_unconnected(info.op);
  std::vector<Value> operands;
  for (std::size_t i = 0; i < info.operands.size(); ++i) operands.push_back(f.body().add_arg(Type::tile(Elem::I32)));
  op->set_operands(operands, std::vector<std::uint32_t>(operands.size(), 1));
  for (std::size_t i = 0; i + 1 < info.results.size(); ++i) op->add_result(Type::tile(Elem::F32));
  if (!info.results.empty()) op->add_result(Type::token());
  return op;
}

TEST(Access, EveryOperationThatTouchesMemoryIsOne) {
  int accesses = 0;
  for (const ir::OpInfo& info : ir::all_ops()) {
    if (info.has(ir::traits::ModuleLevel)) continue;
    ir::Module module;
    ir::Function& f = module.add_function("f");
    const ir::Operation* op = made_of_dummies(f, info);
    const auto access = analysis::access_of(*op);
    const bool touches = info.has(ir::traits::Read | ir::traits::Write);
    ASSERT_EQ(access.has_value(), touches) << info.mnemonic;
    ASSERT_EQ(analysis::is_access(*op), touches) << info.mnemonic;
    if (!touches) continue;
    ++accesses;
    EXPECT_EQ(access->loads(), !info.has(ir::traits::Write)) << info.mnemonic;
    EXPECT_EQ(access->stores(), !info.has(ir::traits::Read)) << info.mnemonic;
    EXPECT_TRUE(access->reached_through()) << info.mnemonic;
    EXPECT_EQ(static_cast<bool>(access->value), info.has(ir::traits::Write)) << info.mnemonic;
    EXPECT_TRUE(access->token) << info.mnemonic;
    EXPECT_TRUE(access->token_out.type().is_token()) << info.mnemonic;
    // Every operand is somewhere in it; only a compare-and-swap has one more.
    const std::size_t named = access->index.size() + (access->mask ? 1 : 0) + (access->padding ? 1 : 0) +
                              (access->value ? 1 : 0) + 2;  // what it goes through, and the token
    EXPECT_EQ(named + (info.op == Op::AtomicCASTko ? 1 : 0), op->num_operands()) << info.mnemonic;
  }
  EXPECT_EQ(accesses, 7);
}

TEST(Access, OfViewsAndPointers) {
  Kernel k;
  const Value view = k.view(Elem::F32, {4, 8}), i = k.arg(Elem::I32), j = k.arg(Elem::I32);
  const ir::Operation* load = k.load(view, {i, j}, {true, false});
  const ir::Operation* store = k.store(load->result(0), view, {j, i}, {}, load->result(1));
  const Access from = *analysis::access_of(*load), to = *analysis::access_of(*store);
  EXPECT_EQ(from.view, view);
  EXPECT_EQ(from.index, (std::vector<Value>{i, j}));
  EXPECT_EQ(from.tile, load->result(0).type());
  EXPECT_FALSE(from.token);
  EXPECT_FALSE(from.unordered_load()) << "the store waits for it";
  EXPECT_FALSE(analysis::is_unordered_load(*load));
  EXPECT_EQ(to.value, load->result(0));
  EXPECT_EQ(to.token, load->result(1));
  EXPECT_EQ(to.token_out, store->result(0));
  EXPECT_TRUE(to.through_view() && to.stores());
  EXPECT_EQ(analysis::axes_in_bounds(*load), (std::vector<bool>{true, false}));
  EXPECT_EQ(analysis::axes_in_bounds(*store), (std::vector<bool>{false, false}));
  EXPECT_FALSE(analysis::view_access_of(*view.def()));

  const ir::Operation* tensor = analysis::tensor_behind(view);
  ASSERT_NE(tensor, nullptr);
  const auto axes = analysis::axes_of(*tensor);
  ASSERT_EQ(axes.size(), 2u);
  EXPECT_EQ(axes[0].extent.value, tensor->operand(1));
  EXPECT_EQ(axes[1].extent.value, tensor->operand(2));
  EXPECT_EQ(axes[0].stride.value, tensor->operand(3));
  EXPECT_TRUE(axes[1].stride.is_fixed());
  EXPECT_EQ(axes[1].stride.fixed, 1);
  EXPECT_EQ(analysis::tensor_behind(i), nullptr);
}

TEST(Access, TilesOfOneElementAreInside) {
  Kernel k;
  const Value view = k.view(Elem::F32, {1, 8}), zero = k.i32(0);
  EXPECT_EQ(analysis::axes_in_bounds(*k.load(view, {zero, zero})), (std::vector<bool>{true, false}));
  EXPECT_TRUE(analysis::same_tiles(view.type(), k.view(Elem::F32, {1, 8}).type()));
  EXPECT_FALSE(analysis::same_tiles(view.type(), k.view(Elem::F32, {8, 1}).type()));
}

}  // namespace
}  // namespace tessera::test
