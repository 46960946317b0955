// A row of 640 in a tile of 1024 is done as 512 + 128 elements: where the launch guarantees that a row ends within five
// or six eighths of its tile, every tile with that axis becomes two, and a reduction along it combines theirs. Where a
// row ends within half or a quarter of its tile, that is taken for its tile, and stays one or becomes two likewise.
//
//   x: tile<1024> = load, i < n        =>      x0: tile<512> = load, i < n      x1: tile<128> = load, 512 + i < n
//   sum(x)                                     sum(x0) + sum(x1)
//
// Beyond the row nothing is loaded or stored, and all elements are computed alike: one of them, in a tile with an
// extent of 1, stands for the rest where a reduction needs it. docs/compiler/split_tiles.md.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <unordered_map>
#include <vector>

#include "passes/fold_rules.hpp"
#include "passes/index_masks.hpp"
#include "passes/opaque.hpp"
#include "passes/pointer_tiles.hpp"
#include "passes/rewriter.hpp"
#include "passes/row_lengths.hpp"
#include "passes/tile_axis.hpp"
#include "passes/values.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/divisibility.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/ir/dead_code.hpp"
#include "tessera/passes/certifier.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::Builder;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

namespace {

using analysis::Claim;
using analysis::ClaimKind;
using Shape = std::vector<std::int64_t>;

constexpr std::int64_t kLanes = 32;

/// A part of the axis.
struct Part {
  std::int64_t start, extent;
};

/// Powers of two that together cover [0, most), and start at multiples of their extents: half of the smallest tile that
/// holds them, and an eighth or a quarter of it. One part if two would not be less work.
std::vector<Part> parts_for(std::int64_t extent, std::int64_t most) {
  while (most <= extent / 2 && extent > kLeastPartOfRow) extent /= 2;
  for (const std::int64_t second : {extent / 8, extent / 4})
    if (most <= extent / 2 + second && second >= kLeastPartOfRow) return {{0, extent / 2}, {extent / 2, second}};
  return {{0, extent}};
}

/// The type of a tile whose `axis` has another extent.
Type with_extent(Type t, std::size_t axis, std::int64_t extent) {
  Shape shape(t.shape().begin(), t.shape().end());
  shape[axis] = extent;
  return t.with_shape(shape);
}

/// Bounds of an operand that the plan relies on.
struct Needed {
  Operation* op;
  std::size_t operand;
  std::int64_t most;
  bool extent;  ///< of a tensor, all of whose parts have to exist
};

/// What is known along an axis.
struct Plan {
  std::vector<Operation*> operations;  ///< with the axis, in program order
  std::vector<Part> parts;
  std::vector<Needed> needed;
  bool has_rows = false;  ///< an access has more elements than there are along the axis
  /// Comparisons that have one outcome for all places from the end of the parts on.
  std::unordered_map<const Operation*, bool> outcome;

  std::int64_t end() const { return parts.back().start + parts.back().extent; }
};

/// Whether places beyond the numbers that `m` compares with are true.
bool is_true_beyond(const IndexMask& m) {
  return m.how == ir::ComparisonPredicate::Greater || m.how == ir::ComparisonPredicate::GreaterEqual;
}

/// Reads what limits the accesses along an axis. Fails where one is not limited, or an operation is not understood.
class Planner {
 public:
  Planner(ir::Function& f, const TileAxis& axis) : axis_(axis) {
    ir::walk(f.body(), [&](Operation& op) {
      if (axis.has(op)) plan_.operations.push_back(&op);
    });
  }

  std::optional<Plan> plan() {
    bool accesses = false;
    for (Operation* op : plan_.operations) {
      if (const auto access = analysis::access_of(*op)) {
        accesses = true;
        plan_.has_rows = plan_.has_rows || access->tile.num_elements() > axis_.extent();
      }
      if (analysis::is_view_access(*op) && !limit_view(*op)) return std::nullopt;
      limit_mask(*op);
    }
    if (!accesses || most_ == 0) return std::nullopt;
    plan_.parts = parts_for(axis_.extent(), most_);
    // Tile IR leaves undefined what an access does at a tile index beyond the tensor.
    if (plan_.parts.size() > 1 && plan_.parts.back().start >= least_) return std::nullopt;
    return plan_.end() < axis_.extent() ? std::optional(plan_) : std::nullopt;
  }

