// Block coarsening: where pieces are small and many, a block processes several neighbouring ones. Every tile that
// depends on the block's number gets a new first axis, one place for each piece, and the grid shrinks by that factor.
//
//   row(b)                        =>      rows(b * 8 + (0 to 8))
//   x: tile<1x96>, sum: tile<1>           x: tile<8x1x96>, sum: tile<8x1>
//
// A value either depends on the block's number ("varies") or is the same for all pieces of a block and is left
// unchanged. docs/compiler/coarsen_blocks.md says which kernels can be rewritten, and when it pays.
#include <algorithm>
#include <bit>
#include <vector>

#include "passes/pointer_tiles.hpp"
#include "passes/rewriter.hpp"
#include "passes/values.hpp"
#include "passes/varying.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/divisibility.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::Block;
using ir::Builder;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

namespace {

using Shape = std::vector<std::int64_t>;

Shape with_pieces(std::span<const std::int64_t> shape, std::int64_t pieces) {
  Shape s{pieces};
  s.insert(s.end(), shape.begin(), shape.end());
  return s;
}

bool combines_elements(Op op) { return op == Op::Reduce || op == Op::Scan; }

/// Whether a kernel can be rewritten, operation by operation.
class Rules {
 public:
  explicit Rules(const Varying& varying) : varying_(varying) {}

  bool allow(const Operation& op) const {
    switch (op.op()) {
      case Op::GetTileBlockId:
      case Op::Yield: return true;
      case Op::If: return !varies(op, 0, 1) || can_be_chosen(op);
      // A loop's exit condition must be the same for the whole block. A loop inside a divergent branch would violate
      // that.
      case Op::For: return !varies(op, 0, 3);
      case Op::Loop:
      case Op::Continue:
      case Op::Break:
      case Op::Return: return !varying_.is_conditional(op);
      case Op::LoadViewTko: return !varying_.has(op.result(0)) || can_use_pointers(op);
      case Op::StoreViewTko: return can_use_pointers(op) && varies_in(op.group("index"));
      case Op::LoadPtrTko: return true;
      case Op::StorePtrTko: return varying_.has(op.single("destination"));
      case Op::AtomicRMWTko: return true;
      // The number of blocks or their order would become visible; products already have tiles that fill a block.
      case Op::GetNumTileBlocks:
      case Op::Assert:
      case Op::PrintTko:
      case Op::Alloca:
      case Op::AtomicCASTko:
      case Op::AtomicRedViewTko: return false;
      default: break;
    }
    if (analysis::is_product(op) || !op.info().has(ir::traits::Pure)) return false;
    if (!varying_.any(op)) return true;
    if (combines_elements(op.op())) return !captures(op);
    if (op.op() == Op::Extract) return !varies(op, 1, op.num_operands());
    return is_elementwise(op) || op.op() == Op::Broadcast || op.op() == Op::Reshape || op.op() == Op::Permute ||
           op.op() == Op::Cat;
  }

 private:
  bool varies(const Operation& op, std::size_t first, std::size_t end) const {
    for (std::size_t i = first; i < end; ++i)
      if (varying_.has(op.operand(i))) return true;
    return false;
  }
  bool varies_in(const std::vector<Value>& values) const {
    return std::ranges::any_of(values, [&](Value v) { return varying_.has(v); });
  }
  /// Merges the results of two arms: `select` for tiles, `join_tokens` for tokens.
  static bool can_be_chosen(const Operation& branch) {
    for (std::size_t r = 0; r < branch.num_results(); ++r)
      if (const Type type = branch.result(r).type(); !type.is_tile() && !type.is_token()) return false;
    return true;
  }
  /// The body of a reduction or scan works on single elements, so it does not change.
  bool captures(const Operation& op) const {
    bool found = false;
    ir::walk(op.region(0), [&](const Operation& inner) { found = found || varying_.any(inner); });
    return found;
  }

  const Varying& varying_;
};

/// Rewrites in program order, so an operand already has its new type when its user is rewritten.
class Coarsening {
 public:
  Coarsening(ir::Function& f, const analysis::LaunchContract& contract, Varying& varying, std::int64_t pieces)
      : f_(f), contract_(contract), varying_(varying), pieces_(pieces) {}

  void run() {
    Operation* first = f_.body().front();
    number_pieces(first);
    rewrite_from(first);
  }

