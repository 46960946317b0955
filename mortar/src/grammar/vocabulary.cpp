// Sorting the tokens of a tokenizer.
#include "grammar/vocabulary.hpp"

#include <algorithm>

#include "grammar/program.hpp"
#include "mortar/errors.hpp"
#include "tessera/base/format.hpp"

namespace mortar {
namespace {

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

/// Bytes that UTF-8 never has need no token.
bool may_occur(int byte) { return byte != 0xC0 && byte != 0xC1 && byte < 0xF5; }

}  // namespace

Vocabulary::State::State(const Tokenizer& source)
    : tokenizer(source), number(next_number()), is_text(static_cast<std::size_t>(source.size()), false) {
  struct Token {
    std::string_view text;
    TokenId id;
  };
  std::vector<Token> sorted;
  for (TokenId id = 0; id < tokenizer.size(); ++id) {
    const std::string_view text = tokenizer.bytes(id);
    if (text.empty() || tokenizer.is_added(id) || tokenizer.is_special(id)) continue;
    sorted.push_back({text, id});
    is_text[static_cast<std::size_t>(id)] = true;
    longest = std::max(longest, static_cast<std::uint32_t>(text.size()));
    most_commas = std::max(most_commas, static_cast<std::uint32_t>(std::count(text.begin(), text.end(), ',')));
  }
  std::sort(sorted.begin(), sorted.end(), [](const Token& a, const Token& b) { return a.text < b.text; });
  for (const Token& token : sorted) {
    tokens.texts.push_back(token.text);
    tokens.tokens.push_back(token.id);
  }
  tokens.trie = grammar::Trie(tokens.texts);
  tokens.size = tokenizer.size();
  for (int byte = 0; byte < 256; ++byte) {
    const std::uint32_t node = tokens.trie.child(0, static_cast<std::uint8_t>(byte));
    if (may_occur(byte) && (node == grammar::Trie::kNone || !tokens.trie.ends(node)))
      throw ModelError(
          tessera::concat("structured answers need a token for each byte; the tokenizer has none for ", byte));
  }
  // The two slices that almost every answer needs.
  (void)slices.get(grammar::kFreeBody, grammar::free_body(), 0, tokens, 0);
  (void)slices.get(grammar::kKeyBody, grammar::key_body(), 0, tokens, 0);
}

Vocabulary::Vocabulary(const Tokenizer& tokenizer) : state_(std::make_unique<State>(tokenizer)) {}

Vocabulary::~Vocabulary() = default;

}  // namespace mortar
