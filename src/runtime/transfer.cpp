// Copies between host memory and storages, after the waits that their order asks for.
#include "tessera/runtime/transfer.hpp"

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

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
  to.wait_unused();
  to.mark_written(offset, bytes);  // first: what could not be copied has failed, and is no mistake of a kernel
  if (bytes != 0) to.device().backend().copy(to.data() + offset, from, bytes);
  to.host_wrote(offset, bytes);
}

}  // namespace tessera::runtime
