// One request that is being answered: its choices, from the tokens of the engine to the pieces that a writer sends.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "answer/answer_machine.hpp"
#include "mortar/engine.hpp"
#include "server/api_error.hpp"

namespace mortar::server {

class ServerMetrics;

enum class Finish : std::uint8_t { Stop, Length, ToolCalls };
/// "stop", "length", "tool_calls"
const char* name_of(Finish finish) noexcept;

struct Call {
  std::string id, name, arguments;
};
struct Logprob {
  TokenId id;
  float logprob;
  std::vector<TokenLogprob> top;
};

/// One answer, as far as it has come.
struct Choice {
  std::string thinking, content;
  std::vector<Call> calls;
  std::vector<Logprob> logprobs;  ///< of tokens of content
  std::vector<TokenId> ids;       ///< all tokens
  std::int64_t tokens = 0, thinking_tokens = 0;
  std::optional<Finish> finish;
  std::string stop;  ///< the stop string that ended it; empty: none

  // What has come since the last piece.
  answer::Events fresh;
  std::vector<Logprob> held_logprobs;  ///< of tokens whose text is still held back

  std::unique_ptr<answer::AnswerMachine> machine;
  std::chrono::steady_clock::time_point last_token;
};

struct Usage {
  std::int64_t prompt = 0, cached = 0, completion = 0, thinking = 0;
};
/// Seconds, as clients see them.
struct Speed {
  std::int64_t prompt_tokens = 0, cached_tokens = 0, tokens = 0;
  double queue = 0, prompt = 0, answer = 0;
};

/// Sends an answer in the form of one route. All calls come from one thread.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  /// The request waits for the engine: streams begin here.
  virtual void begin() = 0;
  /// More of a choice: choice.fresh; log-probabilities and ids are all that there are so far. `usage`: so far.
  virtual void piece(std::size_t index, const Choice& choice, const Usage& usage) = 0;
  /// The choice has ended; its last piece may be part of this call.
  virtual void finished(std::size_t index, const Choice& choice, const Usage& usage, const Speed* speed) = 0;
  /// All choices have ended.
  virtual void done(const std::vector<Choice>& choices, const Usage& usage, const Speed& speed) = 0;
  virtual void failed(const ApiError& error) = 0;
};

/// A prompt of a request, with the choices that answer it.
struct RunPrompt {
  Request request;
  answer::MachineOptions machine;
};

class Run : public std::enable_shared_from_this<Run> {
 public:
  Run(Tokenizer tokenizer, std::vector<RunPrompt> prompts, std::unique_ptr<AnswerWriter> writer,
      ServerMetrics& metrics);

  /// What a token of the engine is when it comes to the thread of answers.
  struct Arrived {
    std::shared_ptr<Run> run;
    std::size_t prompt;
    Token token;
    std::chrono::steady_clock::time_point time;
  };
  using Deliver = std::function<void(Arrived)>;
  /// Submits all prompts to the engine. Throws what submit() throws, with nothing left in the engine, unless the run
  /// was ended before: its client knows. `engine` must outlive the run; its tokens are given to `deliver`, on the
  /// thread that steps.
  void submit(Engine& engine, const Deliver& deliver);

  // On the thread of answers.
  void take(const Arrived& arrived);
  /// Sends what has been taken.
  void flush();

  /// Writes the beginning of the answer; on the thread of answers.
  void begin();

  /// Ends the run, without a word to the client: it has gone. From any thread.
  void abandon();
  /// Ends the run with an error; on the thread of answers.
  void fail(const ApiError& error);
  bool ended() const { return ended_; }
  std::chrono::steady_clock::time_point started() const { return started_; }

 private:
  std::size_t place(std::size_t prompt, std::int64_t choice) const {
    return prompt * per_prompt_ + static_cast<std::size_t>(choice);
  }
  void take_token(Choice& choice, const Arrived& arrived);
  static void add_fresh(Choice& choice, answer::Events events);
  static void add_events(Choice& choice);
  void end_choice(std::size_t index, Finish finish, const Arrived& arrived);
  void cancel_all();
  Usage usage() const;
  Speed speed(const Usage& usage) const;

  Tokenizer tokenizer_;
  std::vector<RunPrompt> prompts_;
  std::unique_ptr<AnswerWriter> writer_;
  ServerMetrics& metrics_;
  std::size_t per_prompt_ = 1;
  std::vector<Choice> choices_;
  std::int64_t prompt_tokens_ = 0, cached_tokens_ = 0;
  std::optional<SequenceTimings> timings_;
  std::chrono::steady_clock::time_point started_, first_token_, last_token_;
  bool has_token_ = false, begun_ = false;
  std::atomic<bool> ended_{false};
  std::mutex mutex_;  // guards what follows
  Engine* engine_ = nullptr;
  std::vector<SequenceId> sequences_;
};

}  // namespace mortar::server
