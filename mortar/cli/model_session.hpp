// What the commands that run a model share: opening it by the common options, sampling options, progress.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "command.hpp"
#include "mortar/mortar.hpp"
#include "report.hpp"

namespace mortar::cli {

/// What a command wants of its model.
struct Opening {
  std::int64_t batch = 1;  ///< sequences; --batch-size wins
  std::int64_t prefill_tokens = kDefaultPrefill;
  TokenizerFile tokenizer = TokenizerFile::Needed;
  /// Called with all of the model but its weights (ModelOptions::before_weights): the command finds here what is wrong
  /// with its options and inputs for this model. In one of several processes.
  std::function<void(const Model&)> before_weights = {};
};
/// Loads the model of the first positional argument and shows the memory plan and the progress on standard error. A
/// process of rank 1 or later does not return from it (processes.hpp).
Model open_model(const Arguments& arguments, const Opening& opening);
/// Throws RequestError unless the prompt's ids are of the model's vocabulary and fit into the context with `answer`
/// tokens behind them.
void check_fits(const std::vector<TokenId>& prompt, std::int64_t answer, const Model& model);
/// What the common options say; warnings go to standard error. Throws UsageError for wrong values. `arguments` must
/// outlive the result.
ModelOptions model_options(const Arguments& arguments, std::int64_t batch);

/// Throws UsageError for values of kSamplingOptions that are wrong for every model: before one is loaded.
void check_generation_options(const Arguments& arguments);
/// --max-tokens; none: not given.
std::optional<std::int64_t> max_tokens_from(const Arguments& arguments);
/// Defaults of `generation`, then the sampling options of the command line (kSamplingOptions).
Sampling sampling_from(const Arguments& arguments, const GenerationConfig& generation);
/// --think and --no-think; neither: the template's default.
std::optional<bool> thinking_from(const Arguments& arguments);
/// True if the text of a rendered prompt ends within <think>.
bool ends_thinking(const std::string& prompt);

/// Seconds since it was made.
class Clock {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace mortar::cli
