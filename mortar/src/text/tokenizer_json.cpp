// tokenizer.json: every field is either what the tokenizers of Qwen and Llama 3 have, or an error that names it.
#include <map>
#include <optional>
#include <utility>

#include "tessera/base/format.hpp"
#include "text/json_reader.hpp"
#include "text/tokenizer_state.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace mortar::text {
namespace {

using Kind = JsonReader::Kind;

/// Byte-level BPE writes bytes as characters (GPT-2): printable Latin-1 as it is, the other 68 as U+0100 and on.
struct Alphabet {
  static constexpr char32_t kEnd = 0x100 + 68;
  short byte_of[kEnd];  // -1: no byte
  Alphabet() {
    std::fill(std::begin(byte_of), std::end(byte_of), short{-1});
    char32_t next = 0x100;
    for (short b = 0; b < 256; ++b) {
      const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      byte_of[printable ? static_cast<char32_t>(b) : next++] = b;
    }
  }
  /// False if a character stands for no byte.
  bool decode(std::string_view token, std::string& bytes) const {
    bytes.clear();
    for (std::size_t at = 0; at < token.size();) {
      const Utf8Unit unit = decode_valid(token.data() + at);
      if (unit.code_point >= kEnd || byte_of[unit.code_point] < 0) return false;
      bytes.push_back(static_cast<char>(byte_of[unit.code_point]));
      at += unit.bytes;
    }
    return true;
  }
};

class Loader {
 public:
  Loader(std::string_view json, const std::string& name, Tokenizer::State& state)
      : name_(name), json_bytes_(json.size()), reader_(json, name), state_(state) {}

  void load() {
    reader_.object([&](std::string_view field) {
      if (field == "version")
        expect_text("1.0");
      else if (field == "truncation" || field == "padding")
        reader_.skip();  // of those who ask for it: nothing here is truncated or padded
      else if (field == "added_tokens")
        reader_.array([&] { added_token(); });
      else if (field == "normalizer")
        normalizer();
      else if (field == "pre_tokenizer")
        pre_tokenizer();
      else if (field == "post_processor")
        post_processor();
      else if (field == "decoder")
        decoder();
      else if (field == "model")
        model();
      else
        unknown_field();
    });
    reader_.end();
    if (!has_decoder_) missing("decoder", "an object of type ByteLevel");
    if (!has_model_) missing("model", "an object");
    if (state_.rules == nullptr || !has_byte_level_) missing("pre_tokenizer", "a sequence of Split and ByteLevel");
    finish_merges();
    for (const Added& token : added_) add(token);
    for (const TokenId id : state_.beginning) {
      if (!state_.vocabulary.has(id) && !state_.added.has(id))
        missing("post_processor", "ids of tokens", tessera::concat(id));
    }
  }

 private:
  struct Added {
    TokenId id = -1;
    std::string content;
    bool normalized = false, special = false;
    std::string path;
  };

  void expect_text(std::string_view expected) {
    if (reader_.peek() != Kind::String) reader_.wrong(quoted(expected));
    if (const std::string_view found = reader_.string(); found != expected)
      reader_.wrong(quoted(expected), quoted(found));
  }
  void expect_null() {
    if (reader_.peek() != Kind::Null) reader_.wrong("null (nothing else is supported)");
    reader_.null();
  }
  void expect_null_or_empty() {
    if (reader_.peek() == Kind::Null) return reader_.null();
    expect_text("");
  }
  void expect_flag(bool expected) {
    const char* name = expected ? "true" : "false";
    if (reader_.boolean() != expected)
      reader_.wrong(tessera::concat(name, " (nothing else is supported)"), expected ? "false" : "true");
  }
  [[noreturn]] void unknown_field() { reader_.wrong("no such field", "a field that this version does not know"); }
  static std::string quoted(std::string_view text) { return tessera::concat('"', text, '"'); }

  /// An error about a field as a whole, after the file was read.
  [[noreturn]] void missing(std::string path, std::string_view expected, std::string_view found = "nothing") {
    JsonReader at("", name_);
    at.nested_in(std::move(path));
    at.wrong(expected, found);
  }

  void added_token() {
    Added token;
    token.path = reader_.path();
    reader_.object([&](std::string_view field) {
      if (field == "id")
        token.id = static_cast<TokenId>(reader_.count(Vocabulary::kMaxTokens - 1));
      else if (field == "content")
        token.content = reader_.string();
      else if (field == "single_word" || field == "lstrip" || field == "rstrip")
        expect_flag(false);
      else if (field == "normalized")
        token.normalized = reader_.boolean();
      else if (field == "special")
        token.special = reader_.boolean();
      else
        unknown_field();
    });
    if (token.id < 0) missing(token.path + ".id", "a whole number");
    if (token.content.empty()) missing(token.path + ".content", "a text that is not empty", quoted(token.content));
    added_.push_back(std::move(token));
  }

