// Folding, merging, hoisting: each rule beside a case where it must not fire.
#include "passes/pass_support.hpp"
#include "tessera/analysis/values.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::test;
using ir::AttrName;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

/// What the only kept value becomes.
Value folded(Kernel& k, Value v) {
  k.keep(v);
  ir::Function& f = k.function();
  passes::fold(f);
  EXPECT_EQ(problems_of(k.module), "");
  return first(f, Op::StorePtrTko)->single("value");
}

TEST(Fold, IntegerIdentities) {
  struct Case {
    Op op;
    std::int64_t number;
    bool left;     // the number stands left
    int expected;  // -1: x; -2: nothing changes; else the constant
  };
  for (const Case& c : {Case{Op::AddI, 0, false, -1}, Case{Op::AddI, 0, true, -1}, Case{Op::AddI, 1, false, -2},
                        Case{Op::SubI, 0, false, -1}, Case{Op::SubI, 0, true, -2}, Case{Op::MulI, 1, true, -1},
                        Case{Op::MulI, 0, false, 0}, Case{Op::MulI, 2, false, -2}, Case{Op::AndI, 0, true, 0},
                        Case{Op::AndI, -1, false, -1}, Case{Op::OrI, 0, false, -1}, Case{Op::OrI, 1, false, -2},
                        Case{Op::XOrI, 0, true, -1}}) {
    Kernel k;
    const Value x = k.arg(Elem::I32), n = k.i32(c.number);
    const Value v = c.left ? k.binary(c.op, n, x) : k.binary(c.op, x, n);
    const Value got = folded(k, v);
    if (c.expected == -1)
      EXPECT_EQ(got, x) << ir::info(c.op).mnemonic << c.number;
    else if (c.expected == -2)
      EXPECT_EQ(got, v) << ir::info(c.op).mnemonic << c.number;
    else
      EXPECT_EQ(got.def()->op(), Op::Constant) << ir::info(c.op).mnemonic << c.number;
  }
}

TEST(Fold, ChecksThatHoldGo) {
  for (const bool holds : {true, false}) {
    Kernel k;
    const Value x = k.arg(Elem::I32);
    const Value sum = k.binary(Op::AddI, x, k.i32(0));
    const Value same = k.b.create(Op::CmpI, {sum, x}, {Type::tile(Elem::I1)},
                                  {{ir::AttrName::comparison_predicate, ir::ComparisonPredicate::Equal},
                                   {ir::AttrName::signedness, ir::Signedness::Signed}})
                           ->result();
    const Value condition = holds ? same : k.arg(Elem::I1);
    k.b.create(Op::Assert, {condition}, {}, {{ir::AttrName::message, std::string("a check")}});
    ir::Function& f = k.function();
    passes::fold(f);
    EXPECT_EQ(count(f, Op::Assert), holds ? 0u : 1u);
    EXPECT_EQ(problems_of(k.module), "");
  }
}

TEST(Fold, FloatIdentitiesKeepTheSignOfZeroAndDenormals) {
  struct Case {
    Op op;
    double number;
    bool flush, folds;
  };
  for (const Case& c :
       {Case{Op::MulF, 1, false, true}, Case{Op::MulF, 1, true, false}, Case{Op::MulF, 0, false, false},
        Case{Op::AddF, 0, false, false}, Case{Op::AddF, -0.0, false, true}, Case{Op::SubF, 0, false, true},
        Case{Op::SubF, -0.0, false, false}, Case{Op::DivF, 1, false, true}, Case{Op::DivF, 2, false, false}}) {
    Kernel k;
    const Value x = k.arg(Elem::F32), n = k.b.constant_float(Elem::F32, c.number);
    const Value v = k.binary(c.op, x, n);
    if (c.flush) v.def()->set_attr(AttrName::flush_to_zero, ir::UnitAttr{});
    EXPECT_EQ(folded(k, v), c.folds ? x : v) << ir::info(c.op).mnemonic << c.number;
  }
}

TEST(Fold, ConstantsAreComputedAndElementaryFunctionsAreNot) {
  Kernel k;
  const Value sum = k.binary(Op::AddI, k.i32(40), k.i32(2));
  const Value got = folded(k, sum);
  ASSERT_EQ(got.def()->op(), Op::Constant);
  EXPECT_NE(ir::print(*got.def()).find("<i32: 42>"), std::string::npos) << ir::print(*got.def());
  Kernel e;
  const Value one = e.b.constant_float(Elem::F32, 1);
  const Value exp = e.op(Op::Exp, {one}, one.type());
  EXPECT_EQ(folded(e, exp), exp);
}

