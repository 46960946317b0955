// Random kernels over rows of up to 256 elements: they compute the same bits before and after split_tiles, on the CPU,
// for rows around each bound. A kernel is C++ that runs while it is recorded, so it may throw dice. Floating-point
// values are small whole numbers, whose sums are exact in any order.
#include <array>
#include <random>

#include "passes/passed.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::test {
namespace {

unsigned seed = 0;  // of the kernel that is recorded next; every recording of it throws the same dice

/// Rows of fewer bytes are not split.
template <class T>
constexpr int row_tile = sizeof(T) > 4 ? 256 : 1024 / sizeof(T);

/// The values that a kernel has computed so far; draws the operations that make more of them.
template <class T, int R>
class Dice {
 public:
  static constexpr int kTile = row_tile<T>;
  using Row = Tile<T, R, kTile>;
  using Truth = Tile<bool, R, kTile>;
  using Sum = Tile<T, R, 1>;
  using Piece = Mut<T, R, kTile>;

  Dice(Piece y, Piece z, In<T, dyn, dyn> x, In<T, dyn> v) : y_(y), z_(z), x_(x), v_(v) {
    add(x.load_like(y));
    sums_.push_back(tame(total(row())));
    truths_.push_back(inside());
  }
  int throw_below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  void step() {
    switch (throw_below(10)) {
      case 0:
      case 1: return add(elementwise());
      case 2: return add(from_memory());
      case 3: return add(moved());
      case 4: return add(row() + sum_());
      case 5: return truths_.push_back(compared());
      case 6: return truths_.push_back(logic());
      case 7: return control();
      default: return sums_.push_back(tame(reduced()));
    }
  }
  void finish() {
    Row all = row();
    for (const Sum& s : sums_) all = tame(all * 2 + s);
    y_.store(all);
    z_.store(tame(row() + row() * sum_()));
  }

 private:
  static constexpr bool kFloat = detail::is_float<T>;
  static constexpr bool kNarrow = kFloat && sizeof(T) == 2;

  template <class V>
  const V& one_of(const std::vector<V>& values) {
    return values[static_cast<std::size_t>(throw_below(static_cast<int>(values.size())))];
  }
  Row row() { return one_of(rows_); }
  Sum sum_() { return one_of(sums_); }
  Truth truth() { return one_of(truths_); }
  void add(const Row& v) { rows_.push_back(tame(v)); }

