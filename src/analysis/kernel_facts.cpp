// Computes the summary of a kernel (see kernel_facts.hpp).
#include "tessera/analysis/kernel_facts.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "tessera/analysis/access.hpp"
#include "tessera/analysis/dependents.hpp"
#include "tessera/analysis/divisibility.hpp"
#include "tessera/analysis/values.hpp"

namespace tessera::analysis {

using ir::Op;
using ir::Operation;
using ir::Value;

bool is_product(const Operation& op) { return op.op() == Op::MmaF || op.op() == Op::MmaI || op.op() == Op::MmaFScaled; }
bool uses_tensor_cores(const Operation& product) {
  const ir::Elem elem = product.operand(0).type().elem();
  const std::span<const std::int64_t> result = product.result().type().shape();
  const std::int64_t rows = result[result.size() - 2], columns = result.back();
  return elem != ir::Elem::F32 && columns >= kColumnsOfMma &&
         rows >= (elem == ir::Elem::F64 ? kRowsOfMmaF64 : kRowsOfMma);
}
std::int64_t bytes_of(ir::Type tile) {
  return tile.num_elements() * std::max<int>(ir::info(tile.elem()).bits, 8) / 8;  // a bool is a byte in memory
}

ir::Type moved_tile(const Operation& op) {
  const auto access = access_of(op);
  return access && access->kind != AccessKind::Atomic ? access->tile : ir::Type();
}

namespace {

std::int64_t largest_reduction(const ir::Block& body) {
  std::int64_t largest = 0;
  ir::walk(body, [&](const Operation& op) {
    if (op.op() == Op::Reduce) largest = std::max(largest, op.operand(0).type().num_elements());
  });
  return largest;
}

}  // namespace

bool reduces_in_loop(const Operation& load, LargestReductions& known) {
  const Operation* loop = load.parent_op();
  while (loop != nullptr && loop->op() == Op::If) loop = loop->parent_op();  // a guard
  if (load.op() != Op::LoadViewTko || loop == nullptr || loop->op() != Op::For) return false;
  const ir::Type tile = load.result(0).type();
  if (tile.rank() < 2 || bytes_of(tile) < kBoxBytes || tile.num_elements() == tile.shape().back()) return false;
  for (std::size_t i = 0; i < loop->num_results(); ++i) {
    const ir::Type carried = loop->result(i).type();
    if (carried.is_tile() && carried.num_elements() * kLeastReduction > tile.num_elements()) return false;
  }
  const auto [it, fresh] = known.try_emplace(loop, 0);
  if (fresh) it->second = largest_reduction(loop->region(0));
  return it->second >= tile.num_elements();
}

int loops_around(const Operation& op) {
  int n = 0;
  for (const Operation* up = op.parent_op(); up; up = up->parent_op()) n += up->op() == Op::For || up->op() == Op::Loop;
  return n;
}

bool is_narrow(const Operation& access, const Divisibility& known) {
  constexpr std::int64_t kNarrowBytes = 4;
  const std::int64_t bytes = vector_bytes(access, known);
  return bytes > 0 && bytes <= kNarrowBytes;
}

namespace {

constexpr std::int64_t kAcrossThreads = 256;  // elements
// Values that are looked at behind a row: a loop may repeat many rows, each computed from the one before.
constexpr std::size_t kMaxBehindRow = 500;

/// True for operations that only move or convert elements: the result is still "the loaded tile".
bool passes_elements_on(Op op) {
  switch (op) {
    case Op::Reshape:
    case Op::Permute:
    case Op::Bitcast:
    case Op::FToF:
    case Op::IToF:
    case Op::ExtI:
    case Op::Unpack:
    case Op::Assume: return true;
    default: return false;
  }
}

/// Walks from values to the operations that compute them. `visit(op)` returns whether to continue with its operands.
template <class Visit>
class Backwards {
 public:
  /// `most`: values that are looked at.
  explicit Backwards(Visit visit, std::size_t most = SIZE_MAX) : visit_(visit), most_(most) {}
  void run(Value v) {
    push(v);
    while (!work_.empty()) {
      const Value next = work_.back();
      work_.pop_back();
      if (Operation* def = next.def()) {
        step(*def, next.index());
      } else if (Operation* parent = next.argument_block()->parent()) {
        carried(*parent, next.index());
      }
    }
  }

