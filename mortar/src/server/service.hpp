// What the routes share: the model that is served, and the way of a request from its body to the engine.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "http/http.hpp"
#include "mortar/chat_template.hpp"
#include "mortar/grammar.hpp"
#include "mortar/server.hpp"
#include "server/answer_thread.hpp"
#include "server/grammar_cache.hpp"
#include "server/host_memory.hpp"
#include "server/metrics.hpp"
#include "server/parse.hpp"
#include "server/workers.hpp"
#include "server/writers.hpp"

namespace mortar::server {

/// A model that has been loaded.
struct Served {
  /// Throws ModelError if the model has no tokenizer, or its chat template is damaged.
  Served(Engine loaded, const ServerOptions& options);
  Engine engine;
  Tokenizer tokenizer;
  std::optional<ChatTemplate> chat;
  bool may_think = false;  ///< the template lets a request choose whether the model thinks
  PlainText plain;
  ParseContext context;
  std::vector<TokenId> eos;
  std::shared_ptr<const Vocabulary> vocabulary;
  GrammarCache grammars;
};

class Service {
 public:
  Service(const ServerOptions& options, std::string model);

  void set_served(std::shared_ptr<Served> served);
  /// Throws ApiError (503) while there is none, and after drain().
  std::shared_ptr<Served> served() const;
  std::shared_ptr<Served> served_or_null() const;
  /// Ends what is being answered, and gives the model back. Afterwards nothing is answered any more.
  void stop();
  void set_draining() { draining_ = true; }
  void set_broken() { broken_ = true; }
  bool draining() const { return draining_; }
  bool broken() const { return broken_; }

  /// Does `work` on a thread that may take its time; what it throws is the answer.
  void handle(std::shared_ptr<HttpReply> reply, Dialect dialect, std::function<void()> work);
  void check_model(const std::string& name) const;
  void count_unknown(const Generation& generation);

  /// The ids of a chat's prompt. Throws ApiError.
  std::vector<TokenId> prompt_of(Served& served, const ChatRequest& chat) const;
  /// Begins to answer.
  void start_chat(const std::shared_ptr<Served>& served, const HttpRequest& http, std::shared_ptr<HttpReply> reply,
                  ChatRequest chat, std::unique_ptr<AnswerWriter> (*writer)(WriterOptions));
  void start_completion(const std::shared_ptr<Served>& served, const HttpRequest& http,
                        std::shared_ptr<HttpReply> reply, CompletionRequest completion);

  const ServerOptions& options() const { return options_; }
  const std::string& model() const { return model_; }
  std::int64_t created() const { return created_; }
  ServerMetrics& metrics() { return metrics_; }
  AnswerThread& answers() { return answers_; }

 private:
  Request engine_request(const Served& served, const HttpRequest& http, const Generation& g, std::vector<TokenId> ids,
                         std::uint64_t seed, const std::string& prompt_field) const;
  void constrain_chat(Served& served, const ChatRequest& chat, answer::Thinking thinking, Request& request) const;
  void constrain_content(Served& served, const Generation& g, bool after_thinking, Request& request) const;
  void start(const std::shared_ptr<Served>& served, std::vector<RunPrompt> prompts, WriterOptions writer_options,
             std::unique_ptr<AnswerWriter> (*writer)(WriterOptions));
  WriterOptions writer_options(const Served& served, std::shared_ptr<HttpReply> reply, const Generation& g,
                               std::uint64_t seed) const;

  ServerOptions options_;
  std::string model_;
  std::int64_t created_;
  mutable std::mutex mutex_;
  std::shared_ptr<Served> served_;  // guarded by mutex_
  std::atomic<bool> draining_{false}, broken_{false};
  ServerMetrics metrics_;
  HostMemory memory_;
  AnswerThread answers_;
  Workers workers_;  // last: its threads use the rest
};

}  // namespace mortar::server
