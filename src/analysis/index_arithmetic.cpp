// A backward slice from the operands of accesses, through loops and branches.
#include "tessera/analysis/index_arithmetic.hpp"

#include <unordered_set>

namespace tessera::analysis {
namespace {

using ir::Op;

class Slice {
 public:
  explicit Slice(const ir::Block& body) {
    ir::walk(body, [&](const ir::Operation& op) { start_from(op); });
    while (!work_.empty()) {
      const ir::Value v = work_.back();
      work_.pop_back();
      if (seen_.insert(v.impl()).second) follow(v);
    }
  }
  bool contains(const ir::Operation& op) const { return found_.contains(&op); }

 private:
  void start_from(const ir::Operation& op) {
    if (!op.info().has(ir::traits::Read | ir::traits::Write) && op.op() != Op::MakeTensorView) return;
    for (const char* name : {"index", "source", "destination", "pointers"}) {
      if (op.info().operand_group(name) < 0) continue;
      for (const ir::Value v : op.group(name)) work_.push_back(v);
    }
  }

  void follow(ir::Value v) {
    if (v.def() == nullptr) return follow_argument(v);
    const ir::Operation& op = *v.def();
    switch (op.op()) {
      case Op::AddI:
      case Op::SubI:
      case Op::MulI:
      case Op::NegI: found_.insert(&op); [[fallthrough]];
      case Op::Select:
      case Op::Broadcast:
      case Op::Reshape:
      case Op::Permute:
      case Op::ExtI:
      case Op::TruncI:
      case Op::MaxI:
      case Op::MinI:
      case Op::Offset:
      case Op::Cat:
      case Op::Extract:
      case Op::Assume:
        for (const ir::Value o : op.operand_values()) work_.push_back(o);
        break;
      case Op::If:
      case Op::For:
        for (std::size_t r = 0; r < op.num_regions(); ++r) follow_terminator(op.region(r), v.index());
        break;
      default: break;
    }
  }
  /// A loop's carried value: what it starts with, and what each iteration passes on.
  void follow_argument(ir::Value v) {
    const ir::Operation* loop = v.argument_block()->parent();
    if (loop == nullptr || (loop->op() != Op::For && loop->op() != Op::Loop)) return;
    const bool counted = loop->op() == Op::For;  // bounds and step come before the carried values, the counter as well
    if (counted && v.index() == 0) return;
    const std::size_t carried = v.index() - (counted ? 1 : 0);
    work_.push_back(loop->operand(carried + (counted ? 3 : 0)));
    follow_terminator(*v.argument_block(), carried);
  }
  void follow_terminator(const ir::Block& region, std::size_t i) {
    const ir::Operation* end = region.terminator();
    if (end != nullptr && i < end->num_operands()) work_.push_back(end->operand(i));
  }

  std::vector<ir::Value> work_;
  std::unordered_set<const ir::ValueImpl*> seen_;
  std::unordered_set<const ir::Operation*> found_;
};

}  // namespace

std::vector<const ir::Operation*> index_arithmetic(const ir::Block& body) {
  const Slice slice(body);
  std::vector<const ir::Operation*> ordered;
  ir::walk(body, [&](const ir::Operation& op) {
    if (slice.contains(op)) ordered.push_back(&op);
  });
  return ordered;
}

}  // namespace tessera::analysis
