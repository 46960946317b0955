// A comparison of places with a number that is known not to be small has the same outcome after the pass, and what is
// sure does not depend on the number.
#include <random>

#include "passes/accepting.hpp"
#include "passes/pass_support.hpp"
#include "tessera/codegen/cpu/program.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::test;
using ir::AttrName;
using ir::ComparisonPredicate;
using ir::Elem;
using ir::Op;
using ir::Signedness;
using ir::Type;
using ir::Value;

constexpr std::int64_t kTile = 64;

/// Stores 1 where places of a tile compare with a number in this way.
struct Masked : Kernel {
  struct Form {
    ComparisonPredicate how = ComparisonPredicate::Less;
    bool number_first = false;
    Signedness sign = Signedness::Signed;
    std::optional<std::int64_t> lower = 49, upper = kTile;
    Elem places = Elem::I32;  ///< the number is an argument of this type, or for i32 one of i64
    std::int64_t tile = kTile;
  };
  explicit Masked(Form form) {
    const bool narrows = form.places == Elem::I32;
    number = arg(narrows ? Elem::I64 : form.places);
    Value n = number;
    if (form.lower || form.upper)
      n = op(Op::Assume, {n}, n.type(), {{AttrName::predicate, ir::BoundedAttr{form.lower, form.upper}}});
    n = op(Op::Assume, {n}, n.type(), {{AttrName::predicate, ir::DivByAttr{1, {}, {}}}});
    compare(narrows ? op(Op::TruncI, {n}, Type::tile(Elem::I32)) : n, form);
  }
  /// The same with a number of any other origin.
  Masked(Form form, Value (*make)(Masked&)) {
    number = arg(Elem::I64);
    compare(make(*this), form);
  }

  /// True if the pass has changed something; what it leaves is legal.
  bool unmasked() {
    const std::string before = text();
    const bool changed = passes::unmask(*f, &kAcceptAll);
    EXPECT_EQ(problems_of(module), "");
    EXPECT_EQ(changed, text() != before);
    return changed;
  }

  std::vector<std::int32_t> run(std::int64_t n) {
    std::vector<std::int32_t> out(static_cast<std::size_t>(tile), -1);
    const std::uint64_t slots[] = {static_cast<std::uint64_t>(n), reinterpret_cast<std::uintptr_t>(out.data())};
    cpu::Program::compile(module)->run({1, 1, 1}, slots, {});
    return out;
  }

  Value number;
  std::int64_t tile = kTile;
  ir::Function* f = nullptr;

 private:
  void compare(Value n, const Form& form) {
    tile = form.tile;
    const Type t = Type::tile(form.places, {form.tile}), flag = Type::tile(Elem::I32, {form.tile});
    Value places = op(Op::Iota, {}, t), right = op(Op::Reshape, {n}, Type::tile(form.places, {1}));
    right = op(Op::Broadcast, {right}, t);
    if (form.number_first) std::swap(places, right);
    const Value compared = op(Op::CmpI, {places, right}, t.with_element(Elem::I1),
                              {{AttrName::comparison_predicate, form.how}, {AttrName::signedness, form.sign}});
    const Value one = b.constant_int(Elem::I32, 1, t.shape()), zero = b.constant_int(Elem::I32, 0, t.shape());
    const Value flags = op(Op::Select, {compared, one, zero}, flag);
    Value p = pointer(Elem::I32);
    p = op(Op::Reshape, {p}, p.type().with_shape(std::vector<std::int64_t>{1}));
    p = op(Op::Broadcast, {p}, p.type().with_shape(t.shape()));
    p = op(Op::Offset, {p, op(Op::Iota, {}, flag)}, p.type());
    const std::vector<Value> operands{p, flags};
    const std::vector<std::uint32_t> groups{1, 1, 0, 0};
    const std::vector<Type> types{Type::token()};
    b.create_grouped(Op::StorePtrTko, operands, groups, types, {weak()});
    f = &function();
  }
};

TEST(Unmask, WhatIsSureDependsOnConstantsAlone) {
  Masked m({});
  ASSERT_TRUE(m.unmasked());
  const ir::Operation* either = first(*m.f, Op::OrI);
  ASSERT_TRUE(either);
  const ir::Operation* sure = either->operand(0).def();
  ASSERT_EQ(sure->op(), Op::CmpI);
  EXPECT_EQ(sure->operand(0).def()->op(), Op::Iota);
  const auto* edge = sure->operand(1).def()->attr(AttrName::value)->as<ir::DenseAttr>();
  EXPECT_EQ(std::to_integer<int>(edge->bytes[0]), 48) << "49 in whole quarters of 64";
  EXPECT_EQ(count(*m.f, Op::CmpI), 2u);
}

