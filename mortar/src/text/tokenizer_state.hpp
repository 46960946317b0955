// What a tokenizer.json says, ready to be used.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "mortar/tokenizer.hpp"
#include "text/added_tokens.hpp"
#include "text/byte_pairs.hpp"
#include "text/split.hpp"

namespace mortar {

struct Tokenizer::State {
  text::Vocabulary vocabulary, added;  // ids of added tokens may be in both
  text::BytePairs pairs{vocabulary};
  text::AddedTokenTree in_raw_text, in_normalized_text;
  std::vector<bool> special;       // by id
  std::vector<TokenId> beginning;  // of a text that is not a part of another
  bool nfc = false;
  const text::SplitRules* rules = nullptr;

  TokenId size() const { return std::max(vocabulary.size(), added.size()); }
};

namespace text {
/// Reads the text of a tokenizer.json.
void read_tokenizer(std::string_view json, const std::string& name, Tokenizer::State& state);
}  // namespace text

}  // namespace mortar
