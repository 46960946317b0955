// Requests that are no HTTP, or over a limit: the right status, the end of the connection where the rest cannot be
// read, and a parser whose result does not depend on how its input was cut.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "http/message_parser.hpp"
#include "http/router.hpp"
#include "mortar/http/test_server.hpp"

namespace mortar::test {
namespace THIS_FILE {

using ::testing::HasSubstr;
using ::testing::Not;

HttpOptions small_limits() {
  HttpOptions options = test_options();
  options.header_limit = 4096;
  options.header_count = 20;
  options.body_limit = 1000;
  options.linger_timeout = 10s;  // a client that sends much for a while yet still gets its answer
  return options;
}

TEST(HttpMalformed, Statuses) {
  TestServer s(small_limits());
  const std::string host = "Host: a\r\n", post = "POST /echo HTTP/1.1\r\n" + host;
  std::string many;
  for (int i = 0; i < 30; ++i) many += "X-" + std::to_string(i) + ": 1\r\n";
  const struct {
    int status;
    std::string request;
  } kCases[] = {
      {400, "garbage\r\n\r\n"},
      {400, std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(50, 'x')},  // TLS
      {505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
      {400, "GET /hello\r\n\r\n"},  // HTTP/0.9
      {505, "GET /hello HTTP/3.7\r\n" + host + "\r\n"},
      {400, "GET /hello HTTP/1.1\n" + host + "\n"},
      {400, "GET  /hello HTTP/1.1\r\n" + host + "\r\n"},
      {400, "GE(T /hello HTTP/1.1\r\n" + host + "\r\n"},
      {400, "GET hello HTTP/1.1\r\n" + host + "\r\n"},
      {400, "GET * HTTP/1.1\r\n" + host + "\r\n"},
      {400, "GET /he%6 HTTP/1.1\r\n" + host + "\r\n"},
      {400, "GET /he%zzllo HTTP/1.1\r\n" + host + "\r\n"},
      {400, "GET /hello%00 HTTP/1.1\r\n" + host + "\r\n"},
      {400, "GET /h\xc3\xa4llo HTTP/1.1\r\n" + host + "\r\n"},
      {400, "GET /hello HTTP/1.1\r\n\r\n"},
      {400, "GET /hello HTTP/1.1\r\n" + host + "host: b\r\n\r\n"},
      {400, "GET /hello HTTP/1.1\r\n" + host + "X: a\r\n b\r\n\r\n"},
      {400, "GET /hello HTTP/1.1\r\n X: a\r\n" + host + "\r\n"},
      {400, "GET /hello HTTP/1.1\r\n" + host + "X : a\r\n\r\n"},
      {400, "GET /hello HTTP/1.1\r\n" + host + "no colon\r\n\r\n"},
      {400, "GET /hello HTTP/1.1\r\n" + host + std::string("X: a\0b\r\n\r\n", 10)},
      {400, "GET /hello HTTP/1.1\r\n" + host + "X: a\rb\r\n\r\n"},
      {414, "GET /" + std::string(1 << 20, 'a') + " HTTP/1.1\r\n" + host + "\r\n"},
      {431, "GET /hello HTTP/1.1\r\n" + host + "X: " + std::string(5000, 'a') + "\r\n\r\n"},
      {431, "GET /hello HTTP/1.1\r\n" + host + many + "\r\n"},
      {400, post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {400, post + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"},
      {400, post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {400, post + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"},
      {400, post + "Content-Length: 3, 4\r\n\r\nabcd"},
      {400, post + "Content-Length: -1\r\n\r\n"},
      {400, post + "Content-Length: 0x3\r\n\r\nabc"},
      {400, post + "Content-Length: 99999999999999999999\r\n\r\n"},
      {501, post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
      {501, post + "Transfer-Encoding: gzip\r\n\r\n"},
      {400, "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {400, post + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n"},
      {400, post + "Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n"},
      {400, post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloworld\r\n0\r\n\r\n"},
      {400, post + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nhello"},
      {413, post + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nhello"},
      {413, post + "Transfer-Encoding: chunked\r\n\r\n1f4\r\n" + std::string(500, 'x') + "\r\n1f5\r\n"},
      {413, post + "Content-Length: 1001\r\n\r\n"},
      {400, post + "Transfer-Encoding: chunked\r\n\r\n5;" + std::string(100'000, 'x')},
      {400, post + "Transfer-Encoding: chunked\r\n\r\n0\r\nX: " + std::string(100'000, 'x')},
      {411, post + "\r\n"},
      {415, post + "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}"},
      {415, post + "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 2\r\n\r\n{}"},
      {415, post + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"},
      {417, post + "Expect: the-unexpected\r\nContent-Length: 2\r\n\r\n{}"},
      // Their twins.
      {200, "\r\n\r\nGET /hello HTTP/1.1\r\n" + host + "\r\n"},
      {200, "GET /hello HTTP/1.1\r\n" + host + "X:\ta  \r\nY:\r\n\r\n"},
      {200, post + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"},
      {200, post + "content-type: Application/JSON ; charset=utf-8\r\nContent-Length: 1000\r\n\r\n" +
                std::string(1000, 'x')},
      {200, post + "Transfer-Encoding: Chunked\r\n\r\n0005;a=\"b\"\r\nhello\r\n0\r\nX: y\r\n\r\n"},
      {200, post + "Content-Length: 0\r\n\r\n"},
  };
  for (const auto& c : kCases) {
    RawClient client = s.connect();
    client.send(c.request);
    const RawResponse r = read_response(client);
    EXPECT_EQ(r.status, c.status) << c.request.substr(0, 200);
    if (c.status == 400 || c.status == 413 || c.status == 431) {
      EXPECT_TRUE(r.header("Connection") == "close" || c.request.starts_with("GET")) << c.request.substr(0, 200);
    }
  }
  s.expect_clean();
  EXPECT_GT(s.server.stats().malformed, 20U);
}

TEST(HttpMalformed, ATooLargeBodyIsNotReadAndItsAnswerArrives) {
  TestServer s(small_limits());
  RawClient client = s.connect();
  const std::string body(4 << 20, 'x');
  std::thread sender([&] { client.send(post("/echo", body)); });
  const RawResponse r = read_response(client);
  sender.join();
  EXPECT_EQ(r.status, 413);
  EXPECT_THAT(r.body, HasSubstr("1000 bytes"));
  client.close();
  s.expect_clean();
}

TEST(HttpMalformed, AllBodiesTogetherAreLimited) {
  HttpOptions options = test_options();
  options.body_memory = 100'000;
  TestServer s(options);
  const std::string request = post("/echo", std::string(60'000, 'x'));
  RawClient first = s.connect(), second = s.connect();
  first.send(request.substr(0, request.size() - 1));
  EXPECT_TRUE(eventually([&] { return s.server.stats().bytes_in >= request.size() - 1; }));
  second.send(request);
  EXPECT_EQ(read_response(second).status, 503);
  // What the second one has sent counts until its connection has ended.
  EXPECT_TRUE(eventually([&] { return s.server.stats().connections == 1; }));
  first.send("x");
  EXPECT_EQ(read_response(first).status, 200);
  EXPECT_EQ(s.ask(request).status, 200) << "the memory is given back";
}

TEST(HttpMalformed, ConnectionsEndAfterAnUnreadBody) {
  TestServer s;
  RawClient client = s.connect();
  client.send(post("/nothing", "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_EQ(read_response(client).status, 404);
  client.end_writing();
  EXPECT_EQ(client.read_all(), "") << "the body must not be taken for a request";
  RawClient other = s.connect();  // without a body it goes on
  other.send(get("/nothing") + get("/hello"));
  EXPECT_EQ(read_response(other).status, 404);
  EXPECT_EQ(read_response(other).status, 200);
}

TEST(HttpMalformed, ExpectContinue) {
  HttpOptions options = test_options();
  options.api_keys = {{"a", "key"}};
  TestServer s(options);
  RawClient client = s.connect();
  const std::string request = post("/echo", "hello", "Expect: 100-continue\r\nAuthorization: Bearer key\r\n");
  client.send(request.substr(0, request.size() - 5));
  EXPECT_EQ(read_response(client).status, 100);
  client.send("hello");
  EXPECT_EQ(read_response(client).body, "hello");
  RawClient stranger = s.connect();  // learns that it is not wanted before it sends the body
  const std::string unknown = post("/echo", "hello", "Expect: 100-continue\r\n");
  stranger.send(unknown.substr(0, unknown.size() - 5));
  EXPECT_EQ(read_response(stranger).status, 401);
  RawClient eager = s.connect();
  eager.send(request);
  const std::string first = eager.read_until("\r\n\r\n");
  EXPECT_THAT(first, HasSubstr("200 OK"));
}

TEST(Router, Patterns) {
  Router router;
  std::string called;
  const auto handler = [](HttpRequest, std::shared_ptr<HttpReply>) {};
  router.add("GET", "/a/{x}/c", handler);
  router.add("POST", "/a/{x}/c", handler);
  router.add("GET", "/files/{path*}", handler);
  router.add("GET", "/", handler);
  EXPECT_EQ(router.find("GET", "/a/b%2Fb/c").parameters[0].second, "b/b");
  EXPECT_EQ(router.find("PUT", "/a/b/c").allow, "GET, HEAD, OPTIONS, POST");
  EXPECT_EQ(router.find("PUT", "/a/b/c").route, nullptr);
  EXPECT_TRUE(router.find("GET", "/a//c").allow.empty());
  EXPECT_TRUE(router.find("GET", "/a/b/c/d").allow.empty());
  EXPECT_EQ(router.find("GET", "/files/x/y/z").parameters[0].second, "x/y/z");
  EXPECT_TRUE(router.find("GET", "/files").allow.empty());
  EXPECT_NE(router.find("HEAD", "/").route, nullptr);
  EXPECT_ANY_THROW(router.add("GET", "a", handler));
  EXPECT_ANY_THROW(router.add("GET", "/{a*}/b", handler));
}

/// All that a parser says about its input.
std::string outcome(std::string_view input, const std::vector<std::size_t>& cuts) {
  const auto parser = make_request_parser({2048, 20, 300});
  std::optional<HttpFault> fault;
  std::string buffer;
  std::size_t from = 0, used = 0;
  for (std::size_t i = 0; i <= cuts.size() && !fault && !parser->done(); ++i) {
    const std::size_t to = i < cuts.size() ? cuts[i] : input.size();
    buffer += input.substr(from, to - from);
    from = to;
    for (;;) {
      const std::size_t n = buffer.empty() ? 0 : parser->put(buffer, fault);
      buffer.erase(0, n);
      used += n;
      if (n == 0 || fault || parser->done()) break;
    }
  }
  if (fault) return "fault";  // which of several is found first may depend on the pieces
  std::string out = parser->head.method + " " + parser->head.target + (parser->done() ? " done " : " more ");
  for (const auto& [name, value] : parser->head.headers) out += name + "=" + value + ";";
  return out + parser->body + (parser->done() ? " " + std::to_string(used) : "");
}

TEST(MessageParser, EveryWayOfCuttingGivesTheSameResult) {
  std::mt19937 random(11);
  const std::string seeds[] = {
      get("/a?b", "X: y\r\nLong: " + std::string(100, 'z') + "\r\n"),
      post("/p", std::string(200, 'b')) + get("/next"),
      "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;e=1\r\nhello\r\n1\r\n \r\n0\r\nT: "
      "t\r\n\r\nGET",
  };
  constexpr std::string_view kBytes = "\r\n\r\n :;,=0123456789abcdefF\t\"xX-\0\x7f\xff/%";
  int faults = 0, done = 0;
  for (int round = 0; round < 6000; ++round) {
    std::string input = seeds[random() % std::size(seeds)];
    for (std::size_t edits = random() % 4; edits > 0; --edits) {
      const std::size_t at = random() % input.size();
      const char c = kBytes[random() % kBytes.size()];
      switch (random() % 4) {
        case 0: input[at] = c; break;
        case 1: input.insert(at, 1, c); break;
        case 2: input.erase(at, 1 + random() % 3); break;
        default: input.insert(at, input.substr(random() % input.size(), random() % 20));
      }
    }
    input += "\r\n\r\n";  // a head is judged at its end only, if it has come in pieces
    const std::string whole = outcome(input, {});
    faults += whole.starts_with("fault");
    done += whole.find(" done ") != std::string::npos;
    std::vector<std::size_t> cuts;
    for (std::size_t at = 0; at < input.size(); at += 1 + random() % (round % 2 ? 3 : 60)) cuts.push_back(at);
    ASSERT_EQ(outcome(input, cuts), whole) << input;
  }
  EXPECT_GT(faults, 500);
  EXPECT_GT(done, 500);
}

}  // namespace THIS_FILE
}  // namespace mortar::test
