// The stack of the calling thread, and more of it for what recurs along structures that users make. Such structures
// (operations that are operands of each other, flows inside flows) have any depth, and threads have stacks of any size.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

namespace tessera {

namespace detail {

struct StackBounds {
  std::uintptr_t low = 0, high = 0;  ///< both 0: not looked up yet
};
/// Where the calling thread runs: its own stack, or a piece of memory that call_on_more_stack() gave it.
extern thread_local constinit StackBounds stack_bounds;
void find_stack_bounds() noexcept;
inline const StackBounds& known_stack_bounds() noexcept {
  if (stack_bounds.high == 0) [[unlikely]] { find_stack_bounds(); }
  return stack_bounds;
}

/// Calls `call(argument)` on this thread with another piece of memory as its stack, and rethrows what it throws. False
/// if there is no memory for one: then nothing was called.
bool call_on_more_stack(void (*call)(void*), void* argument);
template <class F>
bool call_on_more_stack(F& f) {
  return call_on_more_stack([](void* argument) { (*static_cast<F*>(argument))(); },
                            const_cast<void*>(static_cast<const void*>(&f)));
}
[[noreturn]] void throw_no_stack();

}  // namespace detail

/// The stack that a function of the library may use between two looks at it, in bytes.
inline constexpr std::size_t kStackOfCalls = std::size_t{256} << 10;
/// The stack for what recurs along the regions of a kernel, whose depth is limited: recording, compiling, evaluating.
inline constexpr std::size_t kStackOfRegions = std::size_t{1} << 20;

/// The size of the present stack in bytes.
inline std::size_t stack_size() noexcept {
  const detail::StackBounds& bounds = detail::known_stack_bounds();
  return bounds.high - bounds.low;
}
/// How many bytes of it are left, about.
inline std::size_t stack_left() noexcept {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  const std::uintptr_t low = detail::known_stack_bounds().low;
  return here > low ? here - low : 0;
}

/// f(), with at least `least` bytes of stack (at most 4 MiB): on more stack if too little is left. Throws what `f`
/// throws, and DeviceError if there is no memory for a stack.
template <class F>
auto with_stack(F&& f, std::size_t least = kStackOfCalls) -> std::invoke_result_t<F&> {
  using Result = std::invoke_result_t<F&>;
  if (stack_left() >= least) [[likely]] { return f(); }
  if constexpr (std::is_void_v<Result>) {
    if (!detail::call_on_more_stack(f)) detail::throw_no_stack();
  } else {
    std::optional<Result> result;
    const auto keep = [&] { result.emplace(f()); };
    if (!detail::call_on_more_stack(keep)) detail::throw_no_stack();
    return std::move(*result);
  }
}

/// The same for what may not throw, destructors above all. False if there is no memory for a stack: then `f` was not
/// called.
template <class F>
bool try_with_stack(F&& f) noexcept {
  if (stack_left() < kStackOfCalls) [[unlikely]] { return detail::call_on_more_stack(f); }
  f();
  return true;
}

}  // namespace tessera
