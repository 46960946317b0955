// The tokenizer of a model: text to token ids and back, from a published tokenizer.json.
//
//   const mortar::Tokenizer tokenizer = mortar::Tokenizer::load("Qwen3-4B");
//   std::vector<mortar::TokenId> ids = tokenizer.encode("Hello world");    // 9707, 1879
//   std::string text = tokenizer.decode(ids);
//
// Results equal those of Hugging Face `tokenizers` for every text. Text that arrives token by token: text_stream.hpp.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mortar {

using TokenId = std::int32_t;

/// What becomes of the names of added tokens ("<|im_end|>", "<think>") in a text.
enum class AddedTokens : std::uint8_t {
  Parse,   ///< each is its token: for text that a chat template has rendered
  AsText,  ///< they are text like any other: for text of users, who then cannot forge the end of a message
};

class Tokenizer {
 public:
  /// Reads FOLDER/tokenizer.json. Throws ModelError with the field if the file is missing, damaged, or asks for
  /// something other than byte-level BPE as the Qwen2, Qwen3, Qwen3.5 and Llama 3 models have it.
  static Tokenizer load(const std::string& folder);
  /// The same from the text of such a file; `name` stands for it in messages.
  static Tokenizer parse(std::string_view json, const std::string& name = "tokenizer.json");

  /// Bytes that are not UTF-8 count as U+FFFD. Safe to call from several threads.
  std::vector<TokenId> encode(std::string_view text, AddedTokens added = AddedTokens::Parse) const;
  /// The ids that a model expects before a text that no chat template has rendered ("<|begin_of_text|>" of Llama 3;
  /// Qwen has none): what Hugging Face `tokenizers` adds as special tokens. encode() does not add them.
  const std::vector<TokenId>& beginning() const;
  /// beginning(), then encode(text, added).
  std::vector<TokenId> encode_document(std::string_view text, AddedTokens added = AddedTokens::Parse) const;
  /// The text of ids. Ids that are no token (the vocabulary of the weights is padded) are left out, special tokens too
  /// if `skip_special`. Bytes that are not UTF-8 become U+FFFD.
  std::string decode(std::span<const TokenId> ids, bool skip_special = false) const;

  /// The bytes of a token, which may be a part of a character; empty if there is no such token. Valid as long as a copy
  /// of the tokenizer exists.
  std::string_view bytes(TokenId id) const;
  /// A token that marks structure rather than text ("<|im_end|>", but neither "<think>" nor "<tool_call>").
  bool is_special(TokenId id) const;
  /// A token that stands for itself and not for its text: all special ones, and "<think>", "<tool_call>".
  bool is_added(TokenId id) const;
  /// The added token of this name, else the token of these bytes.
  std::optional<TokenId> find(std::string_view token) const;
  /// One more than the largest id.
  TokenId size() const;

  struct State;                                   ///< internal
  const State& state() const { return *state_; }  ///< internal

 private:
  explicit Tokenizer(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

}  // namespace mortar
