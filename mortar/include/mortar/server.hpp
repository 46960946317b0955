// The server that `mortar serve` is: OpenAI's API over HTTP, for one model.
//
//   mortar::Server server(std::move(engine), {.port = 0});
//   std::printf("http://127.0.0.1:%d\n", server.port());
//   server.run();                      // until another thread, or a signal handler's pipe, calls server.drain()
//
// Link mortar::server; mortar::mortar alone needs neither Boost nor OpenSSL. docs/mortar/serving.md has the routes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mortar/engine.hpp"

namespace mortar {

enum class ToolFormat : std::uint8_t {
  Auto,  ///< by the text of the model's chat template
  Json,
  Xml,
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                                 ///< 0: any free one
  std::string name = {};                           ///< of the model in answers; empty: the last part of its folder
  std::string api_key_file = {};                   ///< lines of "NAME KEY"; empty: no key is needed
  std::vector<std::string> cors = {};              ///< origins of web pages that may ask
  std::string tls_cert = {}, tls_key = {};         ///< PEM files; both or none
  double timeout = 600;                            ///< seconds that an answer may take; 0: any time
  double drain = 30;                               ///< seconds that drain() waits for answers
  std::size_t body_limit = std::size_t{32} << 20;  ///< bytes
  std::size_t max_connections_per_address = 0;     ///< more of a client's address are answered with 503; 0: any number
  std::size_t max_stops = 4;                       ///< stop strings of a request
  bool vllm_metrics = false;                       ///< /metrics has vLLM's names where it knows them
  ToolFormat tool_format = ToolFormat::Auto;
  bool tool_grammar = true;  ///< what a model writes within <tool_call> is one of the tools' calls
  bool reasoning = true, reasoning_content = true;  ///< names of the fields that have the thinking
  bool special_tokens = false;  ///< names such as <|im_end|> in clients' text are these tokens, not text
  std::string log = {};         ///< access log, JSON lines; "-": standard error, empty: none
  int threads = 2;              ///< that read and write HTTP
  std::function<void(const std::string&)> ready =
      {};                                             ///< is called with the address, the model and its sizes, one line
  std::function<void(const std::string&)> note = {};  ///< is told what went wrong, in lines; any thread
  double min_memory = 0.05;                           ///< share of the host's memory that must be available for a new
                                                      ///< request; 0: any
  std::string memory_file = "/proc/meminfo";          ///< says how much is available, in this form
  double step_limit = 120;  ///< seconds of a step of the engine, or 30 mean steps if that is longer; 0: no limit. Steps
                            ///< may compile kernels: a first one that takes seconds is no fault
  /// A step has not ended within the limit, and clients have been told: nothing but the end of the process helps. If it
  /// returns, run() waits for the step, and throws.
  std::function<void()> hung = {};
};

class Server {
 public:
  /// Listens. Throws RequestError for options that cannot be used, ModelError if the model has no tokenizer.
  explicit Server(Engine engine, const ServerOptions& options = {});
  /// Listens at once; run() loads. Until then /ready and requests are answered with 503. `folder` is the model's.
  Server(std::string folder, std::function<Engine()> load, const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const;
  /// Serves until drain(). True if all answers ended by themselves, false if some were ended with an error. Throws what
  /// loading throws, and what makes the engine end.
  bool run();
  /// From any thread: no new requests; run() returns when all answers have been given, or ServerOptions::drain seconds
  /// have passed.
  void drain();
  /// Opens the file of the access log anew.
  void reopen_log();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace mortar