TEST(Unmask, TheOutcomeIsTheSame) {
  int changed = 0;
  for (const auto how : {ComparisonPredicate::Less, ComparisonPredicate::LessEqual, ComparisonPredicate::Greater,
                         ComparisonPredicate::GreaterEqual}) {
    for (const bool number_first : {false, true}) {
      for (const auto sign : {Signedness::Signed, Signedness::Unsigned}) {
        for (const std::int64_t lower : {15, 16, 17, 33, 48, 49, 64}) {
          const Masked::Form form{how, number_first, sign, lower, 1000};
          Masked before(form), after(form);
          changed += after.unmasked() ? 1 : 0;
          EXPECT_EQ(count(*after.f, Op::CmpI), lower >= 16 ? 2u : 1u);
          for (std::int64_t n = lower; n <= kTile + 2; ++n)
            ASSERT_EQ(before.run(n), after.run(n)) << int(how) << " " << number_first << " " << lower << ": " << n;
        }
      }
    }
  }
  EXPECT_EQ(changed, 4 * 2 * 2 * 6);
}

// Places of as many bits as the tile needs are negative in its upper half, or not, as the comparison says.
TEST(Unmask, PlacesOfFewBits) {
  const std::pair<Elem, std::int64_t> narrow[] = {
      {Elem::I8, 256}, {Elem::I8, 128}, {Elem::I16, 65536}, {Elem::I64, 64}};
  for (const auto& [places, tile] : narrow) {
    for (const auto how : {ComparisonPredicate::Less, ComparisonPredicate::LessEqual, ComparisonPredicate::Greater,
                           ComparisonPredicate::GreaterEqual}) {
      for (const bool number_first : {false, true}) {
        for (const auto sign : {Signedness::Signed, Signedness::Unsigned}) {
          const std::int64_t lower = tile / 4 + 1, upper = tile > 64 ? tile / 2 - 1 : tile;
          const Masked::Form form{how, number_first, sign, lower, upper, places, tile};
          Masked before(form), after(form);
          EXPECT_TRUE(after.unmasked());
          for (const std::int64_t n : {lower, (lower + upper) / 2, upper})
            ASSERT_EQ(before.run(n), after.run(n)) << tile << " " << int(how) << " " << number_first << ": " << n;
        }
      }
    }
  }
}

TEST(Unmask, OnlyWhatIsKnown) {
  using How = ComparisonPredicate;
  EXPECT_TRUE(Masked({}).unmasked());
  EXPECT_FALSE(Masked({.lower = {}, .upper = {}}).unmasked()) << "nothing is known";
  EXPECT_FALSE(Masked({.lower = {}}).unmasked()) << "it may be small";
  EXPECT_FALSE(Masked({.lower = 15}).unmasked()) << "less than a quarter";
  EXPECT_FALSE(Masked({.lower = -49}).unmasked());
  EXPECT_FALSE(Masked({.upper = {}}).unmasked()) << "what 32 bits hold of it may be small";
  EXPECT_FALSE(Masked({.upper = std::int64_t{1} << 31}).unmasked());
  EXPECT_TRUE(Masked({.upper = 0x7FFFFFFF}).unmasked());
  EXPECT_FALSE(Masked({.how = How::Equal}).unmasked());
  EXPECT_FALSE(Masked({.how = How::NotEqual}).unmasked());
}

Value constant(Masked& m) { return m.i32(50); }
Value at_most(Masked& m, std::int64_t most, Signedness sign) {
  const Value n = m.op(Op::Assume, {m.number}, m.number.type(), {{AttrName::predicate, ir::BoundedAttr{49, 1000}}});
  const Value least = m.op(Op::MinI, {n, m.b.constant_int(Elem::I64, most)}, n.type(), {{AttrName::signedness, sign}});
  return m.op(Op::TruncI, {least}, Type::tile(Elem::I32));
}
Value at_most_50(Masked& m) { return at_most(m, 50, Signedness::Signed); }
Value at_most_10(Masked& m) { return at_most(m, 10, Signedness::Signed); }
Value at_most_50_unsigned(Masked& m) { return at_most(m, 50, Signedness::Unsigned); }

template <int Upper>
Value in_16_bits(Masked& m) {
  const Value n = m.op(Op::Assume, {m.number}, m.number.type(), {{AttrName::predicate, ir::BoundedAttr{49, Upper}}});
  return m.op(Op::TruncI, {n}, Type::tile(Elem::I16));
}

TEST(Unmask, WhereTheNumberComesFrom) {
  EXPECT_FALSE(Masked({}, constant).unmasked()) << "the assembler decides that itself";
  EXPECT_TRUE(Masked({}, at_most_50).unmasked());
  EXPECT_FALSE(Masked({}, at_most_10).unmasked());
  EXPECT_FALSE(Masked({}, at_most_50_unsigned).unmasked());
  EXPECT_TRUE(Masked({.places = Elem::I16}, in_16_bits<0x7FFF>).unmasked());
  EXPECT_FALSE(Masked({.places = Elem::I16}, in_16_bits<0x8000>).unmasked()) << "it may be negative";
}

}  // namespace THIS_FILE