 private:
  /// A mask that hides at least a quarter of the tile counts; others are computed in each part.
  void limit_mask(Operation& op) {
    const auto m = index_mask(op);
    if (!m || m->sign != ir::Signedness::Signed || axis_counted(m->places) != axis_.of(m->places)) return;
    const int bits = ir::info(m->places.type().elem()).bits;
    if (bits < 32 && axis_.extent() > std::int64_t{1} << (bits - 1)) return;  // some places are negative
    const auto number = known_range(m->number);
    if (!number || number->high < 0 || number->high > axis_.extent()) return;
    const bool equal_counts =
        m->how == ir::ComparisonPredicate::LessEqual || m->how == ir::ComparisonPredicate::Greater;
    const std::int64_t most = number->high + (equal_counts ? 1 : 0);
    if (most > longest()) return;
    plan_.outcome[&op] = is_true_beyond(*m);
    need({&op, op.operand(0) == m->number ? 0U : 1U, number->high, false}, most);
  }
  /// Tile 0 along the axis, of a tensor whose extent is known.
  bool limit_view(Operation& op) {
    const analysis::Access access = *analysis::access_of(op);
    const std::size_t axis = *axis_.of(access.loads() ? op.result(0) : access.value);
    if (access.view.type().tile_shape().size() != access.tile.shape().size()) return false;
    if (constant_int(access.index[axis]) != 0 || analysis::axes_in_bounds(op)[axis]) return false;
    Operation& tensor = *access.view.def()->operand(0).def();
    const auto dim = static_cast<std::size_t>(access.view.type().dim_map()[axis]);
    const std::vector<analysis::TensorAxis> axes = analysis::axes_of(tensor);
    if (axes[dim].extent.is_fixed()) {
      most_ = std::max(most_, axes[dim].extent.fixed);
      least_ = std::min(least_, axes[dim].extent.fixed);
      return most_ <= longest();
    }
    const auto range = known_range(axes[dim].extent.value);
    if (!range || range->high < 1 || range->high > longest()) return false;
    std::size_t operand = 1;
    for (std::size_t a = 0; a < dim; ++a) operand += axes[a].extent.is_fixed() ? 0 : 1;
    need({&tensor, operand, range->high, true}, range->high);
    least_ = std::min(least_, range->low);
    return true;
  }
  /// Longer rows stay in one tile: the longest that parts_for makes shorter than a tile.
  std::int64_t longest() const { return axis_.extent() / 4 * 3; }
  void need(const Needed& n, std::int64_t end) {
    plan_.needed.push_back(n);
    most_ = std::max(most_, end);
  }

  const TileAxis& axis_;
  Plan plan_;
  std::int64_t most_ = 0;                                          ///< places from here on are beyond all rows
  std::int64_t least_ = std::numeric_limits<std::int64_t>::max();  ///< places below are in all tensors
};

bool holds(const Plan& plan, const ir::Function& f, const Certifier* certifier) {
  std::vector<Claim> claims;
  const std::int64_t last = plan.parts.back().start;
  for (const Needed& n : plan.needed) {
    const int operand = static_cast<int>(n.operand);
    claims.push_back({.kind = ClaimKind::AtMost, .op = n.op, .index = operand, .upper = n.most});
    if (n.extent && last > 0)
      claims.push_back({.kind = ClaimKind::AtLeast, .op = n.op, .index = operand, .lower = last + 1});
  }
  const std::vector<bool> may = certified(certifier, f, claims);
  return std::ranges::all_of(may, [](bool b) { return b; });
}

/// A copy of `op` with mapped operands, whose tiles have another extent along the axis.
Operation* copy_with_extent(const Operation& op, const TileAxis& axis, std::int64_t extent, Copier& copier,
                            Builder& b) {
  Operation* made = copier.copy(op, b);
  for (std::size_t r = 0; r < op.num_results(); ++r)
    if (const auto at = axis.of(op.result(r))) made->result(r).set_type(with_extent(op.result(r).type(), *at, extent));
  if (op.op() == Op::Constant) {
    ir::DenseAttr data = *op.attr(AttrName::value)->as<ir::DenseAttr>();
    data = {made->result().type(),
            std::vector(data.bytes.begin(), data.bytes.begin() + ir::info(made->result().type().elem()).bytes), true};
    made->set_attr(AttrName::value, data);
  }
  return made;
}

/// What the elements beyond the parts are, which are all alike: tiles with an extent of 1 along the axis.
class Rest {
 public:
  Rest(const TileAxis& axis, const Plan& plan) : axis_(axis), plan_(plan) {}