TEST(Fold, ConversionsThatUndoEachOther) {
  {
    Kernel k;  // narrow -> wide -> narrow: exact
    const Value x = k.arg(Elem::BF16);
    EXPECT_EQ(folded(k, k.op(Op::FToF, {k.op(Op::FToF, {x}, Type::tile(Elem::F32))}, x.type())), x);
  }
  {
    Kernel k;  // wide -> narrow -> wide: rounds
    const Value x = k.arg(Elem::F32);
    const Value back = k.op(Op::FToF, {k.op(Op::FToF, {x}, Type::tile(Elem::BF16))}, x.type());
    EXPECT_EQ(folded(k, back), back);
  }
  {
    Kernel k;  // f16 is not inside bf16
    const Value x = k.arg(Elem::F16);
    const Value back = k.op(Op::FToF, {k.op(Op::FToF, {x}, Type::tile(Elem::BF16))}, x.type());
    EXPECT_EQ(folded(k, back), back);
  }
}

TEST(Fold, Shapes) {
  {
    Kernel k;
    const Value x = k.arg(Elem::F32);
    const Value a = k.op(Op::Reshape, {x}, Type::tile(Elem::F32, {1}));
    const Value b = k.op(Op::Reshape, {a}, Type::tile(Elem::F32, {1, 1}));
    const Value got = folded(k, b);
    EXPECT_EQ(got.def()->operand(0), x);
  }
  {
    Kernel k;
    const Value one = k.b.constant_int(Elem::I32, 7);
    const Value a = k.op(Op::Reshape, {one}, Type::tile(Elem::I32, {1}));
    const Value got = folded(k, k.op(Op::Broadcast, {a}, Type::tile(Elem::I32, {64})));
    EXPECT_EQ(got.def()->op(), Op::Constant);
    EXPECT_EQ(got.type(), Type::tile(Elem::I32, {64}));
  }
  {
    Kernel k;  // a permutation and its inverse
    const Value x =
        k.op(Op::Reshape, {k.op(Op::Iota, {}, Type::tile(Elem::I32, {24 / 3 * 4}))}, Type::tile(Elem::I32, {2, 4, 4}));
    const Value a = k.op(Op::Permute, {x}, Type::tile(Elem::I32, {4, 4, 2}),
                         {{AttrName::permutation, ir::I32ArrayAttr{{1, 2, 0}}}});
    const Value b = k.op(Op::Permute, {a}, x.type(), {{AttrName::permutation, ir::I32ArrayAttr{{2, 0, 1}}}});
    EXPECT_EQ(folded(k, b), x);
  }
}

/// if (condition) 1 else x, and what it becomes.
std::size_t branches_after(Value (*condition)(Kernel&)) {
  Kernel k;
  const Value x = k.arg(Elem::I32), c = condition(k);
  Operation* branch = k.b.create(Op::If, {c}, {x.type()});
  ir::Block& yes = branch->add_region();
  ir::Block& no = branch->add_region();
  const ir::Builder outside = k.b;
  k.b.set_to_end(yes);
  k.b.create(Op::Yield, {k.i32(1)}, {});
  k.b.set_to_end(no);
  k.b.create(Op::Yield, {k.binary(Op::AddI, x, x)}, {});
  k.b = outside;
  k.keep(branch->result());
  ir::Function& f = k.function();
  passes::clean_up(f);
  EXPECT_EQ(problems_of(k.module), "");
  return count(f, Op::If);
}

TEST(Fold, BranchesWhoseConditionIsKnown) {
  EXPECT_EQ(branches_after([](Kernel& k) { return k.b.constant_int(Elem::I1, 1); }), 0u);
  EXPECT_EQ(branches_after([](Kernel& k) { return k.b.constant_int(Elem::I1, 0); }), 0u);
  EXPECT_EQ(branches_after([](Kernel& k) { return k.arg(Elem::I1); }), 1u);
}

