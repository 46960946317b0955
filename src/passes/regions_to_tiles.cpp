// An operand of a product that is loaded as a region (load_at), at a place that is a multiple of its extents, is a tile
// of the tensor. It becomes a load of that tile, so that everything that is known of loads of tiles serves it: tensor
// copies, loads that are in flight, bounds.
//
//   m = (k + iota) < extent                      view = tiles of [64, 32] of the tensor
//   x = load (p + (i + iota) * stride           x = load view[i / 64, k / 32]
//             + (k + iota)), m, 0        =>
//
// docs/compiler/regions_to_tiles.md.
#include <algorithm>
#include <bit>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "passes/pointer_tiles.hpp"
#include "passes/values.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/tile_region.hpp"
#include "tessera/ir/semantics.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using analysis::ClaimKind;
using analysis::Region;
using analysis::RegionAxis;
using ir::AttrName;
using ir::Builder;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

namespace {

/// What the claims that hold say of the comparisons of masks.
struct Known {
  std::unordered_set<const Operation*> tiles;             ///< StartsTile
  std::unordered_map<const Operation*, bool> conditions;  ///< whether all elements are true

  bool is_true(Value mask) const {
    const Operation* op = mask.def();
    if (op == nullptr) return false;
    if (const auto found = conditions.find(op); found != conditions.end() && found->second) return true;
    if (op->op() == Op::AndI) return is_true(op->operand(0)) && is_true(op->operand(1));
    return (op->op() == Op::Broadcast || op->op() == Op::Reshape) && is_true(op->operand(0));
  }
  /// A part of `mask` that is true includes `comparison`, or is it.
  bool holds_in(Value mask, const Operation& comparison) const {
    const Operation* op = mask.def();
    if (op == nullptr || !reaches(mask, comparison)) return false;
    if (is_true(mask)) return true;
    for (std::size_t i = 0; op != &comparison && i < op->num_operands(); ++i)
      if (holds_in(op->operand(i), comparison)) return true;
    return false;
  }

 private:
  static bool reaches(Value mask, const Operation& comparison) {
    const Operation* op = mask.def();
    if (op == &comparison) return true;
    if (op == nullptr || (op->op() != Op::AndI && op->op() != Op::Broadcast && op->op() != Op::Reshape)) return false;
    return std::ranges::any_of(op->operand_values(), [&](Value v) { return reaches(v, comparison); });
  }
};

/// The padding of a view that gives what the load gives where its mask is false; nothing if no view gives that.
std::optional<ir::PaddingValue> padding_of(const analysis::Access& access) {
  const auto bits = analysis::splat_bits(behind_shapes(access.padding));
  if (!bits) return std::nullopt;
  if (!access.tile.is_float()) return *bits == 0 ? std::optional(ir::PaddingValue::Zero) : std::nullopt;
  for (const auto p : {ir::PaddingValue::Zero, ir::PaddingValue::NegZero, ir::PaddingValue::NaN,
                       ir::PaddingValue::PosInf, ir::PaddingValue::NegInf}) {
    const auto of_view = ir::from_double(access.tile.elem(), ir::padding_number(p));
    if (of_view == *bits) return p;
  }
  return std::nullopt;
}

struct WholeTile {
  Operation* load;
  Region region;
  ir::PaddingValue padding;
  std::vector<bool> inside;  ///< by axis: the tile does not reach beyond the tensor
};

class Regions {
 public:
  Regions(ir::Function& f, const Known& known, const analysis::LaunchContract& contract)
      : f_(f), known_(known), contract_(contract) {}

  std::optional<WholeTile> whole_tile(Operation& load) const {
    const auto access = analysis::access_of(load);
    if (!access || !access->unordered_load()) return std::nullopt;
    const auto region = analysis::region_of_load(load);
    if (!region) return std::nullopt;
    WholeTile whole{&load, *region, ir::PaddingValue::Zero, {}};
    for (const RegionAxis& axis : region->axes) {
      if (axis.inside == nullptr && axis.start) return std::nullopt;
      if (axis.inside != nullptr && !known_.tiles.contains(axis.inside)) return std::nullopt;
      whole.inside.push_back(axis.inside == nullptr || known_.holds_in(access->mask, *axis.inside));
    }
    if (std::ranges::find(whole.inside, false) == whole.inside.end()) return whole;  // nothing is padded
    const auto padding = padding_of(*access);
    if (!padding) return std::nullopt;
    whole.padding = *padding;
    return whole;
  }

