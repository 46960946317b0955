// Load on an OpenAI-compatible server: many streamed chats at a time, and how long their tokens take.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "http/client.hpp"

namespace mortar {

struct LoadTestOptions {
  std::string url;    ///< with or without /v1
  std::string model;  ///< empty: the first that the server lists
  std::string key;    ///< API key; empty: none
  std::int64_t requests = 1000;
  std::int64_t prompt_tokens = 128, max_tokens = 1024;
  bool ignore_eos = false;    ///< sends this extension of several servers, so that answers have max_tokens
  std::uint64_t seed = 1;     ///< of prompts and arrivals
  std::string conversations;  ///< a file; empty: prompts of prompt_tokens
  std::chrono::milliseconds timeout{600'000};
  bool verify = true;  ///< TLS certificates
  std::string authorities;
  std::function<void(const std::string&)> report;  ///< takes lines about the progress
};

/// How requests arrive: closed-loop, where `concurrency` clients each send the next request when the one before has
/// ended; or as a Poisson process of `rate` requests (with a file: conversations) per second, whatever the server does.
struct Arrivals {
  std::int64_t concurrency = 1;
  double rate = 0;  ///< above 0: Poisson
};

struct Percentiles {
  std::size_t count = 0;
  double mean = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;
};
/// Nearest rank: the smallest value that at least p % of all are not above.
Percentiles percentiles_of(std::vector<double> values);

struct LoadResult {
  std::string model;
  Arrivals arrivals;
  std::int64_t requests = 0;  ///< that were answered to the end
  std::int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  bool exact_tokens = true;  ///< false: the server sent no usage, and pieces of text were counted
  double seconds = 0;        ///< from the first request to the last end
  double requests_per_s = 0, output_tokens_per_s = 0, total_tokens_per_s = 0;
  Percentiles first_token;  ///< seconds from sending to the first piece of text (thinking and calls included)
  Percentiles
      between_tokens;     ///< seconds between a piece of text and the next one of the same answer, all answers together
  Percentiles per_token;  ///< of each answer: (last - first piece) / (tokens - 1), in seconds
  Percentiles whole;      ///< seconds from sending to the end
  std::vector<Percentiles> first_token_of_turn;  ///< of conversations: by number of the turn
  std::map<std::string, std::int64_t> errors;    ///< kind -> count: "connect", "status 503", ...
};

class LoadTest {
 public:
  /// Asks for the model and finds out how long prompts have to be. Throws RequestError if the server cannot be used.
  explicit LoadTest(LoadTestOptions options);
  ~LoadTest();
  LoadTest(const LoadTest&) = delete;
  LoadTest& operator=(const LoadTest&) = delete;
  const std::string& model() const;
  /// Prompt tokens of a request as the server counts them; of conversations 0.
  std::int64_t prompt_tokens() const;
  LoadResult run(const Arrivals& arrivals);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace mortar
