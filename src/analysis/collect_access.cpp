// Claims about accesses through views and about entry arguments, and the walk that collects all claims.
#include <algorithm>
#include <unordered_map>

#include "analysis/collector.hpp"
#include "tessera/analysis/divisibility.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/analysis/tile_region.hpp"

namespace tessera::analysis {

using ir::Op;

namespace {

constexpr std::uint64_t kWidest = kVectorBytes;  // also what TMA asks of bases and strides
constexpr std::int64_t kMaxDim = 0x7FFFFFFF;     // LaunchContract

bool is_power_of_two(std::uint64_t n) { return n != 0 && (n & (n - 1)) == 0; }

}  // namespace

Collector::Collector(const LaunchContract& contract, ConditionPool& conditions,
                     std::span<const LaunchPredicate> predicates, std::deque<LaunchQuestion>& questions)
    : RangeAnalysis(contract, conditions),
      contract_(&contract),
      conditions_(&conditions),
      predicates_(predicates),
      questions_(&questions),
      samples_(contract) {}

std::vector<FoundClaim> Collector::collect(const ir::Function& function) {
  ir::walk(function.body(), [&](const ir::Operation& op) {
    if (!is_product(op)) return;
    has_products_ = true;
    for (std::size_t i = 0; i < 2; ++i)
      for (const ir::Operation* load : loads_of(op.operand(i))) operand_loads_.insert(load);
  });
  run(function);
  claim_arguments(function);
  answer_questions(function);
  return std::move(found_);
}

void Collector::visit(ir::Operation& op) {
  if (op.num_results() == 1 && op.result().type().is_tile() && !op.result().type().is_pointer() &&
      op.result().type().elem() == ir::Elem::I1) {
    truths_[op.result().impl()] = truth_of(op);
  }
  switch (op.op()) {
    case Op::If:
    case Op::Select:
    case Op::Assert: want(op.operand(0), op); break;
    case Op::DivI:
    case Op::RemI: want_division(op); break;
    case Op::For: want_step(op); break;
    case Op::MakePartitionView: note_partition(op); break;
    default: break;
  }
  const auto access = access_of(op);
  if (!access) return;
  if (access->mask) want(access->mask, op);
  if (operand_loads_.contains(&op)) want_tile(op);
  if (access->through_view()) want_inbounds(op, *access);
}

/// [index * step, index * step + tile) lies inside the tensor.
Conditions Collector::inside(ir::Value index, ir::Value tensor_view, std::size_t axis, std::int64_t step,
                             std::int64_t tile) {
  const RangeMath& m = math();
  ExprPool& e = m.exprs();
  const IntRange at = range(index), dim = extent(tensor_view, axis);
  Conditions best = kNever;
  for (const Bound& last : at.hi) {
    const Expr next = e.add(last.value, e.constant(1));
    const Expr end = e.add(e.mul(next, e.constant(step)), e.constant(tile - step));
    for (const Bound& d : dim.lo) {
      const Conditions when = conditions_->both(last.when, d.when);
      const Conditions c = conditions_->both(when, conditions_->less_equal(end, d.value));
      if (conditions_->cost(c) < conditions_->cost(best)) best = c;
    }
  }
  return conditions_->both(best, m.ge(at.lo, 0));
}

void Collector::want_inbounds(ir::Operation& op, const Access& access) {
  const ir::Value view = access.view;
  const ir::Type type = view.type();
  if (type.kind() == ir::TypeKind::GatherScatterView || view.def() == nullptr) return;
  const auto tile = type.tile_shape();
  const auto steps = type.kind() == ir::TypeKind::StridedView ? type.traversal_strides() : tile;
  const auto map = type.dim_map();
  for (std::size_t i = 0; i < tile.size(); ++i) {
    FoundClaim f;
    f.claim.kind = ClaimKind::Inbounds;
    f.claim.op = &op;
    f.claim.index = static_cast<int>(i);
    f.use = ObligationUse::Inbounds;
    f.when = inside(access.index[i], view.def()->operand(0), static_cast<std::size_t>(map[i]), steps[i], tile[i]);
    f.where = op.loc;
    found_.push_back(f);
  }
}

/// Where a product's operand is loaded as a region that is one of the tiles into which its tensor is cut,
/// passes::regions_to_tiles loads it through a view.
void Collector::want_tile(const ir::Operation& load) {
  if (load.op() != Op::LoadPtrTko || !is_unordered_load(load)) return;
  const ir::Type tile = load.result(0).type();
  const auto region = tile.num_elements() >= kSmallestTensorCopy ? region_of_load(load) : std::nullopt;
  if (!region) return;
  std::vector<FoundClaim> found;
  for (std::size_t a = 0; a < region->axes.size(); ++a) {
    const RegionAxis& axis = region->axes[a];
    if (axis.start && !is_made_of_multiples(axis.start, tile.shape()[a])) return;
    if (axis.inside == nullptr) continue;
    const IntRange at = axis.start ? range(axis.start) : math().between(0, 0, 32);
    FoundClaim f;
    f.claim.kind = ClaimKind::StartsTile;
    f.claim.op = axis.inside;
    f.use = ObligationUse::Inbounds;
    f.when = proof(ir::ComparisonPredicate::Less, at, range(axis.extent), false);
    f.where = load.loc;
    if (samples_.score(*conditions_, f.when) == 0) return;
    found.push_back(f);
  }
  found_.insert(found_.end(), found.begin(), found.end());
}

namespace {

/// The entry arguments that are the extents of the axes of a partition view's tile; -1 for static ones. Empty if the
/// tensor is not the entry's.
std::vector<int> extent_args(const ir::Operation& make_view) {
  const ir::Type type = make_view.result().type();
  const ir::Operation* tensor = make_view.operand(0).def();
  if (tensor == nullptr || tensor->op() != Op::MakeTensorView) return {};
  std::vector<int> of_tensor, of_tile;
  for (const TensorAxis& axis : axes_of(*tensor)) {
    const ir::Value v = axis.extent.value;
    const bool argument = v && v.argument_block() != nullptr && v.argument_block()->parent() == nullptr;
    of_tensor.push_back(argument ? static_cast<int>(v.index()) : -1);
  }
  for (const std::int64_t axis : type.dim_map()) of_tile.push_back(of_tensor[static_cast<std::size_t>(axis)]);
  return of_tile;
}

}  // namespace

/// True if `v` is constant within a block: it depends on the block's number and the arguments only.
bool Collector::is_the_blocks(ir::Value v) {
  const ir::Operation* op = v.def();
  if (op == nullptr) return v.argument_block()->parent() == nullptr;
  if (op->op() == Op::GetTileBlockId) return true;
  if (const auto known = is_the_blocks_.find(v.impl()); known != is_the_blocks_.end()) return known->second;
  bool is = op->num_regions() == 0 && op->info().has(ir::traits::Pure);
  for (std::size_t i = 0; is && i < op->num_operands(); ++i) is = is_the_blocks(op->operand(i));
  return is_the_blocks_[v.impl()] = is;
}

/// Collects dimensions that views partition into tiles: claims about them are that they are multiples of the tile, or,
/// where a block takes one tile, that they fill most of it.
void Collector::note_partition(const ir::Operation& make_view) {
  const ir::Type type = make_view.result().type();
  const std::vector<int> args = extent_args(make_view);
  const auto add = [](std::vector<CutAxis>& to, const CutAxis& axis) {
    if (std::find(to.begin(), to.end(), axis) == to.end()) to.push_back(axis);
  };
  for (std::size_t i = 0; i < args.size(); ++i) {
    const CutAxis axis{args[i], static_cast<std::uint64_t>(type.tile_shape()[i])};
    if (axis.first < 0 || axis.second <= 1) continue;
    add(divisors_, axis);
    for (const ir::OpOperand* use = make_view.result().first_use(); use != nullptr; use = use->next) {
      if (const auto access = view_access_of(*use->owner))
        add(is_the_blocks(access->index[i]) ? taken_once_ : walked_, axis);
    }
  }
}

void Collector::claim_divisible(int arg, std::uint64_t divisor, Conditions when, ObligationUse use) {
  if (!is_power_of_two(divisor) || divisor == 1) return;
  FoundClaim f;
  f.claim.kind = ClaimKind::ArgDivisible;
  f.claim.index = arg;
  f.claim.divisor = divisor;
  f.use = use;
  f.when = when;
  found_.push_back(f);
}

void Collector::claim_bounded(int arg, std::int64_t lower, std::int64_t upper, ObligationUse use, Conditions when) {
  FoundClaim f;
  f.claim.kind = ClaimKind::ArgBounded;
  f.claim.index = arg;
  f.claim.lower = lower;
  f.claim.upper = upper;
  f.use = use;
  f.when = when;
  found_.push_back(f);
}

/// Conditions on strides for wide accesses: positive (tensor maps have no stride of 0), 32 bits, multiples of vectors.
Conditions Collector::stride_condition(Expr stride, std::uint64_t bytes) {
  ExprPool& e = math().exprs();
  const Conditions in_range = conditions_->both(conditions_->less_equal(e.constant(1), stride),
                                                conditions_->less_equal(stride, e.constant(kMaxDim)));
  if (bytes >= kWidest) return in_range;
  return conditions_->both(in_range, conditions_->divides(kWidest / bytes, stride));
}

/// f(p) for the base and all pointers that are computed from it.
template <class F>
void each_pointer_tile(ir::Value base, F&& f) {
  std::vector<ir::Value> pointers{base};
  while (!pointers.empty()) {
    const ir::Value p = pointers.back();
    pointers.pop_back();
    f(p);
    for (const ir::OpOperand* use = p.first_use(); use != nullptr; use = use->next) {
      const ir::Operation& user = *use->owner;
      for (std::size_t i = 0; i < user.num_results(); ++i) {
        const ir::Type type = user.result(i).type();
        if (user.info().has(ir::traits::Pure) && type.is_tile() && type.is_pointer())
          pointers.push_back(user.result(i));
      }
    }
  }
}

/// True if some access moves more than a vector at a time along this dimension; through pointers, along any.
bool Collector::is_vectorised(int dim_arg, ir::Value base, std::uint64_t vector) const {
  for (const auto& [dim, tile] : divisors_) {
    if (dim == dim_arg && tile > vector) return true;
  }
  bool found = false;
  each_pointer_tile(
      base, [&](ir::Value p) { found = found || static_cast<std::uint64_t>(p.type().num_elements()) > vector; });
  return found;
}

/// True if some load or store moves so many elements or more along this dimension, the contiguous one; through
/// pointers, along any. Gathers, scatters and atomic operations do not: theirs are single elements.
bool Collector::is_moved_in_rows(int dim_arg, ir::Value base, std::uint64_t elements) {
  for (const auto& [dim, tile] : divisors_) {
    if (dim == dim_arg && tile >= elements) return true;
  }
  if (!from_memory_) from_memory_ = computed_from_memory(*base.argument_block()->function());
  bool found = false;
  each_pointer_tile(base, [&](ir::Value p) {
    for (const ir::OpOperand* use = p.first_use(); use != nullptr && !found; use = use->next) {
      const auto access = access_of(*use->owner);
      found = access && access->kind != AccessKind::Atomic && access->pointers == p && !from_memory_->contains(p) &&
              static_cast<std::uint64_t>(p.type().num_elements()) >= elements;
    }
  });
  return found;
}

/// One obligation for all strides of a tensor. Returns the axis whose stride the recording knows to be 1, or -1.
int Collector::claim_strides(const TensorContract& t, const ir::Block& entry, std::uint64_t bytes) {
  Conditions strides = kAlways;
  int unit_axis = -1;
  std::vector<int> used;
  for (int a = 0; a < t.rank; ++a) {
    const int arg = t.base_arg + 1 + t.rank + a;
    if (!entry.arg(static_cast<std::size_t>(arg)).has_uses()) {
      unit_axis = a;
      continue;
    }
    used.push_back(arg);
    strides = conditions_->both(strides, stride_condition(math().exprs().arg(arg), bytes));
  }
  for (const int arg : used) {
    // Tensor copies of the hardware take strides only if they are known to fit.
    claim_bounded(arg, 0, kMaxDim, ObligationUse::Divisibility, strides);
    if (bytes < kWidest) claim_divisible(arg, kWidest / bytes, strides);
  }
  return unit_axis;
}

/// True if `axis` of the tensor has an extent that every launch shares, a multiple of `divisor`.
bool is_cut_statically(ir::Value base, int axis, std::uint64_t divisor) {
  for (const ir::OpOperand* use = base.first_use(); use != nullptr; use = use->next) {
    if (use->owner->op() != Op::MakeTensorView) continue;
    const auto shape = use->owner->result().type().shape();
    const auto a = static_cast<std::size_t>(axis);
    if (a < shape.size() && shape[a] != ir::kDynamic && static_cast<std::uint64_t>(shape[a]) % divisor == 0)
      return true;
  }
  return false;
}

/// Where not all rows are multiples of a whole vector, many are of a half or a quarter of one: one obligation for each,
/// for the address, the strides and the extent along the contiguous axis. Those of whole vectors include them.
void Collector::claim_parts_of_vectors(const TensorContract& t, const ir::Block& entry, int unit_axis) {
  const ir::Value base = entry.arg(static_cast<std::size_t>(t.base_arg));
  const std::uint64_t bytes = ir::info(base.type().pointee().elem()).bytes;
  for (const std::uint64_t part : {kWidest / 2, kWidest / 4}) {
    const std::uint64_t elements = part / bytes;
    const int extent = t.base_arg + 1 + unit_axis;
    if (elements < 2 || !base.has_uses()) continue;
    if (!is_moved_in_rows(extent, base, elements) && !is_cut_statically(base, unit_axis, elements)) continue;
    std::vector<std::pair<int, std::uint64_t>> divisors{{t.base_arg, part}, {extent, elements}};
    for (int a = 0; a < t.rank; ++a)
      if (a != unit_axis) divisors.push_back({t.base_arg + 1 + t.rank + a, elements});
    Conditions all = kAlways;
    for (const auto& [arg, divisor] : divisors) {
      if (!entry.arg(static_cast<std::size_t>(arg)).has_uses()) continue;
      all = conditions_->both(all, conditions_->divides(divisor, math().exprs().arg(arg)));
    }
    for (const auto& [arg, divisor] : divisors) {
      if (entry.arg(static_cast<std::size_t>(arg)).has_uses())
        claim_divisible(arg, divisor, all, ObligationUse::Vectors);
    }
  }
}

/// One obligation for the address of a tensor, one for all its strides, one for each way its dimensions are cut.
void Collector::claim_arguments(const ir::Function& function) {
  const ir::Block& body = function.body();
  ExprPool& e = math().exprs();
  for (const TensorContract& t : contract_->tensors) {
    const ir::Value base = body.arg(static_cast<std::size_t>(t.base_arg));
    if (base.has_uses()) claim_divisible(t.base_arg, kWidest, conditions_->divides(kWidest, e.arg(t.base_arg)));
    const std::uint64_t bytes = ir::info(base.type().pointee().elem()).bytes, vector = kWidest / bytes;
    const int unit_axis = claim_strides(t, body, bytes);
    for (int a = 0; a < t.rank; ++a) {
      const int arg = t.base_arg + 1 + a;
      if (!body.arg(static_cast<std::size_t>(arg)).has_uses()) continue;
      claim_bounded(arg, 0, kMaxDim, ObligationUse::Divisibility, kAlways);
      for (const auto& [dim, tile] : divisors_) {
        if (dim == arg) claim_divisible(arg, tile, conditions_->divides(tile, e.arg(arg)));
      }
      if (a == unit_axis && is_vectorised(arg, base, vector))
        claim_divisible(arg, vector, conditions_->divides(vector, e.arg(arg)));
    }
    if (unit_axis >= 0) claim_parts_of_vectors(t, body, unit_axis);
  }
}

}  // namespace tessera::analysis