  Operation* use_view(const WholeTile& whole) {
    Builder b = Builder::before(whole.load);
    b.loc = whole.load->loc;
    const Type tile = whole.load->result(0).type();
    std::vector<std::int64_t> shape, strides;
    std::vector<Value> sizes, steps;
    for (std::size_t a = 0; a < whole.region.axes.size(); ++a) {
      const RegionAxis& axis = whole.region.axes[a];
      shape.push_back(axis.inside != nullptr ? number(b, axis.extent, sizes) : tile.shape()[a]);
      // An axis of one element may have any stride. One beyond the tile is not taken for the contiguous axis.
      strides.push_back(!axis.steps ? tile.num_elements() : axis.stride ? number(b, axis.stride, steps) : 1);
    }
    const std::uint32_t of_tensor[] = {1, static_cast<std::uint32_t>(sizes.size()),
                                       static_cast<std::uint32_t>(steps.size())};
    std::vector<Value> operands{whole.region.base};
    operands.insert(operands.end(), sizes.begin(), sizes.end());
    operands.insert(operands.end(), steps.begin(), steps.end());
    const Type tensor_type[] = {Type::tensor_view(tile.elem(), shape, strides)};
    const Value tensor = b.create_grouped(Op::MakeTensorView, operands, of_tensor, tensor_type)->result();
    const std::vector<std::int32_t> extents(tile.shape().begin(), tile.shape().end());
    const Type view_type = Type::partition_view(tensor_type[0], extents, {}, whole.padding);
    operands = {b.create(Op::MakePartitionView, {tensor}, {view_type})->result()};
    for (std::size_t a = 0; a < whole.region.axes.size(); ++a)
      operands.push_back(index(b, whole.region.axes[a].start, tile.shape()[a]));
    const std::uint32_t of_load[] = {1, static_cast<std::uint32_t>(tile.shape().size()), 0};
    const Type results[] = {tile, Type::token()};
    Operation* made = b.create_grouped(Op::LoadViewTko, operands, of_load, results);
    copy_ordering(*whole.load, *made);
    if (std::ranges::find(whole.inside, true) != whole.inside.end())
      made->set_attr(AttrName::inbounds, ir::BoolArrayAttr{whole.inside});
    for (std::size_t i = 0; i < 2; ++i) whole.load->result(i).replace_all_uses_with(made->result(i));
    whole.load->erase();
    return made;
  }

 private:
  /// A static extent or stride, or kDynamic and the value among `dynamic`.
  std::int64_t number(Builder& b, Value v, std::vector<Value>& dynamic) const {
    if (const auto c = constant_int(v)) return *c;
    // An extent is an argument in [0, 2^31 - 1], which the kernel truncates to compare with it.
    const Operation* op = v.def();
    const Value argument = op != nullptr && op->op() == Op::TruncI ? op->operand(0) : Value();
    const bool is_extent = argument && argument.argument_block() == &f_.body() &&
                           argument.index() < contract_.args.size() &&
                           contract_.args[argument.index()].role == analysis::ArgRole::Dim;
    dynamic.push_back(is_extent ? argument : as_i64(b, v, ir::Signedness::Unsigned));
    return ir::kDynamic;
  }

  /// start / n, for a start in [0, 2^31) that is a multiple of n: a shift cannot be wrong.
  Value index(Builder& b, Value start, std::int64_t n) const {
    if (!start) return b.constant_int(ir::Elem::I32, 0);
    if (n == 1) return start;
    if (const auto c = constant_int(start)) return b.constant_int(ir::Elem::I32, *c / n);
    const Value by = b.constant_int(ir::Elem::I32, std::countr_zero(static_cast<std::uint64_t>(n)));
    return b.create(Op::ShRI, {start, by}, {start.type()}, {{AttrName::signedness, ir::Signedness::Unsigned}})
        ->result();
  }

