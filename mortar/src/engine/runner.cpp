// Steps as flows: prompts are run at once, decoding is captured and replayed.
#include "engine/runner.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "mortar/errors.hpp"
#include "tessera/kernels/embedding.hpp"

namespace mortar {

using namespace tessera;

namespace {

Flow<StepResult> run_step(const Tensor<i32, 1>& packed, const StepShape& shape, const Network& network, KvCache& cache,
                          SlotState* const& slots, const bool& greedy, std::int64_t& valid) {
  const StepViews views = views_of(packed, shape);
  const auto hidden = co_await forward(network, cache, views.step, shape.decode);
  StepResult result;
  if (shape.wanted == shape.tokens && shape.decode) {
    result.logits = co_await logits_of(hidden.view(), network.weights.head(), network.numerics);
  } else {
    const auto last = co_await kernels::embedding(hidden, views.last);
    result.logits = co_await logits_of(last.view(), network.weights.head(), network.numerics);
  }
  result.tokens = co_await choose(result.logits, views.options, slots, greedy, valid);
  co_return result;
}

/// Rows of logits that are computed at a time: those of a large vocabulary take 39 MB.
constexpr std::int64_t kLogitRows = 64;

/// A graph is captured for the default device.
class DefaultDevice {
 public:
  explicit DefaultDevice(Device device) : before_(default_device()) { set_default_device(device); }
  ~DefaultDevice() { set_default_device(before_); }
  DefaultDevice(const DefaultDevice&) = delete;
  DefaultDevice& operator=(const DefaultDevice&) = delete;

