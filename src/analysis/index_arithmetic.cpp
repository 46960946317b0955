// A backward slice from the operands of accesses, through loops and branches.
#include "tessera/analysis/index_arithmetic.hpp"

#include <unordered_set>

#include "tessera/analysis/access.hpp"
#include "tessera/analysis/values.hpp"

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
    const auto access = access_of(op);
    if (!access) return;
    work_.insert(work_.end(), access->index.begin(), access->index.end());
    if (access->pointers) work_.push_back(access->pointers);
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
      case Op::PtrToPtr:
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
    if (v.index() < first_carried_arg(*loop)) return;
    const std::size_t carried = v.index() - first_carried_arg(*loop);
    work_.push_back(loop->operand(first_carried_operand(*loop) + carried));
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
