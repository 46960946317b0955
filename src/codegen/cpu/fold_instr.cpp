// Calls of the reduction and scan primitives.
#include "codegen/cpu/fold_instr.hpp"

#include "codegen/cpu/copy.hpp"

namespace tessera::cpu {

Status ReduceInstr::run(Frame& f) const {
  fill_elements(f.at<std::byte>(dst), outer * inner, identity, elem_bytes);
  if (apart_) {
    for (std::int64_t r = 0; r < outer; ++r)
      fn(f.at<std::byte>({dst.buffer, dst.offset + r * elem_bytes}),
         f.at<std::byte>({src.buffer, r * f.pitch[src.buffer]}), 1, n, 1);
  } else {
    fn(f.at<std::byte>(dst), f.at<std::byte>(src), outer, n, inner);
  }
  f.ahead->fetch();
  return Status::Next;
}

Status ScanInstr::run(Frame& f) const {
  fn(f.at<std::byte>(dst), f.at<std::byte>(src), &identity, outer, n, inner, reverse);
  return Status::Next;
}

}  // namespace tessera::cpu