 private:
  Device before_;
};

Tensor<i32, 1> on_device(const std::vector<i32>& data, const Stream& stream) {
  return from(std::span(data), {static_cast<std::int64_t>(data.size())}).on(stream);
}

}  // namespace

Runner::Runner(Model& model, const Numerics& numerics, std::int64_t pages)
    : stream_(model.device), valid_(model.config.vocabulary) {
  if (model.tokenizer) valid_ = std::min<std::int64_t>(valid_, model.tokenizer->size());
  const RopeAngles angles = rope_angles(model.config);
  network_.config = model.config;
  network_.weights = std::move(model.weights);
  network_.frequencies =
      from(std::span(angles.inverse_frequencies), {static_cast<std::int64_t>(angles.inverse_frequencies.size())})
          .sync(stream_);
  network_.rope_factor = angles.attention_factor;
  network_.numerics = numerics;
  if (kernels::target_of(model.device).gpu && !numerics.one_way()) query_tile_ = kQueryTile;
  const Dims<4> dims({model.config.kv_heads, pages * kPage, std::int64_t{2}, model.config.head_dim / 2});
  // Numbers where large tiles of queries are taken: their attention is computed again where it finds something else;
  // and where reading what nothing has written is an error. On the CPU, memory that is never written costs nothing.
  const auto empty_cache = [&] {
    return query_tile_ == kQueryTile || check_mode() ? zeros<bf16>(dims).sync(stream_)
                                                     : empty<bf16>(dims).sync(stream_);
  };
  try {
    for (std::int64_t layer = 0; layer < model.config.layers; ++layer) {
      cache_.keys.push_back(empty_cache());
      cache_.values.push_back(empty_cache());
    }
  } catch (const DeviceError& error) {
    throw CapacityError("a KV cache of " + std::to_string(pages * kPage) + " tokens (" +
                        bytes_text(pages * kPage * kv_bytes_per_token(model.config, KvType::Bf16)) +
                        ") does not fit beside the weights: take a smaller context or batch\n" + error.message());
  }
}

Runner::DecodeGraph& Runner::graph_for(const StepShape& shape, SlotState* slots, bool greedy,
                                       const DecodeGraph* in_use) {
  const GraphKey key{shape.rows, shape.pages, slots, greedy};
  if (const auto found = graphs_.find(key); found != graphs_.end()) return found->second;
  const DefaultDevice device(stream_.device());
  const auto captured = [&] {
    auto packed = zeros<i32>({packed_size(shape)}).sync(stream_);
    return capture(run_step, std::move(packed), shape, static_cast<const Network&>(network_), cache_, slots, greedy,
                   valid_);
  };
  const auto keep = [&](auto graph) -> DecodeGraph& {
    return graphs_.emplace(key, DecodeGraph{std::move(graph), {}, {}}).first->second;
  };
  try {
    return keep(captured());
  } catch (const OutOfMemoryError&) {
    // The memory of the graphs for other steps may suffice. A step that still runs needs its own.
    const std::size_t others = std::erase_if(graphs_, [&](const auto& graph) { return &graph.second != in_use; });
    if (others == 0) throw;
  }
  return keep(captured());
}

Runner::Launched Runner::launch_prompts(std::span<const RowPlan> rows, const StepShape& shape, SlotState* slots,
                                        bool greedy) {
  Launched step;
  const Tensor<i32, 1> data = on_device(PackedStep(rows, shape).data(), stream_);
  if (shape.wanted > 0) {
    step.result_ = run_step(data, shape, network_, cache_, slots, greedy, valid_).on(stream_);
  } else {
    const StepViews views = views_of(data, shape);
    const Tensor<bf16, 2> hidden = forward(network_, cache_, views.step, false).on(stream_);
    HostBuffer<bf16> end = spare_ ? *std::exchange(spare_, std::nullopt) : HostBuffer<bf16>(1, stream_.device());
    step.end_ = host(hidden.slice<0>(0, 1).slice<1>(0, 1), std::move(end)).on(stream_);
  }
  return step;
}

Runner::Launched Runner::replay(DecodeGraph& decode, std::span<const RowPlan> rows, const StepShape& shape,
                                const Launched* before) {
  const auto free_or_new = [&](std::deque<HostBuffer<i32>>& free, std::int64_t size) {
    if (free.empty()) return HostBuffer<i32>(size, stream_.device());
    HostBuffer<i32> buffer = std::move(free.front());
    free.pop_front();
    return buffer;
  };
  const PackedStep packed(rows, shape);
  // Taken first: a step that has been replayed has marked its tokens as chosen, and must not be lost for want of
  // memory.
  HostBuffer<i32> tokens = free_or_new(decode.tokens, shape.rows);
  HostBuffer<i32> input = free_or_new(decode.inputs, packed_size(shape));
  std::ranges::copy(packed.data(), input.write().begin());
  copy_into(mut(decode.graph.input<0>()), input).on(stream_);
  decode.inputs.push_back(std::move(input));
  if (before != nullptr)
    copy_into(mut(decode.graph.input<0>()).slice<0>(kIdsBegin, kIdsBegin + shape.rows),
              before->graph_->graph.output().tokens)
        .on(stream_);
  decode.graph.replay().on(stream_);
  Launched step;
  step.graph_ = &decode;
  step.tokens_ = host(decode.graph.output().tokens, std::move(tokens)).on(stream_);
  return step;
}

Runner::Launched Runner::launch(std::span<const RowPlan> rows, bool decode, SlotState* slots, std::int64_t scores,
                                const Launched* before) {
  const StepShape shape = shape_of(rows, decode, query_tile_);
  const bool greedy = std::ranges::all_of(rows, [](const RowPlan& r) { return is_greedy(r.sampling); });
  Launched step = decode ? replay(graph_for(shape, slots, greedy, before == nullptr ? nullptr : before->graph_), rows,
                                  shape, before)
                         : launch_prompts(rows, shape, slots, greedy);
  step.scores_ = scores;
  return step;
}

Runner::Chosen Runner::finish(Launched&& step) {
  Chosen chosen;
  // If this step turns out to have failed, so has what came before it: nothing of that is to be thrown once more.
  auto before = std::exchange(running_, std::nullopt);
  if (step.graph_ == nullptr && !step.result_) {
    if (before) (void)before->read();
    running_ = std::move(step.end_);
    spare_ = std::move(before);
    return chosen;
  }
  if (before) spare_ = std::move(before);  // the next step writes it behind this one
  const StepResult& result = step.result_ ? *step.result_ : step.graph_->graph.output();
  if (step.graph_ != nullptr) {
    const auto tokens = step.tokens_.read();
    chosen.tokens.assign(tokens.begin(), tokens.end());
  } else {
    chosen.tokens = host(result.tokens).sync(stream_);
  }
  if (step.scores_ >= 0) chosen.scores = score(result.logits, result.tokens, step.scores_, valid_, stream_);
  drop(std::move(step));
  return chosen;
}

void Runner::drop(Launched&& step) {
  if (step.graph_ != nullptr) step.graph_->tokens.push_back(std::move(step.tokens_));
}

void Runner::row_logits(const RowPlan& row, std::int64_t tokens,
                        const std::function<void(std::int64_t first, const Tensor<f32, 2>& logits)>& use) {
  const StepShape shape = shape_of(std::span(&row, 1), false, query_tile_);
  const Tensor<i32, 1> data = on_device(PackedStep(std::span(&row, 1), shape).data(), stream_);
  const StepViews views = views_of(data, shape);
  const Tensor<bf16, 2> hidden = forward(network_, cache_, views.step, false).on(stream_);
  for (std::int64_t first = 0; first < tokens; first += kLogitRows) {
    const auto rows = hidden.slice<0>(first, std::min(first + kLogitRows, tokens));
    use(first, logits_of(rows, network_.weights.head(), network_.numerics).on(stream_));
  }
}

std::vector<float> Runner::logits(const RowPlan& row) {
  std::vector<float> all;
  row_logits(row, std::ssize(row.ids), [&](std::int64_t, const Tensor<f32, 2>& logits) {
    const std::vector<float> part = host(logits).sync(stream_);
    all.insert(all.end(), part.begin(), part.end());
  });
  return all;
}

std::vector<float> Runner::log_likelihoods(const RowPlan& row, std::span<const TokenId> next) {
  std::vector<float> all;
  row_logits(row, std::ssize(next), [&](std::int64_t first, const Tensor<f32, 2>& logits) {
    const auto rows = next.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(logits.dim(0)));
    const std::vector<i32> ids(rows.begin(), rows.end());
    const auto part = score(logits, on_device(ids, stream_), 0, valid_, stream_).chosen;
    all.insert(all.end(), part.begin(), part.end());
  });
  return all;
}

}  // namespace mortar
