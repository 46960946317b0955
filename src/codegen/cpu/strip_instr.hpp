// A chain of elementwise operations as one instruction: all operations on one strip of elements, then on the next, so
// that what passes between them stays in the first-level cache; and a result that is only stored goes to the tensor
// itself where it can.
#pragma once
#include <memory>
#include <vector>

#include "codegen/cpu/memory_instr.hpp"
#include "codegen/cpu/tile_instr.hpp"

namespace tessera::cpu {

class StripInstr final : public Instr {
 public:
  /// Elements of a strip: few enough that the strips of a chain fit the first-level cache together, many enough that
  /// calls cost little. A multiple of what the primitives handle between two looks at operands.
  static constexpr std::int64_t kShortestStrip = 256, kLongestStrip = 1024, kStripBytes = 16384;
  std::int64_t strip = kShortestStrip;

  /// Where a step finds an operand: element (r, c) of the iteration is at place + r * row_stride + c * col_stride.
  struct Source {
    Ref ref;                      ///< of element (0, 0); of the strip in the scratch buffer if in_strip
    bool in_strip = false;        ///< the result of an earlier step for the same strip, or a spread value
    bool uniform = false;         ///< a spread value
    bool apart = false;           ///< the stride of rows is Frame::pitch
    std::int64_t row_stride = 0;  ///< bytes
    std::int64_t col_stride = 0;  ///< bytes; 0: one value for the whole row
    std::int64_t elem_bytes = 0;
  };
  struct Step {
    prims::Elementwise fn;
    int sources = 0;
    Source source[ElementwiseInstr::kMaxSources];
    Ref dst;
    bool in_strip = false;  ///< dst is in the scratch buffer: only later steps read it
    std::int64_t elem_bytes = 0;
    /// The loop itself, for rows of operands that are stored or one value that it keeps in a register; null: the
    /// primitive finds out how to read them.
    prims::LoopFn loop = nullptr;
    void choose_loop();
  };
  /// One value for all elements, repeated for a strip before the first one: a splat as the primitives like it best.
  struct Spread {
    Ref value, strip;
    std::int64_t elem_bytes;
  };
  std::vector<Spread> spreads;
  std::vector<Step> steps;
  std::int64_t rows = 1, cols = 1;

  /// Stores the result of step `stored`, which nothing else reads; null: no store.
  std::unique_ptr<ViewStoreInstr> store;
  std::size_t stored = 0;

  Status run(Frame&) const override;
  bool writes_memory() const override { return store != nullptr; }
  bool copies_any_source() const override { return true; }
  bool takes_rows(std::uint32_t buffer, std::int64_t length) const override;
  void take_rows(std::uint32_t buffer, std::int64_t length) override;
  /// The steps are complete, or their rows have changed.
  void finish();

 private:
  /// A source that is not in a strip.
  struct Outside {
    std::size_t step;
    int source;
  };
  std::int64_t row_stride(const Frame& f, const Source& s) const {
    return s.apart ? f.pitch[s.ref.buffer] : s.row_stride;
  }
  void run_steps(const Frame&) const;
  void run_step(const Frame&, const Step&, std::int64_t row, std::int64_t col, std::int64_t n_rows,
                std::int64_t n_cols) const;
  bool may_write_to(const Frame&, const Window&) const;
  /// One strip of stored operands without gaps: every step is one call of its loop.
  bool plain_ = false;
  std::vector<Outside> outside_;
};

}  // namespace tessera::cpu
