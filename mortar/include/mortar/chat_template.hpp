// The chat template of a model: messages to the text that the model was trained on. Templates are programs in the
// language of Jinja, run here as Hugging Face `transformers` runs them.
//
//   const auto chat = mortar::ChatTemplate::load("Qwen3-4B");
//   std::string prompt = chat.render({.messages = R"([{"role": "user", "content": "Hello"}])", .thinking = false});
#pragma once
#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace mortar {

struct ChatMessage {
  std::string role;  ///< "system", "user", "assistant", "tool"
  std::string content;
};
/// The messages as JSON, for ChatInputs.
std::string messages_json(std::span<const ChatMessage> messages);

struct ChatInputs {
  std::string messages;    ///< JSON array of objects, as the OpenAI API has them: also tool_calls, reasoning_content
  std::string tools = {};  ///< JSON array of tools; empty: none
  std::optional<bool> thinking = {};  ///< the variable enable_thinking; not given: the template's default
  bool generation_prompt = true;      ///< ends with the beginning of an answer
  std::string variables = {};         ///< JSON object of more variables; empty: none
  std::optional<std::tm> now = {};    ///< for strftime_now; not given: the local time
};

class ChatTemplate {
 public:
  /// Reads FOLDER/chat_template.jinja, else chat_template in FOLDER/tokenizer_config.json, and the names of special
  /// tokens there. Throws ModelError if the folder has no template, or with the line of what is wrong or not supported
  /// in it.
  static ChatTemplate load(const std::string& folder);
  /// `tokenizer_config`: the text of tokenizer_config.json, or empty.
  explicit ChatTemplate(std::string_view source, const std::string& name = "chat_template",
                        std::string_view tokenizer_config = {});

  /// Throws RequestError: the inputs are not JSON, the template rejects them (raise_exception), does not fit them, or
  /// does not end within its limits; with the line of the template.
  std::string render(const ChatInputs& inputs) const;
  /// Whether `text` occurs in the source: templates show how calls are written, and name the variables that they read.
  bool mentions(std::string_view text) const;

  struct State;  ///< internal

 private:
  std::shared_ptr<const State> state_;
};

}  // namespace mortar
