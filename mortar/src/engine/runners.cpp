// Calls to every rank, and the end of the group if one of them fails.
#include "engine/runners.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <latch>
#include <string>
#include <thread>
#include <utility>

#include "mortar/errors.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

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
  for (ModelPart& part : model.parts) {
    parallel_.push_back(std::make_unique<Parallel>(parallel_of(model.config, part.mesh, model.exact)));
    ranks_.push_back(
        std::make_unique<Runner>(model, std::move(part.weights), part.device, numerics, pages, parallel_.back().get()));
  }
  while (threads_.size() + 1 < ranks_.size()) threads_.push_back(std::make_unique<RankThread>());
}

Runners::~Runners() = default;

bool Runners::has_ended() {
  const std::lock_guard lock(mutex_);
  return ended_;
}

void Runners::throw_if_ended() {
  const std::lock_guard lock(mutex_);
  if (ended_) throw RanksError(reason_);
}

void Runners::fail(std::size_t rank, bool of_mesh, const std::string& text) noexcept {
  const tessera::Mesh& mesh = parallel_[rank]->mesh;
  try {
    const std::lock_guard lock(mutex_);
    if (!ended_ || (!known_rank_ && !of_mesh)) {
      ended_ = true, known_rank_ = !of_mesh;
      reason_ = of_mesh ? text
                        : tessera::concat("rank ", rank, " of ", ranks_.size(), " (",
                                          mesh.device(static_cast<int>(rank)).name(), ") has failed: ", text);
    }
  } catch (...) {  // no memory for the text
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  mesh.abort(text);  // the others wait for nothing of it
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
  // Where the devices move the data, the work of a group that has ended says nothing.
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    if (const auto failure = parallel_[rank]->mesh.failure()) fail(rank, true, *failure);
  ask_for_the_cause();
  throw_if_ended();
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
  each([&](std::size_t rank) { ranks_[rank]->begin(slots, slot, ids, prompt, sampling); });
}

Runners::Launched Runners::launch(const StepRequest& request, const Launched* before) {
  Launched step;
  step.of_rank_.resize(ranks_.size());
  each([&](std::size_t rank) {
    step.of_rank_[rank] = ranks_[rank]->launch(request, before == nullptr ? nullptr : &before->of_rank_[rank]);
  });
  return step;
}

void Runners::choose(Launched& step, std::span<const std::uint32_t> masks) {
  each([&](std::size_t rank) { ranks_[rank]->choose(step.of_rank_[rank], masks); });
}

Runners::Chosen Runners::finish(Launched&& step) {
  Chosen chosen;
  each([&](std::size_t rank) {
    Chosen own = ranks_[rank]->finish(std::move(step.of_rank_[rank]));
    if (rank == 0) chosen = std::move(own);
  });
  return chosen;
}

void Runners::drop(Launched&& step) {
  each([&](std::size_t rank) { ranks_[rank]->drop(std::move(step.of_rank_[rank])); });
}

void Runners::warm_up(const WarmUpLimits& limits, const std::function<void(std::int64_t, std::int64_t)>& progress) {
  std::vector<Runner::WarmUp> of_rank(ranks_.size());
  each([&](std::size_t rank) { of_rank[rank] = ranks_[rank]->warm_up(limits); });
  const std::size_t parts = of_rank.front().parts.size();
  bool in_threads = ranks_.size() > 1;
  for (std::size_t part = 0; part < parts; ++part) {
    const auto begin = std::chrono::steady_clock::now();
    each([&](std::size_t rank) { ranks_[rank]->prepare(of_rank[rank], part); });
    if (!in_threads && std::chrono::steady_clock::now() - begin > limits.compiling) {
      first().compile_in_threads(of_rank.front(), part + 1, limits.memory);
      in_threads = true;
    }
    if (progress) progress(static_cast<std::int64_t>(part) + 1, static_cast<std::int64_t>(parts));
  }
}

std::vector<float> Runners::logits(const RowPlan& row) {
  std::vector<float> all;
  each([&](std::size_t rank) {
    std::vector<float> own = ranks_[rank]->logits(row);
    if (rank == 0) all = std::move(own);
  });
  return all;
}

std::vector<float> Runners::log_likelihoods(const RowPlan& row, std::span<const TokenId> next) {
  std::vector<float> all;
  each([&](std::size_t rank) {
    std::vector<float> own = ranks_[rank]->log_likelihoods(row, next);
    if (rank == 0) all = std::move(own);
  });
  return all;
}

}  // namespace mortar
