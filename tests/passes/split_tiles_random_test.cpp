// Random kernels over rows that are shorter than their tile compute the same bits before and after split_tiles, on the
// CPU in checked mode, for lengths around each bound. A kernel is C++ that runs while it is recorded, so it may throw
// dice. Floating-point values are small whole numbers, whose sums are exact in any order.
#include <array>
#include <random>

#include "base/rounds.hpp"
#include "passes/passed.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::test {
namespace THIS_FILE {

unsigned seed = 0;  // of the kernel that is recorded next; every recording of it throws the same dice

/// Rows of fewer bytes are not split.
template <class T>
constexpr int row_tile = sizeof(T) > 4 ? 256 : 1024 / sizeof(T);

/// The values that a kernel has computed so far; draws the operations that make more of them.
template <class T, int R>
struct Dice {
  static constexpr bool kFloat = detail::is_float<T>;
  static constexpr int kTile = row_tile<T>;
  using Row = Tile<T, R, kTile>;
  using Truth = Tile<bool, R, kTile>;
  using Sum = Tile<T, R, 1>;
  Mut<T, R, kTile> y, z;
  In<T, dyn, dyn> x;
  In<T, dyn> v;
  In<T, 40> few;

  int throw_below(int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }
  void step() {
    switch (throw_below(8)) {
      case 0: return add(elementwise());
      case 1: return add(from_memory());
      case 2: return add(moved());
      case 3: return add(row() + a_sum());
      case 4: return truths.push_back(compared());
      case 5: return control();
      default: return sums.push_back(tame(reduced()));
    }
  }
  void end() {
    Row all = row();
    for (const Sum& s : sums) all = tame(all * 2 + s);
    y.store(all);
    z.store(tame(row() + row() * a_sum()));
  }

  Row row() { return rows[random() % rows.size()]; }
  Sum a_sum() { return sums[random() % sums.size()]; }
  Truth truth() { return truths[random() % truths.size()]; }
  void add(const Row& v) { rows.push_back(tame(v)); }

  /// Floats as small whole numbers, without NaN, infinities and -0.
  template <class V>
  static V tame(const V& v) {
    if constexpr (!kFloat) return v;
    if constexpr (kFloat) return clamp(floor(v), sizeof(T) == 2 ? -1 : -30, sizeof(T) == 2 ? 1 : 30) + 0;
  }
  Tile<i32, R, kTile> places() { return broadcast(iota<i32, 1, kTile>(axis<1>), shape<R, kTile>); }
  Truth inside() {
    const auto i = places();
    const auto n = throw_below(4) == 0 ? v.dim(0) : x.dim(1);
    switch (throw_below(9)) {
      case 0: return n > i;
      case 1: return i <= n;
      case 2: return i >= n;
      case 3: return !(n <= i);
      case 4: return i > n;
      case 5: return cast<u32>(i) < cast<u32>(n);
      case 6: return i < min(n, throw_below(kTile));
      default: return i < n;
    }
  }
  Truth compared() {
    switch (throw_below(10)) {
      case 0: return row() < row();
      case 1: return row() == 0;
      case 2: return places() < throw_below(kTile);
      case 3: return places() == x.dim(1) - 1;
      case 4: return truth() & truth();
      case 5: return truth() | truth();
      case 6: return truth() ^ !truth();
      case 7: return where(truth(), truth(), truth());
      default: return inside();
    }
  }
  Row elementwise() {
    switch (throw_below(8)) {
      case 0: return row() + row();
      case 1: return row() - row() * 2;
      case 2: return row() * row();
      case 3: return max(row(), row());
      case 4: return min(throw_below(7), row());
      case 5: return cast<T>(places()) + row();
      case 6: return where(inside(), row(), throw_below(9));
      default: return where(truth(), row(), row());
    }
  }
  detail::Padding<T> padding() {
    const int n = throw_below(kFloat ? 6 : 3);
    if constexpr (kFloat) {
      if (n == 3) return pad::neg_inf;
      if (n == 4) return pad::pos_inf;
      if (n == 5) return pad::nan;
    }
    return n > 0 ? detail::Padding<T>(pad::zero) : pad(Scalar<T>(throw_below(4)));
  }
  Row from_memory() {
    switch (throw_below(12)) {
      case 0: return y.load(padding());
      case 1: return z.load(padding());
      case 2: z.store(row()); break;
      case 3: y.store(row()); return z.load();
      case 4: return row() + v.load_like(y, axes<1>, partial, padding());
      case 5: return z.gather(places() * 0, where(inside(), x.dim(1) - 1 - places(), -1));
      case 6: return row() + reshape(few.tiles(shape<kTile>, padding()).load(0), shape<1, kTile>);
      default: break;
    }
    return x.load_like(y, padding());
  }
  Row moved() {
    switch (throw_below(4)) {
      case 0: return transpose(transpose(row()) + 1);
      case 1: return row() + sum<T>(row(), axis<0>);
      case 2: return reshape(permute(reshape(row(), shape<R, kTile, 1>) - 1, order<2, 0, 1>), shape<R, kTile>);
      default: break;
    }
    const auto planes = reshape(row(), shape<R, 1, kTile>) * cast<T>(iota<i32, 1, 4, 1>(axis<1>) - 1);
    return reshape(sum<T>(tame(planes), axis<1>), shape<R, kTile>);
  }
  /// Of bf16 in f32: more than 256 ones are not exact otherwise. Those of f16 keep tiles whole where there is a rest.
  Sum total(const Row& t) {
    const bool exact = !kFloat || sizeof(T) > 2 || (std::is_same_v<T, f16> && throw_below(4) == 0);
    return exact ? sum<T>(t, axis<1>) : cast<T>(tame(sum(cast<f32>(t), axis<1>)));
  }
  Sum reduced() {
    switch (throw_below(12)) {
      case 0: return max(row(), axis<1>);
      case 1: return min(row(), axis<1>);
      case 2: return cast<T>(cast<i32>(any(truth(), axis<1>)) + cast<i32>(all(truth(), axis<1>)) * 2);
      case 3: return cast<T>(argmax(row(), axis<1>).index);
      case 4: return reduce(clamp(row(), 0, 9), axis<1>, 0, [](auto a, auto b) { return max(b, a); });
      case 5: return reduce(where(truth(), row(), 0), axis<1>, 0, [](auto a, auto b) { return where(b != 0, b, a); });
      case 6: return prod<T>(where(truth(), clamp(row(), 0, 1), 1), axis<1>);
      case 7: return max(x.load_like(y, padding()), axis<1>);
      case 8: return min(x.load_like(y, padding()), axis<1>);
      case 9: return total(where(inside(), row(), throw_below(2)));
      default: return total(row());
    }
  }
  void control() {
    Sum s = a_sum();
    const Row t = row();
    if (throw_below(2) == 0) {
      for (auto k : range(3)) s = tame(s + total(t * cast<T>(k)));
    } else {
      tile_if (x.dim(0) % 2 == 0) {
        s = tame(max(t, axis<1>));
        z.store(t);
      } else {
        s = tame(s + total(t));
      }
    }
    sums.push_back(s);
  }

