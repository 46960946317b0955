// Calls to every rank, and the end of the group if one of them fails.
#include "engine/runners.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <latch>
#include <string>
#include <thread>
#include <utility>

#include "engine/calls.hpp"
#include "mortar/errors.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/mesh/processes.hpp"

namespace mortar {

class RankThread {
 public:
  RankThread() : thread_([this] { run(); }) {}
  ~RankThread() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  RankThread(const RankThread&) = delete;
  RankThread& operator=(const RankThread&) = delete;

  void post(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      work_.push_back(std::move(work));
    }
    changed_.notify_one();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ended_ || !work_.empty(); });
      if (work_.empty()) return;
      const std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool ended_ = false;
  std::thread thread_;
};

Runners::Runners(Model& model, const Numerics& numerics, std::int64_t pages) {
  if (model.parts.empty()) {
    ranks_.push_back(std::make_unique<Runner>(model, std::move(model.weights), model.device, numerics, pages));
    return;
  }
  messages_ = model.messages.get();
  is_first_ = messages_ != nullptr && messages_->is_first();
  if (messages_ == nullptr) {
    make_ranks(model, numerics, pages);
    return;
  }
  try {
    if (is_first_) messages_->send(message_of(StartCall{numerics, pages}).bytes());
    make_ranks(model, numerics, pages);
    messages_->meet();
  } catch (const tessera::MeshError& error) {
    throw RanksError(model.parts.front().mesh.failure().value_or(error.message()));
  } catch (const std::exception& error) {
    const auto* const known = dynamic_cast<const tessera::Error*>(&error);
    const std::string reason = known != nullptr ? known->message() : error.what();
    model.parts.front().mesh.abort(reason);
    messages_->abort(reason);
    throw;
  }
}

void Runners::make_ranks(Model& model, const Numerics& numerics, std::int64_t pages) {
  for (ModelPart& part : model.parts) {
    parallel_.push_back(std::make_unique<Parallel>(parallel_of(model.config, part.mesh, model.exact)));
    ranks_.push_back(
        std::make_unique<Runner>(model, std::move(part.weights), part.device, numerics, pages, parallel_.back().get()));
  }
  while (threads_.size() + 1 < ranks_.size()) threads_.push_back(std::make_unique<RankThread>());
}

Runners::~Runners() = default;

bool Runners::has_ended() {
  look_for_failures();
  const std::lock_guard lock(mutex_);
  return ended_;
}

void Runners::throw_if_ended() {
  look_for_failures();
  const std::lock_guard lock(mutex_);
  if (ended_) throw RanksError(reason_);
}

