// The low bits of integers: single rules on small modules, then random programs in which every claim becomes an
// assertion; and how wide accesses are.
#include "tessera/analysis/divisibility.hpp"
#include "base/rounds.hpp"

#include <gtest/gtest.h>

#include <tuple>

#include "analysis/random_launch.hpp"
#include "passes/pass_support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/codegen/cpu/program.hpp"

namespace tessera::test {
namespace {

using analysis::Divisibility;
using analysis::LowBits;
using ir::AttrName;
using ir::Elem;
using ir::Op;
using ir::Type;
using ir::Value;

Value multiple_of(Kernel& k, Value v, std::uint64_t n) {
  return k.op(Op::Assume, {v}, v.type(), {{AttrName::predicate, ir::DivByAttr{n, {}, {}}}});
}
ir::NamedAttr sign(ir::Signedness s) { return {AttrName::signedness, s}; }
constexpr auto kSigned = ir::Signedness::Signed, kUnsigned = ir::Signedness::Unsigned;

TEST(Divisibility, Arithmetic) {
  Kernel k;
  const Value x = k.arg(Elem::I32), y = k.arg(Elem::I32), by8 = multiple_of(k, x, 8), by4 = multiple_of(k, y, 4);
  const auto binary = [&](Op op, Value a, Value b) { return k.binary(op, a, b); };
  const auto divided = [&](Op op, Value a, std::int64_t b, ir::Signedness s) {
    return k.op(op, {a, k.i32(b)}, a.type(), {sign(s)});
  };
  struct Row {
    const char* what;
    Value v;
    LowBits expected;
  };
  const Row table[] = {
      {"an argument", x, {0, 0}},
      {"a multiple of 8", by8, {3, 0}},
      {"a multiple of 4", by4, {2, 0}},
      {"8 n + 5", binary(Op::AddI, by8, k.i32(5)), {3, 5}},
      {"5 - 8 n", binary(Op::SubI, k.i32(5), by8), {3, 5}},
      {"(8 n) (4 m)", binary(Op::MulI, by8, by4), {5, 0}},
      {"x * 24", binary(Op::MulI, x, k.i32(24)), {3, 0}},
      {"(8 n + 5) * 6", binary(Op::MulI, binary(Op::AddI, by8, k.i32(5)), k.i32(6)), {4, 14}},
      {"x << 7", binary(Op::ShLI, x, k.i32(7)), {7, 0}},
      {"x << y", binary(Op::ShLI, by8, y), {0, 0}},
      {"(8 n) >> 2", k.op(Op::ShRI, {by8, k.i32(2)}, x.type(), {sign(kSigned)}), {1, 0}},
      {"x & -16", binary(Op::AndI, x, k.i32(-16)), {4, 0}},
      {"(8 n + 5) | 2", binary(Op::OrI, binary(Op::AddI, by8, k.i32(5)), k.i32(2)), {3, 7}},
      {"(8 n) / 4", divided(Op::DivI, by8, 4, kSigned), {1, 0}},
      {"(8 n + 5) / 4, signed: cut towards 0", divided(Op::DivI, binary(Op::AddI, by8, k.i32(5)), 4, kSigned), {0, 0}},
      {"(8 n + 5) / 4, unsigned", divided(Op::DivI, binary(Op::AddI, by8, k.i32(5)), 4, kUnsigned), {1, 1}},
      {"(8 n + 5) % 4", divided(Op::RemI, binary(Op::AddI, by8, k.i32(5)), 4, kSigned), {2, 1}},
      {"(8 n + 5) % 24", divided(Op::RemI, binary(Op::AddI, by8, k.i32(5)), 24, kSigned), {3, 5}},
      {"x % 24", divided(Op::RemI, x, 24, kSigned), {0, 0}},
      {"(8 n) % (4 m), where m may be 0", k.op(Op::RemI, {by8, by4}, x.type(), {sign(kSigned)}), {0, 0}},
      {"(8 n) % x", k.op(Op::RemI, {by8, x}, x.type(), {sign(kSigned)}), {0, 0}},
      {"min(8 n, 12)", k.op(Op::MinI, {by8, k.i32(12)}, x.type(), {sign(kSigned)}), {2, 0}},
  };
  k.function();
  const Divisibility known(*k.module.functions[0]);
  for (const Row& row : table) {
    EXPECT_EQ(known.of(row.v).known, row.expected.known) << row.what;
    EXPECT_EQ(known.of(row.v).low, row.expected.low) << row.what;
  }
}

TEST(Divisibility, LoopsKeepWhatEveryIterationKeeps) {
  Kernel k;
  const Value n = k.arg(Elem::I32), start = multiple_of(k, k.arg(Elem::I32), 16), odd = k.i32(3);
  ir::Operation* loop = k.b.create(Op::For, {k.i32(8), n, k.i32(4), start, odd}, {start.type(), odd.type()});
  ir::Block& body = loop->add_region();
  const Value i = body.add_arg(n.type()), a = body.add_arg(n.type()), c = body.add_arg(n.type());
  const ir::Builder outside = k.b;
  k.b.set_to_end(body);
  const Value next = k.binary(Op::AddI, a, k.binary(Op::MulI, i, k.i32(2)));
  k.b.create(Op::Continue, {next, k.binary(Op::AddI, c, k.i32(2))}, {});
  k.b = outside;
  k.function();
  const Divisibility known(*k.module.functions[0]);
  EXPECT_EQ(known.of(i), (LowBits{2, 0}));
  EXPECT_EQ(known.of(a), (LowBits{3, 0}));
  EXPECT_EQ(known.of(loop->result(0)), (LowBits{3, 0}));
  EXPECT_EQ(known.of(c), (LowBits{1, 1}));
}

TEST(Divisibility, AddressesInBytes) {
  Kernel k;
  const Value base = multiple_of(k, k.pointer(Elem::F16), 16), n = multiple_of(k, k.arg(Elem::I32), 4);
  const Value moved = k.op(Op::Offset, {base, n}, base.type());
  k.function();
  EXPECT_EQ(Divisibility(*k.module.functions[0]).of(moved), (LowBits{3, 0}));
}

/// Bytes of a load of rows of 1024 halves, with what is known of base, stride and extent.
analysis::AccessWidth access_width_of_rows(std::uint64_t base, std::uint64_t extent, std::uint64_t stride,
                                           bool inbounds) {
  Kernel k;
  Value p = k.pointer(Elem::F16), rows = k.arg(Elem::I64), columns = k.arg(Elem::I64), step = k.arg(Elem::I64);
  p = multiple_of(k, p, base);
  columns = multiple_of(k, columns, extent);
  step = multiple_of(k, step, stride);
  const Value row = k.arg(Elem::I32);
  const std::vector<std::uint32_t> groups{1, 2, 1};
  const std::vector<Value> operands{p, rows, columns, step};
  const std::vector<std::int64_t> shape{ir::kDynamic, ir::kDynamic}, strides{ir::kDynamic, 1};
  const std::vector<std::int32_t> tile{1, 1024};
  const std::vector<Type> type{Type::tensor_view(Elem::F16, shape, strides)};
  const Value tensor = k.b.create_grouped(Op::MakeTensorView, operands, groups, type)->result();
  const Value view = k.op(Op::MakePartitionView, {tensor}, Type::partition_view(tensor.type(), tile, {}, {}));
  const ir::Operation* load = k.load(view, {row, k.i32(0)}, {true, inbounds});
  k.function();
  return analysis::width_of(*load, Divisibility(*k.module.functions[0]));
}
std::int64_t width_of_rows(std::uint64_t base, std::uint64_t extent, std::uint64_t stride, bool inbounds) {
  return access_width_of_rows(base, extent, stride, inbounds).bytes;
}
TEST(Divisibility, WidthOfAccesses) {
  EXPECT_EQ(width_of_rows(16, 1, 8, true), 16);
  EXPECT_EQ(width_of_rows(16, 8, 8, false), 16) << "rows of 1000: whole vectors are masked";
  EXPECT_EQ(width_of_rows(16, 1, 8, false), 2) << "a mask may cut a vector";
  EXPECT_EQ(access_width_of_rows(16, 1, 8, false).in_bounds, 16) << "as a tensor copy sees it";
  EXPECT_EQ(access_width_of_rows(16, 1, 1, false).in_bounds, 2);
  EXPECT_EQ(width_of_rows(16, 4, 8, false), 8);
  EXPECT_EQ(width_of_rows(16, 1, 1, true), 2) << "rows of 1023";
  EXPECT_EQ(width_of_rows(8, 8, 8, true), 8);
  EXPECT_EQ(width_of_rows(2, 8, 8, true), 2);
}

TEST(Divisibility, WidthOfPointerTiles) {
  for (const auto& [row_stride, count, expected] :
       {std::tuple{8, 8, 16}, std::tuple{8, 4, 8}, std::tuple{1, 8, 2}, std::tuple{8, 1, 2}}) {
    Kernel k;
    const Value base = multiple_of(k, k.pointer(Elem::F16), 16);
    const Value offset = multiple_of(k, k.arg(Elem::I64), static_cast<std::uint64_t>(row_stride));
    const Value inside = multiple_of(k, k.arg(Elem::I32), static_cast<std::uint64_t>(count));
    const Value row = k.op(Op::Offset, {base, offset}, base.type());
    const std::vector<std::int64_t> one{1}, all{1024};
    const auto spread = [&](Value v) {
      const Value r = k.op(Op::Reshape, {v}, v.type().with_shape(one));
      return k.op(Op::Broadcast, {r}, v.type().with_shape(all));
    };
    const Value steps = k.op(Op::Iota, {}, inside.type().with_shape(all));
    const Value pointers = k.op(Op::Offset, {spread(row), steps}, base.type().with_shape(all));
    const Value mask = k.op(Op::CmpI, {steps, spread(inside)}, steps.type().with_element(Elem::I1),
                            {{AttrName::comparison_predicate, ir::ComparisonPredicate::Less}, sign(kSigned)});
    const std::vector<Value> operands{pointers, mask};
    const std::vector<std::uint32_t> groups{1, 1, 0, 0};
    const std::vector<Type> types{Type::tile(Elem::F16, {1024}), Type::token()};
    const ir::Operation* load = k.b.create_grouped(Op::LoadPtrTko, operands, groups, types, {Kernel::weak()});
    k.function();
    EXPECT_EQ(analysis::vector_bytes(*load, Divisibility(*k.module.functions[0])), expected);
  }
}

/// Asserts that `v` has the low bits that the analysis found.
void assert_low_bits(ir::Builder b, Value v, LowBits bits) {
  const Elem elem = v.type().elem();
  const auto shape = v.type().shape();
  const std::uint64_t mask = bits.known >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits.known) - 1;
  const Value left =
      b.create(Op::AndI, {v, b.constant_int(elem, static_cast<std::int64_t>(mask), shape)}, {v.type()})->result();
  const Value same = b.create(Op::CmpI, {left, b.constant_int(elem, static_cast<std::int64_t>(bits.low), shape)},
                              {v.type().with_element(Elem::I1)},
                              {{AttrName::comparison_predicate, ir::ComparisonPredicate::Equal}, sign(kSigned)})
                         ->result();
  b.create(Op::Assert, {same}, {}, {{AttrName::message, std::string("low bits")}});
}

TEST(Divisibility, LowBitsOfRandomPrograms) {
  int claims = 0;
  for (std::uint64_t seed = 0; seed < rounds(400); ++seed) {
    std::mt19937_64 rng(seed);
    const analysis::LaunchContract contract = random_contract(rng);
    const auto module = RandomProgram(rng, contract).take();
    ir::Function& f = *module->functions[0];
    const Divisibility known(f);
    std::vector<Value> values;
    ir::walk(f.body(), [&](ir::Operation& op) {
      if (op.op() == Op::Constant) return;
      for (std::size_t i = 0; i < op.num_results(); ++i) values.push_back(op.result(i));
      for (std::size_t r = 0; r < op.num_regions(); ++r)
        for (std::size_t a = 0; a < op.region(r).num_args(); ++a) values.push_back(op.region(r).arg(a));
    });
    for (const Value v : values) {
      const LowBits bits = known.of(v);
      if (bits.known == 0 || v.type().is_pointer()) continue;
      ++claims;
      ir::Operation* after = v.def() ? v.def()->next() : v.argument_block()->front();
      assert_low_bits(ir::Builder::before(after), v, bits);
    }
    for (int launch = 0; launch < 3; ++launch) {
      const auto slots = random_launch(rng, contract);
      cpu::RunOptions options;
      options.threads = 1;
      try {
        cpu::Program::compile(*module)->run(grid_of(contract, slots), slots, options);
      } catch (const Error& e) { FAIL() << "seed " << seed << ": " << e.what() << "\n" << ir::print(*module); }
    }
  }
  EXPECT_GT(claims, static_cast<int>(rounds(2000)));  // otherwise this test has seen nothing
}

}  // namespace
}  // namespace tessera::test
