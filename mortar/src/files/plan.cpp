// Sizes of models, and the memory plan.
#include "mortar/plan.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "files/layout.hpp"
#include "mortar/errors.hpp"
#include "tessera/base/format.hpp"

namespace mortar {
namespace {

using files::Role;
using files::Stored;
using files::WeightTensor;
using tessera::concat;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

std::int64_t& kind_of(WeightBytes& bytes, const WeightTensor& w) {
  if (w.is_vector()) return bytes.norms;
  switch (w.role) {
    case Role::Embedding: return bytes.embedding;
    case Role::LmHead: return bytes.lm_head;
    case Role::Qkv:
    case Role::Output: return bytes.attention;
    case Role::GateUp:
    case Role::Down: return bytes.mlp;
    default: return bytes.experts;
  }
}

/// The part of a tensor that a decoding step reads, of `n`, if `chosen` experts of a layer are.
std::int64_t read_of(const ModelSpec& m, const WeightTensor& w, std::int64_t n, double chosen) {
  if (w.role == Role::Embedding) return m.tied ? n : 0;  // one row, unless it is lm_head
  if (w.of_expert) return static_cast<std::int64_t>(static_cast<double>(n / m.mlp.experts->count) * chosen);
  return n;
}
/// The expected number of different experts that `tokens` tokens choose.
double experts_chosen(const ModelSpec& m, std::int64_t tokens) {
  if (!m.mlp.experts) return 0;
  const auto count = static_cast<double>(m.mlp.experts->count), each = static_cast<double>(m.mlp.experts->per_token);
  return tokens == 1 ? each : count * (1 - std::pow(1 - each / count, static_cast<double>(tokens)));
}

/// Bytes of intermediate results for each token of a step: the residual stream, norms, projections and the MLP in bf16,
/// and sums of split products in f32 once more.
std::int64_t activation_bytes_per_token(const ModelSpec& m) {
  const std::int64_t attention = (2 * m.attention.heads + 2 * m.attention.kv_heads) * m.attention.head_dim;
  return 2 * (4 * m.hidden + attention + mlp_elements_per_token(m)) + 4 * (m.hidden + attention);
}

/// Bytes of the largest FP8 matrix in bf16: prompts dequantize one after the other (model/products.cpp).
std::int64_t dequantized_bytes(const ModelSpec& m) {
  std::int64_t largest = 0;
  for (const WeightTensor& w : files::weight_tensors(m)) {
    if (w.stored == Stored::Fp8 && !w.of_expert) largest = std::max(largest, 2 * w.rows * w.columns);
  }
  return largest;
}

/// Bytes of the intermediate results of a step of so many tokens.
std::int64_t step_bytes(const ModelSpec& m, std::int64_t tokens) {
  return tokens * activation_bytes_per_token(m) + dequantized_bytes(m);
}

/// Bytes for each sequence of a step: logits in f32, once more sorted for sampling; and the intermediate results of all
/// layers, which do not share memory while a graph is captured (docs/graphs.md).
std::int64_t bytes_per_sequence(const ModelSpec& m, const Ranks& ranks) {
  const std::int64_t logits = ranks.several() ? 4 : 2;  // gathered, and put in order
  return logits * 4 * m.vocabulary + m.layers * activation_bytes_per_token(m);
}

/// n * m for amounts from 0, at most kMuch: a quarter of the range, so that a few of them can be added.
constexpr std::int64_t kMuch = INT64_MAX / 4;
std::int64_t times(std::int64_t n, std::int64_t m) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(n, m, &product) ? kMuch : std::min(product, kMuch);
}

std::int64_t round_down(std::int64_t n, std::int64_t to) { return n / to * to; }
std::int64_t round_up(std::int64_t n, std::int64_t to) { return round_down(n + to - 1, to); }

/// n tokens of the KV cache, in whole pages.
std::int64_t kv_bytes(const MemoryPlan& p, const PlanRequest& r, std::int64_t context) {
  return times(round_up(context, r.page_tokens), p.kv_per_token);
}

std::int64_t largest_context(const ModelSpec& m, const PlanRequest& r, const MemoryPlan& p, std::int64_t free) {
  const std::int64_t pages = free / r.batch / (p.kv_per_token * r.page_tokens);
  return std::clamp(pages * r.page_tokens, std::int64_t{0}, m.max_context);
}

[[noreturn]] void reject(const ModelSpec& m, const PlanRequest& r, const MemoryPlan& p) {
  std::string text =
      concat(r.device, " has ", bytes_text(p.available), " of memory available, and ", bytes_text(p.total()),
             " are needed: weights ", bytes_text(p.weights.total()), ", KV cache ", bytes_text(p.kv_cache), " (",
             r.batch, " x ", p.max_context, " tokens of ", p.kv_per_token, " bytes), activations ",
             bytes_text(p.activations), ", reserve ", bytes_text(p.reserve), ".\n  ");
  if (p.largest_context > 0)
    text += concat("The largest context with ", r.batch, " sequences is ", p.largest_context, " tokens");
  if (p.largest_batch > 0)
    text += concat(p.largest_context > 0 ? "; the" : "The", " largest batch with ", p.max_context, " tokens is ",
                   p.largest_batch);
  if (p.largest_context <= 0 && p.largest_batch <= 0) {
    PlanRequest one = r;
    one.batch = 1;
    const std::int64_t free = p.available - p.weights.total() - p.reserve - step_bytes(m, r.prefill_tokens + 1) -
                              bytes_per_sequence(m, r.ranks);
    const std::int64_t context = largest_context(m, one, p, free);
    text += context > 0 ? concat("The largest context of one sequence is ", context, " tokens")
                        : std::string("No context fits: use a smaller model, or one in FP8");
  }
  throw CapacityError(text + ".");
}

}  // namespace

