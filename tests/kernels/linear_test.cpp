// Few rows times weights, batched products and split-K against f64.
#include "tessera/kernels/linear.hpp"

#include "kernels/gemm_reference.hpp"
#include "kernels/support.hpp"
#include "tessera/kernels/batched_gemm.hpp"
#include "tessera/kernels/split_k.hpp"

namespace tessera::kernels {
namespace {

TEST(Linear, OneRowAndFewRows) {
  const auto w = random_tensor<bf16>({100, 700}, 1), v = random_tensor<bf16>({1, 100}, 2);
  const auto bias_of = v.reshape({100});
  const auto columns = turned(doubles(w), 700), hv = doubles(v);
  for (const int m : {1, 2, 17, 64, 65}) {
    const auto x = random_tensor<bf16>({m, 700}, 3);
    auto want = product(doubles(x), columns, m, 100);
    for (std::size_t i = 0; i < want.size(); ++i) want[i] += hv[i % 100];
    expect_close(linear(x, w, bias(bias_of)).sync(), want, tolerance<bf16>(), std::to_string(m) + " rows");
  }
}
template <std::size_t N>
constexpr int rows_of_table(const LinearTile (&)[N]) {
  return static_cast<int>(N);
}
TEST(Linear, EveryRowOfTheTables) {
  const auto w = random_tensor<f32>({33, 1100}, 4), x = random_tensor<f32>({3, 1100}, 5);
  const auto columns = turned(doubles(w), 1100);
  const auto one = x.slice<0>(0, 1);
  for (int row = 0; row < rows_of_table(kOneRow); ++row)
    expect_close(linear(one, w, {}, Row{row}).sync(), product(doubles(one), columns, 1, 33), 1e-5, "one");
  for (int row = 0; row < rows_of_table(kFewRows); ++row)
    expect_close(linear(x, w, {}, Row{row}).sync(), product(doubles(x), columns, 3, 33), 1e-5, "few");
  const auto many = random_tensor<f32>({50, 1100}, 6);
  for (int row = 0; row < rows_of_table(kFewRows); ++row)
    expect_close(linear(many, w, {}, Row{row}).sync(), product(doubles(many), columns, 50, 33), 1e-5, "many");
}
/// The kernel of two rows on a GPU, with rows and columns that fill no tile.
TEST(Linear, TwoRowsBySums) {
  const auto w = random_tensor<bf16>({101, 1100}, 4), x = random_tensor<bf16>({2, 1100}, 5);
  constexpr auto& two = kernel<summed_rows<epilogues::Plain, f32, bf16, 2, kSummedRows.n, kSummedRows.k>>;
  expect_close(two(empty<f32>({2, 101}), x, w, i32{0}).sync(), product(doubles(x), turned(doubles(w), 1100), 2, 101),
               1e-5, "two rows");
}
TEST(Linear, RowsBeyondTheTables) {
  const auto w = random_tensor<f32>({33, 40}, 4), x = random_tensor<f32>({70, 40}, 5);
  const auto by_row = [&](int m, int row) { return linear(x.slice<0>(0, m), w, {}, Row{row}); };
  EXPECT_ERROR(ShapeError, (void)by_row(1, rows_of_table(kOneRow)),
               "kernels::linear: row 6 of the table: rows are 0 to 5");
  EXPECT_ERROR(ShapeError, (void)by_row(3, rows_of_table(kFewRows)),
               "kernels::linear: row 5 of the table: rows are 0 to 4");
  EXPECT_ERROR(ShapeError, (void)by_row(3, -2), "row -2 of the table");
  EXPECT_ERROR(ShapeError, (void)by_row(70, 99), "kernels::gemm: row 99 of the table: rows are 0 to 5");
  for (const auto& [m, row] :
       {std::pair{1, rows_of_table(kOneRow) - 1}, {3, rows_of_table(kFewRows) - 1}, {3, -1}, {70, 5}})
    EXPECT_EQ(by_row(m, row).sync().dims(), Dims(m, 33));
  const unsigned line = __LINE__ + 2;
  try {
    (void)linear(x, w, {}, Row{99});
    FAIL() << "no error";
  } catch (const ShapeError& e) { EXPECT_EQ(e.where().line, line) << e.what(); }
}
TEST(Linear, TheRowFollowsFromBlocksAndBytesInFlight) {
  EXPECT_EQ(one_row_heuristic(2560, 4096, Target{}), kOneRowOnCpu);
  Target h200;
  h200.gpu = true;
  h200.num_sms = 132;
  EXPECT_EQ(one_row_heuristic(2560, 4096, h200), 2) << "four long steps: short ones have more in flight";
  EXPECT_EQ(one_row_heuristic(1024, 2048, h200), 3);
  EXPECT_EQ(one_row_heuristic(1024, 3072, h200), 3);
  EXPECT_EQ(one_row_heuristic(3072, 1024, h200), 2) << "one long step would leave nothing to load early";
  EXPECT_EQ(one_row_heuristic(2560, 9728, h200), 2);
  EXPECT_EQ(one_row_heuristic(6144, 2560, h200), 1);
  EXPECT_EQ(one_row_heuristic(19456, 2560, h200), 2);
  EXPECT_EQ(few_rows_heuristic(8, 2560, h200), 2);
  EXPECT_EQ(few_rows_heuristic(8, 6144, h200), 0);
  EXPECT_EQ(few_rows_heuristic(8, 19456, h200), 1);
  EXPECT_EQ(few_rows_heuristic(8, 51200, h200), 0);
  EXPECT_EQ(few_rows_heuristic(16, 2560, h200), 0);
  EXPECT_EQ(few_rows_heuristic(64, 6144, h200), 1);
  EXPECT_EQ(few_rows_heuristic(64, 2560, h200), 3);
  EXPECT_EQ(few_rows_heuristic(64, 19456, h200), 1);
  EXPECT_EQ(few_rows_heuristic(64, 51200, h200), 4);
  EXPECT_EQ(few_rows_heuristic(64, 151936, h200), 4);
}
TEST(Linear, TheLengthIsConstantWhereFewerBlocksOfAnSmDoNotMatter) {
  const Target h200{true, 132};
  EXPECT_EQ(constant_length(2560, 9728, 2, h200), 9728) << "1280 blocks run at once, 12 to an SM";
  EXPECT_EQ(constant_length(4096, 4096, 2, h200), 0) << "2048 run at once only if an SM holds 16";
  EXPECT_EQ(constant_length(10240, 5120, 2, h200), 0);
  EXPECT_EQ(constant_length(19456, 2560, 2, h200), 2560) << "many one after the other";
  EXPECT_EQ(constant_length(2560, 25600, 2, h200), 0) << "a loop too long to be unrolled";
  EXPECT_EQ(constant_length(2560, 9727, 2, h200), 0) << "rows that grow are not compiled for each length";
  EXPECT_EQ(constant_length(6144, 2560, 1, h200), 0) << "not measured to pay";
  EXPECT_EQ(constant_length(2560, 9728, 2, Target{}), 0) << "the CPU";
}
TEST(Linear, ARowOfConstantLength) {
  const auto w = random_tensor<f32>({33, 1100}, 4), x = random_tensor<f32>({1, 1100}, 5);
  constexpr auto& of_length = kernel<summed_rows<epilogues::Plain, f32, f32, 1, 2, 512>>;
  const auto want = product(doubles(x), turned(doubles(w), 1100), 1, 33);
  for (const i32 length : {0, 1100})
    expect_close(of_length(full<f32>({1, 33}, 777.0f), x, w, length).sync(), want, 1e-5, std::to_string(length));
  EXPECT_ERROR(ShapeError, (void)of_length(full<f32>({1, 33}, 777.0f), x, w, 1024).sync(),
               "the row must be as long as the code is for");
}

TEST(Linear, ShapesThatDoNotFit) {
  const auto w = random_tensor<f32>({33, 10}, 4), x = random_tensor<f32>({3, 11}, 5);
  EXPECT_ERROR(ShapeError, (void)linear(x, w), "argument w has the extents [33, 10]: axis 1 must be 11");
  EXPECT_EQ(linear(x.slice<1>(0, 10), w).sync().dims(), Dims(3, 33));
  EXPECT_EQ(linear(x.slice<0>(0, 0), random_tensor<f32>({33, 11}, 6)).sync().dims(), Dims(0, 33));
}

TEST(BatchedGemm, BatchesAndSharedOperands) {
  const auto a = random_tensor<f32>({3, 40, 50}, 7), b = random_tensor<f32>({3, 70, 50}, 8);
  const auto ha = doubles(a), hb = doubles(b);
  std::vector<double> want, shared;
  for (int i = 0; i < 3; ++i) {
    const std::vector<double> x(ha.begin() + i * 2000, ha.begin() + (i + 1) * 2000);
    const std::vector<double> y(hb.begin() + i * 3500, hb.begin() + (i + 1) * 3500);
    const auto c = product(x, turned(y, 50), 40, 70);
    const auto d = product(x, turned(std::vector<double>(hb.begin(), hb.begin() + 3500), 50), 40, 70);
    want.insert(want.end(), c.begin(), c.end());
    shared.insert(shared.end(), d.begin(), d.end());
  }
  expect_close(batched_gemm(a, b.permute<0, 2, 1>()).sync(), want, 1e-5, "NT");
  const auto first = b.slice<0>(0, 1);
  expect_close(batched_gemm(a, first.permute<0, 2, 1>()).sync(), shared, 1e-5, "one b");
  EXPECT_ERROR(ShapeError, (void)batched_gemm(a, b.slice<0>(0, 2).permute<0, 2, 1>()), "its batch must be a's, or 1");
  const auto by_row = [&](int row) { return batched_gemm(a, first.permute<0, 2, 1>(), {}, Row{row}); };
  EXPECT_ERROR(ShapeError, (void)by_row(kPlainGemmRows), "kernels::batched_gemm: row 6 of the table: rows are 0 to 5");
  expect_close(by_row(kPlainGemmRows - 1).sync(), shared, 1e-5, "the last row");
}

TEST(SplitK, SumsAreSplit) {
  const auto a = random_tensor<bf16>({70, 1000}, 9), b = random_tensor<bf16>({1000, 90}, 10);
  const auto r = random_tensor<bf16>({70, 90}, 11);
  const auto want = product(doubles(a), doubles(b), 70, 90);
  auto with_residual = want;
  const auto hr = doubles(r);
  for (std::size_t i = 0; i < want.size(); ++i) with_residual[i] += hr[i];
  for (const int parts : {0, 1, 3, 40})
    expect_close(gemm_split_k<f32>(a, b, parts).sync(), want, 1e-5, std::to_string(parts));
  expect_close(gemm_split_k(a, b, 3, residual(r)).sync(), with_residual, tolerance<bf16>(), "residual");
  expect_close(gemm_split_k<f32>(a, b, std::int64_t{1} << 40).sync(), want, 1e-5, "more parts than there are products");
  EXPECT_ERROR(ShapeError, (void)gemm_split_k(a, r, 3), "argument b has the extents [70, 90]: axis 0 must be 1000");
  const auto by_row = [&](int row) { return gemm_split_k<f32>(a, b, 3, Fused<epilogues::Plain>(), Row{row}); };
  for (const int row : {0, kSplitRows[0], kSplitRows[1], kSplitRows[2], kSplitRows[3]})
    expect_close(by_row(row).sync(), want, 1e-5, "a row");
  EXPECT_ERROR(ShapeError, (void)by_row(1), "row 1 of the table");
}

}  // namespace
}  // namespace tessera::kernels