  void add(const Added& token) {
    const auto id = static_cast<std::size_t>(token.id);
    std::string_view taken;
    if (state_.vocabulary.has(token.id)) taken = state_.vocabulary.bytes(token.id);
    if ((!taken.empty() && taken != token.content) || !state_.added.add(token.id, token.content))
      missing(token.path, tessera::concat("an id of its own for ", quoted(token.content)),
              tessera::concat("the id ", token.id, ", which is that of another token"));
    if (token.special) {
      if (state_.special.size() <= id) state_.special.resize(id + 1);
      state_.special[id] = true;
    }
    if (token.normalized)
      state_.in_normalized_text.add(state_.nfc ? nfc(token.content) : token.content, token.id);
    else
      state_.in_raw_text.add(token.content, token.id);
  }

  void normalizer() {
    if (reader_.peek() == Kind::Null) return reader_.null();
    reader_.object([&](std::string_view field) {
      if (field == "type")
        expect_text("NFC");
      else
        unknown_field();
    });
    state_.nfc = true;
  }

  void pre_tokenizer() {
    reader_.object([&](std::string_view field) {
      if (field == "type")
        expect_text("Sequence");
      else if (field == "pretokenizers")
        reader_.array([&] { pre_tokenizer_step(); });
      else
        unknown_field();
    });
  }

  void pre_tokenizer_step() {
    std::string type;
    bool splits = false;
    reader_.object([&](std::string_view field) {
      if (field == "type")
        type = reader_.string();
      else if (field == "pattern")
        pattern(), splits = true;
      else if (field == "behavior")
        expect_text("Isolated");
      else if (field == "invert" || field == "add_prefix_space" || field == "use_regex")
        expect_flag(false);
      else if (field == "trim_offsets")
        (void)reader_.boolean();
      else
        unknown_field();
    });
    // The expression is applied before the bytes are named.
    if (type == "Split" && splits && !has_byte_level_) return;
    if (type == "ByteLevel" && !splits && state_.rules != nullptr && !has_byte_level_) {
      has_byte_level_ = true;
      return;
    }
    missing(reader_.path(), "a Split with its pattern, and after it a ByteLevel", quoted(type));
  }

  void pattern() {
    reader_.object([&](std::string_view field) {
      if (field != "Regex") unknown_field();
      const std::string_view found = reader_.string();
      const SplitRules* known = nullptr;
      for (const SplitRules& rules : kSplitRules) {
        if (rules.pattern == found) known = &rules;
      }
      if (known == nullptr) reader_.wrong("the expression of Qwen2 and Qwen3, of Qwen3.5 or of Llama 3", quoted(found));
      if (state_.rules != nullptr) reader_.wrong("one expression", "a second one");
      state_.rules = known;
    });
  }

  void decoder() {
    reader_.object([&](std::string_view field) {
      if (field == "type")
        expect_text("ByteLevel");
      else if (!byte_level_flag(field))
        unknown_field();
    });
    has_decoder_ = true;
  }
  /// Fields of ByteLevel that change no ids. False for other fields.
  bool byte_level_flag(std::string_view field) {
    if (field != "add_prefix_space" && field != "trim_offsets" && field != "use_regex") return false;
    (void)reader_.boolean();
    return true;
  }

  /// null, ByteLevel (which changes no ids), TemplateProcessing, or a Sequence of these.
  void post_processor() {
    if (reader_.peek() == Kind::Null) return reader_.null();
    const std::string path = reader_.path();
    std::string type;
    Template found;
    reader_.object([&](std::string_view field) {
      if (field == "type")
        type = reader_.string();
      else if (field == "processors")
        reader_.array([&] { post_processor(); });
      else if (field == "single")
        reader_.array([&] { template_part(found); });
      else if (field == "pair")
        reader_.skip();
      else if (field == "special_tokens")
        reader_.object([&](std::string_view name) { special_token(std::string(name), found); });
      else if (!byte_level_flag(field))
        unknown_field();
    });
    if (type != "ByteLevel" && type != "TemplateProcessing" && type != "Sequence")
      missing(path + ".type", "\"ByteLevel\", \"TemplateProcessing\" or \"Sequence\"", quoted(type));
    if (type == "TemplateProcessing" && !found.has_text)
      missing(path + ".single", "tokens and the sequence \"A\", the text");
    for (const std::string& name : found.before) {
      const auto ids = found.ids.find(name);
      if (ids == found.ids.end()) missing(path + ".special_tokens", tessera::concat("the ids of ", quoted(name)));
      state_.beginning.insert(state_.beginning.end(), ids->second.begin(), ids->second.end());
    }
  }

