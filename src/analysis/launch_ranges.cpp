// The launch contract as ranges of arguments and block numbers.
#include "analysis/ranges.hpp"

namespace tessera::analysis {
namespace {

constexpr std::int64_t kLargestDim = 0x7FFFFFFF;  // LaunchContract: a dimension is at most 2^31 - 1

}  // namespace

LaunchRanges::LaunchRanges(const LaunchContract& contract, const RangeMath& math) : contract_(&contract), math_(math) {
  ExprPool& e = math_.exprs();
  for (const auto& [a, b] : contract.equal_args) e.identify(a, b);
  for (std::size_t i = 0; i < contract.args.size(); ++i) {
    const ArgContract& a = contract.args[i];
    if (a.role != ArgRole::Dim) continue;
    // A block runs only where there is a piece for it, so no extent of the tensor of the pieces is 0.
    const bool pieces =
        a.tensor == contract.pieces_of_tensor || contract.tensors[static_cast<std::size_t>(a.tensor)].nonempty;
    e.promise(e.arg(static_cast<int>(i)), {pieces ? 1 : 0, kLargestDim});
  }
  if (contract.pieces_of_tensor >= 0) count_pieces();
  if (contract.blocks_arg >= 0) {
    pieces_ = e.arg(contract.blocks_arg, 32);
    e.promise(*pieces_, {1, kMaxGridAxis});
  }
}

Expr LaunchRanges::pieces_along(int axis) const {
  ExprPool& e = math_.exprs();
  const TensorContract& t = contract_->tensors[static_cast<std::size_t>(contract_->pieces_of_tensor)];
  return e.ceil_div(e.arg(t.base_arg + 1 + axis), e.constant(contract_->piece[static_cast<std::size_t>(axis)]));
}

void LaunchRanges::count_pieces() {
  ExprPool& e = math_.exprs();
  Expr total = e.constant(1);
  for (std::size_t a = 0; a < contract_->piece.size(); ++a) total = e.mul(total, pieces_along(static_cast<int>(a)));
  e.promise(total, {1, kLargestDim});  // the launch rejects more pieces
  pieces_ = total;
}

IntRange LaunchRanges::argument(int number, int bits) const {
  ExprPool& e = math_.exprs();
  const Expr value = e.arg(number, bits);
  return math_.between(value, value, bits);
}

IntRange LaunchRanges::block_id(int axis) const {
  if (pieces_ && !contract_->wide_grid) {
    if (axis > 0) return math_.between(0, 0, 32);
    ExprPool& e = math_.exprs();
    return math_.between(e.constant(0), e.add(*pieces_, e.constant(-1)), 32);
  }
  return math_.between(0, kMaxGridAxis - 1, 32);
}

IntRange LaunchRanges::grid_size(int axis) const {
  if (pieces_ && !contract_->wide_grid) {
    if (axis > 0) return math_.between(1, 1, 32);
    return math_.between(*pieces_, *pieces_, 32);
  }
  return math_.between(1, kMaxGridAxis, 32);
}

}  // namespace tessera::analysis
