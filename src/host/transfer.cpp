// Moving elements: staging of host memory, readback, conversion as stream work.
#include "tessera/host/transfer.hpp"

#include <array>
#include <cstring>

#include "host/convert.hpp"
#include "host/device_kernels.hpp"
#include "host/driver_work.hpp"
#include "host/work.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/host/checking.hpp"
#include "tessera/runtime/at_line.hpp"

namespace tessera::detail {

runtime::StorageRef stage(const void* from, std::int64_t count, std::int64_t wanted, std::span<const std::int64_t> dims,
                          ElementType element, SourceLocation where) {
  if (count != wanted) {
    throw ShapeError(concat("from() got ", count, " values for the extents ", extents_text(dims), ", which have ",
                            wanted, " elements: the numbers must be equal."),
                     where);
  }
  const std::size_t bytes = static_cast<std::size_t>(count) * static_cast<std::size_t>(size_of(element));
  runtime::StorageOptions options;
  options.track_writes = check_mode();
  options.where = where;
  auto storage = runtime::Storage::allocate(Device::cpu(), bytes, options);
  if (bytes != 0) runtime::copy_from_host(*storage, 0, from, bytes);
  return storage;
}

runtime::StorageRef unstage(runtime::StorageRef staged, const Stream& stream, SourceLocation where) {
  if (stream.device() == staged->device()) return staged;
  runtime::StorageOptions options;
  options.where = where;
  auto storage = runtime::Storage::allocate(stream.device(), staged->bytes(), options);
  if (staged->bytes() != 0) runtime::copy_from_host(*storage, 0, staged->data(), staged->bytes());
  return storage;
}

namespace {

/// Bytes from the first element to the end of the last one.
ByteRange range_of(const LayoutRef& l) {
  if (l.size() == 0) return {};  // its strides mean nothing, and may be of any size
  std::int64_t last = 0;
  for (std::size_t i = 0; i < l.dims.size(); ++i) last += (l.dims[i] - 1) * l.strides[i];
  const auto size = static_cast<std::size_t>(size_of(l.element));
  return {static_cast<std::size_t>(l.offset) * size, (static_cast<std::size_t>(last) + 1) * size, l.contiguous()};
}

/// Extents and strides by value, so that work can keep them.
struct Strided {
  std::array<std::int64_t, kMaxRank> dims{}, strides{};
  std::size_t rank = 0;
  std::size_t offset = 0;  // bytes
  ElementType element{};

  explicit Strided(const LayoutRef& l)
      : rank(l.dims.size()),
        offset(static_cast<std::size_t>(l.offset) * static_cast<std::size_t>(size_of(l.element))),
        element(l.element) {
    for (std::size_t i = 0; i < rank; ++i) dims[i] = l.dims[i], strides[i] = l.strides[i];
  }
  SourceArray source(const std::byte* base) const {
    return {element, base + offset, {dims.data(), rank}, {strides.data(), rank}};
  }
  TargetArray target(std::byte* base) const { return {element, base + offset, {strides.data(), rank}}; }
};

}  // namespace

void throw_no_host_memory(const char* what, std::size_t bytes, SourceLocation where) {
  throw DeviceError(concat(what, ": out of host memory: ", bytes,
                           " bytes were asked for, for elements.\n  Free what is not needed, or work on parts "
                           "(x.slice<0>(lo, hi))."),
                    where);
}

HostBuffer host_buffer(std::size_t bytes, const char* what, SourceLocation where) {
  if (void* memory = ::operator new(bytes, std::nothrow)) return HostBuffer(static_cast<std::byte*>(memory));
  throw_no_host_memory(what, bytes, where);
}

static void read_elements(const LayoutRef& from, std::byte* to, const char* what, SourceLocation where) {
  const ByteRange range = range_of(from);
  runtime::Storage& storage = **from.storage;
  if (range.bytes == 0) {
    storage.wait_written();
    return;
  }
  if (from.contiguous()) {
    runtime::copy_to_host(to, storage, range.offset, range.bytes);
    return;
  }
  std::array<std::int64_t, kMaxRank> dense{};
  const std::span<std::int64_t> strides(dense.data(), from.dims.size());
  set_contiguous(from.dims, strides);
  const Strided source(from);
  if (storage.device().backend().host_accessible()) {
    storage.wait_written();
    convert(source.source(storage.data()), {from.element, to, strides});
    return;
  }
  const auto staging = host_buffer(range.bytes, what, where);
  runtime::copy_to_host(staging.get(), storage, range.offset, range.bytes);
  convert({from.element, staging.get(), from.dims, from.strides}, {from.element, to, strides});
}

void read_back(const LayoutRef& from, std::byte* to, const char* what, SourceLocation where) {
  runtime::at_line(where, [&] { read_elements(from, to, what, where); });
}

void enqueue_convert(const Stream& stream, const LayoutRef& from, const LayoutRef& to, const char* label,
                     SourceLocation where) {
  const bool on_device = !stream.device().backend().host_accessible() && (*from.storage)->device() == stream.device() &&
                         (*to.storage)->device() == stream.device();
  const ByteRange range = range_of(to);
  // First: a copy that fails is no kernel's mistake. Elements between those of a target with gaps count as written too.
  if (on_device) mark_written(stream, *to.storage, range.offset, range.bytes, label, where);
  if (on_device && from.element == to.element && from.contiguous() && to.contiguous()) {
    const ByteRange source = range_of(from);
    if (copy_by_driver(stream, *to.storage, range.offset, *from.storage, source.offset, range.bytes, label, where))
      return;
  }
  if (on_device && convert_by_kernel(stream, from, to, label, where)) return;
  const Strided source(from), target(to);
  enqueue_copy(stream, *from.storage, *to.storage, range, label, where,
               [source, target](const std::byte* p, std::byte* q) { convert(source.source(p), target.target(q)); });
}

void check_same_dims(const ReadOperand& to, const ReadOperand& from, const char* what, SourceLocation where) {
  const LayoutRef t = to.layout(), f = from.layout();
  if (std::equal(t.dims.begin(), t.dims.end(), f.dims.begin(), f.dims.end())) return;
  throw ShapeError(
      concat(what, ": the target has the extents ", extents_text(t.dims), ", the source ", extents_text(f.dims),
             "; they must be equal.\n  Copy into a part with mut(t).slice<axis>(lo, hi)."),
      where);
}

}  // namespace tessera::detail
