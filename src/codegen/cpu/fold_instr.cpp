// Calls of the reduction and scan primitives.
#include "codegen/cpu/fold_instr.hpp"

#include "codegen/cpu/copy.hpp"

namespace tessera::cpu {

Status ReduceInstr::run(Frame& f) const {
  fill_elements(f.at<std::byte>(dst), outer * inner, identity, elem_bytes);
  fn(f.at<std::byte>(dst), f.at<std::byte>(src), outer, n, inner);
  f.ahead->fetch();
  return Status::Next;
}

Status ScanInstr::run(Frame& f) const {
  fn(f.at<std::byte>(dst), f.at<std::byte>(src), &identity, outer, n, inner, reverse);
  return Status::Next;
}

}  // namespace tessera::cpu
