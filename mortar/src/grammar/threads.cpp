// Stepping threads by bytes.
#include "grammar/threads.hpp"

#include <algorithm>

namespace mortar::grammar {

void Stacks::add_edge(std::uint32_t node, Pc ret, std::uint32_t count, std::uint32_t parent) {
  for (std::uint32_t e = nodes_[node]; e != 0; e = edges_[e].next) {
    if (edges_[e].ret == ret && edges_[e].count == count && edges_[e].parent == parent) return;
  }
  edges_.push_back({nodes_[node], ret, count, parent});
  nodes_[node] = static_cast<std::uint32_t>(edges_.size() - 1);
}

void Stacks::compact(Threads& threads) {
  std::vector<std::uint32_t> number(nodes_.size(), 0), order;
  const auto visit = [&](std::uint32_t node) {
    if (node == 0 || number[node] != 0) return;
    order.push_back(node);
    number[node] = static_cast<std::uint32_t>(order.size());
  };
  for (const Thread& thread : threads) visit(thread.stack);
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::uint32_t e = nodes_[order[i]]; e != 0; e = edges_[e].next) visit(edges_[e].parent);
  }
  Stacks kept;
  for (const std::uint32_t node : order) {
    const std::uint32_t added = kept.add_node();
    for (std::uint32_t e = nodes_[node]; e != 0; e = edges_[e].next) {
      const Edge& edge = edges_[e];
      kept.edges_.push_back({kept.nodes_[added], edge.ret, edge.count, number[edge.parent]});
      kept.nodes_[added] = static_cast<std::uint32_t>(kept.edges_.size() - 1);
    }
  }
  for (Thread& thread : threads) thread.stack = number[thread.stack];
  *this = std::move(kept);
}

void Stepper::new_round() {
  calls_.clear();
  used_ = 0;
  if (++round_ != 0) return;
  std::fill(seen_.begin(), seen_.end(), Slot{});  // the numbers of rounds begin anew
  round_ = 1;
}

bool Stepper::is_new(const Thread& t) {
  if (used_ * 2 >= seen_.size()) grow();
  std::size_t hash = t.pc;
  for (const std::uint32_t part : {t.sub, t.count, t.stack}) hash = (hash ^ part) * 0x9E3779B97F4A7C15 + (hash >> 31);
  for (std::size_t i = (hash >> 20) & (seen_.size() - 1);; i = (i + 1) & (seen_.size() - 1)) {
    if (seen_[i].round != round_) {
      seen_[i] = {t, round_};
      ++used_;
      return true;
    }
    if (seen_[i].thread == t) return false;
  }
}

void Stepper::grow() {
  std::vector<Slot> old(seen_.size() * 2);
  old.swap(seen_);
  used_ = 0;
  for (const Slot& slot : old) {
    if (slot.round == round_) (void)is_new(slot.thread);
  }
}

void Stepper::begin(Pc root, Threads& out) {
  new_round();
  out.clear();
  follow(root, 0, 0);
  open(out);
}

void Stepper::step(const Threads& in, std::uint8_t byte, Threads& out) {
  new_round();
  out.clear();
  for (const Thread& thread : in) step_one(thread, byte, out);
  if (!work_.empty()) open(out);
}

void Stepper::token(const Threads& in, std::uint32_t token, Threads& out) {
  new_round();
  out.clear();
  for (const Thread& thread : in) {
    const Instruction& i = program_.at(thread.pc);
    if (i.op == Op::Token && i.a == token) follow(i.next, thread.count, thread.stack);
  }
  open(out);
}

void Stepper::close_body(const Thread& thread, Threads& out) {
  new_round();
  out.clear();
  follow(program_.at(thread.pc).next, 0, thread.stack);
  open(out);
}

void Stepper::step_one(const Thread& thread, std::uint8_t byte, Threads& out) {
  const Instruction& i = program_.at(thread.pc);
  switch (i.op) {
    case Op::Text: {
      const std::string& text = program_.text_of(i.a);
      if (static_cast<std::uint8_t>(text[thread.sub]) != byte) return;
      if (thread.sub + 1 == text.size()) return follow(i.next, thread.count, thread.stack);
      return keep({thread.pc, thread.sub + 1, thread.count, thread.stack}, out);
    }
    case Op::Names: {
      const Trie& trie = program_.names_of(i.a).trie;
      const std::uint32_t node = trie.child(thread.sub, byte);
      if (node == Trie::kNone) return;
      if (trie.ends(node)) follow(i.next, thread.count, thread.stack);
      if (!trie.is_leaf(node)) keep({thread.pc, node, thread.count, thread.stack}, out);
      return;
    }
    case Op::Dfa: {
      const Dfa& dfa = program_.dfa_of(i.a);
      const std::uint32_t state = dfa.step(thread.sub, byte);
      if (state == Dfa::kDead) return;
      if (dfa.accepts[state]) follow(i.next, thread.count, thread.stack);
      return keep({thread.pc, state, thread.count, thread.stack}, out);
    }
    case Op::Counted:
    case Op::Body: return step_body(thread, i, byte, out);
    case Op::OtherName: return step_other_name(thread, i, byte, out);
    default: return;  // Finish and Token read no bytes, all others are never kept
  }
}

