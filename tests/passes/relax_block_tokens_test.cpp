// Accesses of different parts of a tensor do not wait for each other; all others still do, and so does what comes
// after.
#include <random>
#include <set>

#include "passes/accepting.hpp"
#include "passes/pass_support.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::test;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

/// A chain of accesses of one tensor, in the order in which they are added.
struct Chain {
  Kernel k;
  Value view, data, last;
  std::vector<Operation*> accesses;
  explicit Chain(std::vector<std::int32_t> tile = {1, 64}) : view(k.view(Elem::F32, tile)) {
    data = k.b.constant_float(Elem::F32, 1, view.type().view_tile().shape());
    last = k.op(Op::MakeToken, {}, Type::token());
  }
  Operation* store(Value row, Value column) { return add(k.store(data, view, {row, column}, {}, last)); }
  Operation* load(Value row, Value column) {
    Operation* made = k.load(view, {row, column});
    const std::vector<std::uint32_t> groups{1, 2, 1};
    const std::vector<Value> operands{view, row, column, last};
    made->set_operands(operands, groups);
    return add(made);
  }
  Operation* add(Operation* access) {
    last = access->result(access->num_results() - 1);
    accesses.push_back(access);
    return access;
  }
  bool relaxed() {
    ir::Function& f = k.function();
    const bool changed = passes::relax_block_tokens(f, &kAcceptAll);
    EXPECT_EQ(problems_of(k.module), "");
    return changed;
  }
};

/// Everything that an operation waits for, directly or through others.
std::set<const Operation*> waits_of(const Operation& op) {
  std::set<const Operation*> seen;
  std::vector<Value> work;
  const auto push = [&](const Operation& o) {
    for (const ir::OpOperand& use : o.operands())
      if (use.value.type().is_token()) work.push_back(use.value);
  };
  push(op);
  while (!work.empty()) {
    const Operation* def = work.back().def();
    work.pop_back();
    if (def && seen.insert(def).second) push(*def);
  }
  return seen;
}

TEST(RelaxBlockTokens, InPlaceByParts) {
  Chain c;
  const Value row = c.k.arg(Elem::I32), zero = c.k.i32(0), one = c.k.i32(1);
  Operation *a = c.load(row, zero), *b = c.store(row, zero), *d = c.load(row, one), *e = c.store(row, one);
  Operation* after = c.k.b.create(Op::If, {c.k.b.constant_int(Elem::I1, 1)}, {Type::token()});
  for (int arm = 0; arm < 2; ++arm) {
    ir::Block& region = after->add_region();
    const ir::Builder outside = c.k.b;
    c.k.b.set_to_end(region);
    c.k.b.create(Op::Yield, {c.last}, {});
    c.k.b = outside;
  }
  EXPECT_TRUE(c.relaxed());
  EXPECT_EQ(waits_of(*b).count(a), 1u);
  EXPECT_EQ(waits_of(*d).count(b), 0u) << "another part";
  EXPECT_EQ(waits_of(*e).count(d), 1u);
  EXPECT_EQ(waits_of(*e).count(b), 0u);
  const auto joined = waits_of(*after->region(0).terminator());
  EXPECT_EQ(joined.count(b) + joined.count(e), 2u) << "what comes after waits for both";
}

TEST(RelaxBlockTokens, LoadsDoNotWaitForLoads) {
  Chain c;
  const Value row = c.k.arg(Elem::I32), zero = c.k.i32(0);
  Operation *a = c.load(row, zero), *b = c.load(row, zero), *d = c.store(row, zero);
  EXPECT_TRUE(c.relaxed());
  EXPECT_EQ(waits_of(*b).count(a), 0u);
  EXPECT_EQ(waits_of(*d).count(a) + waits_of(*d).count(b), 2u);
}

TEST(RelaxBlockTokens, PartsByParityAndDistance) {
  Chain c;
  const Value row = c.k.arg(Elem::I32), i = c.k.arg(Elem::I32), n = c.k.arg(Elem::I32);
  const Value even = c.k.binary(Op::MulI, i, c.k.i32(2)),
              odd = c.k.binary(Op::AddI, c.k.binary(Op::MulI, n, c.k.i32(4)), c.k.i32(1));
  Operation *a = c.store(row, even), *b = c.store(row, odd), *d = c.store(row, c.k.binary(Op::AddI, even, c.k.i32(1)));
  EXPECT_TRUE(c.relaxed());
  EXPECT_EQ(waits_of(*b).count(a), 0u);
  EXPECT_EQ(waits_of(*d).count(a), 0u);
  EXPECT_EQ(waits_of(*d).count(b), 1u) << "2 i + 1 may be 4 n + 1";
}

TEST(RelaxBlockTokens, NotWhereElementsMayBeShared) {
  {
    Chain c;  // another row of a tensor whose rows may overlap
    const Value zero = c.k.i32(0);
    c.store(zero, zero);
    c.store(c.k.i32(1), zero);
    EXPECT_FALSE(c.relaxed());
  }
  {
    Chain c({2, 64});  // the second row of one tile may be the first of the other
    const Value zero = c.k.i32(0);
    c.store(zero, zero);
    c.store(zero, c.k.i32(1));
    EXPECT_FALSE(c.relaxed());
  }
  {
    Chain c;
    const Value row = c.k.i32(0), i = c.k.arg(Elem::I32);
    c.store(row, i);
    c.store(row, c.k.arg(Elem::I32));
    EXPECT_FALSE(c.relaxed());
  }
}

/// Random chains, random joins: every pair of accesses that was ordered and may conflict still is.
TEST(RelaxBlockTokens, OrderOfConflictsIsKept) {
  int relaxed = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 rng(seed);
    Chain c;
    const Value row = c.k.arg(Elem::I32);
    std::vector<Value> columns, tokens{c.last};
    for (int i = 0; i < 4; ++i) columns.push_back(c.k.i32(i));
    std::vector<int> column_of;
    for (int n = 0; n < 12; ++n) {
      const int column = static_cast<int>(rng() % 4);
      c.last = tokens[tokens.size() - 1 - rng() % std::min<std::size_t>(tokens.size(), 3)];
      if (rng() % 3 == 0) c.last = c.k.op(Op::JoinTokens, {c.last, tokens[rng() % tokens.size()]}, Type::token());
      if (rng() % 2 == 0)
        c.store(row, columns[static_cast<std::size_t>(column)]);
      else
        c.load(row, columns[static_cast<std::size_t>(column)]);
      column_of.push_back(column);
      tokens.push_back(c.last);
    }
    std::vector<std::set<const Operation*>> before;
    for (const Operation* a : c.accesses) before.push_back(waits_of(*a));
    relaxed += c.relaxed() ? 1 : 0;
    for (std::size_t i = 0; i < c.accesses.size(); ++i) {
      const auto now = waits_of(*c.accesses[i]);
      for (std::size_t j = 0; j < i; ++j) {
        const bool stores = c.accesses[i]->op() == Op::StoreViewTko || c.accesses[j]->op() == Op::StoreViewTko;
        const bool ordered = before[i].count(c.accesses[j]) != 0 && stores && column_of[i] == column_of[j];
        if (!ordered) continue;
        EXPECT_EQ(now.count(c.accesses[j]), 1u) << seed << ": " << j << " before " << i;
      }
    }
  }
  EXPECT_GT(relaxed, 100);
}

}  // namespace THIS_FILE
