// Recording of operations for the typed operators: no templates, everything is out of line. The templates check shapes
// and element types, these functions record. Operands are broadcast to the result's shape where they are smaller.
#pragma once
#include <cstdint>
#include <span>
#include <type_traits>

#include "tessera/base/element.hpp"
#include "tessera/base/source_location.hpp"
#include "tessera/lang/constant.hpp"
#include "tessera/lang/tracer.hpp"

namespace tessera {

/// Accuracy of one call of a math function. Without it, the accuracy of the launch applies; if the launch sets none,
/// the call is approximate if its result reaches only floating-point outputs of at most 16 bits, else precise.
enum class MathAccuracy : std::uint8_t { OfKernel, Precise, Approximate };
inline constexpr MathAccuracy precise = MathAccuracy::Precise;
inline constexpr MathAccuracy approx = MathAccuracy::Approximate;

/// Direction of rounding of a conversion.
enum class RoundingDirection : std::uint8_t { Default, Nearest, Zero, Down, Up };

}  // namespace tessera

namespace tessera::lang {

/// Element type and static shape of a tile.
struct TileSpec {
  ElementType element;
  int rank;
  const int* extents;
};
ir::Type type_of(const TileSpec&);

enum class UnaryOp : std::uint8_t {
#define TESSERA_LANG_UNARY(Name, ...) Name,
#define TESSERA_LANG_UNARY_FUNCTION(Name, ...) Name,
#include "tessera/lang/elementwise.def"
};
enum class BinaryOp : std::uint8_t {
#define TESSERA_LANG_BINARY(Name, ...) Name,
#define TESSERA_LANG_BINARY_FUNCTION(Name, ...) Name,
#include "tessera/lang/elementwise.def"
};
enum class CompareOp : std::uint8_t { Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual };

/// A number of the host, in the width that it was given in. A narrow floating-point number is Real.
struct HostValue {
  enum class Kind : std::uint8_t { Real, Signed, Unsigned };
  Kind kind;
  double real;
  std::int64_t integer;  ///< Unsigned: its bits
};
template <class X>
HostValue host_value(const X& x) {
  using S = tessera::detail::host_value_t<X>;
  const S s = x;
  if constexpr (std::is_integral_v<S>)
    return {std::is_same_v<S, bool> || std::is_signed_v<S> ? HostValue::Kind::Signed : HostValue::Kind::Unsigned, 0,
            static_cast<std::int64_t>(s)};
  else if constexpr (std::is_arithmetic_v<S>)
    return {HostValue::Kind::Real, static_cast<double>(s), 0};
  else
    return {HostValue::Kind::Real, static_cast<double>(static_cast<float>(s)), 0};
}

/// A tile with all elements equal; without a location it takes that of the nearest call before. The number is rounded
/// once, to nearest even. Throws TraceError if it does not fit the element type: an integer outside its range, or a
/// finite number that a floating type would make infinite (an 8-bit one: its largest).
ir::Value splat(const TileSpec&, const HostValue&, SourceLocation = {});
template <class X>
ir::Value splat(const TileSpec& spec, const X& x, SourceLocation loc = {}) {
  return splat(spec, host_value(x), loc);
}

ir::Value unary(UnaryOp, ir::Value, const TileSpec&, MathAccuracy, SourceLocation);
ir::Value binary(BinaryOp, ir::Value, ir::Value, const TileSpec& result, MathAccuracy, SourceLocation);
/// `operands` is the shape that both are broadcast to.
ir::Value compare(CompareOp, ir::Value, ir::Value, const TileSpec& operands);
ir::Value select(ir::Value condition, ir::Value, ir::Value, const TileSpec& result, SourceLocation);
ir::Value fused_multiply_add(ir::Value, ir::Value, ir::Value, const TileSpec& result, SourceLocation);
ir::Value convert(ir::Value, ElementType from, const TileSpec& to, RoundingDirection, bool saturate, SourceLocation);
ir::Value bit_cast(ir::Value, const TileSpec& to, SourceLocation);

// Shapes.
ir::Value iota(const TileSpec&, int axis, SourceLocation);
ir::Value reshape(ir::Value, const TileSpec& to, SourceLocation);
ir::Value broadcast(ir::Value, const TileSpec& to, SourceLocation);
ir::Value permute(ir::Value, const TileSpec& to, const int* order, SourceLocation);
ir::Value concatenate(ir::Value, ir::Value, const TileSpec& to, int axis, SourceLocation);
/// `index` counts slices of the result's shape; an index out of range takes the nearest slice.
ir::Value extract(ir::Value, const TileSpec& to, std::span<const ir::Value> index, SourceLocation);

// Reductions and scans along one axis. A reduction keeps the axis with extent 1.
enum class ReduceOp : std::uint8_t { Add, Mul, Max, Min, And, Or };
ir::Value reduce(ReduceOp, ir::Value, const TileSpec& operand, int axis, SourceLocation);
ir::Value reduce_all(ReduceOp, ir::Value, const TileSpec& operand, SourceLocation);
ir::Value scan(ReduceOp, ir::Value, const TileSpec& operand, int axis, bool reverse, SourceLocation);
struct Extremum {
  ir::Value value, index;
};
/// The extreme value and its lowest index (i32); NaN counts as the extreme.
Extremum reduce_extremum(bool largest, ir::Value, const TileSpec& operand, int axis, SourceLocation);

/// A reduce or scan whose region the caller records between `open_*` and `close_*`. `identity` is a host number;
/// TraceError if it does not fit the element type.
struct Combiner {
  ir::Operation* op = nullptr;
  ir::Value element, accumulator;
};
Combiner open_reduce(ir::Value, const TileSpec& operand, int axis, const HostValue& identity, SourceLocation);
Combiner open_scan(ir::Value, const TileSpec& operand, int axis, bool reverse, const HostValue& identity,
                   SourceLocation);

/// The open region of a combiner; abandoned if an exception leaves it.
class CombinerRegion {
 public:
  explicit CombinerRegion(const Combiner&);
  ~CombinerRegion();
  CombinerRegion(const CombinerRegion&) = delete;
  CombinerRegion& operator=(const CombinerRegion&) = delete;
  ir::Value close(ir::Value result);  ///< the result of the reduce or scan, without the axis if it is a reduce

 private:
  ir::Operation* op_;
  bool open_ = true;
};

ir::Value multiply_accumulate(ir::Value a, ir::Value b, ir::Value acc, ElementType a_element, ElementType b_element,
                              bool fast, SourceLocation);

}  // namespace tessera::lang
