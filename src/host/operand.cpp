// Operands of host operations: leased when an operation is built, resolved when it runs.
#include "tessera/host/operand.hpp"

#include <algorithm>
#include <bit>

#include "tessera/base/error.hpp"
#include "tessera/base/float_types.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/number_range.hpp"
#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/storage.hpp"

namespace tessera::detail {

bool narrow_number(ElementType element, double x, std::uint64_t& bits) noexcept {
  if (element == ElementType::tf32) {
    const float value = tf32(x);
    bits = std::bit_cast<std::uint32_t>(value);
  } else {
    FloatFormat format = element == ElementType::f16      ? kF16
                         : element == ElementType::bf16   ? kBF16
                         : element == ElementType::f8e4m3 ? kF8E4M3
                                                          : kF8E5M2;
    format.saturates = false;
    bits = encode_float(format, x);
  }
  return holds(element, x);
}

void check_stream(const Stream& stream, const runtime::Storage& storage, const char* what, SourceLocation where) {
  if (stream.device() == storage.device()) return;
  throw DeviceError(concat(what, " was put on a stream of ", stream.device().name(), " but its tensor is on ",
                           storage.device().name(),
                           ": a stream runs work on the tensors of its own device.\n  Use a stream of that device, or "
                           "copy the tensor: copy_to(t, device)."),
                    where);
}

void throw_stale_lend(const std::string& argument, SourceLocation where) {
  throw BorrowError(
      concat(
          argument,
          " was lent by mut(), and since then its tensor has been moved, given to an operation, or shared: its present "
          "owner did not lend it.\n  Write mut(tensor) as the argument itself, or lend the tensor again."),
      where);
}

void check_unwritten(const LayoutRef& l, SourceLocation where) {
  const runtime::ReadLease lease(*l.storage, {.what = "share", .where = where});
}

bool only_owner(const std::shared_ptr<char>& owners, const runtime::StorageRef& storage) {
  if (owners.use_count() == 1) return true;
  storage->device().backend().end_handed_back();
  return owners.use_count() == 1;
}

namespace {
runtime::Lease take_lease(const runtime::StorageRef& storage, bool exclusive, const runtime::Holder& holder) {
  if (exclusive) return runtime::WriteLease(storage, holder);
  return runtime::ReadLease(storage, holder);
}
}  // namespace

void ReadOperand::bind(const ArgRef& arg, int tensor_rank, const char* what, SourceLocation where) {
  rank = tensor_rank;
  element = arg.layout.element;
  exclusive = arg.how != ArgRef::How::Read;
  if (arg.op) {
    const OpBase* op = arg.access->peek(arg.op);
    if (!op) throw_spent_op(where);
    const auto n = static_cast<std::size_t>(rank);
    known = op->promise({dims, n}, {strides, n});
    pending = arg.access->take(arg.op);
    access = arg.access;
    return;
  }
  if (!arg.layout.storage || !*arg.layout.storage) throw_empty("Tensor", element, rank, where);
  if (stale_lend(arg)) throw_stale_lend(what, where);
  lease = take_lease(*arg.layout.storage, exclusive, {what, 0, "", where, this});
  storage = *arg.layout.storage;
  offset = arg.layout.offset;
  std::copy(arg.layout.dims.begin(), arg.layout.dims.end(), dims);
  std::copy(arg.layout.strides.begin(), arg.layout.strides.end(), strides);
  known = true;
}

void ReadOperand::resolve_pending(const Stream& stream, const char* what, SourceLocation where) {
  Place place{{}, 0, dims, strides};
  access->resolve(*pending, stream, place);
  pending = {};
  storage = std::move(place.storage);
  offset = place.offset;
  known = true;
  lease = take_lease(storage, exclusive, {what, 0, "", where, this});
}

void ReadOperand::resolve_on(const Stream& stream, const char* what, SourceLocation where) {
  if (pending) resolve_pending(stream, what, where);
  check_stream(stream, *storage, what, where);
}

void ReadOperand::resolve_for_host(const Stream& stream, const char* what, SourceLocation where) {
  if (pending) {
    resolve_pending(stream, what, where);
    was_operation = true;
  } else if (!was_operation) {
    check_stream(stream, *storage, what, where);
  }
}

void ReadOperand::resolve_anywhere(const Stream& stream, const char* what, SourceLocation where) {
  runtime::Backend* own = device();
  const Stream on = own == nullptr || own == &stream.device().backend() ? stream : Stream::default_of(Device(*own));
  resolve_on(on, what, where);
}

void ReadOperand::add_writer(std::vector<runtime::Ticket>& work) const { work.push_back(storage->last_write()); }

void expose_address(const runtime::StorageRef& storage, SourceLocation where) {
  storage->publish_address(where);
  storage->count_as_written();
}

LayoutRef ReadOperand::layout() const {
  const auto n = static_cast<std::size_t>(rank);
  return {&storage, offset, {dims, n}, {strides, n}, element};
}

runtime::Backend* ReadOperand::device() const noexcept {
  if (pending) return device_of(*pending);
  return storage ? &storage->device().backend() : nullptr;
}

}  // namespace tessera::detail
