// API.md section 3: the messages of misused launches; the nearest legal program works.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <tessera/tessera.hpp>
#include <vector>

#include "api/kernels.hpp"
#include "host/expect_error.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace api_kernels;

/// A source file to be quoted from: the tests' own is not found where compilers are given relative paths. Each process
/// has one of its own, because tests run beside each other.
struct Source {
  std::string path =
      (std::filesystem::temp_directory_path() / ("tessera_errors_" + std::to_string(getpid()) + "_source.cpp"))
          .string();
  explicit Source(const char* text) {
    std::FILE* f = std::fopen(path.c_str(), "w");
    std::fputs(text, f);
    std::fclose(f);
  }
  ~Source() { std::remove(path.c_str()); }
  SourceLocation line(std::uint32_t n) const { return {path.c_str(), "", n, 0}; }
};

struct Errors : testing::Test {
  Tensor<f32, 1> x = ones<f32>({1024}).sync();
  Tensor<f32, 1> y = zeros<f32>({1024}).sync();
  std::vector<f32> values() { return host(y).sync(); }
};

TEST_F(Errors, LendAndReadInOneCall) {
  const Source source("  kernel<saxpy<128>>(mut(y), 2.0f, y).sync();");
  EXPECT_ERROR(BorrowError, (void)kernel<saxpy<128>>(mut(y), 2.0f, y, source.line(1)),
               "source.cpp:1: BorrowError: argument 3 (In<f32, dyn>) and argument 1 (Mut<f32, 128>) of kernel saxpy "
               "are the same storage; "
               "argument 1 is written, so argument 3 may not share it.\n  Make a copy (x = clone(y)), or write in "
               "place with y.load().");
  EXPECT_ERROR(BorrowError, (void)kernel<saxpy<128>>(mut(y), 2.0f, y), "errors_test.cpp", "may not share it");
  const auto copy = clone(y).sync();
  kernel<saxpy<128>>(mut(y), 2.0f, copy).sync();
  EXPECT_EQ(values()[0], 0.0f);
}

void copy_pieces(Mut<f32, 128> to, Mut<f32, 128> from) { to.store(from.load()); }
TEST_F(Errors, PartsOfOneTensorLentTwice) {
  const Source source(
      "  kernel<copy_pieces>(mut(y).slice<0>(0, 512), mut(y).slice<0>(512, 1024)).sync();\n"
      "  kernel<saxpy<128>>(mut(y).slice<0>(0, f(1)), 2.0f, y).sync();");
  EXPECT_ERROR(BorrowError,
               (void)kernel<copy_pieces>(mut(y).slice<0>(0, 512), mut(y).slice<0>(512, 1024), source.line(1)),
               "both are written, so each needs its own.\n  Make a copy: clone(y.slice<0>(0, 512)) for one of them.");
  EXPECT_ERROR(BorrowError, (void)kernel<saxpy<128>>(mut(y).slice<0>(0, 512), 2.0f, y, source.line(2)),
               "Make a copy (clone()), or write in place with the Mut parameter's load().");
  auto upper = clone(y.slice<0>(512, 1024)).sync();
  kernel<copy_pieces>(mut(y).slice<0>(0, 512), mut(upper)).sync();
}

TEST_F(Errors, GiveAndReadInOneCallLosesNothing) {
  EXPECT_ERROR(BorrowError, (void)kernel<saxpy<128>>(std::move(y), 2.0f, y),
               "argument 3 (In<f32, dyn>) and argument 1 (Mut<f32, 128>)");
  EXPECT_EQ(y.size(), 1024);  // NOLINT(bugprone-use-after-move): a rejected launch takes nothing
  EXPECT_ERROR(BorrowError, (void)kernel<saxpy<128>>(mut(y), 2.0f, y.slice<0>(0, 1024)), "same storage");
  y = kernel<saxpy<128>>(std::move(y), 2.0f, x).sync();
  EXPECT_EQ(values()[0], 2.0f);
}

template <int B>
void pair_of(Mut<f32, B> a, Mut<f32, B> b) {
  a.store(b.load());
}
TEST_F(Errors, OneTensorTwice) {
  EXPECT_ERROR(BorrowError, (void)kernel<pair_of<128>>(mut(y), mut(y)), "argument 1 (Mut<f32, 128>) and argument 2",
               "both are written");
  EXPECT_ERROR(BorrowError, (void)kernel<pair_of<128>>(std::move(y), std::move(y)), "both are written");  // NOLINT
  auto [a, b] = kernel<pair_of<128>>(std::move(y), std::move(x)).sync();                                  // NOLINT
  EXPECT_EQ(host(a).sync()[7], 1.0f);
}

