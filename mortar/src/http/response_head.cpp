// Writing heads and chunks of responses.
#include "response_head.hpp"

#include <cstdio>
#include <ctime>
#include <initializer_list>

namespace mortar {
namespace {

const char* reason_of(int status) {
  switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 411: return "Length Required";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return status < 400 ? "OK" : "Error";
  }
}

/// As RFC 9110, 5.6.7. Names are English whatever the locale is.
void append_date(std::string& out) {
  static const char* const kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static const char* const kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = std::time(nullptr);
  std::tm t{};
  gmtime_r(&now, &t);
  char text[64];
  std::snprintf(text, sizeof text, "Date: %s, %02d %s %04d %02d:%02d:%02d GMT\r\n", kDays[t.tm_wday], t.tm_mday,
                kMonths[t.tm_mon], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
  out += text;
}

void append_header(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  out += ": ";
  for (const char c : value) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  out += "\r\n";
}

}  // namespace

void append_response_head(std::string& out, const ResponseHead& head,
                          std::initializer_list<const HttpHeaders*> groups) {
  out += "HTTP/1.1 " + std::to_string(head.status) + " " + reason_of(head.status) + "\r\n";
  append_date(out);
  if (!head.content_type.empty()) append_header(out, "Content-Type", head.content_type);
  if (head.framing == Framing::Length) append_header(out, "Content-Length", std::to_string(head.length));
  if (head.framing == Framing::Chunked) append_header(out, "Transfer-Encoding", "chunked");
  if (!head.keep_alive)
    append_header(out, "Connection", "close");
  else if (head.version < 11)
    append_header(out, "Connection", "keep-alive");
  for (const HttpHeaders* group : groups)
    for (const auto& [name, value] : *group) append_header(out, name, value);
  out += "\r\n";
}

void append_chunk(std::string& out, std::string_view data) {
  if (data.empty()) return;
  char size[24];
  std::snprintf(size, sizeof size, "%zx\r\n", data.size());
  out += size;
  out += data;
  out += "\r\n";
}

}  // namespace mortar
