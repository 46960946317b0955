// Early reads: loops read tensors without in-flight writer before griddepcontrol.wait; all other accesses wait for all
// earlier work.
#include <algorithm>
#include <cstdint>

#include "passes/accepting.hpp"
#include "passes/pass_support.hpp"
#include "tessera/codegen/cpu/program.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::test;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

/// What the pass decides; the module stays legal.
passes::Choices choices_of(Kernel& k, ir::Function& f) {
  passes::Tuning tuning;
  tuning.overlap = passes::Overlap::WaitOnly;
  passes::Choices choices;
  passes::overlap_launches(f, kHopper, tuning, choices);
  EXPECT_TRUE(choices.abi.programmatic_launch);
  EXPECT_EQ(choices.abi.launch_flags, !choices.abi.early_reads.empty());
  EXPECT_EQ(problems_of(k.module), "");
  return choices;
}
/// The arguments that are read early.
std::vector<int> early_reads(Kernel& k, ir::Function& f) { return choices_of(k, f).abi.early_reads; }

Value equal(Kernel& k, Value x, Value y) {
  return k.op(Op::CmpI, {x, y}, Type::tile(Elem::I1),
              {{ir::AttrName::comparison_predicate, ir::ComparisonPredicate::Equal},
               {ir::AttrName::signedness, ir::Signedness::Signed}});
}

/// What `token` has waited for: nothing, the writers of tensors that have one in flight, or all earlier work.
enum class Waited { Nothing, Writers, Everything };
Waited waited(Value token) {
  const Operation* def = token ? token.def() : nullptr;
  if (!def) return Waited::Nothing;
  if (def->op() == Op::GdcWaitTko) return Waited::Everything;
  if (def->op() == Op::If) {
    const Waited yes = waited(def->region(0).terminator()->operand(0));
    const Waited no = waited(def->region(1).terminator()->operand(0));
    if (no != Waited::Everything) return Waited::Nothing;
    return yes == Waited::Everything ? yes : Waited::Writers;
  }
  Waited most = Waited::Nothing;
  for (const ir::OpOperand& use : def->operands())
    if (use.value.type().is_token()) most = std::max(most, waited(use.value));
  return most;
}
Waited waited(const Operation& access) { return waited(access.single("token")); }

/// A row of weights times x, summed: loads of `x` before the loop, of `w` in it, of `bias` after it; then a store.
struct Walk {
  Kernel k;
  Value x = k.view(Elem::F32, {64}), w = k.view(Elem::F32, {64}), bias = k.view(Elem::F32, {64});
  Value y = k.view(Elem::F32, {64}), n = k.arg(Elem::I32), zero = k.i32(0);
  Operation *first = nullptr, *loop = nullptr, *inside = nullptr, *late = nullptr, *store = nullptr;

  enum class Loop { Reads, Writes, ReadsWhatComesFromElsewhere };
  ir::Function& function(Loop kind = Loop::Reads) {
    first = k.load(x, {zero});
    const Type tile = first->result().type();
    const Value pointer = kind == Loop::ReadsWhatComesFromElsewhere ? k.arg(Elem::I64) : Value();
    loop = k.b.create(Op::For, {zero, n, k.i32(1), first->result()}, {tile});
    ir::Block& body = loop->add_region();
    const Value i = body.add_arg(zero.type()), acc = body.add_arg(tile);
    const ir::Builder outside = k.b;
    k.b.set_to_end(body);
    inside = k.load(w, {i});
    Value sum = k.binary(Op::AddF, acc, inside->result());
    if (kind == Loop::Writes) k.store(sum, y, {i});
    if (pointer) sum = k.binary(Op::AddF, sum, from_number(pointer, tile));
    k.b.create(Op::Continue, {sum}, {});
    k.b = outside;
    late = k.load(bias, {zero});
    store = k.store(k.binary(Op::AddF, loop->result(), late->result()), y, {zero});
    return k.function();
  }

