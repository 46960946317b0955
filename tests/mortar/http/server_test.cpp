// What well-behaved clients see: methods, routes, keep-alive, streams, ids, the access log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "mortar/http/test_server.hpp"

namespace mortar::test {
namespace THIS_FILE {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(HttpServer, AnswersOverOneConnection) {
  TestServer s;
  RawClient client = s.connect();
  for (int i = 0; i < 3; ++i) {
    client.send(get("/hello?a=b"));
    const RawResponse r = read_response(client);
    EXPECT_EQ(r.status, 200);
    EXPECT_EQ(r.body, "hello a=b");
    EXPECT_EQ(r.header("Content-Type"), "text/plain");
    EXPECT_EQ(r.header("X-Extra"), "one  two") << "a header of an answer must not end its line";
    EXPECT_EQ(r.header("X-Request-Id").size(), 32U);
    client.send(post("/echo", R"({"n":1})"));
    EXPECT_EQ(read_response(client).body, R"({"n":1})");
  }
  EXPECT_EQ(s.server.stats().accepted, 1U);
  EXPECT_EQ(s.server.stats().requests, 6U);
  client.close();
  s.expect_clean();
}

TEST(HttpServer, ReadsRequestsInAnyPieces) {
  TestServer s;
  const std::string chunked =
      "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5;x=1\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n0\r\nTrailer: t\r\n\r\n";
  for (const std::string& request : {post("/echo", "hello world"), chunked})
    for (std::size_t cut = 1; cut < request.size(); cut += 3) {
      RawClient client = s.connect();
      for (const std::string& piece : {request.substr(0, cut), request.substr(cut)}) {
        client.send(piece);
        std::this_thread::sleep_for(200us);
      }
      ASSERT_EQ(read_response(client).body, "hello world") << cut;
    }
  RawClient client = s.connect();
  for (const char c : chunked + chunked) client.send(std::string(1, c));
  EXPECT_EQ(read_response(client).body, "hello world");
  EXPECT_EQ(read_response(client).body, "hello world");
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  TestServer s;
  RawClient client = s.connect();
  std::string all;
  for (int i = 0; i < 50; ++i) all += get("/hello?" + std::to_string(i)) + post("/echo", std::to_string(i));
  client.send(all);
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(read_response(client).body, "hello " + std::to_string(i));
    ASSERT_EQ(read_response(client).body, std::to_string(i));
  }
}

TEST(HttpServer, MethodsAndPaths) {
  TestServer s;
  const RawResponse head = s.ask("HEAD /hello HTTP/1.1\r\nHost: a\r\n\r\n", true);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("Content-Length"), "6");
  EXPECT_EQ(s.ask(get("/nothing")).status, 404);
  EXPECT_EQ(s.ask(get("/hello/")).status, 404);
  const RawResponse wrong = s.ask("DELETE /hello HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.header("Allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(s.ask("POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").status, 405);
  const RawResponse options = s.ask("OPTIONS /echo HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.header("Allow"), "OPTIONS, POST");
  EXPECT_EQ(s.ask("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").status, 204);
  EXPECT_EQ(s.ask(get("http://localhost/hello?x")).body, "hello x");
  EXPECT_EQ(s.ask(get("/models/Qwen/Qwen3-8B")).body, "Qwen/Qwen3-8B");
  EXPECT_EQ(s.ask(get("/models/Qwen%2FQwen3%208B")).body, "Qwen/Qwen3 8B");
  EXPECT_EQ(s.ask(get("/models/")).status, 404);
  EXPECT_EQ(s.ask(get("/%68ello")).status, 200);
  s.expect_clean();
}

TEST(HttpServer, Http10) {
  TestServer s;
  const RawResponse once = s.ask("GET /hello HTTP/1.0\r\n\r\n");
  EXPECT_EQ(once.status, 200);
  EXPECT_EQ(once.header("Connection"), "close");
  RawClient client = s.connect();
  for (int i = 0; i < 2; ++i) {
    client.send("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_EQ(read_response(client).header("Connection"), "keep-alive");
  }
  RawClient streamed = s.connect();
  streamed.send("GET /wait HTTP/1.0\r\n\r\n");
  const auto reply = s.answer();
  reply->begin_stream();
  reply->event("x");
  reply->end_stream();
  const std::string all = streamed.read_all();
  EXPECT_THAT(all, HasSubstr("\r\n\r\ndata: x\n\n"));
  EXPECT_THAT(all, Not(HasSubstr("chunked")));
}

TEST(HttpServer, StreamsEvents) {
  TestServer s;
  RawClient client = s.connect();
  client.send(post("/wait", "{}"));
  const auto reply = s.answer();
  reply->begin_stream({{"X-More", "1"}});
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("Content-Type: text/event-stream"));
  EXPECT_THAT(head, HasSubstr("Cache-Control: no-cache"));
  EXPECT_THAT(head, HasSubstr("X-Accel-Buffering: no"));
  EXPECT_THAT(head, HasSubstr("X-More: 1"));
  EXPECT_TRUE(reply->event("one"));  // comes before the next is there
  EXPECT_THAT(client.read_until("\n\n"), HasSubstr("data: one\n"));
  EXPECT_TRUE(reply->event("delta", "two\nlines"));
  EXPECT_THAT(client.read_until("\n\n"), HasSubstr("event: delta\ndata: two\ndata: lines\n"));
  reply->end_stream();
  EXPECT_THAT(client.read_until("0\r\n\r\n"), HasSubstr("0\r\n\r\n"));
  EXPECT_FALSE(reply->event("late"));
  reply->send(200, "text/plain", "late");
  client.send(get("/hello"));  // the connection goes on
  EXPECT_EQ(read_response(client).body, "hello ");
  EXPECT_FALSE(reply->gone());
}

TEST(HttpServer, EventsFromAnotherThreadComeWholeAndInOrder) {
  TestServer s;
  constexpr int kEvents = 2000, kClients = 4;
  std::vector<RawClient> clients;
  std::vector<std::thread> writers;
  for (int c = 0; c < kClients; ++c) {
    clients.push_back(s.connect());
    clients.back().send(post("/wait", "{}"));
    writers.emplace_back([reply = s.answer()] {
      reply->begin_stream();
      for (int i = 0; i < kEvents; ++i) EXPECT_TRUE(reply->event(std::to_string(i)));
      reply->end_stream();
    });
  }
  std::string expected;
  for (int i = 0; i < kEvents; ++i) expected += "data: " + std::to_string(i) + "\n\n";
  for (RawClient& client : clients) EXPECT_EQ(read_response(client).body, expected);
  for (std::thread& writer : writers) writer.join();
}

TEST(HttpServer, PingsWhileAStreamIsSilent) {
  HttpOptions options = test_options();
  options.ping_interval = 20ms;
  TestServer s(options);
  RawClient client = s.connect();
  client.send(post("/wait", "{}"));
  const auto reply = s.answer();
  std::this_thread::sleep_for(60ms);  // nothing comes before the stream begins
  reply->begin_stream();
  reply->event("x");
  for (int i = 0; i < 3; ++i) EXPECT_THAT(client.read_until(": ping\n\n"), HasSubstr(": ping\n\n"));
  reply->event("y");
  reply->end_stream();
  EXPECT_THAT(client.read_until("0\r\n\r\n"), HasSubstr("data: y\n\n"));
}

TEST(HttpServer, RequestIds) {
  TestServer s;
  EXPECT_EQ(s.ask(get("/hello", "X-Request-Id: mine-1\r\n")).header("X-Request-Id"), "mine-1");
  const std::string longest(128, 'a');
  EXPECT_EQ(s.ask(get("/hello", "x-request-id: " + longest + "\r\n")).header("X-Request-Id"), longest);
  for (const std::string& bad : {longest + "a", std::string("with space"), std::string("\xc3\xa4"), std::string()}) {
    const RawResponse r = s.ask(get("/hello", "X-Request-Id: " + bad + "\r\n"));
    EXPECT_EQ(r.header("X-Request-Id").size(), 32U) << bad;
  }
  EXPECT_NE(s.ask(get("/hello")).header("X-Request-Id"), s.ask(get("/hello")).header("X-Request-Id"));
  EXPECT_EQ(s.ask(get("/nothing", "X-Request-Id: mine-2\r\n")).header("X-Request-Id"), "mine-2");
}

TEST(HttpServer, AccessLogHasNoPromptsAndNoKeys) {
  HttpOptions options = test_options();
  options.api_keys = {{"team", "secret-key"}};
  TestServer s(options);
  s.ask(post("/echo?prompt=secret-query", "secret-body", "Authorization: Bearer secret-key\r\nX-Request-Id: r\"1\r\n"));
  ASSERT_TRUE(eventually([&] { return !s.log().empty(); }));
  const std::string line = s.log();
  EXPECT_THAT(line, Not(HasSubstr("secret")));
  const auto entry = nlohmann::json::parse(line);
  EXPECT_EQ(entry["id"], "r\"1");
  EXPECT_EQ(entry["key"], "team");
  EXPECT_EQ(entry["method"], "POST");
  EXPECT_EQ(entry["path"], "/echo");
  EXPECT_EQ(entry["status"], 200);
  EXPECT_EQ(entry["end"], "done");
  EXPECT_GT(entry["bytes_in"], 11);
  EXPECT_GT(entry["ms"], 0.0);
}

TEST(HttpServer, HandlersThatFail) {
  TestServer s;
  const RawResponse thrown = s.ask(get("/throw"));
  EXPECT_EQ(thrown.status, 500);
  EXPECT_THAT(thrown.body, HasSubstr("\"code\":\"internal_error\""));
  EXPECT_THAT(thrown.body, Not(HasSubstr("the handler failed"))) << "details are for the log";
  EXPECT_TRUE(eventually([&] { return s.log().find("the handler failed") != std::string::npos; }));
  EXPECT_EQ(s.ask(get("/forget")).status, 500);
  RawClient client = s.connect();
  client.send(get("/break"));
  const std::string all = client.read_all();
  EXPECT_THAT(all, HasSubstr("data: first\n\n"));
  EXPECT_THAT(all, Not(HasSubstr("\r\n0\r\n\r\n"))) << "a stream that broke must not look complete";
  s.expect_clean();
}

TEST(HttpServer, ErrorsInTheCallersShape) {
  TestServer s;
  const auto standard = nlohmann::json::parse(s.ask(get("/nothing")).body)["error"];
  EXPECT_EQ(standard["type"], "invalid_request_error");
  EXPECT_EQ(standard["code"], "not_found");
  HttpServer other(test_options());
  other.on_error(
      [](int status, std::string, std::string_view code) { return std::to_string(status) + " " + std::string(code); });
  other.start();
  RawClient client(other.port());
  client.send(get("/nothing"));
  EXPECT_EQ(read_response(client).body, "404 not_found");
}

}  // namespace THIS_FILE
}  // namespace mortar::test
