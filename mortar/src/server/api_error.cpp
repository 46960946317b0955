// Errors in the forms of both APIs.
#include "server/api_error.hpp"

#include "mortar/errors.hpp"
#include "tessera/base/format.hpp"
#include "text/json_writer.hpp"
#include "text/utf8.hpp"

namespace mortar::server {
namespace {

const char* type_of(int status, Dialect dialect) {
  const bool openai = dialect == Dialect::OpenAi;
  switch (status) {
    case 401: return openai ? "invalid_request_error" : "authentication_error";
    case 403: return "permission_error";
    case 404: return openai ? "invalid_request_error" : "not_found_error";
    case 413: return openai ? "invalid_request_error" : "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return openai ? "server_error" : "overloaded_error";
    default: break;
  }
  if (status >= 500) return openai ? "server_error" : "api_error";
  return "invalid_request_error";
}

}  // namespace

void invalid(const std::string& path, std::string_view expected, std::string_view found, const std::string& code) {
  throw ApiError(400, tessera::concat(path, path.empty() ? "" : ": ", "expected ", expected, ", found ", found), path,
                 code);
}

void missing(const std::string& path, std::string_view expected) {
  invalid(path, expected, "nothing", "missing_required_parameter");
}

void unsupported(const std::string& path, const std::string& message) {
  throw ApiError(400, path + ": " + message, path, "unsupported_parameter");
}

std::string error_json(const ApiError& error, Dialect dialect) {
  std::string out;
  text::JsonWriter json(out);
  json.object();
  if (dialect == Dialect::Anthropic) json.field("type", "error");
  json.key("error").object();
  json.field("message", text::replace_invalid_utf8(error.message));
  json.field("type", type_of(error.status, dialect));
  if (dialect == Dialect::OpenAi) {
    const auto text_or_null = [&](const char* name, const std::string& text) {
      json.key(name);
      if (text.empty())
        json.null();
      else
        json.value(text::replace_invalid_utf8(text));
    };
    text_or_null("param", error.param);
    text_or_null("code", error.code);
  }
  json.end().end();
  return out;
}

HttpHeaders error_headers(const ApiError& error) {
  if (error.status != 503 && error.status != 429) return {};
  // Clients try again by themselves, which helps where the reason soon goes away.
  const bool soon = error.code == "queue_full" || error.code == "low_memory" || error.code == "loading";
  return {{"Retry-After", error.code == "queue_full" ? "1" : "5"}, {"x-should-retry", soon ? "true" : "false"}};
}

void send_error(HttpReply& reply, const ApiError& error, Dialect dialect) {
  reply.send(error.status, "application/json", error_json(error, dialect), error_headers(error));
}

ApiError current_error() {
  try {
    throw;
  } catch (const ApiError& e) { return e; } catch (const QueueFullError& e) {
    return {503, e.what(), "", "queue_full"};
  } catch (const RequestError& e) { return {400, e.what(), "", "invalid_request"}; } catch (const std::exception& e) {
    return {500, e.what(), "", "internal_error"};
  } catch (...) { return {500, "unknown error", "", "internal_error"}; }
}

}  // namespace mortar::server
