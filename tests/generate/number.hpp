// The meaning of operations on one element, written from docs/semantics.md alone: the library has its own
// implementation (ir/semantics.hpp), and the two must agree.
#pragma once
#include <cstddef>

#include "generate/program.hpp"

namespace tessera::generate {

/// One element: integers and bool in `i`, signed ones extended by their sign, unsigned ones by zeros (u64 as its bits);
/// floats of every format in `d`, which holds them exactly.
union Cell {
  std::int64_t i;
  double d;
};
inline Cell integer(std::int64_t v) { return Cell{.i = v}; }
inline Cell real(double v) { return Cell{.d = v}; }

/// The integer modulo 2^bits, as the element type holds it.
std::int64_t wrapped(ElementType, std::uint64_t bits);
/// The number rounded once to a float format; 8-bit formats saturate.
double rounded(ElementType, long double);

Cell unary(Kind, ElementType, Cell);
Cell binary(lang::BinaryOp, ElementType, Cell, Cell);
bool compare(lang::CompareOp, ElementType, Cell, Cell);
Cell fma(ElementType, Cell, Cell, Cell);
Cell convert(Cell, ElementType from, ElementType to, bool saturate);
Cell bitcast(Cell, ElementType from, ElementType to);
Cell literal(ElementType, std::int64_t);  ///< integers as they are, floats in quarters

Cell load(ElementType, const std::byte*);
void store(ElementType, std::byte*, Cell);

}  // namespace tessera::generate
