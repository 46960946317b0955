// Redoes signed index arithmetic with builtins that detect overflow, and reports the first element that wraps.
#include "codegen/cpu/checked_instr.hpp"

#include "codegen/cpu/control_instr.hpp"
#include "codegen/cpu/tile_instr.hpp"
#include "tessera/base/format.hpp"

namespace tessera::cpu {

OverflowCheckInstr::OverflowCheckInstr(const ir::Operation& op, std::span<const Tile> sources, const Dims& shape,
                                       std::span<const bool> live)
    : op_(op.op()),
      elem_(op.result().type().elem()),
      where_(op.loc),
      sources_(sources.begin(), sources.end()),
      extents_(shape) {
  for (std::size_t a = 0; a < extents_.size(); ++a)
    if (!live[a]) extents_[a] = 1;
  for (const Tile& s : sources_) accesses.push_back({s.ref.buffer, false});
}

void OverflowCheckInstr::report(const Frame& f, std::span<const std::int64_t> index, std::int64_t a,
                                std::int64_t b) const {
  const char* sign = op_ == ir::Op::AddI ? " + " : op_ == ir::Op::SubI ? " - " : " * ";
  const std::string what = op_ == ir::Op::NegI ? concat("-(", a, ")") : concat(a, sign, b);
  const std::string place = index.empty() ? "" : concat(" (element [", join(index), "])");
  throw_device_error(f, concat("index arithmetic overflows ", ir::info(elem_).text, ": ", what, place), where_);
}

Status OverflowCheckInstr::run(Frame& f) const {
  if (f.checker == nullptr) return Status::Next;
  const int bits = ir::info(elem_).bits;
  const std::int64_t bytes = ir::info(elem_).bytes;
  std::vector<std::int64_t> index(extents_.size(), 0);
  for (;;) {
    std::int64_t v[2] = {0, 0};
    for (std::size_t s = 0; s < sources_.size() && s < 2; ++s) {
      Ref r = sources_[s].ref;
      for (std::size_t a = 0; a < index.size(); ++a) r.offset += index[a] * sources_[s].stride[a] * bytes;
      v[s] = read_signed(f, r, elem_);
    }
    std::int64_t result = 0;
    bool over = false;
    switch (op_) {
      case ir::Op::AddI: over = __builtin_add_overflow(v[0], v[1], &result); break;
      case ir::Op::SubI: over = __builtin_sub_overflow(v[0], v[1], &result); break;
      case ir::Op::MulI: over = __builtin_mul_overflow(v[0], v[1], &result); break;
      default: over = __builtin_sub_overflow(std::int64_t{0}, v[0], &result); break;
    }
    // Bounds of a narrower type: the bits above its sign must all equal it.
    if (bits < 64 && bits > 1) over |= result >> (bits - 1) != 0 && result >> (bits - 1) != -1;
    if (over && bits > 1) report(f, index, v[0], v[1]);
    std::size_t a = index.size();
    while (a > 0 && ++index[a - 1] == extents_[a - 1]) index[--a] = 0;
    if (a == 0) return Status::Next;
  }
}

}  // namespace tessera::cpu
