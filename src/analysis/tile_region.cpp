// Reads what src/lang/element_access.cpp records for a region:
//
//   p = base + start_0 * stride_0 + start_1 * stride_1        scalars, those that are 0 left out
//   pointers = p + iota * stride_0 + iota * stride_1          one tile for each axis longer than 1
//   mask = start_0 + iota < extent_0 and start_1 + iota < extent_1
//
// An axis of one element has no iota: its start is recognised by the comparison that reads it too.
#include "tessera/analysis/tile_region.hpp"

#include <algorithm>

#include "tessera/analysis/access.hpp"
#include "tessera/analysis/values.hpp"

namespace tessera::analysis {

using ir::AttrName;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

std::optional<std::size_t> reshaped_axis(Type from, std::size_t axis, Type to) {
  std::int64_t before = 1, at = 1;
  for (std::size_t a = 0; a < axis; ++a) before *= from.shape()[a];
  for (std::size_t a = 0; a < to.shape().size(); ++a) {
    if (at == before && to.shape()[a] == from.shape()[axis]) return a;
    at *= to.shape()[a];
  }
  return std::nullopt;
}

std::optional<std::size_t> axis_counted(Value v) {
  const Operation* op = v.def();
  if (op == nullptr) return std::nullopt;
  if (op->op() == Op::Iota) return 0;
  if (op->op() != Op::Broadcast && op->op() != Op::Reshape) return std::nullopt;
  const auto axis = axis_counted(op->operand(0));
  return axis ? axis_in_result(*op, *axis) : std::nullopt;
}

std::optional<std::size_t> axis_of_offsets(Value v) {
  const Operation* op = v.def();
  if (op == nullptr) return std::nullopt;
  if (op->op() == Op::ExtI) return axis_of_offsets(op->operand(0));
  if (op->op() == Op::Iota) {  // of fewer bits it may wrap
    const bool counts = v.type().num_elements() > 1 && ir::info(v.type().elem()).bits >= 32;
    return counts ? std::optional<std::size_t>(0) : std::nullopt;
  }
  if (op->op() != Op::Broadcast && op->op() != Op::Reshape) return std::nullopt;
  const auto axis = axis_of_offsets(op->operand(0));
  return axis ? axis_in_result(*op, *axis) : std::nullopt;
}

std::optional<std::size_t> axis_in_result(const Operation& change, std::size_t axis) {
  const Type from = change.operand(0).type(), to = change.result().type();
  if (change.op() == Op::Reshape) return reshaped_axis(from, axis, to);
  // A single 0 that is stretched does not count.
  return from.shape()[axis] == to.shape()[axis] ? std::optional(axis) : std::nullopt;
}

std::optional<Steps> steps_of(Value offsets) {
  if (const auto axis = axis_of_offsets(offsets)) return Steps{*axis, {}};
  const Operation* op = offsets.def();
  if (!op) return std::nullopt;
  if (op->op() == Op::Broadcast) {
    auto steps = steps_of(op->operand(0));
    const auto axis = steps ? axis_in_result(*op, steps->axis) : std::nullopt;
    return axis ? steps : std::nullopt;
  }
  if (op->op() != Op::MulI || offsets.type().elem() != ir::Elem::I64) return std::nullopt;
  for (std::size_t side = 0; side < 2; ++side) {
    const auto axis = axis_of_offsets(op->operand(side));
    const Value stride = behind_shapes(op->operand(1 - side));
    if (axis && stride.type().rank() == 0) return Steps{*axis, stride};
  }
  return std::nullopt;
}

namespace {

/// True if both are one value, or constants of one number, in whatever width.
bool is_same(Value a, Value b) {
  if (a == b) return true;
  const auto x = constant_int(a), y = constant_int(b);
  return x && y && *x == *y;
}

/// A start times a stride that is added to the address of the whole tile.
struct Move {
  Value start, stride;  ///< start null, stride null: 1
  Value before;         ///< the address without it
  bool taken = false;
};

/// What is added to a scalar address, the last first.
std::vector<Move> moves_of(Value base) {
  std::vector<Move> moves;
  for (const Operation* op = base.def(); op != nullptr && op->op() == Op::Offset; op = base.def()) {
    Move m;
    Value along = op->operand(1);
    if (const Operation* product = along.def(); product != nullptr && product->op() == Op::MulI) {
      along = product->operand(0);
      m.stride = product->operand(1);
    }
    const Operation* widened = along.def();
    const bool extends = widened != nullptr && widened->op() == Op::ExtI &&
                         widened->enum_attr<ir::Signedness>(AttrName::signedness) == ir::Signedness::Signed;
    m.start = extends ? widened->operand(0) : along;
    // A recording leaves out the multiplication by a start of 1.
    if (!m.stride && !extends && !constant_int(along)) std::swap(m.start, m.stride);
    base = m.before = op->operand(0);
    moves.push_back(m);
  }
  return moves;
}

/// A comparison of a mask: the positions start + 0, 1, ... along `axis` are below `extent`.
struct Inside {
  Operation* op = nullptr;
  std::optional<std::size_t> axis;  ///< nothing: of an axis of one element
  Value start;                      ///< null: 0
  Value extent;
};

std::optional<Inside> inside_of(Operation& op) {
  if (op.op() != Op::CmpI || op.operand(0).type().elem() != ir::Elem::I32 ||
      op.enum_attr<ir::Signedness>(AttrName::signedness) != ir::Signedness::Unsigned ||
      op.enum_attr<ir::ComparisonPredicate>(AttrName::comparison_predicate) != ir::ComparisonPredicate::Less)
    return std::nullopt;
  Inside in{&op, {}, {}, behind_shapes(op.operand(1))};
  if (in.extent.type().rank() != 0) return std::nullopt;
  const Value places = op.operand(0);
  if (const Value scalar = behind_shapes(places); scalar.type().rank() == 0) {
    in.start = scalar;
    return in;
  }
  if ((in.axis = axis_of_offsets(places))) return in;
  const Operation* sum = places.def();
  if (sum == nullptr || sum->op() != Op::AddI) return std::nullopt;
  for (std::size_t side = 0; side < 2; ++side) {
    in.axis = axis_of_offsets(sum->operand(side));
    in.start = behind_shapes(sum->operand(1 - side));
    if (in.axis && in.start.type().rank() == 0) return in;
  }
  return std::nullopt;
}

/// The comparisons that a mask joins; false if it is anything else. Their axes are those of the mask.
bool comparisons_of(Value mask, std::vector<Inside>& found) {
  constexpr std::size_t kAxisLimit = 8;
  Operation* op = mask.def();
  if (op == nullptr || found.size() > kAxisLimit) return false;
  if (op->op() == Op::AndI) return comparisons_of(op->operand(0), found) && comparisons_of(op->operand(1), found);
  if (op->op() == Op::Broadcast) return comparisons_of(op->operand(0), found);
  if (op->op() == Op::Reshape) return op->operand(0).type().rank() == 0 && comparisons_of(op->operand(0), found);
  const auto inside = inside_of(*op);
  if (inside) found.push_back(*inside);
  return inside.has_value();
}

class RegionReader {
 public:
  explicit RegionReader(const Access& access) : access_(access), shape_(access.tile.shape()) {
    region_.axes.resize(shape_.size());
  }

