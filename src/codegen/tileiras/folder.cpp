// The folder of fetched tools and compiled kernels, and the assembler's place in it.
#include <cstdlib>
#include <string>

#include "tessera/base/env.hpp"
#include "tessera/base/format.hpp"
#include "tessera/codegen/tileiras/tileiras.hpp"

namespace tessera::tileiras {

namespace {

std::string folder_variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

std::string cache_folder() {
  if (const char* given = env(Env::CACHE_DIR)) return given;
  if (std::string xdg = folder_variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/tessera";
  const std::string home = folder_variable("HOME");
  return home.empty() ? "" : home + "/.cache/tessera";
}

std::string fetched_folder() { return concat(cache_folder(), "/tileiras-", kPinnedVersion); }

}  // namespace tessera::tileiras
