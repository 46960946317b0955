// Loads and stores of separable accesses (separable.hpp): whole stretches are copied, without a pointer or a mask for
// each element.
#pragma once
#include "codegen/cpu/copy.hpp"
#include "codegen/cpu/memory_instr.hpp"

namespace tessera::cpu {

/// A separable access as translated: SeparableAccess with places in buffers.
struct SeparablePlace {
  struct Offset {
    int axis;
    bool counted;
    bool one;  ///< counted by 1: `places` means nothing
    Ref places;
    ir::Elem elem;  ///< i32 or i64
    std::int64_t bytes;
  };
  struct Limit {
    int axis;
    bool counted;
    bool from_zero;  ///< `first` means nothing
    Ref first, bound;
    ir::Elem elem;  ///< of both; not counted: i1 in `bound`
  };
  Ref base;
  std::vector<std::int64_t> tile;    ///< extents
  std::vector<std::int64_t> stride;  ///< of the tile's elements, bytes
  std::vector<Offset> offsets;
  std::vector<Limit> limits;
  int listed = -1;  ///< the axis with what is not counted
  std::int64_t elem_bytes = 0;
};

/// Where an access lies: the elements from `begin` to `end` along each axis are copied.
struct SeparableWindow {
  std::byte* address = nullptr;  ///< of element 0 of every axis, whether or not it is copied
  std::int64_t begin[kMaxRank], end[kMaxRank];
  std::int64_t step[kMaxRank];  ///< bytes from element to element; along the listed axis without what is listed
  bool whole = true;            ///< all but what the listed axis leaves out
  bool empty = false;
  bool simple = true;  ///< false: along some axis the elements are not neighbours
};

class SeparableLoadInstr final : public Instr {
 public:
  Site site;
  SeparablePlace place;
  Ref dst;
  Lane padding;  ///< one value, or absent
  std::int64_t count = 0;
  bool bools = false;  ///< i1: any byte but 0 in memory is true
  Status run(Frame&) const override;
  /// What is whole and contiguous in memory is then used where it is.
  void borrow() override { borrow_ = true; }
  std::int64_t borrowable() const override {
    return place.listed < 0 && !bools ? static_cast<std::int64_t>(dst.buffer) : -1;
  }
  std::int64_t row_length() const override;
  void borrow_rows() override { lying_ = Lying::Rows; }
  void borrow_strides() override { lying_ = Lying::Strides; }

 private:
  bool borrow_ = false;
  Lying lying_ = Lying::Whole;
};

class SeparableStoreInstr final : public Instr {
 public:
  Site site;
  SeparablePlace place;
  Ref src;
  Status run(Frame&) const override;
  bool writes_memory() const override { return true; }
};

}  // namespace tessera::cpu
