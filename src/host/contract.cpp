// The launch contract: one entry per argument of the kernel's entry.
#include "tessera/host/contract.hpp"

#include <algorithm>

namespace tessera::detail {
namespace {

/// One block runs per piece, and all Mut parameters of a launch have equally many pieces. A kernel without Mut runs for
/// the tiles of its MutTiles, if it has only one.
bool has_every_block(const lang::ParamInfo& p, std::span<const lang::ParamInfo> params) {
  if (lang::has_own_piece(p.kind)) return true;
  if (p.kind != lang::ParamKind::MutTiles) return false;
  const auto other = [&](const lang::ParamInfo& q) { return &q != &p && lang::has_pieces(q.kind); };
  return std::none_of(params.begin(), params.end(), other);
}

/// Launch rejects a written tensor that shares its storage with another argument. What an unsafe_:: parameter points to
/// is unknown.
bool is_exclusive(const lang::ParamInfo& p, bool raw_pointers) {
  return !raw_pointers && p.kind != lang::ParamKind::In && p.kind != lang::ParamKind::UnsafeMut;
}

}  // namespace

jit::LaunchContract launch_contract(std::span<const lang::ParamInfo> params, bool wide_grid,
                                    std::span<const lang::SameExtent> same) {
  jit::LaunchContract c;
  c.wide_grid = wide_grid;
  const bool raw_pointers =
      std::any_of(params.begin(), params.end(), [](const auto& p) { return p.kind == lang::ParamKind::UnsafePtr; });
  for (const lang::ParamInfo& p : params) {
    if (p.is_constant()) continue;
    if (!p.is_tensor()) {
      c.args.push_back({});
      continue;
    }
    const int tensor = static_cast<int>(c.tensors.size());
    c.args.push_back({jit::ArgRole::Base, tensor, -1});
    for (int a = 0; a < p.rank; ++a) c.args.push_back({jit::ArgRole::Dim, tensor, a});
    for (int a = 0; a < p.rank; ++a) c.args.push_back({jit::ArgRole::Stride, tensor, a});
    c.tensors.push_back({p.first_arg, p.rank, p.kind != lang::ParamKind::In, is_exclusive(p, raw_pointers),
                         has_every_block(p, params)});
    if (c.pieces_of_tensor < 0 && lang::has_own_piece(p.kind)) {
      c.pieces_of_tensor = tensor;
      c.piece = p.extents;
    }
  }
  if (lang::counts_blocks(params)) {
    c.blocks_arg = static_cast<int>(c.args.size());
    c.args.push_back({jit::ArgRole::Blocks, -1, -1});
  }
  for (const lang::SameExtent& s : same) {
    if (!s.or_one) c.equal_args.push_back({s.loaded.slot, s.piece.slot});
  }
  std::sort(c.equal_args.begin(), c.equal_args.end());  // compilers evaluate a kernel's expressions in different orders
  return c;
}

}  // namespace tessera::detail