  std::optional<Region> read() {
    if (!peel_tile() || (access_.mask && !comparisons_of(access_.mask, inside_))) return std::nullopt;
    moves_ = moves_of(address_);
    if (!place_long_axes() || !place_short_axes()) return std::nullopt;
    // What no axis has taken is a part of the base, if it is added first.
    while (!moves_.empty() && !moves_.back().taken) moves_.pop_back();
    if (!std::ranges::all_of(moves_, [](const Move& m) { return m.taken; })) return std::nullopt;
    region_.base = moves_.empty() ? address_ : moves_.back().before;
    return region_;
  }

 private:
  /// From the pointers of the elements to the address of the tile.
  bool peel_tile() {
    Value p = access_.pointers;
    while (p.type().rank() > 0) {
      const Operation* op = p.def();
      if (op == nullptr) return false;
      if (op->op() == Op::Offset) {
        const auto steps = steps_of(op->operand(1));
        if (!steps || steps->axis >= shape_.size() || region_.axes[steps->axis].steps) return false;
        region_.axes[steps->axis].steps = true;
        region_.axes[steps->axis].stride = steps->stride;
      } else if (op->op() == Op::Reshape ? op->operand(0).type().rank() > 0 : op->op() != Op::Broadcast) {
        return false;
      }
      p = op->operand(0);
    }
    address_ = p;
    for (std::size_t a = 0; a < shape_.size(); ++a)
      if ((shape_[a] > 1) != region_.axes[a].steps) return false;
    return true;
  }

