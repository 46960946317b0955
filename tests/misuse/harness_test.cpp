// The misuse harness detects errors: each row here is wrong in one way.
#include <gtest/gtest-spi.h>

#include <cstdio>

#include "misuse/misuse.hpp"

namespace tessera::misuse {
namespace {

/// Runs a wrong row; returns the harness's complaints.
std::vector<std::string> complaints(void (*run)(Call&), std::uint32_t line = 1, const char* entry = "a wrong row") {
  testing::TestPartResultArray results;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    check({entry, __FILE__, line, run});
  }
  std::vector<std::string> texts;
  for (int i = 0; i < results.size(); ++i) texts.emplace_back(results.GetTestPartResult(i).message());
  return texts;
}
/// The first complaint that has this text.
bool has(const std::vector<std::string>& texts, const std::string& wanted) {
  return std::any_of(texts.begin(), texts.end(), [&](const std::string& t) { return t.find(wanted) != t.npos; });
}

TEST(MisuseHarness, NoticesWhatIsAccepted) {
  const auto found = complaints([](Call& c) {
    (void)c.extent(3);  // which no call reads
    c.done();
  });
  EXPECT_EQ(found.size(), 5u) << "the extents that must be rejected";
  EXPECT_TRUE(has(found, "it is accepted"));
}

TEST(MisuseHarness, NoticesAnErrorOfAnotherPlace) {
  const auto row = [](Call& c) {
    const Extent n = c.extent(3);
    (void)zeros<f32>({n}, SourceLocation{"elsewhere.cpp", "", 7, 0});
    c.done();
  };
  EXPECT_TRUE(has(complaints(row), "its place is not a line of the row"));
  EXPECT_TRUE(has(complaints([](Call& c) { (void)zeros<f32>({c.extent(3)}), c.done(); }, 100000), "its place"));
  EXPECT_TRUE(complaints([](Call& c) { (void)zeros<f32>({c.extent(3)}), c.done(); }).empty()) << "the accept twin";
}

TEST(MisuseHarness, NoticesWhatAnErrorDoesNotSay) {
  const auto row = [](Call& c) {
    if (c.other({{"something", Outcome::Rejected, {"ShapeError", "expected 3", "found 4"}}}) == 0)
      throw ShapeError("expected 3 elements, found 5", SourceLocation::current());
    c.done();
  };
  EXPECT_TRUE(has(complaints(row), "it does not say 'found 4'"));
  EXPECT_FALSE(has(complaints(row), "it does not say 'expected 3'"));
  EXPECT_TRUE(has(complaints(
                      [](Call& c) {
                        if (c.other({{"something", Outcome::Rejected, {"found 5"}}}) == 0)
                          throw ShapeError("expected 3 elements, found 5", SourceLocation::current());
                        c.done();
                      },
                      1, "borrow"),
                  "it does not say what to do"));
}

TEST(MisuseHarness, NoticesAnOperandThatIsNotAsItWas) {
  EXPECT_TRUE(has(complaints([](Call& c) {
                    auto& t = c.out<f32, 1>({3});
                    if (c.other({{"something", Outcome::Rejected}}) == 0) {
                      copy_into(mut(t), ones<f32>({3})).sync();
                      throw ShapeError("rejected", SourceLocation::current());
                    }
                    c.done();
                  }),
                  "operand 1: its elements have changed"));
  EXPECT_TRUE(has(complaints([](Call& c) {
                    auto& t = c.out<f32, 1>({3});
                    if (c.other({{"something", Outcome::Rejected}}) == 0) {
                      t = Tensor<f32, 1>();
                      throw ShapeError("rejected", SourceLocation::current());
                    }
                    c.done();
                  }),
                  "operand 1: it is empty"));
}

TEST(MisuseHarness, NoticesThatTheNextCallFails) {
  static bool poisoned;
  poisoned = false;
  EXPECT_TRUE(has(complaints([](Call& c) {
                    if (poisoned) throw DeviceError("poisoned", SourceLocation::current());
                    poisoned = c.other({{"something", Outcome::Rejected}}) == 0;
                    if (poisoned) throw ShapeError("rejected", SourceLocation::current());
                    c.done();
                  }),
                  "the next legal call is rejected"));
}

TEST(MisuseHarness, NoticesAnotherResultAndOtherExceptions) {
  EXPECT_TRUE(has(complaints([](Call& c) {
                    c.result(c.other({{"something", Outcome::Same}}));
                  }),
                  "it gives another result"));
  EXPECT_TRUE(has(complaints([](Call& c) {
                    if (c.other({{"something", Outcome::Rejected}}) == 0) throw std::bad_alloc();
                    c.done();
                  }),
                  "an error that is none of tessera's"));
  EXPECT_TRUE(has(complaints([](Call& c) {
                    if (c.other({{"something", Outcome::Same}}) == 0)
                      throw ShapeError("rejected", SourceLocation::current());
                    c.done();
                  }),
                  "it is rejected"));
}

TEST(MisuseTable, OfWorkInFlightHasAHundredAndTwentyRowsAtLeast) {
  const Size size = size_of_table(about_work_in_flight);
  std::printf("%zu rows with %zu misuses, each followed by the legal call\n", size.rows, size.rejected);
  EXPECT_GE(size.rows, 120u);
  EXPECT_GE(size.rejected, 500u);
}

}  // namespace
}  // namespace tessera::misuse
