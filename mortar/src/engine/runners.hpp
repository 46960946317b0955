// The devices that run an engine's steps: one, or the ranks of tensor parallelism, which all make the same calls in the
// same order. The first rank is driven by the calling thread, each other one by a thread of its own. Where ranks are in
// several processes, these are the ranks of this one, and rank 0 sends each call to the other processes.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/runner.hpp"
#include "model/messages.hpp"

namespace mortar {

/// A thread that does what it is given, in order.
class RankThread;

/// As Runner, for all ranks. What one of them throws ends the group: the call throws a RanksError that names the rank,
/// and every later call throws it at once.
class Runners {
 public:
  using Chosen = Runner::Chosen;
  /// A step that has been enqueued on every rank.
  class Launched {
    friend Runners;
    std::vector<Runner::Launched> of_rank_;
    std::uint64_t number_ = 0;  ///< as the other processes know it
  };

  /// Takes the weights of `model`, its parts' if it has any. Of several processes, all make theirs for the same number
  /// of pages, that of rank 0; it returns when they have. `model` keeps the way between them.
  Runners(Model& model, const Numerics& numerics, std::int64_t pages);
  ~Runners();
  Runners(const Runners&) = delete;
  Runners& operator=(const Runners&) = delete;

  void begin(std::int64_t slots, std::int64_t slot, const TokenRange& ids, std::int64_t prompt,
             const Sampling& sampling);
  Launched launch(const StepRequest& request, const Launched* before = nullptr);
  void choose(Launched& step, std::span<const std::uint32_t> masks);
  Chosen finish(Launched&& step);
  void drop(Launched&& step);
  std::vector<float> logits(const RowPlan& row);
  std::vector<float> log_likelihoods(const RowPlan& row, std::span<const TokenId> next);

  /// Computes steps of all sizes without a sequence. `progress` hears how many of how many parts are done; what it
  /// throws ends the warm-up.
  void warm_up(const WarmUpLimits& limits, const std::function<void(std::int64_t, std::int64_t)>& progress);

  // The parts of warm_up(): how many there are, and one of them.
  std::size_t begin_warm_up(const WarmUpLimits& limits);
  void prepare(std::size_t part);

  void time(bool on) { first().time(on); }
  /// The first rank's.
  double device_seconds() { return first().device_seconds(); }
  int query_tile() const { return ranks_.front()->query_tile(); }
  // Between calls, by the thread that makes them:
  /// No call can succeed any more.
  bool has_ended();
  /// Another process may end the group at any time, also between calls.
  bool has_processes() const { return messages_ != nullptr; }
  /// Throws RanksError if the group has ended.
  void throw_if_ended();

 private:
  Runner& first() { return *ranks_.front(); }
  /// Calls f(rank) on the thread of each rank, and waits for all. Throws RanksError if the group has ended, before or
  /// meanwhile.
  void each(const std::function<void(std::size_t rank)>& f);
  /// One call: rank 0 sends `message` to the other processes, if there are any; then each(f).
  void make(const std::function<MessageWriter()>& message, const std::function<void(std::size_t rank)>& f);
  void make_ranks(Model& model, const Numerics& numerics, std::int64_t pages);
  void call(std::size_t rank, const std::function<void(std::size_t rank)>& f) noexcept;
  /// Ends the group. `of_mesh`: the rank only says what another one has done, if that one says nothing itself.
  void fail(std::size_t rank, bool of_mesh, const std::string& text) noexcept;
  /// If ranks know only that another one has failed: its work that has failed says why. The group has ended, so none
  /// of them waits for another.
  void ask_for_the_cause();
  /// Takes what the meshes know of a failure, and then what the ranks know of its cause, and tells other processes.
  void look_for_failures();
  void report_cause();

  Messages* messages_ = nullptr;                     ///< between the processes; null: there is one
  bool is_first_ = false;                            ///< this is the process of rank 0
  std::uint64_t launched_ = 0;                       ///< steps
  std::vector<Runner::WarmUp> warm_up_;              ///< of each rank
  std::vector<std::unique_ptr<Parallel>> parallel_;  ///< of each rank; none: one device
  std::vector<std::unique_ptr<Runner>> ranks_;
  std::mutex mutex_;
  bool ended_ = false;       ///< the group has, for this reason
  bool known_rank_ = false;  ///< the reason is of the rank that failed, as it said itself
  bool reported_ = false;    ///< to the other processes
  std::string reason_;
  std::string cause_;                                 ///< in the words of the rank
  std::vector<std::unique_ptr<RankThread>> threads_;  ///< of the local ranks from the second on; they end first
};

}  // namespace mortar
