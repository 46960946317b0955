// Constants that the assembler cannot recognise as constants: it does not know that a block's number is below the
// number of blocks (tileiras 13.5.37).
#pragma once
#include "passes/values.hpp"

namespace tessera::passes {

/// Creates them at the beginning of a kernel, each at most once, when it is first needed.
class Opaque {
 public:
  explicit Opaque(ir::Function& f) : b_(ir::Builder::before(&*f.body().begin())) { b_.loc = f.body().begin()->loc; }

  ir::Value block() { return block_ ? block_ : block_ = ask(ir::Op::GetTileBlockId); }
  ir::Value blocks() { return blocks_ ? blocks_ : blocks_ = ask(ir::Op::GetNumTileBlocks); }
  /// Always true: the block's number is below the number of blocks.
  ir::Value truth() {
    if (truth_) return truth_;
    const ir::Value count = blocks(), number = block();  // in this order with every compiler of the library
    return truth_ = compared(b_, ir::ComparisonPredicate::Less, number, count, ir::Signedness::Unsigned);
  }
  /// A scalar zero.
  ir::Value zero(ir::Elem elem) {
    const ir::Value known = truth();
    const auto constant = [&](int n) {
      return ir::info(elem).is_float ? b_.constant_float(elem, n) : b_.constant_int(elem, n);
    };
    return b_.create(ir::Op::Select, {known, constant(0), constant(1)}, {ir::Type::tile(elem)})->result();
  }

 private:
  ir::Value ask(ir::Op op) {
    const ir::Type number = ir::Type::tile(ir::Elem::I32);
    return b_.create(op, {}, {number, number, number})->result(0);
  }

  ir::Builder b_;
  ir::Value block_, blocks_, truth_;
};

}  // namespace tessera::passes
