// Taking addresses and masks apart. Sums of offsets are sums of 64 bits, which wrap as addresses do, so that their
// order does not matter; nothing is said about sums of fewer bits, which are extended after they have wrapped.
#include "codegen/cpu/separable.hpp"

#include <algorithm>

#include "tessera/analysis/access.hpp"

namespace tessera::cpu {
namespace {

using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Value;

const Operation* made_by(Value v, Op op) {
  const Operation* def = v.def();
  return def != nullptr && def->op() == op ? def : nullptr;
}

/// What is repeated along some axes.
Value repeated(Value v) {
  while (const Operation* op = made_by(v, Op::Broadcast)) v = op->operand(0);
  return v;
}

bool is_splat_constant(Value v) {
  const Operation* constant = made_by(v, Op::Constant);
  return constant != nullptr && constant->attr(ir::AttrName::value)->as<ir::DenseAttr>()->splat;
}

/// The axis along which the elements may differ; nullopt if there are several.
std::optional<int> axis_of(Value v) {
  if (is_splat_constant(v)) return kNoAxis;
  int axis = kNoAxis;
  const auto shape = v.type().shape();
  for (std::size_t a = 0; a < shape.size(); ++a) {
    if (shape[a] == 1) continue;
    if (axis != kNoAxis) return std::nullopt;
    axis = static_cast<int>(a);
  }
  return axis;
}

/// 0, 1, 2, ... along one axis.
bool is_counted(Value v) {
  while (const Operation* op = made_by(v, Op::Reshape)) v = op->operand(0);
  return made_by(v, Op::Iota) != nullptr;
}

/// Takes one access apart.
class Taker {
 public:
  explicit Taker(const analysis::Access& access) {
    ok_ = take_pointers(access.pointers) && (!access.mask || take_mask(access.mask)) && lists_one_axis(access.tile);
  }
  bool ok() const { return ok_; }
  SeparableAccess made;
  std::vector<const Operation*> taken;  ///< operations that are part of nothing that is left
  std::vector<Value> left;              ///< what still has to be computed

 private:
  bool take_pointers(Value v) {
    v = through_broadcasts(v);
    const Operation* op = v.def();
    if (v.type().rank() == 0 || axis_of(v) == kNoAxis) {
      made.base = keep(v);
      return true;
    }
    if (op == nullptr || op->op() != Op::Offset) return false;
    taken.push_back(op);
    const std::int64_t bytes = pointee_bytes(v.type());
    return bytes > 0 && take_offset(op->operand(1), bytes) && take_pointers(op->operand(0));
  }
  static std::int64_t pointee_bytes(ir::Type pointers) {
    const ir::ElemInfo& pointee = ir::info(pointers.elem());
    return pointee.bits < 8 && pointee.bits != 1 ? 0 : pointee.bytes;
  }

  bool take_offset(Value v, std::int64_t bytes) {
    v = through_broadcasts(v);
    const auto axis = axis_of(v);
    if (axis) {
      made.offsets.push_back(line(v, *axis, bytes));
      return true;
    }
    const Operation* sum = made_by(v, Op::AddI);
    if (sum == nullptr || v.type().elem() != Elem::I64) return false;
    taken.push_back(sum);
    return take_offset(sum->operand(0), bytes) && take_offset(sum->operand(1), bytes);
  }
  SeparableAccess::Offset line(Value v, int axis, std::int64_t bytes) {
    if (axis == kNoAxis) return {axis, false, keep(v), bytes};
    if (is_counted(v)) return {axis, true, Value{}, bytes};
    if (const Operation* product = made_by(v, Op::MulI); product != nullptr && v.type().elem() == Elem::I64)
      for (const std::size_t i : {0, 1}) {
        const Value count = repeated(product->operand(i)), factor = repeated(product->operand(1 - i));
        if (is_counted(count) && axis_of(count) == axis && axis_of(factor) == kNoAxis)
          return {axis, true, keep(factor), bytes};
      }
    return {axis, false, keep(v), bytes};
  }

