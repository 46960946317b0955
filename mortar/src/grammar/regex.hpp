// Regular expressions: the part of ECMA-262's syntax that describes a regular language.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "grammar/budget.hpp"
#include "grammar/char_set.hpp"

namespace mortar::grammar {

struct Regex {
  enum class Kind : std::uint8_t {
    Chars,         ///< one code point of `chars`
    Sequence,      ///< all parts, one after the other; without parts: the empty text
    Alternatives,  ///< one of the parts
    Repeat,        ///< the only part, `min` to `max` times
    Begin,         ///< ^: the beginning of the text
    End,           ///< $: its end
  };
  static constexpr std::uint32_t kUnbounded = 0xFFFFFFFF;

  Kind kind = Kind::Sequence;
  CharSet chars = {};
  std::vector<Regex> parts = {};
  std::uint32_t min = 0, max = 0;
};

/// Throws RequestError: `name`, the offset in the expression, and what is malformed or not supported there.
Regex parse_regex(std::string_view expression, std::string_view name, Budget& budget);

/// The matches in which the characters do not occur.
Regex without_chars(Regex regex, const CharSet& chars);

/// The text itself.
Regex regex_of_text(std::string_view text);

}  // namespace mortar::grammar
