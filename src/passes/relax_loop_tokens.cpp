// Relaxes token order between iterations. The accesses of a tensor form one token chain, also through loops: the store
// of an iteration waits for that of the previous one, which costs a barrier of the block each time. Where every
// iteration accesses a different part of the tensor, each waits only for what came before the loop, and later accesses
// wait for all:
//
//   t = for i with t0 { store row[i], token t }   =>   t = for i with t0 { s = store row[i], token t0; t = join t, s }
#include <algorithm>
#include <unordered_set>
#include <vector>

#include "passes/rewriter.hpp"
#include "passes/values.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/affine.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

using analysis::Access;

namespace {

/// The accesses in the loop's body that depend on one carried token.
struct Chain {
  std::vector<Operation*> accesses;
  bool ok = true;
};

Chain chain_of(Operation& loop, std::size_t carried) {
  Chain chain;
  ir::Block& body = loop.region(0);
  std::unordered_set<const ir::ValueImpl*> seen;
  std::vector<Value> work{body.arg(first_carried_arg(loop) + carried)};
  while (!work.empty() && chain.ok) {
    const Value token = work.back();
    work.pop_back();
    if (!seen.insert(token.impl()).second) continue;
    for (ir::OpOperand* use = token.first_use(); use; use = use->next) {
      Operation* user = use->owner;
      const bool here = user->block() == &body;
      if (here && user->op() == Op::JoinTokens) {
        work.push_back(user->result());
      } else if (here && analysis::is_view_access(*user)) {
        if (std::find(chain.accesses.begin(), chain.accesses.end(), user) == chain.accesses.end())
          chain.accesses.push_back(user);
        work.push_back(user->result(user->num_results() - 1));
      } else if (!(user == body.terminator() && use->number() == carried)) {
        chain.ok = false;  // a wait in a nested region, an atomic, another chain
      }
    }
  }
  return chain;
}

/// True if each iteration's tile is a different part of one line of the tensor: one index is affine in the induction
/// variable (different modulo 2^32 in every iteration) along an axis with a static stride other than 0, and the tile
/// has extent 1 along all other axes. Then no two iterations share an element, whatever the other strides are.
bool walks_a_line(const Access& access, const Operation& loop) {
  const Type view = access.view.type();
  const std::vector<Value>& index = access.index;
  int moving = 0;
  for (std::size_t a = 0; a < index.size(); ++a) {
    if (defined_outside(index[a], loop.region(0))) {
      if (view.tile_shape()[a] != 1) return false;
      continue;
    }
    const std::int64_t stride = view.tensor().strides()[static_cast<std::size_t>(view.dim_map()[a])];
    const auto form = analysis::affine_value(index[a], loop);
    if (!form || form->form.coefficient != 1 || stride == ir::kDynamic || stride == 0) return false;
    ++moving;
  }
  return moving == 1;
}

bool same_tile(const Access& a, const Access& b) {
  return a.view.def()->operand(0) == b.view.def()->operand(0) && a.index == b.index &&
         analysis::same_tiles(a.view.type(), b.view.type());
}

/// The first access of a carried token's chain, if all accesses of the chain have its tile and the tile differs between
/// iterations. Null otherwise.
Operation* access_apart(Operation& loop, std::size_t carried) {
  const Chain chain = chain_of(loop, carried);
  if (!chain.ok || chain.accesses.empty()) return nullptr;
  std::vector<Access> accesses;
  for (const Operation* op : chain.accesses) {
    accesses.push_back(*analysis::view_access_of(*op));
    const Operation* view = accesses.back().view.def();
    if (!view || view->op() != Op::MakePartitionView) return nullptr;
  }
  const Access& first = accesses.front();
  if (!walks_a_line(first, loop)) return nullptr;
  for (const Access& access : accesses)
    if (!same_tile(first, access)) return nullptr;
  return chain.accesses.front();
}

void relax(Operation& loop, std::size_t carried) {
  const Value arg = loop.region(0).arg(first_carried_arg(loop) + carried);
  const Value before = loop.operand(first_carried_operand(loop) + carried);
  Operation* end = loop.region(0).terminator();
  const Value last = end->operand(carried);
  arg.replace_all_uses_with(before);
  Value next = arg;
  if (loop.result(carried).has_uses()) {
    ir::Builder b = ir::Builder::before(end);
    b.loc = end->loc;
    next = b.create(Op::JoinTokens, {arg, last}, {Type::token()})->result();
  }
  end->set_operand(carried, next);
}

}  // namespace

bool relax_loop_tokens(ir::Function& f, const Certifier* certifier) {
  std::vector<Operation*> loops;
  ir::walk(f.body(), [&](Operation& op) {
    const Operation* end = op.op() == Op::For ? op.region(0).terminator() : nullptr;
    if (end && end->op() == Op::Continue && !leaves_early(op)) loops.push_back(&op);
  });
  struct Found {
    Operation* loop;
    std::size_t carried;
  };
  std::vector<Found> found;
  std::vector<analysis::Claim> claims;
  for (Operation* loop : loops) {
    for (std::size_t c = 0; c < loop->num_results(); ++c) {
      Operation* const access = loop->result(c).type().is_token() ? access_apart(*loop, c) : nullptr;
      if (!access) continue;
      found.push_back({loop, c});
      claims.push_back({.kind = analysis::ClaimKind::DisjointIterations, .op = access});
    }
  }
  const std::vector<bool> may = certified(certifier, f, claims);
  bool changed = false;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!may[i]) continue;
    relax(*found[i].loop, found[i].carried);
    changed = true;
  }
  return changed;
}

}  // namespace tessera::passes
