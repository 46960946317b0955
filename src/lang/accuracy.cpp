// A backward data-flow analysis of which values must be precise. A floating-point value must be precise if an operation
// uses it whose result is not a floating-point tile (comparisons, conversions to integers, checks, prints), if it is
// stored wider than 16 bits, or if a value computed from it must be precise, through loops, branches, reductions, and
// through the memory of tensors that the kernel itself writes.
#include "lang/accuracy.hpp"

#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tessera::lang {

using ir::AttrName;
using ir::Block;
using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

constexpr int kNarrow = 16;  // bits: rounding to this width hides the approximation
constexpr int kUnknown = -1;

bool is_float_tile(Value v) { return v.type().is_tile() && v.type().is_float(); }

/// The entry argument whose memory a view or pointer refers to.
int root_of(Value v) {
  for (;;) {
    const Operation* op = v.def();
    if (op == nullptr) {
      const bool of_entry = v.argument_block() != nullptr && v.argument_block()->parent() == nullptr;
      return of_entry ? static_cast<int>(v.index()) : kUnknown;
    }
    switch (op->op()) {
      case Op::MakeTensorView:
      case Op::MakePartitionView:
      case Op::MakeStridedView:
      case Op::MakeGatherScatterView:
      case Op::Offset:
      case Op::Broadcast:
      case Op::Reshape:
      case Op::Permute:
      case Op::PtrToPtr:
      case Op::Assume:
      case Op::Extract: v = op->operand(0); break;
      default: return kUnknown;
    }
  }
}

bool is_loop(const Operation& op) { return op.op() == Op::For || op.op() == Op::Loop; }

class Demand {
 public:
  explicit Demand(ir::Function& f) {
    ir::walk(f.body(), [&](Operation& op) { look_at(op); });
    while (!work_.empty()) {
      const Value v = work_.back();
      work_.pop_back();
      if (Operation* op = v.def()) {
        through_result(*op, v.index());
      } else {
        through_argument(*v.argument_block(), v.index());
      }
    }
  }
  bool wants(Value v) const { return precise_.contains(v.impl()); }

 private:
  void want(Value v) {
    if (is_float_tile(v) && precise_.insert(v.impl()).second) work_.push_back(v);
  }
  void want_operands(const Operation& op, std::size_t first = 0) {
    for (std::size_t i = first; i < op.num_operands(); ++i) want(op.operand(i));
  }

  /// The operands that the operation needs precisely, whatever its results are used for.
  void look_at(Operation& op) {
    switch (op.op()) {
      case Op::StoreViewTko: return stored(op.single("tile"), op.single("view"));
      case Op::StorePtrTko: return stored(op.single("value"), op.single("destination"));
      case Op::AtomicRedViewTko: return stored(op.single("value"), op.single("view"));
      case Op::AtomicRMWTko: return stored(op.single("arg"), op.single("pointers"));
      case Op::AtomicCASTko: want(op.single("cmp")); return stored(op.single("val"), op.single("pointers"));
      case Op::For:
      case Op::Loop: loops_.insert_or_assign(&op, exits_of(op)); return;
      case Op::If:
      case Op::Yield:
      case Op::Continue:
      case Op::Break:
      case Op::Reduce:
      case Op::Scan: return;
      default: break;
    }
    bool floats = false;
    for (std::size_t i = 0; i < op.num_results(); ++i) floats |= is_float_tile(op.result(i));
    if (!floats) want_operands(op);
  }

  void stored(Value value, Value place) {
    if (!is_float_tile(value)) return;
    if (ir::info(value.type().elem()).bits > kNarrow) return want(value);
    stores_.push_back({root_of(place), value});
  }

  /// A value that is read from memory must be precise, so what the kernel itself stores there must be, too.
  void want_memory(int root) {
    if (!memory_.insert(root).second) return;
    for (const Store& s : stores_)
      if (s.root == root || s.root == kUnknown || root == kUnknown) want(s.value);
  }

  struct Exits {
    std::vector<const Operation*> continues, breaks;
  };
  static Exits exits_of(const Operation& loop) {
    Exits exits;
    const auto search = [&](const auto& self, const Block& block) -> void {
      for (const Operation& op : block) {
        if (op.op() == Op::Continue) exits.continues.push_back(&op);
        if (op.op() == Op::Break) exits.breaks.push_back(&op);
        if (is_loop(op)) continue;
        for (std::size_t i = 0; i < op.num_regions(); ++i) self(self, op.region(i));
      }
    };
    search(search, loop.region(0));
    return exits;
  }

  /// Loop-carried value number `i`: its initial value, and the value that each iteration yields.
  void want_carried(const Operation& loop, std::size_t i) {
    want(loop.operand(loop.op() == Op::For ? 3 + i : i));
    for (const Operation* op : loops_.at(&loop).continues) want(op->operand(i));
  }

  void want_fold(const Operation& fold) {
    want_operands(fold);
    want_operands(*fold.region(0).terminator());
  }

  void through_result(const Operation& op, std::size_t i) {
    switch (op.op()) {
      case Op::For: return want_carried(op, i);
      case Op::Loop:
        for (const Operation* end : loops_.at(&op).breaks) want(end->operand(i));
        return;
      case Op::If:
        for (std::size_t arm = 0; arm < op.num_regions(); ++arm)
          if (const Operation* end = op.region(arm).terminator(); end != nullptr && end->op() == Op::Yield)
            want(end->operand(i));
        return;
      case Op::Reduce:
      case Op::Scan: return want_fold(op);
      case Op::LoadViewTko: return want_memory(root_of(op.single("view")));
      case Op::LoadPtrTko:
        want_operands(op);  // the padding
        return want_memory(root_of(op.single("source")));
      case Op::AtomicRMWTko:
      case Op::AtomicCASTko: return want_memory(root_of(op.single("pointers")));
      default: return want_operands(op);
    }
  }

  void through_argument(const Block& block, std::size_t i) {
    const Operation* op = block.parent();
    if (op == nullptr) return;  // of the entry
    if (!is_loop(*op)) return want_fold(*op);
    want_carried(*op, op->op() == Op::For ? i - 1 : i);
  }

  struct Store {
    int root;
    Value value;
  };
  std::vector<Store> stores_;
  std::unordered_map<const Operation*, Exits> loops_;
  std::unordered_set<const ir::ValueImpl*> precise_;
  std::unordered_set<int> memory_;
  std::vector<Value> work_;
};

}  // namespace

void set_approximate(Operation& op) {
  // flush_to_zero is not set where operands could be denormal while the result is not: a sum of 1e-39 is a valid
  // divisor. The passes set it where they know the operand.
  if (op.info().attribute(AttrName::rounding_mode)) {
    op.set_attr(AttrName::rounding_mode, ir::Rounding::Approx);
  } else if (op.op() == Op::Exp2) {
    op.set_attr(AttrName::flush_to_zero, ir::UnitAttr{});
  }
}

void decide_accuracy(ir::Function& f, std::span<Operation* const> undecided) {
  if (undecided.empty()) return;
  const Demand demand(f);
  for (Operation* op : undecided)
    if (!demand.wants(op->result())) set_approximate(*op);
}

}  // namespace tessera::lang
