// The actions of a worker.
#include "soak/worker.hpp"

#include <utility>

namespace soak {
namespace {

constexpr std::size_t kLines = 5, kTaskLines = 3, kMaxTasks = 3, kMaxGraphs = 2;

constexpr const char* kNames[] = {"steps",    "readbacks", "dropped",     "conflicts", "failures",  "flows",
                                  "forks",    "spawned",   "finished",    "cancelled", "captures",  "replays",
                                  "releases", "numbers",   "uploads",     "downloads", "exchanges", "shares",
                                  "copies",   "streams",   "synchronized"};
static_assert(std::size(kNames) == kActions);

/// How often each action is chosen, among all.
constexpr int kWeights[] = {40, 10, 3, 3, 2, 8, 4, 6, 6, 2, 3, 9, 2, 3, 3, 3, 2, 2, 2, 2, 2};
static_assert(std::size(kWeights) == kActions);

Action random_action(Random& random) {
  int total = 0;
  for (const int weight : kWeights) total += weight;
  int at = below(random, total);
  for (std::size_t i = 0; i < kActions; ++i)
    if ((at -= kWeights[i]) < 0) return static_cast<Action>(i);
  return Action::Step;
}

bool is_asked_failure(const std::exception& error) {
  return std::string_view(error.what()).find(kFailure) != std::string_view::npos;
}
/// Calls f(), which should throw the DeviceError of a failed check.
template <class F>
void expect_failure(F&& f, const char* where) {
  try {
    f();
  } catch (const DeviceError& error) {
    if (is_asked_failure(error)) return;
    throw;
  }
  throw Wrong{std::string(where) + ": a failure was lost"};
}
/// Calls f(), which may throw the DeviceError of a failed check.
template <class F>
void allow_failure(F&& f) {
  try {
    f();
  } catch (const DeviceError& error) {
    if (!is_asked_failure(error)) throw;
  }
}

}  // namespace

const char* name(Action action) noexcept { return kNames[static_cast<std::size_t>(action)]; }

Worker::Worker(std::uint64_t seed, Device device, const Inputs& inputs, std::vector<Stream> shared, Progress& progress)
    : progress_(progress),
      random_(seed),
      device_(device),
      inputs_(inputs),
      size_(static_cast<std::int64_t>(inputs.numbers.front().size())),
      shared_(std::move(shared)),
      buffer_(size_, device) {
  for (int i = 0; i < 3; ++i) own_.emplace_back(device_);
  state_ = make_state(kLines, values_);
}

const Stream& Worker::any_stream() {
  if (one_in(random_, 3)) return shared_[static_cast<std::size_t>(below(random_, static_cast<int>(shared_.size())))];
  return own();
}

void Worker::run(int actions) {
  const auto named = [](const char* what, auto&& f) {
    try {
      f();
    } catch (const Error& error) { throw Wrong{std::string(what) + ": " + error.what()}; }
  };
  for (int i = 0; i < actions; ++i) {
    const Action action = random_action(random_);
    named(name(action), [&] { act(action); });
  }
  progress_.action = kActions;
  named("the end", [&] { end(); });
}

void Worker::act(Action action) {
  ++counts_[static_cast<std::size_t>(action)];
  progress_.action = static_cast<std::size_t>(action);
  ++progress_.actions;
  switch (action) {
    case Action::Step: return step();
    case Action::Readback: return readback();
    case Action::Drop: return drop();
    case Action::Conflict: return conflict();
    case Action::Fail: return fail();
    case Action::Flow: return flow();
    case Action::Fork: return forked();
    case Action::Spawn: return start_task();
    case Action::Finish: return finish_task();
    case Action::Cancel: return cancel();
    case Action::Capture: return record();
    case Action::Replay: return replay();
    case Action::Release: return release();
    case Action::Set: return set_number();
    case Action::Upload: return upload();
    case Action::Download: return download();
    case Action::Exchange: return exchange();
    case Action::Share: return share_and_back();
    case Action::Copy: return copy();
    case Action::NewStream: own_[static_cast<std::size_t>(below(random_, 3))] = Stream(device_); return;
    case Action::Synchronize: return synchronize();
    case Action::count: break;
  }
}

// -- tensors ---------------------------------------------------------------------------------------------------------

State Worker::make_state(std::size_t lines, Values& values) {
  State state;
  values.clear();
  for (std::size_t i = 0; i < lines; ++i) {
    const i32 number = static_cast<i32>(random_() % 1000);
    state.lines.push_back(full<i32>({size_}, number).on(any_stream()));
    values.push_back({Numbers(static_cast<std::size_t>(size_), number), true});
  }
  for (std::size_t i = 0; i < kCounters; ++i) state.counters.push_back(zeros<i32>({1}).on(any_stream()));
  return state;
}

void Worker::refill(std::size_t line) {
  const i32 number = static_cast<i32>(random_() % 1000);
  copy_into(mut(state_.lines[line]), full<i32>({size_}, number)).on(any_stream());
  values_[line] = {Numbers(static_cast<std::size_t>(size_), number), true};
}

void Worker::check(const Line& line, const Value& expected, const char* where) {
  const auto read = [&] {
    compare(one_in(random_, 2) ? host(line).sync() : host(line).sync(any_stream()), expected, where);
  };
  expected.known ? read() : allow_failure(read);
}

void Worker::step() {
  const Step one = random_step(random_, 0, kLines, inputs_, size_);
  soak::run(one, state_, inputs_, any_stream());
  apply(one, values_, inputs_);
}

void Worker::readback() {
  const std::size_t line = any_line();
  check(state_.lines[line], values_[line], "a readback");
}

/// An operation that is built and not run changes nothing, and gives back what it was given.
void Worker::drop() {
  Step one = random_step(random_, 0, kLines, inputs_, size_);
  while (one.kind == Kind::MixGiven || one.kind == Kind::AddThenMix)  // which would lose the tensor
    one = random_step(random_, 0, kLines, inputs_, size_);
  const AnyOp dropped = make_op(one, state_, inputs_);
}

void Worker::conflict() {
  Step one;
  one.kind = Kind::Fill, one.to = any_line(), one.from = (one.to + 1) % kLines, one.number = below(random_, 1000);
  AnyOp pending = make_op(one, state_, inputs_);
  try {
    const auto rejected = host(state_.lines[one.to]);
    throw Wrong{"a tensor was read beside an operation that writes it"};
  } catch (const BorrowError&) {}
  if (one_in(random_, 2)) return;
  std::move(std::get<Op<void>>(pending)).on(any_stream());
  apply(one, values_, inputs_);
}

/// A failure is thrown where the result is waited for, also that of work which depends on it.
void Worker::fail() {
  const std::size_t line = any_line();
  refill(line);
  add_checked(state_.lines[line], -1).on(own());
  if (one_in(random_, 2)) {
    const Line dependent = clone(state_.lines[line]).on(own());
    expect_failure([&] { (void)host(dependent).sync(); }, "a dependent readback");
  } else if (one_in(random_, 2)) {
    expect_failure([&] { (void)host(state_.lines[line]).sync(own()); }, "a readback");
  }  // else it is not looked at
  refill(line);
}

void Worker::upload() {
  check_download();
  const std::size_t line = any_line();
  Value& value = values_[line];
  {
    auto values = buffer_.write();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<i32>(random_());
    value = {Numbers(values.begin(), values.end()), true};
  }
  state_.lines[line] = from(buffer_, {size_}).on(any_stream());
}

void Worker::download() {
  check_download();
  const std::size_t line = any_line();
  if (!values_[line].known) return;
  buffer_ = host(state_.lines[line], std::move(buffer_)).on(any_stream());
  downloaded_ = values_[line];
}
void Worker::check_download() {
  if (!downloaded_) return;
  const auto read = buffer_.read();
  compare(Numbers(read.begin(), read.end()), *downloaded_, "a pinned buffer");
  downloaded_.reset();
}

/// Through DLPack and back.
void Worker::exchange() {
  const std::size_t line = any_line();
  if (!values_[line].known) return;
  state_.lines[line] = from_dlpack<i32, 1>(to_dlpack(std::move(state_.lines[line])));
}

void Worker::share_and_back() {
  const std::size_t line = any_line();
  Shared<i32, 1> shared = share(std::move(state_.lines[line]));
  {
    const auto other = shared;
    if (try_unshare(std::move(shared))) throw Wrong{"a tensor with two owners was given to one"};
    const Line copied = clone(other).on(any_stream());
    if (one_in(random_, 2)) check(copied, values_[line], "a copy of a shared tensor");
  }
  auto back = try_unshare(std::move(shared));  // NOLINT(bugprone-use-after-move): unchanged by the rejection
  if (!back) throw Wrong{"a tensor with one owner was not given back"};
  state_.lines[line] = std::move(*back);
}

void Worker::copy() {
  const std::size_t line = any_line();
  if (!values_[line].known) return;
  const Line there = copy_to(state_.lines[line], Device::cpu()).on(any_stream());
  if (one_in(random_, 2)) state_.lines[line] = copy_to(there, device_).on(any_stream());
  compare(host(there).sync(), values_[line], "a copy on the CPU");
}

void Worker::synchronize() {
  Stream stream = one_in(random_, 4) ? Stream::default_of(device_) : any_stream();
  allow_failure([&] { stream.synchronize(); });
}

void Worker::end() {
  while (!tasks_.empty()) finish_task();
  while (!graphs_.empty()) release();
  check_download();
  for (std::size_t i = 0; i < kLines; ++i) check(state_.lines[i], values_[i], "the end");
  for (Stream& stream : own_) allow_failure([&] { stream.synchronize(); });
}

// -- flows -----------------------------------------------------------------------------------------------------------

Interruption Worker::interrupt(const Program& program, Values& values, bool fails) {
  using What = Interruption::What;
  Interruption interruption;
  do interruption.what = fails ? What::Fail : static_cast<What>(below(random_, 4));
  while (!fails && interruption.what == What::Fail);
  const std::size_t at = static_cast<std::size_t>(below(random_, static_cast<int>(program.size())));
  interruption.line = static_cast<std::size_t>(below(random_, static_cast<int>(values.size())));
  if (interruption.what != What::Nothing) interruption.at = at;
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (i == interruption.at) {
      if (interruption.what == What::Throw) break;
      if (interruption.what == What::Fail) {
        Value& failing = values[interruption.line];
        if (!failing.known) interruption.what = What::Nothing;  // it would not run, and fail once more or not
        failing.known = false;
      }
      if (interruption.what == What::Readback) {
        if (values[interruption.line].known)
          interruption.expected = values[interruption.line];
        else
          interruption.what = What::Nothing;  // it would throw, or not
      }
    }
    apply(program[i], values, inputs_);
  }
  return interruption;
}

