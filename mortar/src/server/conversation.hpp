// A conversation in the form of another API, of which one turn of the assistant may be several items.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "server/parse.hpp"

namespace mortar::server {

class Conversation {
 public:
  explicit Conversation(const ParseContext& context) : writer_(context) {}
  void user(const std::string& text) { other("user", text); }
  void system(const std::string& text) { other("system", text); }
  void tool(const std::string& id, const std::string& text) {
    flush();
    writer_.tool(id, text);
  }
  // Pieces of one turn of the assistant.
  void said(const std::string& text) {
    if (has_content_ && !content_.empty() && !text.empty()) content_ += '\n';
    content_ += text;
    has_content_ = open_ = true;
  }
  void thought(const std::string& text) {
    if (!calls_.empty() || has_content_) flush();  // the next turn
    thinking_ += text;
    open_ = true;
  }
  void called(MessageWriter::Call call) {
    calls_.push_back(std::move(call));
    open_ = true;
  }
  bool empty() const { return writer_.empty() && !open_; }
  std::string take() {
    flush();
    return writer_.take();
  }

 private:
  void other(const char* role, const std::string& text) {
    flush();
    writer_.text(role, text);
  }
  void flush() {
    if (open_) writer_.assistant(content_, has_content_, thinking_, calls_);
    content_.clear();
    thinking_.clear();
    calls_.clear();
    has_content_ = open_ = false;
  }
  MessageWriter writer_;
  std::string content_, thinking_;
  std::vector<MessageWriter::Call> calls_;
  bool has_content_ = false, open_ = false;
};

}  // namespace mortar::server
