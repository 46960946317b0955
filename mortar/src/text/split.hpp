// The regular expressions by which published tokenizers divide text into pieces, as a scanner written by hand.
#pragma once
#include <string_view>

namespace mortar::text {

/// What a published expression differs in.
struct SplitRules {
  const char* pattern;
  bool marks_are_letters;
  int digits;  ///< of a piece at most
};

/// Qwen2, Qwen2.5 and Qwen3; Qwen3.5; Llama 3.
inline constexpr SplitRules kSplitRules[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     false, 1},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     true, 1},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     false, 3},
};

/// The end of the first piece of a text that is not empty and valid UTF-8.
const char* end_of_piece(const char* begin, const char* end, const SplitRules& rules);

}  // namespace mortar::text
