// How often the answer's path looks up the bytes of tokens, which the linker lets this program count; and choices that
// end by their text.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "mortar/engine/test_engine.hpp"
#include "mortar/server/server_test.hpp"
#include "server/metrics.hpp"
#include "server/run.hpp"
#include "server/writers.hpp"

namespace mortar::server {

std::atomic<std::int64_t> lookups{0};
// Tokenizer::bytes, by the names that the linker's option --wrap gives it.
std::string_view real_bytes(const Tokenizer*, TokenId) __asm__("__real__ZNK6mortar9Tokenizer5bytesEi");
std::string_view counted_bytes(const Tokenizer* tokenizer, TokenId id) __asm__("__wrap__ZNK6mortar9Tokenizer5bytesEi");
std::string_view counted_bytes(const Tokenizer* tokenizer, TokenId id) {
  ++lookups;
  return real_bytes(tokenizer, id);
}

namespace THIS_FILE {

using nlohmann::json;

ServerMetrics& metrics() {
  static ServerMetrics all("test", MetricNames::Mortar);
  return all;
}

/// The lookups of a stream of `tokens` tokens, a chunk for each.
std::int64_t lookups_of(int tokens, std::int64_t logprobs) {
  const Tokenizer& tokenizer = plain_text().tokenizer();
  Generation g;
  g.stream = true;
  g.logprobs = logprobs;
  const auto reply = std::make_shared<RecordedReply>();
  std::vector<RunPrompt> prompts(1);
  prompts[0].machine.thinking = answer::Thinking::Ended;
  const auto run = std::make_shared<Run>(tokenizer, std::move(prompts),
                                         completion_writer(WriterOptions(reply, tokenizer, "test", g)), metrics());
  const TokenId id = tokenizer.encode("a").at(0);
  const std::int64_t before = lookups;
  for (int i = 0; i < tokens; ++i) {
    Token token{.id = id};
    if (logprobs >= 0) token.chosen = TokenLogprob{id, -0.5F};
    for (std::int64_t k = 0; k < logprobs; ++k) token.top.push_back({id, -0.5F});
    if (i + 1 == tokens) token.finish = FinishReason::Length;
    run->take({run, 0, token, std::chrono::steady_clock::now()});
    run->flush();
  }
  const std::int64_t counted = lookups - before;
  const json last = json::parse(reply->events.at(static_cast<std::size_t>(tokens) - 1).data);
  if (logprobs >= 0) { EXPECT_EQ(last["choices"][0]["logprobs"]["text_offset"], json::array({tokens - 1})); }
  return counted;
}

TEST(MortarServerDecoding, StreamsLookATokenUpOnceForEachPlaceInTheAnswer) {
  for (const int tokens : {10, 300}) {
    EXPECT_EQ(lookups_of(tokens, -1), tokens) << "its text";
    EXPECT_EQ(lookups_of(tokens, 0), 2 * tokens) << "its text and its log-probability";
    EXPECT_EQ(lookups_of(tokens, 3), 5 * tokens) << "and each alternative";
  }
}

struct Answered {
  std::vector<std::string> texts;
  std::int64_t lookups = 0;
};

/// An engine's answers to one prompt, through a run.
Answered answered(Engine& engine, std::int64_t choices, std::vector<std::string> stop) {
  const Tokenizer tokenizer = engine.model().tokenizer.value();
  Generation g;
  g.choices = choices;
  const auto reply = std::make_shared<RecordedReply>();
  std::vector<RunPrompt> prompts(1);
  Request& r = prompts[0].request;
  r = test::some_request(10, 40, 3);
  r.sampling.temperature = 2;
  r.choices = choices;
  r.text = false;
  prompts[0].machine.thinking = answer::Thinking::Ended;
  prompts[0].machine.stop = std::move(stop);
  const auto run = std::make_shared<Run>(tokenizer, std::move(prompts),
                                         completion_writer(WriterOptions(reply, tokenizer, "test", g)), metrics());
  std::vector<Run::Arrived> arrived;
  Answered out;
  const std::int64_t before = lookups;
  run->submit(engine, [&](Run::Arrived token) { arrived.push_back(std::move(token)); });
  while (engine.step()) {
    for (const Run::Arrived& token : arrived) run->take(token);
    arrived.clear();
    run->flush();
  }
  out.lookups = lookups - before;
  const json body = json::parse(reply->body);
  for (const json& choice : body["choices"]) out.texts.push_back(choice["text"]);
  return out;
}

TEST(MortarServerDecoding, TheEngineDoesNotDecodeWhatTheServerDecodes) {
  Engine engine(test::load_test_model("dense-tied"), {});
  const std::int64_t counted = answered(engine, 1, {}).lookups;
  EXPECT_LE(counted, 40) << "each token once";
  EXPECT_GT(counted, 30) << "but special ones, which have no text";
}

TEST(MortarServerDecoding, AChoiceThatHasFoundItsStopStringIsNotComputedAnyMore) {
  Engine engine(test::load_test_model("dense-tied"), {.max_batch = 2, .batch_invariant = true});
  const std::vector<std::string> whole = answered(engine, 2, {}).texts;
  ASSERT_EQ(engine.stats().generated_tokens, 80);
  std::string stop;
  for (std::size_t i = 4; i + 3 < whole[0].size() && stop.empty(); ++i)
    if (const std::string some = whole[0].substr(i, 3); whole[1].find(some) == std::string::npos && is_utf8(some))
      stop = some;
  ASSERT_FALSE(stop.empty());
  const std::vector<std::string> stopped = answered(engine, 2, {stop}).texts;
  EXPECT_EQ(stopped[0], whole[0].substr(0, whole[0].find(stop)));
  EXPECT_EQ(stopped[1], whole[1]) << "the other one goes on";
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.cancelled, 1);
  EXPECT_EQ(stats.reached_length, 2 + 1);
  EXPECT_LT(stats.generated_tokens, 80 + 40 + 30);
}

}  // namespace THIS_FILE
}  // namespace mortar::server
