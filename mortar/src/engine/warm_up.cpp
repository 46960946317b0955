// The steps of a warm-up, and how they are computed.
#include "engine/warm_up.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "engine/penalty_kernels.hpp"
#include "engine/runner.hpp"
#include "mortar/engine.hpp"
#include "tessera/kernels/embedding.hpp"
#include "tessera/runtime/memory.hpp"

namespace mortar {

using namespace tessera;

namespace {

std::vector<std::int64_t> powers_of_two(std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> all;
  for (std::int64_t n = first; n < last; n *= 2) all.push_back(n);
  all.push_back(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(first, last)))));
  return all;
}

/// Numbers of tokens: each multiple of `rounding` up to 2048, then eight of each octave, and `most`. Below `rounding`,
/// and with a rounding of 1, powers of two and eighths of octaves.
std::vector<std::int64_t> token_counts(std::int64_t most, std::int64_t rounding) {
  constexpr std::int64_t kAll = 2048, kOfAnOctave = 8;
  std::vector<std::int64_t> all;
  for (std::int64_t n = 1; n < rounding && n < most; n *= 2) all.push_back(n);
  const auto step = [&](std::int64_t n) {
    const auto octave = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n)));
    return rounding > 1 && n < kAll ? rounding : std::max(octave / kOfAnOctave, rounding);
  };
  std::int64_t n = rounding;
  for (; n < most; n += step(n)) all.push_back(n);
  all.push_back(ceil_div(most, rounding) * rounding);
  return all;
}

/// What the kernels of a layer depend on: the types and extents of its weights.
class LayerKind {
 public:
  explicit LayerKind(const LayerWeights& w) {
    add(w.qkv);
    add(w.output);
    key_.push_back(w.experts ? 1 : 0);
    if (w.dense) {
      add(w.dense->gate_up);
      add(w.dense->down);
    }
    if (w.experts) {
      add(w.experts->router);
      add(w.experts->gate_up);
      add(w.experts->down);
    }
  }
  auto operator<=>(const LayerKind&) const = default;

 private:
  template <class T, int R>
  void add(const Tensor<T, R>& tensor) {
    for (int axis = 0; axis < R; ++axis) key_.push_back(tensor.dim(axis));
  }
  template <class M>
    requires requires(const M& m) { m.is_fp8; }
  void add(const M& m) {
    key_.push_back(m.is_fp8 ? 1 : 0);
    if (m.is_fp8) {
      add(m.quantized);
      add(m.scales);
    } else {
      add(m.values);
    }
  }
  std::vector<std::int64_t> key_;
};

/// Memory that threads share.
class SharedMemory {
 public:
  explicit SharedMemory(std::int64_t bytes) : free_(bytes), all_(bytes) {}

  /// A part of it, as long as it lives. Waits until others have given back enough.
  class Part {
   public:
    Part(SharedMemory& from, std::int64_t bytes) : from_(from), bytes_(bytes) {
      std::unique_lock lock(from_.mutex_);
      from_.changed_.wait(lock, [&] { return bytes_ <= from_.free_; });
      from_.free_ -= bytes_;
    }
    ~Part() {
      {
        const std::lock_guard lock(from_.mutex_);
        from_.free_ += bytes_;
      }
      from_.changed_.notify_all();
    }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    SharedMemory& from_;
    std::int64_t bytes_;
  };
  bool has(std::int64_t bytes) const { return bytes <= all_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t free_, all_;
};

Tensor<i32, 1> packed_on(const StepShape& shape, const Stream& stream) {
  const PackedStep packed({}, shape);
  return from(std::span(packed.data()), {std::ssize(packed.data())}).on(stream);
}

}  // namespace

