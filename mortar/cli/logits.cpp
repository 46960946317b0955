// mortar logits: the logits of every position of a prompt, for checking against other engines.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "interrupt.hpp"
#include "model_session.hpp"
#include "output_path.hpp"
#include "tessera/base/format.hpp"
#include "tessera/tessera.hpp"

namespace mortar::cli {
namespace THIS_FILE {

/// Throws RequestError unless all logits are numbers.
void check_finite(const std::vector<float>& logits, std::int64_t vocabulary) {
  const auto is_finite = [](float x) { return std::isfinite(x); };
  const auto first = std::ranges::find_if_not(logits, is_finite);
  if (first == logits.end()) return;
  const std::int64_t at = first - logits.begin();
  throw RequestError(tessera::concat(
      "expected logits that are finite, found ", std::ranges::count_if(logits, std::not_fn(is_finite)), " of ",
      logits.size(), " that are not, the first at position ", at / vocabulary, ", id ", at % vocabulary,
      ": nothing is written. Are the weights damaged, or those of another configuration?"));
}

int run(const Arguments& arguments) {
  const std::string out = arguments.text("--out");
  const auto given = arguments.integers("--prompt-ids", 0, kMaxVocabulary - 1);
  const std::vector<TokenId> prompt(given.begin(), given.end());
  check_output_path(out, "the file of logits", Existing::Regular);
  const EngineOptions options{.max_batch = 1, .strict = arguments.flag("--strict")};
  Opening opening{.tokenizer = TokenizerFile::Unread};
  opening.before_weights = [&](const Model& model) {
    check(options, model);
    check_fits(prompt, 0, model);
  };
  Engine engine(open_model(arguments, opening), options);
  const std::vector<float> logits = engine.logits(prompt);
  check_finite(logits, engine.model().config.vocabulary);
  const auto tokens = static_cast<std::int64_t>(given.size());
  const CtrlC held(std::numeric_limits<int>::max());  // until the file is complete
  const auto& cpu = tessera::Stream::default_of(tessera::Device::cpu());
  tessera::save_npy(out, tessera::from(std::span(logits), {tokens, engine.model().config.vocabulary}).sync(cpu));
  report(arguments, "%s: f32 [%lld, %lld]\n", out.c_str(), static_cast<long long>(tokens),
         static_cast<long long>(engine.model().config.vocabulary));
  if (CtrlC::count() > 0) throw Interrupted();
  return kDone;
}

const Option kOptions[] = {
    {"--prompt-ids", "IDS", "the prompt as token ids, separated by commas"},
    {"--out", "FILE", "a .npy file of f32, [tokens, vocabulary]"},
    kStrictOption,
};
const Registration kRegistration({"logits", "MODEL", "the logits of all positions of a prompt", kOptions,
                                  OptionSet::Model, run});

}  // namespace THIS_FILE
}  // namespace mortar::cli
