// The server with a small model, over loopback: clients that leave and requests that are rejected leave nothing behind.
#include "mortar/server.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "http/client.hpp"
#include "mortar/engine/test_engine.hpp"
#include "mortar/eventually.hpp"
#include "tessera/runtime/memory.hpp"

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
      : LiveServer(Engine(load_test_model("dense-tied", 256), engine), std::move(options)) {}
  explicit LiveServer(Engine engine, ServerOptions options = {})
      : server_(std::move(engine), with_port(std::move(options))), thread_([this] { run(); }) {}
  ~LiveServer() {
    if (thread_.joinable()) end();
  }
  bool end() {
    server_.drain();
    thread_.join();
    return complete_;
  }
  /// What run() has thrown; waits for it.
  std::string error() {
    thread_.join();
    return error_;
  }
  Url url() const { return {false, "127.0.0.1", server_.port(), ""}; }
  json state() const { return json::parse(HttpClient(url()).ask("GET", "/state").body); }
  /// The state, once nothing runs or waits.
  json idle_state() const {
    json s;
    EXPECT_TRUE(eventually([&] {
      s = state();
      return s["running"] == 0 && s["waiting"] == 0;
    })) << "sequences still run";
    return s;
  }

 private:
  static ServerOptions with_port(ServerOptions options) {
    options.port = 0;
    return options;
  }
  Server server_;
  void run() {
    try {
      complete_ = server_.run();
    } catch (const std::exception& e) { error_ = e.what(); }
  }
  bool complete_ = false;
  std::string error_;
  std::thread thread_;
};

const HttpHeaders kJson = {{"Content-Type", "application/json"}};

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
        const HttpAnswer a = client.ask("POST", "/v1/chat/completions", chat(leaves ? 200 : 4, i % 2 == 0), kJson);
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
  EXPECT_GT(s["cancelled"], 0);
  EXPECT_TRUE(server.end());
}

TEST(MortarServerLive, EachTokenIsDecodedOnce) {
  LiveServer server({.max_batch = 1});
  const std::int64_t before = server::lookups;
  const HttpAnswer a =
      HttpClient(server.url())
          .ask("POST", "/v1/completions",
               R"({"prompt": "a", "max_tokens": 60, "seed": 3, "ignore_eos": true, "return_token_ids": true})",
               {{"Content-Type", "application/json"}});
  EXPECT_EQ(a.status, 200) << a.body;
  const Tokenizer tokenizer = load_test_model("dense-tied").tokenizer.value();
  std::int64_t most = 0, least = 0;  // special tokens have no text, and tags of thinking and calls are not text
  const json body = json::parse(a.body);
  for (const json& id : body["choices"][0]["token_ids"]) {
    most += tokenizer.is_special(id.get<TokenId>()) ? 0 : 1;
    least += tokenizer.is_added(id.get<TokenId>()) ? 0 : 1;
  }
  EXPECT_GT(least, 0);
  EXPECT_GE(server::lookups - before, least);
  EXPECT_LE(server::lookups - before, most);
}

