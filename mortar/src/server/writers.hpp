// Answers in the forms of the routes, whole or as streams.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "http/http.hpp"
#include "mortar/tokenizer.hpp"
#include "server/request.hpp"
#include "server/run.hpp"
#include "text/json_writer.hpp"

namespace mortar::server {

enum class ThinkingField : std::uint8_t { Both, Reasoning, ReasoningContent };

/// What a writer knows of its request.
struct WriterOptions {
  WriterOptions(std::shared_ptr<HttpReply> reply, Tokenizer tokenizer, std::string model, Generation generation)
      : reply(std::move(reply)),
        tokenizer(std::move(tokenizer)),
        model(std::move(model)),
        generation(std::move(generation)) {}
  std::shared_ptr<HttpReply> reply;
  Tokenizer tokenizer;
  std::string model;  ///< its name in answers
  Generation generation;
  bool shows_thinking = true;
  ThinkingField thinking_field = ThinkingField::Both;
  std::uint64_t seed = 0;
  std::vector<TokenId> prompt_ids;  ///< with return_ids
  // /v1/responses repeats these.
  std::string tools, tool_choice = "\"auto\"";
  bool parallel = true;
  std::int64_t prompt_tokens = 0;
};

std::unique_ptr<AnswerWriter> chat_writer(WriterOptions options);
std::unique_ptr<AnswerWriter> completion_writer(WriterOptions options);
std::unique_ptr<AnswerWriter> response_writer(WriterOptions options);
std::unique_ptr<AnswerWriter> message_writer(WriterOptions options);

/// How many log-probabilities and ids of a choice its stream has had, and how many bytes the former's tokens have.
struct Sent {
  std::size_t logprobs = 0, ids = 0, bytes = 0;
};

/// Value of system_fingerprint: the version of the program.
std::string fingerprint();

// Parts that several forms share.

/// Ends a stream in OpenAI's form.
void end_stream(HttpReply& reply);
/// Reports an error in OpenAI's form: as an event if the stream has `begun`, else as the answer.
void fail_stream(HttpReply& reply, bool begun, const ApiError& error);
void write_usage(text::JsonWriter& json, const Usage& usage);
/// As llama.cpp has them: milliseconds, tokens a second.
void write_timings(text::JsonWriter& json, const Speed& speed);
/// {"token", "logprob", "bytes"} of one token, without the end of the object.
void write_token(text::JsonWriter& json, const Tokenizer& tokenizer, TokenId id, float logprob);
void write_ids(text::JsonWriter& json, const char* name, const std::vector<TokenId>& ids, std::size_t from = 0);

}  // namespace mortar::server
