// The process-wide map of claimed address ranges.
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
  bool own;  ///< memory of the library
};

struct Claims {
  std::mutex mutex;
  std::map<std::uintptr_t, Range> ranges;  // by begin; they do not overlap
};

/// Never destroyed: tensors in the user's static variables may be destroyed later.
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
  }  // `owner` is released after the lock
};

[[noreturn]] void throw_overlap(const Range& with) {
  throw BorrowError(
      concat("this memory is part of ", with.label.empty() ? "another tensor" : concat("tensor '", with.label, "'"),
             with.own ? " (the library's own memory, which was exported or whose address was taken)" : "",
             " already (or of work in flight that still uses it); two tensors over the same memory could not "
             "protect each other.\n  Keep one tensor and take views of it, or let the other one go first and "
             "synchronize."));
}

/// Under the mutex. Throws BorrowError if a part of the range is claimed.
void claim(std::uintptr_t begin, std::size_t bytes, std::string_view label, bool own) {
  auto& ranges = claims().ranges;
  const std::uintptr_t end = begin + bytes;
  const auto next = ranges.lower_bound(begin);
  if (next != ranges.end() && next->first < end) throw_overlap(next->second);
  if (next != ranges.begin() && std::prev(next)->second.end > begin) throw_overlap(std::prev(next)->second);
  ranges.emplace_hint(next, begin, Range{end, std::string(label), own});
}

}  // namespace

std::shared_ptr<void> claim_foreign(const void* memory, std::size_t bytes, std::shared_ptr<void> owner,
                                    std::string_view label) {
  auto made = std::make_shared<Claim>();
  made->owner = std::move(owner);
  made->begin = reinterpret_cast<std::uintptr_t>(memory);
  if (bytes == 0) return made;
  std::lock_guard lock(claims().mutex);
  claim(made->begin, bytes, label, false);
  made->made = true;
  return made;
}

void claim_own(const void* memory, std::size_t bytes, std::string_view label, bool& claimed) {
  std::lock_guard lock(claims().mutex);
  if (claimed || bytes == 0) return;
  claim(reinterpret_cast<std::uintptr_t>(memory), bytes, label, true);
  claimed = true;
}

void withdraw_own(const void* memory, bool& claimed) noexcept {
  std::lock_guard lock(claims().mutex);
  if (claimed) claims().ranges.erase(reinterpret_cast<std::uintptr_t>(memory));
  claimed = false;
}

}  // namespace tessera::runtime
