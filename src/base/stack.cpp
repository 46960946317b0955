// The bounds of stacks, and switching to another one. A call that needs more stack runs as a context of its own
// (makecontext) on the same thread, so thread-local state and locks are as they were; it returns before its caller goes
// on, so contexts never interleave.
#include "tessera/base/stack.hpp"

#include <pthread.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <exception>

#include "tessera/base/error.hpp"
#include "tessera/base/sanitizers.hpp"

#if TESSERA_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

namespace tessera::detail {

thread_local constinit StackBounds stack_bounds;

namespace {

/// As large as a thread's stack usually is. The system gives only the pages that are used.
constexpr std::size_t kPieceBytes = std::size_t{8} << 20;
constexpr std::size_t kGuardBytes = std::size_t{64} << 10;  // a multiple of all page sizes

/// The full extent that the main thread's stack may grow to; empty on other threads, or if there is no limit.
/// pthread_getattr_np gives the same, but reads /proc/self/maps, which takes a quarter of the time of recording a
/// kernel.
StackBounds first_stack() noexcept {
  const auto top = static_cast<std::uintptr_t>(getauxval(AT_EXECFN));  // the program's path is at the end of the stack
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  rlimit limit{};
  if (top == 0 || here > top || getpid() != static_cast<pid_t>(syscall(SYS_gettid))) return {};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  if (top - here >= limit.rlim_cur) return {};
  return {top - limit.rlim_cur, top};
}

/// Memory for a stack. Each thread keeps one piece, so that what goes back and forth over the end of its stack does not
/// ask the system each time.
class Piece {
 public:
  Piece() noexcept {
    if (kept.memory != nullptr) {
      memory_ = std::exchange(kept.memory, nullptr);
      return;
    }
    void* const memory = mmap(nullptr, kPieceBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) return;
    if (mprotect(memory, kGuardBytes, PROT_NONE) == 0)
      memory_ = memory;
    else
      munmap(memory, kPieceBytes);
  }
  ~Piece() {
    if (memory_ == nullptr) return;
    if (kept.memory == nullptr && !kept.ended)
      kept.memory = memory_;
    else
      munmap(memory_, kPieceBytes);
  }
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;

  explicit operator bool() const noexcept { return memory_ != nullptr; }
  StackBounds bounds() const noexcept {
    const auto begin = reinterpret_cast<std::uintptr_t>(memory_);
    return {begin + kGuardBytes, begin + kPieceBytes};
  }

 private:
  struct Kept {
    void* memory = nullptr;
    bool ended = false;  // destructors of other thread-local variables may need a stack later
    ~Kept() {
      ended = true;
      if (memory != nullptr) munmap(std::exchange(memory, nullptr), kPieceBytes);
    }
  };
  static thread_local Kept kept;
  void* memory_ = nullptr;
};
thread_local Piece::Kept Piece::kept;

struct Call {
  void (*call)(void*);
  void* argument;
  std::exception_ptr error;
  const void* from = nullptr;  // the stack of the caller, for the address sanitizer
  std::size_t from_bytes = 0;
};

__attribute__((noinline)) void run(Call& call) noexcept {
  try {
    call.call(call.argument);
  } catch (...) { call.error = std::current_exception(); }  // an exception cannot leave a context
}

/// The first function of a context, whose arguments are ints.
__attribute__((no_sanitize_address)) void enter(unsigned high, unsigned low) {
  auto& call = *reinterpret_cast<Call*>(static_cast<std::uintptr_t>(high) << 32 | low);
#if TESSERA_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &call.from, &call.from_bytes);
#endif
  run(call);
#if TESSERA_ASAN
  __sanitizer_start_switch_fiber(nullptr, call.from, call.from_bytes);
#endif
}

}  // namespace

void find_stack_bounds() noexcept {
  stack_bounds = first_stack();
  if (stack_bounds.high != 0) return;
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    void* low = nullptr;
    std::size_t size = 0;
    pthread_attr_getstack(&attributes, &low, &size);
    pthread_attr_destroy(&attributes);
    stack_bounds.low = reinterpret_cast<std::uintptr_t>(low);
    stack_bounds.high = stack_bounds.low + size;
    return;
  }
  // Nothing is known: as if none were left, so that what asks gets a piece.
  stack_bounds.low = stack_bounds.high = UINTPTR_MAX;
}

bool call_on_more_stack(void (*call)(void*), void* argument) {
  const Piece piece;
  Call here{call, argument, {}};
  ucontext_t caller, callee;
  if (!piece || getcontext(&callee) != 0) return false;
  const StackBounds bounds = piece.bounds();
  callee.uc_stack.ss_sp = reinterpret_cast<void*>(bounds.low);
  callee.uc_stack.ss_size = bounds.high - bounds.low;
  callee.uc_link = &caller;
  const auto address = reinterpret_cast<std::uintptr_t>(&here);
  makecontext(&callee, reinterpret_cast<void (*)()>(enter), 2, static_cast<unsigned>(address >> 32),
              static_cast<unsigned>(address));
  const StackBounds own = std::exchange(stack_bounds, bounds);
#if TESSERA_ASAN
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, callee.uc_stack.ss_sp, callee.uc_stack.ss_size);
#endif
  swapcontext(&caller, &callee);
#if TESSERA_ASAN
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
  stack_bounds = own;
  if (here.error) std::rethrow_exception(here.error);
  return true;
}

void throw_no_stack() {
  throw DeviceError(
      "out of host memory for a stack: operations or flows are nested deeply, or this thread's stack is small.\n  "
      "Enqueue them in parts, or free what is not needed.");
}

}  // namespace tessera::detail
