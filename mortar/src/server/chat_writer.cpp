// chat.completion and chat.completion.chunk.
#include "server/ids.hpp"
#include "server/writers.hpp"

namespace mortar::server {
namespace {

using text::JsonWriter;

class ChatWriter final : public AnswerWriter {
 public:
  explicit ChatWriter(WriterOptions options)
      : o_(std::move(options)),
        id_(new_id("chatcmpl-")),
        created_(wall_clock()),
        sent_(static_cast<std::size_t>(o_.generation.choices)) {}

  void begin() override {
    if (!o_.generation.stream) return;
    o_.reply->begin_stream();
    begun_ = true;
    for (std::int64_t i = 0; i < o_.generation.choices; ++i)
      chunk(static_cast<std::size_t>(i), nullptr, {}, nullptr,
            [](JsonWriter& json) { json.field("role", "assistant").field("content", ""); });
  }

  void piece(std::size_t index, const Choice& choice, const Usage& usage) override {
    if (o_.generation.stream) deltas(index, choice, usage, nullptr);
  }

  void finished(std::size_t index, const Choice& choice, const Usage& usage, const Speed* speed) override {
    if (!o_.generation.stream) return;
    deltas(index, choice, usage, nullptr);
    chunk(
        index, &choice, usage, speed, [](JsonWriter&) {}, true);
  }

  void done(const std::vector<Choice>& choices, const Usage& usage, const Speed& speed) override {
    if (!o_.generation.stream) {
      o_.reply->send(200, "application/json", whole(choices, usage, speed));
      return;
    }
    if (o_.generation.include_usage) {
      std::string out;
      JsonWriter json(out);
      head(json, "chat.completion.chunk");
      json.key("choices").array().end_array().key("usage");
      write_usage(json, usage);
      json.end();
      o_.reply->event(out);
    }
    end_stream(*o_.reply);
  }

  void failed(const ApiError& error) override { fail_stream(*o_.reply, begun_, error); }

 private:
  void head(JsonWriter& json, const char* object) const {
    json.object().field("id", id_).field("object", object).field("created", created_).field("model", o_.model);
    json.field("system_fingerprint", fingerprint_);
  }

  /// Text of thinking, under the names that clients look for.
  void thinking(JsonWriter& json, const std::string& text) const {
    if (o_.thinking_field != ThinkingField::ReasoningContent) json.field("reasoning", text);
    if (o_.thinking_field != ThinkingField::Reasoning) json.field("reasoning_content", text);
  }

  void logprob(JsonWriter& json, const Logprob& l) const {
    write_token(json, o_.tokenizer, l.id, l.logprob);
    json.key("top_logprobs").array();
    for (std::size_t i = 0; i < l.top.size() && i < static_cast<std::size_t>(o_.generation.logprobs); ++i) {
      write_token(json, o_.tokenizer, l.top[i].id, l.top[i].logprob);
      json.end();
    }
    json.end_array().end();
  }

  void logprobs(JsonWriter& json, const Choice& choice, std::size_t from) const {
    json.key("logprobs");
    if (o_.generation.logprobs < 0) {
      json.null();
      return;
    }
    json.object().key("content").array();
    for (std::size_t i = from; i < choice.logprobs.size(); ++i) logprob(json, choice.logprobs[i]);
    json.end_array().key("refusal").null().end();
  }

  /// One chunk. `choice`: log-probabilities and ids that have not been sent go with it.
  template <class Delta>
  void chunk(std::size_t index, const Choice* choice, const Usage& usage, const Speed* speed, Delta&& delta,
             bool last = false) {
    std::string out;
    JsonWriter json(out);
    head(json, "chat.completion.chunk");
    json.key("choices").array().object().field("index", index).key("delta").object();
    delta(json);
    json.end();
    if (choice != nullptr && o_.generation.logprobs >= 0) {
      logprobs(json, *choice, sent_[index].logprobs);
    } else {
      json.key("logprobs").null();
    }
    json.key("finish_reason");
    if (last)
      json.value(name_of(*choice->finish));
    else
      json.null();
    if (choice != nullptr && o_.generation.return_ids) write_ids(json, "token_ids", choice->ids, sent_[index].ids);
    if (last && !choice->stop.empty()) json.field("stop_reason", choice->stop);
    json.end().end_array();
    if (o_.generation.return_ids && choice == nullptr) write_ids(json, "prompt_token_ids", o_.prompt_ids);
    if (o_.generation.continuous_usage && o_.generation.include_usage && choice != nullptr) {
      json.key("usage");
      write_usage(json, usage);
    }
    if (speed != nullptr) {
      json.field("seed", o_.seed).key("timings");
      write_timings(json, *speed);
    }
    json.end();
    o_.reply->event(out);
    if (choice != nullptr) sent_[index] = {choice->logprobs.size(), choice->ids.size()};
  }

