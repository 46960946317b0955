// A template as tokens. White space is handled as Hugging Face sets Jinja up: trim_blocks, lstrip_blocks.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mortar::text::jinja {

enum class TokenKind : std::uint8_t {
  Data,
  BlockBegin,
  BlockEnd,
  VariableBegin,
  VariableEnd,
  Name,
  String,
  Integer,
  Float,
  Operator,
  End
};

struct Token {
  TokenKind kind;
  std::string text;  ///< of a string: what it means; of data: what is printed
  int line;
};

/// A template that cannot be read.
struct SyntaxError {
  std::string message;
  int line;
};

/// Throws SyntaxError.
std::vector<Token> tokenize_template(std::string_view source);

}  // namespace mortar::text::jinja
