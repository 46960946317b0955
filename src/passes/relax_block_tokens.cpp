// Relaxes token order within a block. The accesses of a tensor form one token chain, in program order. Between accesses
// of disjoint parts, and between loads, no order is needed, but each edge costs a barrier of the block:
//
//   a = store y[0], after t             a = store y[0], after t
//   b = load y[1], after a       =>     b = load y[1], after t
//   c = store y[1], after b             c = store y[1], after b
//   ... after c                         ... after a and c
//
// Every access waits only for earlier ones that it may conflict with. Other users of a token (loops, branches, atomics)
// wait for everything before them. docs/compiler/relax_tokens.md.
#include <algorithm>
#include <bit>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "passes/rewriter.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/aliasing.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using analysis::is_view_access;
using ir::Block;
using ir::Builder;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

namespace {

using Set = std::uint64_t;
constexpr std::size_t kAccessLimit = 64;  // accesses of a block, and tokens that come from elsewhere
Set bit(std::size_t i) { return Set{1} << i; }

/// Accesses of a block, and tokens from elsewhere, by number.
struct Waits {
  Set accesses = 0, others = 0;
  bool operator==(const Waits&) const = default;
  Waits& operator|=(const Waits& o) {
    accesses |= o.accesses;
    others |= o.others;
    return *this;
  }
};

Value token_of(const Operation& access) { return access.result(access.num_results() - 1); }

using Pair = std::pair<const Operation*, const Operation*>;  ///< of accesses, the earlier one first

class Chains {
 public:
  /// `rejected`: pairs that must not be treated as disjoint.
  Chains(Block& block, const analysis::Divisibility& known, const std::vector<Pair>& rejected)
      : block_(block), known_(known), rejected_(rejected) {
    for (Operation& op : block)
      if (is_view_access(op)) {
        number_[token_of(op).impl()] = accesses_.size();
        accesses_.push_back(&op);
      }
    ok_ = accesses_.size() > 1 && accesses_.size() <= kAccessLimit;
    for (std::size_t i = 0; ok_ && i < accesses_.size(); ++i) ok_ = order(i);
  }

  /// True if an access waits for more than it has to.
  bool changes() const {
    bool changed = false;
    for (std::size_t i = 0; ok_ && i < accesses_.size(); ++i) changed = changed || !(now_[i] == direct_[i]);
    return changed;
  }
  /// The pairs that are treated as disjoint.
  const std::vector<analysis::Claim>& claims() const { return claims_; }

  bool relax() {
    if (!changes()) return false;
    const std::vector<Use> uses = other_uses();
    if (!ok_) return false;
    for (std::size_t i = 0; i < accesses_.size(); ++i)
      if (!(now_[i] == direct_[i])) set_token(*accesses_[i], joined(now_[i], *accesses_[i]));
    for (const Use& use : uses) use.owner->set_operand(use.number, joined(use.waits, *use.at));
    return true;
  }

 private:
  struct Use {
    Operation* owner;
    std::size_t number;
    Operation* at;  ///< the operation of the block that contains the owner
    Waits waits;
  };

  /// The accesses behind a token, through the joins of this block, which may feed several other joins.
  std::optional<Waits> roots(Value token) {
    if (const auto known = roots_.find(token.impl()); known != roots_.end()) return known->second;
    const auto found = roots_anew(token);
    if (found) roots_.emplace(token.impl(), *found);
    return found;
  }
  std::optional<Waits> roots_anew(Value token) {
    Waits w;
    if (const auto it = number_.find(token.impl()); it != number_.end()) {
      w.accesses = bit(it->second);
    } else if (Operation* def = token.def(); def && def->op() == Op::JoinTokens && def->block() == &block_) {
      for (const ir::OpOperand& use : def->operands()) {
        const auto some = roots(use.value);
        if (!some) return std::nullopt;
        w |= *some;
      }
    } else {
      std::size_t i = 0;
      while (i < others_.size() && others_[i] != token) ++i;
      if (i == others_.size()) others_.push_back(token);
      if (i >= kAccessLimit) return std::nullopt;
      w.others = bit(i);
    }
    return w;
  }

  /// These and all that they wait for, by `each`.
  static Waits closed(Waits w, const std::vector<Waits>& each) {
    Waits all = w;
    for (Set left = w.accesses; left != 0; left &= left - 1) all |= each[index(left)];
    return all;
  }
  static std::size_t index(Set s) { return static_cast<std::size_t>(std::countr_zero(s)); }