  /// The move of that start and stride; null if there is none, or more than one.
  Move* find(Value start, const std::optional<Value>& stride) {
    Move* found = nullptr;
    for (Move& m : moves_) {
      if (m.taken || !(m.start ? is_same(m.start, start) : constant_int(start) == 1)) continue;
      if (stride && (*stride ? !m.stride || !is_same(*stride, m.stride) : static_cast<bool>(m.stride))) continue;
      if (found != nullptr) return nullptr;
      found = &m;
    }
    return found;
  }

  void compare(RegionAxis& axis, const Inside& in) {
    axis.extent = in.extent;
    axis.inside = in.op;
    axis.start = in.start;
  }

  bool place_long_axes() {
    for (const Inside& in : inside_) {
      if (!in.axis) continue;
      RegionAxis& axis = region_.axes[*in.axis];
      if (!axis.steps || axis.inside != nullptr) return false;
      compare(axis, in);
      if (!in.start) continue;
      Move* const m = find(in.start, axis.stride);
      if (m == nullptr) return false;
      m->taken = true;
    }
    return true;
  }

  bool place_short_axes() {
    std::size_t next = 0;
    for (const Inside& in : inside_) {
      if (in.axis) continue;
      while (next < shape_.size() && shape_[next] > 1) ++next;
      if (next == shape_.size()) return false;
      RegionAxis& axis = region_.axes[next++];
      compare(axis, in);
      if (constant_int(in.start) == 0) {
        axis.start = {};
        continue;
      }
      Move* const m = find(in.start, std::nullopt);
      if (m == nullptr) return false;
      m->taken = true;
      axis.steps = true;
      axis.stride = m->stride;
    }
    return true;
  }

  const Access& access_;
  std::span<const std::int64_t> shape_;
  Region region_;
  Value address_;  ///< of the tile
  std::vector<Inside> inside_;
  std::vector<Move> moves_;
};

}  // namespace

std::optional<Region> region_of_load(const Operation& load) {
  if (load.op() != Op::LoadPtrTko) return std::nullopt;
  const auto access = access_of(load);
  return access ? RegionReader(*access).read() : std::nullopt;
}

bool is_made_of_multiples(Value v, std::int64_t n) {
  constexpr int kDeepest = 8;
  const auto made = [n](const auto& self, Value x, int depth) -> bool {
    if (const auto c = constant_int(x)) return *c % n == 0;
    const Operation* op = x.def();
    if (op == nullptr || depth == 0) return false;
    if (op->op() == Op::MulI) return self(self, op->operand(0), depth - 1) || self(self, op->operand(1), depth - 1);
    if (op->op() == Op::AddI || op->op() == Op::SubI)
      return self(self, op->operand(0), depth - 1) && self(self, op->operand(1), depth - 1);
    return false;
  };
  return n == 1 || made(made, v, kDeepest);
}

}  // namespace tessera::analysis
