// Files of conversations, and made-up text.
#include "conversations.hpp"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "mortar/errors.hpp"

namespace mortar {
namespace {

using nlohmann::json;

std::string text_of(const json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  if (content.is_array())
    for (const json& part : content)
      if (part.is_object() && part.value("type", "") == "text") text += part.value("text", "");
  return text;
}

Conversation conversation_of(const json& entry) {
  Conversation out;
  const char* list = entry.contains("messages") ? "messages" : "conversations";
  if (!entry.contains(list) || !entry[list].is_array()) return out;
  for (const json& message : entry[list]) {
    if (!message.is_object()) continue;
    const std::string role = message.contains("role") ? message.value("role", "") : message.value("from", "");
    const std::string text = text_of(message.contains("content") ? message["content"] : message.value("value", json()));
    if (role == "system" && out.turns.empty()) out.system = text;
    if ((role == "user" || role == "human") && !text.empty()) out.turns.push_back(text);
  }
  return out;
}

}  // namespace

std::vector<Conversation> read_conversations(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw RequestError(path + ": the file of conversations cannot be read");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<Conversation> all;
  const auto add = [&](const json& entry) {
    if (!entry.is_object()) throw RequestError(path + ": expected objects with \"messages\" or \"conversations\"");
    Conversation c = conversation_of(entry);
    if (!c.turns.empty()) all.push_back(std::move(c));
  };
  try {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first != std::string::npos && text[first] == '[') {
      for (const json& entry : json::parse(text)) add(entry);
    } else {
      for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        if (text.find_first_not_of(" \t\r\n", begin) < end)
          add(json::parse(text.begin() + static_cast<long>(begin), text.begin() + static_cast<long>(end)));
        begin = end + 1;
      }
    }
  } catch (const json::exception& error) {
    throw RequestError(path + ": expected a JSON array or one JSON object per line: " + error.what());
  }
  if (all.empty()) throw RequestError(path + ": expected conversations with messages of a user, found none");
  return all;
}

namespace {
/// The finalizer of splitmix64 (Steele, Lea and Flood, 2014): every bit of the result depends on every bit of `x`.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}
}  // namespace

std::string text_of_words(std::int64_t words, std::uint64_t seed, std::uint64_t number) {
  static constexpr const char* kWords[] = {
      "time",    "year",    "people",   "way",    "day",        "man",    "thing",   "woman",
      "life",    "child",   "world",    "school", "state",      "family", "student", "group",
      "country", "problem", "hand",     "part",   "place",      "case",   "week",    "company",
      "system",  "program", "question", "work",   "government", "number", "night",   "point"};
  // Runs with neighbouring seeds have no prompt in common, which a server would find in its prefix cache.
  std::uint64_t state = mixed(mixed(seed) + number);
  std::string text;
  for (std::int64_t i = 0; i < words; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;  // Knuth's MMIX
    text += i > 0 ? " " : "";
    text += kWords[(state >> 33) % std::size(kWords)];
  }
  return text;
}

}  // namespace mortar