 private:
  Value from_number(Value number, Type tile) {
    const Type pointer = Type::tile(Type::pointer(Type::element(Elem::F32)), {});
    const Value p = k.op(Op::IntToPtr, {number}, pointer);
    const std::vector<Value> operands{p};
    const std::vector<std::uint32_t> groups{1, 0, 0, 0};
    const std::vector<Type> types{Type::tile(Elem::F32), Type::token()};
    const Value one = k.b.create_grouped(Op::LoadPtrTko, operands, groups, types, {Kernel::weak()})->result();
    return k.op(Op::Broadcast, {k.op(Op::Reshape, {one}, tile.with_shape(std::vector<std::int64_t>{1}))}, tile);
  }
};

TEST(EarlyReads, AWalkReadsBeforeItWaitsForEverything) {
  Walk walk;
  ir::Function& f = walk.function();
  const std::size_t arguments = f.body().num_args();
  // A view is an address and an extent.
  EXPECT_EQ(early_reads(walk.k, f), (std::vector<int>{0, 2, 4}));
  ASSERT_EQ(f.body().num_args(), arguments + 1);
  EXPECT_EQ(f.body().arg(arguments).type(), Type::tile(Elem::I32));
  EXPECT_EQ(waited(*walk.first), Waited::Writers);
  EXPECT_EQ(waited(*walk.inside), Waited::Writers);
  EXPECT_EQ(waited(*walk.late), Waited::Writers);
  EXPECT_EQ(waited(*walk.store), Waited::Everything);
  EXPECT_EQ(count(f, Op::GdcWaitTko), 3u) << "in one way of the first branch, in both of the second";
}

/// Whether the loads before and in the loop go without a wait if the launch says this of the tensors.
bool reads_without_wait(std::uint32_t launch_flags) {
  Walk walk;
  ir::Function& f = walk.function();
  EXPECT_EQ(early_reads(walk.k, f).size(), 3u);
  walk.k.b = ir::Builder::before(first(f, Op::If)->region(0).terminator());
  walk.k.keep(walk.k.i32(1));  // in the way that does not wait
  EXPECT_EQ(problems_of(walk.k.module), "");
  std::vector<float> x(64), w(64), bias(64), y(64);
  std::int32_t went = 0;
  std::vector<std::uint64_t> slots;
  for (std::vector<float>* v : {&x, &w, &bias, &y}) {
    slots.push_back(reinterpret_cast<std::uintptr_t>(v->data()));
    slots.push_back(v->size());
  }
  slots.insert(slots.end(), {1, launch_flags, reinterpret_cast<std::uintptr_t>(&went)});
  cpu::Program::compile(walk.k.module)->run({}, slots, {});
  return went == 1;
}

TEST(EarlyReads, OnlyIfNoTensorThatIsReadHasAWriterInFlight) {
  for (std::uint32_t word = 0; word < 8; ++word) EXPECT_EQ(reads_without_wait(word), word == 7) << word;
  EXPECT_TRUE(reads_without_wait(15)) << "further bits say something else";
  EXPECT_FALSE(reads_without_wait(8));
}

TEST(EarlyReads, TheLastWaitFollowsTheLoop) {
  Walk walk;
  ir::Function& f = walk.function();
  early_reads(walk.k, f);
  const Operation* last = walk.store->prev();
  while (last && last->op() != Op::If) last = last->prev();
  ASSERT_TRUE(last);
  const Operation* compared = last->operand(0).def();
  ASSERT_TRUE(compared && compared->op() == Op::CmpI);
  EXPECT_EQ(compared->operand(0).def(), walk.loop)
      << "an operation that has to wait for a token only goes before the loop";
}

TEST(EarlyReads, WaitsFirstWhereALoopWrites) {
  Walk walk;
  ir::Function& f = walk.function(Walk::Loop::Writes);
  const std::size_t arguments = f.body().num_args();
  EXPECT_EQ(early_reads(walk.k, f), std::vector<int>{});
  EXPECT_EQ(f.body().num_args(), arguments);
  EXPECT_EQ(waited(*walk.first), Waited::Everything);
  EXPECT_EQ(waited(*walk.inside), Waited::Everything);
}

TEST(EarlyReads, WaitsFirstWhereALoopReadsFromAnUnknownAddress) {
  Walk walk;
  ir::Function& f = walk.function(Walk::Loop::ReadsWhatComesFromElsewhere);
  EXPECT_EQ(early_reads(walk.k, f), std::vector<int>{});
  EXPECT_EQ(waited(*walk.first), Waited::Everything);
}

