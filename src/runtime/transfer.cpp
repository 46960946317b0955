// Copies between host memory and storages, after the waits that the storage's order requires.
#include "tessera/runtime/transfer.hpp"

#include <array>
#include <memory>
#include <new>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/runtime/at_line.hpp"
#include "tessera/runtime/graph.hpp"

namespace tessera::runtime {

namespace {

void check_range(const Storage& storage, std::size_t offset, std::size_t bytes) {
  if (offset <= storage.bytes() && bytes <= storage.bytes() - offset) return;
  throw InternalError(concat("a transfer of ", bytes, " bytes at offset ", offset, " leaves its storage of ",
                             storage.bytes(), " bytes"));
}

}  // namespace

void copy_to_host(void* to, Storage& from, std::size_t offset, std::size_t bytes) {
  check_range(from, offset, bytes);
  from.wait_written();
  if (bytes != 0) from.device().backend().copy(to, from.data() + offset, bytes);
}

void copy_from_host(Storage& to, std::size_t offset, const void* from, std::size_t bytes) {
  check_range(to, offset, bytes);
  check_not_capturing("copying from host memory",
                      "It would be copied once, not in each replay: make the tensor before the capture, and pass it.");
  to.wait_unused();
  to.mark_written(offset, bytes);  // before the copy: if that fails, the error is its own and not a kernel's
  if (bytes != 0) to.device().backend().copy(to.data() + offset, from, bytes);
  to.host_wrote(offset, bytes);
}

namespace {

/// Where the copy is work of a stream: that stream and the work; without work where no device can do it.
struct Route {
  Stream stream;
  std::shared_ptr<const Launchable> work;
};

Route route_of(const Stream& stream, Device to, Device from) {
  const Device here = stream.device(), there = here == to ? from : to;
  if (auto work = here.backend().transfer_copy(there.backend())) return {stream, std::move(work)};
  if (auto work = there.backend().transfer_copy(here.backend())) return {Stream::default_of(there), std::move(work)};
  return {stream, nullptr};
}

bool copies_host_memory(const Route& route, const Stream& stream, const Storage& to, const Storage& from) {
  const auto is_host = [](const Storage& storage) { return storage.device().kind() == DeviceKind::Cpu; };
  return route.work && route.stream == stream && (is_host(to) || is_host(from));
}

constexpr const char* kCopy = "a copy between devices";
constexpr const char* kCopyElsewhere =
    "Only copies between the graph's own GPU and host memory can: copy before the capture or after the replay.";

/// Neither device copies from or to the other: the host does.
void move_by_host(Storage& to, std::size_t to_offset, Storage& from, std::size_t from_offset, std::size_t bytes,
                  SourceLocation where) {
  if (from.device().backend().host_accessible()) {
    from.wait_written();
    return copy_from_host(to, to_offset, from.data() + from_offset, bytes);
  }
  const std::unique_ptr<std::byte[]> staging(new (std::nothrow) std::byte[bytes]);
  if (!staging) throw DeviceError(concat("out of host memory for a copy of ", bytes, " bytes"), where);
  copy_to_host(staging.get(), from, from_offset, bytes);
  copy_from_host(to, to_offset, staging.get(), bytes);
}

}  // namespace

void transfer(const Stream& stream, const TransferEnd& to, const TransferEnd& from, std::size_t bytes,
              const char* label, SourceLocation where) {
  const bool captured = stream.core()->capturing();
  if (!captured) check_not_capturing(kCopy, kCopyElsewhere, where);
  Storage &target = *to.storage, &source = *from.storage;
  check_range(target, to.offset, bytes);
  check_range(source, from.offset, bytes);
  if (stream.device() != target.device() && stream.device() != source.device()) {
    throw DeviceError(
        concat(label, ": a copy from ", source.device().name(), " to ", target.device().name(),
               " was put on a stream of ", stream.device().name(), ".\n  Use a stream of one of the two devices."),
        where);
  }
  const Route route = at_line(where, [&] { return route_of(stream, target.device(), source.device()); });
  // In a graph: what the stream's own device does with host memory.
  if (captured && !copies_host_memory(route, stream, target, source)) check_not_capturing(kCopy, kCopyElsewhere, where);
  if (bytes == 0 && captured) return;  // nothing to replay
  if (bytes == 0) return at_line(where, [&] { source.wait_written(); });
  if (!route.work) {
    return at_line(where, [&] { move_by_host(target, to.offset, source, from.offset, bytes, where); });
  }
  if (bytes == target.bytes() || target.device().backend().host_accessible()) target.count_as_written();
  const auto mode = bytes == target.bytes() ? AccessMode::Write : AccessMode::ReadWrite;
  const std::array<std::uint64_t, 3> args{to.offset, from.offset, bytes};
  const std::array<Access, 2> accesses{Access{to.storage, mode}, Access{from.storage, AccessMode::Read}};
  Submission submission{route.work, {}, args, accesses, label, where, true};
  submission.movable = true;
  route.stream.core()->submit(submission);
}

}  // namespace tessera::runtime
