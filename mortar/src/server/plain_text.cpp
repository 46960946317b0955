// Marks around names of tokens, and their way to ids.
#include "server/plain_text.hpp"

#include <algorithm>
#include <random>

#include "text/tokenizer_state.hpp"
#include "text/utf8.hpp"

namespace mortar::server {

PlainText::PlainText(Tokenizer tokenizer, bool parses) : tokenizer_(std::move(tokenizer)), parses_(parses) {
  // Plane 15 is for private use; 8 characters of 65,000 cannot be guessed.
  std::random_device random;
  for (std::string* mark : {&begin_, &end_})
    for (int i = 0; i < 8; ++i) text::append_utf8(*mark, 0xF0000 + random() % 0xFFF0);
}

std::string PlainText::mark(std::string_view text, Names names) const {
  const auto& state = tokenizer_.state();
  std::string out;
  std::size_t at = 0;
  while (!parses_ && at < text.size()) {
    const text::AddedTokenTree::Found none{text.size(), text.size(), -1};
    const auto raw = state.in_raw_text.empty() ? none : state.in_raw_text.find(text, at);
    const auto normalized = state.in_normalized_text.empty() ? none : state.in_normalized_text.find(text, at);
    const auto& found = normalized.begin < raw.begin ? normalized : raw;
    if (found.id < 0) break;
    out += text.substr(at, found.begin - at);
    if (names == Names::All || tokenizer_.is_special(found.id)) {
      out += text.substr(found.begin, 1);
      out += begin_;
      out += text.substr(found.begin + 1, found.end - found.begin - 1);
      out += end_;
    } else {
      out += text.substr(found.begin, found.end - found.begin);
    }
    at = found.end;
  }
  out += text.substr(at);
  return out;
}

std::vector<TokenId> PlainText::encode(std::string_view rendered) const {
  std::vector<TokenId> ids;
  const auto add = [&](std::string_view text, AddedTokens added) {
    if (text.empty()) return;
    const std::vector<TokenId> more = tokenizer_.encode(text, added);
    ids.insert(ids.end(), more.begin(), more.end());
  };
  for (;;) {
    const std::size_t begin = rendered.find(begin_);
    const std::size_t end = begin == rendered.npos ? rendered.npos : rendered.find(end_, begin);
    if (end == rendered.npos) break;
    const std::size_t inside = begin + begin_.size();
    const std::size_t first = begin > 0 ? begin - 1 : 0;
    add(rendered.substr(0, first), AddedTokens::Parse);
    add(std::string(rendered.substr(first, begin - first)) + std::string(rendered.substr(inside, end - inside)),
        AddedTokens::AsText);
    rendered.remove_prefix(end + end_.size());
  }
  add(rendered, AddedTokens::Parse);
  return ids;
}

std::string PlainText::unmark(std::string_view rendered) const {
  std::string out(rendered);
  for (const std::string* mark : {&begin_, &end_})
    for (std::size_t at = out.find(*mark); at != out.npos; at = out.find(*mark, at)) out.erase(at, mark->size());
  return out;
}

}  // namespace mortar::server
