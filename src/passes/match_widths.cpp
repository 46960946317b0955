// Lets a thread move equally many elements of every tile that elementwise operations combine.
// docs/compiler/match_widths.md.
#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "passes/opaque.hpp"
#include "passes/rewriter.hpp"
#include "passes/values.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/divisibility.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using analysis::kVectorBytes;
using ir::AttrName;
using ir::Builder;
using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

constexpr std::int64_t kWorthMatching = 1024;  // elements of a group's largest tile: it would go through shared memory
/// Smaller tiles have no layout of their own: the assembler loads them in the layout of the tile they are combined
/// with.
constexpr std::int64_t kOwnLayout = 256;

/// Values that have one layout: sets of values, joined by the operations between them (union-find).
class Layouts {
 public:
  void join(Value x, Value y) {
    if (x && y && x.type().is_tile() && y.type().is_tile()) parent_[root(x.impl())] = root(y.impl());
  }
  const ir::ValueImpl* root(const ir::ValueImpl* v) {
    auto at = parent_.find(v);
    if (at == parent_.end() || at->second == v) return v;
    return parent_[v] = root(at->second);
  }

 private:
  std::unordered_map<const ir::ValueImpl*, const ir::ValueImpl*> parent_;
};

/// True if the elements of a thread keep their order from `from` to `to`, its broadcast or reshape.
bool keeps_rows(Value from, Value to) {
  const auto x = from.type().shape(), y = to.type().shape();
  return !x.empty() && !y.empty() && x.back() > 1 && y.back() > 1;
}

void join_by(const Operation& op, Layouts& layouts) {
  if (op.op() == Op::Broadcast || op.op() == Op::Reshape) {
    if (keeps_rows(op.operand(0), op.result())) layouts.join(op.operand(0), op.result());
  } else if (op.op() == Op::For) {
    const Operation* end = op.region(0).terminator();
    for (std::size_t i = 0; i < op.num_results(); ++i) {
      const Value carried = op.region(0).arg(first_carried_arg(op) + i);
      layouts.join(op.operand(first_carried_operand(op) + i), carried);
      layouts.join(op.result(i), carried);
      if (end && end->op() == Op::Continue) layouts.join(end->operand(i), carried);
    }
  } else if (op.op() == Op::Loop) {
    for (std::size_t i = 0; i < op.num_operands(); ++i) layouts.join(op.operand(i), op.region(0).arg(i));
  } else if (op.op() == Op::Continue || op.op() == Op::Break) {
    const Operation* loop = op.parent_op();
    while (loop && loop->op() != Op::Loop && loop->op() != Op::For) loop = loop->parent_op();
    if (!loop || loop->op() != Op::Loop) return;
    for (std::size_t i = 0; i < op.num_operands(); ++i)
      layouts.join(op.operand(i), op.op() == Op::Break ? loop->result(i) : loop->region(0).arg(i));
  } else if (op.op() == Op::If) {
    for (std::size_t r = 0; r < op.num_regions(); ++r) {
      const Operation* end = op.region(r).terminator();
      if (!end || end->op() != Op::Yield) continue;
      for (std::size_t i = 0; i < op.num_results(); ++i) layouts.join(end->operand(i), op.result(i));
    }
  } else if (op.op() == Op::Select ||
             (op.info().has(ir::traits::Pure) && op.info().has(ir::traits::SameShape | ir::traits::SameType))) {
    for (const Value operand : op.operand_values()) layouts.join(operand, op.result());
  }
}

/// A load or store of which a thread moves whole vectors along the tile's last axis, or single elements because the
/// tile begins between two vectors; or a load in a loop that gathers.
struct MovedTiles {
  Operation* op = nullptr;
  Value tile;                 ///< what is loaded or stored
  std::int64_t bytes = 0;     ///< of an element
  std::int64_t elements = 0;  ///< that a thread moves at a time
  bool by_view = false;
  bool gathers = false;  ///< its indices are laid out as its result
};

bool follows_last_axis(const analysis::Access& access) {
  const ir::Type view = access.view.type();
  const Operation* tensor = analysis::tensor_behind(access.view);
  if (!tensor || view.tile_shape().empty() || view.tile_shape().back() <= 1) return false;
  const auto axis = static_cast<std::size_t>(view.dim_map()[view.tile_shape().size() - 1]);
  return tensor->result().type().strides()[axis] == 1;
}

std::vector<MovedTiles> moved_tiles(ir::Function& f) {
  const analysis::Divisibility known(f);
  std::vector<MovedTiles> found;
  ir::walk(f.body(), [&](Operation& op) {
    const auto access = analysis::access_of(op);
    if (!access || access->kind == analysis::AccessKind::Atomic || access->tile.num_elements() < kOwnLayout) return;
    const std::int64_t bytes = ir::info(access->tile.elem()).bytes;
    const analysis::AccessWidth width = analysis::width_of(op, known);
    if (width.limit == analysis::WidthLimit::Scattered) {
      if (access->loads() && !access->view && analysis::loops_around(op) > 0)
        found.push_back({&op, op.result(0), bytes, 1, false, true});
      return;
    }
    if (access->view ? !follows_last_axis(*access) : access->tile.shape().back() <= 1) return;
    // Between two vectors: single elements, and of pointer tiles parts of vectors.
    const bool between = width.limit == analysis::WidthLimit::Base && (width.bytes == bytes || !access->view);
    if (!between && width.bytes != kVectorBytes) return;
    found.push_back({&op, access->loads() ? op.result(0) : access->value, bytes, width.bytes / bytes,
                     access->view.impl() != nullptr});
  });
  return found;
}

