// Loop versioning without a loop: a stencil's mask is false at the border of its tensor only. Where it pays, or tuning
// asks for it, the code from the block's first access on is emitted twice, with and without masks, and one scalar
// comparison selects:
//
//   m = (start + iota) < extent            inside = start + (n - 1) < extent
//   x = load p, m                    =>    if inside { x = load p; ... } else { x = load p, m; ... }
//   ...
//
// The comparison uses 64-bit arithmetic on 32-bit numbers, so nothing in it wraps. docs/compiler/version_guards.md.
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "passes/pointer_tiles.hpp"
#include "passes/rewriter.hpp"
#include "passes/values.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::Block;
using ir::Builder;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

constexpr std::size_t kMaxOperations = 600;  // that are duplicated
/// Masked loads from which on two versions are faster by themselves (bench/notes/choose_hints.md).
constexpr std::size_t kWorthVersions = 3;

/// The indices start, start + 1, ..., last of one axis are below `extent`, all read as unsigned 32-bit numbers.
struct MaskBound {
  Value start;  ///< null: 0
  std::int64_t steps = 0;
  Value extent;
};

constexpr int kDeepestMask = 6;  // nested `and`: one for each axis

/// Reads a mask as a conjunction of bounds; false if it has any other form.
bool bounds_of(Value mask, std::vector<MaskBound>& bounds, int depth = kDeepestMask) {
  const Operation* op = behind_shapes(mask).def();
  if (!op || depth == 0) return false;
  if (op->op() == Op::AndI)
    return bounds_of(op->operand(0), bounds, depth - 1) && bounds_of(op->operand(1), bounds, depth - 1);
  if (op->op() != Op::CmpI || op->operand(0).type().elem() != Elem::I32 ||
      op->enum_attr<ir::Signedness>(AttrName::signedness) != ir::Signedness::Unsigned ||
      op->enum_attr<ir::ComparisonPredicate>(AttrName::comparison_predicate) != ir::ComparisonPredicate::Less)
    return false;
  MaskBound bound{{}, 0, behind_shapes(op->operand(1))};
  const Value places = behind_shapes(op->operand(0));
  const auto counts = [](Value v) { return v.def() && v.def()->op() == Op::Iota ? v.type().num_elements() : 0; };
  if (places.type().rank() == 0) {
    bound.start = places;
  } else if (counts(places) > 0) {
    bound.steps = counts(places) - 1;
  } else if (places.def() && places.def()->op() == Op::AddI) {
    const Value x = behind_shapes(places.def()->operand(0)), y = behind_shapes(places.def()->operand(1));
    bound.start = counts(x) > 0 ? y : x;
    bound.steps = std::max(counts(x), counts(y)) - 1;
    if (bound.steps < 0) return false;
  } else {
    return false;
  }
  if (bound.extent.type().rank() != 0 || (bound.start && bound.start.type().rank() != 0)) return false;
  bounds.push_back(bound);
  return true;
}

class Versions {
 public:
  explicit Versions(Block& block) : block_(block) {
    for (Operation& op : block) place_[&op] = place_.size() + 1;  // 0: before all of them, moved there
  }

  /// True if there are that many masks to decide for whole blocks.
  bool make(std::size_t fewest) {
    // From the first access on: tiles loaded before the branch would need the layouts of both versions.
    Operation* first = block_.front();
    while (first && !analysis::is_access(*first) && first->num_regions() == 0) first = first->next();
    if (!first || size_behind(*first) > kMaxOperations) return false;
    find_masks(*first);
    if (masked_.size() < fewest) return false;
    Builder b = Builder::before(first);
    b.loc = first->loc;
    Value inside;
    for (const Masked& m : masked_)
      for (const MaskBound& bound : m.bounds) {
        const Value holds = emit(bound, b, *first);
        inside = inside ? b.create(Op::AndI, {inside, holds}, {holds.type()})->result() : holds;
      }
    branch(inside, *first);
    return true;
  }

 private:
  struct Masked {
    Operation* load;
    std::vector<MaskBound> bounds;
  };

