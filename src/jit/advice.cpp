// Formats advice from the module after the passes; it makes no decisions.
#include "jit/advice.hpp"

#include <algorithm>
#include <string_view>

#include "tessera/analysis/access.hpp"
#include "tessera/analysis/divisibility.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/base/format.hpp"

namespace tessera::jit {
namespace {

using analysis::kVectorBytes;
using analysis::WidthLimit;
using ir::Op;
using ir::Operation;

constexpr std::int64_t kWorthVectors = 512;    // bytes of a tile: one vector for each thread of a warp
constexpr std::int64_t kWorthCombining = 512;  // elements of an atomic operation

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
      return "its elements are no neighbours, or are not known to be: whole rows at an index, or an order of axes in "
             "which the tile follows the axis of stride 1, make them wide";
    case WidthLimit::Matched:
    case WidthLimit::None: break;
  }
  return "";
}

class Advice {
 public:
  explicit Advice(const ir::Function& f) : known_(f), from_memory_(analysis::computed_from_memory(f)) {
    const analysis::ComputedFrom products = analysis::computed_from_products(f);
    ir::walk(f.body(), [&](const Operation& op) {
      counts_ = counts_ || (op.op() == Op::AtomicRMWTko && products.contains(op.single("arg")));
    });
    ir::walk(f.body(), [&](const Operation& op) {
      if (const auto access = analysis::access_of(op)) {
        narrow(op, *access);
        colliding(op);
      }
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

std::string place(const SourceLocation& where) {
  if (!where.known()) return "";
  const std::string_view file = where.file;
  const std::size_t slash = file.rfind('/');
  return concat(slash == std::string_view::npos ? file : file.substr(slash + 1), ":", where.line);
}

std::vector<std::string> advice(const Prepared& prepared) {
  const ir::Function& entry = entry_of(*prepared.module);
  Advice found(entry);
  if (const SourceLocation walk = walk_of_piece(entry); walk.known())
    found.add(concat(place(walk), ": each block loops over its tiles here, so a launch of fewer than ",
                     prepared.target.num_sms,
                     " pieces leaves SMs idle; smaller pieces, or split-K partials that are added to an Acc, "
                     "make more"));
  return found.all;
}

}  // namespace tessera::jit
