// Starts the blocks with most work first. The device starts blocks in the order of their numbers. Where a block's loop
// gets longer with its number (in causal attention later queries see more keys), the longest blocks would start last,
// and most of the device would idle until they end.
//
//   block = get_tile_block_id            block = get_num_tile_blocks - 1 - get_tile_block_id
//   for j in (0 to g(block)) ...   =>    for j in (0 to g(block)) ...            where g rises with block
//
// Blocks are independent and each number is used once, so any permutation of them computes the same.
// docs/compiler/order_blocks.md says which loops are recognised.
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "passes/values.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

/// How a value changes from one block to the next.
enum class Trend { Same, Rises, Falls, Unknown };

Trend flipped(Trend t) { return t == Trend::Rises ? Trend::Falls : t == Trend::Falls ? Trend::Rises : t; }
Trend joined(Trend a, Trend b) {
  if (a == Trend::Same || a == b) return b;
  return b == Trend::Same ? a : Trend::Unknown;
}

/// Trends of scalars over the number of the block. Inside a row of blocks that is: a remainder rises like its dividend.
class Trends {
 public:
  explicit Trends(Value block) { known_.emplace(block.impl(), Trend::Rises); }

  Trend of(Value v) {
    const auto [at, fresh] = known_.emplace(v.impl(), Trend::Unknown);
    if (!fresh) return at->second;
    const Trend t = !v.def() ? of_argument(v) : of_result(*v.def());
    return known_[v.impl()] = t;
  }

 private:
  /// The entry's arguments are the same for all blocks; of those of loops nothing is known.
  static Trend of_argument(Value v) { return v.argument_block()->parent() ? Trend::Unknown : Trend::Same; }

  Trend of_result(const Operation& op) {
    if (!is_pure(op) || op.num_regions() != 0) return Trend::Unknown;
    const auto operand = [&](std::size_t i) { return of(op.operand(i)); };
    switch (op.op()) {
      case Op::AddI:
      case Op::MinI:
      case Op::MaxI: return joined(operand(0), operand(1));
      case Op::SubI: return joined(operand(0), flipped(operand(1)));
      case Op::MulI:
        for (std::size_t i = 0; i < 2; ++i)
          if (const auto c = constant_int(op.operand(i)))
            return *c == 0 ? Trend::Same : *c > 0 ? operand(1 - i) : flipped(operand(1 - i));
        break;
      case Op::DivI:
      case Op::RemI: {  // by what is no less than 0: a positive constant, or anything read as unsigned
        const auto c = constant_int(op.operand(1));
        const bool positive =
            c ? *c > 0 : op.enum_attr<ir::Signedness>(AttrName::signedness) == ir::Signedness::Unsigned;
        if (positive && operand(1) == Trend::Same) return operand(0);
        break;
      }
      case Op::Select: return joined(operand(1), operand(2));  // a wrong guess costs time, never a result
      case Op::ExtI:
      case Op::TruncI:
      case Op::Assume: return operand(0);
      default: break;
    }
    for (const ir::OpOperand& use : op.operands())
      if (of(use.value) != Trend::Same) return Trend::Unknown;
    return Trend::Same;
  }

  std::unordered_map<const ir::ValueImpl*, Trend> known_;
};

/// How the trip counts of a block's loops change with its number.
Trend work(const ir::Function& f, Value block) {
  Trends trends(block);
  Trend all = Trend::Same;
  ir::walk(f.body(), [&](const Operation& op) {
    if (op.op() != Op::For || analysis::loops_around(op) > 0) return;
    const Trend t = joined(trends.of(op.operand(1)), flipped(trends.of(op.operand(0))));
    if (t != Trend::Unknown) all = joined(all, t);  // loops with unknown bounds are ignored
  });
  return all;
}

}  // namespace

bool order_blocks(ir::Function& f) {
  Operation* id = nullptr;
  bool fixed = false;  // uses the number of blocks, or reports which block failed
  ir::walk(f.body(), [&](Operation& op) {
    if (op.op() == Op::GetTileBlockId) fixed = fixed || id, id = &op;
    fixed = fixed || op.op() == Op::GetNumTileBlocks || op.op() == Op::Assert;
  });
  if (!id || fixed || work(f, id->result(0)) != Trend::Rises) return false;
  ir::Builder b = ir::Builder::before(id);
  b.loc = id->loc;
  const Value number = id->result(0);
  const ir::Type i32 = number.type();
  const Value count = b.create(Op::GetNumTileBlocks, {}, {i32, i32, i32})->result(0);
  const Value last = b.create(Op::SubI, {count, b.constant_int(ir::Elem::I32, 1)}, {i32})->result();
  Operation* reversed = b.create(Op::SubI, {last, number}, {i32});
  id->move_before(reversed);
  number.replace_all_uses_with(reversed->result());
  reversed->set_operand(1, number);
  return true;
}

}  // namespace tessera::passes
