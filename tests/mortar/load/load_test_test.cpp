// The load test against a server that answers as OpenAI's does: what is measured, and what is counted as an error.
#include "load/load_test.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "http/http.hpp"
#include "load/conversations.hpp"
#include "load/event_reader.hpp"

namespace mortar {
namespace THIS_FILE {

using namespace std::chrono_literals;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kTemplate = 9;  ///< tokens of the chat template
constexpr auto kPatience = 60s;        ///< far more than anything here takes on a busy machine

std::int64_t tokens_of(const json& messages) {
  std::int64_t n = kTemplate;
  for (const json& m : messages) {
    const auto text = m["content"].get<std::string>();
    n += std::count(text.begin(), text.end(), ' ') + 1;
  }
  return n;
}

/// Each word is a token. Answers have max_tokens tokens, one every `step`, as soon as they may.
class FakeServer {
 public:
  std::chrono::microseconds step{0}, before{0};
  bool tokenize = true, usage = true;
  int together = 0;    ///< answers begin when so many requests have been there at a time, or at the end
  int fail_every = 0;  ///< of every so many requests one fails: in turn by status, error event, end of the connection
  std::mutex mutex;
  std::vector<json> requests;
  std::atomic<int> running{0}, most{0};

  FakeServer() : server(options()) {
    server.route("GET", "/v1/models", [](HttpRequest, auto reply) {
      reply->send(200, "application/json", R"({"object":"list","data":[{"id":"tiny","object":"model"}]})");
    });
    server.route("POST", "/tokenize", [this](HttpRequest r, auto reply) {
      if (!tokenize) return reply->send(404, "application/json", "{}");
      const json body = json::parse(r.body);
      reply->send(200, "application/json", json{{"count", tokens_of(body["messages"])}}.dump());
    });
    server.route("POST", "/v1/chat/completions",
                 [this](HttpRequest r, auto reply) { chat(json::parse(r.body), reply); });
    server.start();
  }
  ~FakeServer() {
    server.stop();  // no more handlers, which start threads
    {
      const std::lock_guard lock(mutex);
      together = 0;
    }
    changed_.notify_all();
    for (std::thread& t : threads_) t.join();
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(server.port()) + "/v1"; }

 private:
  static HttpOptions options() {
    HttpOptions o;
    o.port = 0;
    o.api_keys = {{"test", "the-key"}};
    return o;
  }
  void chat(const json& body, std::shared_ptr<HttpReply> reply) {
    const std::lock_guard lock(mutex);
    requests.push_back(body);
    const std::size_t number = requests.size();
    const json counts = {{"prompt_tokens", tokens_of(body["messages"])},
                         {"completion_tokens", body["max_tokens"]},
                         {"prompt_tokens_details", {{"cached_tokens", 3}}}};
    if (!body.value("stream", false)) {
      json answer = {{"choices", json::array()}};
      if (usage) answer["usage"] = counts;
      return reply->send(200, "application/json", answer.dump());
    }
    const std::size_t failure = fail_every > 0 && number % fail_every == 0 ? number / fail_every % 3 + 1 : 0;
    if (failure == 1) return reply->send(503, "application/json", R"({"error":{"message":"full"}})");
    threads_.emplace_back([this, body, reply, counts, failure] { stream(body, reply, counts, failure); });
  }
  void stream(const json& body, const std::shared_ptr<HttpReply>& reply, const json& counts, std::size_t failure) {
    {
      std::unique_lock lock(mutex);
      most = std::max<int>(most, ++running);
      changed_.notify_all();
      changed_.wait_for(lock, kPatience, [&] { return most >= together; });
    }
    std::this_thread::sleep_for(before);
    reply->begin_stream();
    reply->event(R"({"choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"usage":null})");
    if (failure == 2) reply->event(R"({"error":{"message":"lost"}})");
    for (int i = 0; i < body["max_tokens"] && failure != 3; ++i) {
      if (i > 0) std::this_thread::sleep_for(step);
      const char* field = i == 0 ? "reasoning_content" : "content";
      reply->event(json{{"choices", {{{"index", 0}, {"delta", {{field, "w" + std::to_string(i) + " "}}}}}}}.dump());
    }
    --running;  // before the client can know
    if (failure == 3) return;
    if (usage) reply->event(json{{"choices", json::array()}, {"usage", counts}}.dump());
    reply->event("[DONE]");
    reply->end_stream();
  }

  std::vector<std::thread> threads_;
  std::condition_variable changed_;

