// Matrix multiplication of tiles: every combination of elements, layouts (row-major, transposed, strided, broadcast),
// odd and tiny sizes, several blocks along k, batches, in place; against a sum in double.
#include "prims_support.hpp"

namespace tessera::cpu::prims {
namespace {

using ir::Elem;

struct Size {
  std::int64_t batch, m, n, k;
};
constexpr Size kSizes[] = {
    {1, 1, 1, 1},    {1, 2, 4, 8},    {1, 16, 16, 16},   {2, 64, 64, 32},  {1, 128, 32, 64},
    {3, 8, 128, 4},  {1, 13, 37, 29}, {1, 16, 16, 1024}, {1, 32, 64, 512}, {1, 1, 128, 64},
    {1, 5, 48, 300}, {2, 9, 70, 259}};  // rows that start at odd bytes, also in blocks of whole words

enum class Layout { Rows, Columns, Gaps };

/// A [rows, cols] operand in some layout, and its numbers.
struct TestMatrix {
  Tile tile;
  Matrix view;
  std::vector<double> values;  ///< [batch, rows, cols]
  TestMatrix(Elem e, std::int64_t batch, std::int64_t rows, std::int64_t cols, Layout layout, bool is_signed,
             std::mt19937_64& random)
      : tile(e, static_cast<std::size_t>(batch * (rows + 2) * (cols + 2) * 2)) {
    view = {tile.data.data(), rows * cols, cols, 1};
    if (layout == Layout::Columns) view = {tile.data.data(), rows * cols, 1, rows};
    if (layout == Layout::Gaps) view = {tile.data.data(), rows * cols * 2, cols * 2, 2};
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < cols; ++c) {
          const std::uint64_t bits = draw(e, random);
          tile.set(static_cast<std::size_t>(b * view.batch_stride + r * view.row_stride + c * view.col_stride), bits);
          values.push_back(e == Elem::I8 && !is_signed ? static_cast<double>(bits) : ir::to_double(e, bits));
        }
  }
  static std::uint64_t draw(Elem e, std::mt19937_64& random) {
    if (e == Elem::I8) return random() & 0xFF;
    if (e == Elem::F8E8M0FNU) return 125 + random() % 5;
    return ir::from_double(e, static_cast<double>(random()) * 0x1p-63 - 1.0);
  }
};

struct Case {
  MmaOp op;
  Layout a = Layout::Rows, b = Layout::Rows;
};

double unit_of(const MmaOp& op) {
  if (op.acc == Elem::F64) return 0x1p-53;
  return op.acc == Elem::I32 ? 0 : 0x1p-24;
}

void check(const Case& t, const Size& s) {
  std::mt19937_64 random(53);
  const TestMatrix a(t.op.lhs, s.batch, s.m, s.k, t.a, t.op.lhs_signed, random),
      b(t.op.rhs, s.batch, s.k, s.n, t.b, t.op.rhs_signed, random);
  const std::size_t size = static_cast<std::size_t>(s.batch * s.m * s.n);
  Tile acc(t.op.acc, size);
  for (std::size_t i = 0; i < size; ++i)
    acc.set(i, t.op.acc == Elem::I32 ? random() & 0xFFFFFFFF : TestMatrix::draw(t.op.acc, random));
  for (const Isa isa : isas()) {
    const MmaFn f = mma(t.op, isa);
    ASSERT_NE(nullptr, f);
    Tile dst = acc;
    const std::size_t bytes = mma_scratch_bytes(t.op, s.m, s.n, s.k);
    std::vector<std::byte> scratch(bytes + 128, std::byte{0xA5});
    void* aligned = scratch.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 64);
    const std::byte* end = static_cast<std::byte*>(aligned) + bytes;
    f({.a = a.view,
       .b = b.view,
       .acc = dst.data.data(),
       .dst = dst.data.data(),
       .batch = s.batch,
       .m = s.m,
       .n = s.n,
       .k = s.k,
       .scratch = aligned});
    for (const std::byte* p = end; p < scratch.data() + scratch.size(); ++p)
      ASSERT_EQ(std::byte{0xA5}, *p) << "past the scratch";
    for (std::int64_t i = 0; i < s.batch * s.m; ++i)
      for (std::int64_t j = 0; j < s.n; ++j) {
        const std::size_t r = static_cast<std::size_t>(i * s.n + j);
        double want = ir::to_double(t.op.acc, acc.get(r)), magnitude = std::fabs(want);
        for (std::int64_t p = 0; p < s.k; ++p) {
          const double product = a.values[static_cast<std::size_t>(i * s.k + p)] *
                                 b.values[static_cast<std::size_t>((i / s.m * s.k + p) * s.n + j)];
          want += product;
          magnitude += std::fabs(product);
        }
        if (t.op.acc == Elem::I32) {
          ASSERT_EQ(static_cast<std::uint32_t>(static_cast<std::int64_t>(want)), dst.get(r))
              << text(isa) << " k " << s.k;
        } else {
          const double rounding = t.op.acc == Elem::F16 ? 0x1p-11 * std::fabs(want) : 0;
          ASSERT_LE(std::fabs(ir::to_double(t.op.acc, dst.get(r)) - want),
                    unit_of(t.op) * static_cast<double>(s.k + 2) * magnitude + rounding)
              << text(isa) << " " << ir::info(t.op.lhs).text << " at " << i << ", " << j << " of " << s.m << " " << s.n
              << " " << s.k;
        }
      }
  }
}

