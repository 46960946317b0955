// Tensors as users hold them: Tensor owns, Shared is a copyable read-only owner, View is a read-only window that keeps
// the storage alive, mut(t) lends. All are handles: copying a view or moving a tensor never copies elements.
#pragma once
#include <concepts>
#include <memory>
#include <optional>
#include <utility>

#include "tessera/host/layout.hpp"
#include "tessera/runtime/device.hpp"

// The macros are typestate annotations for clang's consumed analysis (-Wconsumed): use after a tensor was given away
// becomes a compile-time diagnostic. Other compilers ignore the annotations; there, and where the analysis cannot
// follow, the run-time BorrowError remains.
//
// The analysis also has a state "unknown": a tensor reached through a reference parameter, or chosen by `?:`. Methods
// accept it, and so do conversions by a method (a launch's In argument): only a tensor that is known to have been given
// away is an error. A parameter cannot require "unconsumed or unknown" (clang 16), so a function that takes `const
// Tensor&` has no annotation, and one that takes `Tensor&&` requires a tensor that is known to be there.

#if defined(__clang__)
#define TESSERA_CONSUMABLE [[clang::consumable(unconsumed)]]  ///< a class that can be given away
#define TESSERA_LIVE \
  [[clang::callable_when("unconsumed", "unknown")]]              ///< a method of a tensor that is not known to be gone
#define TESSERA_ARG_LIVE [[clang::param_typestate(unconsumed)]]  ///< a `Tensor&&` that must be there
#define TESSERA_ARG_STAYS [[clang::return_typestate(unconsumed)]]  ///< a `Tensor&` that is there afterwards
#define TESSERA_RETURNS_LIVE [[clang::return_typestate(unconsumed)]]
#define TESSERA_RETURNS_EMPTY [[clang::return_typestate(consumed)]]
#define TESSERA_BECOMES_LIVE [[clang::set_typestate(unconsumed), clang::reinitializes]]
#else
#define TESSERA_CONSUMABLE
#define TESSERA_LIVE
#define TESSERA_ARG_LIVE
#define TESSERA_ARG_STAYS
#define TESSERA_RETURNS_LIVE
#define TESSERA_RETURNS_EMPTY
#define TESSERA_BECOMES_LIVE
#endif

namespace tessera {

template <Element T, int R>
class View;

namespace detail {
template <class>
inline constexpr bool never_true = false;
template <class>
inline constexpr bool is_op = false;  ///< specialized beside Op

/// The library's access to the layout of a handle.
struct Reach {
  template <class H>
  static const auto& layout(const H& handle) {
    return handle.layout_;
  }
  template <class H>
  static auto& layout(H& handle) {
    return handle.layout_;
  }
  template <class H>
  static auto& owners(H& handle) {
    return handle.owners_;
  }
  template <class O>
  static auto& node(O& op) {
    return op.node_;
  }
  template <class O>
  static auto take(O& op, SourceLocation where) {
    return op.take_to_run(where);
  }
  template <class F>
  static auto coroutine(const F& flow) noexcept {
    return flow.handle_;
  }
  template <class O>
  static void check_live(O& op, SourceLocation where = {}) {
    op.live(where);
  }
  template <class H, int R>
  static H make(Layout<R>&& layout) {
    return H(std::move(layout));
  }
  template <class H, int R>
  static H lend(Layout<R>&& layout, std::uint64_t ownership) {
    return H(std::move(layout), ownership);
  }
  template <class S>
  static std::uint64_t scalar_bits(const S& scalar) noexcept {
    return scalar.bits_;
  }
  template <class S>
  static std::uint64_t scalar_id(const S& scalar) noexcept {
    return scalar.id_;
  }
  template <class S>
  static void set_scalar_bits(S& scalar, std::uint64_t bits) noexcept {
    scalar.bits_ = bits;
  }
  template <class H>
  static std::uint64_t ownership(const H& lend) {
    return lend.ownership_;
  }
};

/// For share(): throws BorrowError if an operation that has not run yet will write it.
void check_unwritten(const LayoutRef& l, SourceLocation where);
/// True if there is no other owner, including libraries that a tensor was exported to.
bool only_owner(const std::shared_ptr<char>& owners, const runtime::StorageRef& storage);

/// Explains a slice with a step.
template <class S>
struct ExplainSliceStep {
  static_assert(never_true<S>,
                "write slice<axis>(lo, hi), which has no step, and take every n-th element in the kernel: "
                "x.gather(iota<i32, B>() * n + first)");
};

/// The queries that all handles share. `Self` has a Layout named layout_.
template <class Self, Element T, int R>
class Queries {
 public:
  using element = T;
  static constexpr int rank = R;

