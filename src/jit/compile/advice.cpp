// Formats advice from the module after the passes; it makes no decisions.
#include "jit/compile/advice.hpp"

#include <algorithm>
#include <string_view>

#include "tessera/analysis/access.hpp"
#include "tessera/analysis/divisibility.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/base/format.hpp"
#include "tessera/machine/machine.hpp"

namespace tessera::jit {
namespace {

using analysis::kVectorBytes;
using analysis::WidthLimit;
using ir::Op;
using ir::Operation;

constexpr std::int64_t kWorthVectors = 512;    // bytes of a tile: one vector for each thread of a warp
constexpr std::int64_t kWorthCombining = 512;  // elements of an atomic operation
constexpr std::int64_t kGroupRows = 64;        // of the left operand of WGMMA

/// What would widen an access of elements of so many bytes.
std::string what_widens(WidthLimit limit, std::int64_t element_bytes) {
  const std::string vector = concat(kVectorBytes / element_bytes, " elements");
  switch (limit) {
    case WidthLimit::Base:
      return concat(
          "where it begins is not known to be a multiple of 16 bytes, for which rows have to be multiples of ", vector,
          " apart, offsets along them such multiples, and the tensor's address one of 16");
    case WidthLimit::Stride:
      return concat("rows begin anywhere: rows that are a multiple of ", vector, " apart make them wide");
    case WidthLimit::Mask:
      return concat("the tensor may end inside a vector: an extent that is a multiple of ", vector, " makes them wide");
    case WidthLimit::Tile: return concat("the tile is shorter than a vector: ", vector, " and more make them wide");
    case WidthLimit::Scattered:
      return "its elements are no neighbours, or are not known to be: write x.load_at(shape<...>, i, j) where "
             "positions "
             "count up from a start, x.gather(axis<0>, index) for whole rows at an index, or x.permuted(order<...>) so "
             "that "
             "the tile's last axis is the tensor's axis of stride 1";
    case WidthLimit::Matched:
    case WidthLimit::None: break;
  }
  return "";
}

class Advice {
 public:
  Advice(const ir::Function& f, int sm) : known_(f), from_memory_(analysis::computed_from_memory(f)) {
    const analysis::ComputedFrom products = analysis::computed_from_products(f);
    ir::walk(f.body(), [&](const Operation& op) {
      counts_ = counts_ || (op.op() == Op::AtomicRMWTko && products.contains(op.single("arg")));
    });
    ir::walk(f.body(), [&](const Operation& op) {
      if (const auto access = analysis::access_of(op)) {
        narrow(op, *access);
        colliding(op);
      }
      few_rows(op, sm);
    });
  }
  void add(std::string text) {
    if (std::find(all.begin(), all.end(), text) == all.end()) all.push_back(std::move(text));
  }
  std::vector<std::string> all;

 private:
  void narrow(const Operation& op, const analysis::Access& access) {
    const analysis::AccessWidth width = analysis::width_of(op, known_);
    const std::int64_t element = ir::info(access.tile.elem()).bytes;
    if (width.bytes == 0 || width.bytes >= kVectorBytes || analysis::bytes_of(access.tile) < kWorthVectors) return;
    const std::string why = what_widens(width.limit, element);
    if (!why.empty())
      add(concat(place(op.loc), ": a thread ", access.loads() ? "loads " : "stores ", width.bytes,
                 width.bytes == 1 ? " byte" : " bytes", " at a time; ", why));
  }

  /// A product on the tensor cores of whole warp groups takes 64 rows on its left (PTX ISA, wgmma.mma_async).
  void few_rows(const Operation& op, int sm) {
    if (sm != 90 || (op.op() != Op::MmaF && op.op() != Op::MmaI)) return;
    const auto left = op.operand(0).type().shape(), right = op.operand(1).type().shape();
    const std::int64_t rows = left[left.size() - 2], columns = right.back();
    if (rows >= kGroupRows || columns < kGroupRows) return;
    add(concat(place(op.loc), ": the left operand has ", rows, " rows, and WGMMA takes ", kGroupRows,
               ": exchange the operands, as in transpose(mma(transpose(b), transpose(a), transpose(acc)))"));
  }