 private:
  /// Replaces the block's number by number * pieces + (0 to pieces), and computes which of these pieces exist.
  void number_pieces(Operation* before) {
    Builder b = Builder::before(before);
    b.loc = before->loc;
    const Type i32 = Type::tile(ir::Elem::I32);
    Operation* id = b.create(Op::GetTileBlockId, {}, {i32, i32, i32});
    const Value first = b.create(Op::MulI, {id->result(0), b.constant_int(ir::Elem::I32, pieces_)}, {i32})->result();
    const Shape line{pieces_};
    const Value steps = iota_along(b, pieces_, 0, 1);
    const Value numbers = b.create(Op::AddI, {splat(b, first, line), steps}, {steps.type()})->result();
    valid_ = compared(b, ir::ComparisonPredicate::Less, numbers, splat(b, count_of_pieces(b), line));
    ir::walk(f_.body(), [&](Operation& op) {
      if (op.op() != Op::GetTileBlockId || &op == id) return;
      varying_.forget(op);
      op.result(0).replace_all_uses_with(numbers);
    });
    varying_.add(numbers);
  }

  /// The number of pieces of the launch, an i32: a grid has at most 2^24 - 1 blocks along x (LaunchContract).
  Value count_of_pieces(Builder& b) {
    if (contract_.blocks_arg >= 0) return f_.body().arg(static_cast<std::size_t>(contract_.blocks_arg));
    const auto& tensor = contract_.tensors[static_cast<std::size_t>(contract_.pieces_of_tensor)];
    const auto i64 = [&](Op op, Value x, Value y) {
      Operation* made = b.create(op, {x, y}, {x.type()});
      if (op == Op::DivI) made->set_attr(AttrName::signedness, ir::Signedness::Signed);
      return made->result();
    };
    Value count;
    for (int a = 0; a < tensor.rank; ++a) {
      Value n = f_.body().arg(static_cast<std::size_t>(tensor.base_arg + 1 + a));
      if (const std::int64_t extent = contract_.piece[static_cast<std::size_t>(a)]; extent > 1) {
        n = i64(Op::AddI, n, b.constant_int(ir::Elem::I64, extent - 1));
        n = i64(Op::DivI, n, b.constant_int(ir::Elem::I64, extent));
      }
      count = count ? i64(Op::MulI, count, n) : n;
    }
    return b.create(Op::TruncI, {count}, {Type::tile(ir::Elem::I32)})->result();
  }

  Type widened(Type t) const { return t.with_shape(with_pieces(t.shape(), pieces_)); }

  /// `v` with the pieces as its first axis; broadcast along it if `v` does not vary.
  Value expanded(Value v, Builder& b) {
    if (varying_.has(v)) return v;
    const Value one = b.create(Op::Reshape, {v}, {v.type().with_shape(with_pieces(v.type().shape(), 1))})->result();
    return broadcast_to(b, one, with_pieces(v.type().shape(), pieces_));
  }
  void expand(Operation& op, std::size_t i) {
    if (varying_.has(op.operand(i))) return;
    Builder b = Builder::before(&op);
    b.loc = op.loc;
    op.set_operand(i, expanded(op.operand(i), b));
  }
  void widen_results(Operation& op) {
    for (std::size_t r = 0; r < op.num_results(); ++r)
      if (varying_.has(op.result(r))) op.result(r).set_type(widened(op.result(r).type()));
  }

  void rewrite_from(Operation* first) {
    for (Operation *op = first, *next = nullptr; op != nullptr; op = next) {
      next = op->next();
      rewrite(*op);
    }
  }

  void rewrite(Operation& op) {
    switch (op.op()) {
      case Op::For:
      case Op::Loop: return rewrite_loop(op);
      case Op::If: return varying_.has(op.operand(0)) ? if_convert(op) : rewrite_branch(op);
      case Op::Yield: return rewrite_exit(op, *op.parent_op());
      case Op::Break:
      case Op::Continue: return rewrite_exit(op, *loop_of_exit(op));
      case Op::AtomicRMWTko: return rewrite_pointers(op);
      default: break;
    }
    const bool varies = varying_.any(op) || (analysis::is_load(op) && varying_.has(op.result(0)));
    if (!varies || op.op() == Op::GetTileBlockId) return;
    if (analysis::is_view_access(op)) return rewrite_view(op);
    if (analysis::is_access(op)) return rewrite_pointers(op);
    rewrite_pure(op);
  }