  void find_masks(const Operation& first) {
    for (Operation& op : block_) {
      const auto access = op.op() == Op::LoadPtrTko ? analysis::access_of(op) : std::nullopt;
      if (!access || !access->mask) continue;
      std::vector<MaskBound> bounds;
      if (!bounds_of(access->mask, bounds)) continue;
      const bool known = std::all_of(bounds.begin(), bounds.end(), [&](const MaskBound& bound) {
        return can_stand_before(bound.extent, first) && (!bound.start || can_stand_before(bound.start, first));
      });
      if (known) masked_.push_back({&op, std::move(bounds)});
    }
  }

  /// True if `v` is defined before `op`, or can be: it is computed from such values without reading memory.
  bool can_stand_before(Value v, const Operation& op) const {
    std::unordered_set<const Operation*> seen;
    std::vector<Value> work{v};
    while (!work.empty()) {
      const Operation* def = work.back().def();
      work.pop_back();
      if (!def || def->block() != &block_ || place_.at(def) < place_.at(&op) || !seen.insert(def).second) continue;
      if (!is_pure(*def) || def->num_regions() > 0) return false;
      for (const Value operand : def->operand_values()) work.push_back(operand);
    }
    return true;
  }
  void move_before(Value v, Operation& op) {
    Operation* def = v.def();
    if (!def || def->block() != &block_ || place_.at(def) < place_.at(&op)) return;
    for (const Value o : def->operand_values()) move_before(o, op);
    def->move_before(&op);
    place_[def] = 0;
  }

  std::size_t size_behind(const Operation& first) const {
    std::size_t size = 0;
    for (const Operation* op = &first; op; op = op->next()) {
      ++size;
      for (std::size_t i = 0; i < op->num_regions(); ++i) ir::walk(op->region(i), [&](const Operation&) { ++size; });
    }
    return size;
  }

  Value emit(const MaskBound& bound, Builder& b, Operation& first) {
    move_before(bound.extent, first);
    const Value extent = as_i64(b, bound.extent, ir::Signedness::Unsigned);
    Value last = b.constant_int(Elem::I64, bound.steps);
    if (bound.start) {
      move_before(bound.start, first);
      const Value start = as_i64(b, bound.start, ir::Signedness::Unsigned);
      last = b.create(Op::AddI, {start, last}, {last.type()})->result();
    }
    return compared(b, ir::ComparisonPredicate::Less, last, extent);
  }

  /// Puts the operations from `first` on into both arms of a branch.
  void branch(Value inside, Operation& first) {
    std::vector<Operation*> moved;
    for (Operation* op = &first; op && !op->info().has(ir::traits::Terminator); op = op->next()) moved.push_back(op);
    Builder b = Builder::before(&first);
    b.loc = first.loc;
    Operation* versions = b.create(Op::If, {inside}, {});
    Builder fast(versions->add_region()), slow(versions->add_region());
    Copier copier;
    for (const Operation* op : moved) {
      Operation* copy = copier.copy(*op, fast);
      const bool masked = std::any_of(masked_.begin(), masked_.end(), [&](const Masked& m) { return m.load == op; });
      if (masked) drop_mask(*copy);
    }
    fast.create(Op::Yield, {}, {});
    Operation* end = slow.create(Op::Yield, {}, {});
    for (Operation* op : moved) op->move_before(end);
  }

  Block& block_;
  std::unordered_map<const Operation*, std::size_t> place_;
  std::vector<Masked> masked_;
};

/// No value computed in it is used outside.
bool ends_empty(const Block& block) {
  const Operation* end = block.terminator();
  return end && end->num_operands() == 0 && (end->op() == Op::Return || end->op() == Op::Yield);
}

}  // namespace

bool version_guards(ir::Function& f, const Tuning& tuning) {
  if (tuning.guards && *tuning.guards != 0 && *tuning.guards != 1)
    throw CompileError(concat("tuning: expected guards as 0 or 1, found ", *tuning.guards));
  if (tuning.guards == 0 || (!tuning.guards && analysis::neighbours_of(f) != analysis::Neighbours::Whole)) return false;
  const std::size_t fewest = tuning.guards ? 1 : kWorthVersions;
  std::vector<Block*> blocks{&f.body()};
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (ends_empty(*blocks[i]) && Versions(*blocks[i]).make(fewest)) return true;
    for (Operation& op : *blocks[i])
      if (op.op() == Op::If)
        for (std::size_t r = 0; r < op.num_regions(); ++r) blocks.push_back(&op.region(r));
  }
  return false;
}

}  // namespace tessera::passes
