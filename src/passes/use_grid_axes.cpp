// A grid of several axes instead of divisions. The blocks of a kernel with Mut pieces are numbered, and each divides
// its number by the pieces along the last axes before it knows a single address: some 30 dependent instructions a
// division. The device counts the axes of a grid itself.
//
//   n = tile_block_id.x                      x, y, z = tile_block_id
//   k = n % count(2)                         k = x
//   m = n / count(2)                   =>    m = y + num_tile_blocks.y * z
//   j = m % count(1)                         j = y
//   i = m / count(1)                         i = z
//
// Blocks start in the same order, as x counts first. docs/compiler/use_grid_axes.md.
#include <algorithm>
#include <optional>
#include <vector>

#include "passes/asks.hpp"
#include "passes/values.hpp"
#include "tessera/ir/dead_code.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::Builder;
using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

/// A division or remainder of a scalar, and along which axes its divisor counts the pieces.
struct Division {
  Operation* op;
  std::vector<bool> counts;  ///< one for each axis
};

bool divides_number(const Operation& op) {
  return (op.op() == Op::DivI || op.op() == Op::RemI) && op.result().type().rank() == 0 &&
         op.result().type().elem() == ir::Elem::I32 && !constant_int(op.operand(1)) &&
         op.enum_attr<ir::Signedness>(AttrName::signedness) == ir::Signedness::Unsigned &&
         (op.op() == Op::RemI ||
          op.enum_attr<ir::Rounding>(AttrName::rounding, ir::Rounding::Zero) == ir::Rounding::Zero);
}

class GridRewrite {
 public:
  GridRewrite(ir::Function& f, const analysis::LaunchContract& contract)
      : f_(f), contract_(contract), rank_(static_cast<int>(contract.piece.size())) {}

  /// False if the kernel reports the number of a block whose check fails.
  bool allows() {
    bool allowed = true;
    ir::walk(f_.body(), [&](Operation& op) {
      if (op.op() == Op::GetTileBlockId) ids_.push_back(&op);
      if (op.op() == Op::GetNumTileBlocks) sizes_.push_back(&op);
      allowed = allowed && op.op() != Op::Assert;
    });
    return allowed;
  }

  void find_divisions(const Certifier* certifier) {
    std::vector<analysis::Claim> claims;
    ir::walk(f_.body(), [&](Operation& op) {
      if (!divides_number(op)) return;
      divisions_.push_back({&op, std::vector<bool>(static_cast<std::size_t>(rank_), false)});
      for (int a = 0; a < rank_; ++a)
        if (seems_to_count(op.operand(1), a))
          claims.push_back({.kind = analysis::ClaimKind::CountsPieces, .op = &op, .index = a});
    });
    const std::vector<bool> holds = certified(certifier, f_, claims);
    auto division = divisions_.begin();
    for (std::size_t i = 0; i < claims.size(); ++i) {
      while (division->op != claims[i].op) ++division;
      division->counts[static_cast<std::size_t>(claims[i].index)] = holds[i];
    }
  }

  /// Chooses which axes of the pieces lie along x and y; the others lie along z. False if no division becomes
  /// unnecessary. To know its x a block divides by the size of a cluster, to know its y and z it multiplies
  /// (tileiras 13.5.37, sm_90 and newer): two axes of pieces are y and z.
  bool choose_axes() {
    const auto first = counted_by(numbers());
    if (!first || (rank_ > 3 && *first != rank_ - 1)) return false;
    first_ = *first;
    if (rank_ == 2) return true;
    const auto second = counted_by(quotients());
    second_ = rank_ > 3                     ? rank_ - 2
              : second && *second != first_ ? *second
              : first_ == rank_ - 1         ? rank_ - 2
                                            : rank_ - 1;
    return true;
  }
  bool has_three() const { return second_ >= 0; }

  void run() {
    Builder b = Builder::before(f_.body().front());
    b.loc = f_.body().front()->loc;
    const ir::Type i32 = ir::Type::tile(ir::Elem::I32);
    const std::vector<Operation*> of_number = dividing(numbers(), first_), of_quotient = dividing(quotients(), second_);
    Operation* id = b.create(Op::GetTileBlockId, {}, {i32, i32, i32});
    Operation* size = b.create(Op::GetNumTileBlocks, {}, {i32, i32, i32});
    const auto combined = [&](Op op, Value v, Value w) { return b.create(op, {v, w}, {i32})->result(); };
    const std::size_t fast = has_three() ? 0 : 1;
    Value rest = id->result(2), rest_size = size->result(2);
    if (has_three()) {
      rest = combined(Op::AddI, id->result(1), combined(Op::MulI, size->result(1), rest));
      rest_size = combined(Op::MulI, size->result(1), rest_size);
    }
    for (Operation* op : of_quotient) replace(*op, id->result(op->op() == Op::RemI ? 1 : 2));
    for (Operation* op : of_number) replace(*op, op->op() == Op::RemI ? id->result(fast) : rest);
    const Value number = combined(Op::AddI, id->result(fast), combined(Op::MulI, size->result(fast), rest));
    const Value blocks = combined(Op::MulI, size->result(fast), rest_size);
    for (Operation* old : ids_) flatten(*old, number, b.constant_int(ir::Elem::I32, 0));
    for (Operation* old : sizes_) flatten(*old, blocks, b.constant_int(ir::Elem::I32, 1));
    ir::remove_dead_code(f_);
  }

