// Reading and writing tensors in every way of the language, GPU against CPU, bit for bit: tile grids with each padding,
// any index, element offsets, broadcasting, permuted views, sub-partitions, gathers, scatters, scheduled tiles, ranks 1
// to 5.
#include "gpu/gpu_test.hpp"

namespace gpu_test {
namespace {

using namespace tessera;

/// Every index from -2 to 3 along both axes, with the padding that the type has.
template <class T, int P>
void tile_grid(Mut<T, 8, 16> y, In<T, dyn, dyn> x) {
  auto [i, j] = y.index();
  const auto load = [&](const auto& padding) { return x.tiles(shape<8, 16>, padding).load(i - 2, j - 2); };
  if constexpr (P == 0)
    y.store(load(pad::zero));
  else if constexpr (P == 1)
    y.store(load(pad::neg_inf));
  else if constexpr (P == 2)
    y.store(load(pad::pos_inf));
  else if constexpr (P == 3)
    y.store(load(pad::nan));
  else
    y.store(load(pad(5)));
}
template <class T, int P>
void check_tile_grid() {
  const auto values = any_values<T>(13 * 37, 1);
  for (const Placement p : kPlacements) {
    const auto both = on_both(p, [&](const Side& side) {
      auto x = side.input(values, {13, 37});
      auto y = side.template output<T>({6 * 8, 6 * 16});
      kernel<tile_grid<T, P>>(y.lend(), x.view()).sync();
      return y.take();
    });
    EXPECT_EQ(exact(both.cpu, both.gpu), "") << type_name<T>() << ", padding " << P << ", placement " << int(p);
  }
}
class TileGrids : public Gpu {};
TEST_F(TileGrids, F32) {
  check_tile_grid<f32, 0>();
  check_tile_grid<f32, 1>();
  check_tile_grid<f32, 2>();
  check_tile_grid<f32, 3>();
  check_tile_grid<f32, 4>();
}
TEST_F(TileGrids, Halves) {
  check_tile_grid<bf16, 1>();
  check_tile_grid<f16, 4>();
}
TEST_F(TileGrids, Narrow) {
  check_tile_grid<f8e4m3, 0>();
  check_tile_grid<f8e5m2, 1>();
  check_tile_grid<i8, 4>();
  check_tile_grid<u16, 4>();
}
TEST_F(TileGrids, Wide) {
  check_tile_grid<f64, 3>();
  check_tile_grid<i64, 4>();
  check_tile_grid<i32, 0>();
}

/// Rows of weights with fewer elements than a block has threads, beside regions that begin before the tensor.
template <class T>
void weighted_rows(Mut<T, 16, 128> y, In<T, dyn, dyn> x, In<T, 3, dyn> w) {
  auto [i, j] = y.origin();
  auto s = zeros<T, 16, 128>();
  for (int k = 0; k < 3; ++k) {
    const auto rows = x.load_at(shape<16, 128>, i - 2 + k, j);
    s += rows * w.load_at(shape<1, 128>, k, j);
  }
  y.store(s);
}
template <class T>
void check_weighted_rows() {
  for (const std::int64_t columns : {256, 250, 384}) {
    const auto x = values_in<T>(static_cast<std::size_t>(40 * columns), 1, 0, 5),
               w = values_in<T>(static_cast<std::size_t>(3 * columns), 2, 0, 5);
    for (const Placement p : kPlacements) {
      const auto both = on_both(p, [&](const Side& side) {
        auto in = side.input(x, {40, columns});
        auto weights = side.input(w, {3, columns});
        auto y = side.template output<T>({40, columns});
        kernel<weighted_rows<T>>(y.lend(), in.view(), weights.view()).sync();
        return y.take();
      });
      EXPECT_EQ(exact(both.cpu, both.gpu), "") << columns << ' ' << int(p);
    }
  }
}
class WeightedRows : public Gpu {};
TEST_F(WeightedRows, F32) { check_weighted_rows<f32>(); }
TEST_F(WeightedRows, F16) { check_weighted_rows<f16>(); }
TEST_F(WeightedRows, I32) { check_weighted_rows<i32>(); }

/// Small tiles beside larger ones: the assembler gives them the larger tile's layout, in which the elements of a thread
/// may be apart. Every number of warps gives another layout.
template <class T, int S, int G, int D>
void scaled_columns(Mut<T, S, G, D> y, In<T, dyn, dyn, D> x, In<T, dyn, dyn> scale) {
  y.store(x.load_like(y) * scale.load_like(y, axes<0, 1>));
}
template <class T, int S, int G, int D>
void scaled_flat(Mut<T, S * G, D> y, In<T, dyn, D> x, In<T, dyn, dyn> scale) {
  auto [i, j] = y.index();
  y.store(x.load_like(y) * reshape(scale.tiles(shape<S, G>).load(i, 0), shape<S * G, 1>));
}
template <class T, int S, int G, int D>
void scaled_transposed(Mut<T, G, S, D> y, In<T, dyn, dyn, D> x, In<T, dyn, dyn> scale) {
  auto [i, j, k] = y.index();
  y.store(x.load_like(y) * reshape(transpose(scale.tiles(shape<S, G>).load(i, 0)), shape<G, S, 1>));
}
template <class T, int S, int G, int D>
void scaled_sums(Mut<T, 1, G, D> y, In<T, dyn, dyn, G, D> x, In<T, dyn, dyn, G> scale) {
  auto [i, j, k] = y.index();
  const auto s = reshape(scale.tiles(shape<1, S, G>).load(i, 0, 0), shape<S, G, 1>);
  y.store(reshape(sum<T>(reshape(x.tiles(shape<1, S, G, D>).load(i, 0, 0, 0), shape<S, G, D>) * s, axis<0>),
                  shape<1, G, D>));
}
template <class T, int S, int G, int D>
void scaled_region(Mut<T, S, G, D> y, In<T, dyn, dyn, D> x, In<T, S, G> scale) {
  y.store(x.load_like(y) * reshape(scale.load_at(shape<S, G>, 0, 0), shape<S, G, 1>));
}
template <class T, int S, int G, int D>
void check_small_beside_large() {
  constexpr std::int64_t n = 3;
  auto x = values_in<T>(n * S * G * D, 1, -5, 5), scale = values_in<T>(n * S * G, 2, -5, 5);
  for (auto* values : {&x, &scale})  // integers: sums are exact in any order
    for (T& v : *values) v = static_cast<T>(std::nearbyint(static_cast<double>(v)));
  const std::vector<T> one(scale.begin(), scale.begin() + S * G);
  for (const char* warps : {"", "warps=1", "warps=2", "warps=4", "warps=8", "warps=16"}) {
    const Hints hints(warps);
    const auto same = [&](const char* what, auto run) {
      const auto both = on_both(Placement::Aligned, run);
      EXPECT_EQ(exact(both.cpu, both.gpu), "") << what << ' ' << S << 'x' << G << 'x' << D << ' ' << warps;
    };
    same("columns", [&](const Side& side) {
      auto in = side.input(x, {n * S, G, D});
      auto s = side.input(scale, {n * S, G});
      auto y = side.template output<T>({n * S, G, D});
      kernel<scaled_columns<T, S, G, D>>(y.lend(), in.view(), s.view()).sync();
      return y.take();
    });
    same("flat", [&](const Side& side) {
      auto in = side.input(x, {n * S * G, D});
      auto s = side.input(scale, {n * S, G});
      auto y = side.template output<T>({n * S * G, D});
      kernel<scaled_flat<T, S, G, D>>(y.lend(), in.view(), s.view()).sync();
      return y.take();
    });
    same("transposed", [&](const Side& side) {
      auto in = side.input(x, {n * G, S, D});
      auto s = side.input(scale, {n * S, G});
      auto y = side.template output<T>({n * G, S, D});
      kernel<scaled_transposed<T, S, G, D>>(y.lend(), in.view(), s.view()).sync();
      return y.take();
    });
    same("sums", [&](const Side& side) {
      auto in = side.input(x, {n, S, G, D});
      auto s = side.input(scale, {n, S, G});
      auto y = side.template output<T>({n, G, D});
      kernel<scaled_sums<T, S, G, D>>(y.lend(), in.view(), s.view()).sync();
      return y.take();
    });
    same("region", [&](const Side& side) {
      auto in = side.input(x, {n * S, G, D});
      auto s = side.input(one, {S, G});
      auto y = side.template output<T>({n * S, G, D});
      kernel<scaled_region<T, S, G, D>>(y.lend(), in.view(), s.view()).sync();
      return y.take();
    });
  }
}
class SmallBesideLarge : public Gpu {};
TEST_F(SmallBesideLarge, F32) {
  check_small_beside_large<f32, 2, 16, 128>();
  check_small_beside_large<f32, 4, 8, 128>();
  check_small_beside_large<f32, 4, 16, 64>();
  check_small_beside_large<f32, 8, 32, 32>();
}
TEST_F(SmallBesideLarge, F16) {
  check_small_beside_large<f16, 4, 32, 128>();
  check_small_beside_large<f16, 8, 16, 64>();
}
TEST_F(SmallBesideLarge, I8) { check_small_beside_large<i8, 8, 32, 64>(); }
TEST_F(SmallBesideLarge, F64) { check_small_beside_large<f64, 2, 8, 128>(); }

template <class T>
void elementwise_ways(Mut<T, 16, 32> y, Mut<T, 16, 32> z, In<T, dyn, dyn> x, In<T, dyn, dyn> row, In<T, dyn> line) {
  auto [i, j] = y.origin();
  y.store(x.load_at(shape<16, 32>, i - 3, j + 5, pad(2)));
  z.store(broadcast(row.load_like(z), shape<16, 32>) + broadcast(line.load_like(z, axes<1>), shape<16, 32>));
}
template <class T>
void check_elementwise_ways() {
  const auto values = values_in<T>(40 * 70, 1, 0, 50), row = values_in<T>(70, 2, 0, 50),
             line = values_in<T>(70, 3, 0, 50);
  for (const Placement p : kPlacements) {
    const auto both = on_both(p, [&](const Side& side) {
      auto x = side.input(values, {40, 70});
      auto r = side.input(row, {1, 70});
      auto l = side.input(line, {70});
      auto y = side.template output<T>({40, 70}), z = side.template output<T>({40, 70});
      kernel<elementwise_ways<T>>(y.lend(), z.lend(), x.view(), r.view(), l.view()).sync();
      auto all = y.take();
      const auto more = z.take();
      all.insert(all.end(), more.begin(), more.end());
      return all;
    });
    EXPECT_EQ(exact(both.cpu, both.gpu), "") << type_name<T>() << ", placement " << int(p);
  }
}
class Regions : public Gpu {};
TEST_F(Regions, F32) { check_elementwise_ways<f32>(); }
TEST_F(Regions, F16) { check_elementwise_ways<f16>(); }
TEST_F(Regions, I32) { check_elementwise_ways<i32>(); }
TEST_F(Regions, U8) { check_elementwise_ways<u8>(); }

void permuted_reads(Mut<f32, 8, 4, 16> y, In<f32, dyn, dyn, dyn> x) {
  auto [i, j, k] = y.index();
  y.store(x.permuted(order<2, 0, 1>).tiles(shape<8, 4, 16>).load(i, j, k));
}
TEST_F(Regions, Permuted) {
  const auto values = any_values<f32>(7 * 33 * 19, 1);
  for (const Placement p : kPlacements) {
    const auto both = on_both(p, [&](const Side& side) {
      auto x = side.input(values, {7, 33, 19});
      auto y = side.output<f32>({19, 7, 33});
      kernel<permuted_reads>(y.lend(), x.view()).sync();
      auto z = side.output<f32>({7, 33, 19});  // and written through a permuted view
      kernel<permuted_reads>(z.lend().permute<2, 0, 1>(), x.view()).sync();
      auto all = y.take();
      const auto more = z.take();
      all.insert(all.end(), more.begin(), more.end());
      return all;
    });
    EXPECT_EQ(exact(both.cpu, both.gpu), "") << int(p);
  }
}

void rank_five(Mut<i32, 1, 2, 4, 2, 8> y, In<i32, dyn, dyn, dyn, dyn, 8> x) {
  auto [a, b, c, d, e] = y.index();
  y.store(x.load_like(y) * 2 + (a + b * 10 + c * 100 + d * 1000));
}
TEST_F(Regions, RankFive) {
  const auto values = any_values<i32>(3 * 3 * 5 * 3 * 8, 1);
  const auto both = on_both(Placement::Aligned, [&](const Side& side) {
    auto x = side.input(values, {3, 3, 5, 3, 8});
    auto y = side.output<i32>({3, 3, 5, 3, 8});
    kernel<rank_five>(y.lend(), x.view()).sync();
    return y.take();
  });
  EXPECT_EQ(exact(both.cpu, both.gpu), "");
}

void in_parts(Mut<f32, 32, 64> y, In<f32, dyn, dyn> x) {
  auto parts = y.sub(shape<8, 16>);
  auto [i, j] = y.origin();
  for (auto a : range(5)) {  // one beyond the piece: dropped
    for (int b = 0; b < 4; ++b) parts.store(a, b, x.load_at(shape<8, 16>, i + a * 8, j + b * 16) + 1.0f);
  }
  for (auto a : range(4)) parts.store(a, 1, parts.load(a, 0) + parts.load(a, 3, pad(2.0f)));  // later loads see stores
  y.store(where(y.load() > 0.0f, y.load(), 0.0f));
}
TEST_F(Regions, SubPartitions) {
  const auto values = values_in<f32>(70 * 100, 1, -9, 9);
  for (const Placement p : kPlacements) {
    const auto both = on_both(p, [&](const Side& side) {
      auto x = side.input(values, {70, 100});
      auto y = side.output<f32>({70, 100});
      kernel<in_parts>(y.lend(), x.view()).sync();
      return y.take();
    });
    EXPECT_EQ(exact(both.cpu, both.gpu), "") << int(p);
  }
}

// -- by index --------------------------------------------------------------------------------------------------------

template <class T>
void gathers(Mut<T, 16, 32> y, Mut<T, 16, 32> z, In<T, dyn, 32> table, In<i32, dyn> rows, In<i64, dyn> columns) {
  auto r = rows.load_like(y, axes<0>);
  y.store(table.gather(axis<0>, r, pad(3)));
  z.store(table.gather(r, columns.load_like(z, axes<1>)));
}
template <class T>
void check_gathers() {
  const auto values = any_values<T>(50 * 32, 1);
  auto rows = values_in<i32>(30, 2, -5, 55);
  rows[3] = INT32_MAX, rows[4] = INT32_MIN;
  auto columns = values_in<i64>(32, 3, -3, 35);
  columns[5] = INT64_MAX, columns[6] = INT64_MIN;
  for (const Placement p : {Placement::Aligned, Placement::Shifted}) {
    const auto both = on_both(p, [&](const Side& side) {
      auto t = side.input(values, {50, 32});
      auto r = side.input(rows, {30});
      auto c = side.input(columns, {32});
      auto y = side.template output<T>({30, 32}), z = side.template output<T>({30, 32});
      kernel<gathers<T>>(y.lend(), z.lend(), t.view(), r.view(), c.view()).sync();
      auto all = y.take();
      const auto more = z.take();
      all.insert(all.end(), more.begin(), more.end());
      return all;
    });
    EXPECT_EQ(exact(both.cpu, both.gpu), "") << type_name<T>() << ", placement " << int(p);
  }
}
class Gathers : public Gpu {};
TEST_F(Gathers, F32) { check_gathers<f32>(); }
TEST_F(Gathers, BF16) { check_gathers<bf16>(); }
TEST_F(Gathers, I8) { check_gathers<i8>(); }

void scatters(Mut<f32, 16, 16> y, Mut<f32, 16, 16> z, In<i32, dyn> index, In<f32, dyn, dyn> x) {
  auto i = index.tiles(shape<16>).load(0);
  y.store(zeros<f32, 16, 16>());
  y.scatter(axis<0>, i, x.load_like(y));
  z.store(zeros<f32, 16, 16>());
  z.scatter(i, iota<i32, 16>(), reshape(x.load_at(shape<1, 16>, 0, 0), shape<16>));
  z.store(z.load() + z.gather(axis<1>, i));
}
TEST_F(Gathers, Scatters) {
  std::vector<i32> index{3, 3, 0, 15, -1, 16, 7, 8, 7, 100, 2, 1, 14, 14, 14, 5};
  const auto values = values_in<f32>(40 * 20, 1, -9, 9);
  for (const Placement p : kPlacements) {
    const auto both = on_both(p, [&](const Side& side) {
      auto i = side.input(index, {16});
      auto x = side.input(values, {40, 20});
      auto y = side.output<f32>({40, 20}), z = side.output<f32>({40, 20});
      kernel<scatters>(y.lend(), z.lend(), i.view(), x.view()).sync();
      auto all = y.take();
      const auto more = z.take();
      all.insert(all.end(), more.begin(), more.end());
      return all;
    });
    EXPECT_EQ(exact(both.cpu, both.gpu), "") << int(p);
  }
}

// -- scheduled tiles
// -----------------------------------------------------------------------------------------------------

template <int Order>
void scheduled(MutTiles<i32, 8, 16> c, In<i32, dyn, dyn> x) {
  const auto body = [&](auto tiles) {
    for (auto out : tiles) {
      auto [i, j] = out.index();
      out.store(x.load_like(out) + out.load() + i * 1000 + j + cast<i32>(out.offsets()));
    }
  };
  if constexpr (Order == 0) body(c.row_order());
  if constexpr (Order == 1) body(c.column_order());
  if constexpr (Order == 2) body(c.grouped(3));
}
template <int Order>
void check_scheduled() {
  const auto values = any_values<i32>(70 * 100, 1), start = any_values<i32>(70 * 100, 2);
  for (const int blocks : {0, 1, 3, 7}) {
    for (const Placement p : {Placement::Aligned, Placement::OddStride}) {
      const auto both = on_both(p, [&](const Side& side) {
        auto x = side.input(values, {70, 100}), c = side.input(start, {70, 100});
        if (blocks)
          kernel<scheduled<Order>>.blocks(blocks)(c.lend(), x.view()).sync();
        else
          kernel<scheduled<Order>>(c.lend(), x.view()).sync();
        return c.take();
      });
      EXPECT_EQ(exact(both.cpu, both.gpu), "") << "order " << Order << ", " << blocks << " blocks, " << int(p);
    }
  }
}
class TileSchedule : public Gpu {};
TEST_F(TileSchedule, Rows) { check_scheduled<0>(); }
TEST_F(TileSchedule, Columns) { check_scheduled<1>(); }
TEST_F(TileSchedule, Groups) { check_scheduled<2>(); }

// -- random numbers, by element offset: the same bits everywhere -----------------------------------------------------

template <class T, bool Normal>
void numbers(Mut<T, 4, 64> y, Scalar<u64> seed) {
  if constexpr (Normal)
    y.store(random::normal<T>(seed, y.offsets()));
  else
    y.store(random::uniform<T>(seed, y.offsets()));
}
template <class T, bool Normal>
void check_numbers() {
  const auto both = on_both(Placement::OddStride, [&](const Side& side) {
    auto y = side.template output<T>({33, 100});
    kernel<numbers<T, Normal>>(y.lend(), 0x123456789ABCDEFULL).sync();
    return y.take();
  });
  EXPECT_EQ(exact(both.cpu, both.gpu), "") << type_name<T>() << (Normal ? " normal" : " uniform");
}
class RandomNumbers : public Gpu {};
TEST_F(RandomNumbers, Uniform) {
  check_numbers<f32, false>();
  check_numbers<f64, false>();
  check_numbers<f16, false>();
  check_numbers<bf16, false>();
  check_numbers<u32, false>();
  check_numbers<u64, false>();
}
TEST_F(RandomNumbers, Normal) {
  check_numbers<f32, true>();
  check_numbers<f64, true>();
  check_numbers<bf16, true>();
}

}  // namespace
}  // namespace gpu_test
