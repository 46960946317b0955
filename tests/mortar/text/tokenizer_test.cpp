// Tokens as Hugging Face tokenizers makes them, and an error or its accepted twin for every field of the file.
#include "mortar/tokenizer.hpp"

#include <gtest/gtest.h>

#include <string>

#include <vector>

#include <optional>

#include <algorithm>

#include <nlohmann/json.hpp>
#include <thread>

#include "mortar/errors.hpp"
#include "text/read_text.hpp"

namespace mortar {
namespace THIS_FILE {

using nlohmann::ordered_json;

const std::string kFolder = MORTAR_TEST_DATA "/small_tokenizer";
const std::string& small_json() {
  static const std::string text = text::read_text(kFolder + "/tokenizer.json");
  return text;
}
const Tokenizer& small() {
  static const Tokenizer tokenizer = Tokenizer::load(kFolder);
  return tokenizer;
}
using Ids = std::vector<TokenId>;

// What Hugging Face tokenizers makes of these texts (scripts/mortar/small_tokenizer.py).
TEST(MortarTokenizer, EqualsHuggingFace) {
  const auto cases = ordered_json::parse(text::read_text(kFolder + "/cases.json"));
  ASSERT_GT(cases.size(), 150u);
  for (const auto& c : cases) EXPECT_EQ(small().encode(c["text"].get<std::string>()), c["ids"].get<Ids>()) << c["text"];
}

const std::string kLlama = MORTAR_TEST_DATA "/models/llama-tied";

// Up to three digits are a piece, pieces that are tokens are not divided, and a token begins each text
// (scripts/mortar/make_test_models.py).
TEST(MortarTokenizer, LlamaEqualsHuggingFace) {
  const Tokenizer llama = Tokenizer::load(kLlama);
  const auto cases = ordered_json::parse(text::read_text(kLlama + "/golden/tokens.json"));
  ASSERT_GE(cases.size(), 15u);
  for (const auto& c : cases)
    EXPECT_EQ(llama.encode_document(c["text"].get<std::string>()), c["ids"].get<Ids>()) << c["text"];
  const TokenId begin = llama.find("<|begin_of_text|>").value();
  EXPECT_EQ(llama.beginning(), Ids{begin});
  EXPECT_EQ(llama.encode("xyzzy"), Ids{llama.find("xyzzy").value()}) << "no merges lead to it";
  EXPECT_EQ(llama.encode("<|begin_of_text|>"), Ids{begin}) << "encode() adds nothing";
  EXPECT_TRUE(small().beginning().empty());
  EXPECT_EQ(small().encode_document("Hello world"), small().encode("Hello world"));
}

TEST(MortarTokenizer, TemplatesOfTextsAreChecked) {
  const auto expect = [](const char* pointer, const char* value, const char* message) {
    auto json = ordered_json::parse(text::read_text(kLlama + "/tokenizer.json"));
    json[ordered_json::json_pointer(pointer)] = ordered_json::parse(value);
    std::string found;
    try {
      (void)Tokenizer::parse(json.dump(), "F");
    } catch (const ModelError& e) { found = e.message(); }
    if (*message == '\0')
      EXPECT_EQ(found, "") << pointer;
    else
      EXPECT_NE(found.find(message), found.npos) << pointer << ": " << found;
  };
  const std::string part = "/post_processor/processors/1";
  expect((part + "/single/0/SpecialToken/type_id").c_str(), "1", "");
  expect((part + "/single").c_str(), R"([{"Sequence": {"id": "A", "type_id": 0}}])", "");
  expect((part + "/single").c_str(), "[]", "post_processor.processors[1].single: expected tokens and the sequence");
  expect((part + "/single").c_str(), R"([{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "<|begin_of_text|>"}}])",
         "expected tokens before the text alone, found one behind it");
  expect((part + "/single/1/Sequence/id").c_str(), "\"B\"", "expected \"A\"");
  expect((part + "/special_tokens").c_str(), "{}", "special_tokens: expected the ids of \"<|begin_of_text|>\"");
  expect((part + "/special_tokens/<|begin_of_text|>/ids/0").c_str(), "100000",
         "post_processor: expected ids of tokens, found 100000");
  expect((part + "/type").c_str(), "\"BertProcessing\"", "post_processor.processors[1].type");
}

TEST(MortarTokenizer, FindsAddedTokensOnlyWhereAsked) {
  const TokenId end = small().find("<|im_end|>").value();
  EXPECT_EQ(small().encode("<|im_end|>"), Ids{end});
  const Ids text = small().encode("<|im_end|>", AddedTokens::AsText);
  EXPECT_GT(text.size(), 1u);
  EXPECT_EQ(std::count(text.begin(), text.end(), end), 0);
  EXPECT_EQ(small().decode(text), "<|im_end|>");
}

TEST(MortarTokenizer, DecodesWhatItEncodes) {
  for (const std::string text :
       {"", "Hello  world\n", "\xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\x98\x80", "<think>\nx</think>y<|im_end|>"})
    EXPECT_EQ(small().decode(small().encode(text)), text);
  Ids ids = small().encode("a<|im_end|><think>b");
  ids.insert(ids.begin() + 1, {-1, small().size(), 1 << 30});  // no tokens: left out
  EXPECT_EQ(small().decode(ids), "a<|im_end|><think>b");
  EXPECT_EQ(small().decode(ids, true), "a<think>b");
  const Ids half = {small().find("\xE4").value(), small().find("a").value()};
  EXPECT_EQ(small().decode(half),
            "\xEF\xBF\xBD"
            "a");
}

TEST(MortarTokenizer, KnowsItsTokens) {
  EXPECT_EQ(small().bytes(small().find("<think>").value()), "<think>");
  EXPECT_TRUE(small().is_special(small().find("<|im_start|>").value()));
  EXPECT_FALSE(small().is_special(small().find("<think>").value()));
  EXPECT_FALSE(small().is_special(-5));
  EXPECT_EQ(small().bytes(small().size()), "");
  EXPECT_EQ(small().find("no such token"), std::nullopt);
  EXPECT_EQ(small().find("\x80"), small().encode("\xE4\x80\x80").back());
}

TEST(MortarTokenizer, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(small().encode("a\xFFz"), small().encode("a\xEF\xBF\xBDz"));
  EXPECT_EQ(small().encode("\xE2\x82"), small().encode("\xEF\xBF\xBD"));
}

// Quadratic time would be an hour for the longest.
TEST(MortarTokenizer, TakesLongPieces) {
  for (const std::size_t n : {10'000u, 1'000'000u}) {
    std::string text(n, 'e');
    for (std::size_t i = 1; i < n; i += 2) text[i] = 'r';
    const Ids ids = small().encode(text);
    EXPECT_EQ(small().decode(ids), text);
    EXPECT_EQ(ids.size(), n / 2 + 1);  // "re" comes before "er": an e is left at one end, an r at the other
  }
  const std::string marks = [] {
    std::string s = "a";
    for (int i = 0; i < 200'000; ++i) s += i % 2 != 0 ? "\xCC\x81" : "\xCC\xA3";  // U+0301, U+0323: to be ordered
    return s;
  }();
  EXPECT_EQ(small().decode(small().encode(marks)).substr(0, 3), "\xE1\xBA\xA1");  // U+1EA1
}

TEST(MortarTokenizer, IsSharedByThreads) {
  const Tokenizer tokenizer = Tokenizer::load(kFolder);
  const std::string text = text::read_text(kFolder + "/cases.json");
  const Ids expected = small().encode(text);
  std::vector<Ids> found(4);
  std::vector<std::thread> threads;
  for (Ids& ids : found) threads.emplace_back([&] { ids = tokenizer.encode(text); });
  for (std::thread& t : threads) t.join();
  for (const Ids& ids : found) EXPECT_EQ(ids, expected);
}

// Files that differ from the small one in one place.
struct Edit {
  const char* pointer;  // JSON pointer
  const char* value;    // JSON; null: the field is removed
  const char* message;  // null: accepted
};
void PrintTo(const Edit& e, std::ostream* out) {
  *out << e.pointer << " = " << (e.value != nullptr ? e.value : "removed");
}

class MortarTokenizerFile : public testing::TestWithParam<Edit> {};

TEST_P(MortarTokenizerFile, IsCheckedInEveryField) {
  auto json = ordered_json::parse(small_json());
  const ordered_json::json_pointer pointer(GetParam().pointer);
  if (GetParam().value == nullptr)
    json[pointer.parent_pointer()].erase(pointer.back());
  else
    json[pointer] = ordered_json::parse(GetParam().value);
  std::string message;
  try {
    (void)Tokenizer::parse(json.dump(), "F").encode("Hello world");
  } catch (const ModelError& e) { message = e.message(); }
  if (GetParam().message == nullptr)
    EXPECT_EQ(message, "");
  else
    EXPECT_NE(message.find(GetParam().message), message.npos) << message;
}

INSTANTIATE_TEST_SUITE_P(
    , MortarTokenizerFile,
    testing::Values(
        Edit{"/version", "\"2.0\"", "F: version: expected \"1.0\", found \"2.0\""},
        Edit{"/version", "\"1.0\"", nullptr}, Edit{"/truncation", "{\"max_length\": 5}", nullptr},
        Edit{"/padding", "{\"strategy\": \"BatchLongest\", \"direction\": \"Left\"}", nullptr},
        Edit{"/model/type", "\"WordPiece\"", "model.type: expected \"BPE\", found \"WordPiece\""},
        Edit{"/model/dropout", "0.1", "model.dropout: expected null"},
        Edit{"/model/unk_token", "\"a\"", "model.unk_token: expected null"},
        Edit{"/model/byte_fallback", "true", "model.byte_fallback: expected false"},
        Edit{"/model/continuing_subword_prefix", "\"##\"", "model.continuing_subword_prefix: expected \"\""},
        Edit{"/model/continuing_subword_prefix", "null", nullptr}, Edit{"/model/end_of_word_suffix", nullptr, nullptr},
        Edit{"/model/ignore_merges", "true", nullptr},
        Edit{"/model/ignore_merges", "1", "model.ignore_merges: expected true or false, found 1"},
        Edit{"/model/later", "1", "model.later: expected no such field"},
        Edit{"/later", "1", "later: expected no such field"},
        Edit{"/model/vocab/a", "4000000000", "model.vocab.a: expected a whole number"},
        Edit{"/model/vocab/a", "-1", "model.vocab.a: expected"},
        Edit{"/model/vocab/a", "1.5", "model.vocab.a: expected a whole number"},
        Edit{"/model/vocab/a", "0", "expected an id of its own"}, Edit{"/model/vocab/a", nullptr, "model.merges["},
        Edit{"/model/vocab/a b", "90000", "byte-level alphabet"}, Edit{"/model/vocab/zzzz", "90000", nullptr},
        Edit{"/model/vocab", "{}", "model.vocab: expected an object with the tokens"},
        Edit{"/model/vocab/\xC5\x83", nullptr, "model.vocab: expected a token for each of the 256 bytes"},
        Edit{"/model/merges/3", "[\"a\"]", "model.merges[3]: expected two tokens, found 1"},
        Edit{"/model/merges/3", "[\"a\", \"b\", \"c\"]", "model.merges[3]"},
        Edit{"/model/merges/3", "\"a b c\"", "one space between"}, Edit{"/model/merges/3", "\"e r\"", nullptr},
        Edit{"/model/merges/3", "[\"q\", \"\\u0120\"]", "a token of model.vocab"},
        Edit{"/model/merges/3", "7", "model.merges[3]: expected a string, found 7"},
        Edit{"/model/merges", "[]", nullptr}, Edit{"/model/merges", nullptr, "model.merges: expected an array"},
        Edit{"/model", nullptr, "model: expected an object"}, Edit{"/normalizer", "null", nullptr},
        Edit{"/normalizer/type", "\"NFKC\"", "normalizer.type: expected \"NFC\", found \"NFKC\""},
        Edit{"/pre_tokenizer/type", "\"Whitespace\"", "pre_tokenizer.type: expected \"Sequence\""},
        Edit{"/pre_tokenizer/pretokenizers", "[]", "pre_tokenizer: expected a sequence of Split and ByteLevel"},
        Edit{"/pre_tokenizer/pretokenizers/0/pattern/Regex", "\"\\\\s+\"",
             "pattern.Regex: expected the expression of Qwen2 and Qwen3, of Qwen3.5 or of Llama 3"},
        Edit{"/pre_tokenizer/pretokenizers/0/pattern", "{\"String\": \" \"}", "pattern.String: expected no such field"},
        Edit{"/pre_tokenizer/pretokenizers/0/behavior", "\"Removed\"", "behavior: expected \"Isolated\""},
        Edit{"/pre_tokenizer/pretokenizers/0/invert", "true", "invert: expected false"},
        Edit{"/pre_tokenizer/pretokenizers/1/add_prefix_space", "true", "add_prefix_space: expected false"},
        Edit{"/pre_tokenizer/pretokenizers/1/use_regex", "true", "use_regex: expected false"},
        Edit{"/pre_tokenizer/pretokenizers/1/trim_offsets", "true", nullptr}, Edit{"/post_processor", "null", nullptr},
        Edit{"/post_processor/type", "\"TemplateProcessing\"",
             "post_processor.single: expected tokens and the sequence"},
        Edit{"/post_processor/type", "\"RobertaProcessing\"", "post_processor.type: expected \"ByteLevel\""},
        Edit{"/decoder", "null", "decoder: expected an object"},
        Edit{"/decoder", nullptr, "decoder: expected an object of type ByteLevel"},
        Edit{"/added_tokens/0/lstrip", "true", "added_tokens[0].lstrip: expected false"},
        Edit{"/added_tokens/0/single_word", "true", "added_tokens[0].single_word: expected false"},
        Edit{"/added_tokens/0/normalized", "true", nullptr},
        Edit{"/added_tokens/0/content", "\"\"", "added_tokens[0].content: expected a text"},
        Edit{"/added_tokens/0/id", "5", "added_tokens[0]: expected an id of its own"},
        Edit{"/added_tokens/0/id", nullptr, "added_tokens[0].id: expected"}, Edit{"/added_tokens", "[]", nullptr}));

TEST(MortarTokenizerText, NamesThePlaceOfSyntaxErrors) {
  const auto message = [](std::string_view json) {
    try {
      (void)Tokenizer::parse(json, "F");
    } catch (const ModelError& e) { return e.message(); }
    return std::string("accepted");
  };
  EXPECT_EQ(message(""), "F: line 1, offset 0: expected a value, found the end of the text");
  EXPECT_EQ(message("{\n\"version\": \"1.0\" \"x\"}"), "F: line 2, offset 19: expected ',' or '}', found '\"x\"}'");
  EXPECT_EQ(
      message("{\"model\": {\"vocab\": {\"\\ud800\": 1}}}"),
      "F: line 1, offset 27, field model.vocab: expected a whole surrogate pair, not one half, found '0\": 1}}}'");
  EXPECT_EQ(message("[]"), "F: expected an object, found an array");
  EXPECT_EQ(message("\xFF"), "F: expected UTF-8, found the byte 255 at offset 0");
  EXPECT_NE(message(std::string(200, '[').insert(0, "{\"model\": {\"merges\": "))
                .find("at most 100 values within each other"),
            std::string::npos);
  EXPECT_NE(message(small_json() + "x").find("expected the end of the text, found 'x'"), std::string::npos);
  EXPECT_EQ(message(small_json()), "accepted");
}

TEST(MortarTokenizerText, TheOrderOfFieldsDoesNotMatter) {
  auto json = ordered_json::parse(small_json());
  const ordered_json vocabulary = json["model"]["vocab"];
  json["model"].erase("vocab");
  json["model"]["vocab"] = vocabulary;  // after the merges
  EXPECT_EQ(Tokenizer::parse(json.dump()).encode("Hello world"), small().encode("Hello world"));
}

TEST(MortarTokenizerText, AMissingFileIsNamed) {
  try {
    (void)Tokenizer::load("/no/such/folder");
    FAIL();
  } catch (const ModelError& e) {
    EXPECT_NE(e.message().find("/no/such/folder/tokenizer.json: expected a file, found none"), std::string::npos)
        << e.message();
  }
}

}  // namespace THIS_FILE
}  // namespace mortar
