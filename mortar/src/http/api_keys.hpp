// API keys, compared without a hint in the time that it takes.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "http.hpp"

namespace mortar {

class KeyRing {
 public:
  explicit KeyRing(const std::vector<ApiKey>& keys);
  bool empty() const { return entries_.empty(); }
  /// The name of the key; null if there is none. The time depends on the length of `key` alone.
  const std::string* find(std::string_view key) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Entry {
    std::string name;
    Digest digest;
  };
  std::vector<Entry> entries_;
};

/// The key of a request: "Authorization: Bearer KEY", or "x-api-key: KEY". A view of the headers; empty: none.
std::string_view key_of(const HttpHeaders& headers);

}  // namespace mortar
