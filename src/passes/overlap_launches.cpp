// Lets a kernel start before the end of the one before it in its stream has been noticed. The kernel then waits by
// itself, before its first access of memory, for everything that came before it. What is gained is the time between two
// kernels: launching blocks, setting up barriers and descriptors.
//
//   entry { ... load ... }   =>   entry { t = gdc_wait; ... load token t ... }
//
// docs/compiler/overlap_launches.md says why this is legal for every kernel.
#include <algorithm>
#include <limits>
#include <vector>

#include "passes/kernel_facts.hpp"
#include "passes/rewriter.hpp"
#include "passes/values.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

namespace {

constexpr int kFirstSm = 90;            // griddepcontrol: PTX ISA, "Target ISA notes"
constexpr int kFirstBytecodeMinor = 4;  // gdc_wait_tko, gdc_launch_dependents_tko

bool accesses_memory(const Operation& op) {
  return op.info().has(ir::traits::Read) || op.info().has(ir::traits::Write);
}

Operation* create(ir::Builder& b, Op op) {
  const std::vector<std::uint32_t> no_token{0};
  const std::vector<Type> token{Type::token()};
  return b.create_grouped(op, {}, no_token, token);
}

/// The last operation of `body` that accesses memory, or in which something does; there is one.
Operation* last_access(ir::Block& body) {
  Operation* last = nullptr;
  for (Operation& op : body) {
    bool accesses = accesses_memory(op);
    for (std::size_t r = 0; r < op.num_regions(); ++r)
      ir::walk(op.region(r), [&](const Operation& inner) { accesses = accesses || accesses_memory(inner); });
    if (accesses) last = &op;
  }
  return last;
}

// One H200, nanoseconds: blocks of early launches are started at half the rate (rows of 1000, 1023 and 1024 elements of
// bf16, RMS norm and softmax, 131200 to 262144 blocks: 1.21 each; without, rows of 512: 0.61), and what an early start
// gains.
constexpr double kBlockTime = 0.61, kEarlyBlockTime = 1.21, kGain = 2000;
constexpr double kBytesATime = 4500;  // of memory, in the unit of kBlockTime: nanoseconds
constexpr std::int64_t kMany = std::numeric_limits<std::int64_t>::max();

Value block_number(const ir::Function& f) {
  Value found;
  ir::walk(f.body(), [&](const Operation& op) {
    if (op.op() == Op::GetTileBlockId && !found) found = op.result(0);
  });
  return found;
}

std::int64_t bytes_of(Type tile) { return tile.num_elements() * ir::info(tile.elem()).bits / 8; }

/// Bytes that the accesses of `block` move, if the number of the block decides where: what all blocks read comes from
/// the caches. kMany if there are accesses in a loop: that takes longer than the start of a block, as a rule.
std::int64_t bytes_of_a_block(const ir::Block& block, Value id) {
  std::int64_t sum = 0;
  for (const Operation& op : block) {
    std::int64_t most = 0;
    if (accesses_memory(op)) {
      bool own = false;
      for (const ir::OpOperand& use : op.operands()) own = own || depends_on(use.value, id);
      const Type tile = is_load(op)                   ? op.result(0).type()
                        : op.op() == Op::StoreViewTko ? op.single("tile").type()
                        : op.op() == Op::StorePtrTko  ? op.single("value").type()
                                                      : Type();
      if (own && tile) most = bytes_of(tile);
    }
    const bool loops = op.op() == Op::For || op.op() == Op::Loop;
    for (std::size_t r = 0; r < op.num_regions(); ++r) {
      const std::int64_t inside = bytes_of_a_block(op.region(r), id);
      most = std::max(most, loops && inside > 0 ? kMany : inside);
    }
    sum = most == kMany || sum == kMany ? kMany : sum + most;
  }
  return sum;
}

}  // namespace

bool overlap_launches(ir::Function& f, const Target& target, Overlap how) {
  if (target.sm < kFirstSm || target.bytecode_minor < kFirstBytecodeMinor || f.body().empty()) return false;
  std::vector<Operation*> unordered, chains;
  bool accesses = false, waits = false;
  ir::walk(f.body(), [&](Operation& op) {
    waits = waits || op.op() == Op::GdcWaitTko || op.op() == Op::GdcLaunchDependentsTko;
    if (op.op() == Op::MakeToken) chains.push_back(&op);
    if (!accesses_memory(op) && op.op() != Op::PrintTko) return;  // kernels print in their order
    accesses = accesses || accesses_memory(op);
    if (!op.single("token")) unordered.push_back(&op);
  });
  if (!accesses || waits) return false;
  ir::Builder b = ir::Builder::before(f.body().front());
  b.loc = f.loc;
  if (how == Overlap::Always || how == Overlap::CodeOnly) create(b, Op::GdcLaunchDependentsTko);
  const Value token = create(b, Op::GdcWaitTko)->result();
  for (Operation* op : unordered) set_token(*op, token);
  for (Operation* start : chains) {
    start->result().replace_all_uses_with(token);
    start->erase();
  }
  if (how == Overlap::TellLate) {
    ir::Builder late = ir::Builder::before(last_access(f.body()));
    late.loc = f.loc;
    create(late, Op::GdcLaunchDependentsTko);
  }
  return true;
}

std::int64_t early_blocks(const ir::Function& f) {
  const Value id = block_number(f);
  const std::int64_t bytes = id ? bytes_of_a_block(f.body(), id) : kMany;
  const double otherwise = std::max(kBlockTime, static_cast<double>(bytes) / kBytesATime);
  return otherwise >= kEarlyBlockTime ? kMany : static_cast<std::int64_t>(kGain / (kEarlyBlockTime - otherwise));
}

}  // namespace tessera::passes