  void rewrite_branch(Operation& op) {
    for (std::size_t i = 0; i < op.num_regions(); ++i) rewrite_from(op.region(i).front());
    widen_results(op);
  }
  /// If-conversion of a divergent branch: both arms run, and their accesses are masked to the pieces that take the arm.
  void if_convert(Operation& op) {
    Builder b = Builder::before(&op);
    b.loc = op.loc;
    const Value taken = op.operand(0), all = valid_;
    const Value other =
        b.create(Op::XOrI, {taken, b.constant_int(ir::Elem::I1, 1, taken.type().shape())}, {taken.type()})->result();
    std::vector<Value> of_arm[2];
    for (const std::size_t arm : {0, 1}) {
      if (arm == op.num_regions() || op.region(arm).empty()) continue;
      valid_ = b.create(Op::AndI, {all, arm == 0 ? taken : other}, {all.type()})->result();
      drop_assumptions(op.region(arm));
      rewrite_from(op.region(arm).front());
      of_arm[arm] = op.region(arm).terminator()->operand_values();
      move_body_before(op.region(arm), op);
    }
    valid_ = all;
    std::vector<Value> results;
    for (std::size_t i = 0; i < op.num_results(); ++i) {
      const Value yes = of_arm[0][i], no = of_arm[1][i];
      if (!varying_.has(op.result(i))) {
        results.push_back(b.create(Op::JoinTokens, {yes, no}, {yes.type()})->result());
        continue;
      }
      Shape line(yes.type().shape().size(), 1);
      line[0] = pieces_;
      const Value one = b.create(Op::Reshape, {taken}, {taken.type().with_shape(line)})->result();
      const Value choice = broadcast_to(b, one, yes.type().shape());
      results.push_back(b.create(Op::Select, {choice, yes, no}, {yes.type()})->result());
    }
    varying_.forget(op);
    replace(op, results);
    for (const Value v : results) varying_.add(v);
  }

  /// What an arm assumes may hold only for pieces that take it, and not every block has one that does.
  void drop_assumptions(Block& arm) {
    std::vector<Operation*> found;
    ir::walk(arm, [&](Operation& op) {
      if (op.op() == Op::Assume) found.push_back(&op);
    });
    for (Operation* op : found) drop_assumption(*op);
  }
  void drop_assumption(Operation& op) {
    const Value known = op.operand(0);
    varying_.forget(op);
    op.result().replace_all_uses_with(known);
    op.erase();
  }

  void rewrite_loop(Operation& op) {
    const std::size_t first = first_carried_operand(op), arg = first_carried_arg(op);
    Block& body = op.region(0);
    for (std::size_t i = first; i < op.num_operands(); ++i) {
      const Value inside = body.arg(arg + i - first);
      if (!varying_.has(inside)) continue;
      expand(op, i);
      inside.set_type(widened(inside.type()));
    }
    rewrite_from(body.front());
    widen_results(op);
  }
  /// Rewrites a terminator whose operands may not vary although the results do.
  void rewrite_exit(Operation& exit, const Operation& to) {
    const bool goes_on = exit.op() == Op::Continue;
    for (std::size_t i = 0; i < exit.num_operands(); ++i) {
      const Value target = goes_on ? to.region(0).arg(first_carried_arg(to) + i) : to.result(i);
      if (varying_.has(target)) expand(exit, i);
    }
  }

  void rewrite_view(Operation& op) {
    const bool loads = analysis::is_load(op);
    if (loads)
      op.result(0).set_type(widened(op.result(0).type()));
    else
      expand(op, 0);
    varying_.forget(op);
    Operation* made = use_pointers(op, valid_);
    if (loads) varying_.add(made->result(0));
  }

  /// Operations on pointer tiles: all operands are made to vary, and the mask excludes pieces that do not exist.
  void rewrite_pointers(Operation& op) {
    const analysis::Access access = *analysis::access_of(op);
    Builder b = Builder::before(&op);
    b.loc = op.loc;
    const std::span<const std::int64_t> shape = access.pointers.type().shape();
    const Shape tile = varying_.has(access.pointers) ? Shape(shape.begin(), shape.end()) : with_pieces(shape, pieces_);
    Shape line(tile.size(), 1);
    line[0] = pieces_;
    Value mask = broadcast_to(b, b.create(Op::Reshape, {valid_}, {valid_.type().with_shape(line)})->result(), tile);
    if (access.mask) mask = b.create(Op::AndI, {expanded(access.mask, b), mask}, {mask.type()})->result();
    std::vector<Value> operands;
    std::vector<std::uint32_t> groups;
    const auto add = [&](Value v) {
      groups.push_back(v ? 1 : 0);
      if (v) operands.push_back(v);
    };
    const auto maybe = [&](Value v) { return v ? expanded(v, b) : Value(); };
    add(expanded(access.pointers, b));
    if (access.kind != analysis::AccessKind::Load) add(expanded(access.value, b));
    add(mask);
    if (op.info().operand_group("paddingValue") >= 0) add(maybe(access.padding));
    add(access.token);
    op.set_operands(operands, groups);
    widen_results(op);
  }

