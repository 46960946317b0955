// Runs steps on the device: the forward pass, the choice of tokens, captured graphs for decoding.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "engine/packed_step.hpp"
#include "engine/sampler.hpp"
#include "mortar/model.hpp"

namespace mortar {

/// What a step computes besides the cache.
struct StepResult {
  tessera::Tensor<tessera::i32, 1> tokens;  ///< [wanted]
  tessera::Tensor<tessera::f32, 2> logits;  ///< [wanted, vocabulary]
};

class Runner {
 public:
  /// Takes the weights of `model` and allocates `pages` pages. Throws CapacityError if they do not fit.
  Runner(Model& model, const Numerics& numerics, std::int64_t pages);

  struct Chosen {
    std::vector<TokenId> tokens;  ///< in decoding one for each row, else one for each that wants one
    std::optional<RowScores> scores;
  };
  class Launched;
  /// Enqueues a step. `slots`: the state for penalties and biases, null if no row has any. `scores`: how many
  /// log-probabilities to compute, -1: none. `before`: a decoding step of as many rows, whose tokens are those of this
  /// step; the rows' ids are not read then.
  Launched launch(std::span<const RowPlan> rows, bool decode, SlotState* slots, std::int64_t scores,
                  const Launched* before = nullptr);
  /// Waits for the tokens of a step. Of steps that have none, one may still run when the next is launched: so the
  /// device is not idle in between, and the host is not far ahead of it, where it could not be stopped.
  /// Log-probabilities need that no step was launched since.
  Chosen finish(Launched&& step);
  /// Gives up a step whose tokens are not needed.
  void drop(Launched&& step);
  /// The logits of every token of one row.
  std::vector<float> logits(const RowPlan& row);
  /// The log-probability of `next[i]` after token i of the row, of which there are at least as many.
  std::vector<float> log_likelihoods(const RowPlan& row, std::span<const TokenId> next);

  const tessera::Stream& stream() const { return stream_; }
  /// Tokens of a tile of queries: prompts begin at multiples of it.
  int query_tile() const { return query_tile_; }

 private:
  struct GraphKey {
    std::int64_t rows, pages;
    const SlotState* slots;
    bool greedy;  ///< all rows
    auto operator<=>(const GraphKey&) const = default;
  };
  struct DecodeGraph {
    tessera::Graph<StepResult, tessera::Tensor<tessera::i32, 1>> graph;
    std::deque<tessera::HostBuffer<tessera::i32>> inputs, tokens;  ///< that no step holds, the longest first
  };
  /// Calls `use` with the logits of the first `tokens` tokens of a row, some rows at a time.
  void row_logits(const RowPlan& row, std::int64_t tokens,
                  const std::function<void(std::int64_t first, const tessera::Tensor<tessera::f32, 2>& logits)>& use);
  /// The graph for such steps, captured if it is the first. Without memory for it, graphs other than `in_use` go.
  DecodeGraph& graph_for(const StepShape& shape, SlotState* slots, bool greedy, const DecodeGraph* in_use);

  Launched launch_prompts(std::span<const RowPlan> rows, const StepShape& shape, SlotState* slots, bool greedy);
  Launched replay(DecodeGraph& graph, std::span<const RowPlan> rows, const StepShape& shape, const Launched* before);

  tessera::Stream stream_;
  Network network_;
  KvCache cache_;
  std::int64_t valid_;
  int query_tile_ = kSmallQueryTile;
  std::optional<tessera::HostBuffer<tessera::bf16>> running_;  ///< the end of the last step, if it has no tokens
  std::optional<tessera::HostBuffer<tessera::bf16>> spare_;    ///< for the next such step
  std::map<GraphKey, DecodeGraph> graphs_;
};

/// A step that has been enqueued.
class Runner::Launched {
  friend Runner;
  DecodeGraph* graph_ = nullptr;                           ///< of a decoding step
  tessera::HostBuffer<tessera::i32> tokens_;               ///< the same: on their way
  std::optional<tessera::HostBuffer<tessera::bf16>> end_;  ///< of prompts without tokens: arrives when it has ended
  std::optional<StepResult> result_;                       ///< of a step over prompts, unless no row wants a token
  std::int64_t scores_ = -1;
};

}  // namespace mortar
