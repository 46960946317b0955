// mortar tokenize: ids of a text, or with --decode the text of ids.
#include <charconv>
#include <iostream>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "mortar/errors.hpp"
#include "mortar/tokenizer.hpp"
#include "read_input.hpp"
#include "tessera/base/format.hpp"

namespace mortar::cli {
namespace THIS_FILE {

/// Numbers with anything of white space, commas and brackets between, so that the output of this command (without
/// --json) is read too.
std::vector<TokenId> ids_of(const std::string& text, std::int64_t vocabulary) {
  std::vector<TokenId> ids;
  const char *at = text.data(), *end = at + text.size();
  while (at != end) {
    if (std::string_view(" \t\r\n,[]").find(*at) != std::string_view::npos) {
      ++at;
      continue;
    }
    TokenId id = 0;
    const auto r = std::from_chars(at, end, id);
    if (r.ec != std::errc{} || id < 0)
      throw RequestError(tessera::concat("expected ids with commas or spaces between, found '",
                                         std::string(at, std::min(end, at + 20)), "'"));
    if (id >= vocabulary)
      throw RequestError(tessera::concat("expected ids from 0 to ", vocabulary - 1, ", found ", id));
    ids.push_back(id);
    at = r.ptr;
  }
  return ids;
}

int run(const Arguments& arguments) {
  const Tokenizer tokenizer = Tokenizer::load(arguments.positional(0));
  const std::string text = read_input(arguments.has("--file") ? arguments.text("--file") : "-");
  if (arguments.flag("--decode")) {
    const std::string decoded = tokenizer.decode(ids_of(text, tokenizer.size()), arguments.flag("--skip-special"));
    if (arguments.flag("--json"))
      std::cout << nlohmann::ordered_json{{"text", decoded}} << '\n';
    else
      std::cout << decoded;
    return kDone;
  }
  const auto ids = tokenizer.encode(text, arguments.flag("--as-text") ? AddedTokens::AsText : AddedTokens::Parse);
  if (arguments.flag("--json")) {
    nlohmann::ordered_json tokens = nlohmann::ordered_json::array();
    for (TokenId id : ids) tokens.push_back(tokenizer.decode({&id, 1}));
    std::cout << nlohmann::ordered_json{{"ids", ids}, {"tokens", tokens}} << '\n';
    return kDone;
  }
  std::cout << tessera::join(ids, " ") << '\n';
  return kDone;
}

const Option kOptions[] = {
    {"--file", "PATH", "what is read (default: standard input)"},
    {"--decode", nullptr, "reads ids and prints their text"},
    {"--as-text", nullptr, "names of added tokens (\"<|im_end|>\") are text like any other"},
    {"--skip-special", nullptr, "with --decode: special tokens have no text"},
    {"--json", nullptr, "one object: ids and the text of each, or with --decode the text"},
};
const Registration kRegistration({"tokenize", "MODEL", "ids of a text, or the text of ids", kOptions, OptionSet::None,
                                  run});

}  // namespace THIS_FILE
}  // namespace mortar::cli
