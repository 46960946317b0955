// Reductions of rows along the last axis, and of whole tensors (`..._all`).
#include "call.hpp"
#include "tessera/kernels/reduce.hpp"

namespace tessera::python {

namespace {

using Numbers = Types<f64, f32, bf16, f16, i32>;

/// The element type of F's result.
template <class F, class... T>
ElementType reduced_of(Types<T...>, ElementType e) {
  static_cast<void>(((e == element_type<T> && (e = element_type<kernels::result_of<F, T>>, true)) || ...));
  return e;
}
template <class F>
constexpr Made reduced(Extents extents) {
  return Result{extents, 0, [](ElementType e) { return reduced_of<F>(Numbers(), e); }};
}
template <class F>
constexpr Function of_rows(const char* name) {
  return row(Numbers(), name, "x", 1, 1, "", reduced<F>(Extents::WithoutLast),
             []<class T>(Call& c) { c.put(kernels::rows_reduced<F>(c.rows<T>(0), {}, kNowhere), c.dims(0, 1)); });
}
template <class F>
constexpr Function of_all(const char* name) {
  return row(Numbers(), name, "x", 1, 1, "", reduced<F>(Extents::None), []<class T>(Call& c) {
    c.join_axes();
    c.put(kernels::all_reduced<F>(c.joined<T>(0), kNowhere), {});
  });
}

namespace rs = kernels::reductions;
constexpr Function kFunctions[] = {of_rows<rs::Sum>("sum"),    of_rows<rs::Mean>("mean"),  of_rows<rs::Max>("max"),
                                   of_rows<rs::Min>("min"),    of_all<rs::Sum>("sum_all"), of_all<rs::Mean>("mean_all"),
                                   of_all<rs::Max>("max_all"), of_all<rs::Min>("min_all")};

}  // namespace

std::span<const Function> reduction_functions() { return kFunctions; }

}  // namespace tessera::python
