// text_completion, whole and in pieces.
#include <span>
#include <string_view>

#include "server/ids.hpp"
#include "server/writers.hpp"
#include "text/utf8.hpp"

namespace mortar::server {
namespace {

using text::JsonWriter;

class CompletionWriter final : public AnswerWriter {
 public:
  explicit CompletionWriter(WriterOptions options)
      : o_(std::move(options)), id_(new_id("cmpl-")), created_(wall_clock()) {}

  void begin() override {
    if (!o_.generation.stream) return;
    o_.reply->begin_stream();
    begun_ = true;
  }
  void piece(std::size_t index, const Choice& choice, const Usage& usage) override {
    if (o_.generation.stream) chunk(index, choice, usage, nullptr);
  }
  void finished(std::size_t index, const Choice& choice, const Usage& usage, const Speed* speed) override {
    if (o_.generation.stream) chunk(index, choice, usage, speed);
  }

  void done(const std::vector<Choice>& choices, const Usage& usage, const Speed& speed) override {
    std::string out;
    JsonWriter json(out);
    head(json);
    json.key("choices").array();
    if (!o_.generation.stream)
      for (std::size_t i = 0; i < choices.size(); ++i) {
        Sent none;
        one(json, i, choices[i], choices[i].content, none);
      }
    json.end_array().key("usage");
    write_usage(json, usage);
    if (!o_.generation.stream) {
      if (o_.generation.return_ids) write_ids(json, "prompt_token_ids", o_.prompt_ids);
      json.field("seed", o_.seed).key("timings");
      write_timings(json, speed);
    }
    json.end();
    if (!o_.generation.stream) {
      o_.reply->send(200, "application/json", std::move(out));
      return;
    }
    if (o_.generation.include_usage) o_.reply->event(out);
    end_stream(*o_.reply);
  }

  void failed(const ApiError& error) override { fail_stream(*o_.reply, begun_, error); }

 private:
  void head(JsonWriter& json) const {
    json.object()
        .field("id", id_)
        .field("object", "text_completion")
        .field("created", created_)
        .field("model", o_.model);
    json.field("system_fingerprint", fingerprint_);
  }

  /// The older form of log-probabilities: four lists, of what has not been sent.
  void logprobs(JsonWriter& json, const Choice& choice, Sent& sent) const {
    json.key("logprobs");
    if (o_.generation.logprobs < 0) {
      json.null();
      return;
    }
    const std::span fresh = std::span(choice.logprobs).subspan(sent.logprobs);
    std::vector<std::string_view> bytes;
    for (const Logprob& l : fresh) bytes.push_back(o_.tokenizer.bytes(l.id));
    const auto list = [&](const char* name, const auto& values, auto&& write) {
      json.key(name).array();
      for (const auto& value : values) write(value);
      json.end_array();
    };
    json.object();
    list("tokens", bytes, [&](std::string_view token) { json.value(text::replace_invalid_utf8(token)); });
    list("token_logprobs", fresh, [&](const Logprob& l) { json.value(static_cast<double>(l.logprob)); });
    list("top_logprobs", fresh, [&](const Logprob& l) {
      json.object();
      for (std::size_t i = 0; i < l.top.size() && i < static_cast<std::size_t>(o_.generation.logprobs); ++i)
        json.field(text::replace_invalid_utf8(o_.tokenizer.bytes(l.top[i].id)), static_cast<double>(l.top[i].logprob));
      json.end();
    });
    list("text_offset", bytes, [&](std::string_view token) {
      json.value(sent.bytes);
      sent.bytes += token.size();
    });
    json.end();
    sent.logprobs = choice.logprobs.size();
  }

  /// A choice with what has not been sent of it.
  void one(JsonWriter& json, std::size_t index, const Choice& choice, const std::string& text, Sent& sent) const {
    json.object().field("index", index).field("text", text);
    logprobs(json, choice, sent);
    json.key("finish_reason");
    if (choice.finish)
      json.value(name_of(*choice.finish));
    else
      json.null();
    if (choice.finish && !choice.stop.empty()) json.field("stop_reason", choice.stop);
    if (o_.generation.return_ids) write_ids(json, "token_ids", choice.ids, sent.ids);
    sent.ids = choice.ids.size();
    json.end();
  }

  void chunk(std::size_t index, const Choice& choice, const Usage& usage, const Speed* speed) {
    if (sent_.size() <= index) sent_.resize(index + 1);
    Sent& sent = sent_[index];
    std::string text;
    for (const answer::Event& e : choice.fresh)
      if (e.kind == answer::EventKind::Content) text += e.text;
    std::string out;
    JsonWriter json(out);
    head(json);
    json.key("choices").array();
    one(json, index, choice, text, sent);
    json.end_array();
    if (o_.generation.continuous_usage && o_.generation.include_usage) {
      json.key("usage");
      write_usage(json, usage);
    }
    if (speed != nullptr) {
      json.field("seed", o_.seed).key("timings");
      write_timings(json, *speed);
    }
    json.end();
    o_.reply->event(out);
  }

  WriterOptions o_;
  std::string id_, fingerprint_ = fingerprint();
  std::int64_t created_;
  std::vector<Sent> sent_;  // by choice
  bool begun_ = false;
};

}  // namespace

std::unique_ptr<AnswerWriter> completion_writer(WriterOptions options) {
  return std::make_unique<CompletionWriter>(std::move(options));
}

}  // namespace mortar::server
