// The answers of /v1/responses: items, and a stream of events that builds them.
#include "server/ids.hpp"
#include "server/writers.hpp"

namespace mortar::server {
namespace {

using text::JsonWriter;

/// A part of the output: thinking, text, or a call.
struct Item {
  answer::EventKind kind;
  std::string id, text;  // `text`: or the arguments of a call
  std::string call_id, name;
  bool complete = false;
};

class ResponseWriter final : public AnswerWriter {
 public:
  explicit ResponseWriter(WriterOptions options)
      : o_(std::move(options)), id_(new_id("resp_")), created_(wall_clock()) {}

  void begin() override {
    if (!o_.generation.stream) return;
    o_.reply->begin_stream();
    begun_ = true;
    for (const char* type : {"response.created", "response.in_progress"})
      event(type, [&](JsonWriter& json) { response(json.key("response"), "in_progress", nullptr, nullptr); });
  }

  void piece(std::size_t, const Choice& choice, const Usage&) override {
    for (const answer::Event& e : choice.fresh) take(e, choice);
  }

  void finished(std::size_t index, const Choice& choice, const Usage& usage, const Speed*) override {
    piece(index, choice, usage);
    close_last(*choice.finish != Finish::Length);
    cut_ = *choice.finish == Finish::Length;
  }

  void done(const std::vector<Choice>&, const Usage& usage, const Speed&) override {
    const char* status = cut_ ? "incomplete" : "completed";
    if (!o_.generation.stream) {
      std::string out;
      JsonWriter json(out);
      response(json, status, &usage, nullptr);
      o_.reply->send(200, "application/json", std::move(out));
      return;
    }
    event(cut_ ? "response.incomplete" : "response.completed",
          [&](JsonWriter& json) { response(json.key("response"), status, &usage, nullptr); });
    o_.reply->end_stream();
  }

  void failed(const ApiError& error) override {
    if (!begun_) {
      send_error(*o_.reply, error);
      return;
    }
    event("response.failed", [&](JsonWriter& json) { response(json.key("response"), "failed", nullptr, &error); });
    o_.reply->end_stream();
  }

 private:
  template <class F>
  void event(const char* type, F&& fields) {
    std::string out;
    JsonWriter json(out);
    json.object().field("type", type).field("sequence_number", sequence_++);
    fields(json);
    json.end();
    o_.reply->event(type, out);
  }
  /// An event of the last item.
  template <class F>
  void item_event(const char* type, bool of_content, F&& fields) {
    if (!o_.generation.stream) return;
    event(type, [&](JsonWriter& json) {
      json.field("item_id", items_.back().id).field("output_index", items_.size() - 1);
      if (of_content) json.field("content_index", 0);
      fields(json);
    });
  }

  void take(const answer::Event& e, const Choice& choice) {
    using answer::EventKind;
    if (e.kind == EventKind::Thinking && !o_.shows_thinking) return;
    if (e.kind == EventKind::CallEnd) return close_last(true);
    if (e.kind == EventKind::CallBegin) {
      open({EventKind::Arguments, new_id("fc_"), "", choice.calls[static_cast<std::size_t>(e.call)].id, e.text});
      return;
    }
    if (items_.empty() || items_.back().complete || items_.back().kind != e.kind)
      open({e.kind, new_id(e.kind == EventKind::Thinking ? "rs_" : "msg_"), "", "", ""});
    items_.back().text += e.text;
    const bool content = e.kind != EventKind::Arguments;
    item_event(e.kind == EventKind::Thinking  ? "response.reasoning_text.delta"
               : e.kind == EventKind::Content ? "response.output_text.delta"
                                              : "response.function_call_arguments.delta",
               content, [&](JsonWriter& json) {
                 json.field("delta", e.text);
                 if (e.kind == EventKind::Content) json.key("logprobs").array().end_array();
               });
  }

  void open(Item opened) {
    close_last(true);
    items_.push_back(std::move(opened));
    if (!o_.generation.stream) return;
    event("response.output_item.added", [&](JsonWriter& json) {
      json.field("output_index", items_.size() - 1);
      item(json.key("item"), items_.back(), true);
    });
    if (items_.back().kind != answer::EventKind::Arguments)
      item_event("response.content_part.added", true, [&](JsonWriter& json) { part(json.key("part"), items_.back()); });
  }