  ir::Function& f_;
  const Known& known_;
  const analysis::LaunchContract& contract_;
};

/// What is n times smaller than `v`, a sum of multiples of n, without a division; null if `v` has another form. Where n
/// times the result does not wrap it is v / n.
Value quotient(Builder& b, Value v, std::int64_t n) {
  if (const auto c = constant_int(v)) return *c >= 0 && *c % n == 0 ? b.constant_int(ir::Elem::I32, *c / n) : Value();
  const Operation* op = v.def();
  if (op == nullptr) return {};
  if (op->op() == Op::MulI) {
    for (std::size_t side = 0; side < 2; ++side) {
      const auto c = constant_int(op->operand(side));
      if (!c || *c <= 0 || *c % n != 0) continue;
      const Value x = op->operand(1 - side);
      return *c == n ? x : b.create(Op::MulI, {x, b.constant_int(ir::Elem::I32, *c / n)}, {x.type()})->result();
    }
  }
  if (op->op() != Op::AddI) return {};
  const Value x = quotient(b, op->operand(0), n), y = x ? quotient(b, op->operand(1), n) : Value();
  return y ? b.create(Op::AddI, {x, y}, {x.type()})->result() : Value();
}

/// Indices that are shifts become what was multiplied, where that is shown to be in the range of such quotients.
void simplify_indices(ir::Function& f, const std::vector<Operation*>& loads, const Certifier* certifier) {
  struct Index {
    Operation* load;
    std::size_t operand;
    Value simple;
  };
  std::vector<Index> indices;
  std::vector<analysis::Claim> questions;
  for (Operation* load : loads) {
    const auto tile = load->result(0).type().shape();
    const std::size_t first = load->num_operands() - tile.size();
    for (std::size_t a = 0; a < tile.size(); ++a) {
      Operation* shift = load->operand(first + a).def();
      if (shift == nullptr || shift->op() != Op::ShRI || tile[a] == 1) continue;
      Builder b = Builder::before(shift);
      b.loc = load->loc;
      const Value simple = quotient(b, shift->operand(0), tile[a]);
      if (!simple) continue;
      // n * simple equals the start as far as 32 bits go; both lie in [0, 2^31), so they are equal.
      Operation* probe = b.create(Op::Assume, {simple}, {simple.type()},
                                  {{AttrName::predicate, ir::BoundedAttr{0, INT32_MAX / tile[a]}}});
      indices.push_back({load, first + a, simple});
      questions.push_back({.kind = ClaimKind::AtLeast, .op = probe, .lower = 0});
      questions.push_back({.kind = ClaimKind::AtMost, .op = probe, .upper = INT32_MAX / tile[a]});
    }
  }
  const std::vector<bool> answers = answered(certifier, f, questions);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    questions[2 * i].op->erase();
    if (answers[2 * i] && answers[2 * i + 1]) indices[i].load->set_operand(indices[i].operand, indices[i].simple);
  }
}

}  // namespace

std::vector<SourceLocation> regions_to_tiles(ir::Function& f, const Target& target,
                                             std::span<const analysis::Claim> claims, std::uint64_t predicates,
                                             const analysis::LaunchContract* contract, const Certifier* certifier) {
  if (!target.is_gpu() || contract == nullptr) return {};
  Known known;
  for (const analysis::Claim& c : claims) {
    if (!c.holds(predicates)) continue;
    if (c.kind == ClaimKind::StartsTile) known.tiles.insert(c.op);
    if (c.kind == ClaimKind::Condition && c.truth && c.op->num_results() == 1) known.conditions[c.op] = true;
  }
  if (known.tiles.empty()) return {};
  Regions regions(f, known, *contract);
  std::vector<WholeTile> found;
  ir::walk(f.body(), [&](Operation& op) {
    if (op.op() != Op::LoadPtrTko) return;
    if (auto whole = regions.whole_tile(op)) found.push_back(std::move(*whole));
  });
  std::vector<SourceLocation> where;
  std::vector<Operation*> loads;
  for (const WholeTile& whole : found) {
    where.push_back(whole.load->loc);
    loads.push_back(regions.use_view(whole));
  }
  simplify_indices(f, loads, certifier);
  return where;
}

}  // namespace tessera::passes
