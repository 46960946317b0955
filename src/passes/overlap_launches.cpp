// Prepares kernels for programmatic dependent launch (PDL): a kernel may be scheduled before its predecessor in the
// stream has ended, and waits itself, before its first access of memory, for everything that came before. That hides
// the time between two kernels: launching blocks, setting up barriers and descriptors.
//
//   entry { ... load ... }   =>   entry { [gdc_launch_dependents]; t = gdc_wait; ... load token t ... }
//
// A kernel triggers its dependents with griddepcontrol.launch_dependents: its successor may then be scheduled where
// there is room. Kernels of long blocks without loops always trigger; others do if the launch flags ask for it.
//
// docs/compiler/overlap_launches.md says why this is legal for every kernel.
#include <algorithm>
#include <utility>
#include <vector>

#include "passes/cost_model.hpp"
#include "passes/early_reads.hpp"
#include "passes/early_tiles.hpp"
#include "passes/hints.hpp"
#include "passes/rewriter.hpp"
#include "passes/values.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/machine/machine.hpp"
#include "tessera/machine/measured.hpp"
#include "tessera/passes/optimize.hpp"
#include "tessera/passes/passes.hpp"
#include "tessera/passes/tuning_text.hpp"

namespace tessera::passes {

using ir::Builder;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

namespace {

bool accesses_memory(const Operation& op) {
  return op.info().has(ir::traits::Read) || op.info().has(ir::traits::Write);
}

Builder before_all(ir::Function& f) {
  Builder b = Builder::before(f.body().front());
  b.loc = f.loc;
  return b;
}

Operation* create(Builder& b, Op op) {
  const std::vector<std::uint32_t> no_token{0};
  const std::vector<Type> token{Type::token()};
  return b.create_grouped(op, {}, no_token, token);
}

/// What a block knows of its place in the grid.
std::vector<Value> block_numbers(const ir::Function& f) {
  std::vector<Value> found;
  ir::walk(f.body(), [&](const Operation& op) {
    for (std::size_t r = 0; op.op() == Op::GetTileBlockId && r < 3; ++r) found.push_back(op.result(r));
  });
  return found;
}

struct Moved {
  std::int64_t bytes = 0;
  bool in_loop = false;
};

/// Bytes that the accesses of `block` move, if the address depends on the block's number: data that all blocks read
/// comes from the caches.
Moved moved_by_a_block(const ir::Block& block, const analysis::Dependents& of_ids, bool in_loop = false) {
  Moved sum;
  for (const Operation& op : block) {
    if (accesses_memory(op)) {
      sum.in_loop = sum.in_loop || in_loop;
      bool own = false;
      for (const ir::OpOperand& use : op.operands()) own = own || of_ids.contains(use.value);
      const Type tile = analysis::moved_tile(op);
      if (own && tile) sum.bytes += analysis::bytes_of(tile);
    }
    const bool loops = op.op() == Op::For || op.op() == Op::Loop;
    Moved most;
    for (std::size_t r = 0; r < op.num_regions(); ++r) {
      const Moved inside = moved_by_a_block(op.region(r), of_ids, in_loop || loops);
      most = {std::max(most.bytes, inside.bytes), most.in_loop || inside.in_loop};
    }
    sum = {sum.bytes + most.bytes, sum.in_loop || most.in_loop};
  }
  return sum;
}

/// True for blocks without loops that run at least twice as long as it takes to start a block that triggers.
bool gains_by_trigger(const ir::Function& f) {
  const Moved moved = moved_by_a_block(f.body(), analysis::Dependents(f.body(), block_numbers(f)));
  return !moved.in_loop &&
         static_cast<double>(moved.bytes) >= 2 * machine::measured().trigger_block_time * machine::measured().read_rate;
}

/// True if `f` accesses memory and has no gdc operation yet.
bool can_wait(const ir::Function& f) {
  bool accesses = false, waits = false;
  ir::walk(f.body(), [&](const Operation& op) {
    waits = waits || op.op() == Op::GdcWaitTko || op.op() == Op::GdcLaunchDependentsTko;
    accesses = accesses || accesses_memory(op);
  });
  return accesses && !waits;
}

/// Makes every memory access and every print depend on one wait at the beginning.
void wait_first(ir::Function& f) {
  std::vector<Operation*> unordered, chains;
  ir::walk(f.body(), [&](Operation& op) {
    if (op.op() == Op::MakeToken) chains.push_back(&op);
    if (!accesses_memory(op) && op.op() != Op::PrintTko) return;  // kernels print in their order
    if (!op.single("token")) unordered.push_back(&op);
  });
  Builder b = before_all(f);
  const Value token = create(b, Op::GdcWaitTko)->result();
  for (Operation* op : unordered) set_token(*op, token);
  for (Operation* start : chains) {
    start->result().replace_all_uses_with(token);
    start->erase();
  }
}

/// Triggers dependents if the launch flags ask for it.
void trigger_if_asked(ir::Function& f, Value launch_flags) {
  Builder b = before_all(f);
  const Value bit = b.constant_int(Elem::I32, std::int64_t{1} << calling::kTriggerBit);  // the highest of its bits
  const Value asked = compared(b, ir::ComparisonPredicate::GreaterEqual, launch_flags, bit);
  Operation* branch = b.create(Op::If, {asked}, {});
  Builder trigger(branch->add_region());
  trigger.loc = b.loc;
  create(trigger, Op::GdcLaunchDependentsTko);
  trigger.create(Op::Yield, {}, {});
  Builder other(branch->add_region());
  other.loc = b.loc;
  other.create(Op::Yield, {}, {});
}

/// Without a limit the assembler interleaves the iterations that are peeled, which takes so many registers that fewer
/// blocks fit on an SM. The limit that it derives from the occupancy is for blocks of at least four warps.
void limit_registers(ir::Function& f, int registers, const Tuning& tuning, Choices& choices) {
  if (!tuning.choose_hints || choices.occupancy > 0 || choices.warps == 0) return;
  const int threads = 32 * std::max(choices.warps, 4);
  choices.occupancy = std::max(1, (machine::kRegisters + threads * registers / 2) / (threads * registers));
  set_entry_hints(f, choices);
}

}  // namespace

void overlap_launches(ir::Function& f, const Target& target, const Tuning& tuning, Choices& choices) {
  check_numbers(tuning);
  const Overlap how = tuning.overlap;
  if (how == Overlap::Never || target.sm < machine::kDependentLaunch || target.bytecode_minor < kFirstWaitMinor) return;
  if (!can_wait(f)) return;
  choices.abi.programmatic_launch = true;
  const bool always = how == Overlap::Always || (how == Overlap::WhereItPays && gains_by_trigger(f));
  if (tuning.early_reads) {
    EarlyReads early = wait_behind_reads(f, choices.warps, tuning.early_tiles);
    choices.abi.early_reads = std::move(early.addresses);
    choices.abi.early_alone = early.alone;
    choices.early_tiles = early.tiles;
    if (early.tiles > 0) limit_registers(f, early.registers, tuning, choices);
  }
  choices.abi.launch_flags = !choices.abi.early_reads.empty();
  if (choices.abi.early_reads.empty()) wait_first(f);
  if (always) {
    Builder b = before_all(f);
    create(b, Op::GdcLaunchDependentsTko);
  } else if (tuning.early_reads && how == Overlap::WhereItPays) {
    if (!choices.abi.launch_flags) f.body().add_arg(Type::tile(Elem::I32));
    choices.abi.launch_flags = true;
    trigger_if_asked(f, f.body().arg(f.body().num_args() - 1));
  }
}

}  // namespace tessera::passes
