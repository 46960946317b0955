// Host functions as stream work: the host layer's own operations (fills, copies, casts). If the host can address the
// device's memory, the function runs in stream order; otherwise it runs at once on a staging copy. Operations that have
// a kernel (device_kernels.hpp) come here only if no kernel can be compiled.
#pragma once
#include <array>
#include <memory>
#include <new>
#include <span>

#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream.hpp"
#include "tessera/runtime/stream_core.hpp"
#include "tessera/runtime/transfer.hpp"

namespace tessera::detail {

struct FreeBuffer {
  void operator()(std::byte* memory) const noexcept { ::operator delete(memory); }
};
using StagingMemory = std::unique_ptr<std::byte[], FreeBuffer>;
/// Uninitialised host memory for a copy. Throws DeviceError if there is none.
StagingMemory host_buffer(std::size_t bytes, const char* what, SourceLocation where);

/// Runs f(to), which overwrites all of `to`. `numbers` tell it apart from other functions of its type.
template <class F>
void enqueue_fill(const Stream& stream, const runtime::StorageRef& to, const char* label, SourceLocation where,
                  std::span<const std::uint64_t> numbers, F f) {
  if (to->bytes() == 0) return;
  if (to->device().backend().host_accessible()) {
    const runtime::Access access{to, runtime::AccessMode::Write};
    const auto work = [f](const runtime::LaunchContext& c) {
      runtime::Storage& storage = *c.accesses[0].storage;
      f(storage.data());
      storage.host_wrote(0, storage.bytes());
    };
    runtime::Submission submission{runtime::host_work(work), {}, numbers, {&access, 1}, label, where};
    submission.movable = true;
    stream.core()->submit(submission);
    return;
  }
  const auto staging = host_buffer(to->bytes(), label, where);
  f(staging.get());
  runtime::copy_from_host(*to, 0, staging.get(), to->bytes());
}

struct ByteRange {
  std::size_t offset = 0, bytes = 0;
  bool dense = false;  ///< every byte of it is written
};

/// Runs f(from, to) on two different storages. `f` gets the address of the first byte of each, and writes only bytes of
/// `written`. `numbers` tell it apart from other functions of its type.
template <class F>
void enqueue_copy(const Stream& stream, const runtime::StorageRef& from, const runtime::StorageRef& to,
                  ByteRange written, const char* label, SourceLocation where, std::span<const std::uint64_t> numbers,
                  F f) {
  if (written.bytes == 0) return;
  const auto mode =
      written.dense && written.bytes == to->bytes() ? runtime::AccessMode::Write : runtime::AccessMode::ReadWrite;
  if (from->device().backend().host_accessible() && to->device().backend().host_accessible()) {
    const std::array<runtime::Access, 2> accesses{runtime::Access{to, mode},
                                                  runtime::Access{from, runtime::AccessMode::Read}};
    const auto work = [f, written](const runtime::LaunchContext& c) {
      runtime::Storage& storage = *c.accesses[0].storage;
      f(static_cast<const std::byte*>(c.accesses[1].storage->data()), storage.data());
      storage.host_wrote(written.offset, written.bytes);
    };
    runtime::Submission submission{runtime::host_work(work), {}, numbers, accesses, label, where};
    submission.movable = true;
    stream.core()->submit(submission);
    return;
  }
  const auto source = host_buffer(from->bytes(), label, where), target = host_buffer(to->bytes(), label, where);
  runtime::copy_to_host(source.get(), *from, 0, from->bytes());
  runtime::copy_to_host(target.get(), *to, 0, to->bytes());
  f(static_cast<const std::byte*>(source.get()), target.get());
  runtime::copy_from_host(*to, written.offset, target.get() + written.offset, written.bytes);
}

}  // namespace tessera::detail
