// Recording the bodies of loops and branches.
#include "tessera/host/graph_control.hpp"

#include <atomic>
#include <optional>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/runtime/graph.hpp"

namespace tessera::detail {

struct ControlCapture::State {
  runtime::GraphRecording* outer = nullptr;
  runtime::GraphCondition condition;
  std::vector<std::shared_ptr<runtime::GraphRecording>> bodies;
  std::optional<runtime::BodyScope> scope;
  const char* what = "";
  SourceLocation where;
};

void check_condition(std::int64_t size, const char* what, SourceLocation where) {
  if (size == 1) return;
  throw ShapeError(concat(what, ": the condition is a tensor of one element, found ", size,
                          ".\n  Reduce it first, or pass one element: t.slice<0>(i, i + 1)."),
                   where);
}

ControlCapture::ControlCapture(const Stream& stream, const ArgRef& condition, int rank, const char* what,
                               SourceLocation where)
    : state_(std::make_unique<State>()) {
  state_->outer = runtime::CaptureScope::innermost();
  state_->what = what;
  state_->where = where;
  if (state_->outer == nullptr)
    throw DeviceError(
        concat(what,
               ": the stream of this flow is being captured into a graph by another thread.\n  Use another stream."),
        where);
  ReadOperand operand;  // its lease ends here: the body may write the condition
  operand.bind(condition, rank, what, where);
  check_stream(stream, *operand.storage, what, where);
  const auto bytes = static_cast<std::size_t>(size_of(operand.element));
  state_->condition = {operand.storage, static_cast<std::size_t>(operand.offset) * bytes, bytes};
}

ControlCapture::~ControlCapture() = default;

Flow<> flow_of(Op<void> op, SourceLocation where) { co_await OpAt{std::move(op), where}; }

/// Recording, planning and drawing a graph recur along its bodies.
constexpr int kNestedLimit = 64;

int ControlCapture::calls() const noexcept { return state_->outer->is_second_call() ? 1 : 2; }

void ControlCapture::begin_body(bool second_call) {
  if (state_->outer->depth() >= kNestedLimit)
    throw DeviceError(concat(state_->what, ": more than ", kNestedLimit,
                             " loops and branches of a graph are inside each other: does the flow of a body call "
                             "itself?\n  Use a loop instead."),
                      state_->where);
  state_->bodies.push_back(std::make_shared<runtime::GraphRecording>(state_->outer->device()));
  state_->bodies.back()->set_depth(state_->outer->depth() + 1);
  if (second_call || state_->outer->is_second_call()) state_->bodies.back()->set_second_call();
  state_->scope.emplace(*state_->bodies.back());
}

void ControlCapture::end_body() {
  state_->scope.reset();
  SourceLocation made;
  if (!state_->bodies.back()->is_held_outside(made)) return;
  throw DeviceError(concat(state_->what, ": a tensor that was made in the body",
                           made.known() ? concat(" (used at ", made.file, ":", made.line, ")") : std::string(),
                           " is kept outside of it: in the graph the body may run many times, or not at all.\n  Make "
                           "the tensor before, and write into it: mut(t), or copy_into(mut(t), ...)."),
                    state_->where);
}

void ControlCapture::check_repeats() {
  if (calls() == 1) return;
  const auto again = std::move(state_->bodies.back());
  state_->bodies.pop_back();
  SourceLocation found;
  if (state_->bodies.back()->repeats_as(*again, found)) return;
  throw DeviceError(
      concat(state_->what, ": the body does something else when it is called again",
             found.known() ? concat(", first at ", found.file, ":", found.line) : std::string(),
             ": other tensors or other numbers. A graph does what the first call did, however often it "
             "runs.\n  Leave tensors where they are (no std::swap), and keep what changes from run to run in tensors."),
      state_->where);
}

void ControlCapture::record(bool loop) {
  using Kind = runtime::RecordedWork::Kind;
  state_->outer->add_control(loop ? Kind::While : Kind::If, state_->condition, std::move(state_->bodies), state_->what,
                             state_->where);
}

std::uint64_t next_scalar_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::uint64_t graph_scalar_bits(const ArgRef& number, const char* what, SourceLocation where) {
  return fitting(number, what, where);
}

void check_scalar_readable(SourceLocation where) {
  runtime::check_not_capturing("reading a GraphScalar on the host",
                               "What the host computes from it would stay as it is: compute it in a kernel, or make "
                               "another GraphScalar for it.",
                               where);
}

}  // namespace tessera::detail
