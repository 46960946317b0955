// The server from its start to its end: HTTP first, then the model, then the engine's loop, then the last answers.
#include "mortar/server.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "mortar/errors.hpp"
#include "server/routes.hpp"
#include "server/service.hpp"
#include "server/watchdog.hpp"
#include "tessera/base/format.hpp"
#include "text/utf8.hpp"

namespace mortar {
namespace {

using tessera::concat;
using namespace std::chrono_literals;

/// The last part of the folder's path.
std::string model_name(const ServerOptions& options, const std::string& folder) {
  if (!options.name.empty()) return options.name;
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(folder, error).lexically_normal();
  const std::string last = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  return last.empty() ? "model" : text::replace_invalid_utf8(last);
}

/// What may wait for one client. The first events of a response repeat its tools, the last ones its whole answer
/// several times, all at once: no client could have read them yet.
constexpr std::size_t kPendingBytes = std::size_t{8} << 20;

HttpOptions http_options(const ServerOptions& options) {
  HttpOptions h;
  h.host = options.host;
  h.port = options.port;
  h.threads = options.threads;
  h.body_limit = options.body_limit;
  h.max_connections_per_address = options.max_connections_per_address;
  h.cors = options.cors;
  h.tls_cert = options.tls_cert;
  h.tls_key = options.tls_key;
  h.log_path = options.log;
  h.max_pending = kPendingBytes;
  h.open_paths = server::open_paths();
  if (!options.api_key_file.empty()) h.api_keys = read_api_keys(options.api_key_file);
  return h;
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) { return known.what(); } catch (...) {
    return "an exception of an unknown type";
  }
}

}  // namespace

class Server::State {
 public:
  State(const ServerOptions& options, const std::string& folder)
      : options_(options), service_(options, model_name(options, folder)), http_(http_options(options)) {
    server::add_routes(http_, service_);
    http_.start();
  }
  ~State() {
    http_.stop();
    service_.stop();
  }

  void serve_with(Engine engine) { service_.set_served(std::make_shared<server::Served>(std::move(engine), options_)); }
  void load_with(std::function<Engine()> load) { load_ = std::move(load); }
  int port() const { return http_.port(); }
  void reopen_log() { http_.reopen_log(); }

  void drain() {
    {
      const std::lock_guard lock(mutex_);
      drains_ = true;
    }
    service_.set_draining();
    changed_.notify_all();
  }

  bool run() {
    if (load_) {
      Engine engine = std::exchange(load_, nullptr)();
      serve_with(std::move(engine));
    }
    report_ready();
    const auto served = service_.served_or_null();
    std::jthread engine([&](const std::stop_token& stop) { serve_engine(served->engine, stop); });
    const server::Watchdog watchdog(
        options_.step_limit, [&] { return served->engine.stats(); },
        [this](double seconds, const EngineStats& stats) { give_up_step(seconds, stats); });
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return drains_ || failure_ != nullptr; });
    }
    const bool complete = !failed() && end_answers();
    if (failed()) fail_answers({500, concat("the engine has failed: ", text_of(failure())), "", "engine_failed"});
    engine.request_stop();
    if (hangs_ && options_.hung) options_.hung();
    engine.join();
    http_.stop();
    if (failed()) std::rethrow_exception(failure());
    return complete;
  }

 private:
  std::exception_ptr failure() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  bool failed() { return failure() != nullptr; }

  void serve_engine(Engine& engine, const std::stop_token& stop) {
    try {
      engine.serve(stop);
    } catch (...) {
      service_.set_broken();
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      changed_.notify_all();
    }
  }

  /// A step does not end. Its thread cannot be stopped.
  void give_up_step(double seconds, const EngineStats& s) {
    const std::string state =
        concat("a step of the engine has not ended within ", seconds, " s: steps ", s.steps, ", running ", s.running,
               ", waiting ", s.waiting, " (", s.waiting_tokens, " tokens), pages held ", s.held_pages, ", cached ",
               s.cached_pages, ", of ", s.total_pages, ", answers ", service_.answers().live(), ", connections ",
               http_.stats().connections);
    if (options_.note) options_.note(state);
    service_.set_broken();
    hangs_ = true;
    const std::lock_guard lock(mutex_);
    if (failure_ == nullptr) failure_ = std::make_exception_ptr(ModelError(state));
    changed_.notify_all();
  }

  /// No new requests; true if all answers end within the time. Returns early if the engine fails.
  bool end_answers() {
    http_.stop_accepting();
    const auto end = std::chrono::steady_clock::now() + milliseconds(options_.drain);
    for (auto left = milliseconds(options_.drain); !failed();) {
      if (http_.drain(std::clamp(left, 0ms, 50ms))) return true;
      left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      if (left <= 0ms) break;
    }
    if (failed()) return false;
    fail_answers(
        {503,
         concat("the server is shutting down, and the answer was not complete within ", options_.drain, " seconds"), "",
         "shutting_down"});
    return false;
  }
  void fail_answers(const server::ApiError& error) {
    service_.answers().fail_all(error);
    http_.stop_accepting();
    (void)http_.drain(2s);  // for the errors to be read
  }

  void report_ready() {
    const auto served = service_.served_or_null();
    if (!options_.ready) return;
    const auto& limits = served->context.limits;
    const bool all = options_.host.find(':') != std::string::npos;
    options_.ready(concat("ready: http", options_.tls_cert.empty() ? "" : "s", "://", all ? "[" : "", options_.host,
                          all ? "]" : "", ":", port(), "  ", service_.model(), "  context ", limits.max_context,
                          "  batch ", limits.choices));
  }

  ServerOptions options_;
  server::Service service_;
  HttpServer http_;
  std::function<Engine()> load_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool drains_ = false;
  std::exception_ptr failure_;
  std::atomic<bool> hangs_{false};
};

Server::Server(Engine engine, const ServerOptions& options)
    : state_(std::make_unique<State>(options, engine.model().folder)) {
  state_->serve_with(std::move(engine));
}

Server::Server(std::string folder, std::function<Engine()> load, const ServerOptions& options)
    : state_(std::make_unique<State>(options, folder)) {
  state_->load_with(std::move(load));
}

Server::~Server() = default;
int Server::port() const { return state_->port(); }
bool Server::run() { return state_->run(); }
void Server::drain() { state_->drain(); }
void Server::reopen_log() { state_->reopen_log(); }

}  // namespace mortar
