// How many instructions a kernel takes for each byte that it moves, from its operations on tiles, and whether it loads
// neighbours. An estimate: what is the same for all elements of a tile, and what finds addresses, is counted with the
// accesses.
#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tessera/analysis/access.hpp"
#include "tessera/analysis/divisibility.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/analysis/values.hpp"

namespace tessera::analysis {

using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

constexpr double kAccess = 4;      // address, its part in the mask, predicate, the access itself
constexpr double kFunction = 8;    // exponentials, divisions: several instructions, some at a quarter of the rate
constexpr double kReciprocal = 5;  // a division of 1, with whose result relax_math multiplies

double instructions_of(Op op) {
  switch (op) {
    case Op::Assume:
    case Op::Bitcast:
    case Op::Broadcast:
    case Op::Constant:
    case Op::Extract:
    case Op::Iota:
    case Op::Reshape: return 0;
    case Op::Atan2:
    case Op::Cos:
    case Op::CosH:
    case Op::DivF:
    case Op::DivI:
    case Op::Exp:
    case Op::Exp2:
    case Op::FPowI:
    case Op::Log:
    case Op::Log2:
    case Op::Pow:
    case Op::RemF:
    case Op::RemI:
    case Op::Rsqrt:
    case Op::Sin:
    case Op::SinH:
    case Op::Sqrt:
    case Op::Tan:
    case Op::TanH: return kFunction;
    default: return 1;
  }
}

/// 1 / x by one instruction of the GPU, as relax_math writes it.
bool is_reciprocal(const Operation& op) {
  return op.op() == Op::DivF && op.has_attr(ir::AttrName::flush_to_zero) && constant_float(op.operand(0)) == 1.0;
}

/// The address that pointers, or the base of a tensor, were made from.
Value base_of(Value pointers) {
  for (const Operation* def = pointers.def(); def != nullptr; def = pointers.def()) {
    if (def->op() != Op::Offset && def->op() != Op::Broadcast && def->op() != Op::Reshape && def->op() != Op::Assume &&
        def->op() != Op::PtrToPtr)
      break;
    pointers = def->operand(0);
  }
  return pointers;
}

/// What an access moves: a tile of a partition of a tensor, or for pointers the surroundings of a place in it, which
/// neighbours in a stencil share.
using Part = std::vector<const ir::ValueImpl*>;
Part part_of(const Access& access) {
  const Operation* tensor = access.view ? tensor_behind(access.view) : nullptr;
  Part part{base_of(tensor ? tensor->single("base") : access.reached_through()).impl()};
  for (const Value index : access.index) part.push_back(index.impl());
  return part;
}

/// Which loops move an access to another place of its tensor.
class MovingLoops {
 public:
  /// Iterations, estimated, of those of the loops around an access.
  std::int64_t iterations(const Access& access) {
    std::int64_t times = 1;
    for (const Operation* loop = access.op->parent_op(); loop != nullptr; loop = loop->parent_op()) {
      if (loop->op() != Op::For) continue;
      const Values& values = moved_by(*loop);
      const auto moves = [&](Value v) { return v && values.contains(v.impl()); };
      if (moves(access.reached_through()) || std::ranges::any_of(access.index, moves))
        times *= static_cast<std::int64_t>(kAssumedTrips);
    }
    return times;
  }

 private:
  using Values = std::unordered_set<const ir::ValueImpl*>;
  /// The induction variable, and what is computed from it without reading memory.
  const Values& moved_by(const Operation& loop) {
    const auto [it, fresh] = moved_.try_emplace(&loop);
    if (!fresh) return it->second;
    std::vector<Value> work{loop.region(0).arg(0)};
    while (!work.empty()) {
      const Value v = work.back();
      work.pop_back();
      if (!it->second.insert(v.impl()).second) continue;
      for (const ir::OpOperand* use = v.first_use(); use != nullptr; use = use->next)
        for (std::size_t i = 0; is_pure(*use->owner) && i < use->owner->num_results(); ++i)
          work.push_back(use->owner->result(i));
    }
    return it->second;
  }
  std::unordered_map<const Operation*, Values> moved_;
};

/// True for a load in the prologue of a software-pipelined loop (prefetch_loads): only loops use its tile, as an
/// initial value.
bool is_prologue_load(const Operation& load) {
  for (const ir::OpOperand* use = load.result(0).first_use(); use != nullptr; use = use->next)
    if (use->owner->op() != Op::For) return false;
  return load.result(0).has_uses();
}

/// Instructions, and those among them that divisions and functions take.
struct Cost {
  double all = 0, functions = 0;
  Cost& operator+=(const Cost& other) {
    all += other.all, functions += other.functions;
    return *this;
  }
  Cost operator*(double times) const { return {all * times, functions * times}; }
};

class Estimate {
 public:
  explicit Estimate(const ir::Function& f) : known_(f) {
    ir::walk(f.body(), [&](const Operation& op) {
      if (const auto access = access_of(op)) add_address(*access);
    });
    cost_ = of(f.body());
  }
  BlockWork work() const {
    BlockWork w;
    for (const auto& [part, most] : moved_) w.bytes += most;
    w.instructions = cost_.all;
    w.functions = cost_.functions;
    return w;
  }

