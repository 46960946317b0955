// An error as the API gives it: a status, a message, the field that is wrong, a code for programs.
#pragma once
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

#include "http/http.hpp"

namespace mortar::server {

class ApiError : public std::exception {
 public:
  ApiError(int status, std::string message, std::string param, std::string code)
      : status(status), message(std::move(message)), param(std::move(param)), code(std::move(code)) {}
  const char* what() const noexcept override { return message.c_str(); }

  int status;
  std::string message, param, code;  // `param` and `code` may be empty
};

/// 400 for a field: "PATH: expected ..., found ...".
[[noreturn]] void invalid(const std::string& path, std::string_view expected, std::string_view found,
                          const std::string& code = "invalid_value");
/// 400 for a field that is not there.
[[noreturn]] void missing(const std::string& path, std::string_view expected);
/// 400 for a field that is not supported, with what to do instead.
[[noreturn]] void unsupported(const std::string& path, const std::string& message);

/// Whose clients read the error.
enum class Dialect : std::uint8_t { OpenAi, Anthropic };
std::string error_json(const ApiError& error, Dialect dialect = Dialect::OpenAi);
/// What stands within "error", or is the whole object of the other dialect.
HttpHeaders error_headers(const ApiError& error);
void send_error(HttpReply& reply, const ApiError& error, Dialect dialect = Dialect::OpenAi);

/// The exception that is being handled as an error of the API: RequestError is a 400, QueueFullError a 503, all others
/// a 500.
ApiError current_error();

}  // namespace mortar::server
