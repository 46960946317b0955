// What the soak program runs: random sequences of operations over a few tensors, which a device executes in any of
// several ways and the host one after the other. The elements are i32, so that results are equal bit for bit.
#pragma once
#include <cstdint>
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

/// The tensors that a program writes. They have equally many elements.
struct State {
  std::vector<Line> lines;
};
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
  count
};
/// One operation. `from` differs from `to`.
struct Step {
  Kind kind = Kind::Fill;
  std::size_t to = 0, from = 0, input = 0;
  i32 number = 0;
  i32 delay = 0;  ///< of every seventh block of Mix, in steps of a loop
  std::int64_t low = 0, high = 0;
};
using Program = std::vector<Step>;

/// A step over the tensors `first` to `last` - 1 of `size` elements each. `in_place`: no tensor of the state is
/// replaced, which a graph needs, whose replays begin with the tensors that the recording ended with.
Step random_step(Random&, std::size_t first, std::size_t last, const Inputs&, std::int64_t size, bool in_place = false);
Program random_program(Random&, int steps, std::size_t first, std::size_t last, const Inputs&, std::int64_t size,
                       bool in_place = false);

/// The meaning of a step.
void apply(const Step&, Values&, const Inputs&);
inline void apply(const Program& program, Values& values, const Inputs& inputs) {
  for (const Step& step : program) apply(step, values, inputs);
}

}  // namespace soak
