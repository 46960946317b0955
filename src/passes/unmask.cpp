// Narrows masks to the part of a tile where they can be false. A row of 1000 in a tile of 1024 ends in the last
// quarter. If the launch guarantees that (`assume bounded<769, 1023>` of the tensor's extent), three quarters need no
// mask:
//
//   inside = iota < n      =>      inside = iota < 768 or iota < n
//
// The assembler evaluates a comparison with a constant for each element of a thread, because it knows the range of
// thread numbers. It makes no use of the assumption itself. docs/compiler/unmask.md.
#include <optional>
#include <vector>

#include "passes/index_masks.hpp"
#include "passes/values.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::ComparisonPredicate;
using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

/// Indices below the result are known to be below the scalar; 0: none. In whole quarters of the tile, because the
/// launch is asked about one half and three quarters (row_lengths.cpp).
std::int64_t surely_below(const IndexMask& m) {
  if (constant_int(behind_shapes(m.number))) return 0;  // the assembler evaluates that itself
  const std::int64_t quarter = counts_to(m.places) / 4;
  const auto number = known_range(m.number);
  return quarter > 0 && number && number->low > 0 ? number->low / quarter * quarter : 0;
}

void split(Operation& op, const IndexMask& m, std::int64_t known) {
  ir::Builder b = ir::Builder::before(&op);
  b.loc = op.loc;
  const ir::Type type = m.places.type();
  const Value edge = b.constant_int(type.elem(), known, type.shape());
  const bool below = m.how == ComparisonPredicate::Less || m.how == ComparisonPredicate::LessEqual;
  // With the signedness of the comparison: 8-bit indices in a tile of 256 may be negative.
  const auto at_edge = below ? ComparisonPredicate::Less : ComparisonPredicate::GreaterEqual;
  const Value sure = compared(b, at_edge, m.places, edge, m.sign),
              rest = compared(b, m.how, m.places, m.number, m.sign);
  const Value whole = b.create(below ? Op::OrI : Op::AndI, {sure, rest}, {rest.type()})->result();
  op.result().replace_all_uses_with(whole);
  op.erase();
}

}  // namespace

bool unmask(ir::Function& f, const Certifier* certifier) {
  std::vector<Operation*> found;
  std::vector<analysis::Claim> claims;
  ir::walk(f.body(), [&](Operation& op) {
    const auto m = index_mask(op);
    const std::int64_t known = m ? surely_below(*m) : 0;
    if (known == 0) return;
    found.push_back(&op);
    claims.push_back(
        {.kind = analysis::ClaimKind::AtLeast, .op = &op, .index = op.operand(0) == m->number ? 0 : 1, .lower = known});
  });
  const std::vector<bool> may = certified(certifier, f, claims);
  bool changed = false;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!may[i]) continue;
    const IndexMask m = *index_mask(*found[i]);
    split(*found[i], m, surely_below(m));
    changed = true;
  }
  return changed;
}

}  // namespace tessera::passes
