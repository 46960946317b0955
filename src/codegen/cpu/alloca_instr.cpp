// Memory that a block asks for: alloca.
#include "codegen/cpu/checker.hpp"
#include "codegen/cpu/tile_instr.hpp"

namespace tessera::cpu {

Status AllocaInstr::run(Frame& f) const {
  const auto align = static_cast<std::uintptr_t>(alignment_);
  const auto address = (reinterpret_cast<std::uintptr_t>(f.at<std::byte>(memory_)) + align - 1) / align * align;
  *f.at<std::uintptr_t>(dst_) = address;
  if (f.checker != nullptr) f.checker->allow(reinterpret_cast<const std::byte*>(address), bytes_);
  return Status::Next;
}

}  // namespace tessera::cpu