/// Branches left of: if (c) { if (inner) {...} }
std::size_t branches_inside(bool same, bool in_else) {
  Kernel k;
  const Value c = k.arg(Elem::I1), other = k.arg(Elem::I1), x = k.arg(Elem::I32);
  const auto branch = [&](Value condition, auto inside) {
    Operation* made = k.b.create(Op::If, {condition}, {x.type()});
    ir::Block& first = made->add_region();
    ir::Block& second = made->add_region();
    const ir::Builder outside = k.b;
    k.b.set_to_end(in_else ? second : first);
    k.b.create(Op::Yield, {inside()}, {});
    k.b.set_to_end(in_else ? first : second);
    k.b.create(Op::Yield, {x}, {});
    k.b = outside;
    return made->result();
  };
  k.keep(branch(c, [&] { return branch(same ? c : other, [&] { return k.binary(Op::MulI, x, x); }); }));
  ir::Function& f = k.function();
  passes::clean_up(f);
  EXPECT_EQ(problems_of(k.module), "");
  return count(f, Op::If);
}

TEST(Fold, InAnArmTheConditionIsKnown) {
  EXPECT_EQ(branches_inside(true, false), 1u);
  EXPECT_EQ(branches_inside(true, true), 1u);
  EXPECT_EQ(branches_inside(false, false), 2u);
}

TEST(Fold, ANumberBelowWhatIsAssumed) {
  using enum ir::ComparisonPredicate;
  struct Case {
    std::int64_t number, lower;
    ir::ComparisonPredicate predicate;
    ir::Signedness signedness;
    bool folds;
  };
  for (const Case& c :
       {Case{0, 1, Less, ir::Signedness::Signed, true}, Case{1, 1, Less, ir::Signedness::Signed, false},
        Case{0, 1, Greater, ir::Signedness::Signed, false}, Case{-2, 1, Less, ir::Signedness::Unsigned, false}}) {
    Kernel k;
    const Value x = k.arg(Elem::I32);
    const Value known = k.op(Op::Assume, {x}, x.type(), {{AttrName::predicate, ir::BoundedAttr{c.lower, {}}}});
    const Value less = k.op(Op::CmpI, {k.i32(c.number), known}, Type::tile(Elem::I1),
                            {{AttrName::comparison_predicate, c.predicate}, {AttrName::signedness, c.signedness}});
    EXPECT_EQ(folded(k, less).def()->op() == Op::Constant, c.folds) << c.number << " and at least " << c.lower;
  }
}

TEST(Fold, NothingIsAboveTheLargestUnsignedNumber) {
  using enum ir::ComparisonPredicate;
  for (const Elem elem : {Elem::I8, Elem::I32, Elem::I64}) {
    for (const auto how : {Less, LessEqual, Greater, GreaterEqual}) {
      for (const auto sign : {ir::Signedness::Signed, ir::Signedness::Unsigned}) {
        for (const bool first : {false, true}) {
          for (const std::int64_t number : {-1, -2, 127}) {
            Kernel k;
            const Value x = k.arg(elem), n = k.b.constant_int(elem, number);
            const Value compared = k.op(Op::CmpI, {first ? n : x, first ? x : n}, Type::tile(Elem::I1),
                                        {{AttrName::comparison_predicate, how}, {AttrName::signedness, sign}});
            const bool folds = number == -1 && sign == ir::Signedness::Unsigned && how == (first ? Less : Greater);
            const Value v = folded(k, compared);
            EXPECT_EQ(v.def()->op() == Op::Constant, folds) << number << " " << first << " " << static_cast<int>(how);
            EXPECT_EQ(analysis::constant_int(v), folds ? std::optional<std::int64_t>(0) : std::nullopt);
          }
        }
      }
    }
  }
}

/// for i in (0 to n): sum += x
struct Sum {
  Kernel k;
  ir::Function* f = nullptr;
  Value x, total;
  Sum(std::optional<std::int64_t> n, bool adds = true) {
    const Value zero = k.i32(0), one = k.i32(1), high = n ? k.i32(*n) : k.arg(Elem::I32);
    x = k.arg(Elem::I32);
    Operation* loop = k.b.create(Op::For, {zero, high, one, x}, {x.type()});
    ir::Block& body = loop->add_region();
    body.add_arg(zero.type());
    const Value sum = body.add_arg(x.type());
    const ir::Builder outside = k.b;
    k.b.set_to_end(body);
    k.b.create(Op::Continue, {adds ? k.binary(Op::AddI, sum, k.binary(Op::MulI, x, x)) : sum}, {});
    k.b = outside;
    k.keep(loop->result());
    f = &k.function();
  }
};

