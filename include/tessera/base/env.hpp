// Environment knobs, declared once in env.def and read through env(). Nothing else in the library calls getenv for
// them.
#pragma once
#include <cstdint>
#include <span>

namespace tessera {

enum class Env : std::uint8_t {
#define TESSERA_ENV(name, ...) name,
#include "tessera/base/env.def"
};

/// One row of env.def; `variable` carries the prefix ("TESSERA_DEVICE").
struct EnvInfo {
  const char* variable;
  const char* value;
  const char* doc;
};
/// All knobs, in the order of the enumeration: for help texts and `tessera doctor`.
std::span<const EnvInfo> env_table();
const EnvInfo& info(Env knob);

/// The knob's value, or nullptr if it is unset or empty. Read anew at each call; the pointer is the environment's.
const char* env(Env knob);
/// 1, true, on or yes / 0, false, off or no; `fallback` if unset. Anything else throws Error (kind "ConfigError").
bool env_flag(Env knob, bool fallback);
/// A whole number of at least `least`; `fallback` if unset. Anything else throws Error (kind "ConfigError").
std::int64_t env_int(Env knob, std::int64_t fallback, std::int64_t least);
/// Throws Error (kind "ConfigError"): the knob's value is not what `expected` says. For knobs that take words.
[[noreturn]] void env_reject(Env knob, const char* expected);

}  // namespace tessera
