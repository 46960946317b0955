// How many registers the tiles of a kernel take that are live at once.
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "tessera/analysis/access.hpp"
#include "tessera/analysis/dependents.hpp"
#include "tessera/analysis/kernel_facts.hpp"

namespace tessera::analysis {

using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

constexpr std::int64_t kRegisterBits = 32;

class Liveness {
 public:
  explicit Liveness(const ir::Function& f) : loaded_(computed_from_memory(f)) {
    found_.most = most_bits(f.body()) / kRegisterBits;
    found_.in_loop /= kRegisterBits;
  }
  LiveRegisters found() const { return found_; }

 private:
  /// Bits of the values that are live at once in a block, without those from outside of it. Values that its operations
  /// use in their regions are live until these end.
  std::int64_t most_bits(const ir::Block& block) {
    std::unordered_map<const Operation*, std::size_t> place;
    for (const Operation& op : block) place.emplace(&op, place.size());
    std::vector<std::int64_t> ended(place.size());
    std::int64_t live = 0;
    const auto begin_of = [&](Value v, std::size_t at) {
      const std::int64_t bits = bits_of(v);
      const std::size_t last = bits == 0 ? 0 : last_use(v, block, place);
      if (last > at) live += bits, ended[last] += bits;
    };
    for (std::size_t i = 0; i < block.num_args(); ++i) begin_of(block.arg(i), 0);
    std::int64_t most = live;
    std::size_t at = 0;
    for (const Operation& op : block) {
      std::int64_t inside = 0;
      for (std::size_t r = 0; r < op.num_regions() && op.op() != Op::Reduce && op.op() != Op::Scan; ++r)
        inside = std::max(inside, most_bits(op.region(r)));
      most = std::max(most, live + inside);
      if ((op.op() == Op::For || op.op() == Op::Loop) && loads_directly(op.region(0)))
        found_.in_loop = std::max(found_.in_loop, live + inside);
      for (std::size_t r = 0; r < op.num_results(); ++r) begin_of(op.result(r), at);
      most = std::max(most, live);  // what an operation reads is there until its results are
      live -= ended[at++];
    }
    return most;
  }

  static bool loads_directly(const ir::Block& body) {
    return std::any_of(body.begin(), body.end(),
                       [](const Operation& op) { return is_load(op) && op.result(0).type().num_elements() > 1; });
  }

  /// The place of the last operation of the block that uses `v`, or has a region that does; 0 if there is none.
  static std::size_t last_use(Value v, const ir::Block& block,
                              const std::unordered_map<const Operation*, std::size_t>& place) {
    std::size_t last = 0;
    for (const ir::OpOperand* use = v.first_use(); use != nullptr; use = use->next) {
      const Operation* user = use->owner;
      while (user != nullptr && user->block() != &block) user = user->parent_op();
      if (user != nullptr) last = std::max(last, place.at(user));
    }
    return last;
  }

  std::int64_t bits_of(Value v) const {
    const ir::Type t = v.type();
    if (!t.is_tile() || t.is_pointer() || t.num_elements() == 1 || ir::info(t.elem()).bits <= 1) return 0;
    if (const Operation* def = v.def()) {
      if (def->num_operands() == 0 || def->op() == Op::Broadcast) return 0;
      if (!t.is_float() && !loaded_.contains(v)) return 0;
    }
    return t.num_elements() * ir::info(t.elem()).bits;
  }

  ComputedFrom loaded_;
  LiveRegisters found_;  // in bits until the end
};

}  // namespace

LiveRegisters live_registers(const ir::Function& f) { return Liveness(f).found(); }

}  // namespace tessera::analysis
