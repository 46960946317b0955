// Lets a kernel start while the one before it in its stream still runs. The kernel then waits by itself, before its
// first access of memory, for everything that came before it, and tells the device at its start that its own successor
// may be scheduled. What is gained is the time between two kernels: launching blocks, setting up barriers and
// descriptors.
//
//   entry { ... load ... }   =>   entry { gdc_launch_dependents; t = gdc_wait; ... load token t ... }
//
// docs/compiler/overlap_launches.md says why this is legal for every kernel.
#include <vector>

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

/// Gives `op` the token to wait for; it has none yet.
void set_token(Operation& op, Value token) {
  std::vector<Value> operands;
  std::vector<std::uint32_t> sizes;
  for (const ir::GroupInfo& g : op.info().operands) {
    const std::vector<Value> values = g.name == "token" ? std::vector<Value>{token} : op.group(g.name);
    operands.insert(operands.end(), values.begin(), values.end());
    sizes.push_back(static_cast<std::uint32_t>(values.size()));
  }
  op.set_operands(operands, sizes);
}

Operation* create(ir::Builder& b, Op op) {
  const std::vector<std::uint32_t> no_token{0};
  const std::vector<Type> token{Type::token()};
  return b.create_grouped(op, {}, no_token, token);
}

}  // namespace

bool overlap_launches(ir::Function& f, const Target& target) {
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
  create(b, Op::GdcLaunchDependentsTko);
  const Value token = create(b, Op::GdcWaitTko)->result();
  for (Operation* op : unordered) set_token(*op, token);
  for (Operation* start : chains) {
    start->result().replace_all_uses_with(token);
    start->erase();
  }
  return true;
}

}  // namespace tessera::passes
