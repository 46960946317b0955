// Operations that move elements: from and to host memory, copies, casts.
//
//   auto t = from(std::span(values), {rows, 1024}).sync();   // copies when called: `values` may be destroyed
//   afterwards std::vector<f32> h = host(t).sync(); auto b = cast<bf16>(t).sync();  auto c = clone(t).sync();
//   copy_into(mut(c), t).sync();
//   auto y = rounded<f32>(sums).sync();                      // of an Acc<reproducible<f32>, ...>
//
// reshape() gives the elements other extents, for operations and for extents from dims(): for code that works for any
// rank.
//
//   auto y = reshape(kernel<relu<128>>(empty<f32>({n}), reshape(x, Dims{n})), x.dims()).sync();
#pragma once
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "tessera/host/create.hpp"
#include "tessera/host/op.hpp"

namespace tessera {

namespace detail {

/// Everything that may be read except Tensor, which has its own overloads so that clang's analysis sees it.
template <class>
struct Readable {
  static constexpr bool ok = false;
};
template <Element T, int R>
struct ReadableAs {
  static constexpr bool ok = true;
  static constexpr int rank = R;
  using element = T;
};
template <Element T, int R>
struct Readable<View<T, R>> : ReadableAs<T, R> {};
template <Element T, int R>
struct Readable<Shared<T, R>> : ReadableAs<T, R> {};
template <class A>
struct ReadableArg : Readable<std::remove_cvref_t<A>> {};
template <Element T, int R>
struct ReadableArg<Op<Tensor<T, R>>> : ReadableAs<T, R> {};  // an rvalue: A is deduced without a reference

template <class A>
concept Handle = ReadableArg<A>::ok;  ///< View, Shared, or an rvalue Op that makes a tensor
template <class A>
using element_of = typename ReadableArg<A>::element;

/// Throws the DeviceError for host memory that ran out in `what`.
[[noreturn]] void throw_no_host_memory(const char* what, std::size_t bytes, SourceLocation where);
/// Waits for the elements of `from` and writes them row-major to `to`. The caller holds a lease. Throws DeviceError.
void read_back(const LayoutRef& from, std::byte* to, const char* what, SourceLocation where);
/// The elements as a vector of the host's. Throws DeviceError if there is no memory for them.
template <Element T>
std::vector<T> read_back(const LayoutRef& from, const char* what, SourceLocation where) {
  const auto n = static_cast<std::size_t>(from.size());
  try {
    if constexpr (std::is_same_v<T, bool>) {  // std::vector<bool> packs its elements
      std::vector<unsigned char> bytes(n);
      read_back(from, reinterpret_cast<std::byte*>(bytes.data()), what, where);
      return std::vector<bool>(bytes.begin(), bytes.end());
    } else {
      std::vector<T> out(n);
      read_back(from, reinterpret_cast<std::byte*>(out.data()), what, where);
      return out;
    }
  } catch (const std::bad_alloc&) { throw_no_host_memory(what, n * sizeof(T), where); }
}
/// Enqueues the conversion of all elements.
void enqueue_convert(const Stream&, const LayoutRef& from, const LayoutRef& to, const char* label,
                     SourceLocation where);
/// The same without conversion, also between devices; `stream` is of one of them.
void enqueue_move(const Stream& stream, const LayoutRef& from, const LayoutRef& to, const char* label,
                  SourceLocation where);
/// The elements on `device`, row-major.
runtime::StorageRef moved(const Stream& stream, const LayoutRef& from, Device device, const char* label,
                          SourceLocation where);
/// Host memory as a storage of the CPU. Throws ShapeError unless `count` is the number of elements of `dims`.
runtime::StorageRef stage(const void* from, std::int64_t count, std::int64_t wanted, std::span<const std::int64_t> dims,
                          ElementType, SourceLocation where);
/// The same storage if `stream` can use it, else a copy on the stream's device.
runtime::StorageRef unstage(runtime::StorageRef, const Stream& stream, SourceLocation where);
/// Throws ShapeError unless the extents agree.
void check_same_dims(const ReadOperand& to, const ReadOperand& from, const char* what, SourceLocation where);

template <Element T, int R>
class FromNode final : public OpNode<Tensor<T, R>> {
 public:
  FromNode(runtime::StorageRef staged, const Dims<R>& dims, SourceLocation where)
      : staged_(std::move(staged)), dims_(dims), where_(where) {}
  bool promise(std::span<std::int64_t> dims, std::span<std::int64_t> strides) const noexcept override {
    for (std::size_t i = 0; i < R; ++i) dims[i] = dims_.array()[i];
    set_contiguous(dims, strides);
    return true;
  }
  Tensor<T, R> run(const Stream& stream) override {
    Layout<R> l{unstage(std::move(staged_), stream, where_), 0, dims_.array(), {}};
    set_contiguous(l.dims, l.strides);
    return Reach::make<Tensor<T, R>>(std::move(l));
  }

