// Building messages without <format> or streams: concat("expected ", 3, " axes, found ", n).
#pragma once
#include <string>
#include <string_view>
#include <type_traits>

namespace tessera {

namespace detail {
void append(std::string& out, std::string_view text);
void append(std::string& out, char c);
void append(std::string& out, bool value);  ///< true, false
void append(std::string& out, long long value);
void append(std::string& out, unsigned long long value);
void append(std::string& out, double value);  ///< the shortest text that reads back as the same double
void append(std::string& out, float value);   ///< likewise for float
inline void append(std::string& out, const char* text) {
  append(out, std::string_view(text != nullptr ? text : "(null)"));
}
inline void append(std::string& out, const std::string& text) { append(out, std::string_view(text)); }
template <class I>
  requires(std::is_integral_v<I>)
void append(std::string& out, I value) {
  if constexpr (std::is_signed_v<I>)
    append(out, static_cast<long long>(value));
  else
    append(out, static_cast<unsigned long long>(value));
}
}  // namespace detail

/// The arguments (text, numbers, bool) as one string.
template <class... Args>
std::string concat(const Args&... args) {
  std::string out;
  (detail::append(out, args), ...);
  return out;
}

/// The items of a sequence, each as concat writes it, with `separator` between them.
template <class Sequence>
std::string join(const Sequence& items, std::string_view separator = ", ") {
  std::string out;
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += separator;
    first = false;
    detail::append(out, item);
  }
  return out;
}

}  // namespace tessera
