// The client: connections used again, answers in pieces, errors by kind; and TLS between both sides.
#include "http/client.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <random>

#include "mortar/http/certificate.hpp"
#include "mortar/http/test_server.hpp"

namespace mortar::test {
namespace THIS_FILE {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string url_of(const TestServer& s, const char* scheme = "http", const char* host = "127.0.0.1") {
  return std::string(scheme) + "://" + host + ":" + std::to_string(s.server.port());
}

TEST(Url, Parts) {
  const Url plain = parse_url("http://localhost");
  EXPECT_EQ(plain.port, 80);
  EXPECT_EQ(plain.authority(), "localhost");
  const Url all = parse_url("https://[::1]:8443/base/v1//");
  EXPECT_TRUE(all.tls);
  EXPECT_EQ(all.host, "::1");
  EXPECT_EQ(all.port, 8443);
  EXPECT_EQ(all.path, "/base/v1");
  EXPECT_EQ(all.authority(), "[::1]:8443");
  EXPECT_EQ(parse_url("https://a.b").port, 443);
  for (const char* bad : {"", "a.b", "ftp://a", "http://", "http:///x", "http://a:0", "http://a:65536", "http://a:x",
                          "http://a:", "http://a b", "http://u@a", "http://a?x", "http://a\r\nX:"})
    EXPECT_ANY_THROW(parse_url(bad)) << bad;
}

TEST(HttpClient, UsesConnectionsAgain) {
  TestServer s;
  HttpClient client(parse_url(url_of(s)));
  for (int i = 0; i < 5; ++i) {
    const HttpAnswer answer = client.ask("POST", "/echo", "body " + std::to_string(i));
    EXPECT_EQ(answer.error, "");
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "body " + std::to_string(i));
  }
  EXPECT_EQ(client.ask("GET", "/nothing").status, 404);
  EXPECT_EQ(client.ask("HEAD", "/hello").status, 200);
  EXPECT_EQ(client.ask("GET", "/big").body.size(), std::size_t{8} << 20);
  EXPECT_EQ(s.server.stats().accepted, 1U);
}

TEST(HttpClient, ManyCallsAtATime) {
  TestServer s;
  HttpClient client(parse_url(url_of(s)));
  std::promise<void> done;
  std::atomic<int> left{200};
  for (int i = 0; i < 200; ++i) {
    HttpCall call{"POST", "/echo", {}, std::to_string(i), {}, {}, {}};
    const auto body = std::make_shared<std::string>();
    call.on_data = [body](std::string_view data) { *body += data; };
    call.on_end = [&, body, i](const std::string& error) {
      EXPECT_EQ(error, "");
      EXPECT_EQ(*body, std::to_string(i));
      if (--left == 0) done.set_value();
    };
    client.send(std::move(call));
  }
  ASSERT_EQ(done.get_future().wait_for(std::chrono::milliseconds(kPatience)), std::future_status::ready);
}

TEST(HttpClient, AnIdleConnectionThatTheServerClosed) {
  HttpOptions options = test_options();
  options.keep_alive = 20ms;
  TestServer s(options);
  HttpClient client(parse_url(url_of(s)));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client.ask("GET", "/hello").error, "");
    EXPECT_TRUE(eventually([&] { return s.server.stats().connections <= 1; }));
    std::this_thread::sleep_for(40ms);
  }
}

TEST(HttpClient, ErrorsByKind) {
  auto s = std::make_unique<TestServer>();
  HttpClient hasty(parse_url(url_of(*s)), {.timeout = 100ms}), client(parse_url(url_of(*s)));
  EXPECT_THAT(hasty.ask("GET", "/wait").error, StartsWith("timeout: "));
  EXPECT_THAT(client.ask("GET", "/break").error, StartsWith("disconnected: "));
  EXPECT_THAT(client.ask("GET", "/break").body, HasSubstr("data: first"));
  s.reset();
  EXPECT_THAT(client.ask("GET", "/hello").error, StartsWith("connect: "));
  // One that talks no HTTP.
  const int listening = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listening, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listening, 5), 0);
  ASSERT_EQ(::getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size), 0);
  std::thread other([&] {
    const int peer = ::accept(listening, nullptr, nullptr);
    EXPECT_GT(::send(peer, "SSH-2.0-x\r\n\r\n", 13, MSG_NOSIGNAL), 0);
    char buffer[1000];
    while (::recv(peer, buffer, sizeof buffer, 0) > 0) {}
    ::close(peer);
  });
  HttpClient strange(parse_url("http://127.0.0.1:" + std::to_string(ntohs(address.sin_port))));
  EXPECT_THAT(strange.ask("GET", "/").error, StartsWith("malformed: "));
  other.join();
  ::close(listening);
}

TEST(HttpClient, EndsItsCalls) {
  TestServer s;
  std::string error;
  {
    HttpClient client(parse_url(url_of(s)));
    client.send({"GET", "/wait", {}, {}, {}, {}, [&](std::string e) { error = std::move(e); }});
    ASSERT_NE(s.answer(), nullptr);
  }
  EXPECT_THAT(error, StartsWith("cancelled: "));
}

