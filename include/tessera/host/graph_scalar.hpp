// GraphScalar<T>: a number that a graph reads anew at each replay.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>

#include "tessera/host/operand.hpp"

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