  /// Computes the rest of the results of `op`, if it has one. In program order.
  void add(Operation& op) {
    Builder b = Builder::before(&op);
    b.loc = op.loc;
    if (const Value v = found(op, b)) of_[op.result(0).impl()] = v;
  }
  /// Null: the elements differ, or nothing is known of them.
  Value of(Value v) const {
    const auto known = of_.find(v.impl());
    return known == of_.end() ? Value() : known->second;
  }
  /// True if `v`, a tile of i1, is known to be `truth` beyond the parts.
  bool is(Value v, bool truth) const {
    const Value rest = v ? of(v) : Value();
    return rest && splat_bits(rest) == (truth ? 1U : 0U);
  }

 private:
  Type type_of(Value v) const { return with_extent(v.type(), *axis_.of(v), 1); }

  Value found(Operation& op, Builder& b) {
    if (const auto known = plan_.outcome.find(&op); known != plan_.outcome.end())
      return b.constant_int(Elem::I1, known->second ? 1 : 0, type_of(op.result()).shape());
    switch (op.op()) {
      case Op::LoadViewTko: return padding_tile(b, type_of(op.result(0)), op.operand(0).type().padding());
      case Op::LoadPtrTko: return of_load(op, b);
      case Op::Assume: return of(op.operand(0));
      case Op::Select:
        if (is(op.operand(0), true)) return of(op.operand(1));
        if (is(op.operand(0), false)) return of(op.operand(2));
        break;
      case Op::AndI:
      case Op::OrI:
        for (std::size_t i = 0; i < 2; ++i)
          if (op.result().type().elem() == Elem::I1 && is(op.operand(i), op.op() == Op::OrI)) return of(op.operand(i));
        break;
      default: break;
    }
    return computed(op, b);
  }
  Value of_load(const Operation& op, Builder& b) const {
    const analysis::Access access = *analysis::access_of(op);
    if (!is(access.mask, false)) return {};
    return access.padding ? of(access.padding) : padding_tile(b, type_of(op.result(0)), std::nullopt);
  }
  Value computed(Operation& op, Builder& b) {
    if (!is_pure(op) || op.op() == Op::Iota || op.num_results() != 1 || !axis_.of(op.result())) return {};
    Copier copier;
    for (const ir::OpOperand& use : op.operands()) {
      if (!axis_.of(use.value)) continue;
      if (!of(use.value)) return {};
      copier.map(use.value, of(use.value));
    }
    Operation* made = copy_with_extent(op, axis_, 1, copier, b);
    const Value simpler = made->num_regions() == 0 && made->op() != Op::Constant ? simplified(*made) : Value();
    if (!simpler) return made->result();
    made->erase();
    return simpler;
  }

  const TileAxis& axis_;
  const Plan& plan_;
  std::unordered_map<const ir::ValueImpl*, Value> of_;
};

/// How often the rest of the operands of a reduction is to be combined with its result.
enum class Share { None, Once, Every, Unknown };

std::uint64_t bits_of(const ir::Attribute& identity) {
  if (const auto* f = identity.as<ir::FloatAttr>()) return f->bits;
  return static_cast<std::uint64_t>(identity.as<ir::IntAttr>()->value);
}

bool is_identity(Value rest, const ir::Attribute& identity) {
  const int bits = ir::info(rest.type().elem()).bits;
  const auto found = splat_bits(rest);
  return found && ((*found ^ bits_of(identity)) & (~std::uint64_t{0} >> (64 - bits))) == 0;
}

/// Sums of 16-bit floats are left alone: the number of elements may not be exact there.
Share share_of_rest(const Operation& reduce, const Rest& rest) {
  const auto& identities = reduce.attr(AttrName::identities)->as<ir::ArrayAttr>()->items;
  bool all = true;
  for (std::size_t i = 0; i < reduce.num_operands(); ++i) {
    const Value v = rest.of(reduce.operand(i));
    if (!v) return Share::Unknown;
    all = all && is_identity(v, identities[i]);
  }
  if (all) return Share::None;
  const Operation* how = analysis::single_combiner(reduce);
  if (how == nullptr || how->num_operands() != 2) return Share::Unknown;
  const ir::Block& body = reduce.region(0);
  const bool of_both = (how->operand(0) == body.arg(0) && how->operand(1) == body.arg(1)) ||
                       (how->operand(0) == body.arg(1) && how->operand(1) == body.arg(0));
  if (!of_both || body.terminator()->operand(0) != how->result()) return Share::Unknown;
  switch (how->op()) {
    case Op::MaxF:
    case Op::MinF:
    case Op::MaxI:
    case Op::MinI:
    case Op::AndI:
    case Op::OrI: return Share::Once;
    case Op::AddI: return Share::Every;
    case Op::AddF: return ir::info(how->result().type().elem()).bits >= 32 ? Share::Every : Share::Unknown;
    default: return Share::Unknown;
  }
}

class TileSplitter {
 public:
  TileSplitter(const TileAxis& axis, const Plan& plan) : axis_(axis), plan_(plan), rest_(axis, plan) {
    copiers_.resize(plan.parts.size());
  }

