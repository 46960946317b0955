// mortar bench: prompt and generation speed, in the form of llama-bench, beside the memory roofline.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>

#include <nlohmann/json.hpp>

#include "bench_chart.hpp"
#include "json_text.hpp"
#include "model_session.hpp"
#include "mortar/grammar.hpp"
#include "tessera/measure/roofline.hpp"

namespace mortar::cli {
namespace THIS_FILE {

using nlohmann::ordered_json;

constexpr std::int64_t kPrefill = 2048;  ///< tokens of a step over prompts

class Bench {
 public:
  Bench(Model model, const EngineOptions& options, std::int64_t repetitions)
      : name_(std::filesystem::weakly_canonical(model.folder).filename().string()),
        kv_bytes_(kv_bytes_per_token(model.config, model.kv_type)),
        bandwidth_(tessera::measure::memory_roofline(model.device).bytes_per_second),
        repetitions_(repetitions),
        engine_(std::move(model), options) {}

  /// A prompt of `tokens`, and its first answer token.
  BenchRow prompt(std::int64_t tokens);
  /// `tokens` of each of `batch` sequences with `context` tokens before.
  BenchRow generation(std::int64_t tokens, std::int64_t context, std::int64_t batch);
  /// The same, with the share of its time that the device has nothing to do; `constrained`: a grammar says what may
  /// come next in one of the sequences.
  BenchRow idle(std::int64_t tokens, std::int64_t context, std::int64_t batch, bool constrained);

 private:
  /// Pseudorandom ids: no part of the measurement depends on them.
  std::vector<TokenId> ids(std::int64_t n) {
    std::vector<TokenId> out(static_cast<std::size_t>(n));
    for (TokenId& id : out) {
      state_ = state_ * 6364136223846793005U + 1442695040888963407U;  // Knuth's MMIX
      id = static_cast<TokenId>((state_ >> 33) % static_cast<std::uint64_t>(engine_.model().config.vocabulary));
    }
    return out;
  }
  void submit(std::int64_t prompt, std::int64_t answer, std::shared_ptr<TokenConstraint> constraint = nullptr) {
    Request r;
    r.ids = ids(prompt);
    r.max_tokens = answer;
    r.sampling.greedy = true;
    r.ignore_eos = constraint == nullptr;
    if (constraint != nullptr) r.min_tokens = answer;
    r.constraint = std::move(constraint);
    engine_.submit(std::move(r), {});
  }
  /// A grammar of JSON that goes on as long as wanted.
  std::shared_ptr<TokenConstraint> constraint();
  /// The median of one warm-up and the repetitions of `once`, which returns seconds.
  BenchRow measure(const std::string& test, double tokens, double steps, const std::function<double()>& once) {
    std::vector<double> speeds;
    (void)once();
    for (std::int64_t i = 0; i < repetitions_; ++i) speeds.push_back(tokens / once());
    std::sort(speeds.begin(), speeds.end());
    const std::size_t n = speeds.size();
    double mean = 0, squares = 0;
    for (const double s : speeds) mean += s / static_cast<double>(n);
    for (const double s : speeds) squares += (s - mean) * (s - mean);
    BenchRow row;
    row.model = name_;
    row.test = test;
    row.tokens_per_s = (speeds[(n - 1) / 2] + speeds[n / 2]) / 2;
    row.stddev = n > 1 ? std::sqrt(squares / static_cast<double>(n - 1)) : 0;
    row.ms_per_step = tokens / row.tokens_per_s / steps * 1e3;
    return row;
  }

  std::string name_;
  std::int64_t kv_bytes_;
  double bandwidth_;
  std::int64_t repetitions_;
  Engine engine_;
  std::uint64_t state_ = 1;
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::shared_ptr<const Grammar> grammar_;
};

/// In place of a grammar for models without a tokenizer: every second token is allowed.
class EverySecondToken final : public TokenConstraint {
 public:
  explicit EverySecondToken(std::int64_t vocabulary) : vocabulary_(vocabulary) {}
  bool restricts() const override { return true; }
  void fill_mask(std::span<std::uint32_t> mask) override {
    constexpr std::int64_t kBits = 32;
    std::ranges::fill(mask, 0x55555555U);
    if (const std::int64_t rest = vocabulary_ % kBits; rest != 0) mask.back() &= (1U << rest) - 1;
  }
  bool accept(TokenId id) override { return id % 2 == 0; }
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<EverySecondToken>(*this); }

