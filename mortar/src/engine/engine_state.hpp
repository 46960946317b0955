// The state of an engine. engine.cpp has its steps, engine_requests.cpp what is requested of it, engine_serve.cpp how
// threads share it.
#pragma once
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/mailbox.hpp"
#include "engine/runners.hpp"
#include "engine/scheduler.hpp"
#include "mortar/engine.hpp"

namespace mortar {

/// A step that has been planned, and launched.
struct PlannedStep : StepPlan {
  Runners::Launched launched;
  bool scored = false;         ///< log-probabilities were requested
  std::size_t masks = 0;       ///< rows that may need a mask
  bool tokens_chosen = false;  ///< the choice of its tokens has been launched as well
};

/// What a function of a sequence threw; no submission: an error that no function heard of.
struct Thrown {
  SubmissionPtr by;
  std::exception_ptr what;
};

struct Engine::State {
  EngineOptions options;
  Model model;
  TokenMeanings meanings;
  Runners runner;
  Scheduler scheduler;
  std::int64_t max_context;
  bool has_slots = false;  ///< a sequence has needed the state of slots: from then on all sequences begin there
  std::optional<PlannedStep> ahead;  ///< the step that was launched before the tokens of the last were known
  EngineStats stats;                 ///< counters
  std::vector<std::uint32_t> masks;  ///< of a step
  std::vector<std::pair<SequencePtr, Token>> outbox;  ///< tokens that functions have yet to hear of
  std::vector<SequencePtr> suspects;                  ///< the sequences of the step that failed
  std::vector<SequenceId> ended;                      ///< since publish()
  Mailbox mailbox;
  std::mutex stepping;  ///< held by the thread that steps
  std::atomic<std::thread::id> stepper;

  State(Model&& loaded, const EngineOptions& chosen);
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  static EngineOptions checked(const EngineOptions& options, const Model& model);
  /// As many sequences of the planned context as the options say, if the memory suffices; else what it suffices for:
  /// sequences that need more give way to each other.
  std::int64_t page_count() const;
  SchedulerOptions scheduler_options() const;

  // Of requests (engine_requests.cpp).

  /// What to do for a larger context.
  std::string larger_context() const;
  void check_request(const Request& r) const;
  void check_restrictions(const Request& r) const;
  SubmissionPtr submission_of(Request request, OnToken on_token) const;
  void score(const std::vector<TokenId>& ids, const std::function<void(const RowPlan&)>& compute_chunk);

  // Of threads (engine_serve.cpp).

  /// Only one thread steps; functions that it calls may use the engine.
  class Guard {
   public:
    /// Throws RequestError if this thread steps already: a function of a sequence must not step.
    explicit Guard(State& state);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    State& state_;
  };
  /// Does what letters say.
  void open_letters();
  /// The same, unless another thread steps, which will do it.
  void open_letters_now();
  void publish();
  /// Ends a sequence whose function will hear why.
  void fail(Sequence& s, const std::string& why);
  void fail_all(const std::vector<SequencePtr>& sequences, const std::string& why);
  /// It has no slot and no pages any more.
  void close(Sequence& s);
  Token last_token(Sequence& s, FinishReason reason, std::string why) const;
  /// Calls functions with the tokens of the outbox.
  void send(std::vector<Thrown>& thrown);
  void wait_for_requests(const std::stop_token& stop);
  void serve(const std::stop_token& stop);

  // Of steps (engine.cpp).

  void admit();
  void launch(PlannedStep& plan, const PlannedStep* before = nullptr);
  void choose(PlannedStep& plan);
  void launch_ahead(const PlannedStep& now);
  void drop_ahead();
  void deliver(PlannedStep& plan);
  void take_token(const SequencePtr& s, TokenId id, const Runner::Chosen& result, std::size_t place);
  Token add_token(Sequence& s, TokenId id);
  bool step(std::vector<Thrown>& thrown);
};

}  // namespace mortar