  void rewrite_pure(Operation& op) {
    if (op.op() == Op::Assume) return drop_assumption(op);  // about one number
    const std::size_t tiles = op.op() == Op::Extract ? 1 : op.num_operands();
    for (std::size_t i = 0; i < tiles; ++i) expand(op, i);
    if (op.op() == Op::Extract) prepend_index(op);
    if (op.op() == Op::Permute) shift_permutation(op);
    if (const ir::Attribute* dim = op.attr(AttrName::dim)) {
      ir::IntAttr moved = *dim->as<ir::IntAttr>();
      ++moved.value;
      op.set_attr(AttrName::dim, moved);
    }
    widen_results(op);
  }
  void prepend_index(Operation& op) {
    Builder b = Builder::before(&op);
    b.loc = op.loc;
    std::vector<Value> operands = op.operand_values();
    operands.insert(operands.begin() + 1, b.constant_int(ir::Elem::I32, 0));
    const std::vector<std::uint32_t> groups{1, static_cast<std::uint32_t>(operands.size() - 1)};
    op.set_operands(operands, groups);
  }
  static void shift_permutation(Operation& op) {
    std::vector<std::int32_t> order{0};
    for (const std::int32_t axis : op.attr(AttrName::permutation)->as<ir::I32ArrayAttr>()->values)
      order.push_back(axis + 1);
    op.set_attr(AttrName::permutation, ir::I32ArrayAttr{order});
  }

