// Random steps, and what they mean: the sequential replay that the device's results are compared with.
#include "soak/program.hpp"

#include <algorithm>

#include "soak/execute.hpp"

namespace soak {

Step random_step(Random& random, std::size_t first, std::size_t last, const Inputs& inputs, std::int64_t size,
                 bool in_place) {
  const auto any = [&](std::size_t n) { return static_cast<std::size_t>(below(random, static_cast<int>(n))); };
  Step step;
  do step.kind = static_cast<Kind>(below(random, static_cast<int>(Kind::count)));
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

Program random_program(Random& random, int steps, std::size_t first, std::size_t last, const Inputs& inputs,
                       std::int64_t size, bool in_place) {
  Program program;
  for (int i = 0; i < steps; ++i) program.push_back(random_step(random, first, last, inputs, size, in_place));
  return program;
}

namespace {

std::uint32_t bits(i32 v) { return static_cast<std::uint32_t>(v); }

/// As the kernel `mix`.
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

}  // namespace

void apply(const Step& step, Values& values, const Inputs& inputs) {
  Value& to = values[step.to];
  Value& from = values[step.from];
  const Numbers& input = inputs.numbers[step.input];
  const std::size_t size = to.numbers.size();
  switch (step.kind) {
    case Kind::Mix:
    case Kind::MixGiven:
      mix(to.numbers, from.numbers, step.delay);
      to.known = to.known && from.known;
      break;
    case Kind::MixInput: mix(to.numbers, input, step.delay); break;
    case Kind::Combine:
    case Kind::Temporary:
      combine(to.numbers, from.numbers, input);
      to.known = from.known;
      break;
    case Kind::Add:
      add(to.numbers, step.number, static_cast<std::size_t>(step.low), static_cast<std::size_t>(step.high));
      break;
    case Kind::Fill:
    case Kind::Replace: to = {Numbers(size, step.number), true}; break;
    case Kind::Copy:
    case Kind::Clone: to = from; break;
    case Kind::AddBoth:
      add(to.numbers, step.number, 0, size);
      add(from.numbers, step.number, 0, size);
      break;
    case Kind::AddThenMix:
      add(to.numbers, step.number, 0, size);
      mix(to.numbers, input, step.delay);
      break;
    case Kind::count: break;
  }
}

}  // namespace soak
