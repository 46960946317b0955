// Remembers what was found: a start must not look for an assembler at each kernel.
#include "tessera/jit/assembler.hpp"

#include <mutex>
#include <unordered_map>
#include <utility>

#include "tessera/base/env.hpp"
#include "tessera/base/format.hpp"

namespace tessera::jit {

std::optional<tileiras::Assembler> assembler_for(const std::string& gpu, std::string* why) {
  static std::mutex mutex;
  static auto* known = new std::unordered_map<std::string, tileiras::Assembler>;
  std::string key = gpu;
  for (const Env knob : {Env::TILEIRAS, Env::CACHE_DIR}) {
    const char* value = env(knob);
    key += concat("\n", value ? value : "");
  }
  const std::lock_guard lock(mutex);
  if (const auto it = known->find(key); it != known->end()) return it->second;
  auto found = tileiras::locate_assembler(gpu, why);
  if (found) known->emplace(std::move(key), *found);
  return found;
}

}  // namespace tessera::jit
