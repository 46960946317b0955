// Checked mode: every violation is found and named, and beside each the nearest legal kernel passes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "codegen/cpu/kernel.hpp"

namespace tessera::test {
namespace {

/// One i32 tensor as region "argument 0 (Mut<i32>)", another as "argument 1 (In<i32>)".
struct Memory {
  std::vector<std::int32_t> a, b;
  std::vector<std::uint8_t> a_written, b_written;
  explicit Memory(std::size_t na, std::size_t nb = 64)
      : a(na, 1), b(nb, 2), a_written(na * 4, 1), b_written(nb * 4, 1) {}

  std::string run(Kernel& k, Grid grid = {}, std::vector<std::int64_t> scalars = {}, bool checked = true) {
    const auto program = k.compile();
    const cpu::Region regions[] = {
        {reinterpret_cast<std::byte*>(a.data()), a.size() * 4, "argument 0 (Mut<i32>)", a_written.data()},
        {reinterpret_cast<std::byte*>(b.data()), b.size() * 4, "argument 1 (In<i32>)", b_written.data()}};
    std::vector<std::uint64_t> args{slot(a.data()), slot(b.data())};
    for (auto s : scalars) args.push_back(slot(s));
    RunOptions options;
    options.checked = checked;
    options.regions = regions;
    options.threads = 4;
    return message_of<DeviceError>([&] { program->run(grid, args, options); });
  }
};

struct Pair : Kernel {
  Value a = pointer(Elem::I32), b_ = pointer(Elem::I32);
  Pair() : Kernel("checked") {}
  Value view(Value p, std::int64_t n, std::int32_t tile) { return partition(tensor(p, {n}, {1}), {tile}); }
};

void expect_text(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "expected \"" << part << "\" in: " << text;
}

// Bounds --------------------------------------------------------------------------------------------------------------

/// The view says `claimed` elements, the tensor holds 60.
std::string view_beyond_tensor(std::int64_t claimed) {
  Memory m(60);
  Pair k;
  k.at(12).store(k.i32(5, {16}), k.view(k.a, claimed, 16), {k.block()});
  return m.run(k, {4});
}
TEST(Checked, AViewLargerThanItsTensor) {
  EXPECT_EQ(view_beyond_tensor(60), "");
  expect_text(view_beyond_tensor(64), {"kernel.cpp:12", "kernel checked",
                                       "store outside argument 0 (Mut<i32>): element 60, but it holds 60 elements"});
}

std::string gather_at(std::int64_t offset) {
  Memory m(64, 32);
  Pair k;
  const Value i = k.arg(k.t(Elem::I32));
  Operation* x = k.at(7).load_ptr(k.offsets(k.b_, k.addi(k.iota(16), k.spread(i, {16}))));
  k.store(x->result(), k.view(k.a, 64, 16), {k.i32(0)});
  return m.run(k, {1}, {offset});
}
TEST(Checked, PointersOutsideTheTensorTheyWereMadeFrom) {
  EXPECT_EQ(gather_at(16), "");
  expect_text(gather_at(17),
              {"kernel.cpp:7", "load outside argument 1 (In<i32>): element 32, but it holds 32 elements"});
  expect_text(gather_at(-1), {"load outside argument 1 (In<i32>): element -1"});
}

TEST(Checked, MaskedLanesAreNotAccesses) {
  Memory m(64, 20);
  Pair k;
  const Value i = k.iota(32);
  Operation* x = k.load_ptr(k.offsets(k.b_, i), k.less(i, k.i32(20, {32})), k.i32(0, {32}));
  k.store(x->result(), k.view(k.a, 64, 32), {k.i32(0)});
  EXPECT_EQ(m.run(k), "");
}

std::string tile_index(std::int64_t index) {
  Memory m(60);
  Pair k;
  const Value i = k.arg(k.t(Elem::I32));
  k.at(31).store(k.load(k.view(k.b_, 60, 16), {i})->result(), k.view(k.a, 60, 16), {k.i32(0)});
  return m.run(k, {1}, {index});
}
TEST(Checked, TileIndicesOutsideTheView) {
  EXPECT_EQ(tile_index(3), "");
  expect_text(tile_index(4), {"kernel.cpp:31", "load at tile index 4 along axis 0, but the view has 4 tiles there"});
  expect_text(tile_index(-1), {"load at tile index -1 along axis 0"});
}

std::string inbounds_claim(std::int64_t n, bool claim) {
  Memory m(64);
  Pair k;
  k.at(5).store(k.i32(1, {16}), k.view(k.a, n, 16), {k.i32(3)}, {}, {claim});
  return m.run(k);
}
TEST(Checked, FalseClaimsToBeInside) {
  EXPECT_EQ(inbounds_claim(64, true), "");
  EXPECT_EQ(inbounds_claim(60, false), "");
  expect_text(inbounds_claim(60, true),
              {"kernel.cpp:5",
               "claims that this store is inside the tensor, but along axis 0 it covers elements 48 to 63 of 60"});
}

// Never written -------------------------------------------------------------------------------------------------------

std::string read_after_writing(bool write_first) {
  Memory m(32);
  m.a_written.assign(m.a_written.size(), 0);
  std::fill_n(m.a_written.begin(), 16 * 4, std::uint8_t{1});
  Pair k;
  const Value view = k.view(k.a, 32, 16);
  Value token = k.token();
  if (write_first) token = k.store(k.i32(3, {16}), view, {k.i32(1)}, token);
  k.at(8).load(view, {k.i32(0)}, token);
  k.at(9).load(view, {k.i32(1)}, token);
  const std::string text = m.run(k);
  if (write_first) {
    EXPECT_EQ(m.a_written, std::vector<std::uint8_t>(32 * 4, 1)) << "the run keeps the record up to date";
  }
  return text;
}
TEST(Checked, ReadsOfElementsThatNothingWrote) {
  EXPECT_EQ(read_after_writing(true), "");
  expect_text(read_after_writing(false),
              {"kernel.cpp:9", "load of an element that nothing has written: argument 0 (Mut<i32>), element 16"});
}

// Index arithmetic ----------------------------------------------------------------------------------------------------

std::string index_product(std::int64_t scale, bool as_index) {
  Memory m(64);
  Pair k;
  const Value s = k.arg(k.t(Elem::I32));
  const Value big = k.at(21).muli(k.addi(s, k.i32(0)), k.i32(1 << 20));
  const Value zero = k.i32(0);
  // x - x: in range whether or not the product wrapped.
  const Value diff = k.same(Op::SubI, {big, big}, {{AttrName::overflow, IntegerOverflow::None}});
  k.store(k.spread(as_index ? zero : big, {16}), k.view(k.a, 64, 16), {as_index ? diff : zero});
  return m.run(k, {1}, {scale});
}
TEST(Checked, OverflowOfIndexArithmetic) {
  EXPECT_EQ(index_product(2047, true), "");
  EXPECT_EQ(index_product(2048, false), "") << "data may wrap";
  expect_text(index_product(2048, true), {"kernel.cpp:21", "index arithmetic overflows i32: 2048 * 1048576"});
}

TEST(Checked, OverflowInOffsetsNamesTheElement) {
  const auto attempt = [](std::int64_t stride) {
    Memory m(64);
    Pair k;
    const Value s = k.arg(k.t(Elem::I32));
    const Value i = k.at(3).muli(k.iota(16), k.spread(s, {16}));
    k.store_ptr(k.offsets(k.a, i), k.i32(1, {16}), k.less(k.iota(16), k.i32(1, {16})));
    return m.run(k, {1}, {stride});
  };
  EXPECT_EQ(attempt(1 << 26), "");
  expect_text(attempt(1 << 28), {"kernel.cpp:3", "index arithmetic overflows i32: 8 * 268435456 (element [8])"});
}

TEST(Checked, HashesMayWrap) {
  Memory m(64);
  Pair k;
  const Value x = k.muli(k.block(), k.i32(-1640531527));
  const Value h = k.same(Op::AndI, {k.same(Op::XOrI, {x, k.i32(0x5bd1e995)}), k.i32(15)});
  k.b.create_grouped(Op::AtomicRMWTko, std::vector<Value>{k.offsets(k.a, h), k.i32(1)},
                     std::vector<std::uint32_t>{1, 1, 0, 0}, std::vector<Type>{k.t(Elem::I32), Type::token()},
                     {{AttrName::memory_ordering_semantics, MemoryOrdering::Relaxed},
                      {AttrName::memory_scope, MemoryScope::Device},
                      {AttrName::mode, AtomicMode::Add}});
  EXPECT_EQ(m.run(k, {8}), "");
}

// Blocks --------------------------------------------------------------------------------------------------------------

/// Block i writes 16 elements from 16 i - shift.
std::string overlapping_stores(std::int64_t shift) {
  Memory m(64);
  Pair k;
  const Value s = k.arg(k.t(Elem::I32));
  const Value first = k.same(
      Op::SubI,
      {k.muli(k.block(), k.i32(16)), k.same(Op::MinI, {k.block(), s}, {{AttrName::signedness, Signedness::Signed}})},
      {{AttrName::overflow, IntegerOverflow::None}});
  k.at(14).store_ptr(k.offsets(k.a, k.addi(k.iota(16), k.spread(first, {16}))), k.i32(1, {16}));
  return m.run(k, {4}, {shift});
}
TEST(Checked, TwoBlocksThatWriteOneElement) {
  EXPECT_EQ(overlapping_stores(0), "");
  expect_text(overlapping_stores(1),
              {"kernel.cpp:14",
               "blocks conflict: store by block 1 of what block 0 touched: argument 0 (Mut<i32>), element 15"});
}

/// Every block reads tile `from` and, if asked, writes its own.
std::string reads_of_others(bool writes, std::int64_t from) {
  Memory m(64);
  Pair k;
  const Value at = k.arg(k.t(Elem::I32));
  const Value i = k.block(), view = k.view(k.a, 64, 16);
  Operation* x = k.at(2).load(view, {at});
  if (writes) k.at(3).store(x->result(), view, {i}, x->result(1));
  return m.run(k, {4}, {from});
}
TEST(Checked, ABlockThatReadsWhatAnotherWrites) {
  EXPECT_EQ(reads_of_others(false, 0), "");
  expect_text(
      reads_of_others(true, 0),
      {"kernel.cpp:2", "blocks conflict: load by block 1 of what block 0 wrote: argument 0 (Mut<i32>), element 0"});
  expect_text(reads_of_others(true, 3),
              {"kernel.cpp:3", "blocks conflict: store by block 3 of what other blocks touched", "element 48"});
}

std::string shared_counter(bool atomic) {
  Memory m(64);
  Pair k;
  if (atomic) {
    k.atomic(k.a, AtomicMode::Add, k.i32(1));
  } else {
    k.at(6).store_ptr(k.a, k.i32(1));
  }
  return m.run(k, {4});
}
TEST(Checked, AtomicUpdatesMayShareAnElement) {
  EXPECT_EQ(shared_counter(true), "");
  expect_text(shared_counter(false), {"kernel.cpp:6", "blocks conflict: store by block 1 of what block 0 touched"});
}

TEST(Checked, AtomicAndPlainAccessesConflictAcrossBlocks) {
  Memory m(64);
  Pair k;
  k.if_else(
      k.equal(k.block(), k.i32(0)), {},
      [&] {
        k.atomic(k.a, AtomicMode::Add, k.i32(1));
        k.end(Op::Yield);
      },
      [&] {
        k.at(77).load_ptr(k.a);
        k.end(Op::Yield);
      });
  expect_text(m.run(k, {2}), {"kernel.cpp:77", "blocks conflict: load by block 1 of what block 0 wrote"});
}

// Order inside a block ------------------------------------------------------------------------------------------------

std::string store_then_load(bool ordered) {
  Memory m(64);
  Pair k;
  const Value view = k.view(k.a, 64, 16);
  const Value t = k.at(1).store(k.i32(4, {16}), view, {k.i32(1)});
  k.at(2).load(view, {k.i32(1)}, ordered ? t : Value{});
  k.at(3).load(view, {k.i32(0)});
  return m.run(k);
}
TEST(Checked, OverlappingAccessesThatNoTokenOrders) {
  EXPECT_EQ(store_then_load(true), "");
  expect_text(store_then_load(false),
              {"kernel.cpp:2", "load overlaps the store at kernel.cpp:1 of the same block and no token orders them",
               "element 16"});
}

/// Two loads, joined or not, then a store over both.
std::string loads_then_store(bool join) {
  Memory m(64);
  Pair k;
  const Value view = k.view(k.a, 64, 16), start = k.token();
  Operation* x = k.at(4).load(view, {k.i32(0)}, start);
  Operation* y = k.at(5).load(view, {k.i32(0)}, start);
  k.at(6).store(x->result(), view, {k.i32(0)}, join ? k.join({x->result(1), y->result(1)}) : x->result(1));
  return m.run(k);
}
TEST(Checked, AStoreMustComeAfterEveryReader) {
  EXPECT_EQ(loads_then_store(true), "");
  expect_text(loads_then_store(false), {"kernel.cpp:6", "store overlaps the load at kernel.cpp:5"});
}

/// A loop that updates one tile, its token carried or not.
std::string loop_update(bool carry) {
  Memory m(64);
  Pair k;
  const Value view = k.view(k.a, 64, 16), start = k.token();
  k.for_loop(k.i32(0), k.i32(5), k.i32(1), {start}, [&](Value, const std::vector<Value>& v) {
    Operation* x = k.at(10).load(view, {k.i32(2)}, carry ? v[0] : start);
    const Value t = k.at(11).store(k.addi(x->result(), k.i32(1, {16})), view, {k.i32(2)}, x->result(1));
    return std::vector<Value>{t};
  });
  const std::string text = m.run(k);
  if (carry) { EXPECT_EQ(m.a[32], 6); }
  return text;
}
TEST(Checked, TokensThroughLoops) {
  EXPECT_EQ(loop_update(true), "");
  expect_text(loop_update(false), {"kernel.cpp:10", "load overlaps the store at kernel.cpp:11"});
}

TEST(Checked, AStoreThatHitsOneElementTwice) {
  const auto attempt = [](std::int64_t step) {
    Memory m(64);
    Pair k;
    const Value s = k.arg(k.t(Elem::I32));
    k.at(15).store_ptr(k.offsets(k.a, k.muli(k.iota(8), k.spread(s, {8}))), k.iota(8));
    return m.run(k, {1}, {step});
  };
  EXPECT_EQ(attempt(1), "");
  expect_text(attempt(0),
              {"kernel.cpp:15", "store writes one element more than once: argument 0 (Mut<i32>), element 0"});
}

// Around it -----------------------------------------------------------------------------------------------------------

TEST(Checked, ScratchMemoryAndGlobalsAreNotTensors) {
  Memory m(64);
  Pair k;
  k.module.globals.push_back({"g", DenseAttr{k.t(Elem::I32, {4}), std::vector<std::byte>(4), true}, 16, false, false});
  const Value scratch =
      k.op(Op::Alloca, {}, k.p(Elem::I32),
           {{AttrName::num_elem, IntAttr{Elem::I64, 16}}, {AttrName::alignment, IntAttr{Elem::I64, 64}}});
  const Value t = k.store_ptr(k.offsets(scratch, k.iota(16)), k.iota(16));
  Operation* x = k.load_ptr(k.offsets(scratch, k.iota(16)), {}, {}, t);
  k.load_ptr(k.offsets(k.op(Op::GetGlobal, {}, k.p(Elem::I32), {{AttrName::name, std::string("g")}}), k.iota(4)));
  k.store(x->result(), k.view(k.a, 64, 16), {k.i32(0)});
  EXPECT_EQ(m.run(k, {1}), "");
  EXPECT_EQ(m.a[5], 5);
}

TEST(Checked, ViolationsLeaveEverythingUsable) {
  expect_text(view_beyond_tensor(64), {"store outside"});
  Memory m(64);
  Pair k;
  k.store(k.i32(5, {16}), k.view(k.a, 64, 16), {k.block()});
  EXPECT_EQ(m.run(k, {4}), "");
  EXPECT_EQ(m.a, std::vector<std::int32_t>(64, 5));
}

TEST(Checked, UncheckedRunsDoNotCare) {
  Memory m(64);
  Pair k;
  const Value view = k.view(k.a, 64, 16);
  k.store(k.i32(4, {16}), view, {k.i32(1)});
  k.store(k.load(view, {k.i32(1)})->result(), view, {k.i32(2)});
  EXPECT_EQ(m.run(k, {1}, {}, false), "");
  EXPECT_EQ(m.a[40], 4);
}

}  // namespace
}  // namespace tessera::test
