// Clients that leave, stall or flood, in every state of a request. Each test ends with a server that serves and holds
// nothing of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>

#include "mortar/http/test_server.hpp"
#include "tessera/base/sanitizers.hpp"

namespace mortar::test {
namespace THIS_FILE {

using ::testing::HasSubstr;
using ::testing::Not;

enum class Leave { Fin, Rst, HalfClose };
void leave(RawClient& client, Leave how) {
  if (how == Leave::Fin) client.close();
  if (how == Leave::Rst) client.reset();
  if (how == Leave::HalfClose) client.end_writing();
}
constexpr Leave kWays[] = {Leave::Fin, Leave::Rst, Leave::HalfClose};

TEST(HttpFaults, ClientLeavesBeforeItsRequestIsWhole) {
  TestServer s;
  const std::string request = post("/wait", std::string(1000, 'x'));
  for (const Leave how : kWays)
    for (std::size_t n = 0; n < request.size(); n += n < 100 ? 7 : 150) {
      RawClient client = s.connect();
      client.send(request.substr(0, n));
      leave(client, how);
      if (how == Leave::HalfClose) { EXPECT_TRUE(client.closed()); }
    }
  s.expect_clean();
  EXPECT_THAT(s.log(), Not(HasSubstr("\"status\":200,\"bytes_in\":1")));
}

TEST(HttpFaults, ClientLeavesWhileItsAnswerIsComputed) {
  TestServer s;
  for (const Leave how : kWays)
    for (const bool stream : {false, true}) {
      RawClient client = s.connect();
      client.send(post("/wait", "{}"));
      const auto reply = s.answer();
      std::atomic<int> calls{0};
      reply->on_gone([&] { ++calls; });
      if (stream) {
        reply->begin_stream();
        reply->event("x");
        client.read_until("data: x\n\n");
      }
      leave(client, how);
      EXPECT_TRUE(eventually([&] { return calls == 1; }));
      EXPECT_TRUE(reply->gone());
      EXPECT_FALSE(reply->event("y"));
      reply->send(200, "text/plain", "ignored");
      reply->on_gone([&] { calls += 10; });  // it happened before
      EXPECT_EQ(calls, 11);
    }
  s.expect_clean();
  EXPECT_EQ(s.server.stats().gone, 6U);
  EXPECT_THAT(s.log(), HasSubstr("\"end\":\"gone\""));
}

TEST(HttpFaults, HalfCloseGetsAnAnswerThatIsReady) {
  TestServer s;
  RawClient client = s.connect();
  client.send(get("/hello?x"));
  client.end_writing();
  EXPECT_EQ(read_response(client).body, "hello x");
  EXPECT_TRUE(client.closed());
  s.expect_clean();
}

TEST(HttpFaults, WholeAnswersAreNotGone) {
  TestServer s;
  RawClient client = s.connect();
  client.send(post("/wait", "{}"));
  const auto reply = s.answer();
  const auto held = std::make_shared<int>(0);
  reply->on_gone([held] { ++*held; });
  reply->send(200, "text/plain", "x");
  EXPECT_EQ(read_response(client).body, "x");
  EXPECT_TRUE(eventually([&] { return held.use_count() == 1; })) << "the callback is released with the answer";
  client.close();
  s.expect_clean();
  EXPECT_EQ(*held, 0);
  reply->on_gone([held] { ++*held; });
  EXPECT_EQ(*held, 0);
}

TEST(HttpFaults, SlowReaderOfAStreamIsDisconnected) {
  HttpOptions options = test_options();
  options.max_pending = 64 << 10;
  TestServer s(options);
  RawClient slow = s.connect(4096), other = s.connect();
  slow.send(post("/wait", "{}"));
  const auto reply = s.answer();
  std::atomic<bool> gone{false};
  reply->on_gone([&] { gone = true; });
  reply->begin_stream();
  const std::string data(1000, 'x');
  int taken = 0;
  while (taken < 100'000 && reply->event(data)) {
    if (++taken % 10 == 0) std::this_thread::sleep_for(100us);  // the writer is never awaited
  }
  EXPECT_LT(taken, 5000) << "memory for one client is bounded";
  EXPECT_TRUE(eventually([&] { return gone.load(); }));
  EXPECT_FALSE(reply->event("more"));
  other.send(get("/hello"));
  EXPECT_EQ(read_response(other).status, 200);
  other.close();
  slow.close();
  s.expect_clean();
  EXPECT_EQ(s.server.stats().slow_readers, 1U);
  EXPECT_THAT(s.log(), HasSubstr("\"end\":\"slow_reader\""));
}

TEST(HttpFaults, ReaderThatStopsIsDisconnected) {
  HttpOptions options = test_options();
  options.write_timeout = 100ms;
  TestServer s(options);
  RawClient client = s.connect(4096);
  client.send(get("/big"));
  EXPECT_TRUE(eventually([&] { return s.server.stats().slow_readers == 1; }));
  EXPECT_TRUE(eventually([&] { return s.server.stats().connections == 0; }));
  // Its twin reads slowly, but reads: longer than the time, with no pause as long as it, however busy the machine is.
  options.write_timeout = 2000ms;
  TestServer patient(options);
  RawClient reader = patient.connect(64 << 10);
  reader.send(get("/big"));
  std::size_t all = 0;
  const auto start = Clock::now();
  while (all < (std::size_t{8} << 20)) {
    const std::string piece = reader.read_exactly(512 << 10);
    if (piece.empty()) break;
    all += piece.size();
    std::this_thread::sleep_for(135ms);
  }
  EXPECT_GE(all, std::size_t{8} << 20);
  EXPECT_GT(Clock::now() - start, options.write_timeout);
}

TEST(HttpFaults, SlowSenders) {
  HttpOptions options = test_options();
  options.header_timeout = 1000ms;  // also from the connection to its first byte, which a busy machine may delay
  options.read_timeout = 80ms;
  TestServer s(options);
  RawClient silent = s.connect(), in_head = s.connect(), in_body = s.connect(), trickling = s.connect();
  in_head.send("GET /hello HT");
  in_body.send(post("/echo", "12345").substr(0, post("/echo", "12345").size() - 2));
  const std::string request = get("/hello", "X-Long: " + std::string(200, 'x') + "\r\n");
  const auto start = Clock::now();
  for (const char c : request) {  // each byte in time, all too slow
    if (!trickling.send(std::string(1, c)) || Clock::now() - start > 1500ms) break;
    std::this_thread::sleep_for(8ms);
  }
  EXPECT_EQ(read_response(trickling).status, 408);
  trickling.close();
  for (RawClient* client : {&in_head, &in_body}) {
    EXPECT_EQ(read_response(*client).status, 408);
    EXPECT_TRUE(client->closed());
  }
  EXPECT_EQ(silent.read_all(), "");
  EXPECT_TRUE(silent.closed());
  for (RawClient* client : {&silent, &in_head, &in_body}) client->close();
  s.expect_clean();
  EXPECT_EQ(s.server.stats().timeouts, 3U) << "a connection without a request is none of them";
}

TEST(HttpFaults, IdleConnectionsEnd) {
  HttpOptions options = test_options();
  options.keep_alive = 60ms;
  TestServer s(options);
  RawClient client = s.connect();
  const auto start = Clock::now();  // the time that the server allows begins after it
  client.send(get("/hello"));
  EXPECT_EQ(read_response(client).status, 200);
  EXPECT_EQ(client.read_all(), "") << "nothing is said to an idle client";
  EXPECT_TRUE(client.closed());
  EXPECT_GE(Clock::now() - start, options.keep_alive);
  options.keep_alive = 0ms;
  TestServer once(options);
  EXPECT_EQ(once.ask(get("/hello")).header("Connection"), "close");
  client.close();
  s.expect_clean();
}

TEST(HttpFaults, SilentConnectionsAreDisplaced) {
  HttpOptions options = test_options();
  options.max_connections = 20;
  TestServer s(options);
  RawClient busy = s.connect();
  busy.send(post("/wait", "{}"));
  const auto reply = s.answer();
  std::vector<RawClient> flood;
  for (int i = 0; i < 300; ++i) {
    flood.push_back(s.connect());
    if (i % 3 == 0) flood.back().send("GET /hello HTTP/1.1\r\n");
  }
  EXPECT_EQ(s.ask(get("/health")).status, 200);
  EXPECT_TRUE(eventually([&] { return s.server.stats().accepted == 302; }));
  EXPECT_TRUE(eventually([&] { return s.server.stats().connections <= 21; }));
  EXPECT_GE(s.server.stats().displaced, 280U);
  reply->send(200, "text/plain", "still here");
  EXPECT_EQ(read_response(busy).body, "still here");
  flood.clear();
  busy.close();
  s.expect_clean();
}

TEST(HttpFaults, BusyConnectionsAreNotDisplaced) {
  HttpOptions options = test_options();
  options.max_connections = 8;
  TestServer s(options);
  std::vector<RawClient> busy;
  std::vector<std::shared_ptr<HttpReply>> replies;
  for (int i = 0; i < 8; ++i) {
    busy.push_back(s.connect());
    busy.back().send(post("/wait", "{}"));
    replies.push_back(s.answer());
  }
  RawClient more = s.connect();
  EXPECT_EQ(read_response(more).status, 503);
  EXPECT_TRUE(more.closed());
  EXPECT_EQ(s.server.stats().rejected, 1U);
  for (const auto& reply : replies) reply->send(200, "text/plain", "x");
  for (RawClient& client : busy) EXPECT_EQ(read_response(client).body, "x");
  busy.clear();
  s.expect_clean();
}

TEST(HttpFaults, ConnectionsOfOneAddressAreLimited) {
  HttpOptions options = test_options();
  options.max_connections_per_address = 3;
  TestServer s(options);
  std::vector<RawClient> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(s.connect());
    clients.back().send(get("/hello"));
    EXPECT_EQ(read_response(clients.back()).status, 200);
  }
  EXPECT_EQ(s.ask("").status, 503);
  clients.pop_back();
  EXPECT_TRUE(eventually([&] { return s.server.stats().connections == 2; }));
  EXPECT_EQ(s.ask(get("/hello", "Connection: close\r\n")).status, 200);
  clients.clear();
  EXPECT_TRUE(eventually([&] { return s.server.stats().connections == 0; }));
  s.expect_clean();
}

TEST(HttpFaults, NoFileDescriptorLeft) {
  // The undefined-behaviour sanitizer makes a pipe to find out whether an object's memory can be read, and reports the
  // object where it gets no pipe.
  if (TESSERA_ASAN) GTEST_SKIP() << "the sanitizers of this build need file descriptors themselves";
  TestServer s;
  RawClient first = s.connect();
  first.send(get("/hello"));
  EXPECT_EQ(read_response(first).status, 200);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  RawClient waiting = s.connect();  // its descriptor is the last that there is
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(waiting.descriptor()) + 1;
  std::vector<int> taken;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  for (int fd; (fd = ::dup(0)) >= 0;) taken.push_back(fd);
  first.send(get("/hello"));
  waiting.send(get("/health"));
  std::this_thread::sleep_for(30ms);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  for (const int fd : taken) ::close(fd);
  EXPECT_EQ(read_response(waiting).status, 200);
  first.close();
  waiting.close();
  s.expect_clean();
}

TEST(HttpFaults, DisconnectStorm) {
  TestServer s;
  constexpr int kClients = 200;
  std::atomic<int> gone{0};
  std::vector<RawClient> clients;
  std::vector<std::shared_ptr<HttpReply>> replies;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(s.connect());
    clients.back().send(post("/wait", "{}"));
    replies.push_back(s.answer());
    replies.back()->on_gone([&] { ++gone; });
    if (i % 2 == 0) replies.back()->begin_stream();
  }
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop)
      for (const auto& reply : replies) reply->event("token");
  });
  for (int i = 0; i < kClients; ++i) i % 3 == 0 ? clients[i].reset() : clients[i].close();
  EXPECT_TRUE(eventually([&] { return gone == kClients; })) << gone;
  stop = true;
  writer.join();
  s.expect_clean();
  EXPECT_EQ(s.server.stats().gone, static_cast<std::uint64_t>(kClients));
}