  /// Floats as small whole numbers, without NaN, infinities and -0.
  template <class V>
  static V tame(const V& v) {
    if constexpr (kFloat)
      return clamp(floor(v), kNarrow ? -1 : -30, kNarrow ? 1 : 30) + 0;
    else
      return v;
  }
  Tile<i32, R, kTile> places() { return broadcast(iota<i32, 1, kTile>(axis<1>), shape<R, kTile>); }
  Truth inside() {
    const auto i = places();
    const auto n = throw_below(4) == 0 ? v_.dim(0) : x_.dim(1);
    switch (throw_below(10)) {
      case 0: return n > i;
      case 1: return i <= n;
      case 2: return n >= i;
      case 3: return i >= n;
      case 4: return !(n <= i);
      case 5: return i > n;
      case 6: return cast<u32>(i) < cast<u32>(n);
      case 7: return i < min(n, throw_below(kTile));
      default: return i < n;
    }
  }
  Truth compared() {
    switch (throw_below(7)) {
      case 0: return row() < row();
      case 1: return row() == 0;
      case 2: return row() >= sum_();
      case 3: return places() < throw_below(kTile);
      case 4: return places() == x_.dim(1) - 1;
      default: return inside();
    }
  }
  Truth logic() {
    switch (throw_below(5)) {
      case 0: return truth() & truth();
      case 1: return truth() | truth();
      case 2: return truth() ^ truth();
      case 3: return !truth();
      default: return where(truth(), truth(), truth());
    }
  }
  Row elementwise() {
    switch (throw_below(9)) {
      case 0: return row() + row();
      case 1: return row() - row();
      case 2: return row() * row();
      case 3: return max(row(), row());
      case 4: return min(row(), throw_below(7));
      case 5: return cast<T>(places()) + row();
      case 6:
        if constexpr (!kFloat) return ((row() ^ row()) >> 1) / 3;
        return abs(row());
      case 7: return where(truth(), row(), throw_below(9));
      default: return where(truth(), row(), row());
    }
  }
  detail::Padding<T> padding() {
    if constexpr (kFloat) {
      const int n = throw_below(5);
      if (n == 0) return pad::neg_inf;
      if (n == 1) return pad::pos_inf;
      if (n == 2) return pad::nan;
    }
    if (throw_below(2) == 0) return pad::zero;
    return pad(Scalar<T>(throw_below(4)));
  }
  Row from_memory() {
    switch (throw_below(8)) {
      case 0: return y_.load(padding());
      case 1: return z_.load(padding());
      case 2: z_.store(row()); return row();
      case 3: y_.store(row()); return z_.load();
      case 4: return row() + v_.load_like(y_, axes<1>, partial, padding());
      case 5: return z_.gather(places() * 0, where(inside(), x_.dim(1) - 1 - places(), -1));
      default: return x_.load_like(y_, padding());
    }
  }
  Row moved() {
    switch (throw_below(4)) {
      case 0: return transpose(transpose(row()) + 1);
      case 1: {
        const auto planes = reshape(row(), shape<R, 1, kTile>) * cast<T>(iota<i32, 1, 4, 1>(axis<1>) - 1);
        return reshape(sum(tame(planes), axis<1>), shape<R, kTile>);
      }
      case 2: return row() + sum(row(), axis<0>);
      default: return reshape(permute(reshape(row(), shape<R, kTile, 1>) - 1, order<1, 2, 0>), shape<kTile, R>, 0);
    }
  }
  template <class V, class S>
  Row reshape(const V& v, S to, int) {
    return transpose(tessera::reshape(v, to));
  }
  template <class V, class S>
  auto reshape(const V& v, S to) {
    return tessera::reshape(v, to);
  }
  /// Of bf16 in f32: more than 256 ones are not exact otherwise.
  static Sum total(const Row& t) {
    if constexpr (std::is_same_v<T, bf16>)
      return cast<T>(tame(sum(cast<f32>(t), axis<1>)));
    else
      return sum(t, axis<1>);
  }
  Sum reduced() {
    switch (throw_below(10)) {
      case 0: return max(row(), axis<1>);
      case 1: return min(row(), axis<1>);
      case 2: return cast<T>(cast<i32>(any(truth(), axis<1>)) + cast<i32>(all(truth(), axis<1>)) * 2);
      case 3: return cast<T>(argmax(row(), axis<1>).index);
      case 4:
        return reduce(where(truth(), clamp(row(), 0, 9), 0), axis<1>, 0, [](auto a, auto b) { return max(b, a); });
      case 5: return reduce(row(), axis<1>, T(-1) < T(0) ? -100 : 0, [](auto a, auto b) { return where(a < b, b, a); });
      case 6: return prod(where(truth(), clamp(row(), 1, 1), 1), axis<1>) + max(x_.load_like(y_, padding()), axis<1>);
      case 7: return total(where(truth(), clamp(row(), 0, 1), 1));
      default: return total(row());
    }
  }
  void control() {
    Sum s = sum_();
    if (throw_below(2) == 0) {
      const Row t = row();
      for (auto k : range(3)) s = tame(s + total(t * cast<T>(k)));
    } else {
      const Row t = row();
      tile_if (x_.dim(0) % 2 == 0) {
        s = tame(max(t, axis<1>));
        z_.store(t);
      } else {
        s = tame(s + total(t));
      }
    }
    sums_.push_back(s);
  }