 private:
  void push(Value v) {
    if (v && seen_.size() < most_ && seen_.insert(v.impl()).second) work_.push_back(v);
  }
  void step(Operation& def, std::size_t result) {
    if (def.op() == Op::If) {
      for (std::size_t r = 0; r < def.num_regions(); ++r) exit(def.region(r), result, Op::Yield);
    } else if (def.op() == Op::For) {
      push(def.operand(first_carried_operand(def) + result));
      exit(def.region(0), result, Op::Continue);
    } else if (visit_(def)) {
      for (const ir::OpOperand& use : def.operands()) push(use.value);
    }
  }
  void exit(const ir::Block& block, std::size_t i, Op expected) {
    const Operation* end = block.terminator();
    if (end && end->op() == expected) push(end->operand(i));
  }
  void carried(Operation& loop, std::size_t argument) {
    if (loop.op() != Op::For || argument == 0) return;
    push(loop.operand(first_carried_operand(loop) + argument - 1));
    exit(loop.region(0), argument - 1, Op::Continue);
  }

  Visit visit_;
  std::size_t most_;
  std::unordered_set<const ir::ValueImpl*> seen_;
  std::vector<Value> work_;
};

bool is_inside(const Operation* op, const Operation* loop) {
  for (const Operation* up = op->parent_op(); up; up = up->parent_op())
    if (up == loop) return true;
  return false;
}

/// 32-bit elements in tiles that are live across large reductions. Constants, indices and masks are recomputed and do
/// not count.
class KeptElements {
 public:
  explicit KeptElements(const ir::Function& f) : f_(f) {}
  /// The most across one of `reductions`, which stand in `block`.
  std::int64_t most(const ir::Block& block, const std::vector<const Operation*>& reductions) {
    place_.clear();
    for (const Operation& op : block) place_.emplace(&op, place_.size());
    std::vector<Ended> ends(place_.size());
    std::map<std::int64_t, std::int64_t> kept;  // bits, by the elements of a tile
    const std::unordered_set<const Operation*> asked(reductions.begin(), reductions.end());
    std::int64_t most = 0;
    std::size_t at = 0;
    for (const Operation& op : block) {
      for (const auto& [elements, bits] : ends[at]) kept[elements] -= bits;
      if (asked.contains(&op)) {
        std::int64_t bits = 0;
        const std::int64_t large = op.operand(0).type().num_elements();
        for (auto of = kept.lower_bound(large); of != kept.end(); ++of) bits += of->second;
        most = std::max(most, bits / 32);
      }
      for (std::size_t r = 0; r < op.num_results() && op.num_operands() != 0 && op.op() != Op::Broadcast; ++r)
        if (const std::size_t last = last_use(op.result(r), block); last > at && counts(op.result(r))) {
          const std::int64_t elements = op.result(r).type().num_elements();
          const std::int64_t bits = elements * ir::info(op.result(r).type().elem()).bits;
          kept[elements] += bits;
          ends[last].emplace_back(elements, bits);
        }
      ++at;
    }
    return most;
  }

 private:
  using Ended = std::vector<std::pair<std::int64_t, std::int64_t>>;  ///< elements and bits of values used last there

  /// The place of the last operation of the block that uses `v`, or has a region that does; 0 if there is none.
  std::size_t last_use(Value v, const ir::Block& block) const {
    std::size_t last = 0;
    for (const ir::OpOperand* use = v.first_use(); use; use = use->next) {
      const Operation* user = use->owner;
      while (user && user->block() != &block) user = user->parent_op();
      if (user) last = std::max(last, place_.at(user));
    }
    return last;
  }
  bool counts(Value v) {
    const ir::Type t = v.type();
    if (!t.is_tile() || t.is_pointer() || t.num_elements() < kAcrossThreads || ir::info(t.elem()).bits <= 1)
      return false;
    if (t.is_float()) return true;
    if (!loaded_) loaded_ = computed_from_memory(f_);
    return loaded_->contains(v);
  }