  ir::Function& f_;
  const analysis::LaunchContract& contract_;
  Varying& varying_;
  std::int64_t pieces_;
  Value valid_;
};

/// Bytes of a tile, less what is known to lie outside of its tensor.
std::int64_t bytes_inside(const analysis::Access& access) {
  const Operation* tensor = access.view ? analysis::tensor_behind(access.view) : nullptr;
  if (tensor == nullptr) return analysis::bytes_of(access.tile);
  const std::vector<analysis::TensorAxis> axes = analysis::axes_of(*tensor);
  const ir::Type view = access.view.type();
  std::int64_t bytes = ir::info(access.tile.elem()).bytes;
  for (std::size_t a = 0; a < view.tile_shape().size(); ++a) {
    const analysis::ViewNumber& extent = axes[static_cast<std::size_t>(view.dim_map()[a])].extent;
    const std::int64_t tile = view.tile_shape()[a];
    const auto most = extent.is_fixed() ? static_cast<std::uint64_t>(extent.fixed) : unsigned_most(extent.value);
    bytes *= static_cast<std::int64_t>(std::min(static_cast<std::uint64_t>(tile), most.value_or(tile)));
  }
  return bytes;
}

// Tuned on an H200: bench/notes/coarsen_blocks.md. With more pieces a tile no longer fits the registers of a few warps.
constexpr std::int64_t kBytesOfBlock = 8192, kBytesOfLongRows = 4096, kBytesOfSharedPlaces = 16384;
constexpr std::int64_t kBytesOfWarp = 512;  // one vector for each thread
constexpr int kMaxPiecesOfBlock = 32;

/// What a block does for one piece.
struct Piece {
  std::int64_t moved = 0;    ///< bytes that it loads and stores
  std::int64_t shared = 0;   ///< bytes that it loads like every other piece
  std::int64_t largest = 0;  ///< bytes of its largest tile in memory
  bool reduces = false;
  bool narrow = false;  ///< a thread moves four bytes or less at a time somewhere
  /// It adds to the places to which all others add: a block does so once for all its pieces (reduce_atomics).
  bool shares_places = false;
  /// It adds to few places: combine_atomics combines what a block of at least so many pieces adds; 0: nothing.
  std::int64_t fewest_combined = 0;
  std::int64_t most = kMaxPiecesOfBlock;  ///< pieces of a block
};

/// Zero where several pieces per block do not pay: blocks that load in a loop run long enough by themselves, and a scan
/// next to a reduction of several rows would be expanded (expand_scans).
Piece piece_of(const ir::Function& f, const Varying& varying) {
  const analysis::Divisibility known(f);
  Piece piece;
  bool never = false;
  ir::walk(f.body(), [&](const Operation& op) {
    never = never || op.op() == Op::Scan;
    piece.reduces = piece.reduces || op.op() == Op::Reduce;
    const auto access = analysis::access_of(op);
    if (!access) return;
    const CombinedPieces combined = op.op() == Op::AtomicRMWTko ? pieces_combined(op) : CombinedPieces();
    if (combined.fewest > 0 && combined.fewest <= kMaxPiecesOfBlock) {
      piece.fewest_combined = std::max(piece.fewest_combined, combined.fewest);
      piece.most = std::min(piece.most, combined.enough);
    }
    const bool shared = op.op() == Op::AtomicRMWTko && !varying.has(access->pointers) && is_reduced(op);
    piece.shares_places = piece.shares_places || shared;
    if (shared || (combined.fewest > 0 && combined.fewest <= kMaxPiecesOfBlock)) {
      never = never || analysis::loops_around(op) > 0;
      return;
    }
    if (!varying.any(op)) {
      if (access->loads()) piece.shared += bytes_inside(*access);
      return;
    }
    never = never || analysis::loops_around(op) > 0;
    piece.moved += bytes_inside(*access);
    piece.narrow = piece.narrow || analysis::is_narrow(op, known);
    piece.largest = std::max(piece.largest, analysis::bytes_of(access->tile));
  });
  if (never) piece.moved = 0;
  return piece;
}

/// Pieces that load a part of what they move like all others, such as the weights of a norm, do so once in a block.
constexpr std::int64_t kWorthSharing = 4;

/// So many pieces that a block moves `bytes`; one if a piece moves `limit` or more.
std::int64_t pieces_for(const Piece& piece, std::int64_t bytes, std::int64_t limit) {
  if (piece.moved == 0 || piece.moved >= limit) return 1;
  const auto wanted = std::bit_ceil(static_cast<std::uint64_t>((bytes + piece.moved - 1) / piece.moved));
  return static_cast<std::int64_t>(std::min(wanted, std::bit_floor(static_cast<std::uint64_t>(piece.most))));
}

int pieces_that_pay(const ir::Function& f, const Varying& varying) {
  const Piece piece = piece_of(f, varying);
  const std::int64_t adding = pieces_for(piece, kBytesOfSharedPlaces, kBytesOfSharedPlaces);
  if (piece.shares_places || (piece.fewest_combined > 0 && adding >= piece.fewest_combined))
    return static_cast<int>(adding);
  const bool shares = piece.reduces && kWorthSharing * piece.shared >= piece.moved && !piece.narrow;
  const bool long_rows = piece.reduces && (piece.largest > kBytesOfWarp || piece.moved >= analysis::kSmallPieceBytes);
  return static_cast<int>(pieces_for(piece, long_rows ? kBytesOfLongRows : kBytesOfBlock,
                                     shares ? kBytesOfLongRows : analysis::kSmallPieceBytes));
}

}  // namespace

void coarsen_blocks(ir::Function& f, const analysis::LaunchContract* contract, bool many_pieces, const Tuning& tuning,
                    Choices& choices) {
  if (tuning.pieces &&
      (*tuning.pieces < 1 || *tuning.pieces > kMaxPiecesOfBlock || (*tuning.pieces & (*tuning.pieces - 1))))
    throw CompileError(
        concat("tuning: expected pieces as a power of two from 1 to ", kMaxPiecesOfBlock, ", found ", *tuning.pieces));
  if (contract == nullptr || contract->wide_grid) return;
  if (contract->pieces_of_tensor < 0 && contract->blocks_arg < 0) return;
  if (tuning.pieces ? *tuning.pieces == 1 : !many_pieces) return;
  Varying varying(f);
  const Rules rules(varying);
  bool possible = true;
  ir::walk(f.body(), [&](const Operation& op) {
    const bool inside = op.parent_op() != nullptr && combines_elements(op.parent_op()->op());
    possible = possible && (inside || rules.allow(op));
  });
  if (!possible) return;
  const int pieces = tuning.pieces ? *tuning.pieces : pieces_that_pay(f, varying);
  if (pieces == 1) return;
  Coarsening(f, *contract, varying, pieces).run();
  choices.abi.pieces = pieces;
}

}  // namespace tessera::passes