 private:
  runtime::StorageRef staged_;
  Dims<R> dims_;
  SourceLocation where_;
};

template <Element T, int R>
class HostNode final : public OpNode<std::vector<T>> {
 public:
  HostNode(const Read<T, R>& x, SourceLocation where) : where_(where) { x_.bind(x.arg(), R, "host", where); }
  runtime::Backend* device() const noexcept override { return x_.device(); }
  void before_waiting(const Stream& stream, std::vector<runtime::Ticket>& work) override {
    x_.resolve_for_host(stream, "host", where_);
    x_.add_writer(work);
  }
  std::vector<T> run(const Stream& stream) override {
    x_.resolve_for_host(stream, "host", where_);
    return read_back<T>(x_.layout(), "host", where_);
  }

 private:
  ReadOperand x_;
  SourceLocation where_;
};

/// cast and clone: one class for all types that are converted to U.
template <Element U, int R>
class CastNode final : public OpNode<Tensor<U, R>> {
 public:
  CastNode(const ArgRef& x, const Recipe& recipe) : recipe_(recipe) { x_.bind(x, R, recipe.label, recipe.where); }
  runtime::Backend* device() const noexcept override { return x_.device(); }
  bool promise(std::span<std::int64_t> dims, std::span<std::int64_t> strides) const noexcept override {
    if (!x_.known) return false;
    for (std::size_t i = 0; i < R; ++i) dims[i] = x_.dims[i];
    set_contiguous(dims, strides);
    return true;
  }
  Tensor<U, R> run(const Stream& stream) override {
    x_.resolve_on(stream, recipe_.label, recipe_.where);
    Layout<R> l{make_storage(recipe_, x_.layout().size(), stream), 0, {}, {}};
    for (std::size_t i = 0; i < R; ++i) l.dims[i] = x_.dims[i];
    set_contiguous(l.dims, l.strides);
    enqueue_convert(stream, x_.layout(), ref(l, element_type<U>), recipe_.label, recipe_.where);
    return Reach::make<Tensor<U, R>>(std::move(l));
  }

 private:
  ReadOperand x_;
  Recipe recipe_;
};

/// Enqueues the rounding of sums of f32: from [bins, ...] to a contiguous tensor of the other extents.
void enqueue_rounding(const Stream&, const LayoutRef& from, const LayoutRef& to, SourceLocation where);
/// Throws ShapeError unless the first axis of what rounded() is given are the bins of sums.
void check_bins(const ReadOperand&, SourceLocation where);

/// rounded: sums of rank R - 1.
template <int R>
class RoundNode final : public OpNode<Tensor<f32, R - 1>> {
 public:
  RoundNode(const ArgRef& x, const Recipe& recipe) : recipe_(recipe) {
    x_.bind(x, R, recipe.label, recipe.where);
    if (x_.known) check_bins(x_, recipe.where);
  }
  runtime::Backend* device() const noexcept override { return x_.device(); }
  bool promise(std::span<std::int64_t> dims, std::span<std::int64_t> strides) const noexcept override {
    if (!x_.known) return false;
    for (std::size_t i = 0; i + 1 < R; ++i) dims[i] = x_.dims[i + 1];
    set_contiguous(dims, strides);
    return true;
  }
  Tensor<f32, R - 1> run(const Stream& stream) override {
    x_.resolve_on(stream, recipe_.label, recipe_.where);
    check_bins(x_, recipe_.where);
    Layout<R - 1> l{};
    std::int64_t count = 1;
    for (std::size_t i = 0; i + 1 < R; ++i) l.dims[i] = x_.dims[i + 1], count *= l.dims[i];
    l.storage = make_storage(recipe_, count, stream);
    set_contiguous(l.dims, l.strides);
    enqueue_rounding(stream, x_.layout(), ref(l, ElementType::f32), recipe_.where);
    return Reach::make<Tensor<f32, R - 1>>(std::move(l));
  }

