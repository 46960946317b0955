// mortar generate: one answer to one prompt.
#include <algorithm>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "interrupt.hpp"
#include "json_text.hpp"
#include "model_session.hpp"
#include "mortar/chat_template.hpp"
#include "read_input.hpp"

namespace mortar::cli {
namespace THIS_FILE {

using nlohmann::ordered_json;

/// A prompt as it was given: a text or ids.
struct GivenPrompt {
  std::optional<std::string> text;
  std::vector<std::int64_t> ids;
};
struct Prompt {
  std::vector<TokenId> ids;
  bool starts_thinking = false;
};

/// The prompt of the option on the command line that has one, else of the environment's.
GivenPrompt given_prompt(const Arguments& arguments) {
  std::vector<std::string> given, set;
  for (const char* option : {"--prompt", "--prompt-file", "--prompt-ids"}) {
    if (arguments.given(option)) given.emplace_back(option);
    if (arguments.has(option)) set.emplace_back(option);
  }
  const auto& found = given.empty() ? set : given;
  if (found.size() != 1) throw UsageError("expected one of --prompt, --prompt-file and --prompt-ids");
  GivenPrompt prompt;
  if (found[0] == "--prompt-ids")
    prompt.ids = arguments.integers("--prompt-ids", 0, kMaxVocabulary - 1);
  else
    prompt.text = found[0] == "--prompt" ? arguments.text(found[0]) : read_input(arguments.text(found[0]));
  return prompt;
}

Prompt prompt_from(const Arguments& arguments, GivenPrompt given, const Model& model) {
  Prompt prompt;
  if (!given.text) {
    prompt.ids.assign(given.ids.begin(), given.ids.end());
    return prompt;
  }
  if (!model.tokenizer) throw RequestError("the model has no tokenizer.json: give --prompt-ids instead of a text");
  std::string text = std::move(*given.text);
  const bool raw = arguments.flag("--raw");
  if (!raw) {
    std::vector<ChatMessage> messages;
    if (arguments.has("--system")) messages.push_back({"system", arguments.text("--system")});
    messages.push_back({"user", std::move(text)});
    ChatInputs inputs;
    inputs.messages = messages_json(messages);
    inputs.thinking = thinking_from(arguments);
    text = ChatTemplate::load(model.folder).render(inputs);
    prompt.starts_thinking = ends_thinking(text);
  }
  prompt.ids = raw ? model.tokenizer->encode_document(text) : model.tokenizer->encode(text);
  return prompt;
}

struct Answer {
  std::string content, thinking;
  std::vector<TokenId> ids;
  FinishReason finish = FinishReason::Length;
  ordered_json logprobs = ordered_json::array();
  double first = 0, total = 0;  ///< seconds to the first and to the last token
};

ordered_json logprobs_of(const Token& token) {
  ordered_json top = ordered_json::array();
  for (const auto& [id, logprob] : token.top) top.push_back({{"id", id}, {"logprob", logprob}});
  return {{"id", token.id}, {"logprob", token.chosen->logprob}, {"top_logprobs", top}};
}

ordered_json json_of(const Answer& a, std::size_t prompt, const EngineStats& stats) {
  const double decode = a.total - a.first;
  const auto rest = static_cast<double>(a.ids.size()) - 1;
  ordered_json out = {{"text", a.content}, {"ids", a.ids}, {"finish_reason", name_of(a.finish)}};
  out["thinking"] = a.thinking;
  out["timings"] = {{"prompt_n", prompt},
                    {"cache_n", stats.cached_tokens},
                    {"prompt_ms", a.first * 1e3},
                    {"prompt_per_second", static_cast<double>(prompt) / a.first},
                    {"predicted_n", a.ids.size()},
                    {"predicted_ms", decode * 1e3},
                    {"predicted_per_second", decode > 0 ? rest / decode : 0.0}};
  if (!a.logprobs.empty()) out["logprobs"] = a.logprobs;
  return out;
}

/// The tokens of the answer: the number requested, as far as the context has room after the prompt, which fits.
std::int64_t answer_tokens(const Arguments& arguments, std::int64_t prompt, const Model& model) {
  const std::int64_t context = model.plan.max_context;
  const std::int64_t wanted = max_tokens_from(arguments).value_or(128), room = context - prompt;
  if (room < wanted && max_tokens_from(arguments))
    report(arguments, "the context of %lld tokens leaves %lld for the answer\n", static_cast<long long>(context),
           static_cast<long long>(room));
  return std::min(wanted, room);
}

/// What the model's files and the memory plan say about the request: before its weights are loaded.
void fill(Request& request, const Arguments& arguments, GivenPrompt given, const Model& model) {
  Prompt prompt = prompt_from(arguments, std::move(given), model);
  check_fits(prompt.ids, 1, model);
  request.sampling = sampling_from(arguments, model.generation);
  request.max_tokens = answer_tokens(arguments, std::ssize(prompt.ids), model);
  request.stop = arguments.all("--stop");
  if (!request.stop.empty() && !model.tokenizer)
    throw RequestError("--stop needs the model's tokenizer.json, which is not there");
  request.ignore_eos = arguments.flag("--ignore-eos");
  request.starts_thinking = prompt.starts_thinking;
  request.ids = std::move(prompt.ids);
}

int run(const Arguments& arguments) {
  check_generation_options(arguments);
  GivenPrompt given = given_prompt(arguments);
  const bool json = arguments.flag("--json");
  (void)arguments.flag("--raw");
  Request request;
  if (arguments.has("--logprobs")) request.logprobs = arguments.integer("--logprobs", 0, kMaxLogprobs);
  const EngineOptions options{.max_batch = 1, .strict = arguments.flag("--strict")};
  Opening opening{.tokenizer = given.text ? TokenizerFile::Needed : TokenizerFile::IfThere};
  opening.before_weights = [&](const Model& model) {
    check(options, model);
    fill(request, arguments, std::move(given), model);
  };
  Model model = open_model(arguments, opening);
  const std::size_t prompt_tokens = request.ids.size();
  const bool has_text = model.tokenizer.has_value();

  Engine engine(std::move(model), options);
  Answer answer;
  if (!json) set_closing("\n");
  Channel channel = Channel::Content;
  const Clock clock;
  const auto on_token = [&](const Token& token) {
    if (token.finish == FinishReason::Failed) throw ModelError(token.error);
    if (answer.ids.empty()) answer.first = clock.seconds();
    answer.total = clock.seconds();
    answer.ids.push_back(token.id);
    if (token.finish) answer.finish = *token.finish;
    if (token.chosen) answer.logprobs.push_back(logprobs_of(token));
    for (const AnswerText& part : token.text) {
      (part.channel == Channel::Thinking ? answer.thinking : answer.content) += part.text;
      if (json) continue;
      if (part.channel != channel) report(arguments, "\n");
      channel = part.channel;
      if (channel == Channel::Content)
        put(stdout, part.text);
      else if (!arguments.quiet())
        put(stderr, part.text);
    }
    if (!json && !has_text) put(stdout, (answer.ids.size() > 1 ? "," : "") + std::to_string(token.id));
  };
  engine.submit(std::move(request), on_token);
  engine.run();
  set_closing(nullptr);
  if (json)
    std::printf("%s\n", json_text(json_of(answer, prompt_tokens, engine.stats())).c_str());
  else
    put(stdout, "\n");
  const double decode = answer.total - answer.first;
  report(arguments, "%zu tokens of prompt in %.0f ms, %zu of answer at %.1f tok/s\n", prompt_tokens, answer.first * 1e3,
         answer.ids.size(), decode > 0 ? (static_cast<double>(answer.ids.size()) - 1) / decode : 0.0);
  return kDone;
}

const Option kOptions[] = {
    {"--prompt", "TEXT", "what the user says", nullptr, false, 'p'},
    {"--prompt-file", "FILE", "the same from a file"},
    {"--prompt-ids", "IDS", "the prompt as token ids, separated by commas"},
    {"--raw", nullptr, "takes the prompt as it is, without the chat template"},
    {"--logprobs", "N", "with --json: the log-probability of each token, and of the N most likely ones"},
    {"--json", nullptr, "one JSON object: text, thinking, ids, finish_reason, timings, logprobs"},
};
const Registration kRegistration({"generate", "MODEL", "answers one prompt", kOptions, OptionSet::Generation, run});

}  // namespace THIS_FILE
}  // namespace mortar::cli
