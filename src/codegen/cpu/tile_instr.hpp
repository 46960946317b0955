// Instructions on tiles that touch no memory outside the arena.
#pragma once
#include "codegen/cpu/copy.hpp"
#include "codegen/cpu/layout.hpp"
#include "codegen/cpu/prims/prims.hpp"
#include "tessera/ir/types.hpp"

namespace tessera::cpu {

/// Copies one window to another of the same shape.
class CopyInstr final : public Instr {
 public:
  CopyInstr(const Tile& dst, const Tile& src);
  Status run(Frame&) const override;
  bool is_copy() const override { return true; }
  void forward() override { forward_ = true; }

 private:
  Ref dst_, src_;
  CopyShape shape_;
  std::int64_t elem_bytes_;
  bool dense_;  ///< both sides are whole buffers of the same layout
  bool forward_ = false;
};

/// One elementwise primitive over a loop nest whose two innermost axes the primitive walks itself.
class ElementwiseInstr final : public Instr {
 public:
  static constexpr int kMaxSources = 3;
  struct Source {
    Ref ref;
    std::int64_t elem_bytes = 0;
    std::int64_t row_stride = 0;  ///< bytes
    bool splat = true;
    bool apart = false;               ///< the stride of rows is Frame::pitch
    std::vector<std::int64_t> outer;  ///< bytes, one per outer axis
  };
  prims::Elementwise fn;
  Ref dst;
  int sources = 0;
  Source source[kMaxSources];
  std::int64_t rows = 1, cols = 1, elem_bytes = 0;
  std::vector<std::int64_t> outer;  ///< extents

  Status run(Frame&) const override;
  bool takes_rows(std::uint32_t buffer, std::int64_t length) const override;
  void take_rows(std::uint32_t buffer, std::int64_t length) override;

 private:
  void run_outer(Frame&, prims::Operand*, std::byte* dst, std::size_t axis) const;
};

class IotaInstr final : public Instr {
 public:
  IotaInstr(Ref dst, ir::Elem elem, std::int64_t count) : dst_(dst), elem_(elem), count_(count) {}
  Status run(Frame&) const override;

 private:
  Ref dst_;
  ir::Elem elem_;
  std::int64_t count_;
};

/// Copies a window whose place among equal slices of the other side is known only at run time (extract, insert).
class SliceInstr final : public Instr {
 public:
  struct Index {
    Ref ref;
    std::int64_t stride;  ///< bytes per slice
    std::int64_t count;   ///< slices along this axis; an index outside takes slice count - 1
  };
  SliceInstr(const Tile& dst, const Tile& src, bool index_destination, std::vector<Index> indices);
  Status run(Frame&) const override;

 private:
  Ref dst_, src_;
  CopyShape shape_;
  std::int64_t elem_bytes_;
  bool index_destination_;
  std::vector<Index> indices_;
};

/// Bytes of a rank-1 tile to or from elements; only 4-bit elements (one per byte in a tile, two per byte packed) need
/// work.
class NibbleInstr final : public Instr {
 public:
  NibbleInstr(Ref dst, Ref src, std::int64_t bytes, bool pack) : dst_(dst), src_(src), bytes_(bytes), pack_(pack) {}
  Status run(Frame&) const override;

 private:
  Ref dst_, src_;
  std::int64_t bytes_;
  bool pack_;
};

class MmaInstr final : public Instr {
 public:
  struct Operand {
    Ref ref;
    std::int64_t batch_stride = 0, row_stride = 0, col_stride = 0;
    bool rows_apart = false, cols_apart = false;  ///< that stride is Frame::pitch, the other one Frame::step
  };
  prims::MmaFn fn = nullptr;
  Operand a, b, a_scale, b_scale;
  Ref acc, dst, scratch;
  bool scaled = false;
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  std::int64_t elem_bytes = 0;  ///< of a and b
  Status run(Frame&) const override;
  bool takes_rows(std::uint32_t buffer, std::int64_t length) const override;
  bool takes_strides(std::uint32_t) const override { return true; }
  void take_rows(std::uint32_t buffer, std::int64_t length) override;

 private:
  prims::Matrix matrix(const Frame&, const Operand&) const;
};

/// The coordinates of the block, and the extents of the grid.
class BlockIdInstr final : public Instr {
 public:
  explicit BlockIdInstr(const Ref (&dst)[3]) : dst_{dst[0], dst[1], dst[2]} {}
  Status run(Frame&) const override;

 private:
  Ref dst_[3];
};
class GridInstr final : public Instr {
 public:
  explicit GridInstr(const Ref (&dst)[3]) : dst_{dst[0], dst[1], dst[2]} {}
  Status run(Frame&) const override;

 private:
  Ref dst_[3];
};

/// The address of a buffer of the arena, rounded up to an alignment.
class AllocaInstr final : public Instr {
 public:
  AllocaInstr(Ref dst, Ref memory, std::int64_t bytes, std::int64_t alignment)
      : dst_(dst), memory_(memory), bytes_(bytes), alignment_(alignment) {}
  Status run(Frame&) const override;

 private:
  Ref dst_, memory_;
  std::int64_t bytes_, alignment_;
};

/// A scalar integer of a tile as 64 bits.
std::int64_t read_signed(const Frame&, Ref, ir::Elem);
std::uint64_t read_unsigned(const Frame&, Ref, ir::Elem);
void write_integer(const Frame&, Ref, ir::Elem, std::uint64_t);

}  // namespace tessera::cpu