  /// False, and nothing but unused operations changes, where elements beyond the parts are needed and not known.
  bool run() {
    for (Operation* op : plan_.operations) rest_.add(*op);
    if (!std::ranges::all_of(plan_.operations, [&](const Operation* op) { return is_covered(*op); })) return false;
    for (Operation* op : plan_.operations) split(*op);
    for (std::size_t i = plan_.operations.size(); i-- > 0;) plan_.operations[i]->erase();
    return true;
  }

 private:
  bool reduces_axis(const Operation& op) const {
    return op.op() == Op::Reduce && static_cast<std::size_t>(op.int_attr(AttrName::dim)) == axis_.of(op.operand(0));
  }
  bool is_covered(const Operation& op) const {
    if (reduces_axis(op)) return share_of_rest(op, rest_) != Share::Unknown;
    const auto access = analysis::access_of(op);
    return !access || access->through_view() || rest_.is(access->mask, false);
  }

  void split(Operation& op) {
    std::vector<Operation*> made;
    for (std::size_t p = 0; p < plan_.parts.size(); ++p) made.push_back(part_of(op, p));
    Builder b = Builder::before(&op);
    b.loc = op.loc;
    if (reduces_axis(op)) return combine(op, made, b);
    if (!analysis::is_access(op)) return;
    const Value token = op.result(op.num_results() - 1);
    if (!token.has_uses()) return;
    std::vector<Value> tokens;
    for (Operation* part : made) tokens.push_back(part->result(part->num_results() - 1));
    const Type types[] = {token.type()};
    token.replace_all_uses_with(tokens.size() == 1 ? tokens[0] : b.create(Op::JoinTokens, tokens, types)->result());
  }

  Operation* part_of(Operation& op, std::size_t p) {
    Builder b = Builder::before(&op);
    b.loc = op.loc;
    const Part part = plan_.parts[p];
    Operation* made = copy_with_extent(op, axis_, part.extent, copiers_[p], b);
    if (op.op() == Op::Iota && part.start > 0) {
      const Value places = made->result(), start = splat(b, start_of(part, places.type(), b), places.type().shape());
      copiers_[p].map(op.result(), b.create(Op::AddI, {places, start}, {places.type()})->result());
    }
    if (op.op() == Op::Assume) copiers_[p].map(op.result(), made->operand(0));  // it may be about other places
    if (analysis::is_view_access(op)) cut(op, *made, part);
    return made;
  }
  /// Of several rows, the lanes of a warp shall share each, as they do in the other part: if the assembler gave a lane
  /// a whole vector, a warp would load two or more short parts at once, and every result would go through shared
  /// memory. So it knows no more of the alignment than that. (Elements have a byte at least: with kVectorBytes of them
  /// a lane has a whole vector anyway.)
  Value start_of(const Part& part, Type places, Builder& b) {
    const Value start = b.constant_int(places.elem(), part.start);
    const std::int64_t of_lane = part.extent / kLanes;
    if (!plan_.has_rows || of_lane >= analysis::kVectorBytes) return start;
    if (!opaque_) opaque_.emplace(*b.block().function());
    const Value zero = opaque_->zero(places.elem());
    const Value moved = b.create(Op::AddI, {start, zero}, {start.type()})->result();
    const ir::DivByAttr multiple{static_cast<std::uint64_t>(of_lane), {}, {}};
    return b.create(Op::Assume, {moved}, {moved.type()}, {{AttrName::predicate, multiple}})->result();
  }
  /// Makes `made`, a copy of the view access `op`, access this part.
  void cut(const Operation& op, Operation& made, const Part& part) const {
    const analysis::Access access = *analysis::access_of(op);
    const std::size_t axis = *axis_.of(access.loads() ? op.result(0) : access.value);
    const Type view = access.view.type();
    std::vector<std::int32_t> tile(view.tile_shape().begin(), view.tile_shape().end());
    tile[axis] = static_cast<std::int32_t>(part.extent);
    const Value tensor = access.view.def()->operand(0);
    Builder b = Builder::before(&made);
    b.loc = op.loc;
    const Type type = Type::partition_view(tensor.type(), tile, view.dim_map(), view.padding());
    const std::size_t at = access.loads() ? 0 : 1;  // the view among the operands
    made.set_operand(at, b.create(Op::MakePartitionView, {tensor}, {type})->result());
    const Elem number = access.index[axis].type().elem();
    made.set_operand(at + 1 + axis, b.constant_int(number, part.start / part.extent));
  }

