// Cross entropy and its gradient.
#include <cmath>

#include "call.hpp"
#include "tessera/base/error.hpp"
#include "tessera/kernels/cross_entropy.hpp"

namespace tessera::python {

namespace {

using Targets = Types<i64, i32>;
constexpr const char* kNumbers = "int ignore_index=-100, float label_smoothing=0.0";

kernels::CrossEntropyOptions options_of(const Call& c) {
  constexpr double kMaxExact = 9007199254740992.0;  // 2^53: larger integers may change on their way through a double
  if (!(std::abs(c.number(0)) < kMaxExact))
    throw ShapeError("cross_entropy: expected an ignore_index between -2^53 and 2^53, found a larger number");
  kernels::CrossEntropyOptions options;
  options.ignore_index = static_cast<std::int64_t>(c.number(0));
  options.label_smoothing = static_cast<float>(c.number(1));
  return options;
}

constexpr Function kFunctions[] = {
    row(Floats(), "cross_entropy", "logits, targets", 2, 2, kNumbers,
        {result_of<f32>(Extents::Same, 1), result_of<f32>(Extents::Same, 1)},
        []<class T>(Call& c) {
          c.with_element(1, Targets(), [&]<class I>() {
            c.put(kernels::cross_entropy(c.view<T, 2>(0), c.view<I, 1>(1), options_of(c), kNowhere), c.dims(1),
                  c.dims(1));
          });
        }),
    row(Floats(), "cross_entropy_backward", "d_losses, logits, targets, lse", 4, 4, kNumbers,
        {Result{Extents::Same, 1}},
        []<class T>(Call& c) {
          c.with_element(2, Targets(), [&]<class I>() {
            c.put(kernels::cross_entropy_backward(c.view<f32, 1>(0), c.view<T, 2>(1), c.view<I, 1>(2),
                                                  c.view<f32, 1>(3), options_of(c), kNowhere),
                  c.dims(1));
          });
        })
        .led_by(1)};

}  // namespace

std::span<const Function> loss_functions() { return kFunctions; }

}  // namespace tessera::python
