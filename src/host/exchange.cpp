// Order between tensors and the work of other libraries.
#include "tessera/host/borrow.hpp"

#include "tessera/runtime/at_line.hpp"
#include "tessera/runtime/graph.hpp"

namespace tessera::detail {

namespace {

/// Throws BorrowError if the use conflicts with an operation that has not run.
void check_free(const runtime::StorageRef& storage, bool exclusive, const char* what, SourceLocation where) {
  const runtime::Holder holder{.what = what, .where = where};
  if (exclusive)
    const runtime::WriteLease lease(storage, holder);
  else
    const runtime::ReadLease lease(storage, holder);
}

}  // namespace

void order_stream(const Stream& stream, const LayoutRef& x, bool exclusive, SourceLocation where) {
  runtime::check_not_capturing("Stream::wait_for", "Order the stream before the capture.", where);
  const runtime::StorageRef& storage = *x.storage;
  check_free(storage, exclusive, "Stream::wait_for", where);
  const auto mode = exclusive ? runtime::AccessMode::ReadWrite : runtime::AccessMode::Read;
  runtime::at_line(where, [&] {
    if (storage->has_failure()) storage->wait_written();  // throws it
    storage->order(stream.core(), mode);
    storage->forget(mode);
  });
}

void record_use(const Stream& stream, const LayoutRef& x, bool written, const char* what, SourceLocation where) {
  runtime::check_not_capturing(what, "Its work is not part of the graph: record it after the capture.", where);
  const runtime::StorageRef& storage = *x.storage;
  check_free(storage, written, what, where);
  runtime::at_line(where, [&] {
    storage->record(stream.core(), written ? runtime::AccessMode::ReadWrite : runtime::AccessMode::Read);
    if (written) storage->count_as_written();
  });
}

}  // namespace tessera::detail
