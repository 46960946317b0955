// Attaching a profiler once, and handing ranges to it.
#include "tessera/base/profile.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <iterator>
#include <mutex>
#include <string>
#include <string_view>

#include "base/nvtx.hpp"
#include "tessera/base/env.hpp"
#include "tessera/base/format.hpp"

namespace tessera {
namespace {

/// Word and colour of each topic, in the order of the enumeration.
struct Topic {
  const char* word;
  std::uint32_t color;  // ARGB
};
constexpr Topic kTopics[] = {{"record", 0xFF8E7CC3},
                             {"compile", 0xFFCC4125},
                             {"launch", 0xFF6AA84F},
                             {"synchronize", 0xFFBF9000},
                             {"tune", 0xFF3D85C6}};

// What the profiler writes into, before the state becomes On.
nvtx::Function slots[nvtx::kModules][nvtx::kMaxSlots];
nvtx::Function* tables[nvtx::kModules][nvtx::kMaxSlots + 1];
nvtx::Domain domain = nullptr;

template <class F>
F slot(nvtx::Slot which) {
  return reinterpret_cast<F>(slots[nvtx::kCore2][which]);
}

int module_functions(int module, nvtx::Function*** functions, unsigned* count) {
  if (module <= 0 || module >= nvtx::kModules) return 0;
  if (functions) *functions = tables[module];
  if (count) *count = nvtx::kSlots[module];
  return 1;
}

const void* export_table(std::uint32_t id) {
  static const nvtx::CallbacksTable callbacks{sizeof callbacks, &module_functions};
  static const nvtx::VersionTable version{sizeof version, 3, 0, [](std::uint32_t) {}};
  if (id == nvtx::kCallbacksTable) return &callbacks;
  if (id == nvtx::kVersionTable) return &version;
  return nullptr;
}

/// The profiler's library stays loaded: its functions are called until the process ends.
bool attach() {
  const char* path = std::getenv(nvtx::kPathVariable);
  if (path == nullptr || *path == '\0') return false;
  void* library = dlopen(path, RTLD_LAZY);
  if (library == nullptr) return false;
  for (int m = 1; m < nvtx::kModules; ++m) {
    for (unsigned s = 1; s < nvtx::kSlots[m]; ++s) tables[m][s] = &slots[m][s];
  }
  const auto initialize = reinterpret_cast<nvtx::InitializeInjection>(dlsym(library, nvtx::kInitializeName));
  if (initialize == nullptr || initialize(&export_table) == 0) return false;
  if (slot<nvtx::RangePush>(nvtx::kRangePush) == nullptr || slot<nvtx::RangePop>(nvtx::kRangePop) == nullptr)
    return false;
  if (const auto create = slot<nvtx::CreateDomain>(nvtx::kCreateDomain)) domain = create("tessera");
  if (const auto name = slot<nvtx::NameCategory>(nvtx::kNameCategory)) {
    for (std::uint32_t t = 0; t < std::size(kTopics); ++t) name(domain, t + 1, kTopics[t].word);
  }
  return true;
}

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

namespace detail {

std::atomic<ProfileState> profile_state{ProfileState::Unknown};

bool decide_profiling() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (profile_state.load() == ProfileState::Unknown) {
    const bool on = env_flag(Env::NVTX, false) && attach();
    profile_state.store(on ? ProfileState::On : ProfileState::Off);
  }
  return profile_state.load() == ProfileState::On;
}

void begin_range(ProfileTopic topic, const char* subject, const SourceLocation& where) noexcept {
  const Topic& t = kTopics[static_cast<unsigned>(topic)];
  nvtx::EventAttributes event;
  event.category = static_cast<std::uint32_t>(topic) + 1;
  event.color = t.color;
  event.message = t.word;
  std::string message;
  try {
    message = concat(t.word, " ", subject);
    if (where.known()) message += concat(" (", file_name(where.file), ":", where.line, ")");
    event.message = message.c_str();
  } catch (...) {
    // No memory for the name: the range is there all the same, so that its end has a beginning.
  }
  slot<nvtx::RangePush>(nvtx::kRangePush)(domain, &event);
}

void end_range() noexcept { slot<nvtx::RangePop>(nvtx::kRangePop)(domain); }

}  // namespace detail
}  // namespace tessera
