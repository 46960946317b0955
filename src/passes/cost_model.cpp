// The cost model's formulas (see cost_model.hpp).
#include "passes/cost_model.hpp"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "passes/hints.hpp"
#include "passes/values.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/divisibility.hpp"

namespace tessera::passes {

namespace {

constexpr std::int64_t kAccumulatorsOfMma = 16 * 8;  // of mma.sync.m16n8 (PTX ISA), the least that a warp multiplies

using LoopOfProduct = std::unordered_map<const ir::Operation*, const ir::Operation*>;

/// True if `p` accumulates into the result of another product of its loop that has no other use: they share registers.
bool goes_on_with_another(const analysis::Product& p, const LoopOfProduct& loops) {
  const ir::Value sum = p.op->operand(2);
  const auto other = sum.has_one_use() ? loops.find(sum.def()) : loops.end();
  return other != loops.end() && other->second == p.loop;
}

/// Accumulators that are live at once of the products among these operations: those of the arms of a branch are not
/// live together. `own` has the products and what each adds.
std::int64_t live_accumulators(const ir::Block& body,
                               const std::unordered_map<const ir::Operation*, std::int64_t>& own) {
  std::int64_t live = 0;
  for (const ir::Operation& op : body) {
    if (const auto found = own.find(&op); found != own.end()) live += found->second;
    if (op.op() != ir::Op::If) continue;
    std::int64_t most = 0;
    for (std::size_t arm = 0; arm < op.num_regions(); ++arm)
      most = std::max(most, live_accumulators(op.region(arm), own));
    live += most;
  }
  return live;
}

/// Whether the body of a loop, without those inside it, loads tiles that are not `counted`.
bool loads_tiles_beside(const ir::Block& body, const std::unordered_set<const ir::Operation*>& counted) {
  return std::any_of(body.begin(), body.end(), [&](const ir::Operation& op) {
    const bool loads = op.op() == ir::Op::LoadViewTko || op.op() == ir::Op::LoadPtrTko;
    return loads && op.result(0).type().num_elements() > 1 && !counted.contains(&op);
  });
}

}  // namespace

StepLoad step_load(const analysis::KernelFacts& facts) {
  int deepest = 0;
  for (const analysis::Product& p : facts.products) deepest = std::max(deepest, p.loops);
  StepLoad most;
  LoopOfProduct loops;
  for (const analysis::Product& p : facts.products) loops.emplace(p.op, p.loop);
  std::unordered_map<const ir::Operation*, std::vector<const analysis::Product*>> of_loop;
  for (const analysis::Product& p : facts.products) of_loop[p.loop].push_back(&p);
  for (const analysis::Product& first : facts.products) {
    if (first.loops != deepest || of_loop.at(first.loop).front() != &first) continue;
    StepLoad l;
    std::unordered_set<const ir::Operation*> counted;
    std::unordered_map<const ir::Operation*, std::int64_t> own;
    for (const analysis::Product* const other : of_loop.at(first.loop)) {
      const analysis::Product& p = *other;
      ++l.products;
      if (!goes_on_with_another(p, loops)) own.emplace(p.op, p.accumulators);
      l.largest = std::max(l.largest, p.accumulators);
      const std::span<const std::int64_t> left = p.op->operand(0).type().shape();
      l.rows = std::max(l.rows, left[left.size() - 2]);
      for (const ir::Operation* load : p.step_loads) {
        if (!counted.insert(load).second) continue;
        l.bytes += analysis::bytes_of(load->result(0).type());
        if (load->result(0) == behind_shapes(p.op->operand(0)))
          l.left_bytes += analysis::bytes_of(load->result(0).type());
      }
      const ir::Type operand = p.op->operand(0).type();
      const bool eight_bit = operand.is_float() && ir::info(operand.elem()).bits == 8;
      const bool in_place = p.op->has_attr(ir::AttrName::fast_acc) && !p.op->operand(2).def();
      l.kept_twice = l.kept_twice || (eight_bit && !in_place);
    }
    l.loads_others = first.loop != nullptr && loads_tiles_beside(first.loop->region(0), counted);
    l.accumulators = live_accumulators(first.loop ? first.loop->region(0) : first.op->function()->body(), own);
    if (l.accumulators > most.accumulators) most = l;
  }
  return most;
}

bool waits_for_memory(const analysis::Product& p) {
  constexpr std::int64_t kOperationsAByte = 32;
  const std::span<const std::int64_t> left = p.op->operand(0).type().shape();
  return 2 * p.accumulators * left.back() < kOperationsAByte * p.loaded_bytes;
}

bool is_bound_by_instructions(const ir::Function& f, const analysis::KernelFacts& facts, const machine::Machine& m) {
  return facts.products.empty() && facts.moved_bytes > 0 && analysis::instructions_per_byte(f) > m.instructions_a_byte;
}

std::int64_t tiles_of_mma(const StepLoad& load) { return std::max<std::int64_t>(load.largest / kAccumulatorsOfMma, 1); }

int warps_for(const StepLoad& load, const machine::Machine& m) {
  // Sums of 8-bit floats take twice the registers, unless they accumulate fast and in place
  // (bench/notes/choose_hints.md).
  const std::int64_t held = load.kept_twice ? load.accumulators * 2 : load.accumulators;
  if (held > std::int64_t{4} * 32 * m.accumulators) return 8;
  // A warp computes at least 16 rows by 8 columns (mma.sync). Warps beyond the number of such parts repeat work, for
  // each product.
  return static_cast<int>(std::min<std::int64_t>(tiles_of_mma(load), 4));
}

std::int64_t loaded_bytes(const ir::Function& f) {
  std::int64_t bytes = 0;
  ir::walk(f.body(), [&](const ir::Operation& op) {
    if (!analysis::is_load(op)) return;
    const ir::Type tile = op.result(0).type();
    bytes += analysis::bytes_of(tile) * (ir::info(tile.elem()).bits < 16 ? 2 : 1);
  });
  return bytes;
}

std::int64_t copied_beside(const ir::Function& f, const analysis::KernelFacts& facts) {
  std::unordered_set<const ir::Operation*> operands;
  for (const analysis::Product& p : facts.products)
    for (std::size_t i = 0; i < 2; ++i)
      for (const ir::Operation* load : analysis::loads_of(p.op->operand(i))) operands.insert(load);
  std::int64_t bytes = 0;
  ir::walk(f.body(), [&](const ir::Operation& op) {
    const bool copied = op.op() == ir::Op::LoadViewTko && hint(op, "allow_tma") == nullptr && op.result(0).has_uses();
    if (copied && !operands.contains(&op)) bytes += analysis::bytes_of(op.result(0).type());
  });
  return bytes;
}

std::int64_t elements_through_registers(const ir::Function& f, const analysis::KernelFacts& facts, int sm) {
  constexpr std::int64_t kCopiedBytes = 4;
  const analysis::Divisibility known(f);
  std::vector<const ir::Operation*> counted;
  std::int64_t elements = 0;
  for (const analysis::Product& p : facts.products) {
    for (const ir::Operation* load : p.step_loads) {
      if (std::find(counted.begin(), counted.end(), load) != counted.end()) continue;
      counted.push_back(load);
      const analysis::AccessWidth width = analysis::width_of(*load, known);
      const bool copied = sm >= machine::kTensorCopies && load->op() == ir::Op::LoadViewTko &&
                          width.in_bounds == analysis::kVectorBytes;
      if (!copied && width.bytes > 0 && width.bytes < kCopiedBytes) elements += load->result(0).type().num_elements();
    }
  }
  return elements;
}

bool fits_one_more(const analysis::KernelFacts& facts, std::int64_t elements, const Target& target) {
  const StepLoad load = step_load(facts);
  const std::int64_t threads = std::int64_t{32} * warps_for(load, machine::machine_of(target.sm));
  // Half of the other registers: the next operands are loaded into shared memory, not into registers.
  return (load.accumulators + elements) / threads + kOtherRegisters / 2 <= machine::kRegistersAThread;
}

}  // namespace tessera::passes
