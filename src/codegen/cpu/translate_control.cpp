// Regions. Carried values live in buffers of their own, written before the loop and by every `continue`; the planner
// merges them with what is carried where lifetimes allow, and then the copies vanish. Results of an `if` likewise.
#include "codegen/cpu/control_instr.hpp"
#include "codegen/cpu/translate.hpp"

namespace tessera::cpu {

Tile Translator::carried_tile(ir::Value init, ir::Type type, const Instr* loop) {
  const Tile t = new_tile(type, scope_);
  BufferInfo& info = buffers[t.ref.buffer];
  info.loop = loop;
  info.carried = true;
  copy(t, tile(init));
  return t;
}

void Translator::translate_region(const ir::Block& body, Code& code, Scope::Kind kind) {
  scopes_.push_back({kind, scope_, &code, scope_->depth + 1});
  scope_ = &scopes_.back();
  translate_block(body);
  scope_ = scope_->parent;
}

void Translator::translate_for(const ir::Operation& op) {
  auto instr = std::make_unique<ForInstr>();
  ir::Block& body = op.region(0);
  instr->lower = tile(op.operand(0)).ref;
  instr->upper = tile(op.operand(1)).ref;
  instr->step = tile(op.operand(2)).ref;
  instr->elem = op.operand(0).type().elem();
  instr->is_unsigned = op.has_attr(ir::AttrName::unsignedCmp);
  instr->where = op.loc;
  LoopTarget target;
  for (std::size_t i = 1; i < body.num_args(); ++i)
    target.carried.push_back(carried_tile(op.operand(2 + i), body.arg(i).type(), instr.get()));
  // Carried values and the induction variable exist only inside: what depends on them stays there.
  Scope inner{Scope::Kind::Loop, scope_, &instr->body, scope_->depth + 1};
  scopes_.push_back(inner);
  Scope* scope = &scopes_.back();
  const Tile induction = new_tile(body.arg(0).type(), scope);
  buffers[induction.ref.buffer].loop = instr.get();
  instr->induction = induction.ref;
  instr->accesses = {{instr->lower.buffer, false},
                     {instr->upper.buffer, false},
                     {instr->step.buffer, false},
                     {induction.ref.buffer, true}};
  define(body.arg(0), induction);
  for (std::size_t i = 0; i < target.carried.size(); ++i) {
    buffer_scope_[target.carried[i].ref.buffer] = scope;
    define(body.arg(1 + i), target.carried[i]);
  }
  loops_.push_back(&target);
  scope_ = scope;
  translate_block(body);
  scope_ = scope->parent;
  loops_.pop_back();
  for (std::size_t i = 0; i < target.carried.size(); ++i) {
    buffer_scope_[target.carried[i].ref.buffer] = scope_;
    define(op.result(i), target.carried[i]);
  }
  scope_->code->push_back(std::move(instr));
}

void Translator::translate_loop(const ir::Operation& op) {
  auto instr = std::make_unique<LoopInstr>();
  ir::Block& body = op.region(0);
  LoopTarget target;
  for (std::size_t i = 0; i < body.num_args(); ++i)
    target.carried.push_back(carried_tile(op.operand(i), body.arg(i).type(), instr.get()));
  for (std::size_t i = 0; i < op.num_results(); ++i) target.results.push_back(new_tile(op.result(i).type(), scope_));
  scopes_.push_back({Scope::Kind::Loop, scope_, &instr->body, scope_->depth + 1});
  Scope* scope = &scopes_.back();
  for (std::size_t i = 0; i < target.carried.size(); ++i) {
    buffer_scope_[target.carried[i].ref.buffer] = scope;
    define(body.arg(i), target.carried[i]);
  }
  loops_.push_back(&target);
  scope_ = scope;
  translate_block(body);
  scope_ = scope->parent;
  loops_.pop_back();
  for (std::size_t i = 0; i < op.num_results(); ++i) define(op.result(i), target.results[i]);
  scope_->code->push_back(std::move(instr));
}

void Translator::translate_if(const ir::Operation& op) {
  auto instr = std::make_unique<IfInstr>();
  instr->condition = tile(op.operand(0)).ref;
  instr->accesses = {{instr->condition.buffer, false}};
  std::vector<Tile> results;
  for (std::size_t i = 0; i < op.num_results(); ++i) {
    results.push_back(new_tile(op.result(i).type(), scope_));
    buffers[results.back().ref.buffer].branch = instr.get();
  }
  branch_results_.push_back(&results);
  translate_region(op.region(0), instr->then_code, Scope::Kind::Branch);
  if (op.num_regions() > 1) translate_region(op.region(1), instr->else_code, Scope::Kind::Branch);
  branch_results_.pop_back();
  for (std::size_t i = 0; i < op.num_results(); ++i) define(op.result(i), results[i]);
  scope_->code->push_back(std::move(instr));
}

/// Copies the terminator's operands as if at once: a source that another of the copies overwrites is saved first.
void Translator::move_all(std::span<const Tile> to, const ir::Operation& terminator) {
  std::vector<Tile> from;
  for (std::size_t i = 0; i < to.size(); ++i) {
    Tile t = tile(terminator.operand(i));
    const bool stays = t.ref.buffer == to[i].ref.buffer && t.ref.offset == 0 && t.stride == to[i].stride;
    bool clobbered = false;
    for (std::size_t j = 0; j < to.size(); ++j) clobbered |= t.ref.buffer == to[j].ref.buffer && !(j == i && stays);
    if (clobbered) {
      Tile saved = new_tile(t.elem_bytes, t.shape, scope_);
      copy(saved, t);
      t = saved;
    }
    from.push_back(t);
  }
  for (std::size_t i = 0; i < to.size(); ++i)
    if (from[i].ref.buffer != to[i].ref.buffer) copy(to[i], from[i]);
}

void Translator::translate_terminator(const ir::Operation& op) {
  switch (op.op()) {
    case ir::Op::Yield: return move_all(*branch_results_.back(), op);
    case ir::Op::Continue:
      move_all(loops_.back()->carried, op);
      if (op.parent_op() == nullptr || op.parent_op()->op() == ir::Op::If) emit<LeaveInstr>(scope_, Status::Continue);
      return;
    case ir::Op::Break:
      move_all(loops_.back()->results, op);
      emit<LeaveInstr>(scope_, Status::Break);
      return;
    default:
      if (op.parent_op() != nullptr) emit<LeaveInstr>(scope_, Status::Return);
      return;
  }
}

}  // namespace tessera::cpu
