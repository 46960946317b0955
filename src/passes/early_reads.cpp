// Early reads: a load of a tensor without an in-flight writer need not wait for the kernels before this one. The
// launcher knows those tensors for each launch and passes them as bits of the launch flags, so all launches share one
// cubin:
//
//   entry(x, w, y) {                    entry(x, w, y, flags) {
//     load x                              a = if (flags & 3) == 3 { make_token } else { gdc_wait }
//     acc = for k with acc {              load x, after a
//       load w[k] }              =>       acc, s = for k with acc, 0 { load w[k], after a;  s = s | flags }
//     store y }                           b = if s >= 0 { gdc_wait after a } else { gdc_wait after a }
//                                         store y, after b }
//
// Both arms of the second branch are the same. The assembler moves an operation that depends only on a token as early
// as the token allows, here before the loop. The condition depends on the loop, and the assembler cannot know that the
// flags are never negative, so the wait stays after the loop.
//
// An entry without such a loop that looks an address up waits before the first load of each tensor by itself.
//
// docs/compiler/overlap_launches.md, "Reads before the wait" and "One wait for each tensor".
#include "passes/early_reads.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "passes/early_tiles.hpp"
#include "passes/rewriter.hpp"
#include "passes/values.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/passes/optimize.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::Block;
using ir::Builder;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

namespace {

bool orders_memory(const Operation& op) {
  return op.info().has(ir::traits::Read) || op.info().has(ir::traits::Write) || op.op() == Op::PrintTko;
}

bool is_weak_load(const Operation& op) {
  return analysis::is_load(op) &&
         op.enum_attr<ir::MemoryOrdering>(AttrName::memory_ordering_semantics) == ir::MemoryOrdering::Weak;
}

/// Calls f for an operation and everything in its regions.
template <class F>
void walk_whole(Operation& op, F f) {
  f(op);
  for (std::size_t r = 0; r < op.num_regions(); ++r) ir::walk(op.region(r), f);
}

/// The operations of the entry's block before the first one that needs all earlier kernels to have ended.
struct Head {
  std::vector<int> addresses;       ///< of the tensors read in it
  Operation* first_read = nullptr;  ///< in which the first of them is read
  Operation* loop = nullptr;        ///< the last that reads
  Operation* end = nullptr;         ///< that first operation
};

Head head_of(const Block& entry) {
  Head head;
  for (Operation& op : entry) {
    head.end = &op;
    const std::size_t known = head.addresses.size();
    bool reads = false, needs_all = false;
    walk_whole(op, [&](const Operation& inner) {
      // A block that ends here must wait first: later kernels rely on this one having waited for all earlier ones.
      needs_all = needs_all || (inner.op() == Op::Return && &inner != &op);
      if (!orders_memory(inner)) return;
      const auto address = is_weak_load(inner) ? address_argument(inner.operand(0), entry) : std::nullopt;
      reads = true;
      if (!address) {
        needs_all = true;
      } else if (std::find(head.addresses.begin(), head.addresses.end(), *address) == head.addresses.end()) {
        head.addresses.push_back(*address);
      }
    });
    if (needs_all) {
      head.addresses.resize(known);
      break;
    }
    if (reads && !head.first_read) head.first_read = &op;
    if (reads && op.op() == Op::For && !leaves_early(op)) head.loop = &op;
  }
  return head;
}

void append_operand(Operation& op, Value v) {
  std::vector<Value> values = op.operand_values();
  std::vector<std::uint32_t> sizes(op.group_sizes().begin(), op.group_sizes().end());
  values.push_back(v);
  ++sizes.back();
  op.set_operands(values, sizes);
}

/// The launch flags, or 0 if the loop has no iteration. The value depends on the loop, so it is known only after it.
Value carry_through(Operation& loop, Value launch_flags) {
  Builder before = Builder::before(&loop);
  before.loc = loop.loc;
  append_operand(loop, before.constant_int(Elem::I32, 0));
  Operation* end = loop.region(0).terminator();
  const Value carried = loop.region(0).add_arg(launch_flags.type());
  Builder inside = Builder::before(end);
  inside.loc = loop.loc;
  append_operand(*end, inside.create(Op::OrI, {carried, launch_flags}, {launch_flags.type()})->result());
  return loop.add_result(launch_flags.type());
}

Value wait_behind(Operation& before, Value loop_ended, Value token) {
  Builder b = Builder::before(&before);
  b.loc = before.loc;
  const Value zero = b.constant_int(Elem::I32, 0);
  const Value known = compared(b, ir::ComparisonPredicate::GreaterEqual, loop_ended, zero);
  Operation* branch = b.create(Op::If, {known}, {Type::token()});
  add_way(*branch, token, true);
  add_way(*branch, token, true);
  return branch->result();
}

/// The operation of `block` that is `op` or contains it.
const Operation* standing_in(const Block& block, const Operation* op) {
  while (op != nullptr && op->block() != &block) op = op->parent_op();
  return op;
}

/// Makes everything from `first` on depend on `wait`, which precedes it: accesses without a token, new token chains,
/// and chains that began earlier. `earlier`: a token that `wait` already depends on.
void hang_behind(Value wait, Operation& first, Value earlier) {
  Block& entry = *first.block();
  std::unordered_set<const Operation*> before;
  for (const Operation* op = first.prev(); op != nullptr; op = op->prev()) before.insert(op);
  std::unordered_map<const ir::ValueImpl*, Value> joined;
  const auto behind = [&](Value token) {
    if (token == earlier || token.def()->op() == Op::MakeToken) return wait;
    Value& join = joined[token.impl()];
    if (join) return join;
    Builder b = Builder::before(&first);
    b.loc = first.loc;
    return join = b.create(Op::JoinTokens, {wait, token}, {Type::token()})->result();
  };
  std::vector<Operation*> chains;
  for (Operation* op = &first; op != nullptr; op = op->next()) {
    walk_whole(*op, [&](Operation& inner) {
      if (inner.op() == Op::MakeToken) chains.push_back(&inner);
      if (orders_memory(inner) && !inner.single("token")) set_token(inner, wait);
      for (ir::OpOperand& use : inner.operands()) {
        if (!use.value.type().is_token() || use.value == wait) continue;
        const Operation* maker = standing_in(entry, use.value.def());
        if (before.contains(maker)) use.set(behind(use.value));
      }
    });
  }
  for (Operation* chain : chains) {
    chain->result().replace_all_uses_with(wait);
    chain->erase();
  }
}

/// The loads of a head without loops, in order, if the address of one follows from what another one loads; else none.
/// `index_tensors` becomes the number of tensors (of head.addresses) that are read before the first such load.
std::vector<Operation*> chained_loads(const Head& head, const Block& entry, std::size_t& index_tensors) {
  std::vector<Operation*> loads;
  std::vector<int> seen;
  bool chained = false;
  std::vector<Value> loaded;
  for (Operation* op = head.first_read; op != head.end; op = op->next())
    if (analysis::is_unordered_load(*op)) loaded.push_back(op->result(0));
  const analysis::Dependents dependents(entry, loaded);
  for (Operation* op = head.first_read; op != head.end; op = op->next()) {
    bool reads = false;
    walk_whole(*op, [&](const Operation& inner) { reads = reads || orders_memory(inner); });
    if (!reads) continue;
    if (!analysis::is_unordered_load(*op)) return {};
    const auto follows = [&](const ir::OpOperand& use) { return dependents.contains(use.value); };
    if (!chained && std::ranges::any_of(op->operands(), follows)) chained = true, index_tensors = seen.size();
    const int address = *address_argument(op->operand(0), entry);
    if (std::find(seen.begin(), seen.end(), address) == seen.end()) seen.push_back(address);
    loads.push_back(op);
  }
  return chained ? loads : std::vector<Operation*>();
}

/// Before the first load of each tensor, waits unless that tensor has no in-flight writer.
EarlyReads wait_in_stages(Block& entry, const Head& head) {
  EarlyReads made;
  std::size_t index_tensors = 0;
  const std::vector<Operation*> loads = chained_loads(head, entry, index_tensors);
  if (loads.empty()) return made;
  const Value launch_flags = entry.add_arg(Type::tile(Elem::I32));
  std::vector<Value> issued;
  Value token;
  for (Operation* load : loads) {
    const int address = *address_argument(load->operand(0), entry);
    if (std::find(made.addresses.begin(), made.addresses.end(), address) == made.addresses.end()) {
      Builder b = Builder::before(load);
      b.loc = load->loc;
      if (token) token = join(b, issued);
      token = wait_unless(b, launch_flags, std::int64_t{1} << made.addresses.size(), token);
      issued = {token};
      made.addresses.push_back(address);
    }
    set_token(*load, token);
    issued.push_back(load->result(1));
  }
  Builder b = Builder::before(head.end);
  b.loc = head.end->loc;
  hang_behind(wait_after(issued, b), *head.end, token);
  made.alone = static_cast<int>(index_tensors);
  return made;
}

}  // namespace

