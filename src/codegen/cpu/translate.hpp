// Translates an entry to instructions. One Translator per compilation; what it leaves is code and a table of buffers.
// translate.cpp: values, scopes, dispatch by operation; translate_*.cpp: the operations, by subject.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "codegen/cpu/checker_site.hpp"
#include "codegen/cpu/layout.hpp"
#include "codegen/cpu/memory_instr.hpp"
#include "codegen/cpu/plan.hpp"
#include "codegen/cpu/prims/prims.hpp"
#include "codegen/cpu/separable.hpp"
#include "codegen/cpu/separable_instr.hpp"
#include "codegen/cpu/tile_instr.hpp"
#include "tessera/ir/operation.hpp"

namespace tessera::cpu {

/// A piece of code with the place it has in the kernel. Pure instructions move to the outermost scope where their
/// operands exist: out of loops, and to Uniform (once per thread and run) if they depend on no block.
struct Scope {
  enum class Kind : std::uint8_t { Uniform, Block, Loop, Branch };
  Kind kind;
  Scope* parent;
  Code* code;
  int depth;
};

/// A tensor view or a tiled view of one. `descriptor` holds int64 words: base address, extents, strides (elements).
struct View {
  Ref descriptor;
  ir::Type type;
  int root = -1;  ///< entry argument the base comes from
};

/// The memory of a module's global, made when the kernel is translated and kept by the program.
struct GlobalMemory {
  std::unique_ptr<std::byte[]> storage;
  std::byte* base = nullptr;
  std::int64_t bytes = 0;
};

/// Where `break` and `continue` go.
struct LoopTarget {
  std::vector<Tile> carried;  ///< written by continue
  std::vector<Tile> results;  ///< written by break; empty for `for`
};

class Translator {
 public:
  explicit Translator(const ir::Module& module) : module_(module) {}
  void translate(const ir::Function& entry);

  Code uniform, block;
  std::vector<BufferInfo> buffers;
  std::vector<std::byte> constants;
  std::vector<GlobalMemory> globals;

 private:
  // translate.cpp: buffers and values
  [[noreturn]] void unsupported(const ir::Operation&, const std::string& what) const;
  Ref new_buffer(std::int64_t bytes, Scope* scope);
  Tile new_tile(std::int64_t elem_bytes, Dims shape, Scope* scope, std::span<const bool> live = {});
  Tile new_tile(ir::Type type, Scope* scope);
  Ref constant_ref(const void* data, std::size_t bytes);
  Tile constant_tile(const ir::DenseAttr&);
  Scope* scope_of(Ref r) const { return buffer_scope_[r.buffer]; }
  /// Where a pure instruction over these buffers goes.
  Scope* target(std::initializer_list<Ref> operands) { return target(std::span(operands.begin(), operands.size())); }
  Scope* target(std::span<const Ref> operands);
  template <class T, class... Args>
  T* emit(Scope* scope, Args&&... args) {
    auto instr = std::make_unique<T>(std::forward<Args>(args)...);
    T* raw = instr.get();
    scope->code->push_back(std::move(instr));
    return raw;
  }
  const Tile& tile(ir::Value v) const;
  Tile dense(const Tile&);   ///< the same elements, contiguous and complete
  Tile packed(const Tile&);  ///< contiguous over the live axes
  void copy(const Tile& dst, const Tile& src) { emit<CopyInstr>(scope_, dst, src); }
  void define(ir::Value v, Tile t);
  int root_of(ir::Value pointer) const;  ///< the entry argument that a pointer was computed from; -1: unknown

  void translate_block(const ir::Block&);
  void translate_op(const ir::Operation&);
  void translate_entry_args(const ir::Block&);

  // translate_elementwise.cpp
  void translate_elementwise(const ir::Operation&);
  Tile elementwise(const prims::Elementwise&, std::span<const Tile> sources, std::int64_t elem_bytes, const Dims& shape,
                   const ir::Operation* checked = nullptr);
  void translate_mma(const ir::Operation&);

  // translate_shape.cpp
  bool translate_shape(const ir::Operation&);
  void translate_extract(const ir::Operation&);
  void translate_insert(const ir::Operation&);
  void translate_cat(const ir::Operation&);
  void translate_pack(const ir::Operation&);
  void translate_iota(const ir::Operation&);
  void translate_query(const ir::Operation&);

  // translate_reduce.cpp
  void translate_reduce(const ir::Operation&);
  void translate_scan(const ir::Operation&);
  void reduce_by_primitive(const ir::Operation&, const prims::Reduce&, std::size_t axis);
  void scan_by_primitive(const ir::Operation&, const prims::Scan&, std::size_t axis, bool reverse);
  /// The region of a reduce or scan applied to whole tiles, element by element.
  std::vector<Tile> combine(const ir::Operation& fold, std::span<const Tile> elements,
                            std::span<const Tile> accumulators);

  // translate_memory.cpp
  bool translate_memory(const ir::Operation&);
  void translate_tensor_view(const ir::Operation&);
  void translate_view_query(const ir::Operation&);
  void translate_view_access(const ir::Operation&);
  void translate_pointer_access(const ir::Operation&);
  void translate_separable_access(const ir::Operation&, const SeparableAccess&);
  SeparablePlace separable_place(const SeparableAccess&, const Tile& elements, std::vector<Access>&);
  void translate_atomic(const ir::Operation&);
  void translate_tokens(const ir::Operation&);
  void translate_alloca(const ir::Operation&);
  void translate_global(const ir::Operation&);
  void translate_print(const ir::Operation&);
  void translate_assert(const ir::Operation&);
  Lane lane(const Tile&, std::vector<Access>&);  ///< an operand of an access through pointers
  Site make_site(const ir::Operation&, const char* verb, int root, bool reads, bool writes, bool atomic);
  void attach_site(Instr&, const Site&, const ir::Operation&);
  const View& view(ir::Value v) const { return views_.at(v.impl()); }

  // translate_control.cpp
  void translate_for(const ir::Operation&);
  void translate_loop(const ir::Operation&);
  void translate_if(const ir::Operation&);
  void translate_terminator(const ir::Operation&);
  Tile carried_tile(ir::Value init, ir::Type type, const Instr* loop);
  void move_all(std::span<const Tile> to, const ir::Operation& terminator);
  void translate_region(const ir::Block&, Code&, Scope::Kind);

  const ir::Module& module_;
  Scope uniform_scope_{Scope::Kind::Uniform, nullptr, &uniform, 0};
  Scope block_scope_{Scope::Kind::Block, &uniform_scope_, &block, 1};
  Scope* scope_ = &block_scope_;
  std::deque<Scope> scopes_;
  std::vector<Scope*> buffer_scope_;
  std::unordered_map<const ir::ValueImpl*, Tile> tiles_;
  std::unordered_map<const ir::ValueImpl*, View> views_;
  std::unordered_map<std::string, Ref> global_pointers_;
  std::unordered_set<const ir::Operation*> index_arithmetic_;  ///< feeds an index or an offset: checked for overflow
  std::optional<SeparableAccesses> separable_;
  std::vector<LoopTarget*> loops_;
  std::vector<const std::vector<Tile>*> branch_results_;
  std::optional<std::vector<Tile>> block_id_, grid_;
};

}  // namespace tessera::cpu
