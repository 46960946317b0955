// Arguments of cases, and the number of groups of tensors that exceed the caches.
#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "tessera/base/format.hpp"
#include "tessera/measure/measure.hpp"

namespace tessera::measure {

void Args::set(std::string key, std::string value) {
  for (Entry& e : values_) {
    if (e.key != key) continue;
    e.value = std::move(value);
    return;
  }
  values_.push_back({std::move(key), std::move(value)});
}

const std::string* Args::find(const std::string& key) const {
  for (const Entry& e : values_) {
    if (e.key != key) continue;
    e.read = true;
    return &e.value;
  }
  return nullptr;
}

std::string Args::unread() const {
  std::string keys;
  for (const Entry& e : values_) {
    if (!e.read) keys += concat(keys.empty() ? "" : ", ", e.key);
  }
  return keys;
}

std::int64_t Args::number(const std::string& key, std::int64_t otherwise) const {
  const std::string* text = find(key);
  if (!text) return otherwise;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size())
    throw std::runtime_error(concat(key, " must be a whole number, found ", *text));
  return value;
}

std::string Args::text(const std::string& key, const std::string& otherwise) const {
  const std::string* text = find(key);
  return text ? *text : otherwise;
}

int sets_for(const Args& args, double bytes) {
  if (args.number("one_set", 0)) return 1;
  return static_cast<int>(std::clamp(std::ceil(256e6 / std::max(bytes, 1.0)), 1.0, 64.0));
}

}  // namespace tessera::measure
