// What can be said about a request when its head has come: which handler takes it, or why none does.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "http.hpp"
#include "message_parser.hpp"
#include "router.hpp"

namespace mortar {

struct ServerState;

struct Admission {
  std::string id, target, query, key;
  HttpHeaders parameters;
  HttpHeaders cors;              ///< headers of every answer to this request
  const Route* route = nullptr;  ///< null: `rejection` or `at_once`
  std::optional<HttpFault> rejection;
  std::optional<int> at_once;     ///< the status of an answer without body (OPTIONS)
  HttpHeaders headers;            ///< of these two
  bool expects_continue = false;  ///< the client waits for a 100 before it sends the body
};

Admission admit(const ServerState& server, const MessageHead& head);

/// X-Request-Id as it came if it is at most 128 printable characters, else a new one.
std::string request_id(const HttpHeaders& headers);

}  // namespace mortar
