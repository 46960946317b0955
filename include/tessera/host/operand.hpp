// Arguments of operations. An argument of the caller (a tensor, a view, std::move(t), mut(t), another operation, a
// number) converts to one of the small typed classes here; the rest of the code is untyped and out of line. The classes
// refer to the caller's object and take nothing from it: a given tensor changes hands only once the whole operation has
// been accepted.
//
// GraphScalar<T>: a number that a graph reads anew at each replay.
//
// Addresses for kernels with unsafe_::Ptr<T> parameters. Nothing is leased, ordered or kept alive through them.
#pragma once
#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "tessera/host/op.hpp"
#include "tessera/lang/constant.hpp"
#include "tessera/runtime/access.hpp"

namespace tessera::detail {

/// Where an operand's elements are, once it has been resolved.
struct Place {
  runtime::StorageRef storage;
  std::int64_t offset = 0;          ///< elements
  std::int64_t* dims = nullptr;     ///< room for the rank
  std::int64_t* strides = nullptr;  ///< same
};

/// Access to an argument that is an operation: one function table per type of operation.
struct OpAccess {
  OpBase* (*peek)(void* op);  ///< null if the operation has been run
  OwnedOp<OpBase> (*take)(void* op);
  void (*resolve)(OpBase&, const Stream&, Place&);
};

/// One argument of the caller. Valid during the call.
struct ArgRef {
  enum class How : std::uint8_t { Read, Give, Lend, Number };
  How how = How::Read;
  bool fits = true;                      ///< a number that the parameter's type can hold
  LayoutRef layout;                      ///< of a tensor; without contents for an operation
  runtime::StorageRef* owner = nullptr;  ///< Give, Lend: the handle's storage, emptied when the operation is accepted
  std::uint64_t ownership = 0;           ///< Lend: the storage's count when it was lent
  void* op = nullptr;                    ///< an Op that makes the tensor, reached by `access`
  const OpAccess* access = nullptr;
  std::uint64_t number = 0;  ///< raw bits of a number
  std::uint64_t scalar = 0;  ///< of a number: the id of the GraphScalar that it comes from; 0: of none
};

template <Element T, int R>
OpBase* peek_op(void* op) {
  return Reach::node(*static_cast<Op<Tensor<T, R>>*>(op)).get();
}
template <Element T, int R>
OwnedOp<OpBase> take_op(void* op) {
  return std::move(Reach::node(*static_cast<Op<Tensor<T, R>>*>(op)));
}
template <Element T, int R>
void resolve_op(OpBase& op, const Stream& stream, Place& place) {
  Tensor<T, R> made = run_node(static_cast<OpNode<Tensor<T, R>>&>(op), stream);
  Layout<R>& l = Reach::layout(made);
  place.storage = std::move(l.storage);
  place.offset = l.offset;
  for (std::size_t i = 0; i < R; ++i) place.dims[i] = l.dims[i], place.strides[i] = l.strides[i];
}

template <Element T, int R>
inline constexpr OpAccess op_access{peek_op<T, R>, take_op<T, R>, resolve_op<T, R>};

template <Element T, int R>
ArgRef op_arg(ArgRef::How how, Op<Tensor<T, R>>& op) {
  ArgRef a;
  a.how = how;
  a.op = &op;
  a.access = &op_access<T, R>;
  a.layout.element = element_type<T>;
  return a;
}

/// A tensor to be read: Tensor, Shared, View, or an operation that makes one.
template <Element T, int R>
class Read {
 public:
  using element = T;
  static constexpr int rank = R;
  // A Tensor converts by its operator Read, so that clang's analysis sees it.
  Read(const Shared<T, R>& t) noexcept { from(Reach::layout(t)); }               // NOLINT
  Read(const View<T, R>& t) noexcept { from(Reach::layout(t)); }                 // NOLINT
  Read(Op<Tensor<T, R>>&& op) noexcept : arg_(op_arg(ArgRef::How::Read, op)) {}  // NOLINT
  const ArgRef& arg() const noexcept { return arg_; }

 private:
  friend Tensor<T, R>;
  explicit Read(const Layout<R>& l) noexcept { from(l); }
  void from(const Layout<R>& l) noexcept { arg_.layout = ref(l, element_type<T>); }
  ArgRef arg_;
};

/// A tensor that is given: std::move(t), or an operation that makes one. The operation returns it.
template <Element T, int R>
class Give {
 public:
  using element = T;
  static constexpr int rank = R;
  Give(TESSERA_ARG_LIVE Tensor<T, R>&& t) noexcept {  // NOLINT: conversions are intended
    Layout<R>& l = Reach::layout(t);
    arg_.how = ArgRef::How::Give;
    arg_.layout = ref(l, element_type<T>);
    arg_.owner = &l.storage;
  }
  Give(Op<Tensor<T, R>>&& op) noexcept : arg_(op_arg(ArgRef::How::Give, op)) {}  // NOLINT
  const ArgRef& arg() const noexcept { return arg_; }

