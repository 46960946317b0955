// Adds the user's line to errors of devices and storages, which do not know it.
#pragma once
#include "tessera/base/error.hpp"
#include "tessera/runtime/memory.hpp"

namespace tessera::runtime {

/// Calls f(). A DeviceError or BorrowError without a line is rethrown with `where`; other errors are not changed.
template <class F>
auto at_line(SourceLocation where, F&& f) {
  try {
    return f();
  } catch (const OutOfMemoryError& e) {
    if (e.where().known() || !where.known()) throw;
    throw OutOfMemoryError(e.message(), e.sizes(), where);
  } catch (const DeviceError& e) {
    if (e.where().known() || !where.known()) throw;
    throw DeviceError(e.message(), where);
  } catch (const BorrowError& e) {
    if (e.where().known() || !where.known()) throw;
    throw BorrowError(e.message(), where);
  }
}

}  // namespace tessera::runtime
