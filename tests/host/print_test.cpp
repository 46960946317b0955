// Text of tensors.
#include <gtest/gtest.h>

#include <limits>
#include <tessera/tessera.hpp>
#include <vector>

namespace THIS_FILE {

using namespace tessera;

TEST(Print, ShowsTypeExtentsDeviceAndValues) {
  EXPECT_EQ(to_string(arange<i32>({2, 3}).sync()), "Tensor<i32, 2> [2, 3] on cpu\n[[0, 1, 2],\n [3, 4, 5]]");
  EXPECT_EQ(to_string(arange<i32>({2, 2}, -10, 5).sync().permute<1, 0>()),
            "View<i32, 2> [2, 2] on cpu\n[[-10,   0],\n [ -5,   5]]");
  EXPECT_EQ(to_string(zeros<f32>({0, 3}).sync()), "Tensor<f32, 2> [0, 3] on cpu\n[]");
  EXPECT_EQ(to_string(from(std::vector<bool>{true, false}, {2}).sync()), "Tensor<bool, 1> [2] on cpu\n[ true, false]");
}

TEST(Print, FloatsShareOneFormat) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto text = [](const std::vector<f32>& v) {
    const std::string s = to_string(from(v, {v.size()}).sync());
    return s.substr(s.find('\n') + 1);
  };
  EXPECT_EQ(text({1, 2, 3}), "[1., 2., 3.]");
  EXPECT_EQ(text({1, 2.5f, -0.125f}), "[ 1.000,  2.500, -0.125]");
  EXPECT_EQ(text({1.0f / 3, 100}), "[  0.3333, 100.0000]");
  EXPECT_EQ(text({1e-6f, 1}), "[1e-06, 1e+00]");
  EXPECT_EQ(text({inf, -inf, 1.5f, -std::numeric_limits<float>::quiet_NaN()}), "[ inf, -inf,  1.5,  nan]");
  EXPECT_EQ(to_string(full<bf16>({2}, 0.5f).sync()), "Tensor<bf16, 1> [2] on cpu\n[0.5, 0.5]");
}

TEST(Print, SummarisesLargeTensors) {
  EXPECT_EQ(to_string(arange<i32>(1001).sync()),
            "Tensor<i32, 1> [1001] on cpu\n[   0,    1,    2, ...,  998,  999, 1000]");
  const std::string s = to_string(arange<i32>({100, 100}).sync());
  EXPECT_EQ(s,
            "Tensor<i32, 2> [100, 100] on cpu\n"
            "[[   0,    1,    2, ...,   97,   98,   99],\n [ 100,  101,  102, ...,  197,  198,  199],\n"
            " [ 200,  201,  202, ...,  297,  298,  299],\n ...,\n [9700, 9701, 9702, ..., 9797, 9798, 9799],\n"
            " [9800, 9801, 9802, ..., 9897, 9898, 9899],\n [9900, 9901, 9902, ..., 9997, 9998, 9999]]");
  EXPECT_EQ(to_string(arange<i32>({2, 2, 1}).sync()).substr(32), "[[[0],\n  [1]],\n\n [[2],\n  [3]]]");
}

TEST(Print, WrapsLongRows) {
  const std::string s = to_string(arange<i32>(100).sync());
  for (std::size_t at = 0; at < s.size();) {
    const std::size_t end = std::min(s.find('\n', at), s.size());
    EXPECT_LE(end - at, 101u);
    at = end + 1;
  }
}

}  // namespace THIS_FILE