TEST_F(Errors, MovedFrom) {
  const auto taken = std::move(y);
  EXPECT_ERROR(BorrowError, (void)kernel<saxpy<128>>(std::move(y), 2.0f, x), "argument 1 (Mut<f32, 128>)", "empty",
               "moved from");  // NOLINT
  EXPECT_ERROR(BorrowError, (void)kernel<saxpy<128>>(mut(x), 2.0f, y), "argument 3", "empty",
               "kernel saxpy");                                                   // NOLINT
  EXPECT_ERROR(BorrowError, (void)kernel<saxpy<128>>(mut(y), 2.0f, x), "empty");  // NOLINT
  auto op = zeros<f32>({1024});
  auto made = std::move(op).sync();
  EXPECT_ERROR(BorrowError, (void)kernel<saxpy<128>>(std::move(op), 2.0f, x), "argument 1", "runs once");  // NOLINT
}

TEST_F(Errors, AnOperationThatWasNotSentHoldsItsOperands) {
  auto pending = kernel<saxpy<128>>(mut(y), 2.0f, x);
  EXPECT_ERROR(BorrowError, (void)kernel<saxpy<128>>(mut(y), 2.0f, x), "kernel saxpy", "errors_test.cpp");
  EXPECT_ERROR(BorrowError, (void)kernel<saxpy<128>>(mut(x), 2.0f, zeros<f32>({1024})), "kernel saxpy");
  EXPECT_ERROR(BorrowError, (void)host(y), "host cannot read this tensor: it is being written by argument 1",
               "kernel saxpy");
  const auto read = host(x).sync();  // readers do not conflict
  std::move(pending).sync();
  EXPECT_EQ(values()[0], 2.0f);
}

TEST_F(Errors, ADroppedOperationLeavesNothingBehind) {
  { auto dropped = kernel<saxpy<128>>(mut(y), 2.0f, x); }
  kernel<saxpy<128>>(mut(y), 3.0f, x).sync();
  EXPECT_EQ(values()[0], 3.0f);
}

TEST_F(Errors, OwnersMayGoWhileWorkIsInFlight) {
  Stream s;
  Tensor<f32, 1> result;
  {
    auto a = full<f32>({200000}, 2.0f).on(s);
    auto b = zeros<f32>({200000}).on(s);
    result = kernel<saxpy<128>>(std::move(b), 2.0f, a).on(s);
  }
  EXPECT_EQ(host(result).sync(), std::vector<f32>(200000, 4.0f));
  { auto lost = kernel<saxpy<128>>(zeros<f32>({200000}), 2.0f, ones<f32>({200000})).on(s); }
  s.synchronize();
}

TEST_F(Errors, RequirementsNameTheirKernelAndExtents) {
  const auto b = zeros<bf16>({4, 2000}).sync();
  EXPECT_ERROR(ShapeError, (void)kernel<softmax<1024>>(empty_like(b), b),
               "kernel softmax requires: a row must fit in one piece", "kernels.hpp", "[4, 2000]", "errors_test.cpp");
  const auto fits = zeros<bf16>({4, 1024}).sync();
  (void)kernel<softmax<1024>>(empty_like(fits), fits).sync();
}

TEST_F(Errors, PiecesMustAgree) {
  EXPECT_ERROR(ShapeError, (void)kernel<pair_of<128>>(mut(y), zeros<f32>({128})), "argument 1 (Mut<f32, 128>)",
               "has 8 pieces (extents [1024])", "has 1 (extents [128])");
  EXPECT_ERROR(ShapeError, (void)kernel<pair_of<128>>(zeros<f32>({128}), mut(y)), "argument 1 (Mut<f32, 128>)",
               "(extents [128])", "has 8 (extents [1024])");
  (void)kernel<pair_of<128>>(mut(y), zeros<f32>({1000})).sync();  // also 8 pieces
}