void Worker::flow() {
  using What = Interruption::What;
  bool all_known = true;  // what has failed may fail again where it is waited for
  for (const Value& value : values_) all_known = all_known && value.known;
  const bool fails = one_in(random_, 4);  // then it has no branches, whose conditions could be what has failed
  Program program = random_program(random_, 1 + below(random_, 8), 0, kLines, inputs_, size_, false,
                                   {0, all_known && !fails ? kCounters : 0});
  Interruption interruption = interrupt(program, values_, fails);
  const What what = interruption.what;
  const bool wait = one_in(random_, 2);
  auto made = run_on(state_, inputs_, std::move(program), std::move(interruption));
  const auto run = [&] {
    if (!wait)
      std::move(made).on(own());
    else if (what == What::Fail || one_in(random_, 2))
      std::move(made).sync(own());
    else
      std::move(made).sync();
  };
  try {
    if (what == What::Fail && wait)
      expect_failure(run, "a flow");
    else
      all_known ? run() : allow_failure(run);
    if (what == What::Throw && all_known) throw Wrong{"an exception of a flow was lost"};
  } catch (const Asked&) {
    if (what != What::Throw) throw Wrong{"an exception of another flow"};
  }
}

void Worker::forked() {
  constexpr std::size_t kMiddle = 2;
  Program first = random_program(random_, 1 + below(random_, 5), 0, kMiddle, inputs_, size_);
  Program second = random_program(random_, 1 + below(random_, 5), kMiddle, kLines, inputs_, size_);
  apply(first, values_, inputs_);
  apply(second, values_, inputs_);
  auto made = run_forked(state_, inputs_, std::move(first), std::move(second));
  // What has failed before may fail again where it is waited for.
  allow_failure([&] { one_in(random_, 2) ? std::move(made).on(any_stream()) : std::move(made).sync(any_stream()); });
}