  /// The extents. All queries throw BorrowError if the handle is empty.
  Dims<R> dims(SourceLocation where = SourceLocation::current()) const {
    return Dims<R>::from(live(where).dims, where);
  }
  /// Extent of one axis; ShapeError if there is no such axis.
  std::int64_t dim(int axis, SourceLocation where = SourceLocation::current()) const {
    const auto& l = live(where);
    check_axis(axis, R, where);
    return l.dims[static_cast<std::size_t>(axis)];
  }
  /// Distance of neighbours along one axis, in elements; ShapeError if there is no such axis.
  std::int64_t stride(int axis, SourceLocation where = SourceLocation::current()) const {
    const auto& l = live(where);
    check_axis(axis, R, where);
    return l.strides[static_cast<std::size_t>(axis)];
  }
  /// Number of elements.
  std::int64_t size(SourceLocation where = SourceLocation::current()) const {
    return ref(live(where), element_type<T>).size();
  }
  /// True if the elements are row-major without gaps.
  bool contiguous(SourceLocation where = SourceLocation::current()) const {
    return ref(live(where), element_type<T>).contiguous();
  }
  Device device(SourceLocation where = SourceLocation::current()) const { return device_of(live(where).storage); }

  // Read-only views of the same storage.
  /// Elements lo to hi - 1 along `Axis`; ShapeError unless 0 <= lo <= hi <= dim(Axis).
  template <int Axis>
  View<T, R> slice(Extent lo, Extent hi, SourceLocation where = SourceLocation::current()) const {
    return Reach::make<View<T, R>>(sliced<Axis>(live(where), lo, hi, where));
  }
  template <int Axis, std::integral S>
  View<T, R> slice(Extent, Extent, S) const {
    (void)sizeof(ExplainSliceStep<S>);
    return {};
  }
  /// The axes in another order: axis i of the result is axis Axes[i] of this.
  template <int... Axes>
  View<T, R> permute(SourceLocation where = SourceLocation::current()) const {
    return Reach::make<View<T, R>>(permuted<Axes...>(Layout<R>(live(where))));
  }
  /// The whole tensor.
  View<T, R> view(SourceLocation where = SourceLocation::current()) const {
    return Reach::make<View<T, R>>(Layout<R>(live(where)));
  }
  /// The same elements with other extents; ShapeError unless contiguous and as many.
  template <std::size_t N>
  View<T, static_cast<int>(N)> reshape(BracedDims<N> dims, SourceLocation where = SourceLocation::current()) const& {
    return Reach::make<View<T, static_cast<int>(N)>>(
        reshaped(Layout<R>(live(where)), element_type<T>, Dims<static_cast<int>(N)>(dims, where), where));
  }

