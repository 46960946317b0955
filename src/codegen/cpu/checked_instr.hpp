// Overflow of index arithmetic: a check that runs beside an integer operation in checked mode and is skipped otherwise.
#pragma once
#include <span>

#include "codegen/cpu/layout.hpp"
#include "tessera/ir/operation.hpp"

namespace tessera::cpu {

class OverflowCheckInstr final : public Instr {
 public:
  /// `op`: addi, subi, muli or negi over these sources; the axes that are not live hold one value.
  OverflowCheckInstr(const ir::Operation& op, std::span<const Tile> sources, const Dims& shape,
                     std::span<const bool> live);
  Status run(Frame&) const override;

 private:
  [[noreturn]] void report(const Frame&, std::span<const std::int64_t> index, std::int64_t a, std::int64_t b) const;

  ir::Op op_;
  ir::Elem elem_;
  SourceLocation where_;
  std::vector<Tile> sources_;
  Dims extents_;
};

}  // namespace tessera::cpu
