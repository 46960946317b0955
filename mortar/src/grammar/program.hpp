// A compiled grammar: instructions that read bytes, fork, and call rules.
//
// It is built backwards: what follows a piece is built first, and the piece gets the number of its first instruction.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/dfa.hpp"
#include "grammar/trie.hpp"

namespace mortar::grammar {

using Pc = std::uint32_t;

enum class Op : std::uint8_t {
  Text,       ///< reads text a
  Names,      ///< reads one of the texts of names a
  OtherName,  ///< reads a JSON string without escapes that is none of names a, up to its closing quote
  Dfa,        ///< reads a match of automaton a
  Counted,    ///< reads a match of automaton a with lengths b
  Body,       ///< reads a JSON string: a match of automaton a with lengths b, then the closing quote
  Token,      ///< reads one token, whose name is token a
  Split,      ///< goes on at each of the targets a to a + b
  Call,       ///< goes on with rule a, and after it at next
  Return,     ///< the end of a rule
  Item,       ///< counts an item of an array: with bounds a, goes on at next (the end) or at b (another item)
  Finish,     ///< the answer may end here
};

struct Instruction {
  Op op;
  std::uint32_t a = 0, b = 0;
  Pc next = 0;
};

struct Bounds {
  static constexpr std::uint32_t kUnbounded = 0xFFFFFFFF;
  std::uint32_t min = 0, max = kUnbounded;
};

struct Names {
  std::vector<std::string> texts;  ///< sorted
  Trie trie;
  std::vector<std::uint32_t> body;  ///< for OtherName, by node: the state of key_body() after its text
};

/// The two automata of strings that all grammars share; their numbers in every program.
const Dfa& free_body();  ///< any JSON string, with all escapes
const Dfa& key_body();   ///< any JSON string without escapes
inline constexpr std::uint32_t kFreeBody = 0, kKeyBody = 1, kSharedBodies = 2;

class Program {
 public:
  explicit Program(Budget& budget);  ///< `budget` is used up to finish()

  Pc text(std::string_view text, Pc next);
  Pc names(std::vector<std::string> texts, Pc next);  ///< at least one
  Pc other_name(const std::vector<std::string>& names, Pc next);
  Pc dfa(std::uint32_t number, Pc next) { return add({Op::Dfa, number, 0, next}); }
  Pc body(std::uint32_t number, LengthTable lengths, Pc next) {
    return with_lengths(Op::Body, number, std::move(lengths), next);
  }
  Pc counted(std::uint32_t number, LengthTable lengths, Pc next) {
    return with_lengths(Op::Counted, number, std::move(lengths), next);
  }
  Pc token(std::string_view name, Pc next);
  Pc split(std::vector<Pc> targets);
  Pc call(std::uint32_t rule, Pc next) { return add({Op::Call, rule, 0, next}); }
  Pc add(Instruction instruction);
  /// An instruction that jumps to where set_target() will say: the head of a loop.
  Pc forward();
  void set_target(Pc forward, Pc target);
  /// Adds what is kept once per program: by its key, made when it is first needed.
  template <class Make>
  std::uint32_t shared_dfa(const std::string& key, Make&& make) {
    const auto [at, is_new] = dfa_numbers_.try_emplace(key, static_cast<std::uint32_t>(dfas_.size()));
    if (is_new) dfas_.push_back(std::make_shared<const Dfa>(make()));
    return at->second;
  }
  std::uint32_t add_dfa(Dfa dfa);
  std::uint32_t add_bounds(Bounds bounds);
  std::uint32_t add_rule();  ///< without a beginning yet
  void set_rule(std::uint32_t rule, Pc begin) { rules_[rule] = begin; }
  /// Throws RequestError if a rule calls itself before it reads anything, or no answer is possible. `rule_names` are
  /// for messages.
  void finish(Pc root, const std::vector<std::string>& rule_names);

  const Instruction& at(Pc pc) const { return code_[pc]; }
  bool is_live(Pc pc) const { return live_[pc]; }  ///< whether an answer can be completed from here
  Pc target(std::uint32_t i) const { return targets_[i]; }
  Pc rule(std::uint32_t i) const { return rules_[i]; }
  const std::string& text_of(std::uint32_t i) const { return texts_[i]; }
  const Names& names_of(std::uint32_t i) const { return names_[i]; }
  const Dfa& dfa_of(std::uint32_t i) const { return *dfas_[i]; }
  const LengthTable& lengths_of(std::uint32_t i) const { return lengths_[i]; }
  const Bounds& bounds_of(std::uint32_t i) const { return bounds_[i]; }
  const std::vector<std::string>& token_names() const { return token_names_; }
  Pc root() const { return root_; }
  Pc root_after_newlines() const { return root_after_newlines_; }
  /// Whether the instruction may also go on without reading.
  bool may_be_empty(const Instruction& instruction) const;
  std::size_t bytes() const;

 private:
  Pc with_lengths(Op op, std::uint32_t number, LengthTable lengths, Pc next);
  void find_live();
  void reject_left_recursion(const std::vector<std::string>& rule_names) const;

  Budget* budget_;  // until finish()
  std::vector<Instruction> code_;
  std::vector<bool> live_;
  std::vector<Pc> targets_, rules_;
  std::vector<std::string> texts_, token_names_;
  std::vector<Names> names_;
  std::vector<std::shared_ptr<const Dfa>> dfas_;
  std::map<std::string, std::uint32_t> dfa_numbers_;
  std::vector<LengthTable> lengths_;
  std::vector<Bounds> bounds_;
  Pc root_ = 0, root_after_newlines_ = 0;
};

}  // namespace mortar::grammar