 private:
  ArgRef arg_;
};

/// A tensor that is lent: mut(t), or a part of it. Holds what mut() made for the call.
template <Element T, int R>
class Lent {
 public:
  using element = T;
  static constexpr int rank = R;
  Lent(Lend<T, R> lend) noexcept : lend_(std::move(lend)) {  // NOLINT: conversions are intended
    Layout<R>& l = Reach::layout(lend_);
    arg_.how = ArgRef::How::Lend;
    arg_.layout = ref(l, element_type<T>);
    arg_.owner = &l.storage;
    arg_.ownership = Reach::ownership(lend_);
  }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  const ArgRef& arg() const noexcept { return arg_; }

 private:
  Lend<T, R> lend_;
  ArgRef arg_;
};

/// What a Scalar<T> or Constant<T> takes: floating-point numbers for floating-point types, integers for all but bool,
/// bool for bool, for an enumeration its own values.
template <class X, class T>
concept NumberFor =
    (std::is_enum_v<T> && std::is_same_v<X, T>) ||
    (!std::is_enum_v<T> && (std::is_arithmetic_v<X> || (Element<X> && element_class<X> == ElementClass::Float)) &&
     (std::is_same_v<T, bool>   ? std::is_same_v<X, bool>
      : std::is_same_v<X, bool> ? false
      : std::is_integral_v<T>   ? std::is_integral_v<X>
                                : true));

/// True if T can hold the integer x; unlike std::in_range also for characters.
template <class T, class X>
constexpr bool holds_integer(X x) noexcept {
  using WideX = std::conditional_t<std::is_signed_v<X>, std::int64_t, std::uint64_t>;
  using WideT = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
  const auto wide = static_cast<WideX>(x);
  return std::cmp_less_equal(static_cast<WideT>(std::numeric_limits<T>::min()), wide) &&
         std::cmp_less_equal(wide, static_cast<WideT>(std::numeric_limits<T>::max()));
}

/// A number type that no Scalar<T> and no element takes.
template <class X, class T>
concept OtherNumber = (std::is_arithmetic_v<X> || Element<X>)&&!NumberFor<X, T>;
template <class X, class T>
constexpr void explain_number() {
  static_assert(!OtherNumber<X, T>,
                "this number cannot become the element type without changing its value (a floating-point number is no "
                "integer, a bool is no number): convert it first (static_cast)");
}

/// The bits of `x` as a narrow floating type, rounded once; infinity and NaN are kept. False if `x` is finite and
/// exceeds the type's range, or is an infinity and the type has none.
bool narrow_number(ElementType element, double x, std::uint64_t& bits) noexcept;

/// A number for a Scalar<T> or Constant<T>.
template <class T>
  requires is_constant_type<T>
class Number {
 public:
  using element = T;
  template <class X>
    requires NumberFor<X, T>
  Number(X x) noexcept {  // NOLINT: conversions are intended
    arg_.how = ArgRef::How::Number;
    arg_.layout.element = constant_element<T>();
    if constexpr (std::is_enum_v<T>) {
      std::memcpy(&arg_.number, &x, sizeof x);
    } else if constexpr (std::is_arithmetic_v<T>) {
      const T value = static_cast<T>(x);
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) arg_.fits = holds_integer<T>(x);
      if constexpr (std::is_floating_point_v<T> && std::is_floating_point_v<X> && sizeof(X) > sizeof(T))
        arg_.fits = !__builtin_isinf(value) || __builtin_isinf(x);
      std::memcpy(&arg_.number, &value, sizeof value);  // little-endian: the low bytes of the slot
    } else if constexpr (std::is_integral_v<X>) {
      arg_.fits = narrow_number(element_type<T>, widen_integer(x), arg_.number);
    } else {
      arg_.fits = narrow_number(element_type<T>, static_cast<double>(x), arg_.number);
    }
  }
  const ArgRef& arg() const noexcept { return arg_; }

 protected:
  ArgRef arg_;
};

/// True if the tensor of the lend has another owner now.
inline bool stale_lend(const ArgRef& a) {
  return a.how == ArgRef::How::Lend && ownership_of(*a.layout.storage) != a.ownership;
}
/// Throws the BorrowError of a stale lend: `argument` is "argument 1 (Mut<f32, 16>) of kernel one", or "copy_into".
[[noreturn]] void throw_stale_lend(const std::string& argument, SourceLocation where);

/// An operand of a host operation, with room for its extents.
struct ReadOperand {
  runtime::Lease lease;         ///< from the moment the operation is built
  runtime::StorageRef storage;  ///< null while the operand is an operation that has not run
  bool known = false;           ///< its extents and strides are known
  std::int64_t offset = 0;      ///< elements
  OwnedOp<OpBase> pending;
  const OpAccess* access = nullptr;  ///< of `pending`
  std::int64_t dims[kMaxRank] = {};
  std::int64_t strides[kMaxRank] = {};
  int rank = 0;
  ElementType element{};
  bool exclusive = false;
  bool was_operation = false;  ///< one that resolve_for_host() has run

