// The process-wide map of foreign address ranges that storages hold.
#include "runtime/foreign_memory.hpp"

#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::runtime {

namespace {

struct Range {
  std::uintptr_t end;
  std::string label;
};

struct Claims {
  std::mutex mutex;
  std::map<std::uintptr_t, Range> ranges;  // by begin; they do not overlap
};

/// Never destroyed: tensors in the user's statics may end after everything else.
Claims& claims() {
  static Claims& all = *new Claims;
  return all;
}

struct Claim {
  std::shared_ptr<void> owner;
  std::uintptr_t begin = 0;
  bool made = false;

  ~Claim() {
    if (!made) return;
    std::lock_guard lock(claims().mutex);
    claims().ranges.erase(begin);
  }  // then the owner goes, outside the lock
};

[[noreturn]] void throw_overlap(const std::string& label) {
  throw BorrowError(
      concat("this memory is part of ", label.empty() ? "another tensor" : concat("tensor '", label, "'"),
             " already (or of work in flight that still uses it); two tensors over the same memory could not "
             "protect each other.\n  Keep one tensor and take views of it, or let the other one go first and "
             "synchronize."));
}

}  // namespace

std::shared_ptr<void> claim_foreign(const void* memory, std::size_t bytes, std::shared_ptr<void> owner,
                                    std::string_view label) {
  auto claim = std::make_shared<Claim>();
  claim->owner = std::move(owner);
  claim->begin = reinterpret_cast<std::uintptr_t>(memory);
  if (bytes == 0) return claim;
  const std::uintptr_t end = claim->begin + bytes;
  std::lock_guard lock(claims().mutex);
  auto& ranges = claims().ranges;
  const auto next = ranges.lower_bound(claim->begin);
  if (next != ranges.end() && next->first < end) throw_overlap(next->second.label);
  if (next != ranges.begin() && std::prev(next)->second.end > claim->begin)
    throw_overlap(std::prev(next)->second.label);
  ranges.emplace_hint(next, claim->begin, Range{end, std::string(label)});
  claim->made = true;
  return claim;
}

}  // namespace tessera::runtime