void Worker::start_task() {
  if (tasks_.size() >= kMaxTasks) return finish_task();
  Values values;
  State state = make_state(kTaskLines, values);
  const bool fails = one_in(random_, 4);
  Program program =
      random_program(random_, 1 + below(random_, 8), 0, kTaskLines, inputs_, size_, false, {0, fails ? 0 : kCounters});
  Interruption interruption = interrupt(program, values, fails);
  const auto what = interruption.what;
  auto made = run_owning(std::move(state), inputs_, std::move(program), std::move(interruption));
  // A failure is thrown once: this stream is waited for by the task alone.
  const Stream stream = what == Interruption::What::Fail ? Stream(device_) : own();
  tasks_.push_back({spawn(std::move(made), stream), std::move(values), what});
}

void Worker::finish_task() {
  using What = Interruption::What;
  if (tasks_.empty()) return;
  const std::size_t at = static_cast<std::size_t>(below(random_, static_cast<int>(tasks_.size())));
  Running running = std::move(tasks_[at]);
  tasks_.erase(tasks_.begin() + static_cast<std::ptrdiff_t>(at));
  if (one_in(random_, 4)) return;  // dropped: cancelled, or its result is
  const bool get = one_in(random_, 2);
  State state;
  const auto finish = [&] { state = get ? running.task.get() : wait_for(running.task).sync(any_stream()); };
  try {
    if (running.interrupted == What::Fail && get) return expect_failure(finish, "a task");
    finish();
    if (running.interrupted == What::Throw) throw Wrong{"an exception of a task was lost"};
  } catch (const Asked&) {
    if (running.interrupted == What::Throw) return;
    throw Wrong{"an exception of another task"};
  }
  for (std::size_t i = 0; i < kTaskLines; ++i) check(state.lines[i], running.values[i], "the result of a task");
}

