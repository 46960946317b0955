// Straight-line kernels: values, layouts, reductions, matrix multiplication.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "codegen/cpu/kernel.hpp"

namespace tessera::test {
namespace {

std::vector<float> ramp(std::size_t n, float scale = 1.0f, float start = 0.0f) {
  std::vector<float> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = start + scale * static_cast<float>(i);
  return v;
}

/// y = a * x + y over pieces of 128 with a dynamic length.
std::shared_ptr<const Program> saxpy() {
  Kernel k("saxpy");
  const Value y = k.pointer(Elem::F32), x = k.pointer(Elem::F32), a = k.arg(k.t(Elem::F32)), n = k.arg(k.t(Elem::I64));
  const Value ys = k.partition(k.tensor(y, {kDynamic}, {1}, {n}), {128});
  const Value xs = k.partition(k.tensor(x, {kDynamic}, {1}, {n}), {128});
  const Value i = k.block();
  const Value sum = k.addf(k.mulf(k.spread(a, {128}), k.load(xs, {i})->result()), k.load(ys, {i})->result());
  k.store(sum, ys, {i});
  return k.compile();
}

TEST(Program, SaxpyWithARaggedEdge) {
  const auto program = saxpy();
  EXPECT_EQ(program->name(), "saxpy");
  auto y = ramp(1000 + 8), x = ramp(1000, 0.5f, 3.0f);
  const auto before = y;
  const float a = 2.0f;
  std::uint64_t bits = 0;
  std::memcpy(&bits, &a, 4);
  const std::uint64_t args[] = {slot(y.data()), slot(x.data()), bits, slot(1000)};
  program->run({8}, args);
  for (std::size_t i = 0; i < 1000; ++i) ASSERT_EQ(y[i], 2.0f * x[i] + before[i]) << i;
  for (std::size_t i = 1000; i < y.size(); ++i) ASSERT_EQ(y[i], before[i]) << "written past the end";
}

TEST(Program, TooFewArgumentsAreAnError) {
  const std::uint64_t args[] = {0, 0};
  EXPECT_NE(message_of<DeviceError>([&] { saxpy()->run({1}, args); }).find("takes 4 argument slots, found 2"),
            std::string::npos);
}

TEST(Program, ModulesWithoutExactlyOneEntryAreErrors) {
  EXPECT_THROW(Program::compile(Module{}), CompileError);
  Module two;
  for (const char* name : {"a", "b"}) Builder(two.add_function(name).body()).create(Op::Return, {}, {});
  EXPECT_NE(message_of<CompileError>([&] { Program::compile(two); }).find("@a and @b"), std::string::npos);
}

TEST(Program, BroadcastsOfRowsColumnsAndScalars) {
  Kernel k;
  const Value out = k.pointer(Elem::F32), row = k.pointer(Elem::F32), col = k.pointer(Elem::F32);
  const Value r = k.load(k.partition(k.tensor(row, {1, 16}, {16, 1}), {1, 16}), {k.i32(0), k.i32(0)})->result();
  const Value c = k.load(k.partition(k.tensor(col, {8, 1}, {1, 1}), {8, 1}), {k.i32(0), k.i32(0)})->result();
  const Value sum = k.addf(k.broadcast(r, {8, 16}), k.broadcast(k.mulf(c, k.f32(100, {8, 1})), {8, 16}));
  k.store(k.addf(sum, k.f32(0.5, {8, 16})), k.partition(k.tensor(out, {8, 16}, {16, 1}), {8, 16}),
          {k.i32(0), k.i32(0)});
  std::vector<float> o(128), rows = ramp(16), cols = ramp(8);
  const std::uint64_t args[] = {slot(o.data()), slot(rows.data()), slot(cols.data())};
  k.compile()->run({}, args);
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 16; ++j)
      ASSERT_EQ(o[static_cast<std::size_t>(i * 16 + j)], static_cast<float>(j + 100 * i) + 0.5f);
}

TEST(Program, MiddleAxisBroadcastsNeedAnOuterLoop) {
  Kernel k;
  const Value out = k.pointer(Elem::F32), in = k.pointer(Elem::F32), mid = k.pointer(Elem::F32);
  const std::vector<Value> zero(3, k.i32(0));
  const Value x = k.load(k.partition(k.tensor(in, {4, 2, 8}, {16, 8, 1}), {4, 2, 8}), zero)->result();
  const Value m = k.load(k.partition(k.tensor(mid, {4, 1, 8}, {8, 8, 1}), {4, 1, 8}), zero)->result();
  k.store(k.addf(x, k.broadcast(m, {4, 2, 8})), k.partition(k.tensor(out, {4, 2, 8}, {16, 8, 1}), {4, 2, 8}), zero);
  std::vector<float> o(64), xs = ramp(64), ms = ramp(32, 1000.0f);
  const std::uint64_t args[] = {slot(o.data()), slot(xs.data()), slot(ms.data())};
  k.compile()->run({}, args);
  for (std::size_t a = 0; a < 4; ++a)
    for (std::size_t b = 0; b < 2; ++b)
      for (std::size_t c = 0; c < 8; ++c) ASSERT_EQ(o[a * 16 + b * 8 + c], xs[a * 16 + b * 8 + c] + ms[a * 8 + c]);
}

TEST(Program, ShapesReshapePermuteExtractInsertCat) {
  Kernel k;
  const Value out = k.pointer(Elem::I32), which = k.arg(k.t(Elem::I32));
  const Value x = k.reshape(k.iota(32), {4, 8});                                           // x[i][j] = 8 i + j
  const Value turned = k.permute(x, {1, 0});                                               // 8 x 4
  const Value flat = k.reshape(turned, {32});                                              // needs a copy
  const Value fixed = k.op(Op::Extract, {x, k.i32(1), k.i32(0)}, k.t(Elem::I32, {2, 4}));  // rows 2,3; columns 0..3
  const Value moving = k.op(Op::Extract, {x, which, k.i32(1)}, k.t(Elem::I32, {2, 4}));
  const Value both = k.op(Op::Cat, {fixed, moving}, k.t(Elem::I32, {2, 8}), {{AttrName::dim, IntAttr{Elem::I64, 1}}});
  const Value inserted = k.op(Op::Insert, {k.i32(-1, {2, 4}), x, which, k.i32(0)}, k.t(Elem::I32, {4, 8}));
  const std::vector<Value> zero{k.i32(0)};
  const Value view = k.partition(k.tensor(out, {96}, {1}), {16});
  const auto put = [&](Value v, int at, std::int64_t n) {
    for (std::int64_t part = 0; part < n / 16; ++part)
      k.store(k.op(Op::Extract, {k.reshape(v, {n}), k.i32(part)}, k.t(Elem::I32, {16})), view, {k.i32(at + part)});
  };
  put(flat, 0, 32);
  put(both, 2, 16);
  put(inserted, 3, 32);
  put(k.addi(k.reshape(x, {32}), k.reshape(k.permute(turned, {1, 0}), {32})), 0, 0);
  std::vector<std::int32_t> o(96);
  const std::uint64_t args[] = {slot(o.data()), slot(1)};
  k.compile()->run({}, args);
  for (int j = 0; j < 8; ++j)
    for (int i = 0; i < 4; ++i) ASSERT_EQ(o[static_cast<std::size_t>(j * 4 + i)], 8 * i + j);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 8; ++j) ASSERT_EQ(o[static_cast<std::size_t>(32 + i * 8 + j)], 8 * (i + 2) + j);
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 8; ++j)
      ASSERT_EQ(o[static_cast<std::size_t>(48 + i * 8 + j)], i >= 2 && j < 4 ? -1 : 8 * i + j);
}

