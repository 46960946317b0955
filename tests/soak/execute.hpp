// The steps of a program as operations, and flows that run programs.
#pragma once
#include <memory>
#include <utility>
#include <variant>

#include "soak/program.hpp"

namespace soak {

inline constexpr int kBlock = 64;

/// A step as an operation: one that writes in place, or one that makes the new tensor of `step.to`.
using AnyOp = std::variant<Op<void>, Op<Line>>;
AnyOp make_op(const Step&, State&, const Inputs&);
/// Enqueues the step.
void run(const Step&, State&, const Inputs&, const Stream&);

/// y += number, and the work fails if `number` is negative.
Op<void> add_checked(Line& y, i32 number);
inline constexpr const char* kFailure = "soak: a number is negative";

/// Where a flow is asked to end early, or to look at its results.
struct Interruption {
  std::size_t at = ~std::size_t{0};  ///< before this step
  enum class What : std::uint8_t { Nothing, Throw, Fail, Readback } what = What::Nothing;
  std::size_t line = 0;
  Value expected = {};  ///< of a readback
};
/// Thrown by a flow that was asked to.
struct Asked {};
/// A result differs from the sequential replay.
struct Wrong {
  std::string what;
};
/// Throws Wrong where the numbers are not those that are expected; unknown ones may be anything.
void compare(const Numbers& found, const Value& expected, const char* where);

/// Runs a program on the state of the caller. `inputs` lives as long as the program of the test.
Flow<> run_on(State& state, const Inputs& inputs, Program program, Interruption interruption);
/// The same with a state of its own, which is returned.
Flow<State> run_owning(State state, const Inputs& inputs, Program program, Interruption interruption);
/// Two programs beside each other; they have no tensor in common.
Flow<> run_forked(State& state, const Inputs& inputs, Program first, Program second);
/// What a task has computed.
Flow<State> wait_for(Task<State>& task);

/// For capture().
Flow<> recorded(State& state, const Inputs& inputs, const Program& program);
using Recording = Graph<void, State>;
/// A graph that others contain, and what its tensors should be.
struct InnerGraph {
  Recording graph;
  Program program;
  Values values;
};

}  // namespace soak
