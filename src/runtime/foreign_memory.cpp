// The process-wide map of claimed address ranges.
#include "runtime/foreign_memory.hpp"

#include <algorithm>
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
  const void* claim;  ///< null: memory of the library
};
/// What is left of a claim whose storage has ended.
struct InFlight {
  const void* claim;
  std::uintptr_t begin, end;
  std::vector<Use> uses;
};

struct Claims {
  std::mutex mutex;
  std::map<std::uintptr_t, Range> ranges;  // by begin; they do not overlap
  std::vector<InFlight> in_flight;         // few: they end with their work
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
    std::vector<Use> uses;  // the last references to streams: released after the lock, as `owner` is
    std::lock_guard lock(claims().mutex);
    auto& [mutex, ranges, in_flight] = claims();
    const auto at =
        std::find_if(in_flight.begin(), in_flight.end(), [&](const InFlight& f) { return f.claim == this; });
    if (at == in_flight.end()) {
      ranges.erase(begin);
      return;
    }
    uses.swap(at->uses);
    in_flight.erase(at);
  }
};

[[noreturn]] void throw_overlap(const Range& with) {
  throw BorrowError(
      concat("this memory is part of ", with.label.empty() ? "another tensor" : concat("tensor '", with.label, "'"),
             with.claim == nullptr ? " (the library's own memory, which was exported or whose address was taken)" : "",
             " already (or of work in flight that still uses it); two tensors over the same memory could not "
             "protect each other.\n  Keep one tensor and take views of it, or let the other one go first and "
             "synchronize."));
}

/// Under the mutex. Throws BorrowError if a part of the range is claimed.
void claim(std::uintptr_t begin, std::size_t bytes, std::string_view label, const void* of) {
  auto& ranges = claims().ranges;
  const std::uintptr_t end = begin + bytes;
  const auto next = ranges.lower_bound(begin);
  if (next != ranges.end() && next->first < end) throw_overlap(next->second);
  if (next != ranges.begin() && std::prev(next)->second.end > begin) throw_overlap(std::prev(next)->second);
  ranges.emplace_hint(next, begin, Range{end, std::string(label), of});
}

}  // namespace

std::shared_ptr<void> claim_foreign(const void* memory, std::size_t bytes, std::shared_ptr<void> owner,
                                    std::string_view label, std::vector<Use>& before) {
  auto made = std::make_shared<Claim>();
  made->owner = std::move(owner);
  made->begin = reinterpret_cast<std::uintptr_t>(memory);
  if (bytes == 0) return made;
  std::lock_guard lock(claims().mutex);
  for (const InFlight& f : claims().in_flight) {
    if (f.begin < made->begin + bytes && made->begin < f.end) before.insert(before.end(), f.uses.begin(), f.uses.end());
  }
  claim(made->begin, bytes, label, made.get());
  made->made = true;
  return made;
}

void retire_claim(const std::shared_ptr<void>& claim, std::span<const Use> uses) noexcept {
  std::lock_guard lock(claims().mutex);
  auto& [mutex, ranges, in_flight] = claims();
  const auto at =
      std::find_if(ranges.begin(), ranges.end(), [&](const auto& range) { return range.second.claim == claim.get(); });
  if (claim == nullptr || at == ranges.end()) return;
  try {
    in_flight.push_back({claim.get(), at->first, at->second.end, {uses.begin(), uses.end()}});
  } catch (...) { return; }  // no memory: then it stays claimed until the work has ended
  ranges.erase(at);
}

void claim_own(const void* memory, std::size_t bytes, std::string_view label, bool& claimed) {
  std::lock_guard lock(claims().mutex);
  if (claimed || bytes == 0) return;
  claim(reinterpret_cast<std::uintptr_t>(memory), bytes, label, nullptr);
  claimed = true;
}

void withdraw_own(const void* memory, bool& claimed) noexcept {
  std::lock_guard lock(claims().mutex);
  if (claimed) claims().ranges.erase(reinterpret_cast<std::uintptr_t>(memory));
  claimed = false;
}

}  // namespace tessera::runtime
