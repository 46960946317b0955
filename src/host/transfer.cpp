// Transfers: staging of host memory, readback, conversion on a stream.
#include "tessera/host/transfer.hpp"

#include <array>
#include <cstring>

#include "host/convert.hpp"
#include "host/device_kernels.hpp"
#include "host/driver_work.hpp"
#include "host/work.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/host/kernel.hpp"
#include "tessera/runtime/at_line.hpp"
#include "tessera/runtime/graph.hpp"

namespace tessera::detail {

runtime::StorageRef stage(const void* from, std::int64_t count, std::int64_t wanted, std::span<const std::int64_t> dims,
                          ElementType element, SourceLocation where) {
  runtime::check_not_capturing(
      "from()", "Its values would be copied once, not in each replay: make the tensor before the capture, and pass it.",
      where);
  if (count != wanted) {
    throw ShapeError(
        concat("from() got ", count, " values for the extents ", extents_text(dims), ", which have ", wanted,
               " elements: the numbers must be equal.\n  Pass as many values as the extents have elements."),
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
  if (l.size() == 0) return {};  // without elements, strides have no meaning and may have any value
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
  /// All of it as numbers.
  static constexpr std::size_t kNumbers = 2 * kMaxRank + 3;
  void write(std::span<std::uint64_t, kNumbers> to) const {
    to[0] = rank, to[1] = offset, to[2] = static_cast<std::uint64_t>(element);
    for (std::size_t i = 0; i < kMaxRank; ++i) {
      to[3 + 2 * i] = static_cast<std::uint64_t>(dims[i]);
      to[4 + 2 * i] = static_cast<std::uint64_t>(strides[i]);
    }
  }
};

}  // namespace

void throw_no_host_memory(const char* what, std::size_t bytes, SourceLocation where) {
  throw DeviceError(concat(what, ": out of host memory: ", bytes,
                           " bytes were requested for elements.\n  Free what is not needed, or work on parts "
                           "(x.slice<0>(lo, hi))."),
                    where);
}

StagingMemory host_buffer(std::size_t bytes, const char* what, SourceLocation where) {
  if (void* memory = ::operator new(bytes, std::nothrow)) return StagingMemory(static_cast<std::byte*>(memory));
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
  // Before the copy: if that fails, the error is its own and not a kernel's. In a target with gaps the elements between
  // those written count as written too.
  if (on_device) mark_written(stream, *to.storage, range.offset, range.bytes, label, where);
  if (on_device && from.element == to.element && from.contiguous() && to.contiguous()) {
    const ByteRange source = range_of(from);
    if (copy_by_driver(stream, *to.storage, range.offset, *from.storage, source.offset, range.bytes, label, where))
      return;
  }
  if (on_device && convert_by_kernel(stream, from, to, label, where)) return;
  const Strided source(from), target(to);
  std::array<std::uint64_t, 2 * Strided::kNumbers> numbers{};
  source.write(std::span(numbers).first<Strided::kNumbers>());
  target.write(std::span(numbers).last<Strided::kNumbers>());
  enqueue_copy(stream, *from.storage, *to.storage, range, label, where, numbers,
               [source, target](const std::byte* p, std::byte* q) { convert(source.source(p), target.target(q)); });
}

namespace {

/// Memory for the same elements without gaps.
runtime::StorageRef dense_storage(const LayoutRef& l, const Stream& stream, SourceLocation where) {
  runtime::StorageOptions options;
  options.where = where;
  const std::size_t bytes = static_cast<std::size_t>(l.size()) * static_cast<std::size_t>(size_of(l.element));
  return runtime::Storage::allocate(stream.core(), bytes, options);
}

/// Row-major over a storage of its own.
struct Dense {
  runtime::StorageRef storage;
  std::array<std::int64_t, kMaxRank> strides{};
  LayoutRef layout;
  Dense(const LayoutRef& like, const Stream& stream, SourceLocation where)
      : storage(dense_storage(like, stream, where)), layout(like) {
    const std::span<std::int64_t> own(strides.data(), like.dims.size());
    set_contiguous(like.dims, own);
    layout = {&storage, 0, like.dims, own, like.element};
  }
  Dense(const Dense&) = delete;
  Dense& operator=(const Dense&) = delete;
};

}  // namespace

/// Elements with gaps are made dense on their own device first, and given their gaps on the target's.
void enqueue_move(const Stream& stream, const LayoutRef& from, const LayoutRef& to, const char* label,
                  SourceLocation where) {
  const Device source = (*from.storage)->device(), target = (*to.storage)->device();
  if (source == target) {
    check_stream(stream, **to.storage, label, where);
    return enqueue_convert(stream, from, to, label, where);
  }
  const auto on = [&](Device device) { return stream.device() == device ? stream : Stream::default_of(device); };
  if (!from.contiguous()) {
    const Dense dense(from, on(source), where);
    enqueue_convert(on(source), from, dense.layout, label, where);
    return enqueue_move(stream, dense.layout, to, label, where);
  }
  if (!to.contiguous()) {
    const Dense dense(to, on(target), where);
    enqueue_move(stream, from, dense.layout, label, where);
    return enqueue_convert(on(target), dense.layout, to, label, where);
  }
  const ByteRange read = range_of(from), written = range_of(to);
  if (!target.backend().host_accessible())
    mark_written(on(target), *to.storage, written.offset, written.bytes, label, where);
  runtime::transfer(stream, {*to.storage, written.offset}, {*from.storage, read.offset}, written.bytes, label, where);
}

runtime::StorageRef moved(const Stream& stream, const LayoutRef& from, Device device, const char* label,
                          SourceLocation where) {
  const Stream owner = stream.device() == device ? stream : Stream::default_of(device);
  const Dense made(from, owner, where);
  enqueue_move(stream, from, made.layout, label, where);
  return made.storage;
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
