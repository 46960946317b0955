// Tiles that are used where they lie in memory: rows that lie apart, columns in place of rows, tiles that are clipped,
// conversions on the way. Against the arithmetic of single elements, bit by bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "base/rounds.hpp"
#include "codegen/cpu/kernel.hpp"
#include "tessera/ir/semantics.hpp"

namespace tessera::test {
namespace THIS_FILE {

/// A matrix of some element in memory with gaps between its rows, or between its columns.
struct Matrix {
  Elem elem;
  std::int64_t rows, cols, row_stride, col_stride;
  std::vector<std::byte> memory;
  Matrix(Elem e, std::int64_t m, std::int64_t n, std::int64_t gap, bool by_columns)
      : elem(e),
        rows(m),
        cols(n),
        row_stride(by_columns ? 1 : n + gap),
        col_stride(by_columns ? m + gap : 1),
        memory(static_cast<std::size_t>((by_columns ? n : m) * ((by_columns ? m : n) + gap) * info(e).bytes)) {}
  std::byte* at(std::int64_t r, std::int64_t c) {
    return memory.data() + (r * row_stride + c * col_stride) * info(elem).bytes;
  }
  void set(std::int64_t r, std::int64_t c, std::uint64_t bits) {
    std::memcpy(at(r, c), &bits, static_cast<std::size_t>(info(elem).bytes));
  }
  std::uint64_t bits(std::int64_t r, std::int64_t c) {
    std::uint64_t v = 0;
    std::memcpy(&v, at(r, c), static_cast<std::size_t>(info(elem).bytes));
    return v;
  }
  /// Zero outside.
  double value(std::int64_t r, std::int64_t c) { return r < rows && c < cols ? to_double(elem, bits(r, c)) : 0.0; }
  template <class F>
  void fill(F f) {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) set(r, c, f());
  }
  Value view(Kernel& k, Value pointer, std::int64_t r, std::int64_t c) const {
    return k.partition(k.tensor(pointer, {rows, cols}, {row_stride, col_stride}),
                       {static_cast<std::int32_t>(r), static_cast<std::int32_t>(c)});
  }
};

void run(const std::shared_ptr<const Program>& program, std::int64_t blocks_x, std::int64_t blocks_y,
         std::span<const std::uint64_t> args) {
  program->run({static_cast<std::uint32_t>(blocks_x), static_cast<std::uint32_t>(blocks_y), 1}, args, {});
}
std::int64_t tiles(std::int64_t n, std::int64_t tile) { return (n + tile - 1) / tile; }
std::int64_t power(std::mt19937& random, int most) { return std::int64_t{1} << random() % (most + 1U); }

/// acc = fma(w, x, acc) over the tiles of a row of blocks, or acc + w * x, or acc + w, or fma(w, x, acc) + w.
enum class Form { Fma, MulAdd, Add, Twice };

Value step(Kernel& k, Form form, bool swapped, Value w, Value x, Value acc) {
  if (form == Form::Add) return swapped ? k.addf(acc, w) : k.addf(w, acc);
  if (form == Form::MulAdd) return k.addf(acc, swapped ? k.mulf(x, w) : k.mulf(w, x));
  if (form == Form::Twice) return k.addf(step(k, Form::Fma, swapped, w, x, acc), w);
  return k.same(Op::Fma, {swapped ? x : w, swapped ? w : x, acc});
}
float step(Form form, float w, float x, float acc) {
  if (form == Form::Add) return w + acc;
  if (form == Form::Twice) return std::fma(w, x, acc) + w;
  const float product = w * x;
  return form == Form::MulAdd ? acc + product : std::fma(w, x, acc);
}

void sum_of_products(std::mt19937& random, Elem e) {
  const std::int64_t r = power(random, 4), c = power(random, 9), m = 1 + random() % 40, n = 1 + random() % 1100;
  const auto form = static_cast<Form>(random() % 4);
  const bool swapped = random() % 2 != 0;
  Matrix w(e, m, n, random() % 3 == 0 ? 0 : random() % 50, random() % 8 == 0), x(Elem::F32, 1, n, 0, false),
      y(Elem::F32, tiles(m, r) * r, c, 0, false);
  w.fill([&] { return random() & (info(e).bits == 32 ? 0xFFFFFFFF : (std::uint64_t{1} << info(e).bits) - 1); });
  x.fill([&] { return from_double(Elem::F32, static_cast<double>(random()) * 0x1p-31 - 1); });
  Kernel k;
  const Value pw = k.pointer(e), px = k.pointer(Elem::F32), py = k.pointer(Elem::F32);
  const Value row = k.block(0);
  const Type type = k.t(Elem::F32, {r, c});
  const Value sum = k.for_loop(k.i32(0), k.i32(tiles(n, c)), k.i32(1), {k.f32(0, {r, c})},
                               [&](Value at, std::vector<Value> acc) -> std::vector<Value> {
                                 Value tile = k.load(w.view(k, pw, r, c), {row, at})->result();
                                 const Value factor = k.load(x.view(k, px, 1, c), {k.i32(0), at})->result();
                                 if (e != Elem::F32) tile = k.op(Op::FToF, {tile}, type);
                                 return {step(k, form, swapped, tile, k.broadcast(factor, {r, c}), acc[0])};
                               })
                        ->result();
  k.store(sum, y.view(k, py, r, c), {row, k.i32(0)});
  const std::uint64_t args[] = {slot(w.memory.data()), slot(x.memory.data()), slot(y.memory.data())};
  run(k.compile(), tiles(m, r), 1, args);
  for (std::int64_t i = 0; i < y.rows; ++i)
    for (std::int64_t j = 0; j < c; ++j) {
      float want = 0;
      for (std::int64_t p = j; p < tiles(n, c) * c; p += c)
        want = step(form, static_cast<float>(w.value(i, p)), static_cast<float>(x.value(0, p)), want);
      const auto got = static_cast<float>(y.value(i, j));
      ASSERT_TRUE(want == got || (std::isnan(want) && std::isnan(got)))
          << info(e).text << " tile " << r << 'x' << c << " of " << m << 'x' << n << " form " << static_cast<int>(form)
          << " at " << i << ", " << j << ": expected " << want << ", found " << got;
    }
}

TEST(Borrowed, SumsOfProductsReadRowsInPlace) {
  std::mt19937 random(1);
  for (const Elem e : {Elem::F32, Elem::BF16, Elem::F16, Elem::F8E4M3FN, Elem::F8E5M2})
    for (std::uint64_t round = 0; round < rounds(40); ++round) {
      SCOPED_TRACE(::testing::Message() << "round " << round);
      sum_of_products(random, e);
    }
}

/// Products of small integers, which are exact in any order.
void product(std::mt19937& random, Elem e) {
  const std::int64_t m = 1 + random() % 70, n = 1 + random() % 150, depth = 1 + random() % 90;
  const std::int64_t tm = power(random, 5), tn = power(random, 7), tk = power(random, 6);
  Matrix a(e, m, depth, random() % 40, random() % 2 != 0), b(e, depth, n, random() % 40, random() % 2 != 0),
      y(Elem::F32, m, n, 0, false);
  const auto integer = [&] { return from_double(e, static_cast<double>(random() % 17) - 8); };
  a.fill(integer);
  b.fill(integer);
  Kernel k;
  const Value pa = k.pointer(e), pb = k.pointer(e), py = k.pointer(Elem::F32);
  const Value i = k.block(0), j = k.block(1);
  const Value sum = k.for_loop(k.i32(0), k.i32(tiles(depth, tk)), k.i32(1), {k.f32(0, {tm, tn})},
                               [&](Value at, std::vector<Value> acc) -> std::vector<Value> {
                                 const Value left = k.load(a.view(k, pa, tm, tk), {i, at})->result();
                                 const Value right = k.load(b.view(k, pb, tk, tn), {at, j})->result();
                                 return {k.op(Op::MmaF, {left, right, acc[0]}, acc[0].type())};
                               })
                        ->result();
  k.store(sum, y.view(k, py, tm, tn), {i, j});
  const std::uint64_t args[] = {slot(a.memory.data()), slot(b.memory.data()), slot(y.memory.data())};
  run(k.compile(), tiles(m, tm), tiles(n, tn), args);
  for (std::int64_t r = 0; r < m; ++r)
    for (std::int64_t c = 0; c < n; ++c) {
      double want = 0;
      for (std::int64_t p = 0; p < depth; ++p) want += a.value(r, p) * b.value(p, c);
      ASSERT_EQ(want, y.value(r, c)) << info(e).text << ' ' << m << 'x' << n << 'x' << depth << " tiles " << tm << 'x'
                                     << tn << 'x' << tk << " at " << r << ", " << c;
    }
}

TEST(Borrowed, ProductsReadRowsAndColumnsInPlace) {
  std::mt19937 random(2);
  for (const Elem e : {Elem::F32, Elem::BF16, Elem::F16, Elem::F8E4M3FN})
    for (std::uint64_t round = 0; round < rounds(40); ++round) {
      SCOPED_TRACE(::testing::Message() << "round " << round);
      product(random, e);
    }
}

/// out = the sums of the rows of x + y, of which x is overwritten by y after it is loaded.
void overwritten(std::mt19937& random) {
  const std::int64_t r = power(random, 4), c = power(random, 7), m = r * (1 + random() % 3), n = c * (1 + random() % 3);
  const std::int64_t gap = random() % 20;
  Matrix x(Elem::I32, m, n, gap, false), y(Elem::I32, m, n, gap, false), out(Elem::I32, m, n, 0, false),
      sums(Elem::I32, m, tiles(n, c), 0, false);
  x.fill([&] { return random() % 1000; });
  y.fill([&] { return random() % 1000; });
  Matrix before = x;
  const bool store_first = random() % 2 != 0;
  Kernel k;
  const Value px = k.pointer(Elem::I32), py = k.pointer(Elem::I32), po = k.pointer(Elem::I32),
              ps = k.pointer(Elem::I32);
  const std::vector<Value> at{k.block(0), k.block(1)};
  const Value old = k.load(x.view(k, px, r, c), at)->result(), other = k.load(y.view(k, py, r, c), at)->result();
  if (store_first) k.store(other, x.view(k, px, r, c), at);
  const Value sum = k.addi(old, other);
  const Value folded = k.fold(Op::Reduce, old, 1, k.t(Elem::I32, {r}), IntAttr{Elem::I32, 0}, Op::AddI,
                              {{AttrName::overflow, IntegerOverflow::None}});
  if (!store_first) k.store(other, x.view(k, px, r, c), at);
  k.store(sum, out.view(k, po, r, c), at);
  k.store(k.reshape(folded, {r, 1}), sums.view(k, ps, r, 1), at);
  const std::uint64_t args[] = {slot(x.memory.data()), slot(y.memory.data()), slot(out.memory.data()),
                                slot(sums.memory.data())};
  run(k.compile(), m / r, n / c, args);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      ASSERT_EQ(before.bits(i, j) + y.bits(i, j), out.bits(i, j)) << r << 'x' << c << " at " << i << ", " << j;
      ASSERT_EQ(y.bits(i, j), x.bits(i, j)) << r << 'x' << c << " at " << i << ", " << j;
    }
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t t = 0; t < sums.cols; ++t) {
      std::uint64_t want = 0;
      for (std::int64_t j = t * c; j < (t + 1) * c; ++j) want += before.bits(i, j);
      ASSERT_EQ(want, sums.bits(i, t)) << r << 'x' << c << " row " << i << " tile " << t;
    }
}

