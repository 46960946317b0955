// What a load test says: conversations of a file, or texts of a length.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace mortar {

/// The system message (may be empty) and what the user says, turn by turn. Answers come from the server.
struct Conversation {
  std::string system;
  std::vector<std::string> turns;
};

/// A JSON array or JSON lines; each entry is {"messages": [{"role", "content"}]}, or {"conversations": [{"from",
/// "value"}]} as in ShareGPT. Entries without a user's message are skipped. Throws RequestError if the file cannot be
/// read or has none.
std::vector<Conversation> read_conversations(const std::string& path);

/// `words` words that are one token each in the usual vocabularies: text `number` of the run `seed`. The first ones
/// differ for each seed and number, so that no two texts share a prefix.
std::string text_of_words(std::int64_t words, std::uint64_t seed, std::uint64_t number);

}  // namespace mortar