/// A flow on this worker's tensors that is cancelled somewhere: they stay usable.
void Worker::cancel() {
  Program program = random_program(random_, 2 + below(random_, 6), 0, kLines, inputs_, size_);
  Interruption interruption;
  interruption.at = 1, interruption.what = Interruption::What::Readback, interruption.expected.known = false;
  for (std::size_t i = 0; i < kLines; ++i) refill(i);  // nothing has failed
  { const auto cancelled = spawn(run_on(state_, inputs_, std::move(program), std::move(interruption)), any_stream()); }
  for (std::size_t i = 0; i < kLines; ++i) refill(i);
}

// -- graphs ----------------------------------------------------------------------------------------------------------

void Worker::record() {
  if (graphs_.size() >= kMaxGraphs) return release();
  Values values;
  State state = make_state(kTaskLines, values);
  Structure structure{0, kCounters, std::make_shared<Number>(below(random_, kMaxRuns + 1)), nullptr};
  if (one_in(random_, 3)) structure.inner = inner_graph();
  Program program = random_program(random_, 1 + below(random_, 6), 0, kTaskLines, inputs_, size_, true, structure);
  Recording graph = capture(recorded, std::move(state), inputs_, program);
  graphs_.push_back({std::move(graph), std::move(program), std::move(values), structure.of_graph, structure.inner});
}

/// With loops and branches of its own, and no number that changes: in another graph it would keep the first one.
std::shared_ptr<InnerGraph> Worker::inner_graph() {
  Values values;
  State state = make_state(kTaskLines, values);
  Program program = random_program(random_, 1 + below(random_, 3), 0, kTaskLines, inputs_, size_, true, {0, kCounters});
  Recording graph = capture(recorded, std::move(state), inputs_, program);
  return std::make_shared<InnerGraph>(InnerGraph{std::move(graph), std::move(program), std::move(values)});
}

/// Another number for the replays from now on; those in flight keep theirs.
void Worker::set_number() {
  if (graphs_.empty()) return record();
  Recorded& recorded = graphs_[static_cast<std::size_t>(below(random_, static_cast<int>(graphs_.size())))];
  const i32 number = below(random_, kMaxRuns + 1);
  try {
    recorded.graph.set(recorded.number->scalar, number);
    recorded.number->value = number;
  } catch (const DeviceError& error) {  // the program has no step with it
    if (std::string_view(error.what()).find("no launch of this graph uses") == std::string_view::npos) throw;
  }
  if (one_in(random_, 2)) replay();
}

void Worker::replay() {
  if (graphs_.empty()) return record();
  Recorded& recorded = graphs_[static_cast<std::size_t>(below(random_, static_cast<int>(graphs_.size())))];
  if (one_in(random_, 4)) {
    const std::size_t line = static_cast<std::size_t>(below(random_, kTaskLines));
    const i32 number = static_cast<i32>(random_() % 1000);
    copy_into(mut(recorded.graph.input<0>().lines[line]), full<i32>({size_}, number)).on(any_stream());
    recorded.values[line].numbers.assign(static_cast<std::size_t>(size_), number);
  }
  for (int times = 1 + below(random_, 3); times > 0; --times) {
    one_in(random_, 4) ? recorded.graph.replay().sync() : recorded.graph.replay().on(any_stream());
    apply(recorded.program, recorded.values, inputs_);
  }
  const std::size_t line = static_cast<std::size_t>(below(random_, kTaskLines));
  if (one_in(random_, 2)) check(recorded.graph.input<0>().lines[line], recorded.values[line], "a tensor of a graph");
  if (!recorded.inner) return;
  InnerGraph& inner = *recorded.inner;
  if (one_in(random_, 3)) {  // by itself, between replays of the graph that contains it
    inner.graph.replay().on(any_stream());
    apply(inner.program, inner.values, inputs_);
  }
  if (one_in(random_, 2)) check(inner.graph.input<0>().lines[line], inner.values[line], "a tensor of an inner graph");
}

void Worker::release() {
  if (graphs_.empty()) return;
  Recorded recorded = std::move(graphs_.back());
  graphs_.pop_back();
  if (one_in(random_, 4)) return;  // dropped, with replays in flight
  auto [state] = std::move(recorded.graph).release();
  for (std::size_t i = 0; i < kTaskLines; ++i) check(state.lines[i], recorded.values[i], "a released tensor");
}

}  // namespace soak
