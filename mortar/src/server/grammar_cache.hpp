// Grammars that were compiled lately, by what they were compiled from.
#pragma once
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "mortar/grammar.hpp"

namespace mortar::server {

/// Keeps the grammars that were used last, as many as fit. Their masks grow while they are used, which is seen with the
/// next request. Safe to use from several threads.
class GrammarCache {
 public:
  static constexpr std::size_t kGrammars = 64, kBytes = std::size_t{256} << 20;
  explicit GrammarCache(std::size_t bytes = kBytes) : limit_(bytes) {}

  /// The grammar of this key; `compile` is called if it is not kept, without a lock.
  std::shared_ptr<const Grammar> get(const std::string& key, const std::function<Grammar()>& compile);
  /// Of the grammars and their keys, now.
  std::size_t bytes() const;
  std::size_t size() const;

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const Grammar> grammar;
    std::size_t bytes() const { return sizeof(Entry) + key.size() + grammar->bytes(); }
  };
  std::shared_ptr<const Grammar> find(const std::string& key);
  std::size_t counted() const;
  void trim();

  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // the last used first
};

}  // namespace mortar::server