constexpr Layout kLayouts[] = {Layout::Rows, Layout::Columns, Layout::Gaps};

TEST(Matmul, SinglePrecisionInEveryLayout) {
  for (const Size& s : kSizes)
    for (const Layout a : kLayouts)
      for (const Layout b : kLayouts) check({.op = {Elem::F32, Elem::F32, Elem::F32}, .a = a, .b = b}, s);
}

TEST(Matmul, EveryFloatingElement) {
  for (const Size& s : kSizes) {
    for (const Elem e : {Elem::F16, Elem::BF16, Elem::TF32, Elem::F8E4M3FN, Elem::F8E5M2, Elem::F4E2M1FN})
      for (const Layout b : kLayouts)
        check({.op = {e, e, Elem::F32}, .a = b == Layout::Rows ? Layout::Columns : Layout::Rows, .b = b}, s);
    check({.op = {Elem::F16, Elem::F16, Elem::F16}}, s);
    check({.op = {Elem::F8E5M2, Elem::F8E5M2, Elem::F16}}, s);
    for (const Layout b : kLayouts) check({.op = {Elem::F64, Elem::F64, Elem::F64}, .b = b}, s);
  }
}

TEST(Matmul, BytesAreExactAndWrap) {
  for (const Size& s : kSizes)
    for (const bool l : {false, true})
      for (const bool r : {false, true})
        for (const Layout b : {Layout::Rows, Layout::Columns})
          check({.op = {Elem::I8, Elem::I8, Elem::I32, l, r}, .b = b}, s);
}

// The largest sums of bytes: 255 * 255 in every product.
TEST(Matmul, TheLargestBytesAreExact) {
  const std::int64_t k = 1024;
  const std::vector<std::uint8_t> ones(static_cast<std::size_t>(k) * 16, 255);
  const MmaOp op{Elem::I8, Elem::I8, Elem::I32, false, false};
  for (const Isa isa : isas()) {
    std::vector<std::uint32_t> c(16 * 16, 5);
    alignas(64) static std::byte scratch[1 << 20];
    ASSERT_LE(mma_scratch_bytes(op, 16, 16, k), sizeof scratch);
    mma(op, isa)({.a = {ones.data(), 0, k, 1},
                  .b = {ones.data(), 0, 16, 1},
                  .acc = c.data(),
                  .dst = c.data(),
                  .batch = 1,
                  .m = 16,
                  .n = 16,
                  .k = k,
                  .scratch = scratch});
    for (const std::uint32_t v : c) ASSERT_EQ(255u * 255u * 1024u + 5u, v) << text(isa);
  }
}

TEST(Matmul, ScaledBlocks) {
  struct Format {
    Elem e, scale;
    int block;
  };
  for (const Format f : {Format{Elem::F8E4M3FN, Elem::F8E8M0FNU, 32},
                         {Elem::F8E5M2, Elem::F8E8M0FNU, 32},
                         {Elem::F4E2M1FN, Elem::F8E8M0FNU, 16},
                         {Elem::F4E2M1FN, Elem::F8E4M3FN, 16},
                         {Elem::F4E2M1FN, Elem::F8E8M0FNU, 32}}) {
    const MmaOp op{.lhs = f.e, .rhs = f.e, .acc = Elem::F32, .scale = f.scale, .scale_block = f.block};
    const std::int64_t m = 16, n = 32, k = 64, blocks = k / f.block;
    std::mt19937_64 random(59);
    const TestMatrix a(f.e, 1, m, k, Layout::Rows, true, random), b(f.e, 1, k, n, Layout::Columns, true, random);
    const TestMatrix sa(f.scale, 1, m, blocks, Layout::Rows, true, random),
        sb(f.scale, 1, blocks, n, Layout::Rows, true, random);
    for (const Isa isa : isas()) {
      std::vector<float> c(static_cast<std::size_t>(m * n), 1.0f);
      alignas(64) static std::byte scratch[1 << 20];
      mma(op, isa)({.a = a.view,
                    .b = b.view,
                    .acc = c.data(),
                    .dst = c.data(),
                    .a_scale = sa.view,
                    .b_scale = sb.view,
                    .batch = 1,
                    .m = m,
                    .n = n,
                    .k = k,
                    .scratch = scratch});
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          double want = 1.0, magnitude = 1.0;
          for (std::int64_t p = 0; p < k; ++p) {
            const double x = a.values[static_cast<std::size_t>(i * k + p)] *
                             sa.values[static_cast<std::size_t>(i * blocks + p / f.block)];
            const double y = b.values[static_cast<std::size_t>(p * n + j)] *
                             sb.values[static_cast<std::size_t>(p / f.block * n + j)];
            want += x * y;
            magnitude += std::fabs(x * y);
          }
          ASSERT_NEAR(want, c[static_cast<std::size_t>(i * n + j)], 0x1p-24 * 66 * magnitude)
              << text(isa) << " " << ir::info(f.e).text;
        }
    }
  }
}

TEST(Matmul, CombinationsThatTileIrHasNotAreRejected) {
  for (const Isa isa : isas()) {
    EXPECT_EQ(nullptr, mma({Elem::F16, Elem::BF16, Elem::F32}, isa));
    EXPECT_EQ(nullptr, mma({Elem::I8, Elem::I8, Elem::F32}, isa));
    EXPECT_EQ(nullptr, mma({Elem::F64, Elem::F64, Elem::F32}, isa));
  }
}

}  // namespace
}  // namespace tessera::cpu::prims
