// Opening a model, and options, for the commands that run a model.
#include "model_session.hpp"

#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>

#include "mortar/progress.hpp"
#include "processes.hpp"
#include "tessera/runtime/device.hpp"

namespace mortar::cli {
namespace {

tessera::Device device_from(const std::string& name) {
  const bool cpu = name == "cpu", gpu = name == "cuda" || name.starts_with("cuda:");
  const bool numbered = name.size() > 5 && name.find_first_not_of("0123456789", 5) == std::string::npos;
  if (!cpu && (!gpu || (name.size() > 4 && !numbered)))
    throw UsageError("--device: expected cpu, cuda or cuda:N, found \"" + name + "\"");
  return tessera::runtime::parse_device(name);
}

}  // namespace

ModelOptions model_options(const Arguments& arguments, std::int64_t batch) {
  ModelOptions options;
  options.warning = [&arguments](const std::string& text) { report(arguments, "mortar: warning: %s\n", text.c_str()); };
  if (arguments.has("--device")) options.device = device_from(arguments.text("--device"));
  constexpr std::int64_t kMost = 1 << 30;
  if (arguments.has("--max-context")) options.max_context = arguments.integer("--max-context", 1, kMost);
  options.max_batch = arguments.has("--batch-size") ? arguments.integer("--batch-size", 1, 4096) : batch;
  const std::string type = arguments.text("--kv-dtype");
  if (type != "bf16" && type != "f8") throw UsageError("--kv-dtype: expected bf16 or f8, found \"" + type + "\"");
  options.kv_type = type == "f8" ? KvType::Fp8 : KvType::Bf16;
  options.tensor_parallel = arguments.integer("--tensor-parallel", 1, 64);
  options.exact = arguments.flag("--exact");
  if (arguments.has("--random-weights"))
    options.random_weights =
        static_cast<std::uint64_t>(arguments.integer("--random-weights", 0, std::numeric_limits<std::int64_t>::max()));
  return options;
}

Model open_model(const Arguments& arguments, const Opening& opening) {
  ModelOptions options = model_options(arguments, opening.batch);
  options.prefill_tokens = opening.prefill_tokens;
  options.tokenizer = opening.tokenizer;
  options.before_weights = opening.before_weights;
  ProgressBar bar(stderr, arguments.quiet());
  options.progress = std::ref(bar);
  Model model = load_and_follow(arguments, options);
  report(arguments, "%s", plan_text(model.plan).c_str());
  return model;
}

void check_fits(const std::vector<TokenId>& prompt, std::int64_t answer, const Model& model) {
  check_prompt(prompt, model.config.vocabulary);
  const std::int64_t context = model.plan.max_context;
  if (std::ssize(prompt) + answer <= context) return;
  throw RequestError("the prompt has " + std::to_string(prompt.size()) + " tokens, and " +
                     (answer > 0 ? "prompt and answer together" : "a prompt") + " at most " + std::to_string(context) +
                     " tokens: shorten it" +
                     (context < model.config.max_context ? ", or take a larger --max-context" : ""));
}

Sampling sampling_from(const Arguments& arguments, const GenerationConfig& generation) {
  Sampling s = sampling_of(generation);
  const auto number = [&](const char* option, float& value, double lowest, double highest) {
    if (arguments.has(option)) value = static_cast<float>(arguments.number(option, lowest, highest));
  };
  // An option of sampling turns greedy off; on the command line also that of the environment.
  bool given = false;
  for (const char* option : {"--temperature", "--top-k", "--top-p", "--min-p", "--seed"}) {
    if (arguments.has(option)) s.greedy = false;
    if (arguments.given(option) && arguments.given("--greedy"))
      throw UsageError(std::string("--greedy and ") + option + " exclude each other");
    given = given || arguments.given(option);
  }
  if (arguments.flag("--greedy") && (arguments.given("--greedy") || !given)) s.greedy = true;
  constexpr double kAboveZero = std::numeric_limits<float>::min();
  number("--temperature", s.temperature, 0, 100);
  number("--top-p", s.top_p, kAboveZero, 1);
  number("--min-p", s.min_p, 0, 1);
  number("--repetition-penalty", s.repetition_penalty, kAboveZero, 100);
  number("--presence-penalty", s.presence_penalty, -100, 100);
  if (arguments.has("--top-k")) s.top_k = arguments.integer("--top-k", 0, 1 << 30);
  if (arguments.has("--seed"))
    s.seed = static_cast<std::uint64_t>(arguments.integer("--seed", 0, std::numeric_limits<std::int64_t>::max()));
  return s;
}

std::optional<bool> thinking_from(const Arguments& arguments) {
  const bool on = arguments.flag("--think"), off = arguments.flag("--no-think");
  if (!on && !off) return std::nullopt;
  if (on && off && arguments.given("--think") == arguments.given("--no-think"))
    throw UsageError("--think and --no-think exclude each other");
  return on && (!off || arguments.given("--think"));
}

std::optional<std::int64_t> max_tokens_from(const Arguments& arguments) {
  if (!arguments.has("--max-tokens")) return std::nullopt;
  return arguments.integer("--max-tokens", 1, 1 << 30);
}

void check_generation_options(const Arguments& arguments) {
  (void)sampling_from(arguments, {});
  (void)thinking_from(arguments);
  (void)max_tokens_from(arguments);
  for (const char* flag : {"--ignore-eos", "--strict"}) (void)arguments.flag(flag);
  for (const std::string& stop : arguments.all("--stop")) {
    if (stop.empty()) throw UsageError("--stop: expected a text, found an empty one");
    if (!is_utf8(stop)) throw UsageError("--stop: expected a text in UTF-8, found other bytes");
  }
}

bool ends_thinking(const std::string& prompt) {
  const std::size_t open = prompt.rfind("<think>"), close = prompt.rfind("</think>");
  return open != std::string::npos && (close == std::string::npos || close < open) &&
         prompt.find_first_not_of("\n", open + 7) == std::string::npos;
}

}  // namespace mortar::cli
