// The same bits on every processor: results whose value is free within bounds (elementary functions, sums, products of
// matrices) against digests of what they were on x86-64 with AVX2 and AVX-512. Tests of one machine compare its own
// instruction sets; this one compares machines, so that an ARM processor gives what an x86 processor gives
// (docs/semantics.md). The C library's functions are left out: they differ from release to release.
#include <algorithm>

#include "prims_support.hpp"

namespace tessera::cpu::prims {
namespace THIS_FILE {

using ir::Elem;
using ir::ElementOp;
using ir::Op;

/// FNV-1a over the bits of the results; all NaNs are one.
class Digest {
 public:
  void add(Elem e, std::uint64_t bits) {
    if (ir::info(e).is_float && std::isnan(ir::to_double(e, bits))) bits = 0x7FF;
    for (int i = 0; i < 8; ++i) value_ = (value_ ^ (bits >> (8 * i) & 0xFF)) * 0x100000001B3u;
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325u;
};

/// What a digest was, and what of: the operation and its elements.
struct Known {
  const char* what;
  std::uint64_t digest;
};

void compare(std::span<const Known> known, const std::string& what, Isa isa, std::uint64_t found) {
  const auto row = std::find_if(known.begin(), known.end(), [&](const Known& k) { return what == k.what; });
  ASSERT_NE(row, known.end()) << what << " has no row; found 0x" << std::hex << found;
  EXPECT_EQ(row->digest, found) << what << " with " << text(isa) << ": expected 0x" << std::hex << row->digest
                                << ", found 0x" << found;
}

/// Numbers of the range, and where `wild` also the special ones and random bits.
std::vector<Tile> operands_of(const ElementOp& op, std::size_t n, double low, double high, bool wild) {
  std::mt19937_64 random(71);
  RandomElements difficult(73);
  std::vector<Tile> all;
  for (int i = 0; i < op.arity; ++i) {
    all.emplace_back(op.source, n);
    for (std::size_t k = 0; k < n; ++k) {
      const double x = low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
      all.back().set(k, wild && k % 3 == 0 ? difficult(op.source) : ir::from_double(op.source, x));
    }
  }
  return all;
}

struct Function {
  Op op;
  double low, high;
  bool wild = true;
  std::uint8_t arity = 1;
};
// The range of the trigonometric ones is what is reduced here; beyond it the C library does.
constexpr Function kFunctions[] = {
    {Op::Exp, -110, 90},         {Op::Exp2, -155, 130},       {Op::Log, 0, 1000},          {Op::Log2, 0, 1000},
    {Op::TanH, -12, 12},         {Op::CosH, -95, 95},         {Op::SinH, -95, 95},         {Op::Rsqrt, 0, 1e6},
    {Op::Sin, -1e4, 1e4, false}, {Op::Cos, -1e4, 1e4, false}, {Op::Tan, -1e4, 1e4, false}, {Op::Pow, 0, 30, true, 2}};

constexpr Known kElementary[] = {
    {"exp f32", 0xE98893932545637E},   {"exp f16", 0x25023998FC673CF4},   {"exp bf16", 0x47B79805F27DFC41},
    {"exp2 f32", 0x8335AAAA5809F785},  {"exp2 f16", 0xA05E597FB8C97EF3},  {"exp2 bf16", 0x2B585C020AE4D15E},
    {"log f32", 0xC8AE38AA0564CF67},   {"log f16", 0xF725C6293612A3C5},   {"log bf16", 0x623DAF10EAAA04A8},
    {"log2 f32", 0xD47298FDF22054B0},  {"log2 f16", 0xAC751C19F684CB69},  {"log2 bf16", 0x9245A796D4EE0AD4},
    {"tanh f32", 0x1CF9E93C4605109B},  {"tanh f16", 0xA2164C2DFB102CBA},  {"tanh bf16", 0x3C0E9F5275549764},
    {"cosh f32", 0x03BE5D2DEBF5745D},  {"cosh f16", 0xA57658C8E11CF3EF},  {"cosh bf16", 0x2E8D00196B0C8E23},
    {"sinh f32", 0x94EDB96A5EB0A213},  {"sinh f16", 0x7F43AFC001D20723},  {"sinh bf16", 0x65D3D333FEB0B6D4},
    {"rsqrt f32", 0x51769D3A65F11BE2}, {"rsqrt f16", 0x9686F1B19DE6A096}, {"rsqrt bf16", 0xAF492B35594427DA},
    {"sin f32", 0x6B9FBA498E1A7BCE},   {"sin f16", 0xBCDC6A9D6BB23E97},   {"sin bf16", 0x3A60ECD77D5ABA33},
    {"cos f32", 0x0FCB307E56C2D122},   {"cos f16", 0xBA5BAEDD0212AB5F},   {"cos bf16", 0xACF1C43D8583E1E7},
    {"tan f32", 0x8E0E69F0A6DB911E},   {"tan f16", 0x688934A9375D40BB},   {"tan bf16", 0x92EB022D9D80D373},
    {"fpowf f32", 0xFCA13DFB281ED40A}, {"fpowf f16", 0x7135AB8F53172F37}, {"fpowf bf16", 0xF2654CA34AEF5527},
};

TEST(SameBits, ElementaryFunctions) {
  const std::size_t n = 4000;
  for (const Function& f : kFunctions)
    for (const Elem e : {Elem::F32, Elem::F16, Elem::BF16}) {
      const ElementOp op{.op = f.op, .source = e, .result = e, .arity = f.arity};
      const std::vector<Tile> in = operands_of(op, n, f.low, f.high, f.wild);
      std::vector<Operand> views;
      for (const Tile& t : in) views.push_back({t.data.data(), static_cast<std::int64_t>(n) * t.bytes, false});
      for (const Isa isa : isas()) {
        Tile out(e, n);
        elementwise(op, isa)(out.data.data(), views.data(), 1, static_cast<std::int64_t>(n));
        Digest d;
        for (std::size_t k = 0; k < n; ++k) d.add(e, out.get(k));
        compare(kElementary, std::string(ir::info(f.op).mnemonic) + " " + std::string(ir::info(e).text), isa,
                d.value());
      }
    }
}

constexpr Known kReductions[] = {
    {"addf f16", 0x3EE48DDF4EC45B0A}, {"addf bf16", 0x50B612179C3551FD}, {"addf f32", 0xDA30DB2129B34DC8},
    {"addf f64", 0x8DF812B681A1723A}, {"mulf f16", 0x668237B8F8882FF9},  {"mulf bf16", 0xE6CE04861CDBF6BF},
    {"mulf f32", 0x98CD183C31222E44}, {"mulf f64", 0xFC493DE8DEFCCA09},
};

TEST(SameBits, SumsAndProductsOfRows) {
  for (const Op o : {Op::AddF, Op::MulF})
    for (const Elem e : {Elem::F16, Elem::BF16, Elem::F32, Elem::F64}) {
      const ElementOp op{.op = o, .source = e, .result = e, .arity = 2};
      // Rows of every length up to three times the number of partial results.
      const std::int64_t most = 200;
      const std::vector<Tile> in = operands_of(op, static_cast<std::size_t>(most * most), o == Op::AddF ? -1 : 0.9,
                                               o == Op::AddF ? 1 : 1.1, false);
      for (const Isa isa : isas()) {
        Digest d;
        for (std::int64_t n = 1; n <= most; ++n) {
          Tile out(e, 1);
          out.set(0, ir::from_double(e, o == Op::AddF ? 0.0 : 1.0));
          reduce(op, isa)(out.data.data(), in[0].data.data() + n * most / 2 * in[0].bytes, 1, n, 1);
          d.add(e, out.get(0));
        }
        compare(kReductions, std::string(ir::info(o).mnemonic) + " " + std::string(ir::info(e).text), isa, d.value());
      }
    }
}

constexpr Known kProducts[] = {
    {"f32 to f32", 0xC55C1562083EA4CB},      {"tf32 to f32", 0xBBEC630A52187230},   {"f64 to f64", 0x843F8B94C0E143D7},
    {"f16 to f32", 0x4FA7672434C9C448},      {"f16 to f16", 0x6B3563DF6549DBE7},    {"bf16 to f32", 0x0D84534DFAAC8237},
    {"f8E4M3FN to f32", 0x40B39814A264FF06}, {"f8E5M2 to f32", 0xD6DDE3CE0FDFD68B}, {"i8 to i32", 0x35FF43C495ABF6EF},
};

/// Whether the loops of an instruction set have fused multiply-add: without, products of f32 and f64 are rounded.
bool fuses(Isa isa) {
#if defined(__x86_64__)
  return isa != Isa::Baseline;
#else
  return isa == Isa::Baseline;
#endif
}

TEST(SameBits, ProductsOfMatrices) {
  struct Form {
    Elem in, acc;
  };
  constexpr Form forms[] = {{Elem::F32, Elem::F32},      {Elem::TF32, Elem::F32},   {Elem::F64, Elem::F64},
                            {Elem::F16, Elem::F32},      {Elem::F16, Elem::F16},    {Elem::BF16, Elem::F32},
                            {Elem::F8E4M3FN, Elem::F32}, {Elem::F8E5M2, Elem::F32}, {Elem::I8, Elem::I32}};
  const std::int64_t m = 13, n = 45, k = 700;
  for (const Form& f : forms) {
    const MmaOp op{.lhs = f.in, .rhs = f.in, .acc = f.acc};
    std::mt19937_64 random(79);
    const auto fill = [&](Elem e, std::int64_t count) {
      Tile t(e, static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
        t.set(i, ir::info(e).is_float ? ir::from_double(e, static_cast<double>(random() >> 11) * 0x1p-52 - 1.0)
                                      : random() & element_mask(e));
      return t;
    };
    const Tile a = fill(f.in, m * k), b = fill(f.in, k * n), c = fill(f.acc, m * n);
    for (const Isa isa : isas()) {
      if (!fuses(isa) && ir::info(f.in).bytes >= 4) continue;
      Tile out = c;
      std::vector<std::byte> scratch(mma_scratch_bytes(op, m, n, k) + 64);
      void* aligned = scratch.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 64);
      mma(op, isa)({.a = {a.data.data(), 0, k, 1},
                    .b = {b.data.data(), 0, n, 1},
                    .acc = out.data.data(),
                    .dst = out.data.data(),
                    .batch = 1,
                    .m = m,
                    .n = n,
                    .k = k,
                    .scratch = aligned});
      Digest d;
      for (std::size_t i = 0; i < static_cast<std::size_t>(m * n); ++i) d.add(f.acc, out.get(i));
      compare(kProducts, std::string(ir::info(f.in).text) + " to " + std::string(ir::info(f.acc).text), isa, d.value());
    }
  }
}

}  // namespace THIS_FILE
}  // namespace tessera::cpu::prims