TEST(MortarServerLive, DrainingEndsLateAnswersWithAnError) {
  LiveServer server({.max_batch = 2}, {.drain = 0.05});
  HttpClient client(server.url());
  std::string text, error = "not ended";
  std::atomic<bool> begun{false}, ended{false};
  client.send({.method = "POST",
               .path = "/v1/completions",
               .headers = kJson,
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
  EXPECT_TRUE(eventually([&] { return begun.load(); }));
  const bool complete = server.end();
  EXPECT_TRUE(eventually([&] { return ended.load(); }));
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
      const HttpAnswer a = client.ask("POST", "/v1/chat/completions", chat(220, false), kJson);
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

std::string completion(std::size_t prompt, std::int64_t tokens, std::uint32_t seed = 1) {
  return json{{"prompt", some_ids(prompt, seed)},
              {"max_tokens", tokens},
              {"ignore_eos", true},
              {"seed", seed},
              {"temperature", 1},
              {"return_token_ids", true}}
      .dump();
}

/// The cache has fewer tokens than the model's context, which it then bounds.
TEST(MortarServerLive, PromptsAndAnswersBeyondTheContext) {
  LiveServer server({.max_batch = 2, .kv_tokens = 2 * 64});
  HttpClient client(server.url());
  const auto ask = [&](std::size_t prompt, std::int64_t tokens) {
    return client.ask("POST", "/v1/completions", completion(prompt, tokens), kJson);
  };
  struct Case {
    std::size_t prompt;
    std::int64_t tokens;
    const char* code;
    std::vector<std::string> numbers;
  };
  for (const Case& c : {Case{130, 1, "invalid_value", {"128", "130"}}, Case{128, 1, "context_length_exceeded", {"128"}},
                        Case{100, 29, "context_length_exceeded", {"128", "100", "29"}}}) {
    const HttpAnswer a = ask(c.prompt, c.tokens);
    EXPECT_EQ(a.status, 400);
    const json error = json::parse(a.body)["error"];
    EXPECT_EQ(error["code"], c.code);
    for (const std::string& number : c.numbers)
      EXPECT_NE(error["message"].get<std::string>().find(number), std::string::npos) << error;
  }
  EXPECT_EQ(server.state()["waiting"], 0);
  const HttpAnswer all = ask(100, 28);  // fills the cache, and ends
  EXPECT_EQ(all.status, 200) << all.body;
  EXPECT_EQ(json::parse(all.body)["choices"][0]["finish_reason"], "length");
  EXPECT_TRUE(server.end());
}

TEST(MortarServerLive, AnswersThatShareASmallCacheAreAsAlone) {
  LiveServer server({.max_batch = 4, .kv_tokens = 5 * 64, .batch_invariant = true});
  constexpr std::uint32_t kClients = 4;
  const auto ask = [&](std::uint32_t i) {
    HttpClient client(server.url());
    const HttpAnswer a = client.ask("POST", "/v1/completions", completion(50 + i, 60, i), kJson);
    EXPECT_EQ(a.status, 200) << a.body << a.error;
    return a.status == 200 ? json::parse(a.body)["choices"][0]["token_ids"] : json();
  };
  std::vector<json> alone, together(kClients);
  for (std::uint32_t i = 0; i < kClients; ++i) alone.push_back(ask(i));
  for (int round = 0; round < 5 && server.state()["preemptions"] == 0; ++round) {
    std::vector<std::thread> clients;
    for (std::uint32_t i = 0; i < kClients; ++i) clients.emplace_back([&, i] { together[i] = ask(i); });
    for (std::thread& t : clients) t.join();
    EXPECT_EQ(together, alone);
  }
  const json s = server.idle_state();
  EXPECT_GT(s["preemptions"], 0);
  EXPECT_EQ(s["failed"], 0);
  EXPECT_EQ(s["held_pages"], 0);
}

TEST(MortarServerLive, NewRequestsAreRejectedWhileTheHostHasNoMemory) {
  const std::string path = std::filesystem::temp_directory_path() / ("meminfo-live-" + std::to_string(::getpid()));
  const auto write = [&](int available) {
    std::ofstream(path) << "MemTotal: 1000 kB\nMemAvailable: " << available << " kB\n";
  };
  write(400);
  LiveServer server({.max_batch = 2}, {.memory_file = path});
  HttpClient client(server.url());
  EXPECT_EQ(client.ask("POST", "/v1/chat/completions", chat(2, false), kJson).status, 200);
  write(40);
  std::this_thread::sleep_for(150ms);
  const HttpAnswer low = client.ask("POST", "/v1/chat/completions", chat(2, false), kJson);
  EXPECT_EQ(low.status, 503);
  EXPECT_EQ(json::parse(low.body)["error"]["code"], "low_memory");
  EXPECT_EQ(client.ask("GET", "/health").status, 200) << "to be started again would not help";
  EXPECT_EQ(server.state()["rejected"], 1);
  write(400);
  std::this_thread::sleep_for(150ms);
  EXPECT_EQ(client.ask("POST", "/v1/chat/completions", chat(2, false), kJson).status, 200);
  EXPECT_TRUE(server.end());
  std::filesystem::remove(path);
}

/// The engine's thread is held in the middle of its work by the function of a sequence, as a kernel would that hangs.
TEST(MortarServerLive, AStepThatHangsEndsTheServer) {
  Engine engine(load_test_model("dense-tied", 256), {.max_batch = 4});
  (void)answer(engine, some_request(3, 20));  // what the first steps take longer for
  std::promise<void> release;
  std::atomic<bool> holds{false};
  engine.submit(some_request(3, 20), [&, count = 0](const Token&) mutable {
    if (++count != 3) return;
    holds = true;
    release.get_future().wait();
  });
  std::atomic<int> hung{0};
  std::string noted;
  std::mutex mutex;
  LiveServer server(std::move(engine), {.note =
                                            [&](const std::string& line) {
                                              const std::lock_guard lock(mutex);
                                              noted += line;
                                            },
                                        .step_limit = 0.4,  // the first steps have ten times as much
                                        .hung = [&] { ++hung; }});
  EXPECT_TRUE(eventually([&] { return holds.load(); }));
  HttpClient client(server.url());
  const HttpAnswer answer = client.ask("POST", "/v1/chat/completions", chat(4, false), kJson);
  EXPECT_TRUE(answer.status == 500 || answer.status == 503) << answer.status << answer.error << answer.body;
  EXPECT_TRUE(eventually([&] { return hung == 1; }));
  release.set_value();
  EXPECT_NE(server.error().find("has not ended"), std::string::npos);
  const std::lock_guard lock(mutex);
  EXPECT_NE(noted.find("running 1"), std::string::npos) << noted;
}

/// No step succeeds any more: all clients are told, /health says so, and run() throws, all within the patience of the
/// clients.
TEST(MortarServerLive, AnEngineThatFailsEndsTheServer) {
  const tessera::Device cpu = tessera::Device::cpu();
  LiveServer server({.max_batch = 4});
  HttpClient client(server.url());
  EXPECT_EQ(client.ask("POST", "/v1/chat/completions", chat(2, false), kJson).status, 200);
  tessera::trim_memory(cpu);
  tessera::set_memory_limit(cpu, tessera::memory_stats(cpu).in_use);  // no state for penalties can be made
  json penalised = json::parse(chat(4, false));
  penalised["frequency_penalty"] = 1;
  std::atomic<int> told{0}, other{0};
  std::atomic<bool> ended{false};
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i)
    clients.emplace_back([&] {
      HttpClient asking(server.url(), {.timeout = std::chrono::milliseconds(kPatience)});
      while (!ended) {
        const HttpAnswer a = asking.ask("POST", "/v1/chat/completions", penalised.dump(), kJson);
        if (a.status == 500 || a.status == 503)
          ++told;
        else if (a.status != 0 || a.error.starts_with("timeout"))
          ++other;
        else
          return;  // the server has gone
      }
    });
  const std::string error = server.error();
  ended = true;
  tessera::set_memory_limit(cpu, tessera::kNoMemoryLimit);
  for (std::thread& t : clients) t.join();
  EXPECT_NE(error, "");
  EXPECT_GT(told, 0);
  EXPECT_EQ(other, 0);
}

}  // namespace THIS_FILE
}  // namespace mortar::test