 public:
  HttpServer server;
};

LoadTestOptions options_for(const FakeServer& server) {
  LoadTestOptions o;
  o.url = server.url();
  o.key = "the-key";
  o.requests = 12;
  o.prompt_tokens = 100;
  o.max_tokens = 4;
  o.timeout = kPatience;
  return o;
}

TEST(Percentiles, NearestRank) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  const Percentiles p = percentiles_of(values);
  EXPECT_EQ(p.count, 100U);
  EXPECT_EQ(p.p50, 50);
  EXPECT_EQ(p.p90, 90);
  EXPECT_EQ(p.p99, 99);
  EXPECT_EQ(p.max, 100);
  EXPECT_EQ(p.mean, 50.5);
  EXPECT_EQ(percentiles_of({7}).p50, 7);
  EXPECT_EQ(percentiles_of({7}).p99, 7);
  EXPECT_EQ(percentiles_of({1, 2}).p50, 1);
  EXPECT_EQ(percentiles_of({}).count, 0U);
}

TEST(LoadTest, ClosedLoop) {
  FakeServer server;
  server.step = 30ms;  // much more than what is expected below: a busy machine may deliver some tokens together
  server.before = 10ms;
  server.together = 3;
  LoadTest test(options_for(server));
  EXPECT_EQ(test.model(), "tiny");
  EXPECT_EQ(test.prompt_tokens(), 100);
  const LoadResult r = test.run({.concurrency = 3});
  EXPECT_EQ(r.requests, 12);
  EXPECT_TRUE(r.errors.empty());
  EXPECT_EQ(r.output_tokens, 48);
  EXPECT_EQ(r.prompt_tokens, 1200);
  EXPECT_EQ(r.cached_tokens, 36);
  EXPECT_TRUE(r.exact_tokens);
  EXPECT_EQ(server.most, 3);
  EXPECT_EQ(r.first_token.count, 12U);
  EXPECT_EQ(r.between_tokens.count, 36U);
  EXPECT_GE(r.first_token.p50, 0.010);
  EXPECT_GE(r.between_tokens.mean, 0.0025);
  EXPECT_GE(r.per_token.p50, 0.0025);
  EXPECT_GE(r.whole.p50, r.first_token.p50 + 0.008);
  EXPECT_NEAR(r.output_tokens_per_s, 48 / r.seconds, 1e-6);
  std::set<std::string> prompts;
  for (const json& body : server.requests) {
    EXPECT_TRUE(body["stream"]);
    EXPECT_TRUE(body["stream_options"]["include_usage"]);
    EXPECT_FALSE(body.contains("ignore_eos"));
    prompts.insert(body["messages"][0]["content"]);
  }
  EXPECT_EQ(prompts.size(), 12U) << "a prompt that comes twice would be found in a cache";
  (void)test.run({.concurrency = 1});
  for (const json& body : server.requests) prompts.insert(body["messages"][0]["content"]);
  EXPECT_EQ(prompts.size(), 24U);
}

TEST(LoadTest, Poisson) {
  FakeServer server;
  server.together = 6;
  LoadTestOptions o = options_for(server);
  o.requests = 40;
  const LoadResult r = LoadTest(o).run({.concurrency = 0, .rate = 400});
  EXPECT_EQ(r.requests, 40);
  EXPECT_GE(server.most, 6) << "arrivals do not wait for answers";
  EXPECT_GT(r.seconds, 0.04) << "forty arrivals at 400 a second take 0.1 s, with a standard deviation of 0.016";
}

TEST(LoadTest, LengthsWithoutTokenizer) {
  FakeServer server;
  server.tokenize = false;
  LoadTestOptions o = options_for(server);
  std::vector<std::string> lines;
  o.report = [&](const std::string& line) { lines.push_back(line); };
  EXPECT_EQ(LoadTest(o).prompt_tokens(), 100);
  EXPECT_THAT(lines.back(), HasSubstr("by the usage of an answer"));
  o.prompt_tokens = 3;  // fewer than the template has
  EXPECT_EQ(LoadTest(o).prompt_tokens(), kTemplate + 1);
  server.usage = false;
  LoadTest test(o);
  EXPECT_THAT(lines.back(), HasSubstr("does not count tokens"));
  const LoadResult r = test.run({.concurrency = 2});
  EXPECT_FALSE(r.exact_tokens);
  EXPECT_EQ(r.output_tokens, 48) << "pieces of text";
}

TEST(LoadTest, ErrorsByKind) {
  FakeServer server;
  server.fail_every = 2;
  LoadTestOptions o = options_for(server);
  o.requests = 24;
  const LoadResult r = LoadTest(o).run({.concurrency = 2});
  EXPECT_EQ(r.requests, 12);
  EXPECT_EQ(r.errors.at("status 503"), 4);
  EXPECT_EQ(r.errors.at("error event"), 4);
  EXPECT_EQ(r.errors.at("disconnected"), 4);
  EXPECT_EQ(r.first_token.count, 12U);
}