 private:
  /// What an access's pointers and mask are computed from.
  void add_address(const Access& access) {
    std::vector<Value> work{access.pointers, access.mask};
    work.insert(work.end(), access.index.begin(), access.index.end());
    while (!work.empty()) {
      const Value v = work.back();
      work.pop_back();
      if (!v || v.def() == nullptr || !is_pure(*v.def()) || !addresses_.insert(v.def()).second) continue;
      for (const Value operand : v.def()->operand_values()) work.push_back(operand);
    }
  }
  Cost of(const ir::Block& block) {
    Cost all;
    for (const Operation& op : block) all += of(op);
    return all;
  }
  Cost of(const Operation& op) {
    if (const auto access = access_of(op)) return {of(*access), 0};
    if (op.op() == Op::For || op.op() == Op::Loop) return of(op.region(0)) * trips(op);
    if (op.op() == Op::If) {
      Cost most;  // one of the arms runs
      for (std::size_t r = 0; r < op.num_regions(); ++r) {
        const Cost arm = of(op.region(r));
        if (arm.all > most.all) most = arm;
      }
      return most;
    }
    if (op.num_results() == 0 || !op.result(0).type().is_tile() || addresses_.contains(&op)) return {};
    const double each = is_reciprocal(op) ? kReciprocal : instructions_of(op.op());
    const double all = static_cast<double>(op.result(0).type().num_elements()) * each;
    return {all, each == kFunction || each == kReciprocal ? all : 0};
  }
  /// A loop with a step of n, such as one that prefetch_loads has unrolled, has as many iterations less.
  static double trips(const Operation& loop) {
    const auto step = loop.op() == Op::For ? constant_int(loop.operand(2)) : std::nullopt;
    return std::max(kAssumedTrips / static_cast<double>(std::max<std::int64_t>(step.value_or(1), 1)), 1.0);
  }
  double of(const Access& access) {
    const std::int64_t elements = access.tile.num_elements(), bytes = ir::info(access.tile.elem()).bytes;
    std::int64_t& most = moved_[part_of(access)];
    most = std::max(most, elements * bytes * loops_.iterations(access));
    const std::int64_t at_a_time =
        std::max(vector_bytes(*access.op, known_) / std::max<std::int64_t>(bytes, 1), std::int64_t{1});
    return kAccess * static_cast<double>(elements) / static_cast<double>(at_a_time);
  }

  Divisibility known_;
  MovingLoops loops_;
  std::unordered_set<const Operation*> addresses_;
  std::map<Part, std::int64_t> moved_;  // of each part of a tensor, the bytes of its largest tile in all iterations
  Cost cost_;
};

}  // namespace

BlockWork work_of(const ir::Function& f) { return Estimate(f).work(); }

double instructions_per_byte(const ir::Function& f) {
  const BlockWork work = work_of(f);
  return work.bytes == 0 ? 0 : work.instructions / static_cast<double>(work.bytes);
}

// What a loop loads in its iterations are other places of a tensor, not neighbours around one, also where
// prefetch_loads has unrolled it.
Neighbours neighbours_of(const ir::Function& f) {
  constexpr int kFewest = 3;
  struct Loads {
    int single = 0, whole = 0, other = 0;
  };
  const Divisibility known(f);
  std::map<Part, Loads> of_part;
  MovingLoops loops;
  ir::walk(f.body(), [&](const Operation& op) {
    const auto access = access_of(op);
    if (!access || !access->loads() || loops.iterations(*access) > 1 || is_prologue_load(op)) return;
    const std::int64_t bytes = vector_bytes(op, known);
    Loads& loads = of_part[part_of(*access)];
    const bool single = bytes == ir::info(access->tile.elem()).bytes, whole = bytes == kVectorBytes;
    ++(single ? loads.single : whole ? loads.whole : loads.other);
  });
  Neighbours found = Neighbours::None;
  for (const auto& [_, loads] : of_part) {
    if (loads.single + loads.whole < kFewest) continue;
    if (loads.single > 0 && loads.whole > 0) return Neighbours::Mixed;
    if (loads.single == 0 && loads.other == 0) found = Neighbours::Whole;
  }
  return found;
}

}  // namespace tessera::analysis
