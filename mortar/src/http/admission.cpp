// Checks of a request's head, in the order in which their answers are useful: form, origin, route, key, body.
#include "admission.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <random>

#include "server_state.hpp"

namespace mortar {
namespace {

HttpFault bad_request(std::string message) { return {400, "bad_request", std::move(message)}; }

std::size_t count_headers(const HttpHeaders& headers, std::string_view name) {
  return static_cast<std::size_t>(
      std::count_if(headers.begin(), headers.end(), [&](const auto& h) { return equal_ignoring_case(h.first, name); }));
}

/// "host:port" of "http://host:port/path"; the rest of the target behind it. Clients of proxies send this form.
bool take_origin_form(std::string_view& target) {
  for (const std::string_view scheme : {"http://", "https://"})
    if (target.size() >= scheme.size() && equal_ignoring_case(target.substr(0, scheme.size()), scheme)) {
      target.remove_prefix(scheme.size());
      target.remove_prefix(std::min(target.find_first_of("/?"), target.size()));
      return true;
    }
  return false;
}

std::optional<HttpFault> split_target(const MessageHead& head, Admission& out) {
  std::string_view target = head.target;
  const bool absolute = take_origin_form(target);
  const std::size_t question = std::min(target.find('?'), target.size());
  out.target = target.substr(0, question);
  if (question < target.size()) out.query = target.substr(question + 1);
  if (absolute && out.target.empty()) out.target = "/";
  const bool printable = std::all_of(target.begin(), target.end(), [](char c) { return c > ' ' && c < 0x7f; });
  const bool asterisk = head.method == "OPTIONS" && out.target == "*";
  if (!printable || !(out.target.starts_with('/') || asterisk))
    return bad_request("expected a path that begins with / in the request line, all else than ASCII encoded");
  return std::nullopt;
}

std::optional<HttpFault> check_form(const MessageHead& head) {
  const std::size_t hosts = count_headers(head.headers, "host");
  if (hosts > 1 || (hosts == 0 && head.version >= 11)) return bad_request("expected one header Host");
  if (count_headers(head.headers, "authorization") > 1) return bad_request("expected one header Authorization");
  if (const std::string* coding = find_header(head.headers, "transfer-encoding")) {
    if (head.version < 11) return bad_request("expected no Transfer-Encoding in HTTP/1.0");
    if (!equal_ignoring_case(*coding, "chunked"))
      return HttpFault{501, "transfer_encoding", "expected the Transfer-Encoding chunked, found " + *coding};
  }
  return std::nullopt;
}

bool is_loopback_name(std::string_view authority) {
  const std::size_t colon = authority.rfind(':');
  const std::string_view host =
      authority.ends_with(']') || colon == std::string_view::npos ? authority : authority.substr(0, colon);
  // A name may begin as an address does, as 127.example.com, and point anywhere.
  const bool is_address = host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos;
  return equal_ignoring_case(host, "localhost") || is_address || host == "[::1]";
}

/// Whether a web page of this origin may ask, and the headers that let it read the answer. A page of the server itself
/// may; but without keys, on the loopback interface, only if it was loaded from there: another site's name can be made
/// to point to this machine.
bool check_origin(const ServerState& server, const MessageHead& head, HttpHeaders& cors) {
  const std::string* origin = find_header(head.headers, "origin");
  if (origin == nullptr) return true;
  const auto& allowed = server.options.cors;
  const bool all = std::find(allowed.begin(), allowed.end(), "*") != allowed.end();
  if (all || std::find(allowed.begin(), allowed.end(), *origin) != allowed.end()) {
    cors.emplace_back("Access-Control-Allow-Origin", all ? "*" : *origin);
    if (!all) cors.emplace_back("Vary", "Origin");
    cors.emplace_back("Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
    return true;
  }
  const std::size_t slashes = origin->find("://");
  const std::string* host = find_header(head.headers, "host");
  if (slashes == std::string::npos || host == nullptr) return false;
  const std::string_view authority = std::string_view(*origin).substr(slashes + 3);
  if (!equal_ignoring_case(authority, *host)) return false;
  return !server.on_loopback || !server.keys.empty() || is_loopback_name(authority);
}

bool is_json(const std::string* type) {
  if (type == nullptr) return true;
  std::string_view media = std::string_view(*type).substr(0, type->find(';'));
  while (media.ends_with(' ') || media.ends_with('\t')) media.remove_suffix(1);
  return equal_ignoring_case(media, "application/json");
}

/// Of methods that have a body.
std::optional<HttpFault> check_body(const MessageHead& head, Admission& out) {
  if (const std::string* expected = find_header(head.headers, "expect")) {
    if (!equal_ignoring_case(*expected, "100-continue"))
      return HttpFault{417, "expectation_failed", "expected 100-continue in the header Expect, found " + *expected};
    out.expects_continue = head.version >= 11 && head.has_body;
  }
  if (head.method != "POST" && head.method != "PUT" && head.method != "PATCH") return std::nullopt;
  if (!head.content_length && !head.has_body)
    return HttpFault{411, "length_required", "expected Content-Length, or the Transfer-Encoding chunked"};
  const std::string* type = find_header(head.headers, "content-type");
  if (!is_json(type))
    return HttpFault{415, "unsupported_media_type", "expected the Content-Type application/json, found " + *type};
  const std::string* coding = find_header(head.headers, "content-encoding");
  if (coding != nullptr && !equal_ignoring_case(*coding, "identity"))
    return HttpFault{415, "unsupported_encoding", "expected a body without Content-Encoding, found " + *coding};
  return std::nullopt;
}

void answer_options(const MessageHead& head, const std::string& allow, Admission& out) {
  out.headers.emplace_back("Allow", allow);
  out.at_once = 204;
  if (out.cors.empty() || find_header(head.headers, "access-control-request-method") == nullptr) return;
  out.headers.emplace_back("Access-Control-Allow-Methods", allow);
  const std::string* names = find_header(head.headers, "access-control-request-headers");
  if (names != nullptr) out.headers.emplace_back("Access-Control-Allow-Headers", *names);
  out.headers.emplace_back("Access-Control-Max-Age", "600");
}

std::optional<HttpFault> check(const ServerState& server, const MessageHead& head, Admission& out) {
  if (auto fault = split_target(head, out)) return fault;
  if (auto fault = check_form(head)) return fault;
  if (!check_origin(server, head, out.cors))
    return HttpFault{403, "origin_not_allowed",
                     "web pages of this origin may not use this server; see the option --cors"};
  if (out.target == "*") {
    answer_options(head, "GET, HEAD, OPTIONS, POST", out);
    return std::nullopt;
  }
  Router::Match match = server.router.find(head.method, out.target);
  if (match.malformed) return bad_request("expected two hexadecimal digits, not 00, after each % of the path");
  if (match.allow.empty()) return HttpFault{404, "not_found", "there is no route " + out.target};
  if (head.method == "OPTIONS") {
    answer_options(head, match.allow, out);
    return std::nullopt;
  }
  if (match.route == nullptr) {
    out.headers.emplace_back("Allow", match.allow);
    return HttpFault{405, "method_not_allowed",
                     "expected one of the methods " + match.allow + ", found " + head.method};
  }
  const auto& open = server.options.open_paths;
  const bool is_open = std::find(open.begin(), open.end(), out.target) != open.end();
  if (server.draining && !is_open) {
    out.headers = {{"Retry-After", "5"}, {"x-should-retry", "false"}};
    return HttpFault{503, "shutting_down", "the server is shutting down"};
  }
  if (!server.keys.empty() && !is_open) {
    const std::string_view key = key_of(head.headers);
    const std::string* name = server.keys.find(key);
    if (name == nullptr || key.empty()) {
      out.headers.emplace_back("WWW-Authenticate", "Bearer");
      return HttpFault{401, "invalid_api_key",
                       key.empty() ? "expected an API key: Authorization: Bearer KEY" : "the API key is not known"};
    }
    out.key = *name;
  }
  if (auto fault = check_body(head, out)) return fault;
  out.parameters = std::move(match.parameters);
  out.route = match.route;
  return std::nullopt;
}

}  // namespace

std::string request_id(const HttpHeaders& headers) {
  constexpr std::size_t kLongest = 128;
  const std::string* given = find_header(headers, "x-request-id");
  if (given != nullptr && !given->empty() && given->size() <= kLongest &&
      std::all_of(given->begin(), given->end(), [](char c) { return c > ' ' && c < 0x7f; }))
    return *given;
  thread_local std::mt19937_64 random{(std::uint64_t{std::random_device{}()} << 32) ^ std::random_device{}()};
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(random()),
                static_cast<unsigned long long>(random()));
  return text;
}

Admission admit(const ServerState& server, const MessageHead& head) {
  Admission out;
  out.id = request_id(head.headers);
  out.rejection = check(server, head, out);
  return out;
}

}  // namespace mortar
