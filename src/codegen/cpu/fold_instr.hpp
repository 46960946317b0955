// Reductions and scans by primitives.
#pragma once
#include "codegen/cpu/layout.hpp"
#include "codegen/cpu/prims/prims.hpp"

namespace tessera::cpu {

class ReduceInstr final : public Instr {
 public:
  prims::Reduce fn;
  Ref dst, src;
  std::uint64_t identity = 0;  ///< bits
  std::int64_t elem_bytes = 0, outer = 1, n = 1, inner = 1;
  Status run(Frame&) const override;
  bool takes_rows(std::uint32_t buffer, std::int64_t length) const override {
    return buffer == src.buffer && src.offset == 0 && inner == 1 && n == length;
  }
  void take_rows(std::uint32_t, std::int64_t) override { apart_ = true; }

 private:
  bool apart_ = false;  ///< rows of src are Frame::pitch apart
};

class ScanInstr final : public Instr {
 public:
  prims::Scan fn;
  Ref dst, src;
  std::uint64_t identity = 0;
  std::int64_t outer = 1, n = 1, inner = 1;
  bool reverse = false;
  Status run(Frame&) const override;
};

}  // namespace tessera::cpu
