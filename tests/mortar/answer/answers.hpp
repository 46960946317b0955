// Answers for tests: the events of a text, as one joined result that does not depend on how the text came.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "answer/answer_machine.hpp"
#include "text/utf8.hpp"

namespace mortar::answer {

inline const Tokenizer& small_tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::load(MORTAR_TEST_DATA "/small_tokenizer");
  return tokenizer;
}

/// What a client has when it has joined all pieces.
struct Result {
  std::string thinking, content;
  std::vector<std::pair<std::string, std::string>> calls;  ///< name, arguments
  bool stopped = false;
  bool operator==(const Result&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const Result& r) {
  out << "thinking \"" << r.thinking << "\" content \"" << r.content << '"';
  for (const auto& [name, arguments] : r.calls) out << "\n  " << name << " " << arguments;
  return out << (r.stopped ? " stopped" : "");
}

/// Adds events as a client would, and checks their order: calls one after the other, each begun once and ended once.
class Joiner {
 public:
  void take(const Events& events) {
    for (const Event& e : events) {
      EXPECT_EQ(text::valid_utf8(e.text), e.text.size());
      EXPECT_EQ(e.text.empty(), e.kind == EventKind::CallEnd);
      switch (e.kind) {
        case EventKind::Thinking: result_.thinking += e.text; break;
        case EventKind::Content: result_.content += e.text; break;
        case EventKind::CallBegin:
          EXPECT_FALSE(open_);
          EXPECT_EQ(e.call, static_cast<std::int64_t>(result_.calls.size()));
          result_.calls.emplace_back(e.text, "");
          open_ = true;
          break;
        case EventKind::Arguments:
        case EventKind::CallEnd:
          EXPECT_TRUE(open_);
          EXPECT_EQ(e.call + 1, static_cast<std::int64_t>(result_.calls.size()));
          if (e.kind == EventKind::CallEnd) open_ = false;
          if (e.kind == EventKind::Arguments) result_.calls.back().second += e.text;
      }
    }
  }
  Result finish(bool stopped) {
    EXPECT_TRUE(!open_ || stopped);
    result_.stopped = stopped;
    return result_;
  }

 private:
  Result result_;
  bool open_ = false;
};

/// The answer that a text is, each token in an increment of its own.
inline Result answer(const std::string& text, MachineOptions options) {
  AnswerMachine machine(small_tokenizer(), std::move(options));
  Joiner joiner;
  for (const TokenId id : small_tokenizer().encode(text)) {
    Events events;
    machine.push(id, events);
    joiner.take(events);
  }
  const bool stopped = machine.stopped();
  Events events;
  machine.finish(events);
  joiner.take(events);
  return joiner.finish(stopped);
}

}  // namespace mortar::answer
