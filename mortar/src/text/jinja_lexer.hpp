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
  Error,  ///< what follows cannot be read; the text says why. No token comes after it but End
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

/// Throws SyntaxError for what is not UTF-8. Other errors are tokens: those of the parser before them come first.
std::vector<Token> tokenize_template(std::string_view source);

}  // namespace mortar::text::jinja
