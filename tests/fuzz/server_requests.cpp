// What clients send to the server: HTTP, and the JSON of each route.
#include <memory>
#include <optional>

#include "fuzz/fuzz.hpp"
#include "fuzz/small_tokenizer.hpp"
#include "http/admission.hpp"
#include "http/message_parser.hpp"
#include "http/server_state.hpp"
#include "mortar/errors.hpp"
#include "server/api_error.hpp"
#include "server/parse.hpp"
#include "text/json_tree.hpp"
#include "text/utf8.hpp"

namespace tessera::fuzz {
namespace {

using namespace mortar;

constexpr MessageLimits kMessageLimits{300, 8, 200};

struct Parsed {
  std::string text;  ///< of all that was read
  std::size_t used = 0;
  bool done = false;
  std::optional<HttpFault> fault;
};

void check_limits(const MessageParser& parser) {
  std::size_t bytes = parser.head.method.size() + parser.head.target.size();
  for (const auto& [name, value] : parser.head.headers) {
    bytes += name.size() + value.size();
    FUZZ_REQUIRE(!name.empty() && name.find_first_of(":\r\n ") == name.npos);
    FUZZ_REQUIRE(value.find_first_of(std::string_view("\r\n\0", 3)) == value.npos);
  }
  FUZZ_REQUIRE(bytes <= kMessageLimits.header_bytes && parser.head.headers.size() <= kMessageLimits.header_count);
  FUZZ_REQUIRE(parser.body.size() <= kMessageLimits.body_bytes);
}

/// Reads the input in pieces of `step` bytes.
Parsed parsed(std::string_view input, std::size_t step) {
  const auto parser = make_request_parser(kMessageLimits);
  Parsed out;
  std::string buffer;
  for (std::size_t at = 0; at < input.size() && !out.fault && !parser->done();
       at += std::min(step, input.size() - at)) {
    buffer += input.substr(at, step);
    for (;;) {
      const std::size_t n = buffer.empty() ? 0 : parser->put(buffer, out.fault);
      FUZZ_REQUIRE(n <= buffer.size());
      buffer.erase(0, n);
      out.used += n;
      if (n == 0 || out.fault || parser->done()) break;
    }
    // What has to be given again is bounded: a head, or a line between chunks.
    FUZZ_REQUIRE(out.fault || parser->done() || buffer.size() <= kMessageLimits.header_bytes + step);
  }
  out.done = parser->done();
  if (out.fault) {
    FUZZ_REQUIRE(out.fault->status >= 400 && out.fault->status < 600 && !out.fault->message.empty());
    return out;
  }
  check_limits(*parser);
  out.text = parser->head.method + " " + parser->head.target + "\n";
  for (const auto& [name, value] : parser->head.headers) out.text += name + ": " + value + "\n";
  out.text += parser->body;
  return out;
}

const ServerState& state() {
  static const auto made = [] {
    HttpOptions options;
    options.api_keys = {{"one", "key-1"}};
    options.open_paths = {"/health"};
    options.cors = {"https://a.example"};
    auto s = std::make_unique<ServerState>(options);
    s->router.add("GET", "/health", [](HttpRequest, const std::shared_ptr<HttpReply>&) {});
    s->router.add("POST", "/v1/{name}", [](HttpRequest, const std::shared_ptr<HttpReply>&) {});
    s->router.add("GET", "/models/{id*}", [](HttpRequest, const std::shared_ptr<HttpReply>&) {});
    return s;
  }();
  return *made;
}

void check_admission(std::string_view input) {
  const auto parser = make_request_parser(kMessageLimits);
  std::optional<HttpFault> fault;
  while (!parser->head_done()) {
    const std::size_t n = input.empty() ? 0 : parser->put(input, fault);
    input.remove_prefix(n);
    if (n == 0 || fault) return;
  }
  const Admission admission = admit(state(), parser->head);
  FUZZ_REQUIRE(!admission.id.empty() && text::valid_utf8(admission.id) == admission.id.size());
  FUZZ_REQUIRE(!(admission.route && admission.rejection));
  // Without a key only what is open, or no route.
  if (admission.route != nullptr) FUZZ_REQUIRE(!admission.key.empty() || admission.target == "/health");
  if (!admission.rejection) return;
  const std::string body =
      state().error_body(admission.rejection->status, admission.rejection->message, admission.rejection->code);
  FUZZ_REQUIRE(text::valid_utf8(body) == body.size());
  FUZZ_REQUIRE(accepted([&] { (void)text::parse_json(body, "body"); }));
}

const server::ParseContext& context(bool xml) {
  static const server::PlainText plain(small_tokenizer());
  static const auto of = [](answer::CallFormat calls) {
    server::ParseContext c;
    c.plain = &plain;
    c.calls = calls;
    c.limits.vocabulary = small_tokenizer().size();
    c.limits.max_context = 1000;
    c.limits.choices = 4;
    return c;
  };
  static const server::ParseContext all[] = {of(answer::CallFormat::Json), of(answer::CallFormat::Xml)};
  return all[xml ? 1 : 0];
}

void check_generation(const server::Generation& g) {
  const server::RequestLimits& limits = context(false).limits;
  FUZZ_REQUIRE(g.choices >= 1 && g.choices <= limits.choices);
  FUZZ_REQUIRE(g.stop.size() <= limits.stops && g.logprobs >= -1 && g.logprobs <= 20);
  FUZZ_REQUIRE(!g.max_tokens || *g.max_tokens >= 1);
  FUZZ_REQUIRE(g.logit_bias.size() <= kMaxBiases);
  for (const auto* ids : {&g.stop_ids, &g.allowed_ids})
    for (const TokenId id : *ids) FUZZ_REQUIRE(id >= 0 && id < limits.vocabulary);
  for (const auto& [id, bias] : g.logit_bias) FUZZ_REQUIRE(id >= 0 && id < limits.vocabulary && bias == bias);
}

void check_chat(const server::ChatRequest& chat) {
  check_generation(chat.generation);
  for (const std::string* json : {&chat.messages, &chat.tools, &chat.template_variables}) {
    FUZZ_REQUIRE(text::valid_utf8(*json) == json->size());
    if (!json->empty()) FUZZ_REQUIRE(accepted([&] { (void)text::parse_json(*json, "json"); }));
  }
  FUZZ_REQUIRE(!chat.messages.empty());
  FUZZ_REQUIRE(chat.tool_choice != server::ToolChoice::Named || !chat.named.empty());
}

/// Nothing but an error of the client's is thrown, and it can be sent.
template <class F>
void rejected_or(F&& f) {
  try {
    f();
  } catch (const server::ApiError& error) {
    FUZZ_REQUIRE(error.status == 400 && !error.message.empty());
    for (const server::Dialect dialect : {server::Dialect::OpenAi, server::Dialect::Anthropic}) {
      const std::string body = server::error_json(error, dialect);
      FUZZ_REQUIRE(text::valid_utf8(body) == body.size());
      FUZZ_REQUIRE(accepted([&] { (void)text::parse_json(body, "body"); }));
    }
  } catch (const RequestError& error) { FUZZ_REQUIRE(!error.message().empty()); }
}

}  // namespace

void fuzz_server_http(Bytes bytes) {
  Input in(bytes);
  const std::size_t step = 1 + in.number<std::uint8_t>() % 50;
  // A head is judged at its end only, if it has come in pieces.
  const std::string input = string_of(in.rest()) + "\r\n\r\n";
  const Parsed whole = parsed(input, input.size());
  for (const std::size_t n : {std::size_t{1}, step}) {
    const Parsed pieces = parsed(input, n);
    FUZZ_REQUIRE(pieces.fault.has_value() == whole.fault.has_value());
    if (whole.fault) continue;
    FUZZ_REQUIRE(pieces.done == whole.done && pieces.text == whole.text);
    if (whole.done) FUZZ_REQUIRE(pieces.used == whole.used);
  }
  check_admission(input);
}

Seeds seeds_server_http() {
  const std::string host = "Host: a\r\n", key = "Authorization: Bearer key-1\r\n";
  return {
      "\7GET /health?x=%20 HTTP/1.1\r\n" + host + "X-Request-Id: r\r\nOrigin: https://a.example\r\n\r\n",
      "\3POST /v1/chat HTTP/1.1\r\n" + host + key +
          "Content-Type: application/json\r\nContent-Length: 5\r\n\r\n{\"a\":GET",
      "\11POST /v1/a%2Fb HTTP/1.1\r\n" + host + key +
          "Transfer-Encoding: chunked\r\n\r\n5;e=1\r\nhello\r\n1\r\n \r\n0\r\nT: t\r\n\r\n",
      "\1GET http://h/models/Qwen/Qwen3-8B HTTP/1.0\r\nConnection: keep-alive\r\nx-api-key: key-1\r\n\r\n",
      "\2OPTIONS * HTTP/1.1\r\n" + host +
          "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: a\r\n\r\n",
      "\5POST /v1/x HTTP/1.1\r\n" + host + key +
          "Expect: 100-continue\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx",
      "\6GET / HTTP/1.1\r\n" + host + "A: b\r\n c\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
  };
}

/// A byte for the route and the form of calls, the body.
void fuzz_server_request(Bytes bytes) {
  Input in(bytes);
  const auto which = in.number<std::uint8_t>();
  const std::string body = string_of(in.rest());
  const server::ParseContext& c = context((which & 4) != 0);
  rejected_or([&] {
    const text::Json json = server::parse_body(body);
    switch (which % 4) {
      case 0: return check_chat(server::parse_chat(json, c));
      case 1: return check_chat(server::parse_response(json, c));
      case 2: return check_chat(server::parse_message(json, c));
      default: {
        const server::CompletionRequest completion = server::parse_completion(json, c);
        check_generation(completion.generation);
        FUZZ_REQUIRE(completion.count() >= 1 && completion.count() <= c.limits.prompts);
        for (const auto& ids : completion.ids)
          for (const TokenId id : ids) FUZZ_REQUIRE(id >= 0 && id < c.limits.vocabulary);
      }
    }
  });
}

Seeds seeds_server_request() {
  const auto seed = [](char which, std::string_view body) { return std::string(1, which).append(body); };
  return {
      seed(
          0,
          R"({"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"hi <think>"}]},)"
          R"({"role":"assistant","content":null,"reasoning":"r","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},)"
          R"({"role":"tool","tool_call_id":"c","content":"x"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"tool_choice":"auto"})"),
      seed(
          0,
          R"({"messages":[{"role":"user","content":"a"}],"max_tokens":5,"n":2,"stop":["x"],"temperature":0.5,"top_p":1,"top_k":3,"seed":7,)"
          R"("logit_bias":{"5":-1.5},"logprobs":true,"top_logprobs":2,"stream":true,"stream_options":{"include_usage":true}})"),
      seed(
          0,
          R"({"messages":[{"role":"user","content":"a"}],"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object"}}},)"
          R"("chat_template_kwargs":{"enable_thinking":false},"cache_salt":"s","priority":-1})"),
      seed(
          1,
          R"({"input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},)"
          R"({"type":"function_call_output","call_id":"c","output":"x"}],"tools":[{"type":"function","name":"f","parameters":{}}],)"
          R"("max_output_tokens":9,"text":{"format":{"type":"text"}},"reasoning":{"effort":"low"}})"),
      seed(1, R"({"input":"hi","instructions":"i","stream":true})"),
      seed(
          2,
          R"({"max_tokens":9,"system":"s","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]},)"
          R"({"role":"assistant","content":[{"type":"thinking","thinking":"t"},{"type":"tool_use","id":"c","name":"f","input":{"a":1}}]},)"
          R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"x"}]}],"tools":[{"name":"f","input_schema":{"type":"object"}}],)"
          R"("tool_choice":{"type":"tool","name":"f"},"thinking":{"type":"enabled","budget_tokens":1024},"stop_sequences":["z"]})"),
      seed(
          3,
          R"({"prompt":"a","max_tokens":3,"echo":false,"best_of":1,"logprobs":2,"structured_outputs":{"choice":["a","b"]}})"),
      seed(3,
           R"({"prompt":[[1,2],[3]],"min_tokens":1,"stop_token_ids":[5],"allowed_token_ids":[1,2],"ignore_eos":true})"),
      seed(4, "{\"messages\":[{\"role\":\"user\",\"content\":\"\\ud83d\\ude00 \xC3\xA9\"}],\"guided_json\":{}}"),
  };
}

}  // namespace tessera::fuzz