/// Values of one layout, and their accesses.
struct Group {
  std::int64_t largest = 0;                      ///< elements of a tile
  std::int64_t elements = kVectorBytes;          ///< that a thread moves at a time, by whole vectors
  std::int64_t fewest = kVectorBytes, most = 1;  ///< that a thread moves at a time
  /// Instructions, up to a common factor: of the single elements' way through shared memory, and of moving single
  /// elements instead of vectors.
  double through_shared = 0, instead_of_vectors = 0;

  void add(const MovedTiles& a) {
    largest = std::max(largest, a.tile.type().num_elements());
    fewest = std::min(fewest, a.elements), most = std::max(most, a.elements);
    double moved = static_cast<double>(a.tile.type().num_elements());
    for (const Operation* loop = a.op->parent_op(); loop; loop = loop->parent_op())
      if (loop->op() == Op::For || loop->op() == Op::Loop) moved *= analysis::kAssumedTrips;
    const double vectors = moved / static_cast<double>(kVectorBytes / a.bytes);
    const double own = moved / static_cast<double>(a.elements);
    if (own > vectors) {
      // Stored as they were loaded, loaded by vectors; and indices the other way.
      through_shared += (own + vectors) * (a.gathers ? 2 : 1);
      instead_of_vectors += moved - own;
    } else {
      instead_of_vectors += moved - vectors;
      if (a.by_view) elements = std::min(elements, a.elements);
    }
  }
  /// How many elements a thread is to move at a time in `a`. Pointers: a vector, or single ones.
  std::int64_t chosen(const MovedTiles& a) const {
    if (largest < kWorthMatching || fewest == most) return a.elements;
    if (through_shared > instead_of_vectors) return 1;
    return a.by_view ? std::min(elements, a.elements) : a.elements;
  }
};

/// Accesses whose address is known to be a multiple of so many bytes only. The assembler derives no alignment of a sum
/// with an unknown number, so what is assumed of it is all that it knows.
class LessAligned {
 public:
  explicit LessAligned(ir::Function& f) : opaque_(f) {}

  /// Makes the address of a load or store one.
  void lower(Operation& op, std::int64_t bytes) {
    const analysis::Access access = *analysis::access_of(op);
    const Value before = access.reached_through();
    const Value after = access.view ? view(before, bytes) : pointers(op, before);
    for (std::size_t i = 0; i < op.num_operands(); ++i)
      if (op.operand(i) == before) op.set_operand(i, after);
  }

 private:
  /// A view is made once.
  Value view(Value view, std::int64_t bytes) {
    Value& made = made_[{view.impl(), bytes}];
    return made ? made : made = make(view, bytes);
  }
  /// Of pointers nothing is assumed but that they point to elements.
  Value pointers(Operation& op, Value pointers) {
    Builder b = Builder::before(&op);
    b.loc = op.loc;
    const Value zeros = splat(b, opaque_.zero(ir::Elem::I32), pointers.type().shape());
    return b.create(Op::Offset, {pointers, zeros}, {pointers.type()})->result();
  }
  Value make(Value view, std::int64_t bytes) {
    Operation& of_view = *view.def();
    const Operation& of_tensor = *analysis::tensor_behind(view);
    Builder b = Builder::before(&of_view);
    b.loc = of_view.loc;
    const Value base = of_tensor.single("base");
    const Value moved = b.create(Op::Offset, {base, opaque_.zero(ir::Elem::I32)}, {base.type()})->result();
    const ir::DivByAttr multiple{static_cast<std::uint64_t>(bytes), {}, {}};
    const Value aligned = b.create(Op::Assume, {moved}, {moved.type()}, {{AttrName::predicate, multiple}})->result();
    Copier copier;
    copier.map(base, aligned);
    copier.map(of_tensor.result(), copier.copy(of_tensor, b)->result());
    return copier.copy(of_view, b)->result();
  }

  Opaque opaque_;
  std::map<std::pair<const ir::ValueImpl*, std::int64_t>, Value> made_;
};

}  // namespace

bool match_widths(ir::Function& f) {
  bool has_products = false;
  Layouts layouts;
  ir::walk(f.body(), [&](const Operation& op) {
    has_products = has_products || analysis::is_product(op);
    join_by(op, layouts);
  });
  if (has_products) return false;  // their operands and results have layouts of their own

  const std::vector<MovedTiles> accesses = moved_tiles(f);
  for (const MovedTiles& a : accesses)
    if (a.gathers) layouts.join(analysis::access_of(*a.op)->pointers, a.tile);
  std::unordered_map<const ir::ValueImpl*, Group> groups;
  for (const MovedTiles& a : accesses) groups[layouts.root(a.tile.impl())].add(a);
  std::optional<LessAligned> less;
  for (const MovedTiles& a : accesses) {
    const std::int64_t elements = groups[layouts.root(a.tile.impl())].chosen(a);
    if (a.elements == elements) continue;
    if (!less) less.emplace(f);
    less->lower(*a.op, elements * a.bytes);
  }
  return less.has_value();
}

}  // namespace tessera::passes