  void colliding(const Operation& op) {
    if (op.op() != Op::AtomicRMWTko || counts_ || op.operand(0).type().num_elements() < kWorthCombining ||
        !from_memory_.contains(op.operand(0)))
      return;
    add(concat(place(op.loc),
               ": each element is an atomic operation, and equal indices wait for each other; where one integer is "
               "added at indices that are known to be below 256 (a u8, x & 255, x % 256 of a u32), they are counted "
               "first"));
  }

  analysis::Divisibility known_;
  analysis::ComputedFrom from_memory_;
  bool counts_ = false;  // combine_atomics has counted
};

/// The line of the first loop that loads for a block with a piece of its own; not known if there is none.
SourceLocation walk_of_piece(const ir::Function& f) {
  const analysis::KernelFacts facts = analysis::kernel_facts(f);
  SourceLocation found;
  if (facts.is_persistent || !facts.products.empty()) return found;
  ir::walk(f.body(), [&](const Operation& op) {
    if (!found.known() && analysis::is_load(op) && analysis::loops_around(op) > 0) found = op.loc;
  });
  return found;
}

}  // namespace

std::string largest_tile(const Prepared& prepared) {
  constexpr int kRegisterBytes = 4, kRegisterLimit = machine::kRegistersAThread, kWarp = machine::kThreadsAWarp,
                kWarpsOtherwise = 4, kWarpLimit = 32;
  const Operation* largest = nullptr;
  ir::Type type;
  ir::walk(entry_of(*prepared.module).body(), [&](const Operation& op) {
    const bool repeats = op.op() == Op::Constant || op.op() == Op::Broadcast || op.op() == Op::Iota;  // in no registers
    for (std::size_t i = 0; i < op.num_results() && !repeats; ++i) {
      const ir::Type t = op.result(i).type();
      if (!t.is_tile() || t.is_pointer() || t.rank() == 0) continue;
      if (largest != nullptr && analysis::bytes_of(t) <= analysis::bytes_of(type)) continue;
      largest = &op;
      type = t;
    }
  });
  if (largest == nullptr) return "";
  const int warps = prepared.choices.warps > 0 ? prepared.choices.warps : kWarpsOtherwise;
  const std::int64_t registers = analysis::bytes_of(type) / (kRegisterBytes * kWarp * warps);
  const auto shape = type.shape();
  std::vector<std::int64_t> half(shape.begin(), shape.end());
  const auto outermost = std::find_if(half.begin(), half.end(), [](std::int64_t n) { return n > 1; });
  if (outermost != half.end()) *outermost /= 2;
  const std::string more =
      2 * warps <= kWarpLimit ? concat(", or warps = ", 2 * warps, " in the hints, halve that") : " halve that";
  return concat(type.str(), " at ", place(largest->loc), " takes ", registers, " of the at most ", kRegisterLimit,
                " registers of each thread (", warps, " warps): pieces that make it ", type.with_shape(half).str(),
                more);
}

std::string place(const SourceLocation& where) {
  if (!where.known()) return "";
  const std::string_view file = where.file;
  const std::size_t slash = file.rfind('/');
  return concat(slash == std::string_view::npos ? file : file.substr(slash + 1), ":", where.line);
}

std::vector<std::string> advice(const Prepared& prepared) {
  const ir::Function& entry = entry_of(*prepared.module);
  Advice found(entry, prepared.target.sm);
  // Lanes lie along the last axis: docs/compiler/expand_scans.md has what a scan along another one costs.
  for (const ScanAcross& scan : prepared.scans)
    found.add(
        concat(place(scan.where), ": the scan runs along axis ", scan.axis,
               ", which takes about twice the "
               "instructions of one along the last axis: load the tile from x.permuted(order<...>) so that the axis is "
               "the last, and scan along axis<",
               scan.last, ">"));
  if (const SourceLocation walk = walk_of_piece(entry); walk.known())
    found.add(concat(place(walk), ": each block loops over its tiles here, so a launch of fewer than ",
                     prepared.target.num_sms,
                     " pieces leaves SMs idle; smaller pieces, or split-K partials that are added to an Acc, "
                     "make more"));
  return found.all;
}

}  // namespace tessera::jit
