// Sets of code points, as classes of regular expressions have them.
#pragma once
#include <string_view>
#include <vector>

namespace mortar::grammar {

struct CharRange {
  char32_t first, last;  ///< both included
  bool operator==(const CharRange&) const = default;
};

/// Sorted ranges that neither overlap nor touch. Surrogates are never members.
class CharSet {
 public:
  CharSet() = default;
  CharSet(char32_t first, char32_t last) { add(first, last); }

  static CharSet all() { return {0, 0x10FFFF}; }
  static CharSet digits() { return {'0', '9'}; }
  static CharSet word();   ///< [A-Za-z0-9_]
  static CharSet space();  ///< white space and line ends of ECMA-262
  /// \p{L}, \p{M}, \p{N}, or an empty set for any other name.
  static CharSet unicode(std::string_view name);

  void add(char32_t first, char32_t last);
  void add(const CharSet& other);
  CharSet inverted() const;
  CharSet without(const CharSet& other) const;
  bool has(char32_t c) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<CharRange>& ranges() const { return ranges_; }

 private:
  void insert(char32_t first, char32_t last);
  std::vector<CharRange> ranges_;
};

}  // namespace mortar::grammar
