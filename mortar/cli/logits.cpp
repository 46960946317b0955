// mortar logits: the logits of every position of a prompt, for checking against other engines.
#include <limits>

#include "interrupt.hpp"
#include "model_session.hpp"
#include "tessera/tessera.hpp"

namespace mortar::cli {
namespace THIS_FILE {

int run(const Arguments& arguments) {
  const std::string out = arguments.text("--out");
  const auto given = arguments.integers("--prompt-ids", 0, kMostVocabulary - 1);
  Model model = open_model(arguments, 1);
  Engine engine(std::move(model), {.max_batch = 1, .strict = arguments.flag("--strict")});
  const std::vector<float> logits = engine.logits({given.begin(), given.end()});
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
