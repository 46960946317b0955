// Limits that clients try to get around: memory by bodies that wait, time by reading slowly, connections by vanishing;
// and bytes of theirs that are repeated to them.
#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <nlohmann/json.hpp>

#include "mortar/http/test_server.hpp"
#include "text/utf8.hpp"

namespace mortar::test {
namespace THIS_FILE {

using ::testing::HasSubstr;

/// The server's end of a client's connection, in the same process; -1: there is none.
int server_end_of(const RawClient& client) {
  sockaddr_in mine{};
  socklen_t size = sizeof mine;
  getsockname(client.descriptor(), reinterpret_cast<sockaddr*>(&mine), &size);
  DIR* folder = opendir("/proc/self/fd");
  int found = -1;
  while (const dirent* entry = readdir(folder)) {
    const std::string_view name = entry->d_name;
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    sockaddr_in peer{};
    size = sizeof peer;
    if (fd >= 0 && getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 && peer.sin_family == AF_INET &&
        peer.sin_port == mine.sin_port)
      found = fd;
  }
  closedir(folder);
  return found;
}

int option_of(int socket, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  getsockopt(socket, level, name, &value, &size);
  return value;
}

/// From now on the kernel drops what comes for the client, acknowledgements included, as a network does that has lost
/// the route (man 7 socket, SO_ATTACH_FILTER).
void vanish(const RawClient& client) {
  sock_filter drop{BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program{1, &drop};
  ASSERT_EQ(setsockopt(client.descriptor(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
}

TEST(HttpHalfOpen, ConnectionsAreProbed) {
  HttpOptions options = test_options();
  options.write_timeout = 12'345ms;
  TestServer s(options);
  RawClient client = s.connect();
  client.send(get("/hello"));
  EXPECT_EQ(read_response(client).status, 200);
  const int fd = server_end_of(client);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(option_of(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(option_of(fd, IPPROTO_TCP, TCP_NODELAY), 1);
  EXPECT_EQ(option_of(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 12'345);
  const int idle = option_of(fd, IPPROTO_TCP, TCP_KEEPIDLE), interval = option_of(fd, IPPROTO_TCP, TCP_KEEPINTVL),
            count = option_of(fd, IPPROTO_TCP, TCP_KEEPCNT);
  EXPECT_LE(idle + interval * count, 30) << "seconds until a client that has vanished is noticed";
  EXPECT_GE(idle, 5) << "and how often an idle one is bothered";
}

TEST(HttpHalfOpen, AClientThatVanishesIsFoundByPings) {
  HttpOptions options = test_options();
  options.write_timeout = 300ms;  // also TCP_USER_TIMEOUT
  options.ping_interval = 20ms;
  TestServer s(options);
  RawClient lost = s.connect(), there = s.connect();
  std::vector<std::shared_ptr<HttpReply>> replies;
  for (RawClient* client : {&lost, &there}) {
    client->send(post("/wait", "{}"));
    replies.push_back(s.answer());
    replies.back()->begin_stream();
    replies.back()->event("x");
    client->read_until("data: x\n\n");
  }
  std::atomic<bool> gone{false};
  replies[0]->on_gone([&] { gone = true; });
  vanish(lost);
  EXPECT_TRUE(eventually([&] { return gone.load(); }));
  EXPECT_FALSE(replies[1]->gone()) << "its twin reads, and is silent as well";
  replies[1]->end_stream();
  EXPECT_THAT(there.read_until("0\r\n\r\n"), HasSubstr("0\r\n\r\n"));
  there.close();
  s.expect_clean();
}

TEST(HttpLimits, BodiesCountUntilTheirRequestsAreLetGo) {
  HttpOptions options = test_options();
  options.body_memory = 2500;
  TestServer s(options);
  const std::string body(1000, 'x');
  std::vector<RawClient> clients;
  for (int i = 0; i < 2; ++i) {
    clients.push_back(s.connect());
    clients.back().send(post("/hold", body));
    ASSERT_TRUE(eventually([&] { return s.held() == static_cast<std::size_t>(i) + 1; }));
  }
  const RawResponse full = s.ask(post("/echo", body));
  EXPECT_EQ(full.status, 503);
  EXPECT_EQ(full.header("Retry-After"), "1");
  EXPECT_THAT(full.body, HasSubstr("bodies_too_large"));
  // The body that was rejected counts until its connection has dropped it, which may be after the answer.
  EXPECT_TRUE(eventually([&] { return s.ask(post("/echo", "{}")).status == 200; })) << "there is room for a small one";
  s.let_go();
  for (RawClient& client : clients) EXPECT_EQ(read_response(client).status, 500) << "forgotten";
  EXPECT_TRUE(eventually([&] { return s.ask(post("/echo", body)).body == body; }));
  clients.clear();
  s.expect_clean();
}

TEST(HttpLimits, AnAnswerThatIsReadAtATrickleEnds) {
  HttpOptions options = test_options();
  options.write_timeout = 200ms;
  options.slowest_reader = 64 << 20;  // bytes per second: 8 MB have 325 ms
  TestServer s(options);
  RawClient client = s.connect(4096);
  client.send(get("/big"));
  std::size_t all = 0;
  const auto start = Clock::now();
  // Never silent for as long as write_timeout.
  while (!client.closed(0) && Clock::now() - start < 20s && s.server.stats().slow_readers == 0) {
    all += client.read_exactly(64 << 10).size();
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(s.server.stats().slow_readers, 1U) << all << " bytes were read";
  EXPECT_LT(all, std::size_t{8} << 20) << "and would have gone on";
  client.close();
  // Its twin takes longer than write_timeout for all of it, and is fast enough, however busy the machine is.
  options.slowest_reader = 512 << 10;
  options.write_timeout = 1500ms;
  TestServer patient(options);
  RawClient reader = patient.connect();
  reader.send(get("/big"));
  const auto begun = Clock::now();
  for (all = 0; all < (std::size_t{8} << 20);) {
    const std::size_t more = reader.read_exactly(256 << 10).size();
    if (more == 0) break;
    all += more;
    std::this_thread::sleep_for(50ms);
  }
  EXPECT_GE(all, std::size_t{8} << 20);
  EXPECT_GT(Clock::now() - begun, options.write_timeout);
  s.expect_clean();
}

TEST(HttpLimits, WhatIsRepeatedToAClientIsUtf8) {
  TestServer s;
  const std::string bytes = "\xff\xfe\xc3(\xed\xa0\x80";
  const std::string requests[] = {
      "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Type: text/" + bytes + "\r\nContent-Length: 2\r\n\r\n{}",
      "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Encoding: " + bytes + "\r\nContent-Length: 2\r\n\r\n{}",
      "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: " + bytes + "\r\nContent-Length: 2\r\n\r\n{}",
      "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: " + bytes + "\r\n\r\n",
      "GET /" + bytes + " HTTP/1.1\r\nHost: a\r\n\r\n",
      get("/%ff%fe"),
  };
  for (const std::string& request : requests) {
    const RawResponse r = s.ask(request);
    EXPECT_GE(r.status, 400);
    EXPECT_EQ(text::valid_utf8(r.body), r.body.size()) << r.body;
    EXPECT_TRUE(nlohmann::json::accept(r.body)) << r.body;
  }
  ASSERT_TRUE(eventually([&] { return std::ranges::count(s.log(), '\n') == std::ssize(requests); }));
  const std::string log = s.log();
  EXPECT_EQ(text::valid_utf8(log), log.size());
  EXPECT_THAT(log, HasSubstr("\xef\xbf\xbd")) << "the path of one of them";
  HttpServer other(test_options());
  other.route("POST", "/echo", [](HttpRequest, auto) {});
  other.on_error([](int, const std::string& message, std::string_view) { return message; });
  other.start();
  RawClient client(other.port());
  client.send(requests[0]);
  const RawResponse r = read_response(client);
  EXPECT_THAT(r.body, HasSubstr("found text/\xef\xbf\xbd"));
  EXPECT_EQ(text::valid_utf8(r.body), r.body.size());
}

}  // namespace THIS_FILE
}  // namespace mortar::test
