// Misuse of convolutions.
#include "tessera/kernels/convolution.hpp"

#include "kernels/misuse/misuse.hpp"

namespace tessera::misuse {
namespace THIS_FILE {

using std::tuple;

const std::vector<Axis> kAxes{{'n', 2}, {'i', 5, 3}, {'j', 6, 3}, {'c', 3}, {'k', 4}, {'p', 2, 1, 5}, {'q', 2, 1, 5}};
const Number kStride{1, {0, -1}, {2}}, kPadding{0, {-1, 1e12}, {1}}, kGroups{1, {0, -1, 2, 3}, {}};

TEST(Misuse, Convolutions) {
  misuse(
      "convolution", kAxes,
      [](const auto& x, const auto& w, const auto& b, double stride, double padding, double groups) {
        return kernels::convolution(x, w,
                                    {.stride = static_cast<std::int64_t>(stride),
                                     .padding = static_cast<std::int64_t>(padding),
                                     .groups = static_cast<std::int64_t>(groups)},
                                    kernels::bias(b));
      },
      tuple{Read<f32, 4>{"nijc"}, Read<f32, 4>{"kpqc"}, Read<f32, 1>{"k"}, kStride, kPadding, kGroups});
  misuse(
      "convolution_transposed", kAxes,
      [](const auto& x, const auto& w, double stride, double padding, double groups) {
        return kernels::convolution_transposed(x, w,
                                               {.stride = static_cast<std::int64_t>(stride),
                                                .padding = static_cast<std::int64_t>(padding),
                                                .groups = static_cast<std::int64_t>(groups)});
      },
      tuple{Read<f32, 4>{"nijc"}, Read<f32, 4>{"cpqk"}, kStride, kPadding, Number{1, {0, -1, 2}, {}}});
}

}  // namespace THIS_FILE
}  // namespace tessera::misuse
