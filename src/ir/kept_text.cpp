// The table of texts that are kept.
#include "ir/kept_text.hpp"

#include <mutex>
#include <string>
#include <unordered_set>

namespace tessera::ir {

const char* kept_text(std::string_view text) {
  static std::mutex mutex;
  static auto* texts =
      new std::unordered_set<std::string>;  // never destroyed: locations in other statics point into it
  const std::lock_guard lock(mutex);
  return texts->emplace(text).first->c_str();
}

}  // namespace tessera::ir