TEST(Fold, LoopsOfNoOneAndUnknownIterations) {
  Sum none(0), once(1), twice(2), unknown({});
  for (Sum* s : {&none, &once, &twice, &unknown}) {
    passes::clean_up(*s->f);
    EXPECT_EQ(problems_of(s->k.module), "");
  }
  EXPECT_EQ(count(*none.f, Op::For), 0u);
  EXPECT_EQ(first(*none.f, Op::StorePtrTko)->single("value"), none.x);
  EXPECT_EQ(count(*once.f, Op::For), 0u);
  EXPECT_EQ(count(*twice.f, Op::For), 1u);
  EXPECT_EQ(count(*unknown.f, Op::For), 1u);
}

TEST(Fold, ValuesCarriedRoundUnchanged) {
  Sum idle({}, false);
  passes::clean_up(*idle.f);
  EXPECT_EQ(count(*idle.f, Op::For), 0u);
  EXPECT_EQ(first(*idle.f, Op::StorePtrTko)->single("value"), idle.x);
}

TEST(Hoist, WhatDoesNotChangeLeavesTheLoop) {
  Sum s({});
  EXPECT_TRUE(passes::hoist_invariants(*s.f));
  EXPECT_EQ(problems_of(s.k.module), "");
  EXPECT_EQ(first(*s.f, Op::MulI)->parent_op(), nullptr);
  EXPECT_NE(first(*s.f, Op::AddI)->parent_op(), nullptr);
  EXPECT_FALSE(passes::hoist_invariants(*s.f)) << "nothing left to do";
}

/// A kernel with a loop from 0 to an argument that carries a number, which starts with the argument x.
struct Carrying {
  Kernel k;
  Value x, carried;

  /// `next` builds the body and gives what the next iteration carries.
  template <class Next>
  explicit Carrying(Next next) {
    const Value zero = k.i32(0), n = k.arg(Elem::I32);
    x = k.arg(Elem::I32);
    Operation* loop = k.b.create(Op::For, {zero, n, k.i32(1), x}, {x.type()});
    ir::Block& body = loop->add_region();
    body.add_arg(zero.type());
    carried = body.add_arg(x.type());
    const ir::Builder outside = k.b;
    k.b.set_to_end(body);
    k.b.create(Op::Continue, {next(*this)}, {});
    k.b = outside;
    k.keep(loop->result());
  }
};

TEST(Hoist, AssumptionsStay) {
  Carrying loop([](Carrying& c) {
    const Value known = c.k.op(Op::Assume, {c.x}, c.x.type(), {{AttrName::predicate, ir::DivByAttr{16, {}, {}}}});
    return c.k.binary(Op::AddI, c.carried, known);
  });
  EXPECT_FALSE(passes::hoist_invariants(loop.k.function())) << "the loop may run no iteration, and x be anything";
}

/// A reduction in a loop whose body uses a value from outside: one that the loop carries, or not.
bool reduction_leaves_the_loop(bool carried) {
  Operation* reduce = nullptr;
  Carrying loop([&](Carrying& c) {
    const ir::Type one = c.x.type();
    const Value tile = c.k.op(Op::Iota, {}, Type::tile(Elem::I32, {64}));
    reduce = c.k.b.create(Op::Reduce, {tile}, {one},
                          {{AttrName::dim, ir::IntAttr{Elem::I64, 0}},
                           {AttrName::identities, ir::ArrayAttr{{ir::IntAttr{Elem::I32, 0}}}}});
    ir::Block& step = reduce->add_region();
    const Value p = step.add_arg(one), q = step.add_arg(one);
    ir::Builder inner(step);
    const Value scaled = inner.create(Op::MulI, {q, carried ? c.carried : c.x}, {one})->result();
    inner.create(Op::Yield, {inner.create(Op::AddI, {p, scaled}, {one})->result()}, {});
    return c.k.binary(Op::MulI, c.carried, reduce->result());
  });
  passes::hoist_invariants(loop.k.function());
  EXPECT_EQ(problems_of(loop.k.module), "");
  return reduce->parent_op() == nullptr;
}

TEST(Hoist, NotWhatReadsAValueOfTheLoopInARegion) {
  EXPECT_TRUE(reduction_leaves_the_loop(false));
  EXPECT_FALSE(reduction_leaves_the_loop(true));
}

