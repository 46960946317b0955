// Reading and checking of environment knobs.
#include "tessera/base/env.hpp"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera {

namespace {

constexpr EnvInfo kTable[] = {
#define TESSERA_ENV(name, value, doc) {"TESSERA_" #name, value, doc},
#include "tessera/base/env.def"
};

bool one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) {
    if (text == word) return true;
  }
  return false;
}

}  // namespace

std::span<const EnvInfo> env_table() { return kTable; }
const EnvInfo& info(Env knob) { return kTable[static_cast<unsigned>(knob)]; }

const char* env(Env knob) {
  const char* text = std::getenv(info(knob).variable);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

void env_reject(Env knob, const char* expected) {
  throw Error("ConfigError",
              concat("the environment variable ", info(knob).variable, " is \"", env(knob), "\"; expected ", expected,
                     " (", info(knob).doc, ")"),
              {});
}

bool env_flag(Env knob, bool fallback) {
  const char* text = env(knob);
  if (text == nullptr) return fallback;
  if (one_of(text, {"1", "true", "on", "yes"})) return true;
  if (one_of(text, {"0", "false", "off", "no"})) return false;
  env_reject(knob, "0 or 1");
}

std::int64_t env_int(Env knob, std::int64_t fallback, std::int64_t least) {
  const char* text = env(knob);
  if (text == nullptr) return fallback;
  const std::string_view view(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc() || end != view.data() + view.size() || value < least) {
    env_reject(knob, concat("a whole number of at least ", least).c_str());
  }
  return value;
}

}  // namespace tessera