void both_axes(Mut<f32, 2, 64> y, In<f32, dyn, dyn> x) { y.store(x.load_like(y)); }
void along_rows(Mut<f32, 2, 64> y, In<f32, dyn> w) { y.store(y.load() + w.load_like(y, axes<1>)); }
void any_extents(Mut<f32, 2, 64> y, In<f32, dyn, dyn> x) { y.store(x.load_like(y, partial, pad(-1))); }
void scheduled_regions(MutTiles<f32, 2, 64> y, In<f32, dyn, dyn> x) {
  for (auto out : y) out.store(x.load_like(out));
}
TEST_F(Errors, RegionsMustAgree) {
  for (const int n : {1023, 1025, 10, 2, 0}) {
    const std::string found = "[" + std::to_string(n) + "]";
    EXPECT_ERROR(ShapeError, (void)kernel<saxpy<128>>(mut(y), 2.0f, zeros<f32>({n})), "argument 3 (In<f32, dyn>)",
                 found.c_str(), "argument 1 (Mut<f32, 128>)", "[1024]", "kernels.hpp", "axis 0 of the first", "partial",
                 "errors_test.cpp");
  }
  for (const int n : {1024, 1}) (void)kernel<saxpy<128>>(mut(y), 2.0f, zeros<f32>({n})).sync();
  const auto rows = [](int r, int c) { return zeros<f32>({r, c}); };
  EXPECT_ERROR(ShapeError, (void)kernel<both_axes>(rows(5, 70), rows(4, 70)), "axis 0 of the first", "found 4 and 5");
  EXPECT_ERROR(ShapeError, (void)kernel<both_axes>(rows(5, 70), rows(5, 69)), "axis 1 of the first", "found 69 and 70");
  EXPECT_ERROR(ShapeError, (void)kernel<both_axes>(rows(1, 70), rows(5, 70)), "found 5 and 1");
  EXPECT_ERROR(ShapeError, (void)kernel<scheduled_regions>(rows(5, 70), rows(5, 71)),
               "argument 1 (MutTiles<f32, 2, 64>)");
  EXPECT_ERROR(ShapeError, (void)kernel<along_rows>(rows(5, 70), zeros<f32>({5})), "axis 0 of the first",
               "axis 1 of the second", "found 5 and 70");
  for (const auto& [r, c] : {std::pair{5, 70}, {1, 70}, {5, 1}, {1, 1}}) {
    (void)kernel<both_axes>(rows(5, 70), rows(r, c)).sync();
    (void)kernel<scheduled_regions>(rows(5, 70), rows(r, c)).sync();
  }
  (void)kernel<along_rows>(rows(5, 70), zeros<f32>({70})).sync();
  // An operation whose extents are not known before it runs is checked when it runs, before anything is enqueued.
  auto late = zeros<f32>({999}).then([](Tensor<f32, 1> t) { return clone(t); });
  auto launch = kernel<saxpy<128>>(zeros<f32>({1000}), 2.0f, std::move(late));
  EXPECT_ERROR(ShapeError, (void)std::move(launch).sync(), "found 999 and 1000");
}
TEST_F(Errors, PartialRegionsArePadded) {
  for (const auto& [r, c] : {std::pair{5, 70}, {1, 70}, {3, 65}, {9, 200}, {5, 1}, {0, 70}}) {
    const auto found = host(kernel<any_extents>(zeros<f32>({5, 70}), ones<f32>({r, c})).sync()).sync();
    for (int i = 0; i < 5; ++i) {
      for (int j = 0; j < 70; ++j)
        ASSERT_EQ(found[static_cast<std::size_t>(i * 70 + j)], i < r && j < c ? 1.0f : -1.0f) << i << "," << j;
    }
  }
}

template <int D>
void fixed(Mut<f32, 1, D> y, In<f32, dyn, D> x) {
  y.store(x.load_like(y));
}
TEST_F(Errors, StaticExtents) {
  EXPECT_ERROR(ShapeError, (void)kernel<fixed<64>>(zeros<f32>({3, 64}), zeros<f32>({3, 63})),
               "argument 2 (In<f32, dyn, 64>)", "[3, 63]", "axis 1 has 63", "says 64");
  (void)kernel<fixed<64>>(zeros<f32>({3, 64}), zeros<f32>({3, 64})).sync();
  // An operation whose extents are not known before it runs is checked when it runs.
  auto late = zeros<f32>({3, 63}).then([](Tensor<f32, 2> t) { return clone(t); });
  auto launch = kernel<fixed<64>>(zeros<f32>({3, 64}), std::move(late));
  EXPECT_ERROR(ShapeError, (void)(void)std::move(launch).sync(), "axis 1 has 63");
}

