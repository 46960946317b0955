// The bytes of a response's head.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "http.hpp"

namespace mortar {

enum class Framing {
  Length,   ///< Content-Length
  Chunked,  ///< chunks of HTTP/1.1
  ToEnd,    ///< the end of the connection: streams to HTTP/1.0
  None,     ///< no body at all (204)
};

struct ResponseHead {
  int status = 200;
  std::string content_type;  ///< empty: none
  Framing framing = Framing::Length;
  std::uint64_t length = 0;
  bool keep_alive = true;
  int version = 11;  ///< of the request
};

/// Status line, date, framing, then all of `groups`, then the empty line. Control characters in values become spaces.
void append_response_head(std::string& out, const ResponseHead& head, std::initializer_list<const HttpHeaders*> groups);
/// `data` as one chunk; nothing if it is empty, which would be the end.
void append_chunk(std::string& out, std::string_view data);

}  // namespace mortar
