// Steps as flows: those with prompts are run at once, decoding is captured and replayed.
#include "engine/runner.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <string>
#include <utility>

#include "model/cache_scales.hpp"
#include "mortar/errors.hpp"
#include "tessera/kernels/embedding.hpp"
#include "tessera/runtime/thread_device.hpp"

namespace mortar {

using namespace tessera;

namespace {

Flow<StepResult> run_step(const Tensor<i32, 1>& packed, const StepShape& shape, const Network& network, KvCache& cache,
                          const Choosing& how, const bool& masked, std::int64_t& valid) {
  const StepViews views = views_of(packed, shape);
  const auto hidden = co_await forward(network, cache, views.step);
  StepResult result;
  if (shape.decode()) {
    result.logits = co_await logits_of(network, hidden.view());
  } else {
    const auto last = co_await kernels::embedding(hidden, views.last);
    result.logits = co_await logits_of(network, last.view());
  }
  if (masked)
    result.tokens = co_await zeros<i32>(Dims<1>(1));
  else
    result.tokens = co_await choose(result.logits, views.options, how, valid);
  co_return result;
}

/// Ids that the step before has chosen; where `after` is -1 they are known already.
template <int N>
void place_chosen(Mut<i32, N> ids, In<i32, dyn> after, In<i32, dyn> chosen) {
  auto from = after.load_like(ids);
  ids.store(where(from >= 0, chosen.gather(from), ids.load()));
}

/// Rows of logits that are computed at a time: those of a large vocabulary take 39 MB.
constexpr std::int64_t kLogitRows = 64;

Tensor<i32, 1> on_device(const std::vector<i32>& data, const Stream& stream) {
  return from(std::span(data), {static_cast<std::int64_t>(data.size())}).on(stream);
}

}  // namespace

Runner::Runner(const Model& model, Weights&& weights, Device device, const Numerics& numerics, std::int64_t pages,
               const Parallel* parallel)
    : stream_(device), kv_type_(model.kv_type), valid_(model.config.vocabulary), words_((valid_ + 31) / 32) {
  if (model.tokenizer) valid_ = std::min<std::int64_t>(valid_, model.tokenizer->size());
  const RopeAngles angles = rope_angles(model.config);
  network_.config = parallel == nullptr ? model.config : local_spec(model.config, parallel->ranks);
  network_.weights = std::move(weights);
  network_.parallel = parallel;
  network_.frequencies =
      from(std::span(angles.inverse_frequencies), {static_cast<std::int64_t>(angles.inverse_frequencies.size())})
          .sync(stream_);
  network_.rope_factor = angles.attention_factor;
  network_.numerics = numerics;
  if (kv_type_ == KvType::Fp8) network_.cache_scales = cache_scales_of(network_, stream_);
  if (kernels::target_of(device).gpu) {
    rounding_ = kGpuRounding;
    if (!numerics.one_way()) query_tile_ = kQueryTile;
  }
  try {
    cache_ = empty_cache(pages, {}, stream_);
  } catch (const DeviceError& error) {
    throw CapacityError("a KV cache of " + std::to_string(pages * kPage) + " tokens (" +
                        bytes_text(pages * kPage * kv_bytes_per_token(network_.config, kv_type_)) +
                        ") does not fit beside the weights: take a smaller context or batch\n" + error.message());
  }
}

KvCache Runner::empty_cache(std::int64_t pages, std::span<const std::size_t> layers, const Stream& stream) const {
  const auto& attention = network_.config.attention;
  const Dims<4> dims({attention.kv_heads, pages * kPage, std::int64_t{2}, attention.head_dim / 2});
  // Numbers where large tiles of queries are taken: their attention is computed again where it finds something else;
  // and where reading what nothing has written is an error. On the CPU, memory that is never written costs nothing.
  const auto fill = [&]<class C>(std::vector<Tensor<C, 4>>& tensors) {
    tensors.resize(network_.weights.layers.size());
    for (std::size_t layer = 0; layer < tensors.size(); ++layer)
      if (layers.empty() || std::ranges::find(layers, layer) != layers.end())
        tensors[layer] =
            query_tile_ == kQueryTile || check_mode() ? zeros<C>(dims).sync(stream) : empty<C>(dims).sync(stream);
  };
  KvCache cache;
  cache.type = kv_type_;
  if (kv_type_ == KvType::Fp8) {
    fill(cache.f8_keys);
    fill(cache.f8_values);
  } else {
    fill(cache.keys);
    fill(cache.values);
  }
  return cache;
}

Runner::DecodeGraph& Runner::graph_for(const StepShape& shape, const Choosing& how, bool masked,
                                       const DecodeGraph* in_use) {
  const GraphKey key{shape.rows, shape.pages, masked ? Choosing{} : how, masked};
  if (const auto found = graphs_.find(key); found != graphs_.end()) return found->second;
  const runtime::ThreadDevice device(stream_.device());  // a graph is captured for the default device
  const auto captured = [&] {
    auto packed = zeros<i32>({packed_size(shape)}).sync(stream_);
    return capture(run_step, std::move(packed), shape, static_cast<const Network&>(network_), cache_, key.how,
                   static_cast<const bool&>(masked), valid_);
  };
  const auto keep = [&](auto graph) -> DecodeGraph& {
    return graphs_.emplace(key, DecodeGraph{std::move(graph), {}}).first->second;
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

HostBuffer<i32> Runner::token_buffer(std::int64_t size) {
  auto& free = buffers_[size];
  if (free.empty()) return HostBuffer<i32>(size, stream_.device());
  HostBuffer<i32> buffer = std::move(free.front());
  free.pop_front();
  return buffer;
}

void Runner::read_tokens(Launched& step, const Tensor<i32, 1>& tokens) {
  const auto n = tokens.dim(0), size = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n)));
  // Taken first: a step whose tokens have been chosen must not be lost for want of memory.
  HostBuffer<i32> buffer = token_buffer(size);
  if (n == size) {
    step.tokens_ = host(tokens, std::move(buffer)).on(stream_);
    return;
  }
  auto padded = zeros<i32>({size}).on(stream_);
  copy_into(mut(padded).slice<0>(0, n), tokens).on(stream_);
  step.tokens_ = host(padded, std::move(buffer)).on(stream_);
}

