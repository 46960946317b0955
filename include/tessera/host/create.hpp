// Operations that create a tensor: zeros, ones, full, arange, empty, empty_like. The tensor is made on the device of
// the stream that runs the operation; its extents are known as soon as the operation exists, so it may be used wherever
// a tensor may.
//
//   auto x = zeros<f32>({rows, 1024}).sync();     // extents: any integers, 0 to 2^31 - 1 each, else ShapeError
//   auto y = full<bf16>(x.dims(), 1.5f).sync();
//
// Random numbers are counter-based (Philox 4x32-10), so the element at row-major offset i depends only on the
// seed and i and equals random::uniform<T>(seed, offset) or random::normal<T>(seed, offset) in a kernel, on any device.
#pragma once
#include <array>
#include <type_traits>

#include "tessera/host/operand.hpp"
#include "tessera/lang/handles.hpp"

namespace tessera {

namespace detail {

/// How the elements of a new tensor are computed. Plain data: the node that holds it is the only allocation of the
/// operation.
struct Recipe {
  /// Writes `count` elements to host memory; null leaves them uninitialised.
  void (*fill)(const Recipe&, std::byte* to, std::int64_t count) = nullptr;
  const char* label = "";
  ElementType element{};
  std::uint64_t first = 0, second = 0;  ///< raw bits of the element type: full: the value; arange: start, step
  std::uint64_t seed = 0;
  SourceLocation where;
};

/// Throws ShapeError if the number of bytes overflows.
void check_bytes(std::int64_t count, const Recipe&);
/// The bits of a number. Throws ShapeError if the element type cannot hold it.
std::uint64_t fitting(const ArgRef& number, const char* label, SourceLocation where);

/// For arange: throws ShapeError if `start`, or for floats `step` or the last of `count` elements, does not fit.
Recipe arange_recipe(const ArgRef& start, const ArgRef& step, std::int64_t count, SourceLocation where);

void fill_value(const Recipe&, std::byte*, std::int64_t);
void fill_arange(const Recipe&, std::byte*, std::int64_t);

/// Allocates and enqueues.
runtime::StorageRef make_storage(const Recipe&, std::int64_t count, const Stream&);

template <Element T, int R>
class MakeNode final : public OpNode<Tensor<T, R>> {
 public:
  MakeNode(const Dims<R>& dims, const Recipe& recipe, runtime::Backend* device)
      : recipe_(recipe), dims_(dims), device_(device) {
    check_bytes(dims.numel(recipe.where), recipe);
  }
  runtime::Backend* device() const noexcept override { return device_; }
  bool promise(std::span<std::int64_t> dims, std::span<std::int64_t> strides) const noexcept override {
    for (std::size_t i = 0; i < R; ++i) dims[i] = dims_.array()[i];
    set_contiguous(dims, strides);
    return true;
  }
  Tensor<T, R> run(const Stream& stream) override {
    Layout<R> l{make_storage(recipe_, dims_.numel(recipe_.where), stream), 0, dims_.array(), {}};
    set_contiguous(l.dims, l.strides);
    return Reach::make<Tensor<T, R>>(std::move(l));
  }

