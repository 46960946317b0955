// What the soak program runs: random sequences of operations over a few tensors, with loops and branches, which a
// device executes in any of several ways and the host one after the other. The elements are i32, so that results are
// equal bit for bit.
#pragma once
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "tessera/tessera.hpp"

namespace soak {

using namespace tessera;

using Random = std::mt19937_64;
using Numbers = std::vector<i32>;
using Line = Tensor<i32, 1>;

inline int below(Random& random, int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); }
inline bool one_in(Random& random, int n) { return below(random, n) == 0; }

/// The tensors that a program writes. They have equally many elements. And those that decide about its loops and
/// branches, of one element each.
struct State {
  std::vector<Line> lines, counters;
};
inline constexpr std::size_t kCounters = 4;
/// A number of a graph that changes from replay to replay. In [0, kMaxRuns]: it may be how often a loop runs.
struct Number {
  GraphScalar<i32> scalar;
  i32 value;
  explicit Number(i32 v) : scalar(v), value(v) {}
};
inline constexpr int kMaxRuns = 3;
/// Read-only tensors that all threads use, and their elements.
struct Inputs {
  std::vector<Shared<i32, 1>> lines;
  std::vector<Numbers> numbers;
};
/// What a tensor should contain. Unknown after a failure, until it is overwritten completely.
struct Value {
  Numbers numbers;
  bool known = true;
};
using Values = std::vector<Value>;

enum class Kind : std::uint8_t {
  Mix,         // t[to] = 5 t[to] + mirrored t[from], lent
  MixGiven,    // the same, given and returned
  MixInput,    // the same with an input
  Combine,     // t[to] = 3 t[from] + input, a new tensor
  Add,         // t[to][low..high) += number, a part that is lent
  Fill,        // t[to] = number, everywhere
  Replace,     // the same, a new tensor
  Copy,        // t[to] = t[from], copied into
  Clone,       // t[to] = t[from], a new tensor
  AddBoth,     // t[to] += number, then t[from] += number: all(a, b)
  AddThenMix,  // t[to] += number, then MixInput: a.then(b)
  Temporary,   // t[to] = 3 t[from] + input through a tensor that is dropped at once
  simple,      // the number of those above: one operation each
  AddNumber,   // t[to] += the number of the graph
  Loop,        // `number` times, or as often as the number of the graph says: body
  Branch,      // if an element of t[from] is odd: body, else: other
  Inner,       // a graph with tensors of its own: t[to] is copied into it, it is replayed, and copied back
};
struct Step;
using Program = std::vector<Step>;
struct InnerGraph;
/// One operation, or a loop or a branch of them. `from` differs from `to`.
struct Step {
  Kind kind = Kind::Fill;
  std::size_t to = 0, from = 0, input = 0;
  i32 number = 0;
  i32 delay = 0;                   ///< of every seventh block of Mix, in steps of a loop
  std::int64_t low = 0, high = 0;  ///< Branch: the element is `low`
  std::size_t counter = 0;         ///< of a loop or a branch, which no other of the program has
  Program body{}, other{};
  std::shared_ptr<Number> of_graph{};  ///< AddNumber; Loop: null if it is `number`
  std::shared_ptr<InnerGraph> inner{};
};

/// What a random program may contain beside single operations.
struct Structure {
  std::size_t first_counter = 0, counters = 0;  ///< a loop or a branch for each of these
  std::shared_ptr<Number> of_graph{};
  std::shared_ptr<InnerGraph> inner{};
};

/// A step over the tensors `first` to `last` - 1 of `size` elements each. `in_place`: no tensor of the state is
/// replaced, which a graph needs, whose replays begin with the tensors that the recording ended with.
Step random_step(Random&, std::size_t first, std::size_t last, const Inputs&, std::int64_t size, bool in_place = false);
Program random_program(Random&, int steps, std::size_t first, std::size_t last, const Inputs&, std::int64_t size,
                       bool in_place = false, Structure structure = {});

/// The meaning of a step.
void apply(const Step&, Values&, const Inputs&);
void apply(const Program& program, Values& values, const Inputs& inputs);
/// How many loops, branches and inner graphs were run by apply().
struct Controls {
  std::uint64_t runs_of_loops = 0, branches = 0, inner_graphs = 0;
};
extern thread_local Controls controls;

}  // namespace soak
