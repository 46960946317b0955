// mortar perplexity: how well a model predicts a text, token by token, with the true tokens before each.
#include <cmath>
#include <cstdio>
#include <span>

#include "json_text.hpp"
#include "model_session.hpp"
#include "read_input.hpp"

namespace mortar::cli {
namespace THIS_FILE {

int run(const Arguments& arguments) {
  const std::string path = arguments.text("--file");
  const std::int64_t context = arguments.integer("--context", 2, 1 << 30);
  const std::string text = read_input(path);
  const EngineOptions options{.max_batch = 1, .prefix_cache = false, .strict = arguments.flag("--strict")};
  std::vector<TokenId> ids, beginning;  // beginning: of each window; not scored
  std::int64_t before = 0, window = 0;
  Opening opening;
  opening.before_weights = [&](const Model& model) {
    check(options, model);
    if (!model.tokenizer) throw RequestError("perplexity needs the model's tokenizer.json");
    ids = model.tokenizer->encode(text, AddedTokens::AsText);
    beginning = model.tokenizer->beginning();
    before = std::ssize(beginning), window = std::min(context, model.plan.max_context) - before;
    if (window < 2)
      throw RequestError("perplexity needs a context of at least two tokens: take a larger --max-context");
    if (ids.size() < 2)
      throw RequestError(path + ": expected at least two tokens, found " + std::to_string(ids.size()));
    check_prompt(ids, model.config.vocabulary);
  };
  Engine engine(open_model(arguments, opening), options);
  double sum = 0;
  std::int64_t scored = 0;
  for (std::int64_t first = 0; first + 1 < std::ssize(ids); first += window) {
    const std::int64_t end = std::min<std::int64_t>(first + window, std::ssize(ids));
    std::vector<TokenId> part = beginning;
    part.insert(part.end(), ids.begin() + first, ids.begin() + end);
    const std::vector<float> logprobs = engine.log_likelihoods(part);
    for (const float logprob : std::span(logprobs).subspan(static_cast<std::size_t>(before))) {
      sum -= logprob;
      ++scored;
    }
    if (!std::isfinite(sum))
      throw RequestError("the log-probabilities of tokens " + std::to_string(first) + " to " + std::to_string(end - 1) +
                         " are not finite: the weights are damaged, or no weights of this configuration");
    if (scored > 0)
      report(arguments, "%lld of %zu tokens, perplexity %.4f\n", static_cast<long long>(end), ids.size(),
             std::exp(sum / static_cast<double>(scored)));
  }
  const double mean = sum / static_cast<double>(scored);
  if (arguments.flag("--json"))
    std::printf("%s\n", json_text({{"tokens", scored},
                                   {"context", window},
                                   {"negative_log_likelihood", mean},
                                   {"perplexity", std::exp(mean)}})
                            .c_str());
  else
    std::printf("%.6f nats per token over %lld tokens, perplexity %.4f\n", mean, static_cast<long long>(scored),
                std::exp(mean));
  return kDone;
}

const Option kOptions[] = {
    {"--file", "FILE", "the text"},
    {"--context", "N", "tokens of a window; the first of each is not scored", "2048"},
    {"--json", nullptr, "the result as one JSON object"},
    kStrictOption,
};
const Registration kRegistration({"perplexity", "MODEL", "the mean negative log-likelihood of a text", kOptions,
                                  OptionSet::Model, run});

}  // namespace THIS_FILE
}  // namespace mortar::cli
