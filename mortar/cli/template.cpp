// mortar template: the text that messages become.
#include <fstream>
#include <iostream>
#include <iterator>

#include "command.hpp"
#include "mortar/chat_template.hpp"
#include "mortar/errors.hpp"

namespace mortar::cli {
namespace {

std::string file_text(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream file(path, std::ios::binary);
  if (!file) throw RequestError(path + ": expected a file that can be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

int run(const Arguments& arguments) {
  if (!arguments.has("--messages")) throw UsageError("expected --messages with a JSON file (- for standard input)");
  if (arguments.flag("--think") && arguments.flag("--no-think"))
    throw UsageError("expected one of --think and --no-think, found both");
  const ChatTemplate chat = ChatTemplate::load(arguments.positional(0));
  ChatInputs inputs{.messages = file_text(arguments.text("--messages"))};
  if (arguments.has("--tools")) inputs.tools = file_text(arguments.text("--tools"));
  if (arguments.flag("--think") || arguments.flag("--no-think")) inputs.thinking = arguments.flag("--think");
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

}  // namespace
}  // namespace mortar::cli