  void combine(Operation& op, const std::vector<Operation*>& made, Builder& b) {
    const std::span<const std::int64_t> shape = op.result(0).type().shape();
    const std::size_t n = op.num_results();
    std::vector<Value> sums;
    for (std::size_t k = 0; k < n; ++k) sums.push_back(made[0]->result(k));
    const auto add = [&](const std::vector<Value>& more) {
      std::vector<Value> pairs;
      // The function takes an element and what was combined of those before it.
      for (std::size_t k = 0; k < n; ++k) pairs.insert(pairs.end(), {more[k], sums[k]});
      sums = combined_elementwise(b, op, pairs, shape);
    };
    for (std::size_t p = 1; p < made.size(); ++p) {
      std::vector<Value> of_part;
      for (std::size_t k = 0; k < n; ++k) of_part.push_back(made[p]->result(k));
      add(of_part);
    }
    const Share share = share_of_rest(op, rest_);
    if (share != Share::None) add({rest_of_sum(op, share, b)});
    for (std::size_t k = 0; k < n; ++k) op.result(k).replace_all_uses_with(sums[k]);
  }
  /// What the elements beyond the parts add to a reduction with one operand.
  Value rest_of_sum(const Operation& op, Share share, Builder& b) const {
    const Type type = op.result(0).type();
    const Value one = b.create(Op::Reshape, {rest_.of(op.operand(0))}, {type})->result();
    if (share == Share::Once) return one;
    const std::int64_t count = axis_.extent() - plan_.end();
    if (!type.is_float())
      return b.create(Op::MulI, {one, b.constant_int(type.elem(), count, type.shape())}, {type})->result();
    const Value times = b.constant_float(type.elem(), static_cast<double>(count), type.shape());
    return b.create(Op::MulF, {one, times}, {type})->result();
  }

  const TileAxis& axis_;
  const Plan& plan_;
  Rest rest_;
  std::vector<Copier> copiers_;  ///< one for each part
  std::optional<Opaque> opaque_;
};

/// A tile and its axis along which a row may end early.
struct Seed {
  Value tile;
  std::size_t axis;
};

std::vector<Seed> seeds_of(ir::Function& f) {
  std::vector<Seed> seeds;
  ir::walk(f.body(), [&](Operation& op) {
    const auto m = index_mask(op);
    if (!m || constant_int(m->number)) return;
    if (const auto axis = axis_counted(m->places)) seeds.push_back({op.result(), *axis});
  });
  ir::walk(f.body(), [&](Operation& op) {
    if (op.op() != Op::LoadViewTko) return;
    for (std::size_t a = 0; a < op.result(0).type().shape().size(); ++a) seeds.push_back({op.result(0), a});
  });
  return seeds;
}

/// Splits the first axis for which it is possible.
bool split_one(ir::Function& f, const Certifier* certifier) {
  std::vector<TileAxis> tried;
  for (const Seed& seed : seeds_of(f)) {
    if (seed.tile.type().shape()[seed.axis] < 2 * kLeastPartOfRow) continue;
    if (std::ranges::any_of(tried, [&](const TileAxis& t) { return t.of(seed.tile) == seed.axis; })) continue;
    const TileAxis& axis = tried.emplace_back(seed.tile, seed.axis);
    if (!axis.ok()) continue;
    const auto plan = Planner(f, axis).plan();
    if (plan && holds(*plan, f, certifier) && TileSplitter(axis, *plan).run()) return true;
  }
  return false;
}

// Bounds the time of compiling: each axis takes walks over the kernel. Kernels have one or two such axes.
constexpr int kMaxAxes = 8;

}  // namespace

bool split_tiles(ir::Function& f, const Certifier* certifier) {
  bool changed = false;
  for (int n = 0; n < kMaxAxes && split_one(f, certifier); ++n) changed = true;
  ir::remove_dead_code(f);
  return changed;
}

}  // namespace tessera::passes
