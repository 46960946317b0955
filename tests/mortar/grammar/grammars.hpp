// Shared by the tests of structured answers: the small vocabulary, texts cut into random tokens, masks by brute force.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "mortar/errors.hpp"
#include "mortar/grammar.hpp"
#include "mortar/tokenizer.hpp"

namespace mortar::grammar {

using Random = std::mt19937;

inline const Tokenizer& small_tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::load(std::string(MORTAR_TEST_DATA) + "/small_tokenizer");
  return tokenizer;
}

inline const std::shared_ptr<const Vocabulary>& small_vocabulary() {
  static const auto vocabulary = std::make_shared<const Vocabulary>(small_tokenizer());
  return vocabulary;
}

inline TokenId id_of(std::string_view name) { return small_tokenizer().find(name).value(); }
inline TokenId end_of_answer() { return id_of("<|im_end|>"); }

using Mask = std::vector<std::uint32_t>;

inline Mask mask_of(TokenConstraint& constraint) {
  Mask mask((static_cast<std::size_t>(small_tokenizer().size()) + 31) / 32, 0xDEADBEEF);
  constraint.fill_mask(mask);
  return mask;
}

inline bool has(const Mask& mask, TokenId id) {
  return (mask[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1) != 0;
}

/// What accept() allows, token by token: it reads bytes and knows neither slices nor caches.
inline Mask mask_by_trial(const TokenConstraint& constraint) {
  Mask mask((static_cast<std::size_t>(small_tokenizer().size()) + 31) / 32, 0);
  auto trial = constraint.clone();
  for (TokenId id = 0; id < small_tokenizer().size(); ++id) {
    if (!trial->accept(id)) continue;
    mask[static_cast<std::size_t>(id) / 32] |= 1U << (id % 32);
    trial = constraint.clone();
  }
  return mask;
}

inline std::vector<TokenId> ids_of(const Mask& mask) {
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < small_tokenizer().size(); ++id) {
    if (has(mask, id)) ids.push_back(id);
  }
  return ids;
}

inline std::shared_ptr<const Grammar> shared(Grammar grammar) {
  return std::make_shared<const Grammar>(std::move(grammar));
}

inline std::unique_ptr<TokenConstraint> constrained(const std::shared_ptr<const Grammar>& grammar) {
  return constrain(grammar, small_vocabulary(), {.eos = {end_of_answer()}});
}

/// A token that the text begins with, chosen at random.
inline TokenId random_token(std::string_view text, Random& random) {
  static const std::vector<std::vector<TokenId>> by_first_byte = [] {
    std::vector<std::vector<TokenId>> ids(256);
    for (TokenId id = 0; id < small_tokenizer().size(); ++id) {
      const std::string_view bytes = small_tokenizer().bytes(id);
      if (!bytes.empty() && !small_tokenizer().is_added(id)) ids[static_cast<unsigned char>(bytes[0])].push_back(id);
    }
    return ids;
  }();
  std::vector<TokenId> fitting;
  for (const TokenId id : by_first_byte[static_cast<unsigned char>(text[0])]) {
    const std::string_view bytes = small_tokenizer().bytes(id);
    if (text.substr(0, bytes.size()) == bytes) fitting.push_back(id);
  }
  return fitting[random() % fitting.size()];
}

/// Feeds the text in random tokens; each must be in the mask exactly if it is accepted. Returns how many bytes were
/// accepted.
inline std::size_t feed(TokenConstraint& constraint, std::string_view text, Random& random) {
  std::size_t at = 0;
  while (at < text.size()) {
    const TokenId id = random_token(text.substr(at), random);
    const bool allowed = has(mask_of(constraint), id);
    const bool accepted = constraint.accept(id);
    EXPECT_EQ(allowed, accepted) << text << " at " << at;
    if (!accepted) return at;
    at += small_tokenizer().bytes(id).size();
  }
  return at;
}

/// Whether the grammar accepts the whole text, cut into random tokens.
inline bool matches(const std::shared_ptr<const Grammar>& grammar, std::string_view text, Random& random) {
  const auto constraint = constrained(grammar);
  return feed(*constraint, text, random) == text.size() && constraint->accept(end_of_answer());
}

inline bool matches(const std::shared_ptr<const Grammar>& grammar, std::string_view text) {
  Random random(static_cast<std::uint32_t>(text.size()));
  return matches(grammar, text, random);
}

/// The message of the RequestError that `make` throws.
template <class Make>
std::string error_of(Make&& make) {
  try {
    (void)make();
  } catch (const RequestError& e) { return e.what(); }
  return "no error";
}

inline std::string schema_error(std::string_view schema, const GrammarLimits& limits = {}) {
  return error_of([&] { return Grammar::from_json_schema(schema, limits); });
}

}  // namespace mortar::grammar
