// Names of code: everything that code follows from changes its name.
#include "jit/store/code_key.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tessera/jit/bundle.hpp"
#include "tessera/jit/forms.hpp"

namespace tessera::jit {
namespace {

const std::vector<std::byte> kSome{std::byte{1}, std::byte{2}}, kOther{std::byte{1}, std::byte{3}};

TEST(CodeKey, EachFieldIsPartOfTheName) {
  const CodeKey key{{}, 5, {90, 132, 4}, "warps=8", Form::Chosen, kSome};
  const std::function<void(CodeKey&)> changes[] = {
      [](CodeKey& k) { k.recording[31] = std::byte{1}; },
      [](CodeKey& k) { k.predicates = 4; },
      [](CodeKey& k) { k.target.sm = 100; },
      [](CodeKey& k) { k.target.num_sms = 114; },
      [](CodeKey& k) { k.target.bytecode_minor = 3; },
      [](CodeKey& k) { k.hints = ""; },
      [](CodeKey& k) { k.hints = "warps=8", k.maker.clear(); },
      [](CodeKey& k) { k.form = Form::Bare; },
      [](CodeKey& k) { k.form = Form::Fallback; },
      [](CodeKey& k) { k.maker = kOther; },
  };
  std::set<CacheKey> names{name_of(key)};
  for (const auto& change : changes) {
    CodeKey other = key;
    change(other);
    EXPECT_TRUE(names.insert(name_of(other)).second);
  }
  EXPECT_EQ(name_of(key), name_of(CodeKey(key)));
  CodeKey bare = key;
  bare.form = Form::Bare;
  EXPECT_EQ(name_of(bare), form_key(name_of(key), Form::Bare))
      << "`tessera build` knows the name of the chosen form alone";
}

TEST(CodeKey, TheTextOfACheckIsPartOfTheIdentity) {
  const std::vector<calling::Check> none, one{{"n is odd", {"a.cpp", "f", 1}}}, other{{"n is even", {"a.cpp", "f", 1}}};
  std::vector<calling::Check> moved = one;
  moved[0].where.line = 2;
  EXPECT_NE(identity_of(kSome, one), identity_of(kSome, other)) << "it is not in the bytecode";
  EXPECT_NE(identity_of(kSome, one), identity_of(kSome, none));
  EXPECT_NE(identity_of(kSome, one), identity_of(kOther, one));
  EXPECT_EQ(identity_of(kSome, one), identity_of(kSome, moved)) << "lines are in the locations of the bytecode";
}

TEST(CodeKey, AnAttemptWithMoreTimeIsAnotherOne) {
  const auto names = [](double seconds) { return cubin_names(kSome, "sm_90", {}, 3, seconds); };
  EXPECT_NE(names(20).attempt, names(0).attempt);
  EXPECT_EQ(names(20).attempt, names(20).attempt);
  EXPECT_EQ(names(20).cubin, names(0).cubin) << "the cubin does not depend on how long it took";
  EXPECT_EQ(names(20).slow, names(0).slow);
  EXPECT_EQ((std::set<CacheKey>{names(20).cubin, names(20).slow, names(20).attempt}).size(), 3U);
}

TEST(CodeKey, AllThatACubinDependsOnIsPartOfItsName) {
  tileiras::Assembler newer, another;
  newer.minor = 6;
  another.identity = "other bytes";
  std::set<CacheKey> cubins;
  const auto add = [&](const CubinNames& names) { return cubins.insert(names.cubin).second; };
  EXPECT_TRUE(add(cubin_names(kSome, "sm_90", {}, 3, 20)));
  EXPECT_TRUE(add(cubin_names(kOther, "sm_90", {}, 3, 20)));
  EXPECT_TRUE(add(cubin_names(kSome, "sm_100", {}, 3, 20)));
  EXPECT_TRUE(add(cubin_names(kSome, "sm_90", newer, 3, 20)));
  EXPECT_TRUE(add(cubin_names(kSome, "sm_90", another, 3, 20)));
  EXPECT_TRUE(add(cubin_names(kSome, "sm_90", {}, 0, 20)));
}

}  // namespace
}  // namespace tessera::jit
