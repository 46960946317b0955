// Runs steps on the device: the forward pass, the choice of tokens, captured graphs for decoding.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "engine/device_clock.hpp"
#include "engine/packed_step.hpp"
#include "engine/sampler.hpp"
#include "engine/warm_up.hpp"
#include "mortar/model.hpp"

namespace mortar {

/// What a step computes besides the cache.
struct StepResult {
  tessera::Tensor<tessera::i32, 1> tokens;  ///< [wanted]; of a step with masks one 0
  tessera::Tensor<tessera::f32, 2> logits;  ///< [wanted, vocabulary]
};

/// A step that is to be enqueued.
struct StepRequest {
  std::span<const RowPlan> rows;
  std::size_t prompts = 0;  ///< how many of the rows, the first ones, are parts of prompts; without any it is a graph
  Choosing how;
  bool masked = false;       ///< tokens are chosen by choose()
  std::int64_t scores = -1;  ///< how many log-probabilities to compute; -1: none
  bool penalised = false;    ///< a row has penalties or biases: `how` gets the state of slots
};

class Runner {
 public:
  /// For a device that has `weights`, all of the model's or those of a rank of `parallel`, which may be null and must
  /// outlive it. Allocates `pages` pages. Throws CapacityError if they do not fit.
  Runner(const Model& model, Weights&& weights, tessera::Device device, const Numerics& numerics, std::int64_t pages,
         const Parallel* parallel = nullptr);

  /// A sequence begins in one of `slots` slots: `ids`, of which the first `prompt` are its prompt.
  void begin(std::int64_t slots, std::int64_t slot, const TokenRange& ids, std::int64_t prompt,
             const Sampling& sampling);

  struct Chosen {
    std::vector<TokenId> tokens;  ///< one for each row that wants one
    std::optional<RowScores> scores;
  };
  class Launched;
  /// Enqueues a step. `before` is the step before, if rows come after its tokens (RowPlan::after).
  Launched launch(const StepRequest& request, const Launched* before = nullptr);
  /// Enqueues the choice of the tokens of a step with masks. `masks`: whole masks one after the other, by kMask; empty:
  /// every row allows all tokens.
  void choose(Launched& step, std::span<const std::uint32_t> masks);
  /// Waits for the end of a step, and its tokens. Log-probabilities need that no step was launched since.
  Chosen finish(Launched&& step);
  /// Gives up a step whose tokens are not needed.
  void drop(Launched&& step);
  /// The logits of every token of one row.
  std::vector<float> logits(const RowPlan& row);
  /// The log-probability of `next[i]` after token i of the row, of which there are at least as many.
  std::vector<float> log_likelihoods(const RowPlan& row, std::span<const TokenId> next);

  /// Measures the device's time from now on, or no longer.
  void time(bool on) { clock_.set(on); }
  /// Seconds that the device has worked on steps since time(true). Waits for those in flight.
  double device_seconds();

  const tessera::Stream& stream() const { return stream_; }
  /// Tokens of a tile of queries: prompts begin at multiples of it.
  int query_tile() const { return query_tile_; }

  /// Steps of all sizes without a sequence: computing them compiles their kernels, or loads them.
  struct WarmUp {
    struct Part {
      std::int64_t bytes;  ///< of its intermediate results
      std::function<void(const std::vector<std::size_t>&, KvCache&, tessera::Stream&)> run;
    };
    std::vector<std::size_t> layers;  ///< that are computed
    std::vector<Part> parts;
  };
  /// It refers to the runner.
  WarmUp warm_up(const WarmUpLimits& limits) const;
  /// Computes a part, unless there is no memory for it. Of ranks, all do so for the same one.
  void prepare(const WarmUp& warm_up, std::size_t part);
  /// Computes the parts from `first` on in many threads, for programs that have nothing compiled yet. `memory`: bytes
  /// for the intermediate results of all threads. Not for ranks, which make collectives in one order.
  void compile_in_threads(const WarmUp& warm_up, std::size_t first, std::int64_t memory) const;

