// The answers of /v1/messages: blocks, and a stream of events that builds them.
#include "mortar/errors.hpp"
#include "server/ids.hpp"
#include "server/writers.hpp"
#include "text/json_tree.hpp"

namespace mortar::server {
namespace {

using answer::EventKind;
using text::JsonWriter;

struct Block {
  EventKind kind;  // Arguments: a call
  std::string text, id, name;
};

/// Arguments as the object that the form wants; what is none, because it was cut, becomes an empty one.
std::string object_of(const std::string& arguments) {
  try {
    if (text::parse_json(arguments, "arguments").is(text::Json::Kind::Object)) return arguments;
  } catch (const RequestError&) {}  // NOLINT(bugprone-empty-catch): it was cut
  return "{}";
}

class MessageAnswerWriter final : public AnswerWriter {
 public:
  explicit MessageAnswerWriter(WriterOptions options) : o_(std::move(options)), id_(new_id("msg_")) {}

  void begin() override {
    if (!o_.generation.stream) return;
    o_.reply->begin_stream();
    begun_ = true;
    event("message_start", [&](JsonWriter& json) {
      json.key("message");
      head(json);
      json.key("content").array().end_array().key("stop_reason").null().key("stop_sequence").null().key("usage");
      usage(json, {o_.prompt_tokens, 0, 0, 0});
      json.end();
    });
  }

  void piece(std::size_t, const Choice& choice, const Usage&) override {
    for (const answer::Event& e : choice.fresh) take(e, choice);
  }

  void finished(std::size_t index, const Choice& choice, const Usage& usage, const Speed*) override {
    piece(index, choice, usage);
    close();
    stop_ = choice.stop;
    reason_ = *choice.finish == Finish::ToolCalls ? "tool_use"
              : *choice.finish == Finish::Length  ? "max_tokens"
              : stop_.empty()                     ? "end_turn"
                                                  : "stop_sequence";
  }

  void done(const std::vector<Choice>&, const Usage& counted, const Speed&) override {
    if (!o_.generation.stream) {
      std::string out;
      JsonWriter json(out);
      head(json);
      json.key("content").array();
      for (const Block& b : blocks_) block(json, b, false);
      json.end_array();
      stops(json);
      json.key("usage");
      usage(json, counted);
      json.end();
      o_.reply->send(200, "application/json", std::move(out));
      return;
    }
    event("message_delta", [&](JsonWriter& json) {
      json.key("delta").object();
      stops(json);
      json.end().key("usage");
      usage(json, counted);
    });
    event("message_stop", [](JsonWriter&) {});
    o_.reply->end_stream();
  }

  void failed(const ApiError& error) override {
    if (!begun_) {
      send_error(*o_.reply, error, Dialect::Anthropic);
      return;
    }
    o_.reply->event("error", error_json(error, Dialect::Anthropic));
    o_.reply->end_stream();
  }

 private:
  template <class F>
  void event(const char* type, F&& fields) {
    if (!o_.generation.stream) return;
    std::string out;
    JsonWriter json(out);
    json.object().field("type", type);
    fields(json);
    json.end();
    o_.reply->event(type, out);
  }

  void head(JsonWriter& json) const {
    json.object().field("id", id_).field("type", "message").field("role", "assistant").field("model", o_.model);
  }
  void stops(JsonWriter& json) const {
    json.field("stop_reason", reason_).key("stop_sequence");
    if (stop_.empty())
      json.null();
    else
      json.value(stop_);
  }
  static void usage(JsonWriter& json, const Usage& u) {
    json.object().field("input_tokens", u.prompt - u.cached).field("output_tokens", u.completion);
    json.field("cache_read_input_tokens", u.cached).field("cache_creation_input_tokens", 0).end();
  }

  static void block(JsonWriter& json, const Block& b, bool opening) {
    json.object();
    switch (b.kind) {
      case EventKind::Thinking:
        json.field("type", "thinking").field("thinking", opening ? "" : b.text).field("signature", "");
        break;
      case EventKind::Content: json.field("type", "text").field("text", opening ? "" : b.text); break;
      default:
        json.field("type", "tool_use")
            .field("id", b.id)
            .field("name", b.name)
            .key("input")
            .raw(opening ? "{}" : object_of(b.text));
    }
    json.end();
  }

  void take(const answer::Event& e, const Choice& choice) {
    if (e.kind == EventKind::Thinking && !o_.shows_thinking) return;
    if (e.kind == EventKind::CallEnd) return close();
    if (e.kind == EventKind::CallBegin) {
      open({EventKind::Arguments, "", choice.calls[static_cast<std::size_t>(e.call)].id, e.text});
      return;
    }
    if (!open_ || blocks_.back().kind != e.kind) open({e.kind, "", "", ""});
    blocks_.back().text += e.text;
    event("content_block_delta", [&](JsonWriter& json) {
      json.field("index", blocks_.size() - 1).key("delta").object();
      if (e.kind == EventKind::Thinking)
        json.field("type", "thinking_delta").field("thinking", e.text);
      else if (e.kind == EventKind::Content)
        json.field("type", "text_delta").field("text", e.text);
      else
        json.field("type", "input_json_delta").field("partial_json", e.text);
      json.end();
    });
  }

  void open(Block opened) {
    close();
    blocks_.push_back(std::move(opened));
    open_ = true;
    event("content_block_start", [&](JsonWriter& json) {
      json.field("index", blocks_.size() - 1).key("content_block");
      block(json, blocks_.back(), true);
    });
  }

  void close() {
    if (!open_) return;
    open_ = false;
    event("content_block_stop", [&](JsonWriter& json) { json.field("index", blocks_.size() - 1); });
  }

  WriterOptions o_;
  std::string id_, stop_;
  const char* reason_ = "end_turn";
  std::vector<Block> blocks_;
  bool begun_ = false, open_ = false;
};

}  // namespace

std::unique_ptr<AnswerWriter> message_writer(WriterOptions options) {
  return std::make_unique<MessageAnswerWriter>(std::move(options));
}

}  // namespace mortar::server
