// Reads the text form of Tile IR that print() writes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/ir/operation.hpp"

namespace tessera::ir {

/// One thing that is wrong in a text.
struct TextProblem {
  std::uint32_t line = 1;    ///< from 1
  std::uint32_t column = 1;  ///< from 1, in bytes
  std::string message;       ///< "expected ..., found ...", or what the verifier says
};

/// What parse() throws: every problem that was found. Its message has a line `file:line:column: message` for each.
class ParseError : public CompileError {
 public:
  ParseError(const std::string& file, std::vector<TextProblem> problems);
  ~ParseError() override;
  const std::vector<TextProblem>& problems() const noexcept { return problems_; }

 private:
  std::vector<TextProblem> problems_;
};

struct ParseOptions {
  std::string file = "<text>";     ///< how messages name the text
  bool verify = true;              ///< false: the result may break Tile IR's rules (verifier.hpp)
  std::size_t most_problems = 20;  ///< the text is given up after so many; at least 1
};

/// Reads a module: globals, entries and functions in the form that print() writes, with or without locations. Names of
/// operations and types may have the dialect's prefix (`cuda_tile.addf`, `!cuda_tile.tile<f32>`), all of it may stand
/// in `module @name { ... }`, and comments run from `//` to the end of the line. print() of the result is the same text
/// again if print() wrote it.
///
/// The text is not trusted: memory and time are in proportion to its size, regions nest at most 200 deep, types have at
/// most 64 axes, texts at most 1 GiB. Throws ParseError with all problems that were found, those of the verifier last
/// (only for a text without others). Names of files in locations are kept for the life of the process.
std::unique_ptr<Module> parse(std::string_view text, const ParseOptions& options = {});

}  // namespace tessera::ir
