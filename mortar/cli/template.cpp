// mortar template: the text that messages become.
#include <iostream>

#include "model_session.hpp"
#include "mortar/chat_template.hpp"
#include "read_input.hpp"

namespace mortar::cli {
namespace THIS_FILE {

int run(const Arguments& arguments) {
  if (!arguments.has("--messages")) throw UsageError("expected --messages with a JSON file (- for standard input)");
  const std::optional<bool> thinking = thinking_from(arguments);
  if (arguments.text("--messages") == "-" && arguments.has("--tools") && arguments.text("--tools") == "-")
    throw UsageError("--messages and --tools: expected at most one of them from standard input");
  const ChatTemplate chat = ChatTemplate::load(arguments.positional(0));
  ChatInputs inputs{.messages = read_input(arguments.text("--messages"))};
  if (arguments.has("--tools")) inputs.tools = read_input(arguments.text("--tools"));
  inputs.thinking = thinking;
  inputs.generation_prompt = !arguments.flag("--no-generation-prompt");
  std::cout << chat.render(inputs);
  return kDone;
}

const Option kOptions[] = {
    {"--messages", "PATH", "JSON array of messages, as the OpenAI API has them; - for standard input"},
    {"--tools", "PATH", "JSON array of tools"},
    {"--think", nullptr, "asks the model to think first"},
    {"--no-think", nullptr, "asks it not to"},
    {"--no-generation-prompt", nullptr, "without the beginning of an answer"},
};
const Registration kRegistration({"template", "MODEL", "messages as the model reads them: the rendered chat template",
                                  kOptions, OptionSet::None, run});

}  // namespace THIS_FILE
}  // namespace mortar::cli
