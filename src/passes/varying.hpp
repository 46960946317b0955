// Which values of a kernel depend on the block's number, and so differ between the pieces of a coarsened block.
#pragma once
#include <unordered_set>

#include "tessera/ir/operation.hpp"

namespace tessera::passes {

inline bool is_loop(const ir::Operation& op) { return op.op() == ir::Op::For || op.op() == ir::Op::Loop; }
/// The loop that `op` exits: the innermost one around it.
ir::Operation* loop_of_exit(const ir::Operation& op);

/// Tiles and scalars that vary: through operands, values carried by loops and yielded by branches, loads in divergent
/// branches, and atomic operations, which see the effects of earlier pieces. Views and tokens never vary.
class Varying {
 public:
  explicit Varying(const ir::Function& f);
  bool has(ir::Value v) const { return set_.contains(v.impl()); }
  /// True if an operand varies.
  bool any(const ir::Operation& op) const;
  /// True if not all pieces of a block execute `op`.
  bool is_conditional(const ir::Operation& op) const;

  /// `v` is a value that a pass has made.
  void add(ir::Value v);
  /// `op` is going to be erased: another value may get the place of its results.
  void forget(const ir::Operation& op);

 private:
  void visit(const ir::Operation& op);
  void add_results(const ir::Operation& op);
  void visit_branch(const ir::Operation& op);
  void join(const ir::Operation& op, const ir::Operation& exit);
  void visit_loop(const ir::Operation& op);
  void visit_exit(const ir::Operation& exit);

  std::unordered_set<const ir::ValueImpl*> set_;
  bool changed_ = false;
};

}  // namespace tessera::passes