 private:
  struct GraphKey {
    std::int64_t rows, pages;
    Choosing how;
    bool masked;  ///< the graph ends with the logits
    auto operator<=>(const GraphKey&) const = default;
  };
  struct DecodeGraph {
    tessera::Graph<StepResult, tessera::Tensor<tessera::i32, 1>> graph;
    std::deque<tessera::HostBuffer<tessera::i32>> inputs;  ///< that no step holds, the longest first
  };
  /// Calls `use` with the logits of the first `tokens` tokens of a row, some rows at a time.
  void row_logits(const RowPlan& row, std::int64_t tokens,
                  const std::function<void(std::int64_t first, const tessera::Tensor<tessera::f32, 2>& logits)>& use);
  /// The graph for such steps, captured if it is the first. Without memory for it, graphs other than `in_use` go.
  DecodeGraph& graph_for(const StepShape& shape, const Choosing& how, bool masked, const DecodeGraph* in_use);

  StepShape shape_of(std::span<const RowPlan> rows, std::size_t prompts) const {
    return mortar::shape_of(rows, prompts, query_tile_, rounding_);
  }
  /// The cache of `pages` pages of some layers; of all if there are none.
  KvCache empty_cache(std::int64_t pages, std::span<const std::size_t> layers, const tessera::Stream& stream) const;
  /// The forward pass of some layers, for no sequence.
  void compute_empty(const StepShape& shape, std::span<const std::size_t> layers, KvCache& cache,
                     tessera::Stream& stream) const;
  /// The logits of `rows` rows, and all ways of choosing tokens from them.
  void choose_empty(std::int64_t rows, std::int64_t slots, tessera::Stream& stream) const;
  static void place_none(tessera::Tensor<tessera::i32, 1>& data, const tessera::Tensor<tessera::i32, 1>& tokens,
                         const std::vector<std::int64_t>& numbers, const tessera::Stream& stream);
  SlotState empty_slots(std::int64_t slots, const tessera::Stream& stream) const;

  Launched launch_eager(const StepRequest& request, const StepShape& shape, const Launched* before);
  Launched replay(DecodeGraph& graph, const StepRequest& request, const StepShape& shape, const Launched* before);
  /// Writes the ids of answers that come after tokens of `before` into the array of a step.
  void place_tokens(tessera::Tensor<tessera::i32, 1>& data, std::span<const RowPlan> rows, const StepShape& shape,
                    const Launched& before);
  /// data[first + i] = chosen[after[i]], unless after[i] is -1.
  static void place_chosen_ids(tessera::Tensor<tessera::i32, 1>& data, std::int64_t first,
                               const std::vector<tessera::i32>& after, const tessera::Tensor<tessera::i32, 1>& chosen,
                               const tessera::Stream& stream);
  /// Enqueues the way of the tokens to the host.
  void read_tokens(Launched& step, const tessera::Tensor<tessera::i32, 1>& tokens);
  tessera::HostBuffer<tessera::i32> token_buffer(std::int64_t size);

  tessera::Stream stream_;
  KvType kv_type_;
  Network network_;
  KvCache cache_;
  std::unique_ptr<SlotState> slots_;  ///< made for the first sequence that needs it
  std::int64_t valid_, words_;
  int query_tile_ = kSmallQueryTile, rounding_ = 1;
  DeviceClock clock_;
  std::map<std::int64_t, std::deque<tessera::HostBuffer<tessera::i32>>> buffers_;  ///< for tokens, by size
  std::deque<tessera::HostBuffer<tessera::bf16>> ends_;                            ///< for steps without tokens
  std::map<GraphKey, DecodeGraph> graphs_;
};

/// A step that has been enqueued.
class Runner::Launched {
  friend Runner;
  StepShape shape_;
  Choosing how_;
  DecodeGraph* graph_ = nullptr;                             ///< of a decoding step
  std::optional<tessera::Tensor<tessera::i32, 1>> data_;     ///< of other steps with masks, until tokens are chosen
  std::optional<StepResult> result_;                         ///< of other steps, unless no row wants a token
  std::optional<tessera::Tensor<tessera::i32, 1>> chosen_;   ///< by choose()
  std::optional<tessera::HostBuffer<tessera::i32>> tokens_;  ///< on their way
  std::optional<tessera::HostBuffer<tessera::bf16>> end_;    ///< without tokens: arrives when the step has ended
  std::int64_t scores_ = -1;
  std::uint64_t timed_ = 0;  ///< the first piece of its work that the clock measures
  const StepResult& result() const { return result_ ? *result_ : graph_->graph.output(); }
  const tessera::Tensor<tessera::i32, 1>& tokens() const { return chosen_ ? *chosen_ : result().tokens; }
};

}  // namespace mortar
