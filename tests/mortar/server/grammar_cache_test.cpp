// Grammars that are kept: as many as fit, the last used ones.
#include "server/grammar_cache.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/rounds.hpp"
#include "mortar/errors.hpp"
#include "mortar/server/server_test.hpp"

namespace mortar::server {
namespace THIS_FILE {

/// A schema whose grammar is large: a set of `names` names.
Grammar large_grammar(int number, int names = 4000) {
  std::string schema = R"({"enum": [)";
  for (int i = 0; i < names; ++i)
    schema += (i > 0 ? ",\"" : "\"") + std::to_string(number) + "-name-" + std::to_string(i * 7919) + "\"";
  return Grammar::from_json_schema(schema + "]}");
}

class Cache : public GrammarCache {
 public:
  using GrammarCache::GrammarCache;
  /// Whether the grammar of this number was compiled.
  bool compiled(int number) {
    bool called = false;
    last = get(std::to_string(number), [&] {
      called = true;
      return large_grammar(number);
    });
    return called;
  }
  std::shared_ptr<const Grammar> last;
};

TEST(MortarGrammarCache, KeepsAsManyAsFitInItsBytes) {
  const std::size_t each = large_grammar(0).bytes();
  ASSERT_GT(each, 100'000U) << "as much as its names";
  Cache cache(3 * each + each / 2);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(cache.compiled(i));
  EXPECT_FALSE(cache.compiled(0)) << "all of them fit";
  const auto first = cache.last;
  EXPECT_TRUE(cache.compiled(3));
  EXPECT_EQ(cache.size(), 3U);
  EXPECT_LE(cache.bytes(), 3 * each + each / 2);
  EXPECT_FALSE(cache.compiled(0)) << "it was used after 1";
  EXPECT_EQ(cache.last, first) << "and is the one that requests share";
  EXPECT_TRUE(cache.compiled(1)) << "which was used longest ago";
  EXPECT_FALSE(cache.compiled(3));
}

TEST(MortarGrammarCache, DoesNotKeepWhatAloneIsLarger) {
  Cache cache(1000);
  EXPECT_TRUE(cache.compiled(0));
  EXPECT_GT(cache.last->bytes(), 1000U) << "it can be used all the same";
  EXPECT_EQ(cache.size(), 0U);
  EXPECT_EQ(cache.bytes(), 0U);
}

TEST(MortarGrammarCache, KeepsALimitedNumberOfSmallOnes) {
  GrammarCache cache;
  for (std::size_t i = 0; i < 2 * GrammarCache::kGrammars; ++i)
    (void)cache.get(std::to_string(i), [] { return Grammar::from_regex("a"); });
  EXPECT_EQ(cache.size(), GrammarCache::kGrammars);
}

// Masks are made while answers are written, long after the grammar was compiled.
TEST(MortarGrammarCache, CountsMasks) {
  const Tokenizer& tokenizer = plain_text().tokenizer();
  const auto vocabulary = std::make_shared<const Vocabulary>(tokenizer);
  Cache unlimited(SIZE_MAX);
  (void)unlimited.compiled(0);
  const auto grammar = unlimited.last;
  const std::size_t before = grammar->bytes();
  const auto read = [&] {
    for (int name = 0; name < 20; ++name) {
      const auto constraint = constrain(grammar, vocabulary, {.eos = {0}});
      std::vector<std::uint32_t> mask((static_cast<std::size_t>(tokenizer.size()) + 31) / 32);
      for (const TokenId id : tokenizer.encode("\"0-name-" + std::to_string(name * 7919) + "\"")) {
        constraint->fill_mask(mask);
        ASSERT_TRUE(constraint->accept(id));
      }
    }
  };
  read();
  EXPECT_GT(grammar->bytes(), before + 1000) << "its masks";
  Cache limited(before + large_grammar(1).bytes() + 700);  // their keys and entries, and not much more
  (void)limited.get("0", [&] { return *grammar; });
  EXPECT_EQ(limited.size(), 1U);
  (void)limited.compiled(1);
  EXPECT_EQ(limited.size(), 1U) << "the masks of the first one leave no room";
}

/// Bytes of this process that are in memory (man 5 proc, statm).
std::int64_t memory() {
  std::int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

/// Each thread that compiled a large grammar kept what it had needed, some 60 MiB, though the grammar was rejected.
TEST(MortarGrammarCache, AGrammarThatIsRejectedLeavesNoMemoryInUse) {
  if (tessera::test::kSanitizer) GTEST_SKIP() << "which keeps freed memory to see that it is not used";
  GrammarCache cache;
  const std::int64_t before = memory();
  std::int64_t most = 0;
  for (int i = 0; i < 3; ++i) {
    std::thread([&] {
      const auto compile = [] { return Grammar::from_regex("(a{1000}){1000}"); };
      EXPECT_THROW(cache.get("large", compile), RequestError);
      most = std::max(most, memory() - before);
    }).join();
  }
  EXPECT_LE(most, std::int64_t{40} << 20);
}

}  // namespace THIS_FILE
}  // namespace mortar::server
