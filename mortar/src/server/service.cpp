// The model that is served, and what all requests pass.
#include "server/service.hpp"

#include <algorithm>

#include "mortar/errors.hpp"
#include "server/ids.hpp"
#include "tessera/base/format.hpp"

namespace mortar::server {
namespace {

constexpr int kWorkers = 2;
constexpr std::int64_t kPageTokens = 64;  // of a page of the KV cache

Tokenizer tokenizer_of(const Model& model) {
  if (!model.tokenizer) throw ModelError(model.folder + ": expected tokenizer.json, which a server needs, found none");
  return *model.tokenizer;
}

std::optional<ChatTemplate> template_of(const std::string& folder, const ServerOptions& options) {
  try {
    return ChatTemplate::load(folder);
  } catch (const ModelError& e) {
    if (options.note) options.note(std::string("there are no chats: ") + e.what());
    return std::nullopt;
  }
}

}  // namespace

Served::Served(Engine loaded, const ServerOptions& options)
    : engine(std::move(loaded)),
      tokenizer(tokenizer_of(engine.model())),
      chat(template_of(engine.model().folder, options)),
      may_think(chat && chat->mentions("enable_thinking") && tokenizer.find("<think>").has_value()),
      plain(tokenizer, options.special_tokens),
      vocabulary(std::make_shared<const Vocabulary>(tokenizer)) {
  const Model& model = engine.model();
  context.plain = &plain;
  context.calls = options.tool_format == ToolFormat::Xml ||
                          (options.tool_format == ToolFormat::Auto && chat && chat->mentions("<function="))
                      ? answer::CallFormat::Xml
                      : answer::CallFormat::Json;
  context.limits.vocabulary = std::min<std::int64_t>(tokenizer.size(), model.config.vocabulary);
  context.limits.max_context = std::min(model.plan.max_context, engine.total_pages() * kPageTokens);
  context.limits.choices = engine.options().max_batch;
  context.limits.stops = options.max_stops;
  // Each prompt is a place in the queue: more than it has could never be accepted.
  if (const std::int64_t queue = engine.options().max_queue; queue > 0)
    context.limits.prompts = std::min(context.limits.prompts, static_cast<std::size_t>(queue));
  for (const std::int64_t id : model.generation.eos_ids) eos.push_back(static_cast<TokenId>(id));
}

Service::Service(const ServerOptions& options, std::string model)
    : options_(options),
      model_(std::move(model)),
      created_(wall_clock()),
      metrics_(model_, options.vllm_metrics ? MetricNames::Vllm : MetricNames::Mortar),
      memory_(options.memory_file, options.min_memory),
      answers_(options.timeout),
      workers_(kWorkers) {}

void Service::set_served(std::shared_ptr<Served> served) {
  const std::lock_guard lock(mutex_);
  served_ = std::move(served);
}

std::shared_ptr<Served> Service::served_or_null() const {
  const std::lock_guard lock(mutex_);
  return served_;
}

std::shared_ptr<Served> Service::served() const {
  if (draining_) throw ApiError(503, "the server is shutting down", "", "shutting_down");
  if (broken_) throw ApiError(503, "the engine has failed, and the server is about to end", "", "shutting_down");
  std::shared_ptr<Served> out = served_or_null();
  if (out == nullptr) throw ApiError(503, "the model is being loaded", "", "loading");
  return out;
}

void Service::stop() {
  workers_.stop();
  answers_.fail_all({503, "the server has ended", "", "shutting_down"});
  set_served(nullptr);
}

void Service::check_model(const std::string& name) const {
  if (!name.empty() && name != model_)
    throw ApiError(404, "model: expected " + model_ + ", the model of this server, found " + name, "model",
                   "model_not_found");
}

void Service::count_unknown(const Generation& generation) {
  for (const std::string& name : generation.unknown) metrics_.unknown_field(name);
}

void Service::handle(std::shared_ptr<HttpReply> reply, Dialect dialect, std::function<void()> work) {
  if (memory_.low()) {
    metrics_.rejected("low_memory");
    return send_error(*reply, {503, "the host has almost no memory left; try again later", "", "low_memory"}, dialect);
  }
  const bool taken = workers_.post([this, reply, dialect, work = std::move(work)] {
    if (reply->gone()) return;
    try {
      work();
    } catch (...) {
      const ApiError error = current_error();
      metrics_.rejected(error.code);
      if (error.status == 500 && options_.note) options_.note("a request failed: " + error.message);
      send_error(*reply, error, dialect);
    }
  });
  if (taken) return;
  metrics_.rejected("queue_full");
  send_error(*reply, {503, "the server has more requests than it can read; try again later", "", "queue_full"},
             dialect);
}

WriterOptions Service::writer_options(const Served& served, std::shared_ptr<HttpReply> reply, const Generation& g,
                                      std::uint64_t seed) const {
  WriterOptions w{std::move(reply), served.tokenizer, model_, g};
  w.seed = seed;
  w.thinking_field = options_.reasoning && options_.reasoning_content ? ThinkingField::Both
                     : options_.reasoning                             ? ThinkingField::Reasoning
                                                                      : ThinkingField::ReasoningContent;
  return w;
}

void Service::start(const std::shared_ptr<Served>& served, std::vector<RunPrompt> prompts, WriterOptions writer_options,
                    std::unique_ptr<AnswerWriter> (*writer)(WriterOptions)) {
  count_unknown(writer_options.generation);
  for (const RunPrompt& p : prompts) writer_options.prompt_tokens += std::ssize(p.request.ids);
  if (writer_options.generation.return_ids) writer_options.prompt_ids = prompts[0].request.ids;
  const std::shared_ptr<HttpReply> reply = writer_options.reply;
  auto run = std::make_shared<Run>(served->tokenizer, std::move(prompts), writer(std::move(writer_options)), metrics_);
  // Before it is submitted: if the engine fails meanwhile, its client is told as all others.
  answers_.watch(run);
  run->submit(served->engine, [this](Run::Arrived arrived) { answers_.deliver(std::move(arrived)); });
  reply->on_gone([weak = std::weak_ptr(run)] {
    if (const auto gone = weak.lock()) gone->abandon();
  });
  answers_.post([run] { run->begin(); });
}

}  // namespace mortar::server