 private:
  std::int64_t vocabulary_;
};

std::shared_ptr<TokenConstraint> Bench::constraint() {
  const Model& model = engine_.model();
  const std::vector<TokenId> eos(model.generation.eos_ids.begin(), model.generation.eos_ids.end());
  if (!model.tokenizer || eos.empty()) return std::make_shared<EverySecondToken>(model.config.vocabulary);
  if (vocabulary_ == nullptr) {
    vocabulary_ = std::make_shared<const Vocabulary>(*model.tokenizer);
    grammar_ = std::make_shared<const Grammar>(
        Grammar::from_json_schema(R"({"type": "array", "items": {"type": "string"}, "minItems": 100000000})"));
  }
  return constrain(grammar_, vocabulary_, {.eos = eos});
}

BenchRow Bench::prompt(std::int64_t tokens) {
  const double steps = std::ceil(static_cast<double>(tokens) / kPrefill);
  BenchRow row = measure("pp" + std::to_string(tokens), static_cast<double>(tokens), steps, [&] {
    submit(tokens, 1);
    const Clock clock;
    engine_.run();
    return clock.seconds();
  });
  row.batch = 1;
  return row;
}

BenchRow Bench::generation(std::int64_t tokens, std::int64_t context, std::int64_t batch) {
  std::string test = "tg" + std::to_string(tokens);
  if (context > 0) test += "@" + std::to_string(context);
  if (batch > 1) test += " b" + std::to_string(batch);
  const std::int64_t before = std::max<std::int64_t>(context, 1);
  BenchRow row = measure(test, static_cast<double>(tokens * batch), static_cast<double>(tokens), [&] {
    const std::int64_t done = engine_.stats().generated_tokens;
    for (std::int64_t i = 0; i < batch; ++i) submit(before, tokens + 1);
    while (engine_.stats().generated_tokens < done + batch) engine_.step();
    const std::int64_t first = engine_.stats().generated_tokens;
    const Clock clock;
    engine_.run();
    // Some may have answered before the last prompt was computed, if not all have room at the same time.
    const double rest = static_cast<double>(done + batch * (tokens + 1) - first);
    return clock.seconds() * static_cast<double>(tokens * batch) / rest;
  });
  row.batch = batch;
  row.context = context;
  const double kv =
      static_cast<double>(kv_bytes_ * batch) * (static_cast<double>(before) + static_cast<double>(tokens) / 2);
  row.bytes_per_step = static_cast<double>(bytes_per_step(engine_.model().config, batch)) + kv;
  if (bandwidth_ > 0) row.share_of_read_roof = row.bytes_per_step / (row.ms_per_step * 1e-3) / bandwidth_;
  return row;
}

BenchRow Bench::idle(std::int64_t tokens, std::int64_t context, std::int64_t batch, bool constrained) {
  std::string test = "idle tg" + std::to_string(tokens);
  if (context > 0) test += "@" + std::to_string(context);
  test += " b" + std::to_string(batch) + (constrained ? " c1" : "");
  std::vector<double> shares;
  BenchRow row = measure(test, static_cast<double>(tokens * batch), static_cast<double>(tokens), [&] {
    const std::int64_t done = engine_.stats().generated_tokens;
    for (std::int64_t i = 0; i < batch; ++i)
      submit(std::max<std::int64_t>(context, 1), tokens + 1, constrained && i == 0 ? constraint() : nullptr);
    while (engine_.stats().generated_tokens < done + batch) engine_.step();
    const std::int64_t first = engine_.stats().generated_tokens;
    engine_.time_device(true);
    (void)engine_.device_seconds();  // waits for the step that was launched early
    const Clock clock;
    engine_.run();
    const double wall = clock.seconds(), busy = engine_.device_seconds();
    engine_.time_device(false);
    shares.push_back(1 - busy / wall);
    return wall * static_cast<double>(tokens * batch) / static_cast<double>(done + batch * (tokens + 1) - first);
  });
  shares.erase(shares.begin());  // of the warm-up
  std::sort(shares.begin(), shares.end());
  row.idle_share = (shares[(shares.size() - 1) / 2] + shares[shares.size() / 2]) / 2;
  row.device_ms_per_step = row.ms_per_step * (1 - row.idle_share);
  row.batch = batch;
  row.context = context;
  return row;
}

ordered_json json_of(const BenchRow& r) {
  ordered_json json = {{"model", r.model},
                       {"test", r.test},
                       {"tokens_per_s", r.tokens_per_s},
                       {"stddev", r.stddev},
                       {"ms_per_step", r.ms_per_step},
                       {"bytes_per_step", r.bytes_per_step},
                       {"share_of_read_roof", r.share_of_read_roof},
                       {"batch", r.batch},
                       {"context", r.context}};
  if (r.idle_share >= 0) json.update({{"device_ms_per_step", r.device_ms_per_step}, {"idle_share", r.idle_share}});
  return json;
}

void print_row(const BenchRow& r) {
  std::printf("| %-20s | %16s | %10.2f ± %-8.2f | %10.3f |", r.model.c_str(), r.test.c_str(), r.tokens_per_s, r.stddev,
              r.ms_per_step);
  for (const double share : {r.share_of_read_roof > 0 ? r.share_of_read_roof : -1, r.idle_share}) {
    if (share >= 0)
      std::printf(" %8.1f %% |", 100 * share);
    else
      std::printf(" %10s |", "-");
  }
  std::printf("\n");
}

/// `before` tokens and `answer` tokens of one sequence. Before anything is measured.
void check_room(const char* option, std::int64_t before, std::int64_t answer, std::int64_t context) {
  if (before <= context - answer) return;
  throw RequestError(std::string(option) + ": " + std::to_string(before) + " tokens and " + std::to_string(answer) +
                     " after them need a context of " + std::to_string(before + answer) + " tokens, found " +
                     std::to_string(context) + ": take a larger --max-context, or smaller numbers");
}

int run(const Arguments& arguments) {
  constexpr std::int64_t kMost = 1 << 24;
  const auto prompts = arguments.integers("--prompt-tokens", 0, kMost),
             contexts = arguments.integers("--context", 0, kMost), batches = arguments.integers("--batch", 1, 4096);
  const std::int64_t tokens = arguments.integer("--generate", 0, kMost);
  const std::int64_t repetitions = arguments.integer("--repetitions", 1, 1000);
  const std::int64_t idle = arguments.integer("--idle", 0, 4096);
  const std::int64_t batch = std::max(idle, *std::max_element(batches.begin(), batches.end()));
  const std::int64_t longest_prompt = *std::max_element(prompts.begin(), prompts.end());
  const std::int64_t longest_context = *std::max_element(contexts.begin(), contexts.end());
  if (longest_prompt == 0 && tokens == 0) throw UsageError("expected --prompt-tokens or --generate above 0");
  if (idle > 0 && tokens == 0) throw UsageError("expected --generate above 0 beside --idle");
  if (arguments.has("--svg")) check_chart_path(arguments.text("--svg"));
  const EngineOptions options{.max_batch = batch,
                              .prefill_tokens = kPrefill,
                              .prompts_first = true,
                              .prefix_cache = false,
                              .fp8_activations = arguments.flag("--fp8-activations")};
  Opening opening{.batch = batch, .prefill_tokens = kPrefill, .tokenizer = TokenizerFile::IfThere};
  opening.before_weights = [&](const Model& model) {
    check(options, model);
    check_room("--prompt-tokens", longest_prompt, 1, model.plan.max_context);
    if (tokens > 0)
      check_room("--context", std::max<std::int64_t>(longest_context, 1), tokens + 1, model.plan.max_context);
  };
  Model model = open_model(arguments, opening);
  const bool json = arguments.flag("--json");
  report(
      arguments,
      "tokens/s: median of %lld repetitions after one warm-up, without tokenization; share of the memory "
      "roofline: bytes of weights and KV cache that a step reads; idle: share of a step that the device has nothing to "
      "do\n",
      static_cast<long long>(repetitions));
  Bench bench(std::move(model), options, repetitions);
  std::vector<BenchRow> rows;
  if (!json) {
    std::printf("| %-20s | %16s | %21s | %10s | %10s | %10s |\n", "model", "test", "tokens/s", "ms/step", "roofline",
                "idle");
    std::printf("|%s|%s:|%s:|", std::string(22, '-').c_str(), std::string(17, '-').c_str(),
                std::string(22, '-').c_str());
    for (int i = 0; i < 3; ++i) std::printf("%s:|", std::string(11, '-').c_str());
    std::printf("\n");
  }
  const auto add = [&](const BenchRow& row) {
    rows.push_back(row);
    if (json)
      std::printf("%s\n", json_text(json_of(row)).c_str());
    else
      print_row(row);
    std::fflush(stdout);
  };
  for (const std::int64_t n : prompts)
    if (n > 0) add(bench.prompt(n));
  if (tokens > 0)
    for (const std::int64_t context : contexts)
      for (const std::int64_t b : batches) add(bench.generation(tokens, context, b));
  if (idle > 0)
    for (const std::int64_t context : contexts)
      for (const bool constrained : {false, true}) add(bench.idle(tokens, context, idle, constrained));
  if (arguments.has("--svg")) write_chart(rows, arguments.text("--svg"));
  return kDone;
}

const Option kOptions[] = {
    {"--prompt-tokens", "N,...", "lengths of prompts; 0: none", "512,2048", false, 'p'},
    {"--generate", "N", "tokens of each answer; 0: none", "128", false, 'n'},
    {"--context", "N,...", "tokens before the answer", "0"},
    {"--batch", "N,...", "sequences at a time", "1"},
    {"--idle", "N", "how long the device idles, with N sequences, and with a grammar for one of them; 0: no", "0"},
    {"--repetitions", "N", "of each row", "5"},
    {"--json", nullptr, "one JSON object a row"},
    {"--svg", "FILE", "a chart of the rows"},
    kFp8ActivationsOption,
};
const Registration kRegistration({"bench", "MODEL", "measures prompt and generation speed", kOptions, OptionSet::Model,
                                  run});

}  // namespace THIS_FILE
}  // namespace mortar::cli