std::vector<StepShape> steps_to_prepare(const WarmUpLimits& limits, int query_tile, int rounding) {
  const auto rounded = [&](std::int64_t n) { return ceil_div(n, std::int64_t{rounding}) * rounding; };
  const std::vector<std::int64_t> pages = powers_of_two(kLeastPages, limits.pages);
  std::vector<StepShape> steps;
  for (const std::int64_t rows : powers_of_two(1, limits.batch))
    for (const std::int64_t n : pages) {
      StepShape s;
      s.query_tile = query_tile;
      s.rows = s.tokens = s.answers = s.wanted = rows;
      s.pages = n;
      steps.push_back(s);
    }
  const auto add = [&](std::int64_t prompts, std::int64_t answers, std::int64_t n, std::int64_t prompt_pages = 1,
                       std::int64_t prompt_rows = 1) {
    StepShape s;
    s.query_tile = query_tile;
    s.answers = answers;
    s.rows = rounding + answers;
    s.tokens = prompts + answers;
    s.tiles = ceil_div(prompts, std::int64_t{query_tile});
    s.pages = n;
    s.prompts = prompt_rows;
    s.prompt_pages = prompt_pages;
    steps.push_back(s);
  };
  // Products depend on all tokens, the attention of answers on their number and pages.
  const std::int64_t most = rounded(limits.prefill);
  for (const std::int64_t tokens : token_counts(most + rounded(limits.batch), rounding))
    add(std::min(tokens, most), std::max<std::int64_t>(tokens - most, 0), pages.front());
  for (const std::int64_t answers : powers_of_two(1, limits.batch))
    for (const std::int64_t n : pages) add(rounding, rounded(std::min(answers, limits.batch)), n);
  // The keys of few tiles of prompts are split, the more the later they are.
  constexpr std::int64_t kSplitTiles = 8;
  for (const std::int64_t tiles : powers_of_two(1, kSplitTiles))
    for (const std::int64_t n : pages)
      for (const std::int64_t unused : {0, rounding})  // of the last tile
        add(std::min(tiles * query_tile - unused, most), rounding, n, n);
  // Several late prompts have more pages than are widened (model/attention.cpp).
  add(most, 0, pages.back(), pages.back(), rounding);
  for (std::int64_t tokens = 1; tokens < rounding; tokens *= 2)  // the end of a prompt
    for (const std::int64_t n : pages) add(tokens, 0, n, n);
  return steps;
}

std::vector<std::int64_t> choices_to_prepare(std::int64_t batch, int rounding) {
  std::vector<std::int64_t> all = powers_of_two(1, batch);
  for (const std::int64_t n : token_counts(batch, rounding)) all.push_back(n);
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  return all;
}

std::vector<std::size_t> layers_to_prepare(const Weights& weights) {
  std::map<LayerKind, std::size_t> kinds;
  for (std::size_t i = 0; i < weights.layers.size(); ++i) kinds.emplace(LayerKind(weights.layers[i]), i);
  std::vector<std::size_t> first;
  for (const auto& [kind, layer] : kinds) first.push_back(layer);
  std::ranges::sort(first);
  return first;
}

void Runner::compute_empty(const StepShape& shape, std::span<const std::size_t> layers, KvCache& cache,
                           Stream& stream) const {
  const Tensor<i32, 1> data = packed_on(shape, stream);
  StepViews views = views_of(data, shape);
  views.step.layers = layers;
  (void)forward(network_, cache, views.step).on(stream);
  stream.synchronize();
}

/// The kernel that puts tokens of one step into the next one, for these numbers of answers, of which none follows one.
void Runner::place_none(Tensor<i32, 1>& data, const Tensor<i32, 1>& tokens, const std::vector<std::int64_t>& numbers,
                        const Stream& stream) {
  std::ranges::for_each(numbers, [&](std::int64_t answers) {  // clang's analysis of tensors does not follow a loop
    place_chosen_ids(data, kIdsBegin, std::vector<i32>(static_cast<std::size_t>(answers), -1), tokens, stream);
  });
}

