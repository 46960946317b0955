// Errors of devices and storages at the user's line: what throws them does not know it.
#pragma once
#include "tessera/base/error.hpp"

namespace tessera::runtime {

/// f(). A DeviceError or BorrowError that names no line is thrown with `where`; others pass as they are.
template <class F>
auto at_line(SourceLocation where, F&& f) {
  try {
    return f();
  } catch (const DeviceError& e) {
    if (e.where().known() || !where.known()) throw;
    throw DeviceError(e.message(), where);
  } catch (const BorrowError& e) {
    if (e.where().known() || !where.known()) throw;
    throw BorrowError(e.message(), where);
  }
}

}  // namespace tessera::runtime
