// What a stream knows of the failures of its work.
#include "runtime/failure_log.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace tessera::runtime {

FailureRef StreamCore::failure_of(std::uint64_t number) noexcept { return log_->first_of(number, number); }
FailureRef StreamCore::deliver_failure_of(std::uint64_t first, std::uint64_t last) noexcept {
  return log_->deliver(first, last);
}
bool StreamCore::succeeded(std::uint64_t first, std::uint64_t last) const noexcept {
  return log_->first_of(first, last) == nullptr;
}

}  // namespace tessera::runtime