TEST(EarlyReads, WhatIsReadWhereItWritesMayHaveAWriterInFlight) {
  Walk walk;
  Kernel& k = walk.k;
  const Value z = k.view(Elem::F32, {64});
  walk.function();
  k.b = ir::Builder::before(walk.store);
  Operation* loop = k.b.create(Op::For, {walk.zero, walk.n, k.i32(1)}, {});
  ir::Block& body = loop->add_region();
  const Value i = body.add_arg(walk.zero.type());
  k.b.set_to_end(body);
  const Operation* read = k.load(z, {i});
  k.store(read->result(), walk.y, {i});
  k.b.create(Op::Continue, {}, {});
  EXPECT_EQ(early_reads(k, *walk.loop->function()), (std::vector<int>{0, 2, 4})) << "z is read after the wait";
  EXPECT_EQ(waited(*read), Waited::Everything);
  EXPECT_EQ(waited(*walk.inside), Waited::Writers);
}

TEST(EarlyReads, WhereABlockMayEndItHasWaited) {
  for (const bool ends : {false, true}) {
    Walk walk;
    walk.function();
    Kernel& k = walk.k;
    k.b = ir::Builder::before(walk.late);
    const Value none = equal(k, walk.n, walk.zero);
    Operation* branch = k.b.create(Op::If, {none}, {});
    ir::Builder(branch->add_region()).create(ends ? Op::Return : Op::Yield, {}, {});
    ir::Builder(branch->add_region()).create(Op::Yield, {}, {});
    const std::vector<int> expected = ends ? std::vector<int>{0, 2} : std::vector<int>{0, 2, 4};
    EXPECT_EQ(early_reads(k, *walk.loop->function()), expected);
    EXPECT_EQ(waited(*walk.inside), Waited::Writers);
    EXPECT_EQ(waited(*walk.late), ends ? Waited::Everything : Waited::Writers) << "the wait is before the branch";
  }
}

TEST(EarlyReads, WaitsFirstWithoutALoop) {
  Kernel k;
  const Value x = k.view(Elem::F32, {64}), y = k.view(Elem::F32, {64}), zero = k.i32(0);
  const Operation* load = k.load(x, {zero});
  const Operation* store = k.store(load->result(), y, {zero});
  EXPECT_EQ(early_reads(k, k.function()), std::vector<int>{});
  EXPECT_EQ(waited(*load), Waited::Everything);
  EXPECT_EQ(waited(*store), Waited::Everything);
}

/// rows[index[0]] + x: loads of `index`, of `rows` at what it says, and of `x`; then a store.
struct Lookup {
  Kernel k;
  Value index = k.view(Elem::I32, {1}), rows = k.view(Elem::F32, {64}), x = k.view(Elem::F32, {64});
  Value y = k.view(Elem::F32, {64}), zero = k.i32(0);
  Operation *number = nullptr, *row = nullptr, *other = nullptr, *store = nullptr;

  /// `chained`: false for a row whose number is not loaded.
  ir::Function& function(bool chained = true) {
    number = k.load(index, {zero});
    const Value loaded = k.op(Op::Reshape, {number->result()}, Type::tile(Elem::I32));
    row = k.load(rows, {chained ? loaded : zero});
    other = k.load(x, {zero});
    store = k.store(k.binary(Op::AddF, row->result(), other->result()), y, {zero});
    if (!chained) k.keep(loaded);
    return k.function();
  }
};

