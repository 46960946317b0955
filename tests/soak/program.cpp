// Random steps, and what they mean: the sequential replay that the device's results are compared with.
#include "soak/program.hpp"

#include <algorithm>

#include "soak/execute.hpp"

namespace soak {

Step random_step(Random& random, std::size_t first, std::size_t last, const Inputs& inputs, std::int64_t size,
                 bool in_place) {
  const auto any = [&](std::size_t n) { return static_cast<std::size_t>(below(random, static_cast<int>(n))); };
  Step step;
  do step.kind = static_cast<Kind>(below(random, static_cast<int>(Kind::simple)));
  while (in_place && (step.kind == Kind::Combine || step.kind == Kind::Replace || step.kind == Kind::Clone));
  const std::size_t count = last - first;
  const std::size_t to = any(count);
  step.to = first + to;
  step.from = first + (to + 1 + any(count - 1)) % count;
  step.input = any(inputs.lines.size());
  step.number = static_cast<i32>(random() % 1000);
  step.delay = one_in(random, 4) ? below(random, 300) : 0;
  step.low = static_cast<std::int64_t>(any(static_cast<std::size_t>(size)));
  step.high = step.low + 1 + static_cast<std::int64_t>(any(static_cast<std::size_t>(size - step.low)));
  return step;
}

namespace {

/// Makes programs over the same tensors, whose loops and branches have different counters.
struct Generator {
  Random& random;
  std::size_t first, last;
  const Inputs& inputs;
  std::int64_t size;
  bool in_place;
  Structure structure;

  Program program(int steps, int depth) {
    Program made;
    for (int i = 0; i < steps; ++i) made.push_back(step(depth));
    return made;
  }
  Step step(int depth) {
    const int kind = below(random, 10);
    // Tensors that are replaced in a body would end with it: its steps are in place.
    Step made = random_step(random, first, last, inputs, size, in_place || depth > 0);
    if (kind == 0 && structure.of_graph) {
      made.kind = Kind::AddNumber, made.of_graph = structure.of_graph;
    } else if (kind == 1 && structure.inner) {
      made.kind = Kind::Inner, made.inner = structure.inner;
    } else if (kind <= 4 && depth < 2 && structure.counters > 0) {
      made.counter = structure.first_counter + --structure.counters;
      made.kind = one_in(random, 2) ? Kind::Loop : Kind::Branch;
      made.body = program(1 + below(random, 3), depth + 1);
      if (made.kind == Kind::Branch) made.other = program(below(random, 3), depth + 1);
      made.number = below(random, kMaxRuns + 1);
      if (one_in(random, 2)) made.of_graph = structure.of_graph;
    }
    return made;
  }
};

}  // namespace

Program random_program(Random& random, int steps, std::size_t first, std::size_t last, const Inputs& inputs,
                       std::int64_t size, bool in_place, Structure structure) {
  return Generator{random, first, last, inputs, size, in_place, std::move(structure)}.program(steps, 0);
}

thread_local Controls controls;

namespace {

std::uint32_t bits(i32 v) { return static_cast<std::uint32_t>(v); }

/// What the kernels of these names do.
namespace on_host {

void mix(Numbers& y, const Numbers& x, i32 delay) {
  std::uint32_t factor = 1, term = 0;  // of the blocks that are late: t becomes factor * t + term
  for (i32 i = 0; i < delay; ++i) factor *= 3, term = term * 3 + bits(i);
  const std::size_t blocks = (y.size() + kBlock - 1) / kBlock;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t block = i / kBlock, other = (blocks - 1 - block) * kBlock + i % kBlock;
    const std::uint32_t t = other < x.size() ? bits(x[other]) : 0;
    y[i] = static_cast<i32>(bits(y[i]) * 5 + (block % 7 == 0 ? t * factor + term : t));
  }
}
void combine(Numbers& y, const Numbers& a, const Numbers& b) {
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<i32>(bits(a[i]) * 3 + bits(b[i]));
}
void add(Numbers& y, i32 number, std::size_t low, std::size_t high) {
  for (std::size_t i = low; i < high; ++i) y[i] = static_cast<i32>(bits(y[i]) + bits(number));
}

}  // namespace on_host
}  // namespace

void apply(const Step& step, Values& values, const Inputs& inputs) {
  Value& to = values[step.to];
  Value& from = values[step.from];
  const Numbers& input = inputs.numbers[step.input];
  const std::size_t size = to.numbers.size();
  switch (step.kind) {
    case Kind::Mix:
    case Kind::MixGiven:
      on_host::mix(to.numbers, from.numbers, step.delay);
      to.known = to.known && from.known;
      break;
    case Kind::MixInput: on_host::mix(to.numbers, input, step.delay); break;
    case Kind::Combine:
    case Kind::Temporary:
      on_host::combine(to.numbers, from.numbers, input);
      to.known = from.known;
      break;
    case Kind::Add:
      on_host::add(to.numbers, step.number, static_cast<std::size_t>(step.low), static_cast<std::size_t>(step.high));
      break;
    case Kind::Fill:
    case Kind::Replace: to = {Numbers(size, step.number), true}; break;
    case Kind::Copy:
    case Kind::Clone: to = from; break;
    case Kind::AddBoth:
      on_host::add(to.numbers, step.number, 0, size);
      on_host::add(from.numbers, step.number, 0, size);
      break;
    case Kind::AddThenMix:
      on_host::add(to.numbers, step.number, 0, size);
      on_host::mix(to.numbers, input, step.delay);
      break;
    case Kind::AddNumber: on_host::add(to.numbers, step.of_graph->value, 0, size); break;
    case Kind::Loop:
      for (i32 i = step.of_graph ? step.of_graph->value : step.number; i > 0; --i) {
        apply(step.body, values, inputs);
        ++controls.runs_of_loops;
      }
      break;
    case Kind::Branch:
      apply(from.numbers[static_cast<std::size_t>(step.low)] & 1 ? step.body : step.other, values, inputs);
      ++controls.branches;
      break;
    case Kind::Inner:
      step.inner->values[step.from] = to;
      apply(step.inner->program, step.inner->values, inputs);
      to = step.inner->values[step.from];
      ++controls.inner_graphs;
      break;
    case Kind::simple: break;
  }
}
void apply(const Program& program, Values& values, const Inputs& inputs) {
  for (const Step& step : program) apply(step, values, inputs);
}

}  // namespace soak