 protected:
  const Layout<R>& live(SourceLocation where) const {
    const Layout<R>& l = Reach::layout(static_cast<const Self&>(*this));
    if (!l.storage) [[unlikely]] { throw_empty(Self::kName, element_type<T>, R, where); }
    return l;
  }
};

template <Element T, int R>
class Read;  // operand.hpp
}  // namespace detail

/// The only owner of its elements: move-only. It is passed to a kernel by std::move (give) or as mut(t) (lend) to be
/// written, and by reference to be read. Default-constructed or moved-from it is empty, and every use throws
/// BorrowError until a tensor is assigned.
template <Element T, int R>
class [[nodiscard("a tensor that was given to a call comes back as its result: assign it")]] TESSERA_CONSUMABLE Tensor
    : private detail::Queries<Tensor<T, R>, T, R> {
  using Base = detail::Queries<Tensor<T, R>, T, R>;
  using Where = SourceLocation;

 public:
  using element = T;
  static constexpr int rank = R;

  TESSERA_RETURNS_EMPTY Tensor() noexcept = default;
  TESSERA_RETURNS_LIVE Tensor(Tensor&& other) noexcept : layout_(std::move(other.layout_)) {
    detail::change_owner(layout_.storage);
  }
  /// Lends of the tensor that was here, and replays that write it, are invalid from now on.
  TESSERA_BECOMES_LIVE Tensor& operator=(Tensor&& other) noexcept {
    detail::change_owner(layout_.storage);
    layout_ = std::move(other.layout_);
    detail::change_owner(layout_.storage);
    return *this;
  }
  /// Explains an operation where its result is meant. (A template, so that it is looked at only where it is used.)
  template <class O>
    requires detail::is_op<std::remove_cvref_t<O>>
  Tensor(O&&) {  // NOLINT(google-explicit-constructor)
    static_assert(detail::never_true<O>,
                  "run the operation to have its result: write .sync(), or .on(stream), or co_await in a flow");
  }
  Tensor(const Tensor&) = delete;  // a copy is an operation: clone(t)
  Tensor& operator=(const Tensor&) = delete;
  ~Tensor() = default;

  // The queries again, because clang's analysis only sees the methods of this class.
  TESSERA_LIVE Dims<R> dims(Where where = Where::current()) const { return Base::dims(where); }
  TESSERA_LIVE std::int64_t dim(int axis, Where where = Where::current()) const { return Base::dim(axis, where); }
  TESSERA_LIVE std::int64_t stride(int axis, Where where = Where::current()) const { return Base::stride(axis, where); }
  TESSERA_LIVE std::int64_t size(Where where = Where::current()) const { return Base::size(where); }
  TESSERA_LIVE bool contiguous(Where where = Where::current()) const { return Base::contiguous(where); }
  TESSERA_LIVE Device device(Where where = Where::current()) const { return Base::device(where); }

  /// The whole tensor, read-only. Views keep the storage alive.
  TESSERA_LIVE View<T, R> view(Where where = Where::current()) const { return Base::view(where); }
  template <int Axis>
  TESSERA_LIVE View<T, R> slice(Extent lo, Extent hi, Where where = Where::current()) const {
    return Base::template slice<Axis>(lo, hi, where);
  }
  template <int Axis, std::integral S>
  TESSERA_LIVE View<T, R> slice(Extent, Extent, S) const {
    (void)sizeof(detail::ExplainSliceStep<S>);
    return {};
  }
  template <int... Axes>
  TESSERA_LIVE View<T, R> permute(Where where = Where::current()) const {
    return Base::template permute<Axes...>(where);
  }
  template <std::size_t N>
  TESSERA_LIVE View<T, static_cast<int>(N)> reshape(BracedDims<N> dims, Where where = Where::current()) const& {
    return Base::reshape(dims, where);
  }
  /// Conversion to an argument that is read.
  TESSERA_LIVE operator detail::Read<T, R>() const noexcept;  // NOLINT: conversions are intended

  /// Gives the tensor other extents: `auto flat = std::move(t).reshape({n})` is the same memory. Changes nothing if it
  /// throws.
  template <std::size_t N>
  TESSERA_LIVE Tensor<T, static_cast<int>(N)> reshape(BracedDims<N> dims, Where where = Where::current()) && {
    auto out = detail::reshaped(detail::Layout<R>(Base::live(where)), element_type<T>,
                                Dims<static_cast<int>(N)>(dims, where), where);
    layout_.storage.reset();
    return detail::Reach::make<Tensor<T, static_cast<int>(N)>>(std::move(out));
  }

 private:
  friend Base;
  friend detail::Reach;
  static constexpr const char* kName = "Tensor";
  TESSERA_RETURNS_LIVE explicit Tensor(detail::Layout<R>&& layout) noexcept : layout_(std::move(layout)) {
    detail::change_owner(layout_.storage);
  }
  detail::Layout<R> layout_;
};

/// A read-only window on a tensor's elements. Copyable; keeps the storage alive, so it never dangles. Later writes to
/// the tensor are visible through its views.
template <Element T, int R>
class View : public detail::Queries<View<T, R>, T, R> {
 public:
  /// Empty; using it throws BorrowError.
  View() noexcept = default;

 private:
  friend detail::Queries<View<T, R>, T, R>;
  friend detail::Reach;
  static constexpr const char* kName = "View";
  explicit View(detail::Layout<R>&& layout) noexcept : layout_(std::move(layout)) {}
  detail::Layout<R> layout_;
};

/// A tensor with any number of owners, none of which may write.
template <Element T, int R>
class Shared : public detail::Queries<Shared<T, R>, T, R> {
 public:
  /// Empty; using it throws BorrowError.
  Shared() noexcept = default;