/// One row per block: exp(x - max) / sum.
TEST(Program, SoftmaxRows) {
  constexpr std::int64_t rows = 5, columns = 200, tile = 256;
  Kernel k("softmax");
  const Value y = k.pointer(Elem::F32), x = k.pointer(Elem::F32);
  const Value i = k.block(), zero = k.i32(0);
  const Value in = k.partition(k.tensor(x, {rows, columns}, {columns, 1}), {1, tile}, PaddingValue::NegInf);
  const Value t = k.load(in, {i, zero})->result();
  const Attribute lowest = FloatAttr{Elem::F32, 0xff800000};
  const Value m = k.fold(Op::Reduce, t, 1, k.t(Elem::F32, {1}), lowest, Op::MaxF);
  const Value e = k.same(Op::Exp, {k.same(Op::SubF, {t, k.broadcast(k.reshape(m, {1, 1}), {1, tile})})});
  const Value s = k.fold(Op::Reduce, e, 1, k.t(Elem::F32, {1}), FloatAttr{Elem::F32, 0}, Op::AddF);
  k.store(k.same(Op::DivF, {e, k.broadcast(k.reshape(s, {1, 1}), {1, tile})}),
          k.partition(k.tensor(y, {rows, columns}, {columns, 1}), {1, tile}), {i, zero});
  auto xs = ramp(rows * columns, 0.013f, -4.0f);
  std::vector<float> ys(rows * columns, -1.0f);
  const std::uint64_t args[] = {slot(ys.data()), slot(xs.data())};
  k.compile()->run({rows}, args);
  for (std::size_t r = 0; r < rows; ++r) {
    double sum = 0, top = xs[r * columns + columns - 1];
    for (std::size_t j = 0; j < columns; ++j) sum += std::exp(xs[r * columns + j] - top);
    for (std::size_t j = 0; j < columns; ++j)
      ASSERT_NEAR(ys[r * columns + j], std::exp(xs[r * columns + j] - top) / sum, 1e-6) << r << ' ' << j;
  }
}

