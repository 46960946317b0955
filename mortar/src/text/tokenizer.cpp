// Text to ids: added tokens, then normalization, pieces, and byte pairs of each piece.
#include "mortar/tokenizer.hpp"

#include "text/read_text.hpp"
#include "text/tokenizer_state.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace mortar {
namespace {

using text::AddedTokenTree;

/// Calls other(text) for what stands between the names of added tokens.
template <class F>
void between(const AddedTokenTree& names, std::string_view text, std::vector<TokenId>& out, F&& other) {
  std::size_t at = 0;
  while (at < text.size()) {
    const AddedTokenTree::Found found =
        names.empty() ? AddedTokenTree::Found{text.size(), text.size(), -1} : names.find(text, at);
    if (found.begin > at) other(text.substr(at, found.begin - at));
    if (found.id >= 0) out.push_back(found.id);
    at = found.end;
  }
}

void encode_pieces(const Tokenizer::State& state, std::string_view text, std::vector<TokenId>& out) {
  const char *at = text.data(), *end = at + text.size();
  while (at != end) {
    const char* next = text::end_of_piece(at, end, *state.rules);
    state.pairs.encode({at, static_cast<std::size_t>(next - at)}, out);
    at = next;
  }
}

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}

Tokenizer Tokenizer::load(const std::string& folder) {
  const std::string path = folder + "/tokenizer.json";
  return parse(text::read_text(path), path);
}

Tokenizer Tokenizer::parse(std::string_view json, const std::string& name) {
  auto state = std::make_shared<State>();
  text::read_tokenizer(json, name, *state);
  return Tokenizer(std::move(state));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, AddedTokens added) const {
  std::string repaired;
  if (text::valid_utf8(text) != text.size()) {
    repaired = text::replace_invalid_utf8(text);
    text = repaired;
  }
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 3 + 1);
  const bool parse = added == AddedTokens::Parse;
  const AddedTokenTree none;
  between(parse ? state_->in_raw_text : none, text, ids, [&](std::string_view raw) {
    std::string normalized;
    if (state_->nfc && !text::is_surely_nfc(raw)) {
      normalized = text::nfc(raw);
      raw = normalized;
    }
    between(parse ? state_->in_normalized_text : none, raw, ids,
            [&](std::string_view rest) { encode_pieces(*state_, rest, ids); });
  });
  return ids;
}

const std::vector<TokenId>& Tokenizer::beginning() const { return state_->beginning; }

std::vector<TokenId> Tokenizer::encode_document(std::string_view text, AddedTokens added) const {
  std::vector<TokenId> ids = beginning();
  const std::vector<TokenId> rest = encode(text, added);
  ids.insert(ids.end(), rest.begin(), rest.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string all;
  for (TokenId id : ids) {
    if (!skip_special || !is_special(id)) all += bytes(id);
  }
  return text::valid_utf8(all) == all.size() ? all : text::replace_invalid_utf8(all);
}

std::string_view Tokenizer::bytes(TokenId id) const {
  if (state_->added.has(id)) return state_->added.bytes(id);
  return state_->vocabulary.has(id) ? state_->vocabulary.bytes(id) : std::string_view{};
}

bool Tokenizer::is_special(TokenId id) const {
  return id >= 0 && static_cast<std::size_t>(id) < state_->special.size() &&
         state_->special[static_cast<std::size_t>(id)];
}

bool Tokenizer::is_added(TokenId id) const { return state_->added.has(id); }

std::optional<TokenId> Tokenizer::find(std::string_view token) const {
  const TokenId added = state_->added.find(token);
  const TokenId id = added >= 0 ? added : state_->vocabulary.find(token);
  return id >= 0 ? std::optional(id) : std::nullopt;
}

TokenId Tokenizer::size() const { return state_->size(); }

}  // namespace mortar
