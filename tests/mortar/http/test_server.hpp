// A server on a free port of the loopback interface, with routes for the tests.
#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "http/http.hpp"
#include "mortar/eventually.hpp"
#include "mortar/http/raw_client.hpp"

namespace mortar::test {

using namespace std::chrono_literals;

inline HttpOptions test_options() {
  HttpOptions options;
  options.port = 0;
  options.open_paths = {"/health"};
  return options;
}

class TestServer {
 public:
  explicit TestServer(HttpOptions options = test_options()) : server(with_log(std::move(options))) {
    server.route("GET", "/health", [](HttpRequest, auto reply) { reply->send(200, "text/plain", "ok"); });
    server.route("GET", "/hello", [](HttpRequest r, auto reply) {
      reply->send(200, "text/plain", "hello " + r.query + r.key, {{"X-Extra", "one\r\ntwo"}});
    });
    server.route("POST", "/echo", [](HttpRequest r, auto reply) { reply->send(200, "application/json", r.body); });
    server.route("GET", "/models/{id*}",
                 [](HttpRequest r, auto reply) { reply->send(200, "text/plain", std::string(r.parameter("id"))); });
    server.route("GET", "/big",
                 [](HttpRequest, auto reply) { reply->send(200, "text/plain", std::string(8 << 20, 'x')); });
    server.route("GET", "/throw", [](HttpRequest, auto) { throw std::runtime_error("the handler failed"); });
    server.route("GET", "/forget", [](HttpRequest, auto) {});
    server.route("GET", "/break", [](HttpRequest, auto reply) {
      reply->begin_stream();
      reply->event("first");
    });
    // Is kept, with its body, until let_go().
    server.route("POST", "/hold", [this](HttpRequest r, auto reply) {
      const std::lock_guard lock(mutex_);
      held_.emplace_back(std::move(r), std::move(reply));
    });
    // The test itself answers: see answer().
    server.route("POST", "/wait", [this](HttpRequest, auto reply) { keep(std::move(reply)); });
    server.route("GET", "/wait", [this](HttpRequest, auto reply) { keep(std::move(reply)); });
    server.start();
  }
  ~TestServer() {
    server.stop();  // before the members that handlers use
  }

  /// The oldest reply of /wait that was not taken yet.
  std::shared_ptr<HttpReply> answer() {
    std::unique_lock lock(mutex_);
    if (!came_.wait_for(lock, std::chrono::milliseconds(kPatience), [&] { return !waiting_.empty(); })) return nullptr;
    auto reply = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    return reply;
  }
  std::size_t waiting() const {
    const std::lock_guard lock(mutex_);
    return waiting_.size();
  }
  std::size_t held() const {
    const std::lock_guard lock(mutex_);
    return held_.size();
  }
  void let_go() {
    std::vector<std::pair<HttpRequest, std::shared_ptr<HttpReply>>> held;
    const std::lock_guard lock(mutex_);
    held.swap(held_);
  }
  RawClient connect(int receive_buffer = 0) { return RawClient(server.port(), receive_buffer); }
  /// One request on a connection of its own.
  RawResponse ask(std::string_view request, bool without_body = false) {
    RawClient client = connect();
    client.send(request);
    return read_response(client, without_body);
  }
  std::string log() const {
    const std::lock_guard lock(mutex_);
    return log_;
  }
  /// It still serves, and no connection or request is left behind. The server learns a moment later that the test
  /// closed its clients; until then a server whose connections were all taken rejects the next one, and rightly.
  void expect_clean() {
    EXPECT_TRUE(eventually([&] { return server.stats().connections == 0; })) << server.stats().connections;
    EXPECT_EQ(ask(get("/health", "Connection: close\r\n")).body, "ok");
    EXPECT_TRUE(eventually([&] { return server.stats().connections == 0; })) << server.stats().connections;
    EXPECT_EQ(server.stats().active, 0U);
  }

 private:
  HttpOptions with_log(HttpOptions options) {
    if (options.log_path.empty())
      options.log = [this](std::string_view line) {
        const std::lock_guard lock(mutex_);
        log_ += std::string(line) + "\n";
      };
    return options;
  }
  void keep(std::shared_ptr<HttpReply> reply) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(reply));
    came_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::vector<std::shared_ptr<HttpReply>> waiting_;
  std::vector<std::pair<HttpRequest, std::shared_ptr<HttpReply>>> held_;
  std::string log_;

 public:
  HttpServer server;
};

}  // namespace mortar::test