  /// Removes accesses that others among them wait for anyway.
  Waits least(Waits w) const {
    Waits implied;
    for (Set left = w.accesses; left != 0; left &= left - 1) implied |= after_[index(left)];
    return {w.accesses & ~implied.accesses, w.others & ~implied.others};
  }

  bool order(std::size_t i) {
    const Value token = accesses_[i]->single("token");
    const auto direct = token ? roots(token) : Waits{};
    if (!direct) return false;
    direct_.push_back(*direct);
    before_.push_back(closed(*direct, before_));
    Waits needed{0, before_[i].others};
    for (Set left = before_[i].accesses; left != 0; left &= left - 1)
      if (conflict(*accesses_[index(left)], *accesses_[i])) needed.accesses |= bit(index(left));
    now_.push_back(least(needed));
    after_.push_back(closed(now_[i], after_));
    if (least(*direct) == now_[i]) now_[i] = *direct;
    return true;
  }
  bool conflict(const Operation& a, Operation& b) {
    if (a.op() != Op::StoreViewTko && b.op() != Op::StoreViewTko) return false;
    if (std::find(rejected_.begin(), rejected_.end(), Pair{&a, &b}) != rejected_.end()) return true;
    if (!analysis::disjoint(a, b, known_)) return true;
    claims_.push_back({.kind = analysis::ClaimKind::Disjoint, .op = &b, .other = &a});
    return false;
  }

  /// Uses of this block's tokens by anything but accesses and joins of the block: they wait for all that stood before.
  std::vector<Use> other_uses() {
    std::vector<Use> uses;
    for (Operation& op : block_) {
      if (!is_view_access(op) && op.op() != Op::JoinTokens) continue;
      const Value token = is_view_access(op) ? token_of(op) : op.result();
      const auto here = roots(token);
      ok_ = ok_ && here;
      if (!ok_) break;
      const Waits all = least(closed(*here, before_));
      for (ir::OpOperand* use = token.first_use(); use && !(all == *here); use = use->next) {
        Operation* at = use->owner;
        if (at->block() == &block_ && (is_view_access(*at) || at->op() == Op::JoinTokens)) continue;
        while (at->block() != &block_) at = at->parent_op();
        uses.push_back({use->owner, use->number(), at, all});
      }
    }
    return uses;
  }

  Value joined(Waits w, Operation& at) {
    std::vector<Value> tokens;
    for (Set left = w.others; left != 0; left &= left - 1) tokens.push_back(others_[index(left)]);
    for (Set left = w.accesses; left != 0; left &= left - 1) tokens.push_back(token_of(*accesses_[index(left)]));
    if (tokens.size() < 2) return tokens.empty() ? Value() : tokens.front();
    Builder b = Builder::before(&at);
    b.loc = at.loc;
    const std::vector<Type> type{Type::token()};
    return b.create(Op::JoinTokens, tokens, type)->result();
  }

  Block& block_;
  const analysis::Divisibility& known_;
  const std::vector<Pair>& rejected_;
  std::vector<analysis::Claim> claims_;
  bool ok_ = false;
  std::vector<Operation*> accesses_;
  std::vector<Value> others_;
  std::unordered_map<const ir::ValueImpl*, std::size_t> number_;
  std::unordered_map<const ir::ValueImpl*, Waits> roots_;
  /// Per access: what it waits for now, everything before it, and what it has to wait for, directly and transitively.
  std::vector<Waits> direct_, before_, now_, after_;
};

}  // namespace

bool relax_block_tokens(ir::Function& f, const Certifier* certifier) {
  std::vector<Block*> blocks{&f.body()};
  ir::walk(f.body(), [&](Operation& op) {
    if (op.op() == Op::For || op.op() == Op::Loop || op.op() == Op::If)
      for (std::size_t r = 0; r < op.num_regions(); ++r) blocks.push_back(&op.region(r));
  });
  const analysis::Divisibility known(f);
  bool changed = false;
  for (Block* block : blocks) {
    std::vector<Pair> rejected;
    const Chains wanted(*block, known, rejected);
    if (!wanted.changes()) continue;
    const std::vector<bool> may = certified(certifier, f, wanted.claims());
    for (std::size_t i = 0; i < may.size(); ++i)
      if (!may[i]) rejected.emplace_back(wanted.claims()[i].other, wanted.claims()[i].op);
    changed = Chains(*block, known, rejected).relax() || changed;
  }
  return changed;
}

}  // namespace tessera::passes
