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