void Runner::place_chosen_ids(Tensor<i32, 1>& data, std::int64_t first, const std::vector<i32>& after,
                              const Tensor<i32, 1>& chosen, const Stream& stream) {
  constexpr int kTokens = 128;
  const std::int64_t end = first + std::ssize(after);
  kernel<place_chosen<kTokens>>(mut(data).slice<0>(first, end), on_device(after, stream), chosen).on(stream);
}

void Runner::place_tokens(Tensor<i32, 1>& data, std::span<const RowPlan> rows, const StepShape& shape,
                          const Launched& before) {
  const std::int64_t first = kIdsBegin + shape.first_answer(), end = first + shape.answers;
  const auto answers = rows.subspan(static_cast<std::size_t>(shape.prompts));
  if (std::ranges::all_of(answers, [](const RowPlan& row) { return row.after < 0; })) return;
  bool same = before.tokens().dim(0) == shape.answers;
  for (std::size_t i = 0; i < answers.size(); ++i) same = same && answers[i].after == static_cast<i32>(i);
  if (same) {  // the same rows as in the step before: no kernel is needed
    copy_into(mut(data).slice<0>(first, end), before.tokens()).on(stream_);
    return;
  }
  std::vector<i32> after(static_cast<std::size_t>(shape.answers), -1);
  std::ranges::transform(answers, after.begin(), &RowPlan::after);
  place_chosen_ids(data, first, after, before.tokens(), stream_);
}

Runner::Launched Runner::launch_eager(const StepRequest& request, const StepShape& shape, const Launched* before) {
  Launched step;
  DeviceClock::Mark begin = clock_.begin(stream_);
  step.timed_ = clock_.next();
  Tensor<i32, 1> data = on_device(PackedStep(request.rows, shape).data(), stream_);
  if (before != nullptr) place_tokens(data, request.rows, shape, *before);
  if (shape.wanted > 0) {
    step.result_ = run_step(data, shape, network_, cache_, request.how, request.masked, valid_).on(stream_);
    if (!request.masked) read_tokens(step, step.result_->tokens);
    step.data_ = std::move(data);
  } else {
    const StepViews views = views_of(data, shape);
    const Tensor<bf16, 2> hidden = forward(network_, cache_, views.step).on(stream_);
    HostBuffer<bf16> end;
    if (ends_.empty()) {
      end = HostBuffer<bf16>(1, stream_.device());
    } else {
      end = std::move(ends_.front());
      ends_.pop_front();
    }
    step.end_ = host(hidden.slice<0>(0, 1).slice<1>(0, 1), std::move(end)).on(stream_);
  }
  clock_.end(std::move(begin), stream_);
  return step;
}

