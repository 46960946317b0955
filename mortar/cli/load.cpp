// mortar load: load on an OpenAI-compatible server, and how long its tokens take.
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "json_text.hpp"
#include "load_chart.hpp"
#include "mortar/errors.hpp"
#include "report.hpp"
#include "svg_file.hpp"

namespace mortar::cli {
namespace THIS_FILE {

using nlohmann::ordered_json;

ordered_json json_of(const Percentiles& p) {
  if (p.count == 0) return nullptr;
  return {{"mean", 1e3 * p.mean}, {"p50", 1e3 * p.p50}, {"p90", 1e3 * p.p90},
          {"p95", 1e3 * p.p95},   {"p99", 1e3 * p.p99}, {"max", 1e3 * p.max}};
}

ordered_json json_of(const LoadResult& r) {
  ordered_json out = {{"model", r.model}};
  if (r.arrivals.rate > 0)
    out["rate"] = r.arrivals.rate;
  else
    out["concurrency"] = r.arrivals.concurrency;
  out["requests"] = r.requests;
  out["errors"] = ordered_json::object();
  for (const auto& [kind, count] : r.errors) out["errors"][kind] = count;
  out["seconds"] = r.seconds;
  out["requests_per_s"] = r.requests_per_s;
  out["output_tokens_per_s"] = r.output_tokens_per_s;
  out["total_tokens_per_s"] = r.total_tokens_per_s;
  out["prompt_tokens"] = r.prompt_tokens;
  out["cached_tokens"] = r.cached_tokens;
  out["output_tokens"] = r.output_tokens;
  out["exact_tokens"] = r.exact_tokens;
  out["first_token_ms"] = json_of(r.first_token);
  out["between_tokens_ms"] = json_of(r.between_tokens);
  out["per_token_ms"] = json_of(r.per_token);
  out["request_ms"] = json_of(r.whole);
  if (r.first_token_of_turn.empty()) return out;
  out["first_token_by_turn_ms"] = ordered_json::array();
  for (const Percentiles& p : r.first_token_of_turn) out["first_token_by_turn_ms"].push_back(json_of(p));
  return out;
}

void print_head() {
  std::printf("| %-14s | %8s | %6s | %10s | %10s | %34s | %34s |\n", "load", "requests", "errors", "requests/s",
              "tokens/s", "first token, ms: p50 p90 p95 p99", "between tokens, ms: p50 p90 p95 p99");
  std::printf("|%s|%s:|%s:|%s:|%s:|%s:|%s:|\n", std::string(16, '-').c_str(), std::string(9, '-').c_str(),
              std::string(7, '-').c_str(), std::string(11, '-').c_str(), std::string(11, '-').c_str(),
              std::string(35, '-').c_str(), std::string(35, '-').c_str());
}

void print_row(const LoadResult& r) {
  std::int64_t errors = 0;
  for (const auto& entry : r.errors) errors += entry.second;
  std::printf("| %-14s | %8lld | %6lld | %10.2f | %10.1f |", name_of(r.arrivals).c_str(),
              static_cast<long long>(r.requests), static_cast<long long>(errors), r.requests_per_s,
              r.output_tokens_per_s);
  for (const Percentiles* p : {&r.first_token, &r.between_tokens})
    std::printf(" %7.1f %8.1f %8.1f %8.1f |", 1e3 * p->p50, 1e3 * p->p90, 1e3 * p->p95, 1e3 * p->p99);
  std::printf("\n");
}

std::string api_key(const Arguments& arguments) {
  if (arguments.has("--api-key")) return arguments.text("--api-key");
  const char* openai = std::getenv("OPENAI_API_KEY");
  return openai != nullptr ? openai : "";
}

LoadTestOptions options_of(const Arguments& arguments) {
  constexpr std::int64_t kLongest = 1 << 24;
  LoadTestOptions o;
  o.url = arguments.positional(0);
  if (arguments.has("--model")) o.model = arguments.text("--model");
  o.key = api_key(arguments);
  o.requests = arguments.integer("--requests", 1, 1'000'000'000);
  o.prompt_tokens = arguments.integer("--prompt-tokens", 1, kLongest);
  o.max_tokens = arguments.integer("--max-tokens", 1, kLongest);
  o.ignore_eos = arguments.flag("--ignore-eos");
  o.seed = static_cast<std::uint64_t>(arguments.integer("--seed", 0, INT64_MAX));
  if (arguments.has("--conversations")) o.conversations = arguments.text("--conversations");
  o.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * arguments.number("--timeout", 0.001, 1e6)));
  o.verify = !arguments.flag("--insecure");
  if (arguments.has("--tls-ca")) o.authorities = arguments.text("--tls-ca");
  o.report = [&arguments](const std::string& line) { report(arguments, "%s\n", line.c_str()); };
  return o;
}

std::vector<Arrivals> arrivals_of(const Arguments& arguments) {
  if (arguments.given("--concurrency") && arguments.given("--rate"))
    throw UsageError("expected --concurrency or --rate, found both");
  if (arguments.has("--rate") && !arguments.given("--concurrency"))
    return {{.concurrency = 0, .rate = arguments.number("--rate", 1e-6, 1e6)}};
  std::vector<Arrivals> all;
  for (const std::int64_t n : arguments.integers("--concurrency", 1, 100'000)) all.push_back({.concurrency = n});
  return all;
}

int run(const Arguments& arguments) {
  const std::vector<Arrivals> arrivals = arrivals_of(arguments);
  const LoadTestOptions options = options_of(arguments);
  const bool json = arguments.flag("--json");
  if (arguments.has("--svg")) check_chart_path(arguments.text("--svg"));
  LoadTest test(options);
  report(arguments,
         "first token: from sending a request to the first piece of text, thinking included; between tokens: from one "
         "piece of an answer to its next; closed-loop clients send the next request when the one before has ended\n");
  std::vector<LoadResult> rows;
  if (!json) print_head();
  for (const Arrivals& a : arrivals) {
    rows.push_back(test.run(a));
    if (json)
      std::printf("%s\n", json_text(json_of(rows.back())).c_str());
    else
      print_row(rows.back());
    std::fflush(stdout);
    for (const auto& [kind, count] : rows.back().errors)
      report(arguments, "%s: %lld requests ended with: %s\n", name_of(a).c_str(), static_cast<long long>(count),
             kind.c_str());
    if (!rows.back().exact_tokens)
      report(arguments, "the server sent no usage: pieces of text were counted as tokens\n");
  }
  if (arguments.has("--svg")) write_svg(load_chart(rows), arguments.text("--svg"));
  if (rows.back().requests == 0) throw RequestError(options.url + ": no request was answered");
  return kDone;
}

const Option kOptions[] = {
    {"--model", "NAME", "the model to ask for (default: the first that the server lists)", nullptr, false, 'm'},
    {"--concurrency", "N,...", "clients at a time; a row for each number", "1"},
    {"--rate", "R", "requests per second at random times (Poisson) instead of clients; with a file, conversations"},
    {"--requests", "N", "of each row", "1000"},
    {"--prompt-tokens", "N", "tokens of each prompt, as the server counts them", "128"},
    {"--max-tokens", "N", "tokens of an answer, at most", "1024"},
    {"--ignore-eos", nullptr, "asks for answers of --max-tokens (Mortar, vLLM and others know the field ignore_eos)"},
    {"--conversations", "FILE", "JSON with messages, as OpenAI's or ShareGPT's, instead of prompts of a length"},
    {"--seed", "N", "of prompts and arrivals", "1"},
    {"--api-key", "KEY", "better in the environment (default: OPENAI_API_KEY)"},
    {"--timeout", "S", "seconds until a request counts as an error", "600"},
    {"--tls-ca", "FILE", "certificates of authorities, PEM (default: those of the system)"},
    {"--insecure", nullptr, "accepts every certificate"},
    {"--json", nullptr, "one JSON object a row"},
    {"--svg", "FILE", "a chart of the rows"},
};
const Registration kRegistration({"load", "URL", "measures an OpenAI-compatible server under load", kOptions,
                                  OptionSet::None, run});

}  // namespace THIS_FILE
}  // namespace mortar::cli
