// Chooses how each load and store through a view reaches memory: TMA, plain view access, or a pointer tile. For kernels
// that move data this decides the speed on a GPU. docs/compiler/choose_access_paths.md.
#include <algorithm>
#include <optional>
#include <set>
#include <unordered_set>
#include <vector>

#include "passes/asks.hpp"
#include "passes/hints.hpp"
#include "passes/pointer_tiles.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/divisibility.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/machine/machine.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

// The hardware's tensor copies (TMA) move whole boxes through shared memory. That pays where a product reads its
// operand from shared memory anyway, or leaves its result in a layout that other stores would have to shuffle.
using analysis::kSmallestTensorCopy;

/// Up to this number of pieces an SM has one or two blocks, whose loads alone keep the memory busy (docs/compiler/
/// choose_access_paths.md).
constexpr std::int64_t kFewPieces = 256;

constexpr std::int64_t kWorthOneLayout = 1024;  // elements that would go through shared memory otherwise

/// What else the kernel loads.
struct Others {
  std::unordered_set<const Operation*> operand_loads;  ///< loads whose tiles are operands of products
  std::unordered_set<const Operation*> rows_of_k;   ///< of those: threads read them from shared memory with conflicts
  std::set<std::vector<std::int64_t>> by_pointers;  ///< shapes of tiles that the kernel itself loads through pointers
  std::unordered_set<const Operation*> product_loops;  ///< the innermost loops of products
};

struct Uses {
  bool product_operand = false, product_result = false, rows_of_k = false;
  bool meets_pointers = false;  ///< tiles of the same shape are loaded through pointers
  bool copied_ahead = false;    ///< reduced in the loop of a launch of few blocks
  bool beside_copies = false;   ///< in a loop with products, in a kernel whose products load by tensor copies
};

/// The innermost loop around `op`; null if there is none.
const Operation* loop_around(const Operation& op) {
  const Operation* parent = op.parent_op();
  while (parent != nullptr && parent->op() != Op::For && parent->op() != Op::Loop) parent = parent->parent_op();
  return parent;
}

std::vector<std::int64_t> shape_of(ir::Type tile) { return {tile.shape().begin(), tile.shape().end()}; }

Uses uses_of(const Operation& access, const Others& others, const analysis::ComputedFrom& products) {
  Uses u;
  // Views and pointer tiles have different layouts. Where such tiles are combined, one of them is converted through
  // shared memory.
  const ir::Type tile = analysis::moved_tile(access);
  u.meets_pointers = others.operand_loads.empty() && tile.num_elements() >= kWorthOneLayout &&
                     others.by_pointers.contains(shape_of(tile));
  u.product_operand = others.operand_loads.contains(&access);
  u.rows_of_k = others.rows_of_k.contains(&access);
  u.product_result = access.op() == Op::StoreViewTko && products.contains(access.single("tile"));
  return u;
}

/// False if `tile`, an operand of a product, is a loaded tile whose neighbours in memory are not neighbours along
/// `axis`.
bool may_be_contiguous_along(Value tile, std::size_t axis) {
  for (const Operation* op = tile.def(); op != nullptr; op = op->operand(0).def()) {
    if (op->op() == Op::Permute) {
      const auto& order = op->attr(ir::AttrName::permutation)->as<ir::I32ArrayAttr>()->values;
      axis = static_cast<std::size_t>(order[axis]);
    } else if (op->op() == Op::FToF || op->op() == Op::IToF) {
      continue;
    } else if (op->op() == Op::LoadViewTko) {
      const ir::Type view = op->single("view").type();
      return view.tensor().strides()[static_cast<std::size_t>(view.dim_map()[axis])] == 1;
    } else {
      return true;
    }
  }
  return true;
}

bool all(const std::vector<bool>& flags) { return std::find(flags.begin(), flags.end(), false) == flags.end(); }