ModelSize model_size(const ModelSpec& model, const Ranks& ranks) {
  ModelSize size;
  for (const WeightTensor& w : files::weight_tensors(model, ranks)) {
    const auto bytes = static_cast<std::int64_t>(w.bytes());
    kind_of(size.bytes, w) += bytes;
    const double chosen = experts_chosen(model, 1);
    size.bytes_per_step += read_of(model, w, bytes, chosen);
    if (w.stored == Stored::Scales) continue;
    size.parameters += w.rows * w.columns;
    size.active_parameters += read_of(model, w, w.rows * w.columns, chosen);
  }
  return size;
}

std::int64_t bytes_per_step(const ModelSpec& model, std::int64_t batch) {
  std::int64_t bytes = 0;
  for (const WeightTensor& w : files::weight_tensors(model))
    bytes += read_of(model, w, static_cast<std::int64_t>(w.bytes()), experts_chosen(model, batch));
  return bytes;
}

std::int64_t mlp_elements_per_token(const ModelSpec& m) {
  const auto& experts = m.mlp.experts;
  const std::int64_t chosen = experts ? experts->per_token * (3 * experts->intermediate + m.hidden) : 0;
  return std::max(3 * m.mlp.intermediate, chosen);
}
std::int64_t activation_bytes(const ModelSpec& model, std::int64_t prefill_tokens, std::int64_t batch,
                              const Ranks& ranks) {
  return step_bytes(model, prefill_tokens + batch) + batch * bytes_per_sequence(model, ranks);
}

std::int64_t kv_bytes_per_token(const ModelSpec& model, KvType type) {
  return 2 * model.layers * model.attention.kv_heads * model.attention.head_dim * (type == KvType::Bf16 ? 2 : 1);
}

MemoryPlan estimate_memory(const ModelSpec& model, const PlanRequest& r) {
  if (r.max_context > model.max_context)
    throw RequestError(concat("expected a context of at most ", model.max_context,
                              " tokens (max_position_embeddings of config.json), found ", r.max_context));
  if (r.max_context < 0 || r.batch < 1 || r.prefill_tokens < 1 || r.page_tokens < 1)
    throw RequestError("expected a context from 0, and a batch, prefill tokens and page tokens from 1");
  constexpr std::int64_t kMaxBatch = std::int64_t{1} << 20;
  if (r.batch > kMaxBatch || r.prefill_tokens > kMaxBatch || r.page_tokens > kMaxBatch)
    throw RequestError(concat("expected a batch, prefill tokens and page tokens of at most ", kMaxBatch));
  MemoryPlan p;
  p.weights = model_size(model, r.ranks).bytes;
  p.kv_per_token = kv_bytes_per_token(local_spec(model, r.ranks), r.kv_type);
  p.available = r.memory.available;
  p.reserve = std::min(512 * kMiB, r.memory.total / 64);
  p.batch = r.batch;
  p.activations = activation_bytes(model, r.prefill_tokens, r.batch, r.ranks);
  const std::int64_t free = p.available - p.weights.total() - p.reserve;
  p.largest_context = largest_context(model, r, p, free - p.activations);
  p.max_context = r.max_context > 0 ? r.max_context : std::max<std::int64_t>(p.largest_context, 1);
  p.kv_cache = times(r.batch, kv_bytes(p, r, p.max_context));
  // Beyond the tokens of a prefill step, each sequence also adds to a step's activations: counted for all.
  const std::int64_t each =
      kv_bytes(p, r, p.max_context) + bytes_per_sequence(model, r.ranks) + activation_bytes_per_token(model);
  p.largest_batch = std::max<std::int64_t>(0, (free - step_bytes(model, r.prefill_tokens)) / each);
  if (p.fits()) p.largest_batch = std::max(p.largest_batch, p.batch);
  return p;
}

MemoryPlan plan_memory(const ModelSpec& model, const PlanRequest& request) {
  MemoryPlan plan = estimate_memory(model, request);
  if (!plan.fits()) reject(model, request, plan);
  return plan;
}

std::string bytes_text(std::int64_t bytes) {
  char text[32];
  const double b = static_cast<double>(bytes);
  if (bytes < 1'000'000)
    std::snprintf(text, sizeof text, "%.1f kB", b / 1e3);
  else if (bytes < 1'000'000'000)
    std::snprintf(text, sizeof text, "%.1f MB", b / 1e6);
  else
    std::snprintf(text, sizeof text, "%.2f GB", b / 1e9);
  return text;
}

std::string plan_text(const MemoryPlan& p) {
  const auto line = [](const char* name, std::int64_t bytes, const std::string& rest = "") {
    std::string label = name;
    label.resize(std::max<std::size_t>(label.size(), 14), ' ');
    std::string size = bytes_text(bytes);
    size.insert(0, std::max<std::size_t>(size.size(), 10) - size.size(), ' ');
    return concat("  ", label, size, rest, "\n");
  };
  return line("weights", p.weights.total()) +
         line("KV cache", p.kv_cache,
              concat("  ", p.batch, " x ", p.max_context, " tokens of ", p.kv_per_token, " bytes")) +
         line("activations", p.activations) + line("reserve", p.reserve) +
         line("total", p.total(), concat("  of ", bytes_text(p.available), " available"));
}

}  // namespace mortar