void Runners::fail(std::size_t rank, bool of_mesh, const std::string& text) noexcept {
  const tessera::Mesh& mesh = parallel_[rank]->mesh;
  const int number = mesh.first_rank();
  try {
    const std::lock_guard lock(mutex_);
    if (!ended_ || (!known_rank_ && !of_mesh)) {
      ended_ = true, known_rank_ = !of_mesh;
      cause_ = text;
      reason_ = of_mesh ? text
                        : tessera::concat("rank ", number, " of ", mesh.size(), " (", mesh.device(number).name(),
                                          ") has failed: ", text);
    }
  } catch (...) {  // no memory for the text
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  // The others wait for nothing of it. What another one has done is reported when its cause is known.
  if (!of_mesh || !mesh.failure()) mesh.abort(text);
}

void Runners::call(std::size_t rank, const std::function<void(std::size_t rank)>& f) noexcept {
  try {
    f(rank);
  } catch (const tessera::MeshError& error) { fail(rank, true, error.message()); } catch (const tessera::Error& error) {
    fail(rank, false, error.message());
  } catch (const std::exception& error) { fail(rank, false, error.what()); } catch (...) {
    fail(rank, false, "an exception of an unknown type");
  }
}

void Runners::each(const std::function<void(std::size_t rank)>& f) {
  if (parallel_.empty()) return f(0);
  throw_if_ended();
  std::latch others(std::ssize(threads_));
  for (std::size_t i = 0; i < threads_.size(); ++i)
    threads_[i]->post([&, i] {
      call(i + 1, f);
      others.count_down();
    });
  call(0, f);
  others.wait();
  throw_if_ended();
}

// Work may fail between two calls, too. Where the devices move the data, the work of a group that has ended says
// nothing, so the meshes are asked.
void Runners::look_for_failures() {
  for (std::size_t rank = 0; rank < parallel_.size(); ++rank)
    if (const auto failure = parallel_[rank]->mesh.failure()) fail(rank, true, *failure);
  ask_for_the_cause();
  report_cause();
}

void Runners::report_cause() {
  std::string cause;
  {
    const std::lock_guard lock(mutex_);
    if (!ended_ || std::exchange(reported_, true)) return;
    cause = cause_;
  }
  for (const auto& parallel : parallel_) parallel->mesh.abort(cause);
  if (messages_ != nullptr) messages_->abort(cause);
}

void Runners::make(const std::function<MessageWriter()>& message, const std::function<void(std::size_t rank)>& f) {
  if (messages_ == nullptr) return each(f);
  const tessera::mesh::Step step(messages_->mesh());  // a process that does not come to it is found by the watch
  if (is_first_) {
    throw_if_ended();
    call(0, [&](std::size_t) { messages_->send(message().bytes()); });
  }
  each(f);
}

void Runners::ask_for_the_cause() {
  {
    const std::lock_guard lock(mutex_);
    if (!ended_ || known_rank_) return;
  }
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    call(rank, [this](std::size_t i) { tessera::Stream(ranks_[i]->stream()).synchronize(); });
}

void Runners::begin(std::int64_t slots, std::int64_t slot, const TokenRange& ids, std::int64_t prompt,
                    const Sampling& sampling) {
  make([&] { return message_of_begin(slots, slot, ids, prompt, sampling); },
       [&](std::size_t rank) { ranks_[rank]->begin(slots, slot, ids, prompt, sampling); });
}

Runners::Launched Runners::launch(const StepRequest& request, const Launched* before) {
  Launched step;
  step.of_rank_.resize(ranks_.size());
  step.number_ = ++launched_;
  make([&] { return message_of_launch(step.number_, before == nullptr ? 0 : before->number_, request); },
       [&](std::size_t rank) {
         step.of_rank_[rank] = ranks_[rank]->launch(request, before == nullptr ? nullptr : &before->of_rank_[rank]);
       });
  return step;
}

void Runners::choose(Launched& step, std::span<const std::uint32_t> masks) {
  make([&] { return message_of(CallKind::Choose).put(step.number_).list(masks); },
       [&](std::size_t rank) { ranks_[rank]->choose(step.of_rank_[rank], masks); });
}

Runners::Chosen Runners::finish(Launched&& step) {
  Chosen chosen;
  make([&] { return message_of(CallKind::Finish).put(step.number_); },
       [&](std::size_t rank) {
         Chosen own = ranks_[rank]->finish(std::move(step.of_rank_[rank]));
         if (rank == 0) chosen = std::move(own);
       });
  return chosen;
}

void Runners::drop(Launched&& step) {
  make([&] { return message_of(CallKind::Drop).put(step.number_); },
       [&](std::size_t rank) { ranks_[rank]->drop(std::move(step.of_rank_[rank])); });
}

std::size_t Runners::begin_warm_up(const WarmUpLimits& limits) {
  warm_up_.resize(ranks_.size());
  make([&] { return message_of(limits); }, [&](std::size_t rank) { warm_up_[rank] = ranks_[rank]->warm_up(limits); });
  return warm_up_.front().parts.size();
}

void Runners::prepare(std::size_t part) {
  make([&] { return message_of(CallKind::Prepare).put(static_cast<std::uint64_t>(part)); },
       [&](std::size_t rank) {
         const std::size_t parts = rank < warm_up_.size() ? warm_up_[rank].parts.size() : 0;
         if (part >= parts) throw RanksError(tessera::concat("the warm-up has ", parts, " steps, found step ", part));
         ranks_[rank]->prepare(warm_up_[rank], part);
       });
}

void Runners::warm_up(const WarmUpLimits& limits, const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const std::size_t parts = begin_warm_up(limits);
  bool in_threads = !parallel_.empty();
  for (std::size_t part = 0; part < parts; ++part) {
    const auto begin = std::chrono::steady_clock::now();
    prepare(part);
    if (!in_threads && std::chrono::steady_clock::now() - begin > limits.compiling) {
      first().compile_in_threads(warm_up_.front(), part + 1, limits.memory);
      in_threads = true;
    }
    if (progress) progress(static_cast<std::int64_t>(part) + 1, static_cast<std::int64_t>(parts));
  }
  warm_up_.clear();
}

std::vector<float> Runners::logits(const RowPlan& row) {
  const auto message = [&] {
    MessageWriter m = message_of(CallKind::Logits);
    put_row(m, row);
    return m;
  };
  std::vector<float> all;
  make(message, [&](std::size_t rank) {
    std::vector<float> own = ranks_[rank]->logits(row);
    if (rank == 0) all = std::move(own);
  });
  return all;
}

std::vector<float> Runners::log_likelihoods(const RowPlan& row, std::span<const TokenId> next) {
  const auto message = [&] {
    MessageWriter m = message_of(CallKind::LogLikelihoods);
    put_row(m, row);
    return m.list(next);
  };
  std::vector<float> all;
  make(message, [&](std::size_t rank) {
    std::vector<float> own = ranks_[rank]->log_likelihoods(row, next);
    if (rank == 0) all = std::move(own);
  });
  return all;
}

}  // namespace mortar