class HttpTls : public ::testing::Test {
 protected:
  HttpOptions options() const {
    HttpOptions o = test_options();
    o.tls_cert = own_.cert;
    o.tls_key = own_.key;
    o.linger_timeout = 100ms;
    return o;
  }
  Certificate own_{"own"}, other_{"other"};
};

TEST_F(HttpTls, AnswersAndStreams) {
  TestServer s(options());
  HttpClient client(parse_url(url_of(s, "https", "localhost")), {.authorities = own_.cert});
  EXPECT_EQ(client.ask("GET", "/hello?x").body, "hello x");
  EXPECT_EQ(client.ask("GET", "/big").body.size(), std::size_t{8} << 20);
  EXPECT_EQ(client.ask("POST", "/echo", std::string(100'000, 'y')).body, std::string(100'000, 'y'));
  EXPECT_EQ(s.server.stats().accepted, 1U);
  std::promise<std::string> ended;
  std::string body;
  std::promise<void> first;
  HttpCall call{"POST", "/wait", {}, "{}", {}, {}, {}};
  call.on_data = [&, told = false](std::string_view data) mutable {
    body += data;
    if (!std::exchange(told, true)) first.set_value();
  };
  call.on_end = [&](std::string error) { ended.set_value(std::move(error)); };
  client.send(std::move(call));
  const auto reply = s.answer();
  reply->begin_stream();
  reply->event("one");
  ASSERT_EQ(first.get_future().wait_for(std::chrono::milliseconds(kPatience)), std::future_status::ready)
      << "an event comes before the next";
  reply->event("two");
  reply->end_stream();
  EXPECT_EQ(ended.get_future().get(), "");
  EXPECT_EQ(body, "data: one\n\ndata: two\n\n");
}

TEST_F(HttpTls, CertificatesAreChecked) {
  TestServer s(options());
  EXPECT_THAT(HttpClient(parse_url(url_of(s, "https")), {.authorities = other_.cert}).ask("GET", "/hello").error,
              StartsWith("tls: "));
  EXPECT_THAT(HttpClient(parse_url(url_of(s, "https"))).ask("GET", "/hello").error, StartsWith("tls: "));
  EXPECT_EQ(HttpClient(parse_url(url_of(s, "https")), {.verify = false}).ask("GET", "/hello").error, "");
  EXPECT_EQ(HttpClient(parse_url(url_of(s, "https")), {.authorities = own_.cert}).ask("GET", "/hello").error, "");
}

TEST_F(HttpTls, ClientLeavesInAStream) {
  TestServer s(options());
  std::atomic<bool> gone{false};
  {
    HttpClient client(parse_url(url_of(s, "https")), {.verify = false});
    client.send({"POST", "/wait", {}, "{}", {}, {}, {}});
    const auto reply = s.answer();
    reply->on_gone([&] { gone = true; });
    reply->begin_stream();
    reply->event("one");
  }
  EXPECT_TRUE(eventually([&] { return gone.load(); }));
  EXPECT_TRUE(eventually([&] { return s.server.stats().connections == 0; }));
}

TEST_F(HttpTls, HandshakeGarbage) {
  HttpOptions limited = options();
  limited.header_timeout = 2000ms;  // a good handshake takes less, however busy the machine is
  TestServer s(limited);
  std::mt19937 random(3);
  std::string noise(2000, 0);
  for (char& c : noise) c = static_cast<char>(random());
  const std::string hello("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  std::vector<RawClient> clients;
  for (const std::string& bytes : {get("/hello"), noise, hello + noise, std::string(), hello, std::string(1, '\x16')}) {
    clients.push_back(s.connect());
    clients.back().send(bytes);
  }
  for (RawClient& client : clients) EXPECT_TRUE(client.closed()) << "the handshake has a limit of time";
  clients.clear();
  for (int i = 0; i < 20; ++i) {
    RawClient client = s.connect();
    client.send(hello.substr(0, i % 11));
    client.reset();
  }
  EXPECT_EQ(HttpClient(parse_url(url_of(s, "https")), {.verify = false}).ask("GET", "/hello").error, "");
  EXPECT_TRUE(eventually([&] { return s.server.stats().connections == 0; }));
  // TLS spoken to a server without it.
  TestServer plain;
  EXPECT_THAT(HttpClient(parse_url(url_of(plain, "https"))).ask("GET", "/hello").error, StartsWith("tls: "));
}

TEST_F(HttpTls, FilesThatCannotBeUsed) {
  const auto message = [](const HttpOptions& o) -> std::string {
    try {
      HttpServer server(o);
    } catch (const std::exception& error) { return error.what(); }
    return "accepted";
  };
  EXPECT_EQ(message(options()), "accepted");
  HttpOptions o = options();
  o.tls_cert = "/no/such/file";
  EXPECT_THAT(message(o), HasSubstr("/no/such/file"));
  o = options();
  o.tls_key = other_.key;
  EXPECT_THAT(message(o), HasSubstr(other_.key));
  o = options();
  o.tls_key = own_.cert;
  EXPECT_THAT(message(o), HasSubstr(own_.cert));
  o.tls_key.clear();
  EXPECT_THAT(message(o), HasSubstr("one of them only"));
}

}  // namespace THIS_FILE
}  // namespace mortar::test