TEST(HttpFaults, FloodOfRequestsAheadIsBounded) {
  TestServer s;
  RawClient client = s.connect();
  client.send(post("/wait", "{}"));
  const auto reply = s.answer();
  std::atomic<std::size_t> sent{0};
  std::thread sender([&] {
    const std::string more = get("/hello");
    for (int i = 0; i < 200'000 && client.send(more); ++i) sent += more.size();
  });
  std::this_thread::sleep_for(50ms);
  EXPECT_LT(s.server.stats().bytes_in, 200U << 10) << "what waits behind an answer is not read without limit";
  reply->send(200, "text/plain", "first");
  EXPECT_EQ(read_response(client).body, "first");
  EXPECT_EQ(read_response(client).body, "hello ");
  ::shutdown(client.descriptor(), SHUT_RDWR);
  sender.join();
  client.close();
  s.expect_clean();
}

TEST(HttpDrain, RunningAnswersEndAndNewOnesAreRejected) {
  TestServer s;
  RawClient idle = s.connect(), busy = s.connect();
  idle.send(get("/hello"));
  EXPECT_EQ(read_response(idle).status, 200);
  busy.send(post("/wait", "{}"));
  const auto reply = s.answer();
  reply->begin_stream();
  busy.read_until("\r\n\r\n");
  const int port = s.server.port();
  s.server.stop_accepting();
  EXPECT_FALSE(RawClient(port).connected());
  EXPECT_TRUE(idle.closed());
  EXPECT_FALSE(s.server.drain(20ms));
  const std::string more = get("/hello") + get("/health");
  const auto expected = s.server.stats().bytes_in + more.size();
  busy.send(more);
  EXPECT_TRUE(eventually([&] { return s.server.stats().bytes_in == expected; }));  // else it may count as idle
  reply->event("last");
  reply->end_stream();
  EXPECT_THAT(busy.read_until("0\r\n\r\n"), HasSubstr("data: last\n\n"));
  const RawResponse rejected = read_response(busy);
  EXPECT_EQ(rejected.status, 503);
  EXPECT_EQ(rejected.header("x-should-retry"), "false");
  EXPECT_EQ(rejected.header("Connection"), "close");
  EXPECT_TRUE(busy.closed());
  EXPECT_TRUE(s.server.drain(10s));
}

TEST(HttpDrain, StopEndsWhatIsLeft) {
  auto s = std::make_unique<TestServer>();
  std::vector<RawClient> clients;
  std::vector<std::shared_ptr<HttpReply>> replies;
  std::atomic<int> gone{0};
  for (int i = 0; i < 10; ++i) {
    clients.push_back(s->connect());
    clients.back().send(post("/wait", "{}"));
    replies.push_back(s->answer());
    replies.back()->on_gone([&] { ++gone; });
    if (i % 2 == 0) replies.back()->begin_stream();
  }
  clients.push_back(s->connect());
  clients.back().send("GET /hel");
  s->server.stop();
  EXPECT_EQ(gone, 10);
  s.reset();
  for (const auto& reply : replies) {  // outlives the server
    EXPECT_FALSE(reply->event("late"));
    reply->end_stream();
  }
  for (RawClient& client : clients) EXPECT_TRUE(client.closed());
}

TEST(HttpFaults, PortInUse) {
  TestServer s;
  HttpOptions options = test_options();
  options.port = s.server.port();
  HttpServer other(options);
  try {
    other.start();
    FAIL() << "two servers on one port";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("127.0.0.1:" + std::to_string(options.port)));
    EXPECT_THAT(error.what(), HasSubstr("in use"));
  }
  HttpOptions elsewhere = test_options();
  elsewhere.host = "203.0.113.1";  // of documentation (RFC 5737): no interface has it
  HttpServer third(elsewhere);
  EXPECT_ANY_THROW(third.start());
}