void Runner::choose_empty(std::int64_t rows, std::int64_t slots, Stream& stream) const {
  StepShape shape;
  shape.rows = shape.tokens = shape.wanted = rows;
  const Tensor<i32, 1> data = packed_on(shape, stream);
  const auto states = zeros<bf16>({rows, network_.config.hidden}).on(stream);
  SlotState state = empty_slots(slots, stream);
  const auto masks = full<i32>({rows, words_}, -1).on(stream);
  std::optional<Tensor<i32, 1>> tokens;
  {
    const StepViews views = views_of(data, shape);
    // Rows of prompts are gathered; those of a decoding step are the step's.
    const auto last = kernels::embedding(states, views.last).on(stream);
    const auto logits = logits_of(network_, last.view()).on(stream);
    for (const bool greedy : {true, false}) {
      for (SlotState* const penalised : {static_cast<SlotState*>(nullptr), &state}) {
        const Choosing how{penalised, penalised != nullptr, greedy};
        tokens = mortar::choose(logits, views.options, how, valid_).on(stream);
        (void)mortar::choose(logits, views.options, how, valid_, &masks).on(stream);
      }
    }
    for (const std::int64_t count : {std::int64_t{0}, kMaxLogprobs})
      (void)score(logits, *tokens, count, valid_, stream);
  }
  Tensor<i32, 1> next = packed_on(shape, stream);
  place_none(next, *tokens, choices_to_prepare(rows, rounding_), stream);
  stream.synchronize();
}

SlotState Runner::empty_slots(std::int64_t slots, const Stream& stream) const {
  const std::int64_t vocabulary = network_.weights.embedding.dim(0);
  SlotState state(slots, vocabulary, stream);
  state.counts = zeros<i32>({slots, vocabulary}).on(stream);
  const std::vector<TokenId> ids(kMarkedIds);
  const auto begin = [&](std::int64_t slot, std::size_t count) {
    state.begin(slot, {std::span(ids).first(count)}, static_cast<std::int64_t>(count), {}, stream);
  };
  for (const std::int64_t slot : powers_of_two(1, slots - 1)) begin(std::min(slot, slots - 1), ids.size());
  begin(0, ids.size() - 1);  // shorter than the steps of the kernel
  return state;
}

Runner::WarmUp Runner::warm_up(const WarmUpLimits& limits) const {
  constexpr std::int64_t kFewSlots = 16;  // take the same kernels as many
  WarmUp all;
  all.layers = layers_to_prepare(network_.weights);
  for (const StepShape& shape : steps_to_prepare(limits, query_tile_, rounding_))
    all.parts.push_back({activation_bytes(network_.config, shape.tokens, 0),
                         [this, shape](const std::vector<std::size_t>& layers, KvCache& cache, Stream& stream) {
                           compute_empty(shape, layers, cache, stream);
                         }});
  const std::int64_t slots = std::min(limits.batch, kFewSlots);
  for (const std::int64_t rows : choices_to_prepare(limits.batch, rounding_)) {
    // Logits four times, marks and counts.
    const std::int64_t elements = (4 * rows + 2 * slots) * network_.weights.embedding.dim(0);
    all.parts.push_back({elements * static_cast<std::int64_t>(sizeof(f32)),
                         [this, rows, slots](const std::vector<std::size_t>&, KvCache&, Stream& stream) {
                           choose_empty(rows, slots, stream);
                         }});
  }
  return all;
}

void Runner::prepare(const WarmUp& warm_up, std::size_t part) {
  try {
    warm_up.parts[part].run(warm_up.layers, cache_, stream_);
  } catch (const OutOfMemoryError&) {
    // The first request that needs such a step is told. Ranks cannot leave out what others compute.
    if (network_.parallel != nullptr) throw;
  }
}

void Runner::compile_in_threads(const WarmUp& warm_up, std::size_t first, std::int64_t memory) const {
  std::atomic<std::size_t> next{first};
  SharedMemory free(memory);
  const std::size_t end = warm_up.parts.size();
  const auto run = [&] {
    try {
      Stream stream(stream_.device());
      KvCache cache = empty_cache(1, warm_up.layers, stream);
      for (std::size_t i = next++; i < end; i = next++) {
        const WarmUp::Part& part = warm_up.parts[i];
        if (!free.has(part.bytes)) continue;
        const SharedMemory::Part taken(free, part.bytes);
        part.run(warm_up.layers, cache, stream);
      }
    } catch (const std::exception&) {
      // The warm-up computes all of it once more, and meets the error if it lasts.
    }
  };
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < std::min<std::size_t>(std::thread::hardware_concurrency(), end - first); ++i)
    threads.emplace_back(run);
}

}  // namespace mortar
