// What the differential test and the benchmark of structured answers run: a request per line of standard input, an
// answer per line of output.
//
//   mortar_grammar_oracle FOLDER     the folder of a tokenizer.json
//
//   {"kind": "schema", "text": "...", "eos": 3, "runs": [[ids], ...], "masks": true}
//     -> {"error": "...", "compile_us": t} or {"compile_us": t, "bytes": n, "runs": [{"accepted": n, "ends": true,
//     "mask_us": [...],
//        "masks": ["hex", ...]}]}
//
// `kind` is schema, regex, choice (text: a JSON array), object, json_calls or xml_calls. Times are of the processor.
// There is a mask before each token and after the last one.
#include <cstdint>
#include <ctime>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "mortar/errors.hpp"
#include "mortar/grammar.hpp"
#include "mortar/tokenizer.hpp"

namespace {

using nlohmann::json;

double microseconds() {
  std::timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

mortar::Grammar compile(const json& request) {
  const std::string kind = request.at("kind"), text = request.value("text", std::string());
  if (kind == "schema") return mortar::Grammar::from_json_schema(text);
  if (kind == "regex") return mortar::Grammar::from_regex(text);
  if (kind == "choice") return mortar::Grammar::from_choice(json::parse(text).get<std::vector<std::string>>());
  if (kind == "object") return mortar::Grammar::json_object();
  const auto format = kind == "xml_calls" ? mortar::CallFormat::Xml : mortar::CallFormat::Json;
  return mortar::Grammar::from_tools(text, {.format = format, .choice = mortar::CallChoice::Required});
}

std::string hex(const std::vector<std::uint32_t>& words) {
  std::string out;
  for (const std::uint32_t word : words) {
    for (int byte = 0; byte < 4; ++byte) {
      const std::uint32_t value = word >> (8 * byte) & 255;
      out += "0123456789abcdef"[value >> 4];
      out += "0123456789abcdef"[value & 15];
    }
  }
  return out;
}

json run(mortar::TokenConstraint& constraint, const std::vector<mortar::TokenId>& ids, std::size_t words, bool masks,
         mortar::TokenId eos) {
  json out{{"accepted", 0}, {"ends", false}, {"mask_us", json::array()}, {"masks", json::array()}};
  std::vector<std::uint32_t> mask(words);
  for (std::size_t i = 0;; ++i) {
    const double begin = microseconds();
    constraint.fill_mask(mask);
    out["mask_us"].push_back(microseconds() - begin);
    if (masks) out["masks"].push_back(hex(mask));
    out["ends"] = (mask[static_cast<std::size_t>(eos) / 32] >> (eos % 32) & 1) != 0;
    if (i == ids.size()) return out;
    const bool allowed = (mask[static_cast<std::size_t>(ids[i]) / 32] >> (ids[i] % 32) & 1) != 0;
    const bool accepted = constraint.accept(ids[i]);
    if (allowed != accepted) out["error"] = "mask and accept() disagree";
    if (!accepted) return out;
    out["accepted"] = i + 1;
  }
}

json answer(const json& request, const std::shared_ptr<const mortar::Vocabulary>& vocabulary, std::size_t words) {
  json out;
  const double begin = microseconds();
  try {
    const auto grammar = std::make_shared<const mortar::Grammar>(compile(request));
    const mortar::TokenId eos = request.at("eos");
    const auto first = mortar::constrain(grammar, vocabulary, {.eos = {eos}});
    out["compile_us"] = microseconds() - begin;
    out["bytes"] = grammar->bytes();
    out["runs"] = json::array();
    for (const json& ids : request.value("runs", json::array())) {
      const auto constraint = first->clone();
      out["runs"].push_back(run(*constraint, ids, words, request.value("masks", false), eos));
    }
  } catch (const mortar::Error& e) {
    out["error"] = e.what();
    out["compile_us"] = microseconds() - begin;
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  if (argc != 2) return 2;
  try {
    const auto tokenizer = mortar::Tokenizer::load(argv[1]);
    const auto vocabulary = std::make_shared<const mortar::Vocabulary>(tokenizer);
    const std::size_t words = (static_cast<std::size_t>(tokenizer.size()) + 31) / 32;
    for (std::string line; std::getline(std::cin, line);)
      std::cout << answer(json::parse(line), vocabulary, words) << std::endl;
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
