// The state of an engine. engine.cpp has its steps, engine_requests.cpp what is requested of it.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/sequence.hpp"
#include "mortar/engine.hpp"

namespace mortar {

inline std::int64_t pages_for(std::int64_t tokens) { return (tokens + kPage - 1) / kPage; }

struct Engine::State {
  EngineOptions options;
  Model model;
  Pages pages;
  Runner runner;
  std::int64_t max_context;
  std::unique_ptr<SlotState> slots;  ///< made for the first sequence that needs it
  std::deque<SequencePtr> waiting;   ///< in the order in which they will be computed
  std::vector<SequencePtr> running;  ///< in the order in which they were admitted
  std::vector<char> slot_used;
  SequenceId next_id = 1;
  bool prompts_last = false;         ///< the last step was over prompts
  std::optional<PlannedStep> ahead;  ///< the decoding step that was launched before the tokens of the last were known
  EngineStats stats;

  State(Model&& loaded, const EngineOptions& chosen)
      : options(checked(chosen, loaded.config)),
        model(std::move(loaded)),
        pages(page_count()),
        runner(model, {options.strict, options.batch_invariant}, pages.count()),
        max_context(std::min(model.plan.max_context, pages.count() * kPage)),
        slot_used(static_cast<std::size_t>(options.max_batch)) {}

  static EngineOptions checked(EngineOptions o, const ModelConfig& model);
  /// As many sequences of the planned context as the options say, if the memory suffices; else what it suffices for:
  /// sequences that need more give way to each other.
  std::int64_t page_count() const;

  // Of requests (engine_requests.cpp).

  /// What to do for a larger context.
  std::string larger_context() const;
  void check_ids(const std::vector<TokenId>& ids) const;
  void check_request(const Request& r) const;
  void score(const std::vector<TokenId>& ids, const std::function<void(const RowPlan&)>& compute_chunk);

  // Of steps (engine.cpp).

  bool start(Sequence& s);
  void admit();
  void take_cached_pages(Sequence& s);
  void release(Sequence& s);
  void preempt_last();
  bool grow(Sequence& s);
  void plan_prompts(PlannedStep& plan) const;
  void plan_decode(PlannedStep& plan);
  bool plan_after(const PlannedStep& now, PlannedStep& next);
  void launch(PlannedStep& plan, const PlannedStep* before = nullptr);
  void launch_ahead(const PlannedStep& now);
  void drop_ahead();
  void publish(Sequence& s);
  void deliver(PlannedStep& plan);
  Token add_token(Sequence& s, TokenId id);
  bool step();
};

}  // namespace mortar
