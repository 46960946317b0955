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

/// A load or store of which a thread moves whole vectors of the tile's last axis.
struct Wide {
  Operation* op = nullptr;
  Value tile;              ///< what is loaded or stored
  std::int64_t bytes = 0;  ///< of an element
  std::int64_t elements() const { return kVectorBytes / bytes; }
};

bool follows_last_axis(const analysis::Access& access) {
  const ir::Type view = access.view.type();
  const Operation* tensor = analysis::tensor_behind(access.view);
  if (!tensor || view.tile_shape().empty() || view.tile_shape().back() <= 1) return false;
  const auto axis = static_cast<std::size_t>(view.dim_map()[view.tile_shape().size() - 1]);
  return tensor->result().type().strides()[axis] == 1;
}

std::vector<Wide> wide_accesses(ir::Function& f) {
  const analysis::Divisibility known(f);
  std::vector<Wide> found;
  ir::walk(f.body(), [&](Operation& op) {
    const auto access = analysis::view_access_of(op);
    if (!access || access->tile.num_elements() < kOwnLayout || !follows_last_axis(*access)) return;
    if (analysis::vector_bytes(op, known) != kVectorBytes) return;
    found.push_back({&op, access->loads() ? op.result(0) : access->value, ir::info(access->tile.elem()).bytes});
  });
  return found;
}

/// Views of a tensor whose address is known to be a multiple of so many bytes only, each made once.
class LessAligned {
 public:
  explicit LessAligned(ir::Function& f) : opaque_(f) {}

  Value view(Value view, std::int64_t bytes) {
    Value& made = made_[{view.impl(), bytes}];
    return made ? made : made = make(view, bytes);
  }

 private:
  Value make(Value view, std::int64_t bytes) {
    Operation& of_view = *view.def();
    const Operation& of_tensor = *analysis::tensor_behind(view);
    Builder b = Builder::before(&of_view);
    b.loc = of_view.loc;
    // The assembler derives no alignment of a sum with an unknown number, so what is assumed of it is all that it
    // knows.
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

  std::vector<Wide> accesses = wide_accesses(f);
  struct Group {
    std::int64_t largest = 0;              // elements of a tile
    std::int64_t elements = kVectorBytes;  // that a thread moves at a time
  };
  std::unordered_map<const ir::ValueImpl*, Group> groups;
  for (const Wide& a : accesses) {
    Group& g = groups[layouts.root(a.tile.impl())];
    g.largest = std::max(g.largest, a.tile.type().num_elements());
    g.elements = std::min(g.elements, a.elements());
  }
  std::optional<LessAligned> less;
  for (const Wide& a : accesses) {
    const Group& g = groups[layouts.root(a.tile.impl())];
    if (g.largest < kWorthMatching || a.elements() <= g.elements) continue;
    if (!less) less.emplace(f);
    const Value view = a.op->single("view");
    for (std::size_t i = 0; i < a.op->num_operands(); ++i)
      if (a.op->operand(i) == view) a.op->set_operand(i, less->view(view, g.elements * a.bytes));
  }
  return less.has_value();
}

}  // namespace tessera::passes
