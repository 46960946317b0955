// The pages of the KV cache: which are free, who holds them, and what the full ones contain.
//
// A full page is known by the tokens in it and the page before it, so a prompt that begins as an earlier sequence finds
// that sequence's pages. A page that is not held keeps its contents until it is needed. Pages without contents are
// taken first, then the one that was released first. Sequences of different scopes do not find each other's pages.
#pragma once
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/token_range.hpp"

namespace mortar {

using PageId = std::int32_t;

/// Names the contents of a full page and all pages before it; 0: the beginning of a sequence.
using Contents = std::uint64_t;

class Pages {
 public:
  explicit Pages(std::int64_t count);

  std::int64_t count() const noexcept { return static_cast<std::int64_t>(pages_.size()); }
  /// Pages that are not held.
  std::int64_t free() const noexcept { return static_cast<std::int64_t>(idle_.size()); }
  /// Of these, the ones with contents that can be found.
  std::int64_t cached() const noexcept { return cached_; }
  /// A page with one holder and no contents; none if all are held.
  std::optional<PageId> take();
  /// Another holder of a page.
  void hold(PageId page);
  void release(PageId page);

  struct Found {
    PageId page;
    Contents contents;
  };
  /// The page with these tokens after `before`, with one holder more. `scope` is that of the sequence.
  std::optional<Found> find(Contents before, const TokenRange& tokens, std::string_view scope = {});
  /// Says that a held page is complete: `tokens` after `before`. Returns its contents' name. If another page has the
  /// same contents, this one stays unknown.
  Contents publish(PageId page, Contents before, const TokenRange& tokens, std::string_view scope = {});

 private:
  struct Key {
    Contents before;
    std::vector<TokenId> tokens;
    std::string scope;  ///< of first pages; what comes after them is known by `before`
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const noexcept;
  };
  struct Known {
    Contents contents;
    PageId page;
  };
  struct Page {
    std::int64_t holders = 0;
    std::list<PageId>::iterator idle;  ///< if it is not held
    const std::pair<const Key, Known>* known = nullptr;
  };
  static Key key_of(Contents before, const TokenRange& tokens, std::string_view scope);
  void forget(Page& page);

  std::vector<Page> pages_;
  std::list<PageId> idle_;  ///< in the order in which they are taken
  std::unordered_map<Key, Known, KeyHash> known_;
  Contents next_ = 1;
  std::int64_t cached_ = 0;
};

}  // namespace mortar
