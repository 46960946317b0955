// Arithmetic on intervals of 64-bit integers whose ends also stand for "no bound". Private to the layer.
#pragma once
#include "tessera/analysis/expr.hpp"

namespace tessera::analysis {

/// What an integer of `bits` bits can be.
Interval integers_of(int bits, bool is_signed);

/// What `kind` can give where it gives a number at all.
Interval interval_of(ExprKind kind, Interval a, Interval b);

/// a / b rounded down, b >= 1.
std::int64_t floor_quotient(std::int64_t a, std::int64_t b);

}  // namespace tessera::analysis
