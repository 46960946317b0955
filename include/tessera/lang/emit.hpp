// Emission behind the typed operators: no templates here, everything is out of line. The templates check shapes and
// element types, these functions record. Operands are broadcast to the result's shape where they are smaller.
#pragma once
#include <cstdint>
#include <span>
#include <type_traits>

#include "tessera/base/element.hpp"
#include "tessera/base/source_location.hpp"
#include "tessera/lang/constant.hpp"
#include "tessera/lang/tracer.hpp"

namespace tessera {

/// Accuracy of one call of a math function; without it what the launch says holds, or else what becomes of the result:
/// approximate if it ends in floating-point outputs of at most 16 bits and nowhere else.
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
  Neg,
  BitNot,
  Not,
  Abs,
  Floor,
  Ceil,
  Sin,
  Cos,
  Tan,
  Sinh,
  Cosh,
  Tanh,
  Exp,
  Exp2,
  Log,
  Log2,
  Sqrt,
  Rsqrt
};
enum class BinaryOp : std::uint8_t { Add, Sub, Mul, Div, Rem, CeilDiv, Min, Max, And, Or, Xor, Shl, Shr, Pow, Atan2 };
enum class CompareOp : std::uint8_t { Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual };

/// A tile with all elements equal; without a location it has that of the nearest call before. Throws TraceError if an
/// integer does not fit the element type.
ir::Value splat(const TileSpec&, double, SourceLocation = {});
ir::Value splat(const TileSpec&, std::int64_t, SourceLocation = {});
ir::Value splat(const TileSpec&, std::uint64_t, SourceLocation = {});
template <class X>
ir::Value splat_of(const TileSpec& spec, const X& x, SourceLocation loc = {}) {
  using S = tessera::detail::host_value_t<X>;
  const S s = x;
  if constexpr (std::is_same_v<S, bool> || (std::is_integral_v<S> && std::is_signed_v<S>))
    return splat(spec, static_cast<std::int64_t>(s), loc);
  else if constexpr (std::is_integral_v<S>)
    return splat(spec, static_cast<std::uint64_t>(s), loc);
  else if constexpr (std::is_arithmetic_v<S>)
    return splat(spec, static_cast<double>(s), loc);
  else
    return splat(spec, static_cast<double>(static_cast<float>(s)), loc);
}

ir::Value unary(UnaryOp, ir::Value, const TileSpec&, MathAccuracy, SourceLocation);
ir::Value binary(BinaryOp, ir::Value, ir::Value, const TileSpec& result, MathAccuracy, SourceLocation);
/// `operands` is what both are broadcast to.
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
/// `index` counts slices of the result's shape; an index outside takes the nearest slice inside.
ir::Value extract(ir::Value, const TileSpec& to, std::span<const ir::Value> index, SourceLocation);

// Reductions and scans along one axis. A reduction keeps the axis with extent 1.
enum class ReduceOp : std::uint8_t { Add, Mul, Max, Min, And, Or };
ir::Value reduce(ReduceOp, ir::Value, const TileSpec& operand, int axis, SourceLocation);
ir::Value reduce_all(ReduceOp, ir::Value, const TileSpec& operand, SourceLocation);
ir::Value scan(ReduceOp, ir::Value, const TileSpec& operand, int axis, bool reverse, SourceLocation);
struct Extremum {
  ir::Value value, index;
};
/// Extreme value and the lowest i32 index that has it; NaN counts as the extreme.
Extremum reduce_extremum(bool largest, ir::Value, const TileSpec& operand, int axis, SourceLocation);

/// A reduce or scan whose region the caller records between `open_*` and `close_*`. `identity` is a host number.
struct Combiner {
  ir::Operation* op = nullptr;
  ir::Value element, accumulator;
};
struct Identity {
  bool is_float;
  double real;
  std::int64_t integer;
};
template <class X>
Identity identity_of(const X& x) {
  using S = tessera::detail::host_value_t<X>;
  const S s = x;
  if constexpr (std::is_integral_v<S>)
    return {false, static_cast<double>(s), static_cast<std::int64_t>(s)};
  else
    return {true, static_cast<double>(s), 0};
}
Combiner open_reduce(ir::Value, const TileSpec& operand, int axis, Identity, SourceLocation);
Combiner open_scan(ir::Value, const TileSpec& operand, int axis, bool reverse, Identity, SourceLocation);

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