TEST(Program, MatrixProductWithATransposedOperand) {
  constexpr std::int64_t m = 16, n = 32, kk = 8;
  Kernel k;
  const Value c = k.pointer(Elem::F32), a = k.pointer(Elem::F32), bt = k.pointer(Elem::F32);
  const std::vector<Value> zero(2, k.i32(0));
  const Value at = k.load(k.partition(k.tensor(a, {m, kk}, {kk, 1}), {m, kk}), zero)->result();
  const Value b = k.permute(k.load(k.partition(k.tensor(bt, {n, kk}, {kk, 1}), {n, kk}), zero)->result(), {1, 0});
  k.store(k.op(Op::MmaF, {at, b, k.f32(1.0, {m, n})}, k.t(Elem::F32, {m, n})),
          k.partition(k.tensor(c, {m, n}, {n, 1}), {m, n}), zero);
  auto as = ramp(m * kk, 0.25f), bs = ramp(n * kk, -0.5f, 7.0f);
  std::vector<float> cs(m * n);
  const std::uint64_t args[] = {slot(cs.data()), slot(as.data()), slot(bs.data())};
  k.compile()->run({}, args);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      double want = 1;
      for (std::size_t l = 0; l < kk; ++l) want += static_cast<double>(as[i * kk + l]) * bs[j * kk + l];
      ASSERT_NEAR(cs[i * n + j], want, 1e-3 * std::abs(want));
    }
}

/// Along either axis of 4 x 8 numbers of which none lies on the side of zero that the identity is on.
TEST(Program, ReductionsStartFromTheirIdentity) {
  struct Row {
    Op op;
    std::int64_t identity;
    int sign;
  };
  for (const Row& row : {Row{Op::MaxI, INT32_MIN, -1}, Row{Op::MinI, INT32_MAX, 1}})
    for (const std::int64_t dim : {0, 1}) {
      Kernel k;
      const Value out = k.pointer(Elem::I32), in = k.pointer(Elem::I32);
      const Value x = k.load(k.partition(k.tensor(in, {4, 8}, {8, 1}), {4, 8}), {k.i32(0), k.i32(0)})->result();
      const std::int64_t n = dim == 0 ? 8 : 4;
      const Value best = k.fold(Op::Reduce, x, dim, k.t(Elem::I32, {n}), IntAttr{Elem::I32, row.identity}, row.op,
                                {{AttrName::signedness, Signedness::Signed}});
      k.store(best, k.partition(k.tensor(out, {n}, {1}), {static_cast<std::int32_t>(n)}), {k.i32(0)});
      std::vector<std::int32_t> xs(32), have(static_cast<std::size_t>(n)), want(have.size());
      for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = row.sign * static_cast<std::int32_t>(100 + i * 37 % 64);
      for (std::size_t r = 0; r < want.size(); ++r) {
        want[r] = static_cast<std::int32_t>(row.identity);
        for (std::size_t i = 0; i < xs.size(); ++i)
          if ((dim == 0 ? i % 8 : i / 8) == r)
            want[r] = row.op == Op::MaxI ? std::max(want[r], xs[i]) : std::min(want[r], xs[i]);
      }
      const std::uint64_t args[] = {slot(have.data()), slot(xs.data())};
      k.compile()->run({}, args);
      EXPECT_EQ(have, want) << "axis " << dim;
    }
}