  std::mt19937 random{seed};
  std::vector<Row> rows{};
  std::vector<Sum> sums{};
  std::vector<Truth> truths{};
};

template <class T, int R>
void dice(Mut<T, R, row_tile<T>> y, Mut<T, R, row_tile<T>> z, In<T, dyn, dyn> x, In<T, dyn> v, In<T, 40> few) {
  Dice<T, R> d{y, z, x, v, few};
  d.rows.push_back(d.tame(x.load_like(y)));
  d.sums.push_back(d.tame(d.total(d.row())));
  d.truths.push_back(d.inside());
  for (int steps = 3 + d.throw_below(9); steps > 0; --steps) d.step();
  d.end();
}

/// Compares what a kernel computes in rows of these lengths. True if its tiles were split.
template <class T, int R>
bool compare(const Recorded& r, int pieces, std::int64_t columns, std::int64_t other, std::int64_t vector) {
  constexpr int kRows = 5;
  const auto some = [](std::int64_t i) { return static_cast<T>(static_cast<float>((i * 7919 + 13) % 17)); };
  const auto x = Array<T>({kRows, columns}).each(some), z = Array<T>({kRows, other}).each(some),
             v = Array<T>({vector}).each(some), few = Array<T>({40}).each(some);
  passes::Tuning tuning;
  tuning.pieces = pieces;
  const std::vector<std::vector<std::int64_t>> dims{x.dims, z.dims, x.dims, v.dims, few.dims};
  const Passed before = passed(r, dims, tuning, "version_guards");
  const auto after = ir::clone(*before.module);
  const Certifying certifier(r, r.held(dims));
  const bool split = passes::split_tiles(*after->functions[0], &certifier);
  EXPECT_EQ(problems(*after), "");
  const auto run = [&](const ir::Module& m) {
    std::array<Array<T>, 2> results{x, z};
    Slots slots;
    slots.add(results[0]), slots.add(results[1]), slots.add(x), slots.add(v), slots.add(few);
    cpu::RunOptions options;
    options.threads = 1;
    options.checked = true;  // a tile index beyond a tensor is an error
    const cpu::Grid grid = grid_of(before.choices, (kRows + R - 1) / R, slots.values());
    cpu::Program::compile(m)->run(grid, slots.values(), options);
    return results;
  };
  const auto expected = run(*before.module), found = run(*after);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(std::memcmp(expected[i].data.data(), found[i].data.data(), found[i].data.size() * sizeof(T)), 0)
        << "result " << i << ", " << columns << ", " << other << " and " << vector << " columns";
  return split;
}

template <class T, int R>
void compare_some() {
  constexpr std::int64_t kBounds[] = {1, 63, 64, 65, 96, 97, 128, 129, 150, 160, 161, 192, 193, 256};  // of 256
  int split = 0, may = 0;
  constexpr unsigned kFirst = 100 * sizeof(T) + 1000 * R;
  for (seed = kFirst; seed < kFirst + rounds(40); ++seed) {
    SCOPED_TRACE("kernel " + std::to_string(seed));
    const Recorded r = recorded<&dice<T, R>>();
    std::mt19937 random(seed);
    for (int launch = 0; launch < 4; ++launch) {
      const auto length = [&] { return kBounds[random() % std::size(kBounds)] * row_tile<T> / 256; };
      const std::int64_t n = length(), other = random() % 8 ? n : length(), vector = random() % 2 ? n : length();
      split += compare<T, R>(r, 1 << launch % 3, n, other, vector);
      may += n <= row_tile<T> / 4 * 3;
    }
  }
  const bool many = rounds(40) == 40;  // so many that a share means something
  EXPECT_GT(many ? split * 3 : split, many ? may : 0) << "of " << may << " launches whose rows are short enough";
}

TEST(SplitTilesRandom, Integers) {
  compare_some<std::int32_t, 1>(), compare_some<std::int32_t, 4>();
  compare_some<std::uint8_t, 1>(), compare_some<std::int16_t, 2>();
}
TEST(SplitTilesRandom, Floats) {
  compare_some<float, 1>(), compare_some<float, 4>(), compare_some<double, 1>();
  compare_some<f16, 1>(), compare_some<bf16, 2>();
}

}  // namespace THIS_FILE
}  // namespace tessera::test
