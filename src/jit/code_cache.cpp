// A table from everything that code depends on to the code.
#include "jit/code_cache.hpp"

#include <unordered_map>

namespace tessera::jit {
namespace {

struct Table {
  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<CodeSlot>> slots;
};

}  // namespace

std::shared_ptr<CodeSlot> code_slot(const std::string& key) {
  static Table* const table = new Table;  // never destroyed: streams may still run work while the process ends
  const std::lock_guard lock(table->mutex);
  std::shared_ptr<CodeSlot>& slot = table->slots[key];
  if (!slot) slot = std::make_shared<CodeSlot>();
  return slot;
}

}  // namespace tessera::jit