  std::mt19937 random_{seed};
  Piece y_, z_;
  In<T, dyn, dyn> x_;
  In<T, dyn> v_;
  std::vector<Row> rows_;
  std::vector<Sum> sums_;
  std::vector<Truth> truths_;
};

template <class T, int R>
void dice(Mut<T, R, row_tile<T>> y, Mut<T, R, row_tile<T>> z, In<T, dyn, dyn> x, In<T, dyn> v) {
  Dice<T, R> d(y, z, x, v);
  for (int steps = 4 + d.throw_below(12); steps > 0; --steps) d.step();
  d.finish();
}

/// Compares the numbers of one kernel. Returns how many launches had their tiles split, of those that may have.
template <class T, int R>
std::pair<int, int> compare(unsigned number) {
  constexpr std::array<std::int64_t, 16> kColumns{1,   63,  64,  65,  96,  97,  127, 128,
                                                  129, 150, 160, 161, 191, 192, 193, 256};
  std::mt19937 random(number);
  seed = number;
  const Recorded r = recorded<&dice<T, R>>();
  int split = 0, may = 0;
  for (int launch = 0; launch < 4; ++launch) {
    const auto length = [&] { return kColumns[random() % 16] * row_tile<T> / 256; };
    const std::int64_t columns = length(), vector = random() % 2 ? columns : length();
    passes::Tuning tuning;
    tuning.pieces = 1 << random() % 3;
    const auto some = [&](std::int64_t i) { return static_cast<T>(static_cast<float>((i * 7919 + 13) % 17 - 8)); };
    const auto x = Array<T>({5, columns}).each(some);
    const auto v = Array<T>({vector}).each(some);
    using Results = std::array<Array<T>, 2>;
    const auto run = [&](const ir::Module& m, const passes::Choices& c, Results& results) {
      Slots slots;
      slots.add(results[0]), slots.add(results[1]), slots.add(x), slots.add(v);
      cpu::RunOptions options;
      options.threads = 1;
      cpu::Program::compile(m)->run(grid_of(c, (5 + R - 1) / R, slots.values()), slots.values(), options);
    };
    const std::vector<std::vector<std::int64_t>> dims{{5, columns}, {5, columns}, {5, columns}, {vector}};
    const Passed before = passed(r, dims, tuning, "version_guards");
    const auto after = ir::clone(*before.module);
    const Certifying certifier(r, r.facts.evaluate(r.slots(dims)));
    may += columns <= row_tile<T> / 4 * 3;
    split += passes::split_tiles(*after->functions[0], &certifier);
    EXPECT_EQ(problems(*after), "");
    Results expected{x, x}, found{x, x};
    run(*before.module, before.choices, expected);
    run(*after, before.choices, found);
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_EQ(std::memcmp(expected[i].data.data(), found[i].data.data(), x.data.size() * sizeof(T)), 0)
          << "kernel " << number << ", " << columns << " columns, vector of " << vector << ", pieces " << *tuning.pieces
          << ", result " << i;
    if (testing::Test::HasFailure()) {
      if (std::getenv("HOSTILE")) std::cerr << ir::print(*before.module) << ir::print(*after);
      break;
    }
  }
  return {split, may};
}

template <class T, int R>
void compare_some() {
  static const int kernels = std::getenv("KERNELS") ? std::atoi(std::getenv("KERNELS")) : 12;
  static const unsigned first = std::getenv("FIRST") ? static_cast<unsigned>(std::atoi(std::getenv("FIRST"))) : 1;
  int split = 0, may = 0;
  for (unsigned k = first; k < first + static_cast<unsigned>(kernels) && !testing::Test::HasFailure(); ++k) {
    const auto [s, m] = compare<T, R>(k * 31 + sizeof(T) + R);
    split += s, may += m;
  }
  std::cerr << split << " of " << may << "\n";
  EXPECT_GT(split * 4, may);
}

TEST(SplitTilesRandom, Integers) { compare_some<std::int32_t, 1>(); }
TEST(SplitTilesRandom, IntegersInSeveralRows) { compare_some<std::int32_t, 4>(); }
TEST(SplitTilesRandom, Bytes) { compare_some<std::uint8_t, 1>(); }
TEST(SplitTilesRandom, ShortIntegers) { compare_some<std::int16_t, 2>(); }
TEST(SplitTilesRandom, Floats) { compare_some<float, 1>(); }
TEST(SplitTilesRandom, FloatsInSeveralRows) { compare_some<float, 4>(); }
TEST(SplitTilesRandom, Doubles) { compare_some<double, 1>(); }
TEST(SplitTilesRandom, HalfPrecision) { compare_some<f16, 1>(); }
TEST(SplitTilesRandom, BrainFloats) { compare_some<bf16, 2>(); }

}  // namespace
}  // namespace tessera::test
