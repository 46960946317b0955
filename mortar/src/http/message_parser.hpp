// Reads one HTTP/1.x message from pieces of any size, within limits.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http.hpp"

namespace mortar {

/// Why a message is not served: the status of the answer, a short identifier, and a sentence.
struct HttpFault {
  int status = 0;
  std::string code, message;
};

struct MessageLimits {
  std::size_t header_bytes, header_count;
  std::uint64_t body_bytes;
};

struct MessageHead {
  std::string method, target;  ///< of a request
  int status = 0;              ///< of a response
  int version = 11;            ///< 10 or 11
  HttpHeaders headers;
  bool keep_alive = false;  ///< the connection may be used again after this message
  bool has_body = false;
  std::optional<std::uint64_t> content_length;
};

class MessageParser {
 public:
  virtual ~MessageParser() = default;
  /// Reads from the front of `input` and returns how many bytes were used; 0 if more are needed. Stops behind the head,
  /// so that it can be looked at before there is a body, and behind the message. Bytes that were not used have to be
  /// given again with what follows them. After a fault the message cannot be continued.
  virtual std::size_t put(std::string_view input, std::optional<HttpFault>& fault) = 0;
  /// The sender has closed its side: the end of a response without a length, else a fault.
  virtual void put_end(std::optional<HttpFault>& fault) = 0;
  virtual bool head_done() const = 0;
  virtual bool done() const = 0;

  MessageHead head;
  std::string body;  ///< what has come of it; the caller may take it away between calls
};

std::unique_ptr<MessageParser> make_request_parser(const MessageLimits& limits);
/// `without_body`: of a response to HEAD.
std::unique_ptr<MessageParser> make_response_parser(const MessageLimits& limits, bool without_body);

/// The first header of that name, of which case is ignored; null: none.
const std::string* find_header(const HttpHeaders& headers, std::string_view name);
/// ASCII letters only.
bool equal_ignoring_case(std::string_view a, std::string_view b);

}  // namespace mortar
