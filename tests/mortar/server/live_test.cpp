// The server with a small model, over loopback: clients that leave and requests that are rejected leave nothing behind.
#include "mortar/server.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "http/client.hpp"
#include "mortar/engine/test_engine.hpp"

namespace mortar::server {
extern std::atomic<std::int64_t> lookups;  // of tokens' bytes: decoding_test.cpp
}

namespace mortar::test {
namespace THIS_FILE {

using namespace std::chrono_literals;
using nlohmann::json;

class LiveServer {
 public:
  explicit LiveServer(const EngineOptions& engine, ServerOptions options = {})
      : server_(Engine(load_test_model("dense-tied", 256), engine), with_port(options)),
        thread_([this] { complete_ = server_.run(); }) {}
  ~LiveServer() {
    if (thread_.joinable()) end();
  }
  bool end() {
    server_.drain();
    thread_.join();
    return complete_;
  }
  Url url() const { return {false, "127.0.0.1", server_.port(), ""}; }
  json state() const { return json::parse(HttpClient(url()).ask("GET", "/state").body); }
  /// The state, once nothing runs or waits.
  json idle_state() const {
    for (int i = 0; i < 500; ++i, std::this_thread::sleep_for(10ms))
      if (json s = state(); s["running"] == 0 && s["waiting"] == 0) return s;
    ADD_FAILURE() << "sequences still run";
    return state();
  }

 private:
  static ServerOptions with_port(ServerOptions options) {
    options.port = 0;
    return options;
  }
  Server server_;
  bool complete_ = false;
  std::thread thread_;
};

std::string chat(int tokens, bool stream) {
  json body = {{"messages", {{{"role", "user"}, {"content", "question"}}}},
               {"max_tokens", tokens},
               {"stream", stream},
               {"ignore_eos", true}};
  return body.dump();
}

TEST(MortarServerLive, ClientsThatLeaveLeaveNothingBehind) {
  LiveServer server({.max_batch = 4, .max_queue = 3});
  std::atomic<int> answered{0}, rejected{0}, left{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < 6; ++c) {
    clients.emplace_back([&, c] {
      for (int i = 0; i < 8; ++i) {
        const bool leaves = (c + i) % 3 == 0;
        HttpClient client(server.url(), {.timeout = leaves ? std::chrono::milliseconds(5 + 7 * i) : 60'000ms});
        const HttpAnswer a = client.ask("POST", "/v1/chat/completions", chat(leaves ? 200 : 4, i % 2 == 0),
                                        {{"Content-Type", "application/json"}});
        if (!a.error.empty())
          ++left;
        else if (a.status == 503)
          ++rejected;
        else if (a.status == 200)
          ++answered;
      }
    });
  }
  for (std::thread& t : clients) t.join();
  EXPECT_GT(answered, 0);
  EXPECT_GT(left, 0);
  EXPECT_LE(answered + rejected + left, 48);
  const json s = server.idle_state();
  EXPECT_EQ(s["held_pages"], 0);
  EXPECT_EQ(s["received"].get<int>(),
            s["rejected"].get<int>() + s["finished"].get<int>() + s["cancelled"].get<int>() + s["failed"].get<int>())
      << s;
  EXPECT_EQ(s["failed"], 0);
  EXPECT_TRUE(server.end());
}

TEST(MortarServerLive, EachTokenIsDecodedOnce) {
  LiveServer server({.max_batch = 1});
  const std::int64_t before = server::lookups;
  const HttpAnswer a = HttpClient(server.url())
                           .ask("POST", "/v1/completions", R"({"prompt": "a", "max_tokens": 60, "ignore_eos": true})",
                                {{"Content-Type", "application/json"}});
  EXPECT_EQ(a.status, 200) << a.body;
  EXPECT_LE(server::lookups - before, 60);
  EXPECT_GT(server::lookups - before, 30);
}

TEST(MortarServerLive, DrainingEndsLateAnswersWithAnError) {
  LiveServer server({.max_batch = 2}, {.drain = 0.05});
  HttpClient client(server.url());
  std::string text, error = "not ended";
  std::atomic<bool> begun{false}, ended{false};
  client.send({.method = "POST",
               .path = "/v1/completions",
               .headers = {{"Content-Type", "application/json"}},
               .body = R"({"prompt": "a", "max_tokens": 250, "stream": true, "ignore_eos": true})",
               .on_head = {},
               .on_data =
                   [&](std::string_view data) {
                     text += data;
                     begun = true;
                   },
               .on_end =
                   [&](std::string e) {
                     error = std::move(e);
                     ended = true;
                   }});
  while (!begun) std::this_thread::sleep_for(1ms);
  const bool complete = server.end();
  for (int i = 0; i < 500 && !ended; ++i) std::this_thread::sleep_for(10ms);
  if (complete) GTEST_SKIP() << "the answer ended by itself within 50 ms";
  EXPECT_EQ(error, "");
  EXPECT_NE(text.find("\"code\":\"shutting_down\""), std::string::npos);
  EXPECT_TRUE(text.ends_with("data: [DONE]\n\n"));
}

TEST(MortarServerLive, AnswersThatTakeTooLongEnd) {
  LiveServer server({.max_batch = 1, .max_queue = 8}, {.timeout = 0.05});
  std::vector<std::thread> clients;
  std::atomic<int> late{0}, whole{0};
  for (int i = 0; i < 8; ++i)
    clients.emplace_back([&] {
      HttpClient client(server.url());
      const HttpAnswer a =
          client.ask("POST", "/v1/chat/completions", chat(220, false), {{"Content-Type", "application/json"}});
      if (a.status == 503 && a.body.find("\"timeout\"") != std::string::npos) ++late;
      if (a.status == 200) ++whole;
    });
  for (std::thread& t : clients) t.join();
  EXPECT_EQ(late + whole, 8);
  EXPECT_GT(late, 0);
  const json s = server.idle_state();
  EXPECT_EQ(s["failed"].get<int>(), late);
  EXPECT_EQ(s["held_pages"], 0);
}

}  // namespace THIS_FILE
}  // namespace mortar::test
