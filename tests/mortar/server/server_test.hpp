// What tests of the server share: a context for parsing, a reply that records what is sent.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "http/http.hpp"
#include "server/parse.hpp"

namespace mortar::server {

inline const PlainText& plain_text() {
  static const PlainText plain(Tokenizer::load(MORTAR_TEST_DATA "/small_tokenizer"));
  return plain;
}

inline ParseContext test_context(answer::CallFormat calls = answer::CallFormat::Json) {
  ParseContext context;
  context.plain = &plain_text();
  context.calls = calls;
  context.limits.vocabulary = plain_text().tokenizer().size();
  context.limits.max_context = 1000;
  context.limits.choices = 8;
  return context;
}

class RecordedReply final : public HttpReply {
 public:
  struct Event {
    std::string name, data;
  };
  void send(int s, std::string, std::string b, HttpHeaders h) override {
    status = s;
    body = std::move(b);
    headers = std::move(h);
    ++answers;
  }
  void begin_stream(HttpHeaders) override { streams = true; }
  bool event(std::string_view data) override { return event("", data); }
  bool event(std::string_view name, std::string_view data) override {
    events.push_back({std::string(name), std::string(data)});
    return true;
  }
  void end_stream() override { ++answers; }
  void on_gone(std::function<void()>) override {}
  bool gone() const override { return false; }

  int status = 0, answers = 0;
  std::string body;
  HttpHeaders headers;
  bool streams = false;
  std::vector<Event> events;
};

}  // namespace mortar::server
