// Chooses how each load and store through a view reaches memory: TMA, plain view access, or a pointer tile. For kernels
// that move data this decides the speed on a GPU. docs/compiler/choose_access_paths.md.
#include <algorithm>

#include "passes/hints.hpp"
#include "passes/pointer_tiles.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::Op;
using ir::Operation;

namespace {

/// The hardware's tensor copies (TMA) move whole boxes through shared memory. That pays where a product reads its
/// operand from shared memory anyway, or leaves its result in a layout that other stores would have to shuffle.
constexpr std::int64_t kSmallestTensorCopy = 1024;  // elements; below that, a descriptor costs more than it saves

constexpr std::int64_t kWorthOneLayout = 1024;  // elements that would go through shared memory otherwise

/// What else the kernel loads.
struct Others {
  std::vector<const Operation*> operand_loads;  ///< loads whose tiles are operands of products
  std::vector<ir::Type> by_pointers;            ///< tiles that the kernel itself loads through pointers
};

struct Uses {
  bool product_operand = false, product_result = false;
  bool meets_pointers = false;  ///< tiles of the same shape are loaded through pointers
};

bool same_shape(ir::Type x, ir::Type y) {
  return std::equal(x.shape().begin(), x.shape().end(), y.shape().begin(), y.shape().end());
}

Uses uses_of(const Operation& access, const Others& others) {
  Uses u;
  // Views and pointer tiles have different layouts. Where such tiles are combined, one of them is converted through
  // shared memory.
  const ir::Type tile = analysis::moved_tile(access);
  u.meets_pointers = others.operand_loads.empty() && tile.num_elements() >= kWorthOneLayout &&
                     std::any_of(others.by_pointers.begin(), others.by_pointers.end(),
                                 [&](ir::Type t) { return same_shape(t, tile); });
  for (const Operation* load : others.operand_loads) u.product_operand = u.product_operand || load == &access;
  u.product_result = access.op() == Op::StoreViewTko && analysis::comes_from_product(access.single("tile"));
  return u;
}

bool all(const std::vector<bool>& flags) { return std::find(flags.begin(), flags.end(), false) == flags.end(); }

AccessPath decide(const Operation& access, const Uses& uses, const Target& target, const Tuning& tuning) {
  const bool pointers = can_use_pointers(access);
  if (pointers && access.op() == Op::LoadViewTko && views_misread(analysis::moved_tile(access)))
    return AccessPath::Pointer;
  const bool own = access.op() == Op::StoreViewTko && tuning.stores;
  if (const std::optional<AccessPath>& asked = own ? tuning.stores : tuning.access)
    return *asked == AccessPath::Pointer && !pointers ? AccessPath::View : *asked;
  if ((uses.product_operand || uses.product_result) &&
      access.single("view").type().view_tile().num_elements() >= kSmallestTensorCopy)
    return AccessPath::Tma;
  if (!pointers) return AccessPath::View;
  if (uses.meets_pointers) return AccessPath::Pointer;
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

void choose_access_paths(ir::Function& f, const Target& target, const Tuning& tuning) {
  if (!target.is_gpu()) return;
  std::vector<Operation*> accesses;
  Others others;
  ir::walk(f.body(), [&](Operation& op) {
    if (analysis::is_view_access(op)) accesses.push_back(&op);
    if (op.op() == Op::LoadPtrTko) others.by_pointers.push_back(op.result(0).type());
    if (!analysis::is_product(op)) return;
    for (std::size_t i = 0; i < 2; ++i)
      for (const Operation* load : analysis::loads_of(op.operand(i))) others.operand_loads.push_back(load);
  });
  std::vector<AccessPath> paths;
  for (const Operation* access : accesses) paths.push_back(decide(*access, uses_of(*access, others), target, tuning));
  for (std::size_t i = 0; i < accesses.size(); ++i) apply(*accesses[i], paths[i], target);
}

}  // namespace tessera::passes
