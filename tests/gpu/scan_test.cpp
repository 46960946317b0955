// Scans over tiles of many shapes: within a thread, across a warp, across warps, and several groups of elements a
// thread. Sums of integers, so that both devices must agree in every bit.
#include "gpu/gpu_test.hpp"

namespace gpu_test {
namespace {

using namespace tessera;

template <int H, int W>
void scans(Mut<i32, 1, H, W> y0, Mut<i32, 1, H, W> y1, Mut<i32, 1, H, W> y2, Mut<i32, 1, H, W> y3,
           In<i32, dyn, dyn, dyn> x) {
  const auto t = x.load_like(y0);
  y0.store(cumsum(t, axis<2>));
  y1.store(cumsum(t, axis<2>, backward));
  y2.store(cumsum(t, axis<1>));
  y3.store(scan(
      t, axis<1>, 0, [](auto a, auto b) { return a + b; }, backward));
}

template <int H, int W>
void check_scans() {
  std::vector<i32> values(static_cast<std::size_t>(2 * H * W));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<i32>((i * 2654435761u) % 1000) - 500;
  const char* names[] = {"last axis", "last axis, backward", "first axis", "first axis, backward"};
  const auto both = on_both(Placement::Aligned, [&](const Side& side) {
    auto x = side.input(values, {2, H, W});
    auto a = side.output<i32>({2, H, W}), b = side.output<i32>({2, H, W}), c = side.output<i32>({2, H, W}),
         d = side.output<i32>({2, H, W});
    kernel<scans<H, W>>(a.lend(), b.lend(), c.lend(), d.lend(), x.view()).sync();
    std::vector<i32> all;
    for (auto* part : {&a, &b, &c, &d}) {
      const auto v = part->take();
      all.insert(all.end(), v.begin(), v.end());
    }
    return all;
  });
  const std::size_t n = values.size();
  for (std::size_t p = 0; p < 4; ++p) {
    const auto part = [&](const std::vector<i32>& v) {
      return std::vector<i32>(v.begin() + static_cast<std::ptrdiff_t>(p * n),
                              v.begin() + static_cast<std::ptrdiff_t>((p + 1) * n));
    };
    EXPECT_EQ(exact(part(both.cpu), part(both.gpu)), "") << names[p] << " of " << H << " x " << W;
  }
}

class Scan : public Gpu {};
TEST_F(Scan, ShortRows) {
  check_scans<16, 32>();
  check_scans<32, 16>();
  check_scans<64, 8>();
  check_scans<4, 128>();
}
TEST_F(Scan, SquareTiles) {
  check_scans<64, 64>();
  check_scans<32, 128>();
}
TEST_F(Scan, OneLongRow) {
  check_scans<1, 256>();
  check_scans<1, 1024>();
  check_scans<1, 4096>();
  check_scans<2, 2048>();
}

// ---- tiles that are laid out otherwise, and tiles that are not though something about them looks like it
// -------------

template <int H, int W>
void from_and_to_any(Mut<i32, H, W> y, In<i32, dyn, dyn> x) {
  y.store(cumsum(x.load_like(y), axis<1>));
}
template <int H, int W>
void of_permuted(Mut<i32, H, W> y, In<i32, dyn, dyn> x) {
  const auto [i, j] = y.index();
  const auto t = x.tiles(shape<W, H>).load(j, i);
  y.store(cumsum(transpose(t) * 3, axis<1>));
}
template <int H, int W>
void of_product(Mut<i32, H, W> y, In<i32, dyn, dyn> x) {
  const auto t = cast<i8>(x.load_like(y) % 5);
  y.store(cumsum(mma(cast<i8>(iota<i32, H, H>(axis<0>) == iota<i32, H, H>(axis<1>)), t, zeros<i32, H, W>()), axis<1>));
}
template <int H, int W>
void of_gathered(Mut<i32, H, W> y, In<i32, dyn, 2 * W> x) {
  const auto [i, j] = y.index();
  const auto rows = (iota<i32, H, 1>(axis<0>) * 3 + i) % x.dim(0);
  y.store(extract(cumsum(x.gather(axis<0>, rows), axis<1>), shape<H, W>, 0, j));
}
template <int H, int W>
void of_broadcast(Mut<i32, H, W> y, In<i32, dyn, dyn> x) {
  const auto [i, j] = y.index();
  const auto column = x.tiles(shape<H, 1>).load(i, 0);
  y.store(cumsum(broadcast(column, shape<H, W>) + iota<i32, H, W>(axis<1>), axis<1>) + j);
}
template <int H, int W>
void of_reshaped(Mut<i32, H, W> y, In<i32, dyn, dyn> x) {
  const auto [i, j] = y.index();
  y.store(cumsum(reshape(x.tiles(shape<1, H * W>).load(0, i + j), shape<H, W>), axis<1>));
}
template <int H, int W>
void of_reduced(Mut<i32, H, W> y, In<i32, dyn, dyn> x) {
  const auto t = x.load_like(y);
  y.store(cumsum(cumsum(t - sum(t, axis<0>) * sum(t, axis<1>), axis<1>, backward) % 1000, axis<1>));
}
template <int H, int W>
void of_row_sums(Mut<i32, H, W> y, In<i32, dyn, dyn> x) {
  const auto t = x.load_like(y);
  y.store(broadcast(cumsum(sum(t, axis<1>), axis<0>), shape<H, W>) + cumsum(sum(t, axis<0>), axis<1>));
}
template <int H, int W>
void of_extracted(Mut<i32, H, W> y, In<i32, dyn, dyn> x) {
  const auto t = x.load_like(y);
  const auto row = cumsum(extract(t, shape<1, W>, 3, 0), axis<1>);
  const auto column = cumsum(extract(t, shape<H, 1>, 0, 5), axis<0>);
  y.store(row * 3 + column + reshape(cumsum(reshape(t, shape<H * W>), axis<0>), shape<H, W>));
}
template <int H, int W>
void of_rows_alone(Mut<i32, H, W> y, In<i32, dyn, dyn> x) {
  const auto [i, j] = y.index();
  const auto row = cumsum(x.tiles(shape<1, W>).load(i, j), axis<1>);
  const auto column = cumsum(x.tiles(shape<H, 1>).load(i, j), axis<0>);
  y.store(broadcast(row, shape<H, W>) + column);
}
template <int H, int W>
void of_plane_sums(Mut<i32, H, W> y, In<i32, dyn, dyn> x) {
  const auto t = reshape(x.tiles(shape<1, 4 * H * W>).load(0, 0), shape<H, W, 4>);
  y.store(reshape(cumsum(sum(t, axis<2>), axis<1>), shape<H, W>));
}
template <int H, int W>
void of_a_line(Mut<i32, H, W> y, In<i32, dyn, dyn> x) {
  const auto [i, j] = y.index();
  const auto line = cumsum(reshape(x.tiles(shape<H, 1>).load(i, j), shape<1, H, 1>), axis<1>);
  y.store(broadcast(reshape(line, shape<H, 1>), shape<H, W>));
}
/// Columns, rows and tiles that meet a product, as the decays of a chunk of a linear attention do.
template <int H, int W>
void beside_product(Mut<i32, H, W> y, In<i32, dyn, dyn> x) {
  const auto [i, j] = y.index();
  const auto t = x.load_like(y);
  const auto one = cast<i8>(iota<i32, H, H>(axis<0>) == iota<i32, H, H>(axis<1>));
  const auto product = mma(one, cast<i8>(t % 5), zeros<i32, H, W>());
  const auto column = cumsum(x.tiles(shape<H, 1>).load(i, j), axis<0>);
  const auto row = cumsum(x.tiles(shape<1, W>).load(i, j), axis<1>, backward);
  y.store(where(cumsum(t, axis<0>) > 0, product * column, product + row) + cumsum(product, axis<0>, backward));
}
/// A function that does not commute: the last element so far that is not zero.
template <int H, int W>
void of_latest(Mut<i32, H, W> y, In<i32, dyn, dyn> x) {
  const auto t = x.load_like(y) % 3;
  const auto latest = [](auto a, auto b) { return where(b == 0, a, b); };
  y.store(scan(t, axis<0>, 0, latest) * 9 + scan(t, axis<1>, 0, latest, backward));
}

/// y is 2H x 2W; by columns, if the device sees it so.
template <auto K, int H, int W>
void check_layout(const char* name, bool x_by_columns = false, bool y_by_columns = false, bool flat = false) {
  const auto n = static_cast<std::size_t>(4 * H * W);
  std::vector<i32> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<i32>((i * 2654435761u) % 1000) - 500;
  const auto both = on_both(Placement::Aligned, [&](const Side& side) {
    const std::int64_t h = 2 * H, w = 2 * W, rows = flat ? 1 : h, columns = flat ? h * w : w;
    auto x = x_by_columns ? side.input(values, {w, h}) : side.input(values, {rows, columns});
    auto y = y_by_columns ? side.output<i32>({w, h}) : side.output<i32>({h, w});
    auto view = x_by_columns ? x.view().template permute<1, 0>() : x.view();
    if (y_by_columns)
      kernel<K>(y.lend().template permute<1, 0>(), view).sync();
    else
      kernel<K>(y.lend(), view).sync();
    return y.take();
  });
  EXPECT_EQ(exact(both.cpu, both.gpu), "") << name << " of " << H << " x " << W;
}
template <int H, int W>
void check_layouts() {
  check_layout<from_and_to_any<H, W>, H, W>("rows");
  check_layout<from_and_to_any<H, W>, H, W>("columns to rows", true);
  check_layout<from_and_to_any<H, W>, H, W>("rows to columns", false, true);
  check_layout<from_and_to_any<H, W>, H, W>("columns", true, true);
  check_layout<of_permuted<H, W>, H, W>("a transposed tile", true);
  check_layout<of_product<H, W>, H, W>("a product");
  check_layout<of_gathered<H, W>, H, W>("gathered rows");
  check_layout<of_broadcast<H, W>, H, W>("a broadcast column");
  check_layout<of_reshaped<H, W>, H, W>("a reshaped row", false, false, true);
  check_layout<of_reduced<H, W>, H, W>("a tile and its sums");
  check_layout<of_row_sums<H, W>, H, W>("sums of rows and columns");
  check_layout<of_extracted<H, W>, H, W>("lines and all of a tile");
  check_layout<of_rows_alone<H, W>, H, W>("a row and a column");
  check_layout<of_plane_sums<H, W>, H, W>("sums over a third axis", false, false, true);
  check_layout<of_a_line<H, W>, H, W>("a line that is not the last axis");
  check_layout<beside_product<H, W>, H, W>("scans beside a product");
  check_layout<of_latest<H, W>, H, W>("the latest that is not zero");
}
TEST_F(Scan, OtherLayouts) {
  check_layouts<16, 16>();
  check_layouts<16, 64>();
  check_layouts<64, 32>();
}
TEST_F(Scan, BesideProducts) {
  check_layout<beside_product<16, 16>, 16, 16>("scans beside a product");
  check_layout<beside_product<32, 64>, 32, 64>("scans beside a product");
  check_layout<beside_product<64, 64>, 64, 64>("scans beside a product");
  check_layout<beside_product<128, 32>, 128, 32>("scans beside a product");
  check_layout<beside_product<32, 128>, 32, 128>("scans beside a product");
}

}  // namespace
}  // namespace gpu_test