  /// The grid as the launcher has to make it; `axis` gives an axis of the pieces.
  calling::GridAxes grid(const auto& axis) const {
    if (has_three()) return {true, axis(first_), axis(second_)};
    return {true, {}, axis(first_)};
  }

 private:
  /// ceil(extent of the tensor / extent of a piece), as kernels compute it. Only the certificate says that it is.
  bool seems_to_count(Value v, int axis) const {
    const auto counted = tiles_counted(v);
    if (!counted || counted->tile != contract_.piece[static_cast<std::size_t>(axis)]) return false;
    const int extent = contract_.tensors[static_cast<std::size_t>(contract_.pieces_of_tensor)].base_arg + 1 + axis;
    const int found = static_cast<int>(counted->argument);
    return found == extent || std::ranges::any_of(contract_.equal_args, [&](const auto& pair) {
             return (pair.first == found && pair.second == extent) || (pair.first == extent && pair.second == found);
           });
  }
  static void replace(Operation& op, Value by) {
    op.result().replace_all_uses_with(by);
    op.erase();
  }
  static void flatten(Operation& old, Value along_x, Value other) {
    for (std::size_t r = 0; r < 3; ++r) old.result(r).replace_all_uses_with(r == 0 ? along_x : other);
  }
  std::vector<Value> numbers() const {
    std::vector<Value> all;
    for (const Operation* id : ids_) all.push_back(id->result(0));
    return all;
  }
  /// The numbers of blocks divided by the pieces along the first axis.
  std::vector<Value> quotients() const {
    std::vector<Value> all;
    for (const Operation* op : dividing(numbers(), first_))
      if (op->op() == Op::DivI) all.push_back(op->result());
    return all;
  }
  std::vector<Operation*> dividing(const std::vector<Value>& numbers, int axis) const {
    std::vector<Operation*> all;
    for (const Division& d : divisions_)
      if (axis >= 0 && d.counts[static_cast<std::size_t>(axis)] && std::ranges::count(numbers, d.op->operand(0)) != 0)
        all.push_back(d.op);
    return all;
  }
  /// The axis whose pieces these numbers are divided by, the last if there are several.
  std::optional<int> counted_by(const std::vector<Value>& numbers) const {
    for (int a = rank_; a-- > 0;)
      if (!dividing(numbers, a).empty()) return a;
    return std::nullopt;
  }

  ir::Function& f_;
  const analysis::LaunchContract& contract_;
  int rank_, first_ = -1, second_ = -1;
  std::vector<Operation*> ids_, sizes_;
  std::vector<Division> divisions_;
};

}  // namespace

bool use_grid_axes(ir::Function& f, const analysis::LaunchContract* contract, bool fits, const Certifier* certifier,
                   Choices& choices) {
  if (contract == nullptr || contract->pieces_of_tensor < 0 || contract->wide_grid || !fits) return false;
  if (contract->piece.size() < 2 || choices.abi.pieces != 1 || choices.ctas != 1) return false;
  GridRewrite rewrite(f, *contract);
  if (!rewrite.allows()) return false;
  rewrite.find_divisions(certifier);
  if (!rewrite.choose_axes()) return false;
  rewrite.run();
  const int first = contract->tensors[static_cast<std::size_t>(contract->pieces_of_tensor)].base_arg + 1;
  choices.abi.grid = rewrite.grid([&](int a) {
    return calling::GridAxis{first + a, contract->piece[static_cast<std::size_t>(a)]};
  });
  return true;
}

/// Along no axis are there more pieces than a grid has blocks along y or z, and along all but the last two together
/// neither: which axis lies along x is chosen later.
std::vector<analysis::LaunchQuestion> ask_grid_fits(const analysis::AskedKernel& kernel) {
  if (kernel.contract.pieces_of_tensor < 0 || kernel.division == nullptr) return {};
  const int rank = static_cast<int>(kernel.contract.piece.size());
  analysis::LaunchQuestion q{.use = analysis::ObligationUse::Division, .where = kernel.division->loc};
  for (int a = 0; a < rank; ++a)
    q.bounds.push_back(
        {.of = analysis::LaunchBound::Of::PiecesAlong, .index = a, .most = analysis::kMaxBlocksAlongYOrZ});
  if (rank > 2)
    q.bounds.push_back(
        {.of = analysis::LaunchBound::Of::FirstAxes, .index = rank - 2, .most = analysis::kMaxBlocksAlongYOrZ});
  return {q};
}

}  // namespace tessera::passes