 private:
  ReadOperand x_;
  Recipe recipe_;
};

/// copy_to. A copy between a GPU and the CPU is work of the GPU.
template <Element T, int R>
class CopyToNode final : public OpNode<Tensor<T, R>> {
 public:
  CopyToNode(const Read<T, R>& x, Device device, SourceLocation where) : device_(device), where_(where) {
    x_.bind(x.arg(), R, "copy_to", where);
  }
  runtime::Backend* device() const noexcept override {
    runtime::Backend* source = x_.device();
    return source != nullptr && device_.kind() == DeviceKind::Cpu ? source : &device_.backend();
  }
  bool promise(std::span<std::int64_t> dims, std::span<std::int64_t> strides) const noexcept override {
    if (!x_.known) return false;
    for (std::size_t i = 0; i < R; ++i) dims[i] = x_.dims[i];
    set_contiguous(dims, strides);
    return true;
  }
  Tensor<T, R> run(const Stream& stream) override {
    x_.resolve_anywhere(stream, "copy_to", where_);
    Layout<R> l{moved(stream, x_.layout(), device_, "copy_to", where_), 0, {}, {}};
    for (std::size_t i = 0; i < R; ++i) l.dims[i] = x_.dims[i];
    set_contiguous(l.dims, l.strides);
    return Reach::make<Tensor<T, R>>(std::move(l));
  }

 private:
  ReadOperand x_;
  Device device_;
  SourceLocation where_;
};

/// copy_into; `Result` is void where the target was lent.
template <class Result, Element T, int R>
class CopyNode final : public OpNode<Result> {
 public:
  CopyNode(const ArgRef& to, const ArgRef& from, SourceLocation where) : where_(where) {
    to_.bind(to, R, "copy_into", where);
    from_.bind(from, R, "copy_into", where);
    if (to_.known && from_.known) check_same_dims(to_, from_, "copy_into", where);
    if (to.owner) to.owner->reset();  // accepted: the tensor changes hands
  }
  runtime::Backend* device() const noexcept override { return to_.device() ? to_.device() : from_.device(); }
  Result run(const Stream& stream) override {
    to_.resolve_anywhere(stream, "copy_into", where_);
    from_.resolve_anywhere(stream, "copy_into", where_);
    check_same_dims(to_, from_, "copy_into", where_);
    enqueue_move(stream, from_.layout(), to_.layout(), "copy_into", where_);
    if constexpr (!std::is_void_v<Result>) {
      Layout<R> l{std::move(to_.storage), to_.offset, {}, {}};
      for (std::size_t i = 0; i < R; ++i) l.dims[i] = to_.dims[i], l.strides[i] = to_.strides[i];
      return Reach::make<Tensor<T, R>>(std::move(l));
    }
  }