  /// A TemplateProcessing: names of tokens before the text, and the ids of each name.
  struct Template {
    std::vector<std::string> before;
    std::map<std::string, std::vector<TokenId>, std::less<>> ids;
    bool has_text = false;  ///< the part that stands for the text has come
  };
  /// {"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 0}} or {"Sequence": {"id": "A", "type_id": 0}}
  void template_part(Template& found) {
    reader_.object([&](std::string_view kind) {
      const bool is_token = kind == "SpecialToken";
      if (!is_token && kind != "Sequence") unknown_field();
      reader_.object([&](std::string_view field) {
        if (field == "type_id")
          reader_.skip();
        else if (field != "id")
          unknown_field();
        else if (is_token)
          found.before.emplace_back(reader_.string());
        else
          expect_text("A");
      });
      if (is_token && found.has_text) reader_.wrong("tokens before the text alone", "one behind it");
      found.has_text |= !is_token;
    });
  }
  /// "<|begin_of_text|>": {"id": "<|begin_of_text|>", "ids": [128000], "tokens": ["<|begin_of_text|>"]}
  void special_token(const std::string& name, Template& found) {
    reader_.object([&](std::string_view field) {
      if (field == "ids")
        reader_.array(
            [&] { found.ids[name].push_back(static_cast<TokenId>(reader_.count(Vocabulary::kMaxTokens - 1))); });
      else if (field == "id" || field == "tokens")
        reader_.skip();
      else
        unknown_field();
    });
  }

  void model() {
    has_model_ = true;
    reader_.object([&](std::string_view field) {
      if (field == "type")
        expect_text("BPE");
      else if (field == "dropout" || field == "unk_token")
        expect_null();
      else if (field == "continuing_subword_prefix" || field == "end_of_word_suffix")
        expect_null_or_empty();
      else if (field == "fuse_unk")
        (void)reader_.boolean();  // there are no unknown tokens
      else if (field == "byte_fallback")
        expect_flag(false);
      else if (field == "ignore_merges")
        whole_pieces_ = reader_.boolean();
      else if (field == "vocab")
        vocabulary();
      else if (field == "merges")
        merges_field();
      else
        unknown_field();
    });
  }

  void vocabulary() {
    // An entry with its merge takes about 45 bytes.
    state_.vocabulary.reserve(json_bytes_ / 40, json_bytes_ / 6);
    std::string bytes;
    reader_.object([&](std::string_view token) {
      if (token.empty() || !alphabet_.decode(token, bytes))
        reader_.wrong("a token of the byte-level alphabet", quoted(token));
      if (state_.vocabulary.find(bytes) >= 0) reader_.wrong("each token once", "a second entry");
      const auto id = static_cast<TokenId>(reader_.count(Vocabulary::kMaxTokens - 1));
      if (!state_.vocabulary.add(id, bytes))
        reader_.wrong("an id of its own", tessera::concat(id, ", which is that of another token"));
    });
  }

  /// The merges need the vocabulary, which may stand after them.
  void merges_field() {
    if (state_.vocabulary.count() != 0)
      read_merges(reader_);
    else
      merges_text_ = reader_.skip();
  }

  void finish_merges() {
    if (state_.vocabulary.count() == 0) missing("model.vocab", "an object with the tokens");
    if (!merges_text_.empty()) {
      JsonReader reader(merges_text_, name_);
      reader.nested_in("model.merges");
      read_merges(reader);
    }
    if (!has_merges_) missing("model.merges", "an array");
    if (const int byte = state_.pairs.finish(whole_pieces_); byte >= 0)
      missing("model.vocab", "a token for each of the 256 bytes", tessera::concat("none for the byte ", byte));
  }

  void read_merges(JsonReader& reader) {
    has_merges_ = true;
    state_.pairs.reserve(state_.vocabulary.count());
    std::string left, right, whole;
    const auto token = [&](std::string_view written, std::string& bytes) {
      if (!alphabet_.decode(written, bytes)) reader.wrong("tokens of the byte-level alphabet", quoted(written));
      const TokenId id = state_.vocabulary.find(bytes);
      if (id < 0) reader.wrong("tokens of model.vocab", quoted(written));
      return id;
    };
    reader.array([&] {
      TokenId a = -1, b = -1;
      if (reader.peek() == Kind::Array) {
        int n = 0;
        reader.array([&] {
          if (n == 0)
            a = token(reader.string(), left);
          else
            b = token(reader.string(), right);
          if (++n > 2) reader.wrong("two tokens", "more");
        });
        if (n != 2) reader.wrong("two tokens", tessera::concat(n));
      } else {
        const std::string_view pair = reader.string();
        const std::size_t space = pair.find(' ');
        if (space == pair.npos || pair.find(' ', space + 1) != pair.npos)
          reader.wrong("two tokens with one space between", quoted(pair));
        a = token(pair.substr(0, space), left);
        b = token(pair.substr(space + 1), right);
      }
      whole.assign(left).append(right);
      const TokenId merged = state_.vocabulary.find(whole);
      if (merged < 0) reader.wrong("a pair whose bytes are a token of model.vocab", "one that is not");
      state_.pairs.add_merge(a, b, merged);
    });
  }

  const std::string& name_;
  std::size_t json_bytes_;
  JsonReader reader_;
  Tokenizer::State& state_;
  Alphabet alphabet_;
  std::vector<Added> added_;
  std::string_view merges_text_;
  bool whole_pieces_ = false, has_merges_ = false, has_model_ = false, has_byte_level_ = false, has_decoder_ = false;
};

}  // namespace

void read_tokenizer(std::string_view json, const std::string& name, Tokenizer::State& state) {
  Loader(json, name, state).load();
}

}  // namespace mortar::text
