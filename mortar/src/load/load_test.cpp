// The load test: arrivals, streamed chats, and what is measured of them. Callbacks come on the thread of the client.
#include "load_test.hpp"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>

#include "conversations.hpp"
#include "event_reader.hpp"
#include "http/message_parser.hpp"
#include "mortar/errors.hpp"

namespace mortar {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

/// The address without /v1 at its end.
Url root_of(const std::string& text) {
  Url url = parse_url(text);
  if (url.path.ends_with("/v1")) url.path.resize(url.path.size() - 3);
  return url;
}

std::string message_of(const std::string& body) {
  const json parsed = json::parse(body, nullptr, false);
  if (parsed.is_object() && parsed.contains("error")) {
    const json& error = parsed["error"];
    if (error.is_object() && error.contains("message") && error["message"].is_string()) return error["message"];
  }
  return body.substr(0, 200);
}

std::string text_field(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::int64_t integer_field(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

/// One conversation that is being held: what was said, and how many turns of it are done.
struct Session {
  Conversation script;
  json messages = json::array();
  std::size_t turn = 0;
};

/// What one request measured.
struct Measurement {
  Clock::time_point sent, first, last;
  std::int64_t pieces = 0;
  json usage;
  std::string text, failure, error_body;
  int status = 0;
  bool done = false;
  std::vector<double> gaps;

  /// Data of one event that came at `now`.
  void take(std::string_view data, Clock::time_point now);
};

void Measurement::take(std::string_view data, Clock::time_point now) {
  if (data == "[DONE]") {
    done = true;
    return;
  }
  const json chunk = json::parse(data.begin(), data.end(), nullptr, false);
  if (!chunk.is_object()) {
    failure = "malformed event";
    return;
  }
  if (chunk.contains("error") && !chunk["error"].is_null()) failure = "error event";
  if (chunk.contains("usage") && chunk["usage"].is_object()) usage = chunk["usage"];
  const auto choices = chunk.find("choices");
  if (choices == chunk.end() || !choices->is_array() || choices->empty()) return;
  const json& choice = choices->front();
  if (!choice.is_object() || !choice.contains("delta") || !choice["delta"].is_object()) return;
  const json& delta = choice["delta"];
  const std::string content = text_field(delta, "content");
  const auto calls = delta.find("tool_calls");
  if (content.empty() && text_field(delta, "reasoning").empty() && text_field(delta, "reasoning_content").empty() &&
      (calls == delta.end() || !calls->is_array() || calls->empty()))
    return;
  text += content;
  if (pieces++ == 0)
    first = now;
  else
    gaps.push_back(seconds(now - last));
  last = now;
}

}  // namespace

Percentiles percentiles_of(std::vector<double> values) {
  Percentiles p;
  p.count = values.size();
  if (values.empty()) return p;
  std::sort(values.begin(), values.end());
  const auto rank = [&](double share) {
    const auto k = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
    return values[std::max<std::size_t>(k, 1) - 1];
  };
  p.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  p.p50 = rank(0.50);
  p.p90 = rank(0.90);
  p.p95 = rank(0.95);
  p.p99 = rank(0.99);
  p.max = values.back();
  return p;
}

class LoadTest::State {
 public:
  explicit State(LoadTestOptions given);

  std::string first_model();
  /// Prompt tokens of a chat with a text of so many words: by /tokenize, or by the usage of an answer of one token.
  std::optional<std::int64_t> count(std::int64_t words);
  void calibrate();
  HttpHeaders headers(bool stream) const;
  json request(const json& messages, std::int64_t max_tokens) const;

  void begin(const Arrivals& arrivals);
  bool start_session();
  void send(std::shared_ptr<Session> session);
  void end(const std::shared_ptr<Session>& session, Measurement& m, const std::string& error);
  void record(const Session& session, Measurement& m, const std::string& kind);
  LoadResult finish();

  const LoadTestOptions options;
  std::vector<Conversation> conversations;
  std::string model;
  std::int64_t words = 0, prompt_tokens = 0;
  bool can_tokenize = true;

  std::mutex mutex;
  std::condition_variable changed;
  // One run.
  LoadResult result;
  std::int64_t started = 0, ended = 0;
  std::uint64_t sessions = 0;  ///< of all runs: no prompt comes twice
  Clock::time_point first_sent, last_end;
  std::vector<double> first_token, between, per_token, whole;
  std::vector<std::vector<double>> of_turn;

  HttpClient client;  ///< is destroyed first: its callbacks use the rest
};

LoadTest::State::State(LoadTestOptions given)
    : options(std::move(given)),
      client(root_of(options.url),
             {.timeout = options.timeout, .verify = options.verify, .authorities = options.authorities}) {
  if (!options.conversations.empty()) conversations = read_conversations(options.conversations);
  model = options.model.empty() ? first_model() : options.model;
  if (conversations.empty()) calibrate();
}

HttpHeaders LoadTest::State::headers(bool stream) const {
  HttpHeaders out = {{"Content-Type", "application/json"},
                     {"Accept", stream ? "text/event-stream" : "application/json"}};
  if (!options.key.empty()) out.emplace_back("Authorization", "Bearer " + options.key);
  return out;
}

json LoadTest::State::request(const json& messages, std::int64_t max_tokens) const {
  json out = {{"model", model}, {"messages", messages}, {"max_tokens", max_tokens}};
  if (options.ignore_eos) out["ignore_eos"] = true;
  return out;
}

std::string LoadTest::State::first_model() {
  const HttpAnswer answer = client.ask("GET", "/v1/models", {}, headers(false));
  if (!answer.error.empty()) throw RequestError(options.url + ": " + answer.error);
  const json body = json::parse(answer.body, nullptr, false);
  if (answer.status != 200)
    throw RequestError(options.url + "/v1/models: status " + std::to_string(answer.status) + ": " +
                       message_of(answer.body));
  if (body.is_object() && body.contains("data") && body["data"].is_array() && !body["data"].empty() &&
      body["data"][0].is_object())
    if (std::string id = text_field(body["data"][0], "id"); !id.empty()) return id;
  throw RequestError(options.url +
                     "/v1/models: expected a list of models, found none: is this an OpenAI-compatible server?");
}

std::optional<std::int64_t> LoadTest::State::count(std::int64_t n) {
  constexpr std::uint64_t kOfNoSession = UINT64_MAX;
  const json messages = {{{"role", "user"}, {"content", text_of_words(n, options.seed, kOfNoSession)}}};
  if (can_tokenize) {
    const json body = {{"model", model}, {"messages", messages}};
    const HttpAnswer answer = client.ask("POST", "/tokenize", body.dump(), headers(false));
    const json parsed = json::parse(answer.body, nullptr, false);
    can_tokenize = answer.status == 200 && parsed.is_object() && integer_field(parsed, "count") > n / 2;
    if (can_tokenize) return integer_field(parsed, "count");
  }
  const HttpAnswer answer = client.ask("POST", "/v1/chat/completions", request(messages, 1).dump(), headers(false));
  if (!answer.error.empty()) throw RequestError(options.url + ": " + answer.error);
  if (answer.status != 200)
    throw RequestError(options.url + "/v1/chat/completions: status " + std::to_string(answer.status) + ": " +
                       message_of(answer.body));
  const json parsed = json::parse(answer.body, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("usage") || !parsed["usage"].is_object()) return std::nullopt;
  const std::int64_t tokens = integer_field(parsed["usage"], "prompt_tokens");
  return tokens > 0 ? std::optional(tokens) : std::nullopt;
}

/// Tokens grow with words by a constant factor, beside those of the chat template.
void LoadTest::State::calibrate() {
  const std::int64_t target = options.prompt_tokens, few = 8, many = few + std::clamp<std::int64_t>(target, 64, 1024);
  const auto low = count(few), high = low ? count(many) : std::nullopt;
  words = target;
  if (!low || !high || *high <= *low) {
    if (options.report)
      options.report("the server does not count tokens: prompts have as many words as tokens were wanted");
    return;
  }
  const double slope = static_cast<double>(*high - *low) / static_cast<double>(many - few);
  const auto move = [&](std::int64_t from, std::int64_t tokens) {
    const auto by = std::llround(static_cast<double>(target - tokens) / slope);
    return std::max<std::int64_t>(from + by, 1);
  };
  words = move(few, *low);
  prompt_tokens = count(words).value_or(0);
  if (const std::int64_t better = move(words, prompt_tokens); better != words) {
    words = better;
    prompt_tokens = count(words).value_or(0);
  }
  if (options.report)
    options.report("prompts of " + std::to_string(words) + " words are " + std::to_string(prompt_tokens) + " tokens (" +
                   (can_tokenize ? "by /tokenize)" : "by the usage of an answer)"));
}

/// False if all requests have been started.
bool LoadTest::State::start_session() {
  auto session = std::make_shared<Session>();
  {
    const std::lock_guard lock(mutex);
    if (started == options.requests) return false;
    ++started;
    const std::uint64_t number = sessions++;
    if (conversations.empty())
      session->script.turns = {text_of_words(words, options.seed, number)};
    else
      session->script = conversations[number % conversations.size()];
  }
  if (!session->script.system.empty())
    session->messages.push_back({{"role", "system"}, {"content", session->script.system}});
  send(std::move(session));
  return true;
}

void LoadTest::State::send(std::shared_ptr<Session> session) {
  session->messages.push_back({{"role", "user"}, {"content", session->script.turns[session->turn]}});
  json body = request(session->messages, options.max_tokens);
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  const auto m = std::make_shared<Measurement>();
  const auto reader = std::make_shared<EventReader>(
      [m = m.get()](std::string_view, std::string_view data) { m->take(data, Clock::now()); });
  HttpCall call{"POST", "/v1/chat/completions", headers(true), body.dump(), {}, {}, {}};
  call.on_head = [m](int status, const HttpHeaders& values) {
    m->status = status;
    const std::string* type = find_header(values, "content-type");
    if (status == 200 && (type == nullptr || !type->starts_with("text/event-stream"))) m->failure = "no stream";
  };
  call.on_data = [m, reader](std::string_view data) {
    if (m->status == 200)
      reader->feed(data);
    else if (m->error_body.size() < 4096)
      m->error_body += data;
  };
  call.on_end = [this, m, session](const std::string& error) { end(session, *m, error); };
  m->sent = Clock::now();
  {
    const std::lock_guard lock(mutex);
    if (first_sent == Clock::time_point()) first_sent = m->sent;
  }
  client.send(std::move(call));
}

void LoadTest::State::end(const std::shared_ptr<Session>& session, Measurement& m, const std::string& error) {
  std::string kind = error.substr(0, error.find(':'));
  if (kind.empty() && m.status != 200) kind = "status " + std::to_string(m.status);
  if (kind.empty()) kind = m.failure;
  if (kind.empty() && !m.done) kind = "incomplete";
  if (kind.empty() && m.pieces == 0) kind = "no text";
  bool next_turn = false;
  {
    const std::lock_guard lock(mutex);
    record(*session, m, kind);
    if (!kind.empty() && result.errors[kind]++ == 0 && options.report)
      options.report("the first " + kind + ": " + (error.empty() ? message_of(m.error_body) : error));
    next_turn = kind.empty() && session->turn + 1 < session->script.turns.size() && started < options.requests;
    if (next_turn) ++started;
  }
  if (next_turn) {
    session->messages.push_back({{"role", "assistant"}, {"content", m.text}});
    ++session->turn;
    send(session);
  } else if (result.arrivals.rate <= 0) {
    start_session();
  }
  const std::lock_guard lock(mutex);
  ++ended;
  changed.notify_all();
}

/// With the lock.
void LoadTest::State::record(const Session& session, Measurement& m, const std::string& kind) {
  last_end = Clock::now();
  if (!kind.empty()) return;
  const bool has_usage = m.usage.is_object() && integer_field(m.usage, "completion_tokens") > 0;
  const std::int64_t tokens = has_usage ? integer_field(m.usage, "completion_tokens") : m.pieces;
  result.exact_tokens = result.exact_tokens && has_usage;
  ++result.requests;
  result.output_tokens += tokens;
  if (has_usage) {
    result.prompt_tokens += integer_field(m.usage, "prompt_tokens");
    if (m.usage.contains("prompt_tokens_details") && m.usage["prompt_tokens_details"].is_object())
      result.cached_tokens += integer_field(m.usage["prompt_tokens_details"], "cached_tokens");
  }
  const double first = seconds(m.first - m.sent);
  first_token.push_back(first);
  between.insert(between.end(), m.gaps.begin(), m.gaps.end());
  if (tokens > 1) per_token.push_back(seconds(m.last - m.first) / static_cast<double>(tokens - 1));
  whole.push_back(seconds(last_end - m.sent));
  if (conversations.empty()) return;
  if (of_turn.size() <= session.turn) of_turn.resize(session.turn + 1);
  of_turn[session.turn].push_back(first);
}

void LoadTest::State::begin(const Arrivals& arrivals) {
  result = {};
  result.model = model;
  result.arrivals = arrivals;
  started = ended = 0;
  first_sent = {};
  for (auto* values : {&first_token, &between, &per_token, &whole}) values->clear();
  of_turn.clear();
}

LoadResult LoadTest::State::finish() {
  const std::lock_guard lock(mutex);
  LoadResult& r = result;
  r.seconds = seconds(last_end - first_sent);
  if (r.seconds > 0) {
    r.requests_per_s = static_cast<double>(r.requests) / r.seconds;
    r.output_tokens_per_s = static_cast<double>(r.output_tokens) / r.seconds;
    r.total_tokens_per_s = static_cast<double>(r.output_tokens + r.prompt_tokens) / r.seconds;
  }
  r.first_token = percentiles_of(first_token);
  r.between_tokens = percentiles_of(between);
  r.per_token = percentiles_of(per_token);
  r.whole = percentiles_of(whole);
  for (const auto& values : of_turn) r.first_token_of_turn.push_back(percentiles_of(values));
  return r;
}

LoadTest::LoadTest(LoadTestOptions options) : state_(std::make_unique<State>(std::move(options))) {}
LoadTest::~LoadTest() = default;
const std::string& LoadTest::model() const { return state_->model; }
std::int64_t LoadTest::prompt_tokens() const { return state_->prompt_tokens; }

LoadResult LoadTest::run(const Arrivals& arrivals) {
  State& s = *state_;
  s.begin(arrivals);
  if (arrivals.rate > 0) {
    std::mt19937_64 random(s.options.seed);
    std::exponential_distribution<double> gap(arrivals.rate);
    for (auto next = Clock::now(); s.start_session();) {
      next += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(gap(random)));
      std::this_thread::sleep_until(next);
    }
  } else {
    for (std::int64_t i = 0; i < arrivals.concurrency && s.start_session(); ++i) {}
  }
  {
    std::unique_lock lock(s.mutex);
    s.changed.wait(lock, [&] { return s.ended == s.started && s.started == s.options.requests; });
  }
  return s.finish();
}

}  // namespace mortar
