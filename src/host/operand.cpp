// Operands of host operations: leases when built, resolution when run.
#include "tessera/host/operand.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::detail {

void check_stream(const Stream& stream, const runtime::Storage& storage, const char* what, SourceLocation where) {
  if (stream.device() == storage.device()) return;
  throw DeviceError(concat(what, " was put on a stream of ", stream.device().name(), " but its tensor is on ",
                           storage.device().name(), ": a stream runs work on the tensors of its own device."),
                    where);
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
  lease = take_lease(*arg.layout.storage, exclusive, {what, 0, "", where, this});
  storage = *arg.layout.storage;
  offset = arg.layout.offset;
  std::copy(arg.layout.dims.begin(), arg.layout.dims.end(), dims);
  std::copy(arg.layout.strides.begin(), arg.layout.strides.end(), strides);
  known = true;
}

void ReadOperand::resolve_on(const Stream& stream, const char* what, SourceLocation where) {
  if (pending) {
    Place place{{}, 0, dims, strides};
    access->resolve(*pending, stream, place);
    pending.reset();
    storage = std::move(place.storage);
    offset = place.offset;
    known = true;
    lease = take_lease(storage, exclusive, {what, 0, "", where, this});
  }
  check_stream(stream, *storage, what, where);
}

LayoutRef ReadOperand::layout() const {
  const auto n = static_cast<std::size_t>(rank);
  return {&storage, offset, {dims, n}, {strides, n}, element};
}

runtime::Backend* ReadOperand::device() const noexcept {
  if (pending) return pending->device();
  return storage ? &storage->device().backend() : nullptr;
}

}  // namespace tessera::detail