TEST(EarlyReads, AChainOfLoadsWaitsForEachTensorByItself) {
  Lookup lookup;
  ir::Function& f = lookup.function();
  const passes::Choices choices = choices_of(lookup.k, f);
  EXPECT_EQ(choices.abi.early_reads, (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(choices.abi.early_alone, 1) << "the number is read before the first address that depends on one";
  EXPECT_EQ(choices.early_tiles, 0);
  for (const Operation* load : {lookup.number, lookup.row, lookup.other})
    EXPECT_EQ(waited(*load), Waited::Writers) << "which writers: the next test";
  EXPECT_EQ(waited(*lookup.store), Waited::Everything);
  EXPECT_EQ(count(f, Op::GdcWaitTko), 4u) << "one for each tensor, and one before the store";
  const Operation* last = lookup.store->single("token").def();
  ASSERT_TRUE(last && last->op() == Op::GdcWaitTko);
  std::vector<Value> before = last->single("token").def()->operand_values();
  EXPECT_NE(std::find(before.begin(), before.end(), lookup.other->result(1)), before.end())
      << "the assembler would place a wait that nothing precedes before the loads";
}

/// The ways without a wait that are taken if the launch says this of the tensors: bit n for the n-th.
std::uint32_t goes_without_wait(std::uint32_t launch_flags) {
  Lookup lookup;
  ir::Function& f = lookup.function();
  EXPECT_EQ(early_reads(lookup.k, f).size(), 3u);
  for (const Operation* load : {lookup.number, lookup.row, lookup.other}) {
    lookup.k.b = ir::Builder::before(load->single("token").def()->region(0).terminator());
    lookup.k.keep(lookup.k.i32(1));
  }
  EXPECT_EQ(problems_of(lookup.k.module), "");
  std::int32_t index = 0, went[3] = {};
  std::vector<float> rows(64), x(64), y(64);
  std::vector<std::uint64_t> slots;
  for (const auto& [data, size] :
       std::vector<std::pair<void*, std::uint64_t>>{{&index, 1}, {rows.data(), 64}, {x.data(), 64}, {y.data(), 64}}) {
    slots.push_back(reinterpret_cast<std::uintptr_t>(data));
    slots.push_back(size);
  }
  slots.push_back(launch_flags);
  for (std::int32_t& way : went) slots.push_back(reinterpret_cast<std::uintptr_t>(&way));
  cpu::Program::compile(lookup.k.module)->run({}, slots, {});
  return static_cast<std::uint32_t>(went[0] + 2 * went[1] + 4 * went[2]);
}

TEST(EarlyReads, EachLoadOfAChainDependsOnTheBitOfItsTensor) {
  for (std::uint32_t word = 0; word < 8; ++word) EXPECT_EQ(goes_without_wait(word), word);
  EXPECT_EQ(goes_without_wait(1u << calling::kTriggerBit | 2), 2u);
}

TEST(EarlyReads, AChainCountsTheTensorsThatAreReadBeforeTheFirstLookedUpAddress) {
  Lookup lookup;
  Kernel& k = lookup.k;
  const Value other = k.view(Elem::I32, {1});
  lookup.function();
  k.b = ir::Builder::before(lookup.number);
  const Operation* first = k.load(other, {lookup.zero});  // read before the number, which it does not decide
  k.b = ir::Builder::before(lookup.store);
  const Operation* again = k.load(lookup.x, {lookup.zero});
  ir::Function& f = *lookup.store->function();
  const passes::Choices choices = choices_of(k, f);
  EXPECT_EQ(choices.abi.early_reads, (std::vector<int>{8, 0, 2, 4}));
  EXPECT_EQ(choices.abi.early_alone, 2);
  EXPECT_EQ(count(f, Op::GdcWaitTko), 5u) << "one for each of four tensors, and one before the store";
  EXPECT_EQ(again->single("token"), lookup.other->single("token")) << "its tensor has been waited for";
  EXPECT_EQ(waited(*first), Waited::Writers);
}

TEST(EarlyReads, LoadsThatDoNotDependOnEachOtherWaitFirst) {
  Lookup lookup;
  EXPECT_EQ(early_reads(lookup.k, lookup.function(false)), std::vector<int>{});
  EXPECT_EQ(waited(*lookup.row), Waited::Everything);
}

TEST(EarlyReads, AChainWithALoadInABranchWaitsFirst) {
  Lookup lookup;
  lookup.function();
  Kernel& k = lookup.k;
  k.b = ir::Builder::before(lookup.store);
  const Value some = equal(k, k.arg(Elem::I32), lookup.zero);
  Operation* branch = k.b.create(Op::If, {some}, {lookup.other->result().type()});
  for (const Value view : {lookup.x, lookup.rows}) {
    k.b = ir::Builder(branch->add_region());
    const Value loaded = k.load(view, {lookup.zero})->result();
    k.b.create(Op::Yield, {loaded}, {});
  }
  lookup.store->set_operand(0, branch->result());
  EXPECT_EQ(early_reads(k, *branch->function()), std::vector<int>{}) << "nothing after it would come behind its loads";
  EXPECT_EQ(waited(*lookup.number), Waited::Everything);
}

TEST(EarlyReads, AStoreAfterALoadOfItsTensorWaitsForBoth) {
  Walk walk;
  walk.y = walk.x;  // y = y + ...: the load before the loop, the store after it
  ir::Function& f = walk.function();
  std::vector<Value> operands = walk.store->operand_values();
  std::vector<std::uint32_t> groups(walk.store->group_sizes().begin(), walk.store->group_sizes().end());
  operands.push_back(walk.first->result(1));
  groups.back() = 1;
  walk.store->set_operands(operands, groups);
  EXPECT_EQ(early_reads(walk.k, f), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(waited(*walk.store), Waited::Everything);
  const Operation* join = walk.store->single("token").def();
  ASSERT_TRUE(join && join->op() == Op::JoinTokens);
  const std::vector<Value> joined = join->operand_values();
  EXPECT_NE(std::find(joined.begin(), joined.end(), walk.first->result(1)), joined.end()) << "its order is kept";
}

TEST(EarlyReads, AChainThatALoopCarriesAfterTheWait) {
  Walk walk;
  const Value token = walk.k.op(Op::MakeToken, {}, Type::token());
  walk.function();
  Kernel& k = walk.k;
  Operation* end = walk.store->next();
  k.b = ir::Builder::before(end);
  Operation* loop = k.b.create(Op::For, {walk.zero, walk.n, k.i32(1), token}, {Type::token()});
  ir::Block& body = loop->add_region();
  const Value i = body.add_arg(walk.zero.type()), carried = body.add_arg(Type::token());
  k.b.set_to_end(body);
  const Operation* store = k.store(walk.late->result(), walk.y, {i}, {}, carried);
  k.b.create(Op::Continue, {store->result()}, {});
  ir::Function& f = *walk.loop->function();
  EXPECT_EQ(early_reads(k, f), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(waited(loop->operand(3)), Waited::Everything);
}

TEST(EarlyReads, WaitsFirstWhereTheBitsDoNotSuffice) {
  for (const std::size_t tensors : {calling::kMaxEarlyReads, calling::kMaxEarlyReads + 1}) {
    Kernel k;
    std::vector<Value> views;
    for (std::size_t i = 0; i < tensors; ++i) views.push_back(k.view(Elem::F32, {64}));
    const Value n = k.arg(Elem::I32), zero = k.i32(0);
    const Type tile = Type::tile(Elem::F32, {64});
    Operation* loop = k.b.create(Op::For, {zero, n, k.i32(1), k.b.constant_float(Elem::F32, 0, tile.shape())}, {tile});
    ir::Block& body = loop->add_region();
    const Value i = body.add_arg(zero.type());
    Value sum = body.add_arg(tile);
    const ir::Builder outside = k.b;
    k.b.set_to_end(body);
    for (const Value view : views) sum = k.binary(Op::AddF, sum, k.load(view, {i})->result());
    k.b.create(Op::Continue, {sum}, {});
    k.b = outside;
    k.keep(loop->result());
    EXPECT_EQ(early_reads(k, k.function()).size(), tensors > calling::kTriggerBit ? 0u : tensors)
        << "bit 30 says to tell";
  }
}

TEST(EarlyReads, OptimizeDoesSoUnlessItIsAskedNotTo) {
  EXPECT_TRUE(passes::Tuning{}.early_reads);
  for (const bool asked : {false, true}) {
    Walk walk;
    walk.function();
    passes::Tuning tuning;
    tuning.early_reads = asked;
    const passes::Choices choices = optimize_with_claims(walk.k.module, kHopper, &tuning);
    EXPECT_EQ(problems_of(walk.k.module), "");
    EXPECT_TRUE(choices.abi.programmatic_launch);
    EXPECT_EQ(choices.abi.early_reads.size(), asked ? 3u : 0u);
  }
}

}  // namespace THIS_FILE
