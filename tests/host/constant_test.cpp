// Constant<T> parameters: ordinary host values inside the kernel, and part of what a recording is specialized by. Each
// kernel here counts how often it is recorded.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <limits>
#include <set>
#include <thread>

#include "host/expect_error.hpp"
#include "jit/rig.hpp"
#include "tessera/analysis/facts.hpp"
#include "tessera/host/contract.hpp"
#include "tessera/jit/bundle.hpp"
#include "tessera/passes/predicates.hpp"
#include "tessera/tessera.hpp"

namespace tessera {
namespace THIS_FILE {

class Constants : public testing::Test {
 protected:
  void SetUp() override {
    set_default_device(Device::cpu());
    set_check_mode(false);  // which would record at each launch
  }
};

f32 first(Tensor<f32, 1>& t) { return host(t).sync()[0]; }

int choices = 0;
void choosing(Mut<f32, 16> y, Constant<bool> twice, Scalar<f32> a, Constant<int> more) {
  ++choices;
  auto t = y.load() + a;
  if (twice) t = t * 2.0f;
  for (int i = 0; i < more; ++i) t = t + 1.0f;
  y.store(t);
}

TEST_F(Constants, EachValueHasARecordingAndEqualOnesShareIt) {
  auto y = zeros<f32>({16}).sync();
  const int before = choices;
  for (int round = 0; round < 3; ++round) {
    for (const bool twice : {false, true}) {
      for (const int more : {0, 1, 5}) {
        auto made = kernel<choosing>(zeros<f32>({16}), twice, 10.0f, more).sync();
        EXPECT_EQ(first(made), (twice ? 20.0f : 10.0f) + static_cast<f32>(more));
      }
    }
  }
  EXPECT_EQ(choices - before, 6);
  std::thread([&] { kernel<choosing>(mut(y), true, 0.5f, 5).sync(); }).join();
  kernel<choosing>(mut(y), true, 0.5f, 5).sync();
  EXPECT_EQ(choices - before, 6) << "another thread, another scalar";
}

TEST_F(Constants, MoreValuesThanAThreadRemembers) {
  for (int round = 0; round < 2; ++round) {
    for (int more = 0; more < 40; ++more) {
      auto y = kernel<choosing>(zeros<f32>({16}), false, 1.0f, more).sync();
      ASSERT_EQ(first(y), 1.0f + static_cast<f32>(more));
    }
  }
}

enum class Sum : std::uint8_t { None, Rows, All = 200 };
enum Plain { kPlus = 1, kMinus = -1 };

int kinds = 0;
void of_each_kind(Mut<f32, 8> y, In<f32, dyn> x, Constant<Sum> mode, Constant<Plain> sign, Constant<u64> large,
                  Constant<i8> small, Constant<f64> f, Constant<bf16> b, Constant<char> letter) {
  ++kinds;
  auto t = x.load_like(y, pad(float(b))) * float(b);
  switch (mode) {
    case Sum::None: break;
    case Sum::Rows: t = sum(t, axis<0>) + zeros<f32, 8>(); break;
    case Sum::All: t = full<f32, 8>(f); break;
  }
  if (sign == kMinus) t = -t;
  if (large > (u64{1} << 63)) t = t + 1.0f;
  y.store(t * small + (letter == 'x' ? 100.0f : 0.0f));
}

TEST_F(Constants, OfEachKind) {
  const auto x = ones<f32>({8}).sync();
  const auto run = [&](Sum mode, Plain sign, u64 large, int small, double f, float b, char letter) {
    auto y = kernel<of_each_kind>(zeros<f32>({8}), x, mode, sign, large, small, f, b, letter).sync();
    return first(y);
  };
  EXPECT_EQ(run(Sum::None, kPlus, 0, 1, 0, 3, 'a'), 3.0f);
  EXPECT_EQ(run(Sum::Rows, kPlus, 0, 1, 0, 3, 'a'), 24.0f);
  EXPECT_EQ(run(Sum::All, kPlus, 0, 1, 0.5, 3, 'a'), 0.5f);
  EXPECT_EQ(run(Sum::None, kMinus, 0, 1, 0, 3, 'a'), -3.0f);
  EXPECT_EQ(run(Sum::None, kPlus, ~u64{0}, 1, 0, 3, 'a'), 4.0f);
  EXPECT_EQ(run(Sum::None, kPlus, 0, -128, 0, 3, 'a'), -384.0f);
  EXPECT_EQ(run(Sum::None, kPlus, 0, 1, 0, 0.5f, 'x'), 100.5f);
  EXPECT_EQ(kinds, 7);
}

int floats = 0;
void by_bits(Mut<f32, 8> y, Constant<f32> c) {
  ++floats;
  y.store(full<f32, 8>(__builtin_signbit(static_cast<f32>(c)) ? -1.0f : 1.0f));
}

TEST_F(Constants, FloatsAreComparedByTheirBits) {
  const auto run = [](f32 c) {
    auto y = kernel<by_bits>(zeros<f32>({8}), c).sync();
    return first(y);
  };
  const f32 nan = std::numeric_limits<f32>::quiet_NaN();
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(run(0.0f), 1.0f);
    EXPECT_EQ(run(-0.0f), -1.0f);
    EXPECT_EQ(run(nan), 1.0f);
    EXPECT_EQ(run(-nan), -1.0f);
  }
  EXPECT_EQ(floats, 4) << "a NaN is equal to itself";
}

void everywhere(Mut<f32, 16> y, In<f32, dyn> x, Acc<f32, dyn> total, Constant<int> n, Constant<f32> s,
                Constant<bool> b) {
  auto t = x.tiles(shape<16>, pad(s)).load(0) * s + s - full<f32, 16>(n) + s * x.load_at(shape<16>, n);
  const Scalar<i32> k = n;
  tile_if (k > n) { t = t + 1.0f; }
  for (auto i : range(n)) t = t + cast<f32>(i + n) + cast<f32>(min(i, n));
  t = where(t > s, t, s);
  const std::vector<Tile<f32, 16>> all(n, t);
  t = all[n - 1] + x.tiles(shape<16>).load(n) + x.gather(n);
  require(b, "b must be set");
  check(n > 1, "n must be larger");
  t = reduce(t, axis<0>, s, [](auto p, auto q) { return max(p, q); }) + t;
  total.add(n, s);
  y.store(t + static_cast<f32>(ceil_div(17, n)) + static_cast<f32>(b ? n : 4));
}

TEST_F(Constants, StandWhereANumberOfTheHostDoes) {
  const auto x = ones<f32>({64}).sync();
  auto total = zeros<f32>({4}).sync();
  auto y = kernel<everywhere>(zeros<f32>({16}), x, mut(total), 3, 2.0f, true).sync();
  // t = 1 * 2 + 2 - 3 + 2 * 1 = 3, + (3 + 4 + 5) + (0 + 1 + 2) = 18, + 1 + 1 = 20; 20 + 20 + 6 + 3
  EXPECT_EQ(first(y), 49.0f);
  EXPECT_EQ(host(total).sync(), (std::vector<f32>{0, 0, 0, 2}));
  EXPECT_ERROR(ShapeError, kernel<everywhere>(mut(y), x, mut(total), 3, 2.0f, false).sync(), "b must be set");
  EXPECT_ERROR(TraceError, kernel<everywhere>(mut(y), x, mut(total), 1, 2.0f, true).sync(), "n must be larger");
  kernel<everywhere>(mut(y), x, mut(total), 3, 2.0f, true).sync();
}

TEST_F(Constants, AValueThatDoesNotFitIsRejectedAndNothingIsLost) {
  const auto x = ones<f32>({8}).sync();
  auto y = ones<f32>({8}).sync();
  EXPECT_ERROR(ShapeError, y = kernel<of_each_kind>(std::move(y), x, Sum::None, kPlus, 0, 128, 0.0, 1.0f, 'a').sync(),
               "argument 6 (Constant<i8>)", "does not fit in i8", "constant_test.cpp");
  EXPECT_ERROR(ShapeError, y = kernel<of_each_kind>(std::move(y), x, Sum::None, kPlus, -1, 1, 0.0, 1.0f, 'a').sync(),
               "argument 5 (Constant<u64>)", "does not fit in u64");
  EXPECT_ERROR(ShapeError, y = kernel<of_each_kind>(std::move(y), x, Sum::None, kPlus, 0, 1, 0.0, 1.0f, 300).sync(),
               "argument 9 (Constant<i8>)");
  EXPECT_EQ(first(y), 1.0f);
  y = kernel<of_each_kind>(std::move(y), x, Sum::None, kPlus, 0, 127, 0.0, 1.0f, 'a').sync();
  EXPECT_EQ(first(y), 127.0f);
}

void in_between(Mut<f32, 16> y, Constant<int> n, Mut<f32, 16> z, Constant<bool> b, In<f32, dyn> x, Scalar<f32> a) {
  require(a > 0.0f, "a must be positive");
  y.store(x.load_like(y) * a + static_cast<f32>(n));
  z.store(x.load_like(z) * (b ? 3.0f : 4.0f));
}

TEST_F(Constants, BetweenTensorsThatComeBack) {
  const auto x = ones<f32>({32}).sync();
  auto [y, z] = kernel<in_between>(zeros<f32>({32}), 7, zeros<f32>({32}), true, x, 2.0f).sync();
  EXPECT_EQ(first(y), 9.0f);
  EXPECT_EQ(first(z), 3.0f);
  y = kernel<in_between>(std::move(y), 8, mut(z), false, x, 2.0f).sync();
  EXPECT_EQ(first(y), 10.0f);
  EXPECT_EQ(first(z), 4.0f);
  EXPECT_ERROR(ShapeError, kernel<in_between>(mut(y), 8, mut(z), false, x, 0.0f).sync(), "a must be positive");
  auto short_one = zeros<f32>({16}).sync();
  EXPECT_ERROR(ShapeError, kernel<in_between>(mut(y), 8, mut(short_one), false, x, 1.0f).sync(),
               "has 1 (extents [16])");
}

void without(Mut<f32, 16> y, Mut<f32, 16> z, In<f32, dyn> x, Scalar<f32> a) {
  require(a > 0.0f, "a must be positive");
  y.store(x.load_like(y) * a);
  z.store(x.load_like(z) * 4.0f);
}

template <auto K>
std::vector<std::string> obligations() {
  const lang::Trace t = lang::trace<K>();
  const auto contract = detail::launch_contract(t.params, false);
  EXPECT_EQ(contract.args.size(), t.module->functions[0]->body().num_args());
  std::vector<std::string> texts;
  const auto facts = analysis::Facts::analyze(*t.module, contract, passes::predicate_table());
  for (const analysis::Obligation& o : facts.obligations()) texts.push_back(o.text);
  return texts;
}
TEST_F(Constants, TakeNothingFromWhatTheCompilerKnowsOfALaunch) {
  EXPECT_FALSE(obligations<in_between>().empty());
  EXPECT_EQ(obligations<in_between>().size(), obligations<without>().size());
}

void labelled(Mut<f32, 16> y, Constant<Sum> mode, Constant<f32> s, Constant<bool> b) {
  y.store(full<f32, 16>(b && mode == Sum::All ? s : 0.0f));
}

TEST_F(Constants, AreInWhatIsCompiledAheadOfTimeAndInItsNames) {
  const jit_rig::Folder folder("constants");
  const jit_rig::Variable collect("TESSERA_COLLECT", folder.path), gpus("TESSERA_COLLECT_GPUS", "sm_90");
  auto y = zeros<f32>({16}).sync();
  for (const bool b : {true, false, true}) kernel<labelled>(mut(y), Sum::All, 1.5f, b).sync();
  kernel<labelled>(mut(y), Sum::All, 2.5f, true).sync();
  std::set<std::string> labels;
  std::set<jit::CacheKey> keys;
  for (const jit::Collected& c : jit::collected(folder.path)) {
    if (!c.label.starts_with("labelled") || !c.asked) continue;
    labels.insert(c.label);
    keys.insert(c.key);
  }
  EXPECT_EQ(keys.size(), 3u);
  EXPECT_EQ(labels, (std::set<std::string>{"labelled_200__1_5__true_", "labelled_200__1_5__false_",
                                           "labelled_200__2_5__true_"}));
}

}  // namespace THIS_FILE
}  // namespace tessera
