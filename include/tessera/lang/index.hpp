// Tile indices and element offsets as arguments: an int, a Scalar<i32> or a Scalar<u32>, with the line of the call.
#pragma once
#include <type_traits>

#include "tessera/lang/access.hpp"
#include "tessera/lang/selectors.hpp"
#include "tessera/lang/tile.hpp"

namespace tessera::detail {

class Index {
 public:
  template <class I>
    requires(is_host_integer<I>)
  Index(const I& v, SourceLocation loc = SourceLocation::current())  // NOLINT(google-explicit-constructor)
      : value_(lang::index_constant(clamped(host_value_t<I>(v)), loc)) {}
  Index(const Tile<i32>& v) : value_(v.value()) {}                      // NOLINT(google-explicit-constructor)
  Index(const Tile<u32>& v) : value_(v.value()), is_unsigned_(true) {}  // NOLINT(google-explicit-constructor)
  template <class X>
    requires(!is_host_integer<X>)
  Index(const X&) {  // NOLINT(google-explicit-constructor)
    static_assert(
        never<X>,
        "an index is one i32 for the whole block: pass an int, a Scalar<i32> or a Scalar<u32> (convert others "
        "with cast<i32>(...))");
  }
  /// As 32 bits. It must be compared (unsigned) with its bound before anything is computed from it.
  ir::Value value() const { return value_; }
  /// As the base that positions inside a tile are added to: i64 for a u32, because near 2^32 the sum would wrap around
  /// to the tensor's start.
  ir::Value offset(SourceLocation loc) const { return is_unsigned_ ? lang::widened_offset(value_, loc) : value_; }

 private:
  template <class I>
  static constexpr std::int64_t clamped(I v) {
    if constexpr (std::is_unsigned_v<I> && sizeof(I) == 8) {
      return v > static_cast<I>(INT64_MAX) ? INT64_MAX : static_cast<std::int64_t>(v);
    } else {
      return static_cast<std::int64_t>(v);
    }
  }
  ir::Value value_;
  bool is_unsigned_ = false;
};

/// One Index per axis: `IndexFor<D>... index` for a pack of extents D.
template <int>
struct IndexPerAxis {
  using type = Index;
};
template <int E>
using IndexFor = typename IndexPerAxis<E>::type;

}  // namespace tessera::detail