  /// Takes over the argument. Throws BorrowError if it is empty, has been run, or is being written. `what` is static.
  void bind(const ArgRef&, int rank, const char* what, SourceLocation where);
  /// Runs the operand if it is an operation; afterwards storage, dims and strides are valid.
  void resolve_on(const Stream&, const char* what, SourceLocation where);
  /// The same where only the host reads the tensor: the result of an operation of this stream may be on another device.
  void resolve_for_host(const Stream&, const char* what, SourceLocation where);
  /// The same for an operand that may be on another device than `stream`: an operation then runs there.
  void resolve_anywhere(const Stream&, const char* what, SourceLocation where);
  LayoutRef layout() const;
  /// Appends the work that wrote the tensor last.
  void add_writer(std::vector<runtime::Ticket>& work) const;
  runtime::Backend* device() const noexcept;

 private:
  void resolve_pending(const Stream&, const char* what, SourceLocation where);
};

/// The address leaves the library: publishes it, and counts the storage as written. Throws BorrowError.
void expose_address(const runtime::StorageRef& storage, SourceLocation where);

/// Throws DeviceError unless `stream` belongs to the device that `storage` is on.
void check_stream(const Stream& stream, const runtime::Storage& storage, const char* what, SourceLocation where);

}  // namespace tessera::detail

template <tessera::Element T, int R>
tessera::Tensor<T, R>::operator tessera::detail::Read<T, R>() const noexcept {
  return detail::Read<T, R>(detail::Reach::layout(*this));
}

namespace tessera {

namespace detail {
std::uint64_t next_scalar_id() noexcept;
/// Throws ShapeError unless the parameter's type can hold the number; its bits.
std::uint64_t graph_scalar_bits(const ArgRef& number, const char* what, SourceLocation where);
void check_scalar_readable(SourceLocation where);
}  // namespace detail

/// A host number for Scalar<T> parameters of kernels. A graph that was captured from launches with it can change it:
/// Graph::set(). Elsewhere it is an ordinary number. Copies are the same number; it is given its value when it is made.
template <Element T>
class GraphScalar {
 public:
  using element = T;
  /// Throws ShapeError if T does not hold the value.
  explicit GraphScalar(detail::Number<T> value, SourceLocation where = SourceLocation::current())
      : bits_(detail::graph_scalar_bits(value.arg(), "GraphScalar", where)), id_(detail::next_scalar_id()) {}
  GraphScalar(const GraphScalar&) = default;
  GraphScalar& operator=(const GraphScalar&) = delete;  // a graph knows it by its identity

  /// The value. DeviceError in a flow that is being captured: what the host computes from it would not change.
  T value(SourceLocation where = SourceLocation::current()) const {
    detail::check_scalar_readable(where);
    T value;
    std::memcpy(&value, &bits_, sizeof value);
    return value;
  }

 private:
  friend detail::Reach;
  std::uint64_t bits_;  // the value in the low bytes
  std::uint64_t id_;
};

template <Element T>
GraphScalar(T) -> GraphScalar<T>;

namespace detail {

template <class>
inline constexpr bool is_graph_scalar = false;
template <class T>
inline constexpr bool is_graph_scalar<GraphScalar<T>> = true;

/// A number for a Scalar<T>.
template <class T>
class ScalarNumber : public Number<T> {
 public:
  using Number<T>::Number;
  ScalarNumber(const GraphScalar<T>& scalar) noexcept : Number<T>(T()) {  // NOLINT: a conversion
    this->arg_.number = Reach::scalar_bits(scalar);
    this->arg_.scalar = Reach::scalar_id(scalar);
  }
};

}  // namespace detail
}  // namespace tessera

namespace tessera::unsafe_ {

/// A device address, as an argument of a kernel.
template <Element T>
class Address {
 public:
  explicit Address(const volatile void* address) noexcept {
    arg_.how = tessera::detail::ArgRef::How::Number;
    arg_.number = reinterpret_cast<std::uintptr_t>(address);
  }
  const tessera::detail::ArgRef& arg() const noexcept { return arg_; }

 private:
  tessera::detail::ArgRef arg_;
};

/// Any address. The caller must ensure that it is valid until the kernel has ended, and that accesses are ordered.
template <Element T>
Address<T> address(T* pointer) noexcept {
  return Address<T>(pointer);
}
/// The address of the first element of a tensor. Checked mode treats the tensor as written from now on, because stores
/// through raw pointers are not tracked. Throws BorrowError if it is empty.
template <Element T, int R>
Address<T> address(const Tensor<T, R>& tensor, SourceLocation where = SourceLocation::current()) {
  const auto& layout = tessera::detail::Reach::layout(tensor);
  if (!layout.storage) tessera::detail::throw_empty("Tensor", element_type<T>, R, where);
  tessera::detail::expose_address(layout.storage, where);
  return Address<T>(tessera::detail::ref(layout, element_type<T>).data());
}

}  // namespace tessera::unsafe_