 private:
  Recipe recipe_;
  Dims<R> dims_;
  runtime::Backend* device_;
};

template <Element T, int R>
Op<Tensor<T, R>> make(const Dims<R>& dims, const Recipe& recipe, runtime::Backend* device = nullptr) {
  return Op<Tensor<T, R>>(new MakeNode<T, R>(dims, recipe, device));
}
template <Element T>
Recipe recipe(const char* label, decltype(Recipe::fill) fill, SourceLocation where, std::uint64_t first = 0,
              std::uint64_t second = 0, std::uint64_t seed = 0) {
  return {fill, label, element_type<T>, first, second, seed, where};
}
template <std::size_t N>
using BracedRank = Dims<static_cast<int>(N)>;
template <Element T, std::size_t N>
using BracedTensor = Op<Tensor<T, static_cast<int>(N)>>;

}  // namespace detail

/// Every element is `value`. Throws ShapeError if the element type does not hold it (infinities and NaN are held by
/// every floating type that has them).
template <Element T, int R>
Op<Tensor<T, R>> full(const Dims<R>& dims, detail::Number<T> value, SourceLocation where = SourceLocation::current()) {
  const std::uint64_t bits = detail::fitting(value.arg(), "full", where);
  return detail::make<T>(dims, detail::recipe<T>("full", detail::fill_value, where, bits));
}
template <Element T, std::size_t N>
detail::BracedTensor<T, N> full(BracedDims<N> dims, detail::Number<T> value,
                                SourceLocation where = SourceLocation::current()) {
  return full<T>(detail::BracedRank<N>(dims, where), value, where);
}

/// Explains what full() takes.
template <Element T, class D, class X>
  requires detail::OtherNumber<X, T>
Op<Tensor<T, 1>> full(const D&, X, SourceLocation where = SourceLocation::current()) {
  detail::explain_number<X, T>();
  return detail::make<T>(Dims<1>(), detail::recipe<T>("full", nullptr, where));
}
template <Element T, std::size_t N, class X>
  requires detail::OtherNumber<X, T>
detail::BracedTensor<T, N> full(BracedDims<N>, X, SourceLocation where = SourceLocation::current()) {
  detail::explain_number<X, T>();
  return detail::make<T>(detail::BracedRank<N>(), detail::recipe<T>("full", nullptr, where));
}

/// Every element 0.
template <Element T, int R>
Op<Tensor<T, R>> zeros(const Dims<R>& dims, SourceLocation where = SourceLocation::current()) {
  return detail::make<T>(dims, detail::recipe<T>("zeros", detail::fill_value, where));
}
template <Element T, std::size_t N>
detail::BracedTensor<T, N> zeros(BracedDims<N> dims, SourceLocation where = SourceLocation::current()) {
  return zeros<T>(detail::BracedRank<N>(dims, where), where);
}

namespace detail {
/// The extents of the tensor behind sums of these extents.
template <class S, int R>
Dims<R + 1> dims_of_bins(const Dims<R>& dims, SourceLocation where) {
  std::array<std::int64_t, R + 1> all{S::bins};
  for (int a = 0; a < R; ++a) all[static_cast<std::size_t>(a) + 1] = dims[a];
  return Dims<R + 1>::from(all, where);
}
}  // namespace detail

/// Sums of nothing, for an Acc<reproducible<f32>, ...> of these extents. Each is reproducible<f32>::bins numbers, which
/// are the first axis of the tensor; rounded<f32>() gives the sums.
template <class S, int R>
  requires detail::is_reproducible<S>
Op<Tensor<i64, R + 1>> zeros(const Dims<R>& dims, SourceLocation where = SourceLocation::current()) {
  return zeros<i64>(detail::dims_of_bins<S>(dims, where), where);
}
template <class S, std::size_t N>
  requires detail::is_reproducible<S>
detail::BracedTensor<i64, N + 1> zeros(BracedDims<N> dims, SourceLocation where = SourceLocation::current()) {
  return zeros<S>(detail::BracedRank<N>(dims, where), where);
}

/// Every element 1.
template <Element T, int R>
Op<Tensor<T, R>> ones(const Dims<R>& dims, SourceLocation where = SourceLocation::current()) {
  using Host = std::conditional_t<std::is_same_v<T, bool>, bool, int>;
  return detail::make<T>(dims,
                         detail::recipe<T>("ones", detail::fill_value, where, detail::Number<T>(Host{1}).arg().number));
}
template <Element T, std::size_t N>
detail::BracedTensor<T, N> ones(BracedDims<N> dims, SourceLocation where = SourceLocation::current()) {
  return ones<T>(detail::BracedRank<N>(dims, where), where);
}

/// Element i (row-major) is start + i * step: exact for integers (wrapping), one rounding of the f64 result for floats
/// (ShapeError where that exceeds what the element type holds, unless start or step is an infinity or NaN).
template <Element T, std::size_t N>
detail::BracedTensor<T, N> arange(BracedDims<N> dims, detail::Number<T> start = 0, detail::Number<T> step = 1,
                                  SourceLocation where = SourceLocation::current()) {
  const detail::BracedRank<N> shape(dims, where);
  return detail::make<T>(shape, detail::arange_recipe(start.arg(), step.arg(), shape.numel(where), where));
}
template <Element T, std::integral I>
Op<Tensor<T, 1>> arange(I count, detail::Number<T> start = 0, detail::Number<T> step = 1,
                        SourceLocation where = SourceLocation::current()) {
  return arange<T>({count}, start, step, where);
}

/// Explains what arange() takes.
template <Element T, std::integral I, class X, class... Step>
  requires(detail::OtherNumber<X, T> || (detail::OtherNumber<Step, T> || ...))
Op<Tensor<T, 1>> arange(I, X, Step...) {
  detail::explain_number<X, T>();
  (detail::explain_number<Step, T>(), ...);
  return detail::make<T>(Dims<1>(), detail::recipe<T>("arange", nullptr, {}));
}

/// A tensor whose elements are not initialised, for outputs. With `using namespace std` write tessera::empty: for a
/// braced list of numbers C++ prefers std::empty(initializer_list). (What they hold is unspecified, but reading them is
/// not undefined behaviour.)
template <Element T, int R>
Op<Tensor<T, R>> empty(const Dims<R>& dims, SourceLocation where = SourceLocation::current()) {
  return detail::make<T>(dims, detail::recipe<T>("empty", nullptr, where));
}
template <Element T, std::size_t N>
detail::BracedTensor<T, N> empty(BracedDims<N> dims, SourceLocation where = SourceLocation::current()) {
  return empty<T>(detail::BracedRank<N>(dims, where), where);
}
/// An uninitialised row-major tensor with the extents, element type and device of `x`. Throws BorrowError if `x` is
/// empty.
template <Element T, int R>
Op<Tensor<T, R>> empty_like(const Tensor<T, R>& x, SourceLocation where = SourceLocation::current()) {
  return detail::make<T>(x.dims(where), detail::recipe<T>("empty_like", nullptr, where), &x.device(where).backend());
}
template <Element T, int R>
Op<Tensor<T, R>> empty_like(const View<T, R>& x, SourceLocation where = SourceLocation::current()) {
  return detail::make<T>(x.dims(where), detail::recipe<T>("empty_like", nullptr, where), &x.device(where).backend());
}
template <Element T, int R>
Op<Tensor<T, R>> empty_like(const Shared<T, R>& x, SourceLocation where = SourceLocation::current()) {
  return detail::make<T>(x.dims(where), detail::recipe<T>("empty_like", nullptr, where), &x.device(where).backend());
}

namespace detail {
void fill_uniform(const Recipe&, std::byte*, std::int64_t);
void fill_normal(const Recipe&, std::byte*, std::int64_t);

template <class T>
inline constexpr bool random_float =
    std::is_same_v<T, f64> || std::is_same_v<T, f32> || std::is_same_v<T, f16> || std::is_same_v<T, bf16>;
template <class T>
inline constexpr bool random_word = std::is_same_v<T, u32> || std::is_same_v<T, u64>;
}  // namespace detail

namespace random {

/// Uniform in [0, 1) (f64, f32, f16, bf16), or over all values (u32, u64).
template <Element T, int R>
Op<Tensor<T, R>> uniform(const Dims<R>& dims, std::uint64_t seed, SourceLocation where = SourceLocation::current()) {
  static_assert(
      detail::random_float<T> || detail::random_word<T>,
      "random::uniform makes f64, f32, f16, bf16, u32 and u64: cast<T>() the result for another element type");
  return detail::make<T>(dims, detail::recipe<T>("random::uniform", detail::fill_uniform, where, 0, 0, seed));
}
template <Element T, std::size_t N>
detail::BracedTensor<T, N> uniform(BracedDims<N> dims, std::uint64_t seed,
                                   SourceLocation where = SourceLocation::current()) {
  return uniform<T>(detail::BracedRank<N>(dims, where), seed, where);
}

/// Standard normal: mean 0, variance 1 (f64, f32, f16, bf16).
template <Element T, int R>
Op<Tensor<T, R>> normal(const Dims<R>& dims, std::uint64_t seed, SourceLocation where = SourceLocation::current()) {
  static_assert(detail::random_float<T>,
                "random::normal makes f64, f32, f16 and bf16: cast<T>() the result for another element type");
  return detail::make<T>(dims, detail::recipe<T>("random::normal", detail::fill_normal, where, 0, 0, seed));
}
template <Element T, std::size_t N>
detail::BracedTensor<T, N> normal(BracedDims<N> dims, std::uint64_t seed,
                                  SourceLocation where = SourceLocation::current()) {
  return normal<T>(detail::BracedRank<N>(dims, where), seed, where);
}

}  // namespace random
}  // namespace tessera