Runner::Launched Runner::replay(DecodeGraph& decode, const StepRequest& request, const StepShape& shape,
                                const Launched* before) {
  const PackedStep packed(request.rows, shape);
  // Taken first: a step that has been replayed has marked its tokens as chosen, and must not be lost for want of
  // memory.
  buffers_[shape.rows].push_back(token_buffer(shape.rows));
  HostBuffer<i32> input;
  if (decode.inputs.empty()) {
    input = HostBuffer<i32>(packed_size(shape), stream_.device());
  } else {
    input = std::move(decode.inputs.front());
    decode.inputs.pop_front();
  }
  std::ranges::copy(packed.data(), input.write().begin());
  Tensor<i32, 1>& data = decode.graph.input<0>();
  Launched step;
  DeviceClock::Mark begin = clock_.begin(stream_);
  step.timed_ = clock_.next();
  copy_into(mut(data), input).on(stream_);
  decode.inputs.push_back(std::move(input));
  if (before != nullptr) place_tokens(data, request.rows, shape, *before);
  decode.graph.replay().on(stream_);
  step.graph_ = &decode;
  if (!request.masked) read_tokens(step, decode.graph.output().tokens);
  clock_.end(std::move(begin), stream_);
  return step;
}

void Runner::begin(std::int64_t slots, std::int64_t slot, const TokenRange& ids, std::int64_t prompt,
                   const Sampling& sampling) {
  if (!slots_) slots_ = std::make_unique<SlotState>(slots, network_.weights.embedding.dim(0), stream_);
  slots_->begin(slot, ids, prompt, sampling, stream_);
}

Runner::Launched Runner::launch(const StepRequest& asked, const Launched* before) {
  StepRequest request = asked;
  request.how.slots = request.penalised ? slots_.get() : nullptr;
  const StepShape shape = shape_of(request.rows, request.prompts);
  const DecodeGraph* in_use = before == nullptr ? nullptr : before->graph_;
  Launched step = shape.decode() ? replay(graph_for(shape, request.how, request.masked, in_use), request, shape, before)
                                 : launch_eager(request, shape, before);
  step.shape_ = shape;
  step.how_ = request.how;
  step.scores_ = request.scores;
  return step;
}

void Runner::choose(Launched& step, std::span<const std::uint32_t> masks) {
  std::optional<Tensor<i32, 2>> allowed;
  const std::vector<i32> words(masks.begin(), masks.end());
  DeviceClock::Mark begin = clock_.begin(stream_);
  if (!masks.empty()) { allowed = from(std::span(words), {std::ssize(words) / words_, words_}).on(stream_); }
  const Tensor<i32, 1>& data = step.data_ ? *step.data_ : step.graph_->graph.input<0>();
  const StepViews views = views_of(data, step.shape_);
  step.chosen_ =
      mortar::choose(step.result().logits, views.options, step.how_, valid_, allowed ? &*allowed : nullptr).on(stream_);
  read_tokens(step, *step.chosen_);
  clock_.end(std::move(begin), stream_);
}

Runner::Chosen Runner::finish(Launched&& step) {
  Chosen chosen;
  if (step.end_) {
    (void)step.end_->read();
  } else {
    {
      const auto tokens = step.tokens_->read();
      chosen.tokens.assign(tokens.begin(), tokens.end());
    }
    chosen.tokens.resize(static_cast<std::size_t>(step.shape_.wanted));
    if (step.scores_ >= 0) chosen.scores = score(step.result().logits, step.tokens(), step.scores_, valid_, stream_);
  }
  clock_.passed(step.timed_);  // the marks of this step may come after its tokens
  drop(std::move(step));
  return chosen;
}

double Runner::device_seconds() {
  stream_.synchronize();
  clock_.passed(clock_.next());
  return clock_.seconds();
}

void Runner::drop(Launched&& step) {
  if (step.tokens_) buffers_[step.tokens_->size()].push_back(*std::exchange(step.tokens_, std::nullopt));
  if (step.end_) ends_.push_back(*std::exchange(step.end_, std::nullopt));
}

void Runner::row_logits(const RowPlan& row, std::int64_t tokens,
                        const std::function<void(std::int64_t first, const Tensor<f32, 2>& logits)>& use) {
  const StepShape shape = shape_of(std::span(&row, 1), 1);
  const Tensor<i32, 1> data = on_device(PackedStep(std::span(&row, 1), shape).data(), stream_);
  const StepViews views = views_of(data, shape);
  const Tensor<bf16, 2> hidden = forward(network_, cache_, views.step).on(stream_);
  for (std::int64_t first = 0; first < tokens; first += kLogitRows) {
    const auto rows = hidden.slice<0>(first, std::min(first + kLogitRows, tokens));
    use(first, logits_of(network_, rows).on(stream_));
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
