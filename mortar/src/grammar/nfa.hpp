// Regular expressions as automata over bytes, not yet deterministic.
#pragma once
#include <cstdint>
#include <vector>

#include "grammar/regex.hpp"

namespace mortar::grammar {

/// How a code point of the expression is written in the answer.
enum class Spelling : std::uint8_t {
  Raw,   ///< as UTF-8
  Json,  ///< as within a JSON string: UTF-8, and the shortest escape where JSON demands one
};

struct NfaState {
  enum class Kind : std::uint8_t { Bytes, Split, Begin, End, Accept };
  Kind kind;
  std::uint8_t low = 0, high = 0;  ///< Bytes: the range that leads to `next`
  bool inside = false;             ///< Bytes: between the bytes of one code point
  std::uint32_t next = 0, other = 0;
};

/// Built backwards: each piece is added in front of what follows it.
class Nfa {
 public:
  Nfa(Spelling spelling, Budget& budget) : spelling_(spelling), budget_(budget) { add({NfaState::Kind::Accept}); }

  static constexpr std::uint32_t kAccept = 0;
  /// The state from which `regex` and then `next` are matched.
  std::uint32_t emit(const Regex& regex, std::uint32_t next);
  const std::vector<NfaState>& states() const { return states_; }

 private:
  std::uint32_t add(const NfaState& state);
  std::uint32_t split(std::uint32_t a, std::uint32_t b);
  std::uint32_t repeat(const Regex& regex, std::uint32_t next);
  std::uint32_t chars(const CharSet& set, std::uint32_t next);
  std::uint32_t escapes(const CharSet& set, std::uint32_t next);
  void utf8(char32_t first, char32_t last, std::uint32_t next, std::vector<std::uint32_t>& starts);
  std::uint32_t any_of(const std::vector<std::uint32_t>& starts);

  Spelling spelling_;
  Budget& budget_;
  std::vector<NfaState> states_;
};

}  // namespace mortar::grammar