TEST_F(Errors, ArgumentsAreNamedFromTheSource) {
  const Source source(
      "int main() {\n  y = kernel<saxpy<128>>(  // \"kernel<saxpy>(no, no, no)\"\n      std::move(weights),\n      "
      "f(1, 2), x);\n"
      "kernel<saxpy<(1 > 0)>>.blocks(g(3, 4))(mut(a.b[i, 2]), 1, x); kernel<other>(mut(q));\n"
      "kernel<saxpy<1>>(mut(p), 1, x), kernel<saxpy<1>>(mut(q), 1, x);\n");
  Tensor<f32, 1> none;
  const auto launch = [&](std::uint32_t line) {
    (void)kernel<saxpy<128>>(std::move(none), 2.0f, x, source.line(line));
  };
  EXPECT_ERROR(BorrowError, launch(2), "argument 1 (Mut<f32, 128>) `weights` of kernel saxpy is an empty tensor");
  EXPECT_ERROR(BorrowError, launch(5), "argument 1 (Mut<f32, 128>) `a.b[i, 2]` of kernel saxpy");
  EXPECT_ERROR(BorrowError, launch(6),
               "argument 1 (Mut<f32, 128>) of kernel saxpy");  // two calls: which one is not known
  EXPECT_ERROR(BorrowError, launch(1), "argument 1 (Mut<f32, 128>) of kernel saxpy");
  EXPECT_ERROR(BorrowError, launch(99), "argument 1 (Mut<f32, 128>) of kernel saxpy");
}

TEST_F(Errors, NumbersOfBlocks) {
  auto counts = zeros<i32>({4}).sync();
  const auto v = zeros<i32>({6}).sync();
  EXPECT_ERROR(ShapeError, (void)kernel<histogram<4>>(mut(counts), v), "kernel histogram", ".blocks(n)");
  EXPECT_ERROR(ShapeError, (void)kernel<histogram<4>>.blocks(-1)(mut(counts), v), ".blocks(-1)");
  EXPECT_ERROR(ShapeError, (void)kernel<histogram<4>>.blocks(1 << 24)(mut(counts), v), "16777215");
  EXPECT_ERROR(ShapeError, (void)kernel<saxpy<128>>.blocks(8)(mut(y), 2.0f, x), "one block per piece");
  using Gemm = void (*)(MutTiles<f32, 32, 32>, In<f32, dyn, dyn>, In<f32, dyn, dyn>);
  constexpr Gemm g = gemm<f32, 32, 32, 32>;
  EXPECT_ERROR(ShapeError, (void)kernel<g>.blocks(0)(zeros<f32>({32, 32}), zeros<f32>({32, 32}), zeros<f32>({32, 32})),
               "at least 1");
  // As an upper bound, any number does.
  for (const std::int64_t most : {std::int64_t{1}, std::int64_t{1} << 24, INT64_MAX}) {
    const auto c = kernel<g>.blocks(most)(empty<f32>({64, 64}), ones<f32>({64, 64}), ones<f32>({64, 64})).sync();
    EXPECT_EQ(host(c).sync(), std::vector<f32>(64 * 64, 64.0f));
  }
}

template <class T>
void add_number(Mut<T, 16> y, Scalar<T> a) {
  y.store(y.load() + a);
}
TEST_F(Errors, NumbersMustFit) {
  EXPECT_ERROR(ShapeError, (void)kernel<add_number<i32>>(zeros<i32>({16}), 5'000'000'000), "argument 2 (Scalar<i32>)",
               "does not fit in i32");
  EXPECT_ERROR(ShapeError, (void)kernel<add_number<u8>>(zeros<u8>({16}), -1), "does not fit in u8");
  EXPECT_EQ(host(kernel<add_number<u8>>(zeros<u8>({16}), 255)).sync()[0], 255);
  EXPECT_EQ(host(kernel<add_number<f32>>(zeros<f32>({16}), 1)).sync()[0], 1.0f);
  EXPECT_EQ(static_cast<float>(host(kernel<add_number<bf16>>(zeros<bf16>({16}), 0.5)).sync()[0]), 0.5f);
}

template <int B>
void must_be_positive(Mut<f32, B> y) {
  auto v = y.load();
  check(min(v) > 0.0f, "v must be positive");
  y.store(sqrt(v));
}
TEST_F(Errors, FailedChecksAreThrownAndTheContextGoesOn) {
  EXPECT_ERROR(DeviceError, kernel<must_be_positive<128>>(mut(y)).sync(), "v must be positive");
  kernel<must_be_positive<128>>(mut(x)).sync();
  EXPECT_EQ(host(x).sync()[0], 1.0f);
  Stream s;
  auto failed = kernel<must_be_positive<128>>(zeros<f32>({128})).on(s);
  EXPECT_ERROR(DeviceError, (void)host(failed).sync(), "v must be positive");
}

}  // namespace THIS_FILE