 private:
  friend detail::Queries<Shared<T, R>, T, R>;
  friend detail::Reach;
  static constexpr const char* kName = "Shared";
  explicit Shared(detail::Layout<R>&& layout) : owners_(std::make_shared<char>()) {  // first: it may throw
    layout_ = std::move(layout);
    detail::change_owner(layout_.storage);
    detail::set_shared(layout_.storage, owners_);
  }
  detail::Layout<R> layout_;
  std::shared_ptr<char> owners_;  ///< counts the Shared handles; views and operations in flight are not owners
};

/// Makes a tensor shareable: copies of the result are the same elements, read-only. Throws BorrowError if it is empty,
/// or if an operation that has not run yet will write it. Lends made before (mut) become invalid.
template <Element T, int R>
[[nodiscard]] Shared<T, R> share(TESSERA_ARG_LIVE Tensor<T, R>&& tensor,
                                 SourceLocation where = SourceLocation::current()) {
  const detail::Layout<R>& layout = detail::Reach::layout(static_cast<const Tensor<T, R>&>(tensor));
  if (!layout.storage) detail::throw_empty("Tensor", element_type<T>, R, where);
  detail::check_unwritten(detail::ref(layout, element_type<T>), where);
  return detail::Reach::make<Shared<T, R>>(std::move(detail::Reach::layout(tensor)));
}

/// The tensor if `shared` is its only owner (`shared` is empty afterwards); otherwise nothing, and `shared` is
/// unchanged. Throws BorrowError if `shared` is empty.
template <Element T, int R>
[[nodiscard]] std::optional<Tensor<T, R>> try_unshare(Shared<T, R>&& shared,
                                                      SourceLocation where = SourceLocation::current()) {
  detail::Layout<R>& layout = detail::Reach::layout(shared);
  if (!layout.storage) detail::throw_empty("Shared", element_type<T>, R, where);
  if (!detail::only_owner(detail::Reach::owners(shared), layout.storage)) return std::nullopt;
  detail::Reach::owners(shared).reset();
  return detail::Reach::make<Tensor<T, R>>(std::move(layout));
}

/// The result of mut(t): exclusive access for one operation while `t` stays the owner. Once the tensor has been moved,
/// given, shared or replaced, using it throws BorrowError. A part can be lent as well: mut(t).slice<0>(0, n),
/// mut(t).permute<1, 0>().
template <Element T, int R>
class [[nodiscard("mut(t) lends a tensor to a call: write it as the argument")]] Lend {
 public:
  using element = T;
  static constexpr int rank = R;

  template <int Axis>
  Lend slice(Extent lo, Extent hi, SourceLocation where = SourceLocation::current()) && {
    return Lend(detail::sliced<Axis>(std::move(layout_), lo, hi, where), ownership_);
  }
  template <int Axis, std::integral S>
  Lend slice(Extent, Extent, S) && {
    (void)sizeof(detail::ExplainSliceStep<S>);
    return std::move(*this);
  }
  template <int... Axes>
  Lend permute() && {
    return Lend(detail::permuted<Axes...>(std::move(layout_)), ownership_);
  }

 private:
  friend detail::Reach;
  Lend(detail::Layout<R>&& layout, std::uint64_t ownership) noexcept
      : layout_(std::move(layout)), ownership_(ownership) {}
  detail::Layout<R> layout_;
  std::uint64_t ownership_;  ///< the storage's when it was lent
};

#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored \
    "-Wconsumed"  // the promise about its parameter relies on the run-time check, which clang cannot see
#endif
/// Lends `tensor` to the operation that takes the result: exclusive until that has been enqueued. Throws BorrowError if
/// it is empty.
template <Element T, int R>
Lend<T, R> mut(TESSERA_ARG_STAYS Tensor<T, R>& tensor, SourceLocation where = SourceLocation::current()) {
  const detail::Layout<R>& layout = detail::Reach::layout(static_cast<const Tensor<T, R>&>(tensor));
  if (!layout.storage) detail::throw_empty("Tensor", element_type<T>, R, where);
  return detail::Reach::lend<Lend<T, R>>(detail::Layout<R>(layout), detail::ownership_of(layout.storage));
}
#if defined(__clang__)
#pragma clang diagnostic pop
#endif

namespace detail {
template <class>
inline constexpr bool is_tensor = false;
template <Element T, int R>
inline constexpr bool is_tensor<Tensor<T, R>> = true;
}  // namespace detail

namespace detail {
/// Explains an argument of mut() that cannot be lent.
template <class X>
struct ExplainLend {
  static constexpr bool is_const = is_tensor<std::remove_cvref_t<X>> && std::is_const_v<std::remove_reference_t<X>>;
  static_assert(
      !is_const,
      "declare the tensor without const, as Tensor<T, R>& where it is a parameter: mut(t) lends it to be written");
  static_assert(
      is_const || never_true<X>,
      "mut(t) lends a Tensor that has a name: a temporary is given with std::move, and Views and Shared are read-only");
};

/// What is not lent, after mut() has explained it.
struct NotLent {
  template <int Axis>
  NotLent slice(Extent, Extent) && {
    return {};
  }
  template <int... Axes>
  NotLent permute() && {
    return {};
  }
};
}  // namespace detail

/// Explains what mut() takes.
template <class X>
  requires(!std::is_lvalue_reference_v<X> || std::is_const_v<std::remove_reference_t<X>> ||
           !detail::is_tensor<std::remove_reference_t<X>>)
auto mut(X&&, SourceLocation = SourceLocation::current()) {  // `auto`: the body is looked at here
  (void)sizeof(detail::ExplainLend<X>);
  return detail::NotLent{};
}

}  // namespace tessera