TEST(LoadTest, Timeout) {
  FakeServer server;
  server.together = 3;  // which do not come
  LoadTestOptions o = options_for(server);
  o.requests = 2;
  o.timeout = 1000ms;  // also for the requests that measure lengths
  EXPECT_EQ(LoadTest(o).run({.concurrency = 2}).errors.at("timeout"), 2);
}

TEST(LoadTest, ServersThatCannotBeUsed) {
  FakeServer server;
  const auto message = [](const LoadTestOptions& o) -> std::string {
    try {
      LoadTest test(o);
    } catch (const std::exception& error) { return error.what(); }
    return "accepted";
  };
  LoadTestOptions o = options_for(server);
  o.key = "wrong";
  EXPECT_THAT(message(o), HasSubstr("401"));
  o.url = "http://127.0.0.1:1";
  EXPECT_THAT(message(o), HasSubstr("connect"));
  o.url = "127.0.0.1:8080";
  EXPECT_THAT(message(o), HasSubstr("expected an address"));
  o.url = "http://no-such-host.invalid";
  EXPECT_THAT(message(o), HasSubstr("not known"));
  o = options_for(server);
  o.conversations = "no-such-file";
  EXPECT_THAT(message(o), HasSubstr("no-such-file"));
}

/// A server with a prefix cache would answer shared prompts faster, so a second run would measure something else.
TEST(Conversations, RunsWithNeighbouringSeedsShareNoPrompt) {
  std::set<std::string> beginnings;
  constexpr std::uint64_t kSeeds = 8, kPrompts = 200;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed)
    for (std::uint64_t number = 0; number < kPrompts; ++number) beginnings.insert(text_of_words(16, seed, number));
  EXPECT_EQ(beginnings.size(), kSeeds * kPrompts);
  EXPECT_EQ(text_of_words(16, 3, 5), text_of_words(16, 3, 5));
}

TEST(LoadTest, Conversations) {
  const std::string path = ::testing::TempDir() + "conversations-" + std::to_string(::getpid());
  std::ofstream(path) << R"({"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"one"},)"
                      << R"({"role":"assistant","content":"in the file"},{"role":"user","content":"two"}]})"
                      << "\n\n"
                      << R"({"conversations":[{"from":"human","value":"three"},{"from":"gpt","value":"x"}]})"
                      << "\n";
  FakeServer server;
  LoadTestOptions o = options_for(server);
  o.conversations = path;
  o.requests = 6;
  o.max_tokens = 2;
  const LoadResult r = LoadTest(o).run({.concurrency = 1});
  EXPECT_EQ(r.requests, 6);
  ASSERT_EQ(r.first_token_of_turn.size(), 2U);
  EXPECT_EQ(r.first_token_of_turn[0].count, 4U);
  EXPECT_EQ(r.first_token_of_turn[1].count, 2U);
  const json& second = server.requests[1]["messages"];
  ASSERT_EQ(second.size(), 4U);
  EXPECT_EQ(second[0]["content"], "be brief");
  EXPECT_EQ(second[2]["content"], "w1 ") << "the answer of the server, without its thinking";
  EXPECT_EQ(second[3]["content"], "two");
  EXPECT_EQ(server.requests[2]["messages"][0]["content"], "three");
  std::ofstream(path)
      << R"([{"messages":[{"role":"user","content":[{"type":"text","text":"part"}]}]},{"messages":[]}])";
  ASSERT_EQ(read_conversations(path).size(), 1U);
  EXPECT_THAT(read_conversations(path)[0].turns, ElementsAre("part"));
  for (const char* bad : {"", "[]", "{", "[1]", "{\"messages\":[]}"}) {
    std::ofstream(path) << bad;
    EXPECT_ANY_THROW(read_conversations(path)) << bad;
  }
  std::filesystem::remove(path);
}

TEST(EventReader, EveryWayOfCutting) {
  const std::string stream =
      ": comment\n\nevent: a\ndata: 1\ndata:2\r\n\r\ndata\n\nid: 7\ndata: {\"x\": \": y\"}\r\revent: lost\n\ndata: "
      "end\n\nnone";
  for (std::size_t piece = 1; piece < stream.size(); ++piece) {
    std::vector<std::string> events;
    EventReader reader([&](std::string_view name, std::string_view data) {
      events.push_back(std::string(name) + "|" + std::string(data));
    });
    for (std::size_t at = 0; at < stream.size(); at += piece) reader.feed(std::string_view(stream).substr(at, piece));
    ASSERT_THAT(events, ElementsAre("a|1\n2", "|", "|{\"x\": \": y\"}", "|end")) << piece;
  }
}

}  // namespace THIS_FILE
}  // namespace mortar
