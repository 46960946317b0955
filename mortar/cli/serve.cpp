// mortar serve: the server, with signals: SIGTERM and Ctrl-C end it after the last answer, SIGHUP opens the log anew.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>

#include "command.hpp"
#include "model_session.hpp"
#include "mortar/progress.hpp"
#include "mortar/server.hpp"
#include "processes.hpp"

namespace mortar::cli {
namespace THIS_FILE {

constexpr std::int64_t kBatchOnGpu = 256, kBatchOnCpu = 16;
// Tokens of prompts in a step, alone and beside few answers, which then wait less than three times as long as without
// (bench/notes/serving.md).
constexpr std::int64_t kPrefillOnGpu = 2048, kMixedOnGpu = 256;

std::atomic<int> signal_pipe{-1}, endings{0};

extern "C" void on_serve_signal(int signal) {
  const int saved = errno;
  const char byte = signal == SIGHUP ? 'h' : 't';
  if (signal != SIGHUP && endings.fetch_add(1) > 0)
    _exit(signal == SIGINT ? kInterrupted : kFailed);  // a second one: at once
  [[maybe_unused]] const auto written = ::write(signal_pipe, &byte, 1);
  errno = saved;
}

/// While it lives, signals are read from a pipe by a thread.
class Signals {
 public:
  explicit Signals(std::function<void(char)> on_signal) {
    if (::pipe2(ends_, O_CLOEXEC) != 0) throw std::runtime_error("no pipe can be made");
    signal_pipe = ends_[1];
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) handle(signal, on_serve_signal);
    handle(SIGPIPE, SIG_IGN);
    thread_ = std::thread([this, on_signal = std::move(on_signal)] {
      char byte = 0;
      for (;;) {
        const ssize_t n = ::read(ends_[0], &byte, 1);
        if (n < 0 && errno == EINTR) continue;
        if (n != 1 || byte == 'q') return;
        on_signal(byte);
      }
    });
  }
  ~Signals() {
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) handle(signal, SIG_DFL);
    [[maybe_unused]] const auto written = ::write(ends_[1], "q", 1);
    thread_.join();
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

 private:
  static void handle(int signal, void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(signal, &action, nullptr);
  }
  int ends_[2] = {-1, -1};
  std::thread thread_;
};

std::string one_of(const Arguments& arguments, const char* option, std::initializer_list<const char*> words) {
  const std::string text = arguments.text(option);
  std::string all;
  for (const char* word : words) {
    if (text == word) return text;
    all += (all.empty() ? "" : ", ") + std::string(word);
  }
  throw UsageError(std::string(option) + ": expected one of " + all + ", found \"" + text + "\"");
}

ServerOptions server_options(const Arguments& arguments) {
  ServerOptions o;
  o.host = arguments.text("--host");
  o.port = static_cast<int>(arguments.integer("--port", 0, 65535));
  if (arguments.has("--name")) o.name = arguments.text("--name");
  if (arguments.has("--api-key-file")) o.api_key_file = arguments.text("--api-key-file");
  o.cors = arguments.all("--cors");
  if (arguments.has("--tls-cert")) o.tls_cert = arguments.text("--tls-cert");
  if (arguments.has("--tls-key")) o.tls_key = arguments.text("--tls-key");
  if (o.tls_cert.empty() != o.tls_key.empty()) throw UsageError("--tls-cert and --tls-key belong together");
  o.timeout = arguments.number("--timeout", 0, 1e6);
  o.drain = arguments.number("--drain", 0, 1e6);
  o.body_limit = static_cast<std::size_t>(arguments.bytes("--body-limit"));
  o.max_connections_per_address = static_cast<std::size_t>(arguments.integer("--connections-per-address", 0, 65535));
  o.vllm_metrics = one_of(arguments, "--metrics-names", {"mortar", "vllm"}) == "vllm";
  const std::string format = one_of(arguments, "--tool-format", {"auto", "json", "xml"});
  o.tool_format = format == "json" ? ToolFormat::Json : format == "xml" ? ToolFormat::Xml : ToolFormat::Auto;
  o.tool_grammar = one_of(arguments, "--tool-grammar", {"on", "off"}) == "on";
  const std::string field = one_of(arguments, "--reasoning-field", {"both", "reasoning", "reasoning_content"});
  o.reasoning = field != "reasoning_content";
  o.reasoning_content = field != "reasoning";
  o.special_tokens = arguments.flag("--special-tokens");
  if (arguments.has("--log")) o.log = arguments.text("--log");
  o.min_memory = arguments.number("--min-memory", 0, 100) / 100;
  o.step_limit = arguments.number("--step-limit", 0, 1e6);
  o.max_stops = static_cast<std::size_t>(arguments.integer("--max-stops", 1, 1024));
  return o;
}

EngineOptions engine_options(const Arguments& arguments, const Model& model) {
  EngineOptions e;
  const bool gpu = model.device.kind() == tessera::DeviceKind::Cuda;
  e.max_batch = gpu ? kBatchOnGpu : kBatchOnCpu;
  if (arguments.has("--batch-size")) e.max_batch = arguments.integer("--batch-size", 1, 4096);
  if (gpu) e.prefill_tokens = kPrefillOnGpu, e.mixed_tokens = kMixedOnGpu;
  e.fp8_activations = arguments.flag("--fp8-activations");
  e.max_queue = arguments.integer("--max-queue", 0, 1 << 20);
  e.max_queue_tokens = arguments.integer("--max-queue-tokens", 0, std::int64_t{1} << 40);
  return e;
}

/// Kernels are compiled for a GPU in seconds each: before requests wait for them. (On the CPU it is a matter of
/// milliseconds.)
void warm_up(Engine& engine, const Arguments& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  auto next_line = begin + std::chrono::seconds(2);
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  engine.warm_up([&](std::int64_t done, std::int64_t all) {
    if (endings > 0) throw Interrupted();
    if (std::chrono::steady_clock::now() < next_line && done < all) return;
    next_line = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    report(arguments, "kernels of %lld of %lld steps are ready, %.1f s\n", static_cast<long long>(done),
           static_cast<long long>(all), seconds());
  });
}

/// Loads the model for one sequence of the largest context: the KV cache is shared, and how many answers fit beside
/// each other is known only when they come.
Engine open_engine(const Arguments& arguments) {
  ModelOptions options = model_options(arguments, 1);
  options.max_batch = 1;
  options.before_weights = [&arguments](const Model& model) { check(engine_options(arguments, model), model); };
  ProgressBar bar(stderr, arguments.quiet());
  options.progress = [&bar](const LoadProgress& progress) {
    if (endings > 0) throw Interrupted();
    bar(progress);
  };
  Model model = load_and_follow(arguments, options);
  report(arguments, "%s", plan_text(model.plan).c_str());
  const EngineOptions chosen = engine_options(arguments, model);
  const bool compiles = model.device.kind() == tessera::DeviceKind::Cuda && !arguments.flag("--no-warm-up");
  Engine engine(std::move(model), chosen);
  if (compiles) warm_up(engine, arguments);
  return engine;
}

/// As many connections as the system allows: each is a file.
void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 65536);
  setrlimit(RLIMIT_NOFILE, &limit);
}