AccessPath decide(const Operation& access, const Uses& uses, const Target& target, const Tuning& tuning) {
  const bool pointers = can_use_pointers(access);
  if (pointers && access.op() == Op::LoadViewTko && views_misread(analysis::moved_tile(access)))
    return AccessPath::Pointer;
  const bool own = access.op() == Op::StoreViewTko && tuning.stores;
  if (const std::optional<AccessPath>& asked = own ? tuning.stores : tuning.access)
    return *asked == AccessPath::Pointer && !pointers ? AccessPath::View : *asked;
  if (uses.rows_of_k) return AccessPath::View;
  if (uses.copied_ahead) return AccessPath::Tma;
  if ((uses.product_operand || uses.product_result) &&
      access.single("view").type().view_tile().num_elements() >= kSmallestTensorCopy)
    return AccessPath::Tma;
  if (!pointers) return AccessPath::View;
  if (uses.meets_pointers) return AccessPath::Pointer;
  // A large load through masked pointers in a loop of products makes the assembler give up the warps that issue tensor
  // copies, for the whole kernel: every product then waits for its operands. A view with bounds checks does not.
  if (uses.beside_copies && access.op() == Op::LoadViewTko &&
      analysis::moved_tile(access).num_elements() >= kSmallestTensorCopy)
    return AccessPath::View;
  // Older assemblers have no `inbounds` attribute; pointer tiles without masks are as fast.
  const bool can_say_inbounds = target.bytecode_minor >= kFirstInboundsMinor;
  return can_say_inbounds && all(analysis::axes_in_bounds(access)) ? AccessPath::View : AccessPath::Pointer;
}

void apply(Operation& access, AccessPath path, const Target& target) {
  if (path == AccessPath::Pointer) {
    use_pointers(access);
    return;
  }
  const std::vector<bool> inside = analysis::axes_in_bounds(access);
  if (target.bytecode_minor < kFirstInboundsMinor)
    access.remove_attr(ir::AttrName::inbounds);
  else if (std::find(inside.begin(), inside.end(), true) != inside.end())
    access.set_attr(ir::AttrName::inbounds, ir::BoolArrayAttr{inside});
  if (path == AccessPath::View) set_hint(access, "allow_tma", false);
}

}  // namespace

void choose_access_paths(ir::Function& f, const Target& target, const Tuning& tuning, bool few_pieces) {
  if (!target.is_gpu()) return;
  std::vector<Operation*> accesses;
  Others others;
  ir::walk(f.body(), [&](Operation& op) {
    if (analysis::is_view_access(op)) accesses.push_back(&op);
    if (op.op() == Op::LoadPtrTko) others.by_pointers.insert(shape_of(op.result(0).type()));
    if (!analysis::is_product(op)) return;
    others.product_loops.insert(loop_around(op));
    for (std::size_t i = 0; i < 2; ++i) {
      const Value operand = op.operand(i);
      const std::size_t axis_of_k = static_cast<std::size_t>(operand.type().rank()) - 1 - i;
      const bool conflicts = !analysis::uses_tensor_cores(op) && may_be_contiguous_along(operand, axis_of_k);
      for (const Operation* load : analysis::loads_of(operand)) {
        others.operand_loads.insert(load);
        if (conflicts) others.rows_of_k.insert(load);
      }
    }
  });
  const bool ahead =
      few_pieces && target.sm >= machine::kTensorCopies && tuning.choose_hints && others.operand_loads.empty();
  const bool copies = target.sm >= machine::kTensorCopies && tuning.choose_hints && !others.operand_loads.empty();
  const auto known = ahead ? std::optional<analysis::Divisibility>(f) : std::nullopt;
  const analysis::ComputedFrom products = analysis::computed_from_products(f);
  analysis::LargestReductions reductions;
  std::vector<AccessPath> paths;
  for (const Operation* access : accesses) {
    Uses uses = uses_of(*access, others, products);
    uses.copied_ahead = ahead && analysis::reduces_in_loop(*access, reductions) &&
                        access->parent_op()->op() == Op::For &&
                        analysis::vector_bytes(*access, *known) == analysis::kVectorBytes;
    const Operation* loop = loop_around(*access);
    uses.beside_copies = copies && loop != nullptr && others.product_loops.contains(loop);
    paths.push_back(decide(*access, uses, target, tuning));
  }
  for (std::size_t i = 0; i < accesses.size(); ++i) apply(*accesses[i], paths[i], target);
}

/// Where few blocks share the SMs, loops load by tensor copies.
std::vector<analysis::LaunchQuestion> ask_few_pieces(const analysis::AskedKernel& kernel) {
  bool reduces = false;
  analysis::LargestReductions reductions;
  ir::walk(kernel.entry.body(),
           [&](const Operation& op) { reduces = reduces || analysis::reduces_in_loop(op, reductions); });
  if (kernel.has_products || !reduces) return {};
  analysis::LaunchQuestion q{.use = analysis::ObligationUse::Copies};
  q.bounds.push_back({.of = analysis::LaunchBound::Of::Pieces, .most = kFewPieces});
  return {q};
}

}  // namespace tessera::passes
