// One launch on the default device; all its tensors lie in one allocation.
#include "generate/device.hpp"

#include "host/launch_grid.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream_core.hpp"
#include "tessera/tessera.hpp"

namespace tessera::generate {

std::vector<std::byte> run_on_device(jit::Kernel& kernel, std::span<const std::byte> initial,
                                     std::vector<std::uint64_t> slots, std::span<const std::size_t> addresses,
                                     cpu::Grid grid) {
  const std::span<const u8> bytes(reinterpret_cast<const u8*>(initial.data()), initial.size());
  Tensor<u8, 1> memory = from(bytes, {initial.size()}).sync();
  const runtime::StorageRef storage = detail::Reach::layout(memory).storage;
  for (const std::size_t slot : addresses) slots[slot] += reinterpret_cast<std::uintptr_t>(storage->data());
  const Device device = storage->device();
  const jit::Code& code = kernel.code(device, slots);
  const Stream stream(device);
  const auto pieces = static_cast<std::uint32_t>(code.abi.pieces);
  grid.x = (grid.x + pieces - 1) / pieces;
  if (code.abi.grid.used) {
    const runtime::LaunchGrid axes = detail::launch_grid(code.abi.grid, grid.x, slots);
    grid = {axes.x, axes.y, axes.z};
  }
  {
    runtime::LeaseLink lease;
    lease.take(*storage, true, {});
    const runtime::Access access[] = {{storage, runtime::AccessMode::ReadWrite, &lease}};
    runtime::StreamCore::submit(stream.core(),
                                {code.work, {grid.x, grid.y, grid.z}, slots, access, "kernel generated", {}});
  }
  const std::vector<u8> found = host(memory).sync();
  const auto* const begin = reinterpret_cast<const std::byte*>(found.data());
  return {begin, begin + found.size()};
}

}  // namespace tessera::generate