  /// The events of a piece: text of one kind is one chunk, a call's beginning and its arguments are one.
  void deltas(std::size_t index, const Choice& choice, const Usage& usage, const Speed* speed) {
    const answer::Events& events = choice.fresh;
    for (std::size_t i = 0; i < events.size(); ++i) {
      const answer::Event& e = events[i];
      switch (e.kind) {
        case answer::EventKind::Thinking:
          if (o_.shows_thinking) chunk(index, &choice, usage, speed, [&](JsonWriter& json) { thinking(json, e.text); });
          break;
        case answer::EventKind::Content:
          chunk(index, &choice, usage, speed, [&](JsonWriter& json) { json.field("content", e.text); });
          break;
        case answer::EventKind::CallBegin: {
          const bool with = i + 1 < events.size() && events[i + 1].kind == answer::EventKind::Arguments;
          const std::string& arguments = with ? events[i + 1].text : std::string();
          chunk(index, &choice, usage, speed, [&](JsonWriter& json) {
            json.key("tool_calls").array().object().field("index", e.call);
            json.field("id", choice.calls[static_cast<std::size_t>(e.call)].id).field("type", "function");
            json.key("function").object().field("name", e.text).field("arguments", arguments).end().end().end_array();
          });
          if (with) ++i;
          break;
        }
        case answer::EventKind::Arguments:
          chunk(index, &choice, usage, speed, [&](JsonWriter& json) {
            json.key("tool_calls").array().object().field("index", e.call);
            json.key("function").object().field("arguments", e.text).end().end().end_array();
          });
          break;
        case answer::EventKind::CallEnd: break;
      }
    }
  }

  std::string whole(const std::vector<Choice>& choices, const Usage& usage, const Speed& speed) const {
    std::string out;
    JsonWriter json(out);
    head(json, "chat.completion");
    json.key("choices").array();
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const Choice& c = choices[i];
      json.object().field("index", i).key("message").object().field("role", "assistant").key("content");
      if (c.content.empty() && !c.calls.empty())
        json.null();
      else
        json.value(c.content);
      json.key("refusal").null();
      if (!c.thinking.empty() && o_.shows_thinking) thinking(json, c.thinking);
      if (!c.calls.empty()) {
        json.key("tool_calls").array();
        for (const Call& call : c.calls) {
          json.object().field("id", call.id).field("type", "function").key("function").object();
          json.field("name", call.name).field("arguments", call.arguments).end().end();
        }
        json.end_array();
      }
      json.end();
      logprobs(json, c, 0);
      json.field("finish_reason", name_of(*c.finish));
      if (!c.stop.empty()) json.field("stop_reason", c.stop);
      if (o_.generation.return_ids) write_ids(json, "token_ids", c.ids);
      json.end();
    }
    json.end_array().key("usage");
    write_usage(json, usage);
    if (o_.generation.return_ids) write_ids(json, "prompt_token_ids", o_.prompt_ids);
    json.field("seed", o_.seed).key("timings");
    write_timings(json, speed);
    json.end();
    return out;
  }

  WriterOptions o_;
  std::string id_, fingerprint_ = fingerprint();
  std::int64_t created_;
  bool begun_ = false;
  std::vector<Sent> sent_;  // by choice
};

}  // namespace

std::unique_ptr<AnswerWriter> chat_writer(WriterOptions options) {
  return std::make_unique<ChatWriter>(std::move(options));
}

}  // namespace mortar::server