  const ir::Function& f_;
  std::unordered_map<const Operation*, std::size_t> place_;
  std::optional<ComputedFrom> loaded_;  ///< what depends on memory
};

Product product_of(const Operation& op, const ComputedFrom& products) {
  Product p;
  p.op = &op;
  p.accumulators = op.result().type().num_elements();
  const Operation*& loop = p.loop;
  for (const Operation* up = op.parent_op(); up; up = up->parent_op()) {
    if (up->op() != Op::For && up->op() != Op::Loop) continue;
    if (!loop) loop = up;
    ++p.loops;
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const Value operand = op.operand(i);
    p.fed_by_product = p.fed_by_product || products.contains(operand);
    for (Operation* load : loads_of(operand)) {
      if (!loop || !is_inside(load, loop)) continue;
      p.step_loads.push_back(load);
      p.loaded_bytes += bytes_of(load->result().type());
    }
  }
  return p;
}

}  // namespace

std::vector<Operation*> loads_of(Value v) {
  std::vector<Operation*> found;
  const auto visit = [&](Operation& op) {
    if (is_load(op)) found.push_back(&op);
    return passes_elements_on(op.op());
  };
  Backwards(visit).run(v);
  return found;
}

ComputedFrom computed_from_memory(const ir::Function& f) {
  const auto is_pure = [](const Operation& op) { return op.info().has(ir::traits::Pure); };
  const auto reads = [&](const Operation& op) { return op.op() != Op::If && op.op() != Op::For && !is_pure(op); };
  return ComputedFrom(f, reads, is_pure);
}

ComputedFrom computed_from_products(const ir::Function& f) {
  return ComputedFrom(f, is_product, [](const Operation& op) { return op.info().has(ir::traits::Pure); });
}

std::unordered_set<const Operation*> corrections_of_products(const ir::Function& f) {
  std::unordered_set<const Operation*> branches;
  const ComputedFrom products(f, is_product, [](const Operation&) { return true; });
  ir::walk(f.body(), [&](const Operation& op) {
    if (op.op() == Op::If && products.contains(op.operand(0))) branches.insert(&op);
  });
  return branches;
}

bool corrects_products(const Operation& op, const std::unordered_set<const Operation*>& branches) {
  for (const Operation* up = op.parent_op(); up; up = up->parent_op())
    if (branches.contains(up)) return true;
  return false;
}

bool depends_on(Value v, Value from) {
  std::unordered_set<const ir::ValueImpl*> seen;
  std::vector<Value> work{v};
  const ir::Block* body = from.def()->block();
  while (!work.empty()) {
    const Value next = work.back();
    work.pop_back();
    if (next == from) return true;
    Operation* def = next ? next.def() : nullptr;
    if (!def || defined_outside(next, *body) || !seen.insert(next.impl()).second) continue;
    const auto push = [&](const Operation& op) {
      for (const ir::OpOperand& use : op.operands()) work.push_back(use.value);
    };
    push(*def);
    for (std::size_t r = 0; r < def->num_regions(); ++r) ir::walk(def->region(r), push);
  }
  return false;
}

namespace {

/// The loads that a row comes from, through shape operations, conversions and arithmetic of rows as long as it.
std::vector<const Operation*> loads_of_row(Value row) {
  std::vector<const Operation*> found;
  const std::int64_t length = row.type().num_elements();
  const auto visit = [&](const Operation& op) {
    if (op.result(0).type().num_elements() != length) return false;
    if (is_load(op)) found.push_back(&op);
    return op.num_regions() == 0 && op.info().has(ir::traits::Pure);
  };
  Backwards(visit, kMaxBehindRow).run(row);
  return found;
}

/// Bytes of the smallest tile that `stretch`, a broadcast, repeats and that is loaded in the loop around it; 0 if it is
/// too small to matter, or there is none.
std::int64_t bytes_repeated_by(const Operation& stretch) {
  const Value from = stretch.operand(0);
  if (from.type().num_elements() < kAcrossThreads || loops_around(stretch) == 0 ||
      stretch.result().type().num_elements() <= from.type().num_elements())
    return 0;
  std::int64_t least = 0;
  for (const Operation* load : loads_of_row(from)) {
    if (load->parent_op() != stretch.parent_op()) continue;
    const std::int64_t bytes = bytes_of(load->result().type());
    least = least == 0 ? bytes : std::min(least, bytes);
  }
  return least;
}

/// Contiguous elements after `axis` in a row.
bool is_across_rows(ir::Type tile, std::size_t axis) {
  const auto shape = tile.shape();
  return std::any_of(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end(),
                     [](std::int64_t extent) { return extent > 1; });
}

/// True if tiles of this many elements are loaded an element or two at a time.
bool loads_narrowly(const ir::Function& f, std::int64_t elements) {
  const Divisibility known(f);
  bool narrow = false;
  ir::walk(f.body(), [&](const Operation& op) {
    if (is_load(op) && op.result(0).type().num_elements() >= elements) narrow = narrow || is_narrow(op, known);
  });
  return narrow;
}

/// True for an elementwise operation that computes numbers.
bool computes_numbers(const Operation& op) {
  return op.num_results() == 1 && op.num_operands() > 0 && op.info().has(ir::traits::Pure) &&
         op.info().has(ir::traits::SameShape | ir::traits::SameType) && op.result(0).type().is_tile() &&
         !op.result(0).type().is_pointer() && op.result(0).type().elem() != ir::Elem::I1;
}

/// Elements that are reduced by the reductions behind `v`, which combines those of tiles of different sizes, the parts
/// of a row; 0 for anything else.
std::int64_t reduced_elements(Value v, int depth = 4) {
  const Operation* op = v.def();
  if (op == nullptr || depth == 0) return 0;
  if (op->op() == Op::Reduce) return op->operand(0).type().num_elements();
  if (op->num_operands() != 2 || !computes_numbers(*op)) return 0;
  const std::int64_t left = reduced_elements(op->operand(0), depth - 1);
  const std::int64_t right = reduced_elements(op->operand(1), depth - 1);
  const auto [small, large] = std::minmax(left, right);
  return small > 0 && small < large && large <= 4 * small ? left + right : 0;
}

/// What is known of all large reductions together.
void note_reductions(const ir::Function& f, const std::vector<const Operation*>& reductions, KernelFacts& facts) {
  std::vector<Value> results;
  for (const Operation* op : reductions) results.push_back(op->result(0));
  const Dependents dependents(f.body(), results);
  std::vector<const ir::Block*> blocks;
  std::unordered_map<const ir::Block*, std::vector<const Operation*>> of_block;
  for (const Operation* op : reductions) {
    facts.chained_reductions = facts.chained_reductions || dependents.contains(op->operand(0));
    std::vector<const Operation*>& others = of_block[op->block()];
    if (others.empty()) blocks.push_back(op->block());
    others.push_back(op);
  }
  KeptElements kept(f);
  for (const ir::Block* block : blocks)
    facts.kept_for_later = std::max(facts.kept_for_later, kept.most(*block, of_block.at(block)));
}

}  // namespace

KernelFacts kernel_facts(const ir::Function& f) {
  constexpr int kNone = 1 << 20;
  KernelFacts facts;
  int reduction_depth = kNone, load_depth = 0;
  bool scans = false;
  std::vector<const Operation*> reductions;
  const ComputedFrom products = computed_from_products(f);
  ir::walk(f.body(), [&](const Operation& op) {
    if (is_product(op)) facts.products.push_back(product_of(op, products));
    if (op.op() == Op::GetNumTileBlocks) facts.is_persistent = true;
    if (op.op() == Op::Broadcast) {
      if (const std::int64_t bytes = bytes_repeated_by(op); bytes > 0)
        facts.repeated_bytes = facts.repeated_bytes == 0 ? bytes : std::min(facts.repeated_bytes, bytes);
    }
    if (op.op() == Op::Reduce && op.operand(0).type().num_elements() >= kAcrossThreads) {
      reductions.push_back(&op);
      const auto axis = static_cast<std::size_t>(op.int_attr(ir::AttrName::dim));
      facts.reduces_across_rows = facts.reduces_across_rows || is_across_rows(op.operand(0).type(), axis);
      facts.longest_row = std::max(facts.longest_row, op.operand(0).type().shape()[axis]);
      reduction_depth = std::min(reduction_depth, loops_around(op));
    }
    if (computes_numbers(op) && op.num_operands() == 2)
      facts.combined_rows = std::max(facts.combined_rows, reduced_elements(op.result()));
    if (computes_numbers(op))
      facts.largest_computed = std::max(facts.largest_computed, op.result(0).type().num_elements());
    scans = scans || (op.op() == Op::Scan && op.operand(0).type().num_elements() >= kAcrossThreads);
    const ir::Type tile = moved_tile(op);
    if (is_load(op) && tile.num_elements() >= kAcrossThreads) load_depth = std::max(load_depth, loops_around(op));
    if (op.op() == Op::StoreViewTko) facts.stored_bytes += bytes_of(tile);
    if (tile && tile.num_elements() >= facts.largest_tile) {
      const bool larger = tile.num_elements() > facts.largest_tile || facts.moved_bytes == 0;
      facts.moved_bytes = larger ? bytes_of(tile) : std::min(facts.moved_bytes, bytes_of(tile));
      facts.largest_tile = tile.num_elements();
    }
  });
  facts.large_reductions = static_cast<int>(reductions.size());
  note_reductions(f, reductions, facts);
  facts.largest_bytes = facts.moved_bytes;
  if (!reductions.empty() || scans || load_depth > 0) facts.moved_bytes = 0;
  facts.reduces_in_loop = !reductions.empty() && load_depth > 0 && reduction_depth >= load_depth;
  facts.reduces_after_loop = reduction_depth < load_depth;
  facts.narrow = !reductions.empty() && loads_narrowly(f, facts.largest_tile);
  return facts;
}

}  // namespace tessera::analysis