  void close_last(bool complete) {
    if (items_.empty() || items_.back().complete || cut_) return;
    Item& last = items_.back();
    if (!complete) cut_ = true;
    last.complete = complete;
    if (!o_.generation.stream) return;
    if (last.kind == answer::EventKind::Arguments) {
      item_event("response.function_call_arguments.done", false,
                 [&](JsonWriter& json) { json.field("name", last.name).field("arguments", last.text); });
    } else {
      const bool thinking = last.kind == answer::EventKind::Thinking;
      item_event(thinking ? "response.reasoning_text.done" : "response.output_text.done", true, [&](JsonWriter& json) {
        json.field("text", last.text);
        if (!thinking) json.key("logprobs").array().end_array();
      });
      item_event("response.content_part.done", true, [&](JsonWriter& json) { part(json.key("part"), last); });
    }
    event("response.output_item.done", [&](JsonWriter& json) {
      json.field("output_index", items_.size() - 1);
      item(json.key("item"), last, false);
    });
  }

  static void part(JsonWriter& json, const Item& it) {
    json.object()
        .field("type", it.kind == answer::EventKind::Thinking ? "reasoning_text" : "output_text")
        .field("text", it.text);
    if (it.kind == answer::EventKind::Content)
      json.key("annotations").array().end_array().key("logprobs").array().end_array();
    json.end();
  }

  /// `opening`: without its contents.
  static void item(JsonWriter& json, const Item& it, bool opening) {
    const char* status = opening ? "in_progress" : it.complete ? "completed" : "incomplete";
    json.object().field("id", it.id);
    if (it.kind == answer::EventKind::Arguments) {
      json.field("type", "function_call").field("status", status).field("call_id", it.call_id).field("name", it.name);
      json.field("arguments", opening ? "" : it.text).end();
      return;
    }
    const bool thinking = it.kind == answer::EventKind::Thinking;
    json.field("type", thinking ? "reasoning" : "message").field("status", status);
    if (thinking)
      json.key("summary").array().end_array();
    else
      json.field("role", "assistant");
    json.key("content").array();
    if (!opening) part(json, it);
    json.end_array().end();
  }

  void response(JsonWriter& json, const char* status, const Usage* usage, const ApiError* error) const {
    json.object().field("id", id_).field("object", "response").field("created_at", created_).field("status", status);
    json.field("model", o_.model).key("error");
    if (error != nullptr)
      json.object().field("code", "server_error").field("message", error->message).end();
    else
      json.null();
    json.key("incomplete_details");
    if (usage != nullptr && cut_)
      json.object().field("reason", "max_output_tokens").end();
    else
      json.null();
    json.key("output").array();
    if (usage != nullptr)
      for (const Item& it : items_) item(json, it, false);
    json.end_array();
    json.field("parallel_tool_calls", o_.parallel)
        .key("tool_choice")
        .raw(o_.tool_choice)
        .key("tools")
        .raw(o_.tools.empty() ? "[]" : o_.tools);
    json.key("instructions")
        .null()
        .key("metadata")
        .object()
        .end()
        .key("previous_response_id")
        .null()
        .field("store", false);
    const auto maybe = [&](const char* name, const auto& value) {
      json.key(name);
      if (value)
        json.value(*value);
      else
        json.null();
    };
    maybe("temperature", o_.generation.temperature);
    maybe("top_p", o_.generation.top_p);
    maybe("max_output_tokens", o_.generation.max_tokens);
    json.field("truncation", "disabled").key("usage");
    if (usage == nullptr) {
      json.null();
    } else {
      json.object().field("input_tokens", usage->prompt).key("input_tokens_details").object();
      json.field("cached_tokens", usage->cached).field("cache_write_tokens", 0).end();
      json.field("output_tokens", usage->completion).key("output_tokens_details").object();
      json.field("reasoning_tokens", usage->thinking)
          .end()
          .field("total_tokens", usage->prompt + usage->completion)
          .end();
    }
    json.end();
  }

  WriterOptions o_;
  std::string id_;
  std::int64_t created_;
  std::vector<Item> items_;
  std::int64_t sequence_ = 0;
  bool begun_ = false, cut_ = false;
};

}  // namespace

std::unique_ptr<AnswerWriter> response_writer(WriterOptions options) {
  return std::make_unique<ResponseWriter>(std::move(options));
}

}  // namespace mortar::server