TEST(Borrowed, RowsAreReadBeforeTheirMemoryIsWritten) {
  std::mt19937 random(3);
  for (std::uint64_t round = 0; round < rounds(150); ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round);
    overwritten(random);
  }
}

/// A tile of three axes, whose rows are equally far apart only where the outer gap is none.
void three_axes(std::mt19937& random) {
  const std::int64_t a = power(random, 2), r = power(random, 3), c = power(random, 6);
  const std::int64_t pitch = c + random() % 9, plane = r * pitch + (random() % 2 != 0 ? random() % 30 : 0);
  const std::int64_t count = 3;  // blocks
  std::vector<std::int32_t> x(static_cast<std::size_t>(count * a * plane)),
      y(static_cast<std::size_t>(count * a * r * c));
  for (auto& v : x) v = static_cast<std::int32_t>(random() % 1000);
  Kernel k;
  const Value px = k.pointer(Elem::I32), py = k.pointer(Elem::I32);
  const std::vector<std::int32_t> tile{static_cast<std::int32_t>(a), static_cast<std::int32_t>(r),
                                       static_cast<std::int32_t>(c)};
  const std::vector<Value> at{k.block(0), k.i32(0), k.i32(0)};
  const Value loaded = k.load(k.partition(k.tensor(px, {count * a, r, c}, {plane, pitch, 1}), tile), at)->result();
  k.store(k.addi(loaded, loaded), k.partition(k.tensor(py, {count * a, r, c}, {r * c, c, 1}), tile), at);
  const std::uint64_t args[] = {slot(x.data()), slot(y.data())};
  run(k.compile(), count, 1, args);
  for (std::int64_t i = 0; i < count * a; ++i)
    for (std::int64_t j = 0; j < r; ++j)
      for (std::int64_t p = 0; p < c; ++p)
        ASSERT_EQ(2 * x[static_cast<std::size_t>(i * plane + j * pitch + p)],
                  y[static_cast<std::size_t>((i * r + j) * c + p)])
            << a << 'x' << r << 'x' << c << " pitch " << pitch << " plane " << plane << " at " << i << ", " << j << ", "
            << p;
}

TEST(Borrowed, RowsOfThreeAxes) {
  std::mt19937 random(4);
  for (std::uint64_t round = 0; round < rounds(200); ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round);
    three_axes(random);
  }
}

}  // namespace THIS_FILE
}  // namespace tessera::test
