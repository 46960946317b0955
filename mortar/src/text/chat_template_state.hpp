// A chat template that has been read, and the limits within which it runs (tests and fuzzers set smaller ones).
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "mortar/chat_template.hpp"
#include "text/jinja_machine.hpp"

namespace mortar {

struct ChatTemplate::State {
  std::string name, source;
  text::jinja::Tree tree;
  std::vector<std::pair<std::string, text::jinja::Value>> special_tokens;
};

namespace text {
std::string render_chat(const ChatTemplate::State& state, const ChatInputs& inputs, const jinja::Limits& limits);
void read_chat_template(std::string_view source, const std::string& name, std::string_view tokenizer_config,
                        ChatTemplate::State& state);
/// The template within a tokenizer_config.json; empty: none.
std::string template_of_config(std::string_view config, const std::string& name);
}  // namespace text

}  // namespace mortar
