// Pages of the KV cache: who has which, and what is found again.
#include "engine/pages.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace mortar {
namespace THIS_FILE {

const std::vector<TokenId> kFirst = {1, 2, 3}, kSecond = {4, 5, 6};

TEST(MortarPages, AreTakenUntilNoneIsFree) {
  Pages pages(2);
  const auto a = pages.take(), b = pages.take();
  ASSERT_TRUE(a && b);
  EXPECT_NE(*a, *b);
  EXPECT_FALSE(pages.take());
  pages.hold(*a);
  pages.release(*a);
  EXPECT_EQ(pages.free(), 0) << "it has a holder left";
  pages.release(*a);
  EXPECT_EQ(pages.take(), a);
}

TEST(MortarPages, AreFoundByTheirTokensAndThoseBefore) {
  Pages pages(4);
  const PageId a = *pages.take(), b = *pages.take();
  const Contents begin = pages.publish(a, 0, kFirst);
  pages.publish(b, begin, kSecond);
  pages.release(b);
  pages.release(a);
  const auto first = pages.find(0, kFirst);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->page, a);
  EXPECT_FALSE(pages.find(0, kSecond)) << "not at the beginning";
  const auto second = pages.find(first->contents, kSecond);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->page, b);
  EXPECT_EQ(pages.free(), 2) << "what was found is held";
}

TEST(MortarPages, KeepTheirContentsUntilTheyAreNeeded) {
  Pages pages(3);
  const PageId a = *pages.take(), b = *pages.take();
  pages.publish(a, 0, kFirst);
  pages.publish(b, 0, kSecond);
  pages.release(b);
  pages.release(a);
  EXPECT_EQ(pages.take(), PageId{2}) << "the page without contents";
  EXPECT_EQ(pages.take(), b) << "the one that was released first";
  EXPECT_FALSE(pages.find(0, kSecond));
  EXPECT_TRUE(pages.find(0, kFirst));
}

TEST(MortarPages, EqualContentsAreKnownOnce) {
  Pages pages(2);
  const PageId a = *pages.take(), b = *pages.take();
  const Contents known = pages.publish(a, 0, kFirst);
  EXPECT_EQ(pages.publish(b, 0, kFirst), known);
  pages.release(b);
  EXPECT_EQ(pages.take(), b);
  EXPECT_EQ(pages.find(0, kFirst)->page, a);
}

}  // namespace THIS_FILE
}  // namespace mortar