TEST(HttpFaults, LogOnAFullDevice) {
  HttpOptions options = test_options();
  options.log_path = "/dev/full";
  TestServer s(options);
  EXPECT_EQ(s.ask(get("/hello")).status, 200);
  s.server.reopen_log();
  EXPECT_EQ(s.ask(get("/hello")).status, 200);
}

TEST(HttpFaults, RandomClients) {
  TestServer s;
  std::mt19937 random(7);
  std::atomic<bool> stop{false};
  std::thread engine([&] {  // answers /wait with streams of ten events
    std::vector<std::pair<std::shared_ptr<HttpReply>, int>> running;
    while (!stop || !running.empty()) {
      s.ask(get("/health", "Connection: close\r\n"));
      while (s.waiting() > 0) {
        running.emplace_back(s.answer(), 10);
        running.back().first->begin_stream();
      }
      for (auto& [reply, left] : running) {
        reply->event("token");
        if (--left == 0) reply->end_stream();
      }
      std::erase_if(running, [](const auto& entry) { return entry.second == 0; });
    }
  });
  const std::string requests[] = {get("/hello"),   post("/wait", "{}"), post("/echo", std::string(3000, 'y')),
                                  get("/nothing"), get("/wait"),        "garbage\r\n\r\n",
                                  get("/big")};
  std::vector<RawClient> clients;
  for (int i = 0; i < 1500; ++i) {
    if (clients.size() < 40) clients.push_back(s.connect());
    RawClient& client = clients[random() % clients.size()];
    const std::string& request = requests[random() % std::size(requests)];
    switch (random() % 6) {
      case 0: client.send(request.substr(0, random() % request.size())); break;
      case 1: client.end_writing(); break;
      case 2:
        random() % 2 ? client.reset() : client.close();
        std::swap(client, clients.back());
        clients.pop_back();
        break;
      case 3: client.read_more(0); break;
      default: client.send(request);
    }
  }
  clients.clear();
  stop = true;
  engine.join();
  s.expect_clean();
}

}  // namespace THIS_FILE
}  // namespace mortar::test
