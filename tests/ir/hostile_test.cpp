// Damaged text and bytecode: whatever is done to a program, it is rejected with an error, or read as a module that is
// valid and a fixed point. (tests/fuzz does it with coverage; what it finds is among its seeds.)
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "base/rounds.hpp"
#include "ir/case_reader.hpp"
#include "ir/fixed_point.hpp"

namespace tessera::ir {
namespace THIS_FILE {

/// Random edits of a program: bits, pieces, numbers, brackets.
class Damage {
 public:
  explicit Damage(std::vector<std::string> programs) : programs_(std::move(programs)) {}

  std::string next() {
    std::string text = programs_[below(programs_.size())];
    for (std::size_t edits = 1 + below(3); edits != 0; --edits) edit(text);
    return text;
  }

 private:
  std::size_t below(std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(random_() % n); }

  void edit(std::string& text) {
    static const char* const kPieces[] = {"18446744073709551615",
                                          "9223372036854775807",
                                          "-9223372036854775808",
                                          "16777216x",
                                          "0x7FFFFFFFFFFFFFFF",
                                          "{",
                                          "}",
                                          "<",
                                          ">",
                                          "[",
                                          "(",
                                          ")",
                                          "\"",
                                          "%",
                                          "@",
                                          "tile<",
                                          "token",
                                          "ptr<",
                                          "loc(",
                                          "//",
                                          ":99",
                                          "#9",
                                          "\x7F",
                                          "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
                                          "\xFF\xFF\xFF\xFF\x0F"};
    const std::size_t at = below(text.size() + 1),
                      length = std::min(text.size() - at, 1 + below(below(2) == 0 ? 4 : 200));
    switch (below(9)) {
      case 0: flip(text, at, static_cast<char>(1 << below(8))); break;
      case 1: flip(text, at, static_cast<char>(random_())); break;
      case 2: text.erase(at, length); break;
      case 3: text.insert(below(text.size() + 1), text.substr(at, length)); break;
      case 4: text.replace(at, length, programs_[below(programs_.size())].substr(0, length)); break;
      case 5: text.insert(at, kPieces[below(std::size(kPieces))]); break;
      case 6: text.resize(at); break;
      case 7: repeat(text, at, length); break;
      default: number(text, at); break;
    }
  }

  static void flip(std::string& text, std::size_t at, char bits) {
    if (at < text.size()) text[at] = static_cast<char>(text[at] ^ bits);
  }
  void repeat(std::string& text, std::size_t at, std::size_t length) {
    std::string many;
    for (std::size_t n = below(300); n != 0; --n) many += text.substr(at, std::min<std::size_t>(length, 8));
    text.insert(at, many);
  }
  /// Another number in place of the next one.
  void number(std::string& text, std::size_t at) {
    const std::size_t first = text.find_first_of("0123456789", at);
    if (first == std::string::npos) return;
    const std::size_t end = std::min(text.find_first_not_of("0123456789", first), text.size());
    text.replace(first, end - first, std::to_string(random_() >> below(64)));
  }

  std::vector<std::string> programs_;
  std::mt19937_64 random_{20261130};
};

std::vector<std::unique_ptr<Module>> golden_modules() {
  std::vector<std::unique_ptr<Module>> modules;
  std::ifstream in(TESSERA_TEST_DATA "/ir/golden/cases.txt");
  for (const auto& [name, lines] : testing::read_cases(in)) modules.push_back(testing::CaseReader::read(lines));
  return modules;
}

struct Counts {
  std::size_t read = 0, rejected = 0;
};

/// `read` gives a module or throws a CompileError; nothing else may happen.
template <class Read>
void survive(const std::string& input, Read read, Counts& counts) {
  std::unique_ptr<Module> module;
  try {
    module = read(input, true);
  } catch (const CompileError& error) {
    EXPECT_FALSE(error.message().empty());
    ++counts.rejected;
  }
  if (module) {
    ++counts.read;
    EXPECT_EQ(testing::text_problem(*module), "") << input;
    EXPECT_EQ(testing::bytecode_problem(*module), "") << input;
    return;
  }
  try {
    module = read(input, false);
  } catch (const CompileError&) { return; }
  EXPECT_FALSE(verify(*module).empty()) << input;  // and the verifier survives it
}

/// Memory is not reserved by a number that stands in a text.
TEST(Hostile, ManyResultsAreRejectedBeforeTheyAreMade) {
  const auto text = [](const char* results) {
    return std::string(
               "entry @f(%p: tile<ptr<f32>>) {\n"
               "  %v = make_tensor_view %p, shape = [8], strides = [1] : tensor_view<8xf32, strides=[1]>\n  ") +
           results + " = get_tensor_shape %v : tensor_view<8xf32, strides=[1]> -> tile<i64>\n  return\n}\n";
  };
  EXPECT_NO_THROW((void)parse(text("%a")));
  try {
    (void)parse(text("%a:4294967295"));
    FAIL() << "expected a ParseError";
  } catch (const ParseError& error) {
    EXPECT_NE(std::string(error.what()).find("at most 64 results"), std::string::npos) << error.what();
  }
}

TEST(Hostile, DamagedTextIsRejectedOrRead) {
  std::vector<std::string> programs;
  for (const auto& module : golden_modules()) {
    programs.push_back(print(*module));
    programs.push_back(print(*module, {true}));
  }
  Damage damage(std::move(programs));
  Counts counts;
  const std::uint64_t rounds = test::rounds(10000);
  for (std::uint64_t i = 0; i < rounds && !::testing::Test::HasFailure(); ++i)
    survive(
        damage.next(), [](const std::string& text, bool verify) { return parse(text, {.verify = verify}); }, counts);
  EXPECT_GT(counts.read, rounds / 50);
  EXPECT_GT(counts.rejected, rounds / 2);
}

TEST(Hostile, DamagedBytecodeIsRejectedOrRead) {
  std::vector<std::string> programs;
  for (const auto& module : golden_modules())
    for (std::uint8_t minor = required_version(*module).minor; minor <= 4; ++minor) {
      const auto bytes = write_bytecode(*module, {{13, minor}, true});
      programs.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
  Damage damage(std::move(programs));
  Counts counts;
  const std::uint64_t rounds = test::rounds(20000);
  for (std::uint64_t i = 0; i < rounds && !::testing::Test::HasFailure(); ++i) {
    const std::string bytes = damage.next();
    survive(
        bytes,
        [](const std::string& input, bool verify) {
          return read_bytecode(std::as_bytes(std::span(input.data(), input.size())), {.verify = verify}).module;
        },
        counts);
  }
  EXPECT_GT(counts.read, rounds / 50);
  EXPECT_GT(counts.rejected, rounds / 2);
}

}  // namespace THIS_FILE
}  // namespace tessera::ir
