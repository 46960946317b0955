// Tensors as text: type, extents, device and summarised values, as NumPy prints them.
#pragma once
#include <string>

#include "tessera/host/transfer.hpp"

namespace tessera {

namespace detail {
std::string describe(const ArgRef& x, int rank, const char* type, SourceLocation where);
void write_line(const std::string& text);
}  // namespace detail

/// "Tensor<f32, 2> [2, 3] on cpu" and the values; arrays of more than 1000 elements show three at each end of every
/// axis. Waits for the values. Throws BorrowError if `x` is empty, and the failure that its values carry.
template <Element T, int R>
std::string to_string(const Tensor<T, R>& x, SourceLocation where = SourceLocation::current()) {
  return detail::describe(detail::Read<T, R>(x).arg(), R, "Tensor", where);
}
template <Element T, int R>
std::string to_string(const View<T, R>& x, SourceLocation where = SourceLocation::current()) {
  return detail::describe(detail::Read<T, R>(x).arg(), R, "View", where);
}
template <Element T, int R>
std::string to_string(const Shared<T, R>& x, SourceLocation where = SourceLocation::current()) {
  return detail::describe(detail::Read<T, R>(x).arg(), R, "Shared", where);
}

/// Explains an operation where its result is meant.
template <class O>
  requires detail::is_op<std::remove_cvref_t<O>>
void print(O&&) {
  static_assert(detail::never_true<O>,
                "run the operation to have its result: print(op.sync()), or print what co_await gives in a flow");
}

/// Writes to_string(x) and a line end to the standard output.
template <Element T, int R>
void print(const Tensor<T, R>& x, SourceLocation where = SourceLocation::current()) {
  detail::write_line(to_string(x, where));
}
template <Element T, int R>
void print(const View<T, R>& x, SourceLocation where = SourceLocation::current()) {
  detail::write_line(to_string(x, where));
}
template <Element T, int R>
void print(const Shared<T, R>& x, SourceLocation where = SourceLocation::current()) {
  detail::write_line(to_string(x, where));
}

}  // namespace tessera