 private:
  ReadOperand to_, from_;
  SourceLocation where_;
};

template <Element T, int R>
Op<std::vector<T>> host_op(const Read<T, R>& x, SourceLocation where) {
  return Op<std::vector<T>>(new HostNode<T, R>(x, where));
}
template <Element U, Element T, int R>
Op<Tensor<U, R>> cast_op(const Read<T, R>& x, const char* label, SourceLocation where) {
  return Op<Tensor<U, R>>(new CastNode<U, R>(x.arg(), recipe<U>(label, nullptr, where)));
}
template <Element T, int R>
Op<Tensor<T, R>> from_op(const void* data, std::size_t count, const Dims<R>& dims, SourceLocation where) {
  auto staged = stage(data, static_cast<std::int64_t>(count), dims.numel(where), dims, element_type<T>, where);
  return Op<Tensor<T, R>>(new FromNode<T, R>(std::move(staged), dims, where));
}
template <class A>
using ReadOf = Read<typename ReadableArg<A>::element, ReadableArg<A>::rank>;

}  // namespace detail

/// A tensor of the values, row-major. The values are copied now, not when the operation runs. ShapeError if their
/// number is not the product of the extents.
template <class T, std::size_t Extent_, std::size_t N>
  requires Element<std::remove_const_t<T>>
detail::BracedTensor<std::remove_const_t<T>, N> from(std::span<T, Extent_> values, BracedDims<N> dims,
                                                     SourceLocation where = SourceLocation::current()) {
  return detail::from_op<std::remove_const_t<T>>(values.data(), values.size(), detail::BracedRank<N>(dims, where),
                                                 where);
}
template <class T, std::size_t Extent_, int R>
  requires Element<std::remove_const_t<T>>
Op<Tensor<std::remove_const_t<T>, R>> from(std::span<T, Extent_> values, const Dims<R>& dims,
                                           SourceLocation where = SourceLocation::current()) {
  return detail::from_op<std::remove_const_t<T>>(values.data(), values.size(), dims, where);
}
template <Element T, int R>
Op<Tensor<T, R>> from(const std::vector<T>& values, const Dims<R>& dims,
                      SourceLocation where = SourceLocation::current()) {
  if constexpr (std::is_same_v<T, bool>) {
    try {
      const std::vector<unsigned char> bytes(values.begin(), values.end());
      return detail::from_op<bool>(bytes.data(), bytes.size(), dims, where);
    } catch (const std::bad_alloc&) { detail::throw_no_host_memory("from", values.size(), where); }
  } else {
    return detail::from_op<T>(values.data(), values.size(), dims, where);
  }
}
template <Element T, std::size_t N>
detail::BracedTensor<T, N> from(const std::vector<T>& values, BracedDims<N> dims,
                                SourceLocation where = SourceLocation::current()) {
  return from(values, detail::BracedRank<N>(dims, where), where);
}

/// The elements, row-major, in host memory. Running it waits until they are complete, and throws the DeviceError of the
/// work that failed to write them, or if the host has no memory for them.
template <Element T, int R>
Op<std::vector<T>> host(const Tensor<T, R>& x, SourceLocation where = SourceLocation::current()) {
  return detail::host_op<T, R>(x, where);
}
template <detail::Handle A>
Op<std::vector<detail::element_of<A>>> host(A&& x, SourceLocation where = SourceLocation::current()) {
  return detail::host_op(detail::ReadOf<A>(std::forward<A>(x)), where);
}

/// A row-major tensor of another element type. One rounding; floats to integers saturate (NaN is 0), integers wrap, fp8
/// saturates.
template <Element U, Element T, int R>
Op<Tensor<U, R>> cast(const Tensor<T, R>& x, SourceLocation where = SourceLocation::current()) {
  return detail::cast_op<U, T, R>(x, "cast", where);
}
template <Element U, detail::Handle A>
Op<Tensor<U, detail::ReadableArg<A>::rank>> cast(A&& x, SourceLocation where = SourceLocation::current()) {
  return detail::cast_op<U>(detail::ReadOf<A>(std::forward<A>(x)), "cast", where);
}

namespace detail {
template <class U, class T, int R>
struct RoundedCheck {
  static constexpr bool sums = std::is_same_v<T, i64> && R >= 2;
  static_assert(std::is_same_v<U, f32>,
                "sums are rounded to f32: write rounded<f32>(sums), and cast<T>() of it for another element type");
  static_assert(sums,
                "rounded<f32>() takes the sums of an Acc<reproducible<f32>, ...>, which start as "
                "zeros<reproducible<f32>>({...})");
  static constexpr bool ok = std::is_same_v<U, f32> && sums;
};
/// The rank of the sums in a tensor of bins. Another tensor has a rank here, too: RoundedCheck explains it.
template <int R>
inline constexpr int rounded_rank = R > 1 ? R - 1 : 1;
template <class U, Element T, int R>
Op<Tensor<f32, rounded_rank<R>>> round_op(const Read<T, R>& x, SourceLocation where) {
  if constexpr (RoundedCheck<U, T, R>::ok) {
    return Op<Tensor<f32, R - 1>>(new RoundNode<R>(x.arg(), recipe<f32>("rounded", nullptr, where)));
  } else {
    return make<f32>(Dims<rounded_rank<R>>(), recipe<f32>("rounded", nullptr, where));
  }
}
}  // namespace detail

/// The sums of an Acc<reproducible<f32>, ...>, each rounded once, to nearest even: rounded<f32>(sums). A sum with
/// infinities of one sign is that infinity; with a NaN or both infinities it is a NaN; a sum of 0 is +0. A sum of
/// finite values is infinite only if it rounds to infinity, whatever the sums in between. Throws ShapeError unless the
/// first extent is reproducible<f32>::bins.
template <class U = void, Element T, int R>
auto rounded(const Tensor<T, R>& sums, SourceLocation where = SourceLocation::current()) {
  return detail::round_op<U>(detail::Read<T, R>(sums), where);
}
template <class U = void, detail::Handle A>
auto rounded(A&& sums, SourceLocation where = SourceLocation::current()) {
  return detail::round_op<U>(detail::ReadOf<A>(std::forward<A>(sums)), where);
}

/// A row-major copy with memory of its own.
template <Element T, int R>
Op<Tensor<T, R>> clone(const Tensor<T, R>& x, SourceLocation where = SourceLocation::current()) {
  return detail::cast_op<T, T, R>(x, "clone", where);
}
template <detail::Handle A>
Op<Tensor<detail::element_of<A>, detail::ReadableArg<A>::rank>> clone(
    A&& x, SourceLocation where = SourceLocation::current()) {
  return detail::cast_op<detail::element_of<A>>(detail::ReadOf<A>(std::forward<A>(x)), "clone", where);
}

/// A row-major copy on `device`, in memory of its own: between GPUs directly where they are connected, and between a
/// GPU and the CPU as work of the GPU, without waiting (it overlaps other work where the host's memory is pinned:
/// HostBuffer). A stream for it is one of either device.
template <Element T, int R>
Op<Tensor<T, R>> copy_to(const Tensor<T, R>& x, Device device, SourceLocation where = SourceLocation::current()) {
  return Op<Tensor<T, R>>(new detail::CopyToNode<T, R>(detail::Read<T, R>(x), device, where));
}
template <detail::Handle A>
Op<Tensor<detail::element_of<A>, detail::ReadableArg<A>::rank>> copy_to(
    A&& x, Device device, SourceLocation where = SourceLocation::current()) {
  using Node = detail::CopyToNode<detail::element_of<A>, detail::ReadableArg<A>::rank>;
  return Op<Tensor<detail::element_of<A>, detail::ReadableArg<A>::rank>>(
      new Node(detail::ReadOf<A>(std::forward<A>(x)), device, where));
}

/// Copies the elements of `from` into a lent tensor or a part of it: copy_into(mut(t).slice<0>(0, n), x). They may be
/// on different devices. ShapeError unless the extents are equal; BorrowError if both are the same storage.
template <Element T, int R>
Op<void> copy_into(const Lend<T, R>& to, const std::type_identity_t<detail::Read<T, R>>& from,
                   SourceLocation where = SourceLocation::current()) {
  return Op<void>(new detail::CopyNode<void, T, R>(detail::Lent<T, R>(std::move(to)).arg(), from.arg(), where));
}
/// The same with a tensor that is given and returned.
template <Element T, int R>
Op<Tensor<T, R>> copy_into(TESSERA_ARG_LIVE Tensor<T, R>&& to, const std::type_identity_t<detail::Read<T, R>>& from,
                           SourceLocation where = SourceLocation::current()) {
  return Op<Tensor<T, R>>(
      new detail::CopyNode<Tensor<T, R>, T, R>(detail::Give<T, R>(std::move(to)).arg(), from.arg(), where));
}

namespace detail {

template <Element T, int R, int N>
class ReshapeNode final : public OpNode<Tensor<T, N>> {
 public:
  /// Takes `first`.
  ReshapeNode(OwnedOp<OpNode<Tensor<T, R>>>& first, const Dims<N>& dims, SourceLocation where)
      : first_(std::move(first)), dims_(dims), where_(where) {}
  runtime::Backend* device() const noexcept override { return device_of(*first_); }
  bool promise(std::span<std::int64_t> dims, std::span<std::int64_t> strides) const noexcept override {
    for (std::size_t i = 0; i < N; ++i) dims[i] = dims_.array()[i];
    set_contiguous(dims, strides);
    return true;
  }
  Tensor<T, N> run(const Stream& stream) override {
    Tensor<T, R> made = run_node(*first_, stream);
    return Reach::make<Tensor<T, N>>(reshaped(std::move(Reach::layout(made)), element_type<T>, dims_, where_));
  }

