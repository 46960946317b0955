// What the tests of the tile primitives share: random elements with the difficult ones among them, and tiles as raw
// bytes.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "codegen/cpu/prims/isa.hpp"
#include "tessera/ir/semantics.hpp"

namespace tessera::cpu::prims {

inline std::vector<Isa> isas() {
  std::vector<Isa> all;
  for (const Isa isa : {Isa::Baseline, Isa::Avx2, Isa::Avx512})
    if (isa_available(isa)) all.push_back(isa);
  return all;
}
inline const char* text(Isa isa) { return isa == Isa::Baseline ? "baseline" : isa == Isa::Avx2 ? "avx2" : "avx512"; }

inline std::uint64_t element_mask(ir::Elem e) {
  const int bits = ir::info(e).bits;
  return bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
}

/// Random bits of an element: raw patterns, small integers, values near 1, and the special ones.
class RandomElements {
 public:
  explicit RandomElements(std::uint64_t seed) : random_(seed) {}
  std::uint64_t operator()(ir::Elem e) {
    const std::uint64_t raw = random_();
    return (ir::info(e).is_float ? float_bits(e, raw) : integer_bits(e, raw)) & element_mask(e);
  }

 private:
  std::uint64_t float_bits(ir::Elem e, std::uint64_t raw) {
    static constexpr double special[] = {0.0, -0.0,    INFINITY, -INFINITY, 1.0,    -1.0,
                                         0.5, 65504.0, 3.4e38,   1e-40,     -1e-45, 6e-8};
    switch (random_() % 6) {
      case 0: return ir::from_double(e, special[raw % std::size(special)]);
      case 1: return ir::from_double(e, static_cast<double>(raw % 2001) - 1000.0);
      case 2: return ir::from_double(e, 1.0 + static_cast<double>(raw >> 40) * 0x1p-26);
      case 3: return raw % 16 == 0 ? ir::from_double(e, NAN) : raw >> 11;  // denormals of narrow formats among them
      default: return e == ir::Elem::TF32 ? raw & ~std::uint64_t{0x1FFF} : raw;
    }
  }
  std::uint64_t integer_bits(ir::Elem e, std::uint64_t raw) {
    const std::uint64_t top = std::uint64_t{1} << (ir::info(e).bits - 1);
    const std::uint64_t special[] = {0, 1, ~std::uint64_t{0}, top, top - 1, 2, 3, 7, ~std::uint64_t{1}};
    switch (random_() % 4) {
      case 0: return special[raw % std::size(special)];
      case 1: return raw % 100;
      default: return raw;
    }
  }
  std::mt19937_64 random_;
};

/// Elements in the storage of registers.
struct Tile {
  int bytes = 0;
  std::vector<std::byte> data;
  Tile(int bytes_, std::size_t n) : bytes(bytes_), data(n * static_cast<std::size_t>(bytes_) + 64) {}
  Tile(ir::Elem e, std::size_t n) : Tile(ir::info(e).bytes, n) {}
  std::uint64_t get(std::size_t i) const {
    std::uint64_t v = 0;
    std::memcpy(&v, data.data() + i * static_cast<std::size_t>(bytes), static_cast<std::size_t>(bytes));
    return v;
  }
  void set(std::size_t i, std::uint64_t v) {
    std::memcpy(data.data() + i * static_cast<std::size_t>(bytes), &v, static_cast<std::size_t>(bytes));
  }
};

/// Equal bits, or both NaN.
inline bool same(ir::Elem e, std::uint64_t a, std::uint64_t b) {
  return a == b || (ir::info(e).is_float && std::isnan(ir::to_double(e, a)) && std::isnan(ir::to_double(e, b)));
}

inline std::string describe(const ir::ElementOp& op) {
  return std::string(ir::info(op.op).mnemonic) + " " + ir::info(op.source).text + " -> " + ir::info(op.result).text +
         (op.is_signed ? " signed" : " unsigned") + " rounding " + std::to_string(static_cast<int>(op.rounding)) +
         (op.flush_to_zero ? " ftz" : "") + (op.propagate_nan ? " nan" : "") + " predicate " +
         std::to_string(static_cast<int>(op.predicate)) + (op.ordered ? " ordered" : " unordered");
}

/// Element of operand `i`.
inline ir::Elem operand_element(const ir::ElementOp& op, int i) {
  if (op.op == ir::Op::Select && i == 0) return ir::Elem::I1;
  if (op.op == ir::Op::Offset && i == 0) return ir::Elem::I64;
  if (op.op == ir::Op::FPowI && i == 1) return op.exponent;
  return op.source;
}

}  // namespace tessera::cpu::prims
