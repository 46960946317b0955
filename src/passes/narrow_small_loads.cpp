// Works around an error of the assembler (tileiras 13.5.37). Elements of a tile lie in a thread's registers in some
// order. A reshape that joins axes, such as one of a `cat` along the last axis, makes an order in which neighbours in
// memory are not neighbours in registers. The assembler computes a tile that has fewer elements than the block has
// threads anew in each layout in which it is needed. If such a tile is loaded through a view, it then loads two or four
// neighbours in memory at once into registers that are for others: values are wrong, and addresses may be misaligned.
//
// How many it loads at once follows from what is known of the tensor's address. So each of these loads gets its own
// view without any assumption about the address, and the assembler loads each element by itself:
//
//   %p = assume div_by<16>, %arg                  =>    %view = make_tensor_view %arg, ..
//   %view = make_tensor_view %p, ..                     load_view %partition of %view
//
// Loads through pointers have no such error. docs/compiler/narrow_small_loads.md.
#include <vector>

#include "passes/element_order.hpp"
#include "passes/hints.hpp"
#include "tessera/machine/machine.hpp"
#include "tessera/passes/passes.hpp"
#include "tessera/passes/tuning_text.hpp"

namespace tessera::passes {

using ir::Builder;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

namespace {

/// The address without what is assumed of it; null if nothing is.
Value plain(Value address) {
  const Operation* def = address.def();
  if (def == nullptr || def->op() != Op::Assume) return {};
  const Value below = plain(def->operand(0));
  return below ? below : def->operand(0);
}

Operation* copy_with(Operation& op, Value first_operand) {
  Builder b = Builder::before(&op);
  b.loc = op.loc;
  std::vector<Value> operands;
  for (std::size_t i = 0; i < op.num_operands(); ++i) operands.push_back(i == 0 ? first_operand : op.operand(i));
  const Type results[] = {op.result(0).type()};
  Operation* copy = b.create_grouped(op.op(), operands, op.group_sizes(), results);
  for (const auto& [name, value] : op.attrs()) copy->set_attr(name, value);
  return copy;
}

/// Gives the load a view of the tensor whose address is only that of an element. True if it did.
bool forget_address(Operation& load) {
  Operation* partition = load.operand(0).def();
  if (partition == nullptr || partition->num_operands() != 1) return false;
  Operation* tensor = partition->operand(0).def();
  if (tensor == nullptr || tensor->op() != Op::MakeTensorView) return false;
  const Value address = plain(tensor->operand(0));
  if (!address) return false;
  load.set_operand(0, copy_with(*partition, copy_with(*tensor, address)->result(0))->result(0));
  set_hint(load, "allow_tma", false);  // tensor copies need an address that is a multiple of 16 bytes
  return true;
}

}  // namespace

bool narrow_small_loads(ir::Function& f, const Choices& choices) {
  const std::int64_t threads = std::int64_t{choices.warps > 0 ? choices.warps : kMaxWarps} * machine::kThreadsAWarp;
  std::vector<Operation*> small;
  ir::walk(f.body(), [&](Operation& op) {
    if (op.op() != Op::LoadViewTko) return;
    const std::int64_t elements = op.result(0).type().num_elements();
    if (elements > 1 && elements < threads) small.push_back(&op);
  });
  bool changed = false;
  if (!small.empty() && reshapes_out_of_order(f))
    for (Operation* load : small) changed |= forget_address(*load);
  return changed;
}

}  // namespace tessera::passes