void Stepper::step_body(const Thread& thread, const Instruction& i, std::uint8_t byte, Threads& out) {
  const Dfa& dfa = program_.dfa_of(i.a);
  const LengthTable& lengths = program_.lengths_of(i.b);
  if (i.op == Op::Body && byte == '"' && dfa.accepts[thread.sub]) {
    if (lengths.may_end(thread.count)) follow(i.next, 0, thread.stack);
    return;
  }
  const std::uint32_t state = dfa.step(thread.sub, byte);
  if (state == Dfa::kDead) return;
  const std::uint32_t count = dfa.boundary[thread.sub] ? lengths.counted(thread.count) : thread.count;
  if (!lengths.viable(state, count)) return;
  if (i.op == Op::Counted && dfa.accepts[state] && lengths.may_end(count)) follow(i.next, 0, thread.stack);
  keep({thread.pc, state, count, thread.stack}, out);
}

void Stepper::step_other_name(const Thread& thread, const Instruction& i, std::uint8_t byte, Threads& out) {
  const Names& names = program_.names_of(i.a);
  std::uint32_t state = thread.sub & ~kLeftNames;
  if ((thread.sub & kLeftNames) == 0) {
    if (const std::uint32_t child = names.trie.child(thread.sub, byte); child != Trie::kNone)
      return keep({thread.pc, child, thread.count, thread.stack}, out);
    if (byte == '"' && names.trie.ends(thread.sub)) return;
    state = names.body[thread.sub];
  }
  const Dfa& dfa = key_body();
  if (byte == '"' && dfa.accepts[state]) return follow(i.next, 0, thread.stack);
  const std::uint32_t next = dfa.step(state, byte);
  if (next != Dfa::kDead) keep({thread.pc, next | kLeftNames, thread.count, thread.stack}, out);
}

/// Follows instructions that read nothing, up to those that do.
void Stepper::open(Threads& out) {
  while (!work_.empty()) {
    const Thread t = work_.back();
    work_.pop_back();
    if (!program_.is_live(t.pc) || !is_new(t)) continue;
    const Instruction& i = program_.at(t.pc);
    switch (i.op) {
      case Op::Text:
      case Op::OtherName:
      case Op::Body:
      case Op::Token:
      case Op::Finish: out.push_back(t); break;
      case Op::Names:
      case Op::Dfa:
      case Op::Counted:
        if (program_.may_be_empty(i)) follow(i.next, t.count, t.stack);
        out.push_back(t);
        break;
      case Op::Split:
        for (std::uint32_t target = i.a; target < i.a + i.b; ++target)
          follow(program_.target(target), t.count, t.stack);
        break;
      case Op::Call: call(i, t); break;
      case Op::Return: leave(t); break;
      case Op::Item: {
        const Bounds& bounds = program_.bounds_of(i.a);
        const std::uint32_t items = t.count + 1;
        if (items >= bounds.min) follow(i.next, 0, t.stack);
        if (items < bounds.max)
          follow(i.b, bounds.max == Bounds::kUnbounded ? std::min(items, bounds.min) : items, t.stack);
        break;
      }
    }
  }
}

void Stepper::call(const Instruction& instruction, const Thread& thread) {
  const auto at = std::find_if(calls_.begin(), calls_.end(), [&](const auto& c) { return c.first == instruction.a; });
  std::uint32_t node = 0;
  if (at != calls_.end()) {
    node = at->second;
  } else {
    node = stacks_.add_node();
    calls_.emplace_back(instruction.a, node);
    follow(program_.rule(instruction.a), 0, node);
  }
  stacks_.add_edge(node, instruction.next, thread.count, thread.stack);
}

void Stepper::leave(const Thread& thread) {
  if (thread.stack < levels_.size()) deepest_ = std::max(deepest_, levels_[thread.stack] + 1);
  for (std::uint32_t e = stacks_.first_edge(thread.stack); e != 0; e = stacks_.edge(e).next) {
    const Stacks::Edge& edge = stacks_.edge(e);
    follow(edge.ret, edge.count, edge.parent);
  }
}

}  // namespace mortar::grammar
