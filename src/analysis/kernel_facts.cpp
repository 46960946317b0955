// Computes the summary of a kernel (see kernel_facts.hpp).
#include "tessera/analysis/kernel_facts.hpp"

#include <algorithm>
#include <unordered_set>

#include "tessera/analysis/access.hpp"
#include "tessera/analysis/divisibility.hpp"
#include "tessera/analysis/values.hpp"

namespace tessera::analysis {

using ir::Op;
using ir::Operation;
using ir::Value;

bool is_product(const Operation& op) { return op.op() == Op::MmaF || op.op() == Op::MmaI || op.op() == Op::MmaFScaled; }
bool uses_tensor_cores(const Operation& product) { return product.operand(0).type().elem() != ir::Elem::F32; }
std::int64_t bytes_of(ir::Type tile) {
  return tile.num_elements() * std::max<int>(ir::info(tile.elem()).bits, 8) / 8;  // a bool is a byte in memory
}

ir::Type moved_tile(const Operation& op) {
  const auto access = access_of(op);
  return access && access->kind != AccessKind::Atomic ? access->tile : ir::Type();
}

bool reduces_in_loop(const Operation& load) {
  const Operation* loop = load.parent_op();
  while (loop != nullptr && loop->op() == Op::If) loop = loop->parent_op();  // a guard
  if (load.op() != Op::LoadViewTko || loop == nullptr || loop->op() != Op::For) return false;
  const ir::Type tile = load.result(0).type();
  if (tile.rank() < 2 || bytes_of(tile) < kBoxBytes || tile.num_elements() == tile.shape().back()) return false;
  for (std::size_t i = 0; i < loop->num_results(); ++i) {
    const ir::Type carried = loop->result(i).type();
    if (carried.is_tile() && carried.num_elements() * kLeastReduction > tile.num_elements()) return false;
  }
  bool reduced = false;
  ir::walk(loop->region(0), [&](const Operation& op) {
    reduced = reduced || (op.op() == Op::Reduce && op.operand(0).type().num_elements() >= tile.num_elements());
  });
  return reduced;
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
  explicit Backwards(Visit visit) : visit_(visit) {}
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
    if (v && seen_.insert(v.impl()).second) work_.push_back(v);
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
  std::unordered_set<const ir::ValueImpl*> seen_;
  std::vector<Value> work_;
};

bool is_inside(const Operation* op, const Operation* loop) {
  for (const Operation* up = op->parent_op(); up; up = up->parent_op())
    if (up == loop) return true;
  return false;
}

/// 32-bit elements in tiles that are live across `reduction` in its block. Constants, indices and masks are recomputed
/// and do not count.
std::int64_t kept_across(const Operation& reduction) {
  const auto is_after = [&](const Operation* user) {
    while (user && user->block() != reduction.block()) user = user->parent_op();
    for (const Operation* op = reduction.next(); op; op = op->next())
      if (op == user) return true;
    return false;
  };
  std::int64_t bits = 0;
  const std::int64_t large = reduction.operand(0).type().num_elements();
  for (const Operation& op : *reduction.block()) {
    if (&op == &reduction) break;
    if (op.num_operands() == 0 || op.op() == Op::Broadcast) continue;
    for (std::size_t r = 0; r < op.num_results(); ++r) {
      const Value v = op.result(r);
      if (!v.type().is_tile() || v.type().is_pointer() || v.type().num_elements() < large) continue;
      const int width = ir::info(v.type().elem()).bits;
      bool later = false;
      for (const ir::OpOperand* use = v.first_use(); use && width > 1; use = use->next)
        later = later || is_after(use->owner);
      if (later && (v.type().is_float() || depends_on_memory(v))) bits += v.type().num_elements() * width;
    }
  }
  return bits / 32;
}

Product product_of(const Operation& op) {
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
    p.fed_by_product = p.fed_by_product || comes_from_product(operand);
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

bool depends_on_memory(Value v) {
  bool loaded = false;
  const auto visit = [&](const Operation& op) {
    loaded = loaded || !op.info().has(ir::traits::Pure);
    return !loaded;
  };
  Backwards(visit).run(v);
  return loaded;
}

bool comes_from_product(Value v) {
  bool found = false;
  const auto visit = [&](const Operation& op) {
    found = found || is_product(op);
    return !found && op.info().has(ir::traits::Pure);
  };
  Backwards(visit).run(v);
  return found;
}

bool corrects_products(const Operation& op) {
  bool found = false;
  const auto visit = [&](const Operation& o) {
    found = found || is_product(o);
    return !found;
  };
  for (const Operation* up = op.parent_op(); up && !found; up = up->parent_op())
    if (up->op() == Op::If) Backwards(visit).run(up->operand(0));
  return found;
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

constexpr std::int64_t kAcrossThreads = 256;  // elements

/// The loads that a row comes from, through shape operations, conversions and arithmetic of rows as long as it.
std::vector<const Operation*> loads_of_row(Value row) {
  std::vector<const Operation*> found;
  const std::int64_t length = row.type().num_elements();
  const auto visit = [&](const Operation& op) {
    if (op.result(0).type().num_elements() != length) return false;
    if (is_load(op)) found.push_back(&op);
    return op.num_regions() == 0 && op.info().has(ir::traits::Pure);
  };
  Backwards(visit).run(row);
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

}  // namespace

KernelFacts kernel_facts(const ir::Function& f) {
  constexpr int kNone = 1 << 20;
  KernelFacts facts;
  int reduction_depth = kNone, load_depth = 0;
  bool scans = false;
  std::vector<const Operation*> reductions;
  ir::walk(f.body(), [&](const Operation& op) {
    if (is_product(op)) facts.products.push_back(product_of(op));
    if (op.op() == Op::GetNumTileBlocks) facts.is_persistent = true;
    if (op.op() == Op::Broadcast) {
      if (const std::int64_t bytes = bytes_repeated_by(op); bytes > 0)
        facts.repeated_bytes = facts.repeated_bytes == 0 ? bytes : std::min(facts.repeated_bytes, bytes);
    }
    if (op.op() == Op::Reduce && op.operand(0).type().num_elements() >= kAcrossThreads) {
      for (const Operation* earlier : reductions)
        facts.chained_reductions = facts.chained_reductions || depends_on(op.operand(0), earlier->result());
      reductions.push_back(&op);
      const auto axis = static_cast<std::size_t>(op.int_attr(ir::AttrName::dim));
      facts.reduces_across_rows = facts.reduces_across_rows || is_across_rows(op.operand(0).type(), axis);
      facts.longest_row = std::max(facts.longest_row, op.operand(0).type().shape()[axis]);
      facts.kept_for_later = std::max(facts.kept_for_later, kept_across(op));
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
  facts.largest_bytes = facts.moved_bytes;
  if (!reductions.empty() || scans || load_depth > 0) facts.moved_bytes = 0;
  facts.reduces_in_loop = !reductions.empty() && load_depth > 0 && reduction_depth >= load_depth;
  facts.reduces_after_loop = reduction_depth < load_depth;
  facts.narrow = !reductions.empty() && loads_narrowly(f, facts.largest_tile);
  return facts;
}

}  // namespace tessera::analysis
