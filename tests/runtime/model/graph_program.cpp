// Recording, changing, and the same in the sequential program.
#include "runtime/model/graph_program.hpp"

namespace tessera::runtime::model {

namespace {
constexpr std::uint64_t kScalar = 1;     // the id of a2
constexpr std::size_t kChanged = 2;      // its step
constexpr std::uint64_t kNext = 100000;  // what a change adds

struct NoUpdate final : CallUpdate {
  void update(RecordedCall&) const override {}
};
}  // namespace

Ticket GraphNotes::submit(StreamCore& stream, Submission submission) const {
  if (use_.scalar != 0) {
    submission.scalars = {&use_, 1};
    submission.update = std::make_shared<NoUpdate>();
  }
  return stream.submit(submission);
}

GraphProgram::GraphProgram(World& world, const StorageRef& y, const StorageRef& x, int operation) : world_(world) {
  recording_ = std::make_shared<GraphRecording>(world.device());
  record(y, x, operation);
  recording_->finish();
  calls_ = std::make_shared<const GraphCalls>(recording_->calls());
  work_ = world.device().backend().make_graph(recording_);
}

Work& GraphProgram::make_work(std::size_t step, int operation, bool overwrites) {
  works_.push_back(std::make_unique<Work>());
  Work& work = *works_.back();
  work.operation = operation;
  work.overwrites = overwrites;
  work.addend = numbers_[step];
  work.scalar = step == kChanged ? kScalar : 0;
  work.touches.resize(2);  // the contents before a replay are not known while capturing
  return work;
}

void GraphProgram::record(const StorageRef& y, const StorageRef& x, int operation) {
  const CaptureScope scope(*recording_, {});
  StreamCore& stream = *scope.stream();
  StorageRef t = Storage::allocate(scope.stream(), 8), u = Storage::allocate(scope.stream(), 8);
  std::size_t step = 0;
  const auto add = [&](const StorageRef& to, const StorageRef& from, bool overwrites) {
    numbers_[step] = 50000u + 1000u * static_cast<unsigned>(operation) + 11u * step;
    Work& work = make_work(step++, operation, overwrites);
    const std::array<Access, 2> accesses{Access{to, overwrites ? AccessMode::Write : AccessMode::ReadWrite},
                                         Access{from, AccessMode::Read}};
    for (std::size_t i = 0; i < 2; ++i) work.touches[i].mode = accesses[i].mode;
    world_.submit(stream, work, accesses);
  };
  add(t, x, true);
  add(u, x, true);
  add(y, t, false);
  add(t, x, true);
  add(y, t, false);
  add(y, u, false);
  t.reset();
  u.reset();
  const StorageRef v = Storage::allocate(scope.stream(), 8);
  add(v, y, true);
  add(x, v, false);
}

void GraphProgram::change_number() {
  numbers_[kChanged] += kNext;
  const RecordedWork& entry = *recording_->updatable()[0];
  Work& work = make_work(kChanged, works_[kChanged]->operation, false);
  for (std::size_t i = 0; i < 2; ++i) work.touches[i].mode = entry.accesses[i].mode;
  auto calls = std::make_shared<GraphCalls>(*calls_);
  (*calls)[0].args[world_.work_slot()] = reinterpret_cast<std::uintptr_t>(&work);
  work_ = work_->with(calls);
  calls_ = std::move(calls);
}

void GraphProgram::apply(std::uint64_t& y, std::uint64_t& x) const {
  y = mixed(y, numbers_[0], numbers_[2]);
  y = mixed(y, numbers_[3], numbers_[4]);
  y = mixed(y, numbers_[1], numbers_[5]);
  x = mixed(x, numbers_[6], numbers_[7]);
}

}  // namespace tessera::runtime::model
