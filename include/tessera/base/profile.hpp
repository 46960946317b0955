// Named ranges of time for profilers: what the host does for a kernel (record, compile, launch, wait, tune) shows up in
// Nsight under the kernel's name and the user's file and line. Off unless TESSERA_NVTX=1 and a profiler has named its
// library to the process; then a range costs one load and one branch.
#pragma once
#include <atomic>
#include <cstdint>

#include "tessera/base/source_location.hpp"

namespace tessera {

/// What a range is about: the category and the first word of its name.
enum class ProfileTopic : std::uint8_t { Record, Compile, Launch, Synchronize, Tune };

namespace detail {
enum class ProfileState : std::uint8_t { Unknown, Off, On };
extern std::atomic<ProfileState> profile_state;
bool decide_profiling();
void begin_range(ProfileTopic topic, const char* subject, const SourceLocation& where) noexcept;
void end_range() noexcept;
}  // namespace detail

/// True if ranges reach a profiler. The first call reads TESSERA_NVTX (ConfigError if it is not a flag) and attaches
/// the library that NVTX_INJECTION64_PATH names; one that cannot be attached is as if there were none.
inline bool profiling() {
  using detail::ProfileState;
  const ProfileState state = detail::profile_state.load(std::memory_order_relaxed);
  if (state == ProfileState::Off) [[likely]]
    return false;
  return state == ProfileState::On || detail::decide_profiling();
}

/// A range from here to the end of the scope, on this thread: "launch kernel saxpy (main.cpp:14)". Ranges nest.
class ProfileRange {
 public:
  /// `subject` ("kernel saxpy") and the strings of `where` are needed during the call only.
  ProfileRange(ProfileTopic topic, const char* subject, const SourceLocation& where) : open_(profiling()) {
    if (open_) [[unlikely]]
      detail::begin_range(topic, subject, where);
  }
  ~ProfileRange() {
    if (open_) [[unlikely]]
      detail::end_range();
  }
  ProfileRange(const ProfileRange&) = delete;
  ProfileRange& operator=(const ProfileRange&) = delete;

 private:
  bool open_;
};

}  // namespace tessera