EarlyReads wait_behind_reads(ir::Function& f, int warps, std::optional<int> early_tiles) {
  Block& entry = f.body();
  Head head = head_of(entry);
  if (head.addresses.size() > calling::kMaxEarlyReads) return {};
  if (!head.loop) return head.first_read ? wait_in_stages(entry, head) : EarlyReads();
  const auto tiles = early_tiles_of(*head.first_read, entry, warps, early_tiles);
  const Value launch_flags = entry.add_arg(Type::tile(Elem::I32));
  const std::int64_t bits = (std::int64_t{1} << head.addresses.size()) - 1;
  Value ended = carry_through(*head.loop, launch_flags), early;
  Operation* behind = head.first_read;
  if (tiles) {
    const auto first = std::find(head.addresses.begin(), head.addresses.end(), tiles->address);
    std::rotate(head.addresses.begin(), first, first + 1);
    Operation& branch = peel(*tiles, launch_flags, bits);
    early = branch.result(branch.num_results() - 1);
    if (head.loop == tiles->loop) ended = branch.result(ended.index());
    behind = branch.next();
  } else {
    Builder b = Builder::before(behind);
    b.loc = behind->loc;
    early = wait_unless(b, launch_flags, bits);
  }
  hang_behind(early, *behind, {});
  hang_behind(wait_behind(*head.end, ended, early), *head.end, early);
  return {head.addresses, tiles ? 1 : 0, tiles ? tiles->iterations : 0, tiles ? tiles->registers : 0};
}

}  // namespace tessera::passes
