// Where answers stand in a program: threads, one per way to read the answer so far, and the stacks of rules that they
// are in.
//
// Rules that are called at one position share one node of the stacks, with an edge for each caller. So the threads
// number at most as many as the places of the program, however deep the recursion. (A graph-structured stack.)
#pragma once
#include <cstdint>
#include <vector>

#include "grammar/program.hpp"

namespace mortar::grammar {

struct Thread {
  Pc pc;
  std::uint32_t
      sub;  ///< Text: bytes that were read; Names: the node; Dfa, Counted and Body: the state; OtherName: see there
  std::uint32_t
      count;  ///< Body and Counted: code points that were begun; else the items of the array that is being read
  std::uint32_t stack;  ///< the node of Stacks to return to
  bool operator==(const Thread&) const = default;
};
using Threads = std::vector<Thread>;

/// OtherName: set in Thread::sub where the text has left the names; the rest is a state of key_body().
inline constexpr std::uint32_t kLeftNames = 0x80000000;

class Stacks {
 public:
  struct Edge {
    std::uint32_t next;  ///< the next edge of the same node, or 0
    Pc ret;
    std::uint32_t count;   ///< of the thread that called
    std::uint32_t parent;  ///< its stack
  };
  struct Mark {
    std::size_t nodes, edges;
  };

  Stacks() : nodes_{0}, edges_{{}} {}
  std::uint32_t add_node() {
    nodes_.push_back(0);
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  /// Adds an edge, unless the node has it.
  void add_edge(std::uint32_t node, Pc ret, std::uint32_t count, std::uint32_t parent);
  std::uint32_t first_edge(std::uint32_t node) const { return nodes_[node]; }
  const Edge& edge(std::uint32_t i) const { return edges_[i]; }
  std::size_t size() const { return nodes_.size(); }

  Mark mark() const { return {nodes_.size(), edges_.size()}; }
  /// Forgets what was added since; the edges of nodes before the mark must be as they were then.
  void release(const Mark& mark) {
    nodes_.resize(mark.nodes);
    edges_.resize(mark.edges);
  }
  /// Keeps only what `threads` can return to, and renumbers their stacks.
  void compact(Threads& threads);

 private:
  std::vector<std::uint32_t> nodes_;  // first edges; node 0 is the bottom
  std::vector<Edge> edges_;           // edge 0 is none
};

/// Steps threads by bytes. Holds only scratch memory.
class Stepper {
 public:
  Stepper(const Program& program, Stacks& stacks) : program_(program), stacks_(stacks), seen_(64) {}

  void begin(Pc root, Threads& out);
  /// The threads after `byte`; none if it is not allowed. `in` and `out` are different.
  void step(const Threads& in, std::uint8_t byte, Threads& out);
  /// The threads after the token of this number of Program::token_names().
  void token(const Threads& in, std::uint32_t token, Threads& out);
  /// The threads after the closing quote of a Body or OtherName.
  void close_body(const Thread& thread, Threads& out);

  /// Nodes below this number are watched: levels()[node] + 1 is noted in deepest() when a thread returns from one.
  void watch(std::vector<std::uint32_t> levels) {
    levels_ = std::move(levels);
    deepest_ = 0;
  }
  std::uint32_t deepest() const { return deepest_; }

 private:
  void new_round();
  bool is_new(const Thread& thread);
  void grow();
  void keep(const Thread& thread, Threads& out) {
    if (is_new(thread)) out.push_back(thread);
  }
  void follow(Pc pc, std::uint32_t count, std::uint32_t stack) { work_.push_back({pc, 0, count, stack}); }
  void open(Threads& out);
  void call(const Instruction& instruction, const Thread& thread);
  void leave(const Thread& thread);
  void step_one(const Thread& thread, std::uint8_t byte, Threads& out);
  void step_body(const Thread& thread, const Instruction& instruction, std::uint8_t byte, Threads& out);
  void step_other_name(const Thread& thread, const Instruction& instruction, std::uint8_t byte, Threads& out);

  struct Slot {
    Thread thread;
    std::uint32_t round;
  };
  const Program& program_;
  Stacks& stacks_;
  Threads work_;
  std::vector<Slot> seen_;  // an open hash table; slots of earlier rounds are free
  std::size_t used_ = 0;
  std::uint32_t round_ = 0;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> calls_;  // of this round: rule and node
  std::vector<std::uint32_t> levels_;
  std::uint32_t deepest_ = 0;
};

}  // namespace mortar::grammar