 private:
  OwnedOp<OpNode<Tensor<T, R>>> first_;
  Dims<N> dims_;
  SourceLocation where_;
};

}  // namespace detail

/// A view of the same elements with other extents. Throws ShapeError unless it is contiguous and the numbers of
/// elements are equal.
template <Element T, int R, int N>
View<T, N> reshape(const View<T, R>& x, const Dims<N>& dims, SourceLocation where = SourceLocation::current()) {
  return detail::Reach::make<View<T, N>>(
      detail::reshaped(detail::Layout<R>(detail::Reach::layout(x.view(where))), element_type<T>, dims, where));
}
/// A view of x with other extents and strides (in elements, at least 0): element (i, j, ...) is element i * strides[0]
/// + j * strides[1] + ... of x in row-major order. Elements may have several places, as those of overlapping windows
/// have: windows(x, Dims(n - 2, 3), {1, 1}) has in row i the elements i, i + 1, i + 2. Throws ShapeError unless x is
/// contiguous and has all these elements.
template <Element T, int R, int N>
View<T, N> windows(const View<T, R>& x, const Dims<N>& dims,
                   const std::type_identity_t<std::array<std::int64_t, N>>& strides,
                   SourceLocation where = SourceLocation::current()) {
  detail::Layout<R> from(detail::Reach::layout(x.view(where)));
  detail::check_windows(detail::ref(from, element_type<T>), dims, strides, where);
  return detail::Reach::make<View<T, N>>(
      detail::Layout<N>{std::move(from.storage), from.offset, dims.array(), strides});
}
/// The same memory as a tensor of other extents; `x` is empty afterwards, and unchanged if this throws.
template <Element T, int R, int N>
[[nodiscard]] Tensor<T, N> reshape(TESSERA_ARG_LIVE Tensor<T, R>&& x, const Dims<N>& dims,
                                   SourceLocation where = SourceLocation::current()) {
  auto layout = detail::reshaped(detail::Layout<R>(detail::Reach::layout(x.view(where))), element_type<T>, dims, where);
  detail::Reach::layout(x).storage.reset();
  return detail::Reach::make<Tensor<T, N>>(std::move(layout));
}
/// The tensor that an operation makes, with other extents. Running it throws ShapeError unless that tensor is
/// contiguous and has as many elements.
template <Element T, int R, int N>
Op<Tensor<T, N>> reshape(Op<Tensor<T, R>>&& op, const Dims<N>& dims, SourceLocation where = SourceLocation::current()) {
  detail::Reach::check_live(op, where);
  return Op<Tensor<T, N>>(new detail::ReshapeNode<T, R, N>(detail::Reach::node(op), dims, where));
}

namespace detail {
template <class T>
class ReadingNode final : public OpNode<T> {
 public:
  ReadingNode(OwnedOp<OpNode<T>>& first, std::vector<runtime::ReadLease> leases) : leases_(std::move(leases)) {
    first_ = std::move(first);
  }
  runtime::Backend* device() const noexcept override { return device_of(*first_); }
  void before_waiting(const Stream& stream, std::vector<runtime::Ticket>& work) override {
    before_waiting_for(*first_, stream, work);
  }
  T run(const Stream& stream) override {
    const auto first = std::move(first_);
    return run_node(*first, stream);
  }

 private:
  OwnedOp<OpNode<T>> first_;
  std::vector<runtime::ReadLease> leases_;
};
}  // namespace detail

/// An operation that does what `op` does, and leases these tensors and views for reading from now on, because a
/// function given to then() will read them. Throws BorrowError if one of them is empty or being written.
template <class T, class... X>
Op<T> reading(Op<T> op, SourceLocation where, const X&... tensors) {
  detail::Reach::check_live(op, where);
  std::vector<runtime::ReadLease> leases;
  leases.reserve(sizeof...(X));
  (leases.emplace_back(detail::Reach::layout(tensors.view(where)).storage,
                       runtime::Holder{.what = "a function of then()", .where = where}),
   ...);
  return Op<T>(new detail::ReadingNode<T>(detail::Reach::node(op), std::move(leases)));
}

}  // namespace tessera
