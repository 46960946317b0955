// Reductions and scans of [outer, n, inner] along n, shared by all instruction sets: along an axis that is not the last
// one, by the loops of elementwise primitives; along the last one, by loops made for it, or else by the same algorithm
// on top of those loops.
#include <algorithm>
#include <cstring>

#include "codegen/cpu/prims/isa.hpp"

namespace tessera::cpu::prims {
namespace {

using i64 = std::int64_t;
using ir::Elem;
using ir::ElementOp;
using ir::Op;

constexpr i64 kColumns = 256;   ///< combined at a time along an axis that is not the last
constexpr i64 kStretch = 1024;  ///< elements converted at a time along the last axis
constexpr i64 kWideLanes = 512;

/// A row of n elements that need no conversion, by halves of partial results. Where the association is free, more
/// partial results make longer loops.
void combine_row(const Combine& c, char* acc, const char* src, i64 n) {
  alignas(64) char lanes[kWideLanes * 8];
  const i64 size = c.bytes, width = c.exact ? kWideLanes : kLanes;
  i64 count = std::min(n, width), at = count;
  std::memcpy(lanes, src, static_cast<std::size_t>(count * size));
  for (; at < n; at += width) c.loop(lanes, lanes, src + at * size, nullptr, std::min(width, n - at));
  while (count > 1) {
    const i64 half = (count + 1) / 2;
    c.loop(lanes, lanes, lanes + half * size, nullptr, count - half);
    count = half;
  }
  c.loop(acc, acc, lanes, nullptr, 1);
}

/// A row whose elements are converted first; the association is free.
void converted_row(const Combine& c, char* acc, const char* src, i64 n) {
  alignas(64) float stretch[kStretch], result;
  c.load(&result, acc, nullptr, nullptr, 1);
  for (i64 at = 0; at < n; at += kStretch) {
    const i64 count = std::min(kStretch, n - at);
    c.load(stretch, src + at * c.bytes, nullptr, nullptr, count);
    c.row(&result, stretch, count);
  }
  c.store(acc, &result, nullptr, nullptr, 1);
}

void reduce_row(const Combine& c, char* acc, const char* src, i64 n) {
  if (c.row == nullptr) return combine_row(c, acc, src, n);
  if (c.row_of_work) return converted_row(c, acc, src, n);
  c.row(acc, src, n);
}

/// acc = op(acc, x), both in the computing type and rounded to elements. `element` has room for the elements.
void combine_rounded(const Combine& c, float* acc, const float* x, char* element, i64 n) {
  c.loop(acc, acc, x, nullptr, n);
  if (c.exact) return;
  c.store(element, acc, nullptr, nullptr, n);
  c.load(acc, element, nullptr, nullptr, n);
}

/// dst[0..inner) combined with n rows of `inner` elements, a piece of the columns at a time.
void reduce_rows(const Combine& c, char* dst, const char* src, i64 n, i64 inner) {
  const i64 size = c.bytes;
  alignas(64) float acc[kColumns], x[kColumns];
  alignas(64) char element[kColumns * 2];
  for (i64 at = 0; at < inner; at += kColumns) {
    const i64 width = std::min(kColumns, inner - at);
    char* to = dst + at * size;
    const char* from = src + at * size;
    if (c.load != nullptr) c.load(acc, to, nullptr, nullptr, width);
    for (i64 r = 0; r < n; ++r, from += inner * size) {
      if (c.load == nullptr) {
        c.loop(to, to, from, nullptr, width);
      } else {
        c.load(x, from, nullptr, nullptr, width);
        combine_rounded(c, acc, x, element, width);
      }
    }
    if (c.load != nullptr) c.store(to, acc, nullptr, nullptr, width);
  }
}

/// Scans `width` <= kColumns columns of rows that are `inner` elements apart.
void scan_columns(const Combine& c, char* dst, const char* src, const void* start, i64 n, i64 width, i64 inner,
                  bool reverse) {
  const i64 size = c.bytes;
  alignas(64) char first[kColumns * 8];
  for (i64 i = 0; i < width; ++i) std::memcpy(first + i * size, start, static_cast<std::size_t>(size));
  alignas(64) float acc[kColumns], x[kColumns];
  if (c.load != nullptr) c.load(acc, first, nullptr, nullptr, width);
  const char* before = first;
  for (i64 k = 0; k < n; ++k) {
    const i64 row = (reverse ? n - 1 - k : k) * inner * size;
    if (c.load == nullptr) {
      c.loop(dst + row, before, src + row, nullptr, width);
    } else {
      c.load(x, src + row, nullptr, nullptr, width);
      c.loop(acc, acc, x, nullptr, width);
      c.store(dst + row, acc, nullptr, nullptr, width);
      if (!c.exact) c.load(acc, dst + row, nullptr, nullptr, width);
    }
    before = dst + row;
  }
}

bool combines_integers(Op op) {
  return op == Op::AddI || op == Op::MulI || op == Op::AndI || op == Op::OrI || op == Op::XOrI || op == Op::MaxI ||
         op == Op::MinI;
}
bool combines_floats(Op op) { return op == Op::AddF || op == Op::MulF || op == Op::MaxF || op == Op::MinF; }

Combine combine_integers(const ElementOp& given, const Table& t) {
  const auto op = on_bytes(given);
  if (!op) return {};
  Combine c;
  c.loop = t.integer(*op).loop;
  c.row = t.reduce_row(*op);
  c.scan_row = baseline::scan_row(*op);
  c.exact = true;
  c.bytes = ir::info(op->source).bytes;
  return c;
}

Combine combine_floats(const ElementOp& op, const Table& t) {
  Combine c;
  c.exact = op.op == Op::MaxF || op.op == Op::MinF;
  c.bytes = ir::info(op.source).bytes;
  c.scan_row = baseline::scan_row(op);
  c.row = t.reduce_row(op);
  if (op.source == Elem::F32 || op.source == Elem::F64) {
    c.loop = t.arithmetic(op).loop;
    return c;
  }
  if (op.source != Elem::F16 && op.source != Elem::BF16) return {};
  ElementOp single = op;
  single.source = Elem::F32;
  single.flush_to_zero = false;
  c.loop = t.arithmetic(single).loop;
  c.load = t.widen(op.source);
  c.store = t.narrow(op.source);
  if (c.row == nullptr) {
    c.row = t.reduce_row(single);
    c.row_of_work = true;
  }
  return c;
}

Combine combine(const ElementOp& op, Isa isa) {
  if (combines_integers(op.op)) return combine_integers(op, table(isa));
  return combines_floats(op.op) && !is_directed(op.rounding) ? combine_floats(op, table(isa)) : Combine{};
}

}  // namespace

void Reduce::operator()(void* dst, const void* src, i64 outer, i64 n, i64 inner) const {
  if (n == 0) return;
  auto* to = static_cast<char*>(dst);
  auto* from = static_cast<const char*>(src);
  for (i64 o = 0; o < outer; ++o, to += inner * combine.bytes, from += n * inner * combine.bytes) {
    if (inner == 1)
      reduce_row(combine, to, from, n);
    else
      reduce_rows(combine, to, from, n, inner);
  }
}

void Scan::operator()(void* dst, const void* src, const void* identity, i64 outer, i64 n, i64 inner,
                      bool reverse) const {
  auto* to = static_cast<char*>(dst);
  auto* from = static_cast<const char*>(src);
  const i64 size = combine.bytes;
  for (i64 o = 0; o < outer; ++o, to += n * inner * size, from += n * inner * size) {
    if (inner == 1) {
      combine.scan_row(to, from, identity, n, reverse);
      continue;
    }
    for (i64 at = 0; at < inner; at += kColumns)
      scan_columns(combine, to + at * size, from + at * size, identity, n, std::min(kColumns, inner - at), inner,
                   reverse);
  }
}

Reduce reduce(const ElementOp& op, Isa isa) { return {combine(op, isa)}; }
Scan scan(const ElementOp& op, Isa isa) { return {combine(op, isa)}; }

}  // namespace tessera::cpu::prims
