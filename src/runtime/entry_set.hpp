// A set of entries of one recording.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::runtime {

/// A set of entries of one recording.
class EntrySet {
 public:
  EntrySet() = default;
  explicit EntrySet(std::size_t entries) : words_((entries + 63) / 64) {}
  void add(std::size_t entry) { words_[entry / 64] |= std::uint64_t{1} << entry % 64; }
  bool contains(std::size_t entry) const { return (words_[entry / 64] >> entry % 64 & 1) != 0; }
  void unite(const EntrySet& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  void intersect(const EntrySet& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
  }

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace tessera::runtime
