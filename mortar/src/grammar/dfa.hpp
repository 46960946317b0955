// Deterministic automata over bytes, with a row of successors per state.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "grammar/nfa.hpp"

namespace mortar::grammar {

struct Dfa {
  static constexpr std::uint32_t kDead = 0xFFFFFFFF;

  std::array<std::uint8_t, 256> class_of{};  ///< bytes of one class lead to the same states everywhere
  std::uint32_t classes = 0;
  std::vector<std::uint32_t> next;  ///< [states, classes]; kDead where no match can follow
  std::vector<bool> accepts;        ///< by state: what was read so far is a match
  std::vector<bool> boundary;       ///< by state: whole code points were read

  std::uint32_t size() const { return static_cast<std::uint32_t>(accepts.size()); }
  std::uint32_t step(std::uint32_t state, std::uint8_t byte) const {
    return next[std::size_t{state} * classes + class_of[byte]];
  }
  std::size_t bytes() const { return next.size() * 4 + size() / 4; }
};

/// The texts that match `regex` as a whole, with the assertions ^ and $ at their places; state 0 is the start. Every
/// state leads to a match. Absent if there is no match.
std::optional<Dfa> make_dfa(const Regex& regex, Spelling spelling, Budget& budget);

/// `regex` anywhere within a text, as JSON schema's `pattern` has it.
Regex within_text(Regex regex);

/// All texts up to and including the first occurrence of `end`.
Dfa text_until(std::string_view end);
/// All texts in which `end` does not occur.
Dfa text_without(std::string_view end);

/// Which counts of code points are possible in which state of an automaton of strings.
class LengthTable {
 public:
  static constexpr std::uint32_t kUnbounded = 0xFFFFFFFF;
  /// Strings have `min` to `max` code points. Spends a step for each pair of state and count.
  LengthTable(const Dfa& dfa, std::uint32_t min, std::uint32_t max, Budget& budget);
  /// For an automaton that accepts strings of every length, at every boundary of a code point.
  LengthTable(std::uint32_t min, std::uint32_t max) : min_(min), max_(max), states_(0) {}
  std::uint32_t min() const { return min_; }
  std::uint32_t max() const { return max_; }
  /// The next count; without a maximum, counts above the minimum are all alike.
  std::uint32_t counted(std::uint32_t count) const {
    return max_ == kUnbounded && count >= min_ ? min_ : count == kUnbounded ? count : count + 1;
  }
  /// Whether a string of which `count` code points were begun can end in the bounds.
  bool viable(std::uint32_t state, std::uint32_t count) const {
    if (count > max_) return false;
    if (viable_.empty()) return true;
    return viable_[std::size_t{count} * states_ + state];
  }
  /// Whether any text with `min` to `max` code points will do.
  bool any_text() const { return viable_.empty(); }
  bool may_end(std::uint32_t count) const { return count >= min_ && count <= max_; }
  std::size_t bytes() const { return viable_.size() / 8; }

 private:
  std::uint32_t min_, max_, states_;
  std::vector<bool> viable_;  // [counts, states]
};

}  // namespace mortar::grammar
