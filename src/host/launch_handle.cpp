// What an operation holds of its launch: making it with its arrays, in one block of memory, and ending it.
#include <cstddef>
#include <memory>
#include <new>

#include "host/launch.hpp"
#include "host/recorded_kernel.hpp"

namespace tessera::detail {

namespace {
/// Where the arrays of a launch are in its block, in bytes.
struct Places {
  std::size_t accesses, operands, slots, end;
  explicit Places(const KernelState::Signature& s) noexcept {
    static_assert(sizeof(Launch) % alignof(runtime::Access) == 0 &&
                  sizeof(runtime::Access) % alignof(LaunchOperand) == 0);
    const std::size_t tensors = s.address_slots.size();
    accesses = sizeof(Launch);
    operands = accesses + tensors * sizeof(runtime::Access);
    slots = operands + tensors * sizeof(LaunchOperand);
    end = slots + static_cast<std::size_t>(s.slots) * sizeof(std::uint64_t);
  }
};
}  // namespace

Launch* Launch::make(KernelRecord& record, const LaunchOptions& options, SourceLocation where) {
  KernelState& state = KernelState::of(record);
  const CheckMode mode = current_check_mode();
  const KernelState::Signature& s = state.signature();
  const Places at(s);
  auto* const block = static_cast<std::byte*>(OpBase::operator new(at.end));
  auto* const accesses = reinterpret_cast<runtime::Access*>(block + at.accesses);
  auto* const operands = reinterpret_cast<LaunchOperand*>(block + at.operands);
  auto* const slots = reinterpret_cast<std::uint64_t*>(block + at.slots);
  std::uninitialized_value_construct_n(accesses, s.address_slots.size());
  std::uninitialized_value_construct_n(operands, s.address_slots.size());
  std::uninitialized_default_construct_n(slots, s.slots);
  return new (block) Launch(state, options, mode, where, {operands, accesses, slots});
}

void Launch::destroy(Launch* launch) noexcept {
  const KernelState::Signature& s = launch->signature_;
  const Room room = launch->room_;
  launch->~Launch();
  std::destroy_n(room.operands, s.address_slots.size());  // leases end before the references that keep the storages
  std::destroy_n(room.accesses, s.address_slots.size());
  OpBase::operator delete(launch, Places(s).end);
}

LaunchHandle::LaunchHandle(KernelRecord& record, const LaunchOptions& options, SourceLocation where,
                           std::span<const ArgRef* const> arguments)
    : launch_(Launch::make(record, options, where)) {
  try {
    launch_->bind(arguments);
  } catch (...) {
    Launch::destroy(launch_);
    throw;
  }
}
LaunchHandle::~LaunchHandle() { Launch::destroy(launch_); }
runtime::Backend* LaunchHandle::device() const noexcept { return launch_->device(); }
bool LaunchHandle::compile(const CompileRequest& request, jit::CodeReport& report) {
  return launch_->compile(request, report);
}
bool LaunchHandle::promise(int param, std::span<std::int64_t> dims, std::span<std::int64_t> strides) const noexcept {
  return launch_->promise(param, dims, strides);
}
void LaunchHandle::enqueue(const Stream& stream) { launch_->enqueue(stream); }
void LaunchHandle::hand_back(int param, Place& place) noexcept { launch_->hand_back(param, place); }

}  // namespace tessera::detail
