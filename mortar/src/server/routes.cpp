// Which path does what; all that takes time goes to the workers.
#include "server/routes.hpp"

#include "mortar/errors.hpp"
#include "server/ids.hpp"
#include "tessera/base/format.hpp"
#include "tessera/jit/tuning.hpp"
#include "text/utf8.hpp"

namespace mortar::server {
namespace {

using text::Json;
using text::JsonWriter;
using Reply = std::shared_ptr<HttpReply>;

constexpr const char* kJson = "application/json";

void send_json(const Reply& reply, std::string body, int status = 200) { reply->send(status, kJson, std::move(body)); }

void model_object(JsonWriter& json, Service& service) {
  json.object()
      .field("id", service.model())
      .field("object", "model")
      .field("created", service.created())
      .field("owned_by", "mortar");
  if (const auto served = service.served_or_null()) json.field("max_model_len", served->context.limits.max_context);
  json.end();
}

void add_models(HttpServer& http, Service& service) {
  http.route("GET", "/v1/models", [&service](const HttpRequest&, const Reply& reply) {
    std::string out;
    JsonWriter json(out);
    json.object().field("object", "list").key("data").array();
    model_object(json, service);
    json.end_array().end();
    send_json(reply, std::move(out));
  });
  http.route("GET", "/v1/models/{id*}", [&service](const HttpRequest& request, const Reply& reply) {
    try {
      service.check_model(std::string(request.parameter("id")));
    } catch (const ApiError& e) {
      send_error(*reply, e);
      return;
    }
    std::string out;
    JsonWriter json(out);
    model_object(json, service);
    send_json(reply, std::move(out));
  });
}

/// The routes that generate.
void add_answers(HttpServer& http, Service& service) {
  const auto chat = [&](const char* path, Dialect dialect, ChatRequest (*parse)(const Json&, const ParseContext&),
                        std::unique_ptr<AnswerWriter> (*writer)(WriterOptions)) {
    http.route("POST", path, [&service, dialect, parse, writer](HttpRequest request, const Reply& reply) {
      service.handle(reply, dialect, [&service, parse, writer, reply, request = std::move(request)] {
        const auto served = service.served();
        const Json body = parse_body(request.body);
        service.start_chat(served, request, reply, parse(body, served->context), writer);
      });
    });
  };
  chat("/v1/chat/completions", Dialect::OpenAi, parse_chat, chat_writer);
  chat("/v1/responses", Dialect::OpenAi, parse_response, response_writer);
  chat("/v1/messages", Dialect::Anthropic, parse_message, message_writer);
  http.route("POST", "/v1/completions", [&service](HttpRequest request, const Reply& reply) {
    service.handle(reply, Dialect::OpenAi, [&service, reply, request = std::move(request)] {
      const auto served = service.served();
      const Json body = parse_body(request.body);
      service.start_completion(served, request, reply, parse_completion(body, served->context));
    });
  });
}

/// The routes that count the tokens of a request that generates.
void add_counts(HttpServer& http, Service& service) {
  const auto count = [&](const char* path, Dialect dialect, const char* object,
                         ChatRequest (*parse)(const Json&, const ParseContext&)) {
    http.route("POST", path, [&service, dialect, object, parse](HttpRequest request, const Reply& reply) {
      service.handle(reply, dialect, [&service, object, parse, reply, request = std::move(request)] {
        const auto served = service.served();
        const Json body = parse_body(request.body);
        const ChatRequest chat = parse(body, served->context);
        service.check_model(chat.generation.model);
        std::string out;
        JsonWriter json(out);
        json.object();
        if (object != nullptr) json.field("object", object);
        json.field("input_tokens", service.prompt_of(*served, chat).size()).end();
        send_json(reply, std::move(out));
      });
    });
  };
  count("/v1/chat/completions/input_tokens", Dialect::OpenAi, "chat.completion.input_tokens", parse_chat);
  count("/v1/responses/input_tokens", Dialect::OpenAi, "response.input_tokens", parse_response);
  count("/v1/messages/count_tokens", Dialect::Anthropic, nullptr, parse_message);
}

void tokenize(Service& service, const Reply& reply, const HttpRequest& request) {
  const auto served = service.served();
  const Json body = parse_body(request.body);
  Fields fields(body, "");
  std::vector<TokenId> ids;
  if (fields.find("messages") != nullptr) {
    ids = service.prompt_of(*served, parse_chat(body, served->context));
  } else {
    std::optional<std::string> text = fields.string("prompt");
    if (const auto content = fields.string("content"); !text) text = content;
    if (!text) missing("prompt", "a text in prompt or content, or messages");
    const bool parses = fields.boolean("parse_special").value_or(true);
    ids = served->tokenizer.encode(*text, parses ? AddedTokens::Parse : AddedTokens::AsText);
  }
  const bool pieces =
      fields.boolean("with_pieces").value_or(false) || fields.boolean("return_token_strs").value_or(false);
  std::string out;
  JsonWriter json(out);
  json.object().field("count", ids.size()).field("max_model_len", served->context.limits.max_context);
  write_ids(json, "tokens", ids);
  if (pieces) {
    json.key("token_strs").array();
    for (const TokenId id : ids) json.value(text::replace_invalid_utf8(served->tokenizer.bytes(id)));
    json.end_array();
  }
  json.end();
  send_json(reply, std::move(out));
}

void detokenize(Service& service, const Reply& reply, const HttpRequest& request) {
  const auto served = service.served();
  const Json body = parse_body(request.body);
  Fields fields(body, "");
  const Json* tokens = fields.array("tokens");
  if (tokens == nullptr) missing("tokens", "an array of ids");
  const std::vector<TokenId> ids = integers_of(*tokens, "tokens", 0, served->context.limits.vocabulary - 1, 1'000'000);
  const std::string text = served->tokenizer.decode(ids);
  std::string out;
  JsonWriter json(out);
  json.object().field("prompt", text).field("content", text).end();
  send_json(reply, std::move(out));
}

void add_tokens(HttpServer& http, Service& service) {
  const auto add = [&](const char* path, void (*work)(Service&, const Reply&, const HttpRequest&)) {
    http.route("POST", path, [&service, work](HttpRequest request, const Reply& reply) {
      service.handle(reply, Dialect::OpenAi,
                     [&service, work, reply, request = std::move(request)] { work(service, reply, request); });
    });
  };
  add("/tokenize", tokenize);
  add("/detokenize", detokenize);
}

/// Numbers for the page.
std::string state_json(Service& service, const HttpStats& http) {
  std::string out;
  JsonWriter json(out);
  const ServerMetrics::Totals totals = service.metrics().totals();
  json.object().field("model", service.model()).field("version", tessera::jit::library_version());
  json.field("received", totals.received).field("rejected", totals.rejected).field("finished", totals.finished);
  json.field("cancelled", totals.cancelled).field("failed", totals.failed);
  json.field("connections", http.connections);
  if (const auto served = service.served_or_null()) {
    const EngineStats s = served->engine.stats();
    json.field("max_context", served->context.limits.max_context).field("max_batch", served->context.limits.choices);
    json.field("running", s.running)
        .field("waiting", s.waiting)
        .field("total_pages", s.total_pages)
        .field("held_pages", s.held_pages);
    json.field("cached_pages", s.cached_pages)
        .field("prompt_tokens", s.prompt_tokens)
        .field("cached_tokens", s.cached_tokens);
    json.field("generated_tokens", s.generated_tokens).field("steps", s.steps).field("preemptions", s.preemptions);
  }
  json.end();
  return out;
}

void add_state(HttpServer& http, Service& service) {
  http.route("GET", "/health", [&service](const HttpRequest&, const Reply& reply) {
    send_json(reply, service.broken() ? R"({"status":"failed"})" : R"({"status":"ok"})", service.broken() ? 503 : 200);
  });
  http.route("GET", "/ready", [&service](const HttpRequest&, const Reply& reply) {
    try {
      (void)service.served();
      send_json(reply, R"({"status":"ready"})");
    } catch (const ApiError& e) { send_error(*reply, e); }
  });
  http.route("GET", "/version", [](const HttpRequest&, const Reply& reply) {
    std::string out;
    JsonWriter json(out);
    json.object().field("version", tessera::jit::library_version()).end();
    send_json(reply, std::move(out));
  });
  http.route("GET", "/metrics", [&service, &http](const HttpRequest&, const Reply& reply) {
    const auto served = service.served_or_null();
    const EngineStats stats = served != nullptr ? served->engine.stats() : EngineStats{};
    reply->send(200, "text/plain; version=0.0.4; charset=utf-8",
                service.metrics().text(served != nullptr ? &stats : nullptr, http.stats()));
  });
  http.route("GET", "/state", [&service, &http](const HttpRequest&, const Reply& reply) {
    send_json(reply, state_json(service, http.stats()));
  });
  http.route("GET", "/openapi.json",
             [](const HttpRequest&, const Reply& reply) { send_json(reply, std::string(openapi_json())); });
  http.route("GET", "/", [](const HttpRequest&, const Reply& reply) {
    // The page is one file: it loads nothing, is shown by no other page, and runs no script but its own.
    const std::string nonce = new_id(""), mark = "@NONCE@";
    std::string page(page_html());
    for (std::size_t at = page.find(mark); at != page.npos; at = page.find(mark, at))
      page.replace(at, mark.size(), nonce);
    reply->send(
        200, "text/html; charset=utf-8", std::move(page),
        {{"Content-Security-Policy",
          tessera::concat(
              "default-src 'none'; script-src 'nonce-", nonce, "'; style-src 'nonce-", nonce,
              "'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")},
         {"X-Content-Type-Options", "nosniff"},
         {"Referrer-Policy", "no-referrer"}});
  });
}

}  // namespace

std::vector<std::string> open_paths() { return {"/health", "/ready", "/version", "/metrics", "/openapi.json", "/"}; }

void add_routes(HttpServer& http, Service& service) {
  add_models(http, service);
  add_answers(http, service);
  add_counts(http, service);
  add_tokens(http, service);
  add_state(http, service);
}

}  // namespace mortar::server