/// argmax: a region over two operands, no single known operation.
TEST(Program, ReductionsWithARegionOfTheirOwn) {
  constexpr std::int64_t n = 64;
  Kernel k;
  const Value out = k.pointer(Elem::F32), where = k.pointer(Elem::I32), in = k.pointer(Elem::F32);
  const Value x = k.load(k.partition(k.tensor(in, {4, n}, {n, 1}), {4, n}), {k.i32(0), k.i32(0)})->result();
  const Value index = k.broadcast(k.reshape(k.iota(n), {1, n}), {4, n});
  const Value operands[] = {x, index};
  const Type results[] = {k.t(Elem::F32, {4}), k.t(Elem::I32, {4})};
  Operation* reduce = k.b.create(Op::Reduce, operands, results, {{AttrName::dim, IntAttr{Elem::I64, 1}}});
  reduce->set_attr(AttrName::identities, ArrayAttr{{FloatAttr{Elem::F32, 0xff800000}, IntAttr{Elem::I32, 0}}});
  k.inside(reduce->add_region(), [&](Block& region) {
    const Type f = k.t(Elem::F32), i = k.t(Elem::I32), bit = k.t(Elem::I1);
    const Value e = region.add_arg(f), best = region.add_arg(f), ei = region.add_arg(i), bi = region.add_arg(i);
    const Value later = k.op(Op::CmpF, {e, best}, bit,
                             {{AttrName::comparison_predicate, ComparisonPredicate::Greater},
                              {AttrName::comparison_ordering, ComparisonOrdering::Ordered}});
    k.end(Op::Yield, {k.op(Op::Select, {later, e, best}, f), k.op(Op::Select, {later, ei, bi}, i)});
  });
  k.store(reduce->result(0), k.partition(k.tensor(out, {4}, {1}), {4}), {k.i32(0)});
  k.store(reduce->result(1), k.partition(k.tensor(where, {4}, {1}), {4}), {k.i32(0)});
  std::vector<float> xs(4 * n), o(4);
  for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<float>((i * 37) % 64);
  xs[64 + 3] = xs[64 + 40] = 99.0f;  // the first of equals wins
  std::vector<std::int32_t> w(4);
  const std::uint64_t args[] = {slot(o.data()), slot(w.data()), slot(xs.data())};
  k.compile()->run({}, args);
  for (std::size_t r = 0; r < 4; ++r) {
    const auto first = xs.begin() + static_cast<std::ptrdiff_t>(r * n), best = std::max_element(first, first + n);
    EXPECT_EQ(o[r], *best);
    EXPECT_EQ(w[r], best - first);
  }
}

TEST(Program, ScansByPrimitiveAndByRegion) {
  for (const bool own_region : {false, true}) {
    Kernel k;
    const Value out = k.pointer(Elem::I32);
    const Value x = k.addi(k.reshape(k.iota(32), {2, 16}), k.i32(1, {2, 16}));
    const Value operands[] = {x};
    const Type result = x.type();
    Operation* scan = k.b.create(Op::Scan, operands, std::span(&result, 1),
                                 {{AttrName::dim, IntAttr{Elem::I64, 1}}, {AttrName::reverse, own_region}});
    scan->set_attr(AttrName::identities, ArrayAttr{{IntAttr{Elem::I32, 0}}});
    k.inside(scan->add_region(), [&](Block& region) {
      const Value e = region.add_arg(k.t(Elem::I32)), acc = region.add_arg(k.t(Elem::I32));
      const Value sum = k.addi(e, acc);
      k.end(Op::Yield, {own_region ? k.addi(sum, k.i32(0)) : sum});
    });
    k.store(scan->result(), k.partition(k.tensor(out, {2, 16}, {16, 1}), {2, 16}), {k.i32(0), k.i32(0)});
    std::vector<std::int32_t> o(32);
    const std::uint64_t args[] = {slot(o.data())};
    k.compile()->run({}, args);
    for (std::size_t r = 0; r < 2; ++r)
      for (std::size_t i = 0; i < 16; ++i) {
        std::int32_t want = 0;
        for (std::size_t j = own_region ? i : 0; j < (own_region ? 16 : i + 1); ++j)
          want += static_cast<std::int32_t>(r * 16 + j + 1);
        ASSERT_EQ(o[r * 16 + i], want) << own_region << ' ' << r << ' ' << i;
      }
  }
}

TEST(Program, PackAndUnpack) {
  Kernel k;
  const Value out = k.pointer(Elem::I8), back = k.pointer(Elem::I32);
  const Value x = k.muli(k.iota(8), k.i32(0x01010101, {8}));
  const Value bytes = k.op(Op::Pack, {x}, k.t(Elem::I8, {32}));
  k.store(bytes, k.partition(k.tensor(out, {32}, {1}), {32}), {k.i32(0)});
  k.store(k.op(Op::Unpack, {bytes}, k.t(Elem::I32, {8})), k.partition(k.tensor(back, {8}, {1}), {8}), {k.i32(0)});
  std::vector<std::uint8_t> o(32);
  std::vector<std::int32_t> r(8);
  const std::uint64_t args[] = {slot(o.data()), slot(r.data())};
  k.compile()->run({}, args);
  for (std::size_t i = 0; i < 32; ++i) ASSERT_EQ(o[i], i / 4);
  for (std::size_t i = 0; i < 8; ++i) ASSERT_EQ(r[i], static_cast<std::int32_t>(i) * 0x01010101);
}

}  // namespace
}  // namespace tessera::test