int run(const Arguments& arguments) {
  ServerOptions options = server_options(arguments);
  if (is_follower()) {
    // A launcher may send signals to all processes: rank 0 gives the last answers first, for which it needs this one.
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::signal(signal, SIG_IGN);
    (void)open_engine(arguments);  // throws Followed
  }
  options.ready = [](const std::string& line) { put(stdout, line + "\n"); };
  options.note = [](const std::string& line) { std::fprintf(stderr, "mortar serve: %s\n", line.c_str()); };
  options.hung = [] { _exit(kFailed); };  // a thread is stuck: nothing can be torn down
  raise_file_limit();
  Server server(
      arguments.positional(0), [&arguments] { return open_engine(arguments); }, options);
  const Signals signals([&](char which) {
    if (which == 'h') return server.reopen_log();
    report(arguments, "mortar serve: ends when all answers have been given, after at most %g seconds\n", options.drain);
    server.drain();
  });
  try {
    (void)server.run();
  } catch (const Interrupted&) { return kDone; }  // while it loaded
  return kDone;
}

const Option kOptions[] = {
    {"--host", "ADDRESS", "the address to listen on; 0.0.0.0 or ::: all", "127.0.0.1"},
    {"--port", "N", "the port; 0: any free one", "8080"},
    {"--name", "NAME", "of the model in requests and answers (default: the last part of MODEL)"},
    {"--api-key-file", "FILE", "lines of NAME KEY; without it no key is needed"},
    {"--cors", "ORIGIN", "web pages of this origin may ask; *: all", nullptr, true},
    {"--tls-cert", "FILE", "certificate chain, PEM"},
    {"--tls-key", "FILE", "its key, PEM"},
    {"--max-queue", "N", "requests that may wait; more are answered with 503; 0: any number", "256"},
    {"--max-queue-tokens", "N", "tokens of their prompts together; 0: any number", "0"},
    {"--timeout", "SECONDS", "for an answer; 0: any time", "600"},
    {"--drain", "SECONDS", "for the last answers after SIGTERM", "30"},
    {"--body-limit", "BYTES", "of a request", "32M"},
    {"--connections-per-address", "N", "of a client; more are answered with 503; 0: any number, as behind a proxy",
     "0"},
    {"--min-memory", "PERCENT", "of the host's memory that must be available for a new request; 0: any", "5"},
    {"--step-limit", "SECONDS", "for a step of the engine, or 30 mean steps; then the process ends; 0: any time",
     "120"},
    {"--metrics-names", "WHOSE", "names in /metrics: mortar or vllm", "mortar"},
    {"--tool-format", "FORMAT", "how the model writes calls: auto (by its chat template), json or xml", "auto"},
    {"--tool-grammar", "on|off", "what the model writes as a call must be one of the request's tools", "on"},
    {"--reasoning-field", "NAME", "of the thinking in answers: reasoning, reasoning_content or both", "both"},
    {"--special-tokens", nullptr, "names such as <|im_end|> in clients' text are these tokens, not text"},
    {"--max-stops", "N", "stop strings of a request", "4"},
    {"--log", "FILE", "access log, JSON lines without prompts; -: standard error"},
    {"--no-warm-up", nullptr,
     "answers requests before the kernels of all steps are compiled: the first ones wait for them"},
    kFp8ActivationsOption,
};
const Registration kRegistration({"serve", "MODEL", "a server with OpenAI's API", kOptions, OptionSet::Model, run});

}  // namespace THIS_FILE
}  // namespace mortar::cli
