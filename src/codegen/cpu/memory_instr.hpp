// Instructions that read and write tensors: through views, through tiles of pointers, atomically.
#pragma once
#include "codegen/cpu/borrow.hpp"
#include "codegen/cpu/checker_site.hpp"
#include "codegen/cpu/copy.hpp"
#include "codegen/cpu/layout.hpp"
#include "tessera/ir/attributes.hpp"

namespace tessera::cpu {

/// An integer that is known when a kernel is translated, or a scalar of a tile.
struct Word {
  Ref ref;
  ir::Elem elem = ir::Elem::I64;
  std::int64_t value = 0;
  bool fixed = true;
  std::int64_t get(const Frame&) const;  ///< operands are read as unsigned
};

/// Writes a view descriptor: int64 words base, extents, strides (in elements).
class MakeViewInstr final : public Instr {
 public:
  Ref dst, base;
  std::vector<Word> extents, strides;
  Status run(Frame&) const override;
};

/// Extents of a view, or its numbers of tiles.
class ViewQueryInstr final : public Instr {
 public:
  struct Result {
    Ref dst;
    ir::Elem elem;
    int axis;           ///< of the tensor
    std::int64_t step;  ///< elements from tile to tile; 1: the extent itself
  };
  Ref view;
  std::vector<Result> results;
  Status run(Frame&) const override;
};

/// How a tile of a view lies in memory, as translated: one entry per axis of the tile.
struct ViewAccess {
  struct Axis {
    std::int64_t tile;  ///< extent
    std::int64_t step;  ///< elements from index to index
    int tensor_axis;
    Ref index;  ///< scalar; for the sparse axis a dense rank-1 tile
    ir::Elem index_elem;
    bool inbounds = false;  ///< the access claims to be inside along this axis
  };
  Ref view;
  int tensor_rank = 0;
  std::vector<Axis> axes;
  int sparse = -1;  ///< the gathered axis
  std::int64_t elem_bytes = 0;
  bool bools = false;        ///< i1: any byte but 0 in memory is true
  bool nibbles = false;      ///< 4-bit elements: two per byte in memory
  std::string element_text;  ///< for errors
};

/// The window of one access: what is inside the tensor.
struct Window {
  std::byte* address = nullptr;   ///< of the first element
  std::int64_t inside[kMaxRank];  ///< elements per axis that exist (sparse axis: the tile's extent)
  std::int64_t stride[kMaxRank];  ///< bytes
  std::int64_t origin[kMaxRank];  ///< first element along the tensor axis
  bool whole = true;              ///< nothing is outside
  bool empty = false;             ///< nothing is inside
};
Window resolve(const Frame&, const ViewAccess&);
/// The i-th index of the sparse axis.
std::int64_t sparse_index(const Frame&, const ViewAccess&, std::int64_t i);

class ViewLoadInstr final : public Instr {
 public:
  ViewAccess access;
  Site site;
  Ref dst;
  std::uint64_t padding = 0;  ///< bits
  std::int64_t count = 0;
  Dims tile;
  std::vector<std::int64_t> dst_stride;  ///< bytes
  Status run(Frame&) const override;
  /// Whole tiles that lie contiguously in memory are then used where they are.
  void borrow() override { borrow_ = true; }
  std::int64_t borrowable() const override {
    return access.sparse < 0 && !access.nibbles && !access.bools ? static_cast<std::int64_t>(dst.buffer) : -1;
  }
  std::int64_t row_length() const override;
  void borrow_rows() override { lying_ = Lying::Rows; }
  void borrow_strides() override { lying_ = Lying::Strides; }

 private:
  bool borrow_ = false;
  Lying lying_ = Lying::Whole;
};

class ViewStoreInstr final : public Instr {
 public:
  ViewAccess access;
  Site site;
  Ref src;
  std::vector<std::int64_t> src_stride;  ///< bytes
  Status run(Frame&) const override;
  bool writes_memory() const override { return true; }
  bool copies_any_source() const override { return true; }
};

class ViewAtomicInstr final : public Instr {
 public:
  ViewAccess access;
  Site site;
  Ref src;
  std::vector<std::int64_t> src_stride;
  ir::AtomicMode mode = ir::AtomicMode::Add;
  ir::Elem elem = ir::Elem::I32;
  Status run(Frame&) const override;
  bool writes_memory() const override { return true; }
};

/// One operand of an access through pointers: `count` elements, or one for all.
struct Lane {
  Ref ref;
  bool splat = false;
  bool present = false;
};

class PointerLoadInstr final : public Instr {
 public:
  Site site;
  Lane pointers, mask, padding;
  Ref dst;
  std::int64_t count = 0, elem_bytes = 0;
  bool bools = false;  ///< i1: any byte but 0 in memory is true
  ir::MemoryOrdering order = ir::MemoryOrdering::Weak;
  Status run(Frame&) const override;
};

class PointerStoreInstr final : public Instr {
 public:
  Site site;
  Lane pointers, mask, value;
  std::int64_t count = 0, elem_bytes = 0;
  ir::MemoryOrdering order = ir::MemoryOrdering::Weak;
  Status run(Frame&) const override;
  bool writes_memory() const override { return true; }
};

class AtomicInstr final : public Instr {
 public:
  Site site;
  Lane pointers, mask, value, compare;  ///< compare is present for compare-and-swap
  Ref dst;
  std::int64_t count = 0, elem_bytes = 0;
  ir::AtomicMode mode = ir::AtomicMode::Add;
  ir::Elem elem = ir::Elem::I32;
  Status run(Frame&) const override;
  bool writes_memory() const override { return true; }
};

/// A token that stands for several (checked mode only; otherwise does nothing).
class JoinTokensInstr final : public Instr {
 public:
  Ref dst;
  std::vector<Ref> tokens;
  Status run(Frame&) const override;
};

/// Updates one element atomically (sequentially consistent) and returns its old bits. `bits` are those of the operand.
std::uint64_t atomic_update(void* address, ir::AtomicMode, ir::Elem, std::uint64_t bits);
/// Compares bits and swaps; returns the old bits.
std::uint64_t atomic_compare_and_swap(void* address, std::int64_t elem_bytes, std::uint64_t expected,
                                      std::uint64_t desired);

/// Reads an element of 1, 2, 4 or 8 bytes as bits, and writes one.
std::uint64_t load_bits(const std::byte*, std::int64_t elem_bytes);
void store_bits(std::byte*, std::uint64_t bits, std::int64_t elem_bytes);

}  // namespace tessera::cpu
