// The message parser, on Boost.Beast's: the one source file that includes Beast.
#include "message_parser.hpp"

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>

#include "net.hpp"

namespace mortar {
namespace {

namespace http = boost::beast::http;
using boost::beast::string_view;
using ErrorCode = boost::beast::error_code;

std::string text(string_view view) { return {view.data(), view.size()}; }

/// `rest`: what had not been taken.
HttpFault fault_of(const ErrorCode& error, std::string_view rest, bool in_head, bool in_target,
                   const MessageLimits& limits) {
  if (error == http::error::body_limit)
    return {413, "body_too_large", "expected a body of at most " + std::to_string(limits.body_bytes) + " bytes"};
  if (error == http::error::header_limit && in_target)
    return {414, "uri_too_long",
            "expected a request line of at most " + std::to_string(limits.header_bytes) + " bytes"};
  if (error == http::error::header_limit)
    return {431, "headers_too_large",
            "expected headers of at most " + std::to_string(limits.header_bytes) + " bytes and at most " +
                std::to_string(limits.header_count) + " lines"};
  // Beast gives this error also for what follows the version.
  const std::string_view line = rest.substr(0, rest.find('\n'));
  if (error == http::error::bad_version && line.find(" HTTP/1.1") == line.npos && line.find(" HTTP/1.0") == line.npos)
    return {505, "http_version", "expected HTTP/1.1 or HTTP/1.0"};
  return {400, in_head ? "bad_request" : "bad_body", "not a valid HTTP/1.1 message: " + error.message()};
}

/// A line that begins with a space continues the header before it (RFC 9112, 5.2: to be rejected).
bool has_folded_line(std::string_view head) {
  return head.find("\r\n ") != std::string_view::npos || head.find("\r\n\t") != std::string_view::npos;
}

template <bool isRequest>
class Parser final : public MessageParser, private http::basic_parser<isRequest> {
  using Base = http::basic_parser<isRequest>;

 public:
  Parser(const MessageLimits& limits, bool without_body) : limits_(limits) {
    Base::eager(false);
    Base::header_limit(static_cast<std::uint32_t>(limits.header_bytes));
    Base::body_limit(limits.body_bytes);
    if (without_body) Base::skip(true);
  }

  std::size_t put(std::string_view input, std::optional<HttpFault>& fault) override {
    std::size_t used = 0;
    const bool in_head = !Base::is_header_done();
    while (used < input.size() && !Base::is_done() && in_head == !Base::is_header_done()) {
      const std::string_view rest = input.substr(used);
      if (in_head && !rest.starts_with("\r\n") && has_folded_line(rest.substr(0, rest.find("\r\n\r\n")))) {
        fault = HttpFault{400, "bad_request", "not a valid HTTP/1.1 message: a header is continued on the next line"};
        break;
      }
      ErrorCode error;
      const std::size_t n = Base::put(boost::asio::const_buffer(rest.data(), rest.size()), error);
      used += n;
      // Beast limits what is given at once, not the sum of the lines that it has taken, and no line of a body.
      if (in_head && (head_bytes_ += n) > limits_.header_bytes) error = http::error::header_limit;
      if (error == http::error::need_more) {
        if (!in_head && rest.size() - n > limits_.header_bytes)
          fault = HttpFault{400, "bad_body", "not a valid HTTP/1.1 message: a line between chunks is too long"};
        break;
      }
      if (error) {
        fault = fault_of(error, rest, in_head, in_head && !has_start_line_, limits_);
        break;
      }
    }
    return used;
  }

  void put_end(std::optional<HttpFault>& fault) override {
    ErrorCode error = http::error::partial_message;
    if (Base::got_some()) Base::put_eof(error);
    if (error) fault = HttpFault{400, "bad_request", "the message ends in its middle"};
  }

  bool head_done() const override { return Base::is_header_done(); }
  bool done() const override { return Base::is_done(); }

 private:
  void on_request_impl(http::verb, string_view method, string_view target, int version, ErrorCode& error) override {
    error = {};
    has_start_line_ = true;
    head.method = text(method);
    head.target = text(target);
    head.version = version;
  }
  void on_response_impl(int code, string_view, int version, ErrorCode& error) override {
    error = {};
    has_start_line_ = true;
    head.status = code;
    head.version = version;
  }
  void on_field_impl(http::field, string_view name, string_view value, ErrorCode& error) override {
    error = {};
    if (Base::is_header_done()) return;  // a trailer
    if (head.headers.size() == limits_.header_count) {
      error = http::error::header_limit;
      return;
    }
    head.headers.emplace_back(text(name), text(value));
  }
  void on_header_impl(ErrorCode& error) override {
    error = {};
    head.keep_alive = Base::keep_alive();
    if (const auto length = Base::content_length()) head.content_length = *length;
    head.has_body = Base::chunked() || head.content_length.value_or(0) > 0;
  }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, ErrorCode& error) override { error = {}; }
  std::size_t on_body_impl(string_view piece, ErrorCode& error) override {
    error = {};
    body.append(piece.data(), piece.size());
    return piece.size();
  }
  void on_chunk_header_impl(std::uint64_t, string_view, ErrorCode& error) override { error = {}; }
  std::size_t on_chunk_body_impl(std::uint64_t, string_view piece, ErrorCode& error) override {
    return on_body_impl(piece, error);
  }
  void on_finish_impl(ErrorCode& error) override { error = {}; }

  MessageLimits limits_;
  bool has_start_line_ = false;
  std::size_t head_bytes_ = 0;  ///< of the head, taken so far
};

}  // namespace

std::unique_ptr<MessageParser> make_request_parser(const MessageLimits& limits) {
  return std::make_unique<Parser<true>>(limits, false);
}
std::unique_ptr<MessageParser> make_response_parser(const MessageLimits& limits, bool without_body) {
  return std::make_unique<Parser<false>>(limits, without_body);
}

}  // namespace mortar
