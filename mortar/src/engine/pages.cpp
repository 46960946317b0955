// Taking, holding, finding pages of the KV cache.
#include "engine/pages.hpp"

namespace mortar {

Pages::Pages(std::int64_t count) : pages_(static_cast<std::size_t>(count)) {
  for (std::int64_t i = 0; i < count; ++i)
    pages_[static_cast<std::size_t>(i)].idle = idle_.insert(idle_.end(), static_cast<PageId>(i));
}

std::size_t Pages::KeyHash::operator()(const Key& key) const noexcept {
  // Multiplicative hashing (Knuth 6.4), mixed per token.
  std::uint64_t h = key.before * 0x9e3779b97f4a7c15U + 1 + std::hash<std::string>{}(key.scope);
  for (const TokenId token : key.tokens) {
    h = (h ^ static_cast<std::uint32_t>(token)) * 0xff51afd7ed558ccdU;
    h ^= h >> 32;
  }
  return static_cast<std::size_t>(h);
}

Pages::Key Pages::key_of(Contents before, const TokenRange& tokens, std::string_view scope) {
  Key key{before, std::vector<TokenId>(tokens.size()), std::string(before == 0 ? scope : std::string_view())};
  tokens.copy_to(key.tokens.begin());
  return key;
}

void Pages::forget(Page& page) {
  if (page.known != nullptr) known_.erase(Key(page.known->first));
  page.known = nullptr;
}

std::optional<PageId> Pages::take() {
  if (idle_.empty()) return std::nullopt;
  const PageId id = idle_.front();
  hold(id);
  forget(pages_[static_cast<std::size_t>(id)]);
  return id;
}

void Pages::hold(PageId id) {
  Page& page = pages_[static_cast<std::size_t>(id)];
  if (page.holders++ != 0) return;
  idle_.erase(page.idle);
  cached_ -= page.known != nullptr ? 1 : 0;
}

void Pages::release(PageId id) {
  Page& page = pages_[static_cast<std::size_t>(id)];
  if (--page.holders != 0) return;
  cached_ += page.known != nullptr ? 1 : 0;
  // A page without contents is of no use to anybody: it is taken first.
  page.idle = idle_.insert(page.known != nullptr ? idle_.end() : idle_.begin(), id);
}

std::optional<Pages::Found> Pages::find(Contents before, const TokenRange& tokens, std::string_view scope) {
  const auto at = known_.find(key_of(before, tokens, scope));
  if (at == known_.end()) return std::nullopt;
  hold(at->second.page);
  return Found{at->second.page, at->second.contents};
}

Contents Pages::publish(PageId id, Contents before, const TokenRange& tokens, std::string_view scope) {
  const auto [at, added] = known_.try_emplace(key_of(before, tokens, scope), Known{next_, id});
  if (!added) return at->second.contents;
  pages_[static_cast<std::size_t>(id)].known = &*at;
  return next_++;
}

}  // namespace mortar
