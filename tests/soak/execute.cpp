// Kernels, operations and flows of the soak program.
#include "soak/execute.hpp"

#include <string>

namespace soak {
namespace {

/// y = 5 y + (x from the other end); every seventh block is late.
void mix(Mut<i32, kBlock> y, In<i32, dyn> x, Scalar<i32> delay) {
  auto X = x.tiles(shape<kBlock>);
  auto [block] = y.index();
  auto t = X.load(X.count(0) - 1 - block);
  for (auto i : range(where(block % 7 == 0, delay, 0))) t = t * 3 + i;
  y.store(y.load() * 5 + t);
}
void combine(Mut<i32, kBlock> y, In<i32, dyn> a, In<i32, dyn> b) { y.store(a.load_like(y) * 3 + b.load_like(y)); }
void add(Mut<i32, kBlock> y, Scalar<i32> number) { y.store(y.load() + number); }
void add_positive(Mut<i32, kBlock> y, Scalar<i32> number) {
  check(number >= 0, "soak: a number is negative");
  y.store(y.load() + number);
}

/// n = 1 if an element is odd, else 0.
void is_odd(Mut<i32, 1> n, In<i32, dyn> x, Scalar<i32> element) { n.store(x.tiles(shape<1>).load(element) & 1); }
void set(Mut<i32, 1> n, Scalar<i32> number) { n.store(full<i32, 1>(number)); }

}  // namespace

Op<void> add_checked(Line& y, i32 number) { return kernel<add_positive>(mut(y), number); }

AnyOp make_op(const Step& step, State& state, const Inputs& inputs) {
  Line& to = state.lines[step.to];
  Line& from = state.lines[step.from];
  const Shared<i32, 1>& input = inputs.lines[step.input];
  const std::int64_t size = to.size();
  switch (step.kind) {
    case Kind::Mix: return kernel<mix>(mut(to), from, step.delay);
    case Kind::MixGiven: return kernel<mix>(std::move(to), from, step.delay);
    case Kind::MixInput: return kernel<mix>(mut(to), input, step.delay);
    case Kind::Combine: return kernel<combine>(empty_like(from), from, input);
    case Kind::Add: return kernel<add>(mut(to).slice<0>(step.low, step.high), step.number);
    case Kind::Fill: return copy_into(mut(to), full<i32>({size}, step.number));
    case Kind::Replace: return full<i32>({size}, step.number);
    case Kind::Copy: return copy_into(mut(to), from);
    case Kind::Clone: return clone(from);
    case Kind::AddBoth: return all(kernel<add>(mut(to), step.number), kernel<add>(mut(from), step.number));
    case Kind::AddThenMix:
      return kernel<add>(std::move(to), step.number).then([input, delay = step.delay](Line line) {
        return kernel<mix>(std::move(line), input, delay);
      });
    case Kind::Temporary: return copy_into(mut(to), kernel<combine>(empty_like(from), from, input));
    case Kind::AddNumber: return kernel<add>(mut(to), step.of_graph->scalar);
    case Kind::simple:
    case Kind::Loop:
    case Kind::Branch:
    case Kind::Inner: break;
  }
  throw Wrong{"there is no such step"};
}

void run(const Step& step, State& state, const Inputs& inputs, const Stream& stream) {
  AnyOp op = make_op(step, state, inputs);
  if (auto* in_place = std::get_if<Op<void>>(&op))
    std::move(*in_place).on(stream);
  else
    state.lines[step.to] = std::move(std::get<Op<Line>>(op)).on(stream);
}

void compare(const Numbers& found, const Value& expected, const char* where) {
  if (!expected.known) return;
  if (found.size() != expected.numbers.size()) throw Wrong{std::string(where) + ": another number of elements"};
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] != expected.numbers[i])
      throw Wrong{std::string(where) + ": element " + std::to_string(i) + " of " + std::to_string(found.size()) +
                  " is " + std::to_string(found[i]) + ", expected " + std::to_string(expected.numbers[i])};
  }
}

namespace {

Flow<> run_loop(State& state, const Inputs& inputs, const Step& step) {
  Line& left = state.counters[step.counter];
  if (step.of_graph)
    co_await kernel<set>(mut(left), step.of_graph->scalar);
  else
    co_await copy_into(mut(left), full<i32>(Dims(1), step.number));
  co_await graph_while(left, [&]() -> Flow<> {
    return [](State& s, const Inputs& in, const Step& loop) -> Flow<> {
      co_await recorded(s, in, loop.body);
      co_await kernel<add>(mut(s.counters[loop.counter]), -1);
    }(state, inputs, step);
  });
}
Flow<> run_branch(State& state, const Inputs& inputs, const Step& step) {
  Line& taken = state.counters[step.counter];
  co_await kernel<is_odd>(mut(taken), state.lines[step.from], static_cast<i32>(step.low));
  const auto body = [&] { return recorded(state, inputs, step.body); };
  if (step.other.empty())
    co_await graph_if(taken, body);
  else
    co_await graph_if(taken, body, [&] { return recorded(state, inputs, step.other); });
}
Flow<> run_inner(State& state, const Step& step) {
  Line& inside = step.inner->graph.input<0>().lines[step.from];
  co_await copy_into(mut(inside), state.lines[step.to]);
  co_await step.inner->graph.replay();
  co_await copy_into(mut(state.lines[step.to]), inside);
}

}  // namespace

Flow<> run_on(State& state, const Inputs& inputs, Program program, Interruption interruption) {
  using What = Interruption::What;
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (i == interruption.at) {
      Line& line = state.lines[interruption.line];
      if (interruption.what == What::Throw) throw Asked{};
      if (interruption.what == What::Fail) co_await add_checked(line, -1);
      if (interruption.what == What::Readback) {
        const Numbers found = co_await host(line);
        compare(found, interruption.expected, "a readback in a flow");
      }
    }
    const Step& step = program[i];
    if (step.kind > Kind::AddNumber) {
      if (step.kind == Kind::Loop) co_await run_loop(state, inputs, step);
      if (step.kind == Kind::Branch) co_await run_branch(state, inputs, step);
      if (step.kind == Kind::Inner) co_await run_inner(state, step);
      continue;
    }
    AnyOp op = make_op(step, state, inputs);
    if (auto* in_place = std::get_if<Op<void>>(&op))
      co_await std::move(*in_place);
    else
      state.lines[step.to] = co_await std::move(std::get<Op<Line>>(op));
  }
}

Flow<State> run_owning(State state, const Inputs& inputs, Program program, Interruption interruption) {
  co_await run_on(state, inputs, std::move(program), std::move(interruption));
  co_return std::move(state);
}

Flow<> run_forked(State& state, const Inputs& inputs, Program first, Program second) {
  const Interruption none;
  co_await fork(run_on(state, inputs, std::move(first), none), run_on(state, inputs, std::move(second), none));
}

Flow<State> wait_for(Task<State>& task) { co_return co_await task; }

Flow<> recorded(State& state, const Inputs& inputs, const Program& program) {
  const Interruption none;
  co_await run_on(state, inputs, program, none);
}

}  // namespace soak