  bool take_mask(Value v) {
    v = through_broadcasts(v);
    const auto axis = axis_of(v);
    if (const Operation* both = made_by(v, Op::AndI)) {
      taken.push_back(both);
      return take_mask(both->operand(0)) && take_mask(both->operand(1));
    }
    if (!axis) return false;
    made.limits.push_back(limit(v, *axis));
    return true;
  }
  SeparableAccess::Limit limit(Value v, int axis) {
    if (axis == kNoAxis) return {axis, false, Value{}, keep(v)};
    const Operation* compared = made_by(v, Op::CmpI);
    if (compared == nullptr || !is_unsigned_less(*compared)) return {axis, false, Value{}, keep(v)};
    const Value place = repeated(compared->operand(0)), bound = repeated(compared->operand(1));
    if (axis_of(bound) != kNoAxis || axis_of(place) != axis) return {axis, false, Value{}, keep(v)};
    if (is_counted(place)) {
      taken.push_back(compared);
      return {axis, true, Value{}, keep(bound)};
    }
    if (const Operation* sum = made_by(place, Op::AddI))
      for (const std::size_t i : {0, 1}) {
        const Value count = repeated(sum->operand(i)), first = repeated(sum->operand(1 - i));
        if (!is_counted(count) || axis_of(count) != axis || axis_of(first) != kNoAxis) continue;
        taken.push_back(compared);
        taken.push_back(sum);
        return {axis, true, keep(first), keep(bound)};
      }
    return {axis, false, Value{}, keep(v)};
  }
  static bool is_unsigned_less(const Operation& op) {
    return op.enum_attr<ir::ComparisonPredicate>(ir::AttrName::comparison_predicate) == ir::ComparisonPredicate::Less &&
           op.enum_attr<ir::Signedness>(ir::AttrName::signedness) == ir::Signedness::Unsigned;
  }

  /// At most one axis is not counted, and not the last one, whose elements are copied together.
  bool lists_one_axis(ir::Type tile) {
    const auto list = [&](int axis, bool counted) {
      if (axis == kNoAxis || counted) return true;
      if (made.listed != kNoAxis && made.listed != axis) return false;
      made.listed = axis;
      return true;
    };
    for (const auto& o : made.offsets)
      if (!list(o.axis, o.counted)) return false;
    for (const auto& l : made.limits)
      if (!list(l.axis, l.counted)) return false;
    const auto shape = tile.shape();
    const auto behind = std::ranges::find_if(shape.rbegin(), shape.rend(), [](std::int64_t n) { return n > 1; });
    const auto last = static_cast<int>(shape.rend() - behind) - 1;
    return made.listed == kNoAxis || made.listed != last;
  }

  Value through_broadcasts(Value v) {
    while (const Operation* op = made_by(v, Op::Broadcast)) {
      taken.push_back(op);
      v = op->operand(0);
    }
    return v;
  }
  Value keep(Value v) {
    left.push_back(v);
    return v;
  }

  bool ok_ = false;
};

bool could_be(const std::optional<analysis::Access>& access) {
  using Kind = analysis::AccessKind;
  if (!access || !access->pointers || (access->kind != Kind::Load && access->kind != Kind::Store)) return false;
  return access->op->enum_attr<ir::MemoryOrdering>(ir::AttrName::memory_ordering_semantics) ==
             ir::MemoryOrdering::Weak &&
         access->tile.num_elements() > 1 && (!access->padding || axis_of(repeated(access->padding)) == kNoAxis);
}

}  // namespace

SeparableAccesses::SeparableAccesses(const ir::Block& body, const std::unordered_set<const Operation*>& checked) {
  std::unordered_set<const Operation*> left = checked;
  ir::walk(body, [&](const Operation& op) {
    const auto access = analysis::access_of(op);
    if (!could_be(access)) return;
    Taker taker(*access);
    if (!taker.ok()) return;
    accesses.emplace(&op, std::move(taker.made));
    unneeded.insert(taker.taken.begin(), taker.taken.end());
    for (const Value v : taker.left)
      if (v.def() != nullptr) left.insert(v.def());
  });
  // What anything else uses is needed after all, and then what it uses.
  const auto is_used = [&](const Operation& op) {
    if (left.contains(&op)) return true;
    for (const ir::OpOperand* use = op.result().first_use(); use != nullptr; use = use->next) {
      if (unneeded.contains(use->owner)) continue;
      const auto at = accesses.find(use->owner);
      if (at == accesses.end()) return true;
      const auto access = analysis::access_of(*use->owner);
      if (access->value == use->value || access->padding == use->value) return true;
    }
    return false;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (auto op = unneeded.begin(); op != unneeded.end();) {
      const bool used = is_used(**op);
      op = used ? unneeded.erase(op) : std::next(op);
      changed = changed || used;
    }
  }
}

}  // namespace tessera::cpu
