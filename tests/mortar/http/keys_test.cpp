// API keys, and web pages of other origins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "http/api_keys.hpp"
#include "mortar/http/test_server.hpp"

namespace mortar::test {
namespace THIS_FILE {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(HttpKeys, Required) {
  HttpOptions options = test_options();
  options.api_keys = {{"one", "key-1"}, {"two", "key-2"}};
  TestServer s(options);
  const auto with = [&](std::string_view header) { return s.ask(get("/hello", std::string(header) + "\r\n")); };
  EXPECT_EQ(with("Authorization: Bearer key-1").body, "hello one");
  EXPECT_EQ(with("authorization: bearer   key-2").body, "hello two");
  EXPECT_EQ(with("X-API-Key: key-2").body, "hello two");
  for (const char* header :
       {"X: y", "Authorization: Bearer key-3", "Authorization: Bearer key-", "Authorization: Bearer key-11",
        "Authorization: Bearer ", "Authorization: Bearer", "Authorization: key-1", "Authorization: Basic key-1",
        "Authorization:", "x-api-key:", "X-API-Key: one", "Authorization: Bearer KEY-1",
        "Authorization: Bearer no\r\nX-API-Key: key-1"}) {
    const RawResponse r = with(header);
    EXPECT_EQ(r.status, 401) << header;
    EXPECT_EQ(r.header("WWW-Authenticate"), "Bearer");
    EXPECT_THAT(r.body, HasSubstr("invalid_api_key"));
    EXPECT_THAT(r.body, Not(HasSubstr("key-1")));
  }
  EXPECT_EQ(with("Authorization: Bearer key-1\r\nAuthorization: Bearer key-2").status, 400);
  EXPECT_EQ(s.ask(get("/hello?api_key=key-1")).status, 401);
  EXPECT_EQ(s.ask(get("/health")).status, 200);
  EXPECT_EQ(s.ask("HEAD /hello HTTP/1.1\r\nHost: a\r\n\r\n", true).status, 401);
  EXPECT_EQ(s.ask(post("/echo", "{}")).status, 401);
  EXPECT_EQ(s.ask(post("/echo", "{}", "Authorization: Bearer key-1\r\n")).status, 200);
  EXPECT_THAT(s.log(), Not(HasSubstr("key-")));
}

TEST(HttpKeys, AllOfAKeyIsCompared) {
  const KeyRing ring({{"one", "key-1"}, {"two", "key-2"}});
  for (int i = 3; i < 3000; ++i) EXPECT_EQ(ring.find("key-" + std::to_string(i)), nullptr) << i;
  ASSERT_NE(ring.find("key-2"), nullptr);
  EXPECT_EQ(*ring.find("key-2"), "two");
}

class KeyFile : public ::testing::Test {
 protected:
  std::vector<ApiKey> read(const std::string& text) {
    std::ofstream(path_) << text;
    return read_api_keys(path_);
  }
  void expect_error(const std::string& text, const char* message) {
    try {
      (void)read(text);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const std::exception& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
      EXPECT_THAT(error.what(), Not(HasSubstr("secret")));
    }
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string path_ = ::testing::TempDir() + "keys-" + std::to_string(::getpid());
};

TEST_F(KeyFile, NamesAndKeys) {
  const auto keys = read("# a comment\n\nalice  secret-1\r\n\tsecret-2\n  bob\tsecret-3  \n");
  ASSERT_EQ(keys.size(), 3U);
  EXPECT_EQ(keys[0].name, "alice");
  EXPECT_EQ(keys[0].key, "secret-1");
  EXPECT_EQ(keys[1].name, "2");
  EXPECT_EQ(keys[1].key, "secret-2");
  EXPECT_EQ(keys[2].name, "bob");
  EXPECT_EQ(keys[2].key, "secret-3");
}

TEST_F(KeyFile, Errors) {
  expect_error("", "at least one API key");
  expect_error("# only this\n", "at least one API key");
  expect_error("a secret-1\nb secret-1\n", ":2: expected keys that differ, found that of a");
  expect_error("a secret-1\na secret-2\n", ":2: expected names that differ, found a twice");
  expect_error("a secret 1\n", ":1: expected NAME KEY");
  EXPECT_ANY_THROW((void)read_api_keys(path_ + "-that-is-not-there"));
  EXPECT_ANY_THROW((void)read_api_keys(::testing::TempDir()));
}

TEST(HttpOrigins, RejectedUnlessConfigured) {
  TestServer s;
  const auto from = [&](const std::string& origin, const std::string& host) {
    return s.ask("GET /hello HTTP/1.1\r\nHost: " + host + "\r\nOrigin: " + origin + "\r\n\r\n");
  };
  EXPECT_EQ(from("https://example.com", "127.0.0.1:8080").status, 403);
  EXPECT_EQ(from("null", "127.0.0.1:8080").status, 403);
  EXPECT_EQ(from("http://example.com:8080", "example.com:8080").status, 403) << "a name that points to this machine";
  EXPECT_EQ(from("http://127.example.com:8080", "127.example.com:8080").status, 403) << "a name, not an address";
  EXPECT_EQ(from("http://127.0.0.1:8081", "127.0.0.1:8080").status, 403);
  for (const char* own : {"127.0.0.1:8080", "localhost:8080", "[::1]:8080", "localhost"})
    EXPECT_EQ(from(std::string("http://") + own, own).status, 200) << own;
  const RawResponse preflight = s.ask(
      "OPTIONS /echo HTTP/1.1\r\nHost: a\r\nOrigin: https://example.com\r\n"
      "Access-Control-Request-Method: POST\r\n\r\n");
  EXPECT_EQ(preflight.status, 403);
  EXPECT_EQ(preflight.header("Access-Control-Allow-Origin"), "");
}

TEST(HttpOrigins, Allowed) {
  HttpOptions options = test_options();
  options.api_keys = {{"a", "key"}};
  options.cors = {"https://one.example", "https://two.example"};
  TestServer s(options);
  const RawResponse preflight = s.ask(
      "OPTIONS /echo HTTP/1.1\r\nHost: a\r\nOrigin: https://two.example\r\n"
      "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization, content-type\r\n\r\n");
  EXPECT_EQ(preflight.status, 204) << "a preflight has no key";
  EXPECT_EQ(preflight.header("Access-Control-Allow-Origin"), "https://two.example");
  EXPECT_EQ(preflight.header("Access-Control-Allow-Methods"), "OPTIONS, POST");
  EXPECT_EQ(preflight.header("Access-Control-Allow-Headers"), "authorization, content-type");
  EXPECT_EQ(preflight.header("Vary"), "Origin");
  const RawResponse denied = s.ask(post("/echo", "{}", "Origin: https://two.example\r\n"));
  EXPECT_EQ(denied.status, 401);
  EXPECT_EQ(denied.header("Access-Control-Allow-Origin"), "https://two.example") << "the page may read the error";
  const RawResponse answer = s.ask(post("/echo", "{}", "Origin: https://one.example\r\nAuthorization: Bearer key\r\n"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("Access-Control-Allow-Origin"), "https://one.example");
  EXPECT_EQ(s.ask(get("/hello", "Origin: https://one.example.org\r\nAuthorization: Bearer key\r\n")).status, 403);
  const RawResponse own =
      s.ask("GET /hello HTTP/1.1\r\nHost: mortar.example\r\nOrigin: https://mortar.example\r\nX-API-Key: key\r\n\r\n");
  EXPECT_EQ(own.status, 200) << "behind a proxy, with keys";
  options.cors = {"*"};
  TestServer open(options);
  EXPECT_EQ(open.ask(get("/health", "Origin: https://x.example\r\n")).header("Access-Control-Allow-Origin"), "*");
}

}  // namespace THIS_FILE
}  // namespace mortar::test
