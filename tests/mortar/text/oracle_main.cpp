// What the differential tests of oracle.py run: a request per line of standard input, an answer per line of output.
//
//   mortar_text_oracle tokenize FOLDER [as-text]    {"text": "..."}  ->  ids
//   mortar_text_oracle decode FOLDER                {"ids": [...], "skip": true}  ->  {"text": "..."}
//   mortar_text_oracle template                     {"template": "...", "config": "...", "messages": "[...]", "tools":
//   "[...]",
//                                                    "thinking": true, "generation_prompt": true, "variables": "{...}"}
//                                                    ->  {"text": "..."} or {"error": "..."}
//   mortar_text_oracle time FOLDER FILE             seconds (of the processor) to load the tokenizer and to encode the
//   file
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "mortar/chat_template.hpp"
#include "mortar/errors.hpp"
#include "mortar/tokenizer.hpp"
#include "text/read_text.hpp"

namespace {

using nlohmann::ordered_json;

void tokenize(const mortar::Tokenizer& tokenizer, const ordered_json& request, mortar::AddedTokens added) {
  bool first = true;
  for (mortar::TokenId id : tokenizer.encode(request.at("text").get<std::string>(), added)) {
    if (!first) std::cout << ' ';
    std::cout << id;
    first = false;
  }
}

void decode(const mortar::Tokenizer& tokenizer, const ordered_json& request) {
  const auto ids = request.at("ids").get<std::vector<mortar::TokenId>>();
  std::cout << ordered_json{{"text", tokenizer.decode(ids, request.at("skip").get<bool>())}};
}

void render(const ordered_json& request) {
  const auto text = [&](const char* field) { return request.value(field, std::string()); };
  ordered_json answer;
  try {
    const mortar::ChatTemplate chat(text("template"), "template", text("config"));
    mortar::ChatInputs inputs{.messages = text("messages"), .tools = text("tools"), .variables = text("variables")};
    if (request.contains("thinking") && request["thinking"].is_boolean())
      inputs.thinking = request["thinking"].get<bool>();
    inputs.generation_prompt = request.value("generation_prompt", true);
    answer["text"] = chat.render(inputs);
  } catch (const mortar::Error& e) { answer["error"] = e.what(); }
  std::cout << answer;
}

void measure(const std::string& folder, const std::string& file) {
  std::clock_t start = std::clock();
  const auto seconds = [&] { return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC; };
  const auto tokenizer = mortar::Tokenizer::load(folder);
  std::cout << "load " << seconds() << " s\n";
  const std::string text = mortar::text::read_text(file);
  for (int i = 0; i < 3; ++i) {
    start = std::clock();
    const auto ids = tokenizer.encode(text);
    const double s = seconds();
    std::cout << "encode " << s << " s, " << static_cast<double>(text.size()) / s / 1e6 << " MB/s, " << ids.size()
              << " tokens\n";
  }
}

int run(const std::vector<std::string>& words) {
  if (words.size() == 3 && words[0] == "time") {
    measure(words[1], words[2]);
    return 0;
  }
  if (words.size() == 1 && words[0] == "template") {
    for (std::string line; std::getline(std::cin, line);) {
      render(ordered_json::parse(line));
      std::cout << '\n';
    }
    return 0;
  }
  if (words.size() < 2 || (words[0] != "tokenize" && words[0] != "decode")) return 2;
  const auto tokenizer = mortar::Tokenizer::load(words[1]);
  const auto added = words.size() > 2 ? mortar::AddedTokens::AsText : mortar::AddedTokens::Parse;
  for (std::string line; std::getline(std::cin, line);) {
    const auto request = ordered_json::parse(line);
    if (words[0] == "tokenize")
      tokenize(tokenizer, request, added);
    else
      decode(tokenizer, request);
    std::cout << '\n';
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
