// The text of the small tokenizer.
#include "fuzz/small_tokenizer.hpp"

#include "text/utf8.hpp"

namespace tessera::fuzz {
namespace {

std::string byte_character(int byte) {
  std::string out;
  const auto printable = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; };
  int next = 256;
  for (int b = 0; b < byte; ++b) next += printable(b) ? 0 : 1;
  mortar::text::append_utf8(out, static_cast<char32_t>(printable(byte) ? byte : next));
  return out;
}

}  // namespace

const std::string& small_json() {
  static const std::string json = [] {
    std::string vocabulary;
    for (int b = 0; b < 256; ++b) {
      const std::string c = byte_character(b);
      vocabulary += tessera::concat(b == 0 ? "" : ",", '"', c == "\"" || c == "\\" ? "\\" + c : c, "\":", b);
    }
    return R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)"
           R"({"id":262,"content":"<|im_end|>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},)"
           R"({"id":263,"content":"<think>","normalized":true},{"id":264,"content":"</think>"}],"normalizer":{"type":"NFC"},)"
           R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":")"
           R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)"
           R"("},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]},)"
           R"("post_processor":null,"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","dropout":null,"ignore_merges":false,"vocab":{)" +
           vocabulary +
           R"(,"he":256,"ll":257,"hell":258,"aa":259,"aaaa":260,"Ġa":261},"merges":["h e","l l",["he","ll"],"a a","aa aa","Ġ a"]}})";
  }();
  return json;
}

const mortar::Tokenizer& small_tokenizer() {
  static const mortar::Tokenizer tokenizer = [] {
    std::string json = small_json();
    json.insert(json.find("],\"normalizer\""),
                R"(,{"id":265,"content":"<tool_call>"},{"id":266,"content":"</tool_call>"})");
    return mortar::Tokenizer::parse(json);
  }();
  return tokenizer;
}

}  // namespace tessera::fuzz