TEST(Hoist, LargeSpreadsStayWithoutAReason) {
  Kernel k;
  const Value zero = k.i32(0), one = k.i32(1), n = k.arg(Elem::I32), x = k.arg(Elem::F32);
  const Type big = Type::tile(Elem::F32, {64, 64});
  const Value start = k.b.constant_float(Elem::F32, 0, big.shape());
  Operation* loop = k.b.create(Op::For, {zero, n, one, start}, {big});
  ir::Block& body = loop->add_region();
  body.add_arg(zero.type());
  const Value sum = body.add_arg(big);
  const ir::Builder outside = k.b;
  k.b.set_to_end(body);
  const Value ones = k.op(Op::Reshape, {x}, Type::tile(Elem::F32, {1, 1}));
  const Value wide = k.op(Op::Broadcast, {ones}, big);
  k.b.create(Op::Continue, {k.binary(Op::AddF, sum, wide)}, {});
  k.b = outside;
  k.keep(loop->result());
  ir::Function& f = k.function();
  passes::hoist_invariants(f);
  EXPECT_EQ(ones.def()->parent_op(), nullptr);
  EXPECT_EQ(wide.def()->parent_op(), loop);
}

TEST(Merge, EqualOperationsWhereOneDominates) {
  Kernel k;
  const Value x = k.arg(Elem::I32), y = k.arg(Elem::I32), c = k.arg(Elem::I1);
  Operation* branch = k.b.create(Op::If, {c}, {x.type()});
  ir::Block& yes = branch->add_region();
  ir::Block& no = branch->add_region();
  const ir::Builder outside = k.b;
  for (ir::Block* b : {&yes, &no}) {
    k.b.set_to_end(*b);
    k.b.create(Op::Yield, {k.binary(Op::AddI, x, y)}, {});
  }
  k.b = outside;
  const Value a = k.binary(Op::MulI, x, y), b = k.binary(Op::MulI, x, y), other = k.binary(Op::MulI, y, y);
  for (const Value v : {branch->result(), a, b, other}) k.keep(v);
  ir::Function& f = k.function();
  EXPECT_TRUE(passes::eliminate_common(f));
  EXPECT_EQ(problems_of(k.module), "");
  EXPECT_EQ(count(f, Op::MulI), 2u);
  EXPECT_EQ(count(f, Op::AddI), 2u) << "neither branch dominates the other";
}

TEST(Merge, AttributesAndRegionsCount) {
  Kernel k;
  const Value x = k.op(Op::Iota, {}, Type::tile(Elem::I32, {64}));
  const auto reduction = [&](Op o) {
    Operation* r = k.b.create(Op::Reduce, {x}, {Type::tile(Elem::I32)},
                              {{AttrName::dim, ir::IntAttr{Elem::I64, 0}},
                               {AttrName::identities, ir::ArrayAttr{{ir::IntAttr{Elem::I32, 0}}}}});
    ir::Block& body = r->add_region();
    const Value p = body.add_arg(Type::tile(Elem::I32)), q = body.add_arg(Type::tile(Elem::I32));
    ir::Builder inner(body);
    inner.create(Op::Yield, {inner.create(o, {p, q}, {p.type()})->result()}, {});
    return r->result();
  };
  for (const Op o : {Op::AddI, Op::AddI, Op::OrI}) k.keep(reduction(o));
  const Value a = k.arg(Elem::I32), b = k.arg(Elem::I32);
  for (const auto sign : {ir::Signedness::Signed, ir::Signedness::Unsigned, ir::Signedness::Signed})
    k.keep(k.op(Op::MaxI, {a, b}, a.type(), {{AttrName::signedness, sign}}));
  ir::Function& f = k.function();
  passes::eliminate_common(f);
  EXPECT_EQ(problems_of(k.module), "");
  EXPECT_EQ(count(f, Op::Reduce), 2u);
  EXPECT_EQ(count(f, Op::MaxI), 2u);
}

TEST(Merge, UnorderedLoadsButNotOrderedOnes) {
  Kernel k;
  const Value v = k.view(Elem::F32, {64}), zero = k.i32(0);
  Operation* a = k.load(v, {zero});
  Operation* b = k.load(v, {zero});
  k.keep(a->result());
  k.keep(b->result());
  Kernel ordered;
  const Value w = ordered.view(Elem::F32, {64}), none = ordered.i32(0);
  Operation* l = ordered.load(w, {none});
  ordered.keep(l->result());
  ordered.store(l->result(), w, {none}, {}, l->result(1));
  Operation* after = ordered.load(w, {none});
  ordered.keep(after->result());
  ir::Function& f = k.function();
  ir::Function& g = ordered.function();
  passes::eliminate_common(f);
  passes::eliminate_common(g);
  EXPECT_EQ(count(f, Op::LoadViewTko), 1u);
  EXPECT_EQ(count(g, Op::LoadViewTko), 2u) << "a store waits for one of them";
}

}  // namespace THIS_FILE
