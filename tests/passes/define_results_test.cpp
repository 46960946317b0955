// Division by zero and by -1, NaN to integers and scans along any axis compute the same after the passes for a GPU as
// before, on the CPU, whose semantics are the definition; and where nothing is undefined nothing is added.
#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "lang/run_kernel.hpp"
#include "passes/pass_support.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::test;

template <class T>
void divide(Mut<T, 64> q, Mut<T, 64> r, In<T, dyn> x, In<T, dyn> y) {
  const auto a = x.load_like(q), b = y.load_like(q);
  q.store(a / b);
  r.store(a % b);
}
template <class T>
void divide_by_seven(Mut<T, 64> q, Mut<T, 64> r, In<T, dyn> x) {
  const auto a = x.load_like(q);
  q.store(a / T{7});
  r.store(a % T{7});
}
template <class From, class To>
void convert(Mut<To, 64> y, In<From, dyn> x) {
  y.store(cast<To>(x.load_like(y)));
}
void scans(Mut<i32, 8, 16> down, Mut<i32, 8, 16> up, Mut<i32, 8, 16> along, In<i32, dyn, dyn> x) {
  const auto t = x.load_like(down);
  down.store(scan(t, axis<0>, 0, [](auto a, auto b) { return a + b; }));
  up.store(scan(
      t, axis<0>, -20, [](auto a, auto b) { return max(max(a, b), -20); }, backward));
  along.store(cumsum(t, axis<1>));
}

template <class T>
void expect_equal(const std::vector<T>& expected, const std::vector<T>& found) {
  ASSERT_EQ(std::memcmp(expected.data(), found.data(), expected.size() * sizeof(T)), 0);
}

/// The kernel as recorded and after the passes, of whose claims none is certified; both run over copies of the same
/// arguments.
template <auto K, class... A>
std::unique_ptr<ir::Module> expect_same(cpu::Grid grid, const A&... arguments) {
  lang::Trace t = lang::trace<K>();
  const auto run = [&](const ir::Module& module, bool launch_flags = false) {
    std::tuple<A...> copies{arguments...};
    Slots slots;
    std::apply([&](auto&... a) { (slots.add(a), ...); }, copies);
    if (lang::counts_blocks(t.params)) slots.add(static_cast<std::int32_t>(grid.x));
    if (launch_flags) slots.add(0);
    cpu::Program::compile(module)->run(grid, slots.values());
    return copies;
  };
  const auto expected = run(*t.module);
  auto optimized = ir::clone(*t.module);
  const bool launch_flags = passes::optimize(*optimized, {90, 132}).abi.launch_flags;
  EXPECT_EQ(problems(*optimized), "");
  const auto found = run(*optimized, launch_flags);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (expect_equal(std::get<I>(expected).data, std::get<I>(found).data), ...);
  }(std::index_sequence_for<A...>{});
  return optimized;
}

/// Selects that any kernel with one input has, for regions that broadcast.
std::size_t plain_selects() {
  const Array<std::int32_t> x({64});
  return count(*expect_same<convert<std::int32_t, std::int32_t>>(cpu::Grid{1}, x, x)->functions[0], ir::Op::Select);
}

template <class T>
void check_division() {
  const T low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  const T special[] = {0, 1, static_cast<T>(-1), low, high, 7, static_cast<T>(-7), 2};
  Array<T> x({64}), y({64}), out({64}, T{99});
  x.each([&](std::int64_t i) { return special[i / 8]; });
  y.each([&](std::int64_t i) { return special[i % 8]; });
  const auto guarded = expect_same<divide<T>>(cpu::Grid{1}, out, out, x, y);
  EXPECT_GE(count(*guarded->functions[0], ir::Op::Select), plain_selects() + 3);
  const auto plain = expect_same<divide_by_seven<T>>(cpu::Grid{1}, out, out, x);
  EXPECT_EQ(count(*plain->functions[0], ir::Op::Select), plain_selects()) << "a divisor that is 7 needs no guard";
}

TEST(DefineResults, DivisionByZeroAndMinusOne) {
  check_division<std::int32_t>();
  check_division<std::int64_t>();
  check_division<std::int8_t>();
  check_division<std::uint32_t>();
  check_division<std::uint64_t>();
}

/// The divisor of x after the pass, where the kernel divides by `y`.
std::int32_t divisor_for(ir::Op division, ir::Signedness sign, std::int32_t y) {
  Kernel k;
  const ir::Value x = k.arg(ir::Elem::I32), by = k.arg(ir::Elem::I32);
  k.keep(k.op(division, {x, by}, x.type(), {{ir::AttrName::signedness, sign}}));
  k.b.create(ir::Op::Return, {}, {});
  ir::Function& f = *k.module.functions[0];
  passes::define_results(f, nullptr, nullptr);
  ir::Operation* divided = first(f, division);
  k.b = ir::Builder::before(divided->next());
  k.keep(divided->operand(1));
  EXPECT_EQ(problems_of(k.module), "");
  std::int32_t result = 0, divisor = 0;
  const std::uint64_t slots[] = {12, static_cast<std::uint32_t>(y), reinterpret_cast<std::uintptr_t>(&result),
                                 reinterpret_cast<std::uintptr_t>(&divisor)};
  cpu::Program::compile(k.module)->run({}, slots, {});
  return divisor;
}

TEST(DefineResults, NothingIsDividedByZeroOrSignedMinusOne) {
  for (const ir::Op division : {ir::Op::DivI, ir::Op::RemI}) {
    for (const auto sign : {ir::Signedness::Signed, ir::Signedness::Unsigned}) {
      EXPECT_EQ(divisor_for(division, sign, 5), 5);
      EXPECT_EQ(divisor_for(division, sign, -5), -5);
      EXPECT_EQ(divisor_for(division, sign, 0), 1) << "Tile IR leaves x / 0 undefined";
    }
    EXPECT_EQ(divisor_for(division, ir::Signedness::Signed, -1), 1) << "and the smallest number divided by -1";
    EXPECT_EQ(divisor_for(division, ir::Signedness::Unsigned, -1), -1);
  }
}

/// Certifies that the divisors of some divisions are positive.
struct PositiveDivisors final : passes::Certifier {
  std::vector<const ir::Operation*> of;
  mutable std::vector<const ir::Operation*> asked;
  std::vector<bool> judge(const ir::Function&, std::span<const analysis::Claim> claims) const override {
    std::vector<bool> all;
    for (const analysis::Claim& c : claims) {
      EXPECT_EQ(c.kind, analysis::ClaimKind::AtLeast);
      EXPECT_EQ(c.index, 1) << "the divisor";
      EXPECT_EQ(c.lower, 1) << "not 0, and not -1";
      asked.push_back(c.op);
      all.push_back(std::ranges::count(of, c.op) != 0);
    }
    return all;
  }
};

/// Quotients and remainders by a count of tiles of a tensor, by an argument, and by 7.
struct Divisions {
  Kernel k;
  analysis::LaunchContract contract;
  std::vector<ir::Operation*> by_count;
  ir::Value count;

  Divisions() {
    using analysis::ArgRole;
    k.pointer(ir::Elem::F32);
    const ir::Type i32 = ir::Type::tile(ir::Elem::I32);
    const ir::Value dim = k.op(ir::Op::TruncI, {k.arg(ir::Elem::I64)}, i32);
    const ir::Value x = k.arg(ir::Elem::I32), y = k.arg(ir::Elem::I32);
    contract.args = {{ArgRole::Base, 0, -1}, {ArgRole::Dim, 0, 0}, {}, {}};
    contract.tensors = {{0, 1, true, true, true}};
    contract.pieces_of_tensor = 0;
    contract.piece = {16};
    count = k.op(
        ir::Op::DivI, {dim, k.i32(16)}, i32,
        {{ir::AttrName::signedness, ir::Signedness::Unsigned}, {ir::AttrName::rounding, ir::Rounding::PositiveInf}});
    for (const ir::Op division : {ir::Op::DivI, ir::Op::RemI})
      for (const auto sign : {ir::Signedness::Signed, ir::Signedness::Unsigned}) {
        const auto divided = [&](ir::Value by) {
          const ir::Value v = k.op(division, {x, by}, i32, {{ir::AttrName::signedness, sign}});
          k.keep(v);
          return v.def();
        };
        by_count.push_back(divided(count));
        divided(y);
        divided(k.i32(7));
      }
    k.function();
    for (std::size_t a = contract.args.size(); a < k.module.functions[0]->body().num_args(); ++a)
      contract.args.push_back({});  // addresses of what is kept
  }
  /// A bit for each division by the count: nothing was added.
  int kept_after(const passes::Certifier* certifier, bool with_contract = true) {
    ir::Function& f = *k.module.functions[0];
    passes::define_results(f, with_contract ? &contract : nullptr, certifier);
    EXPECT_EQ(problems_of(k.module), "");
    // Each guard chooses a divisor and a result, of signed numbers another one for -1.
    constexpr std::size_t kSelects[] = {3, 2, 3, 2};
    std::size_t selects = 0;
    int kept = 0;
    for (std::size_t i = 0; i < by_count.size(); ++i) {
      const bool is_kept = by_count[i]->operand(1) == count;
      EXPECT_EQ(by_count[i]->operand(1).def()->op(), is_kept ? ir::Op::DivI : ir::Op::Select);
      kept |= is_kept ? 1 << i : 0;
      selects += kSelects[i] * (is_kept ? 1 : 2);
    }
    EXPECT_EQ(tessera::test::count(f, ir::Op::Select), selects) << "quotients by an argument are guarded, by 7 not";
    return kept;
  }
};

TEST(DefineResults, DivisorsThatArePositiveNeedNoGuard) {
  for (int kept = 0; kept < 16; ++kept) {
    Divisions d;
    PositiveDivisors certifier;
    for (std::size_t i = 0; i < 4; ++i)
      if ((kept >> i & 1) != 0) certifier.of.push_back(d.by_count[i]);
    EXPECT_EQ(d.kept_after(&certifier), kept);
    EXPECT_EQ(certifier.asked, std::vector<const ir::Operation*>(d.by_count.begin(), d.by_count.end()));
  }
}

/// What is asked about divisors of a kernel whose contract `change` changes; certified is all.
template <class F>
std::size_t asked_of(F change) {
  Divisions d;
  PositiveDivisors certifier;
  certifier.of.assign(d.by_count.begin(), d.by_count.end());
  const bool with_contract = change(d.contract);
  const int kept = d.kept_after(&certifier, with_contract);
  EXPECT_EQ(kept, certifier.asked.empty() ? 0 : 15);
  return certifier.asked.size();
}
TEST(DefineResults, NothingIsAskedOfWhatMayBeZero) {
  using analysis::LaunchContract;
  EXPECT_EQ(Divisions().kept_after(nullptr), 0) << "no certifier";
  EXPECT_EQ(asked_of([](LaunchContract&) { return true; }), 4u) << "the twin";
  EXPECT_EQ(asked_of([](LaunchContract&) { return false; }), 0u) << "no contract";
  const auto of_other = [](bool nonempty) {
    return asked_of([nonempty](LaunchContract& c) {
      c.pieces_of_tensor = -1;
      c.tensors[0].nonempty = nonempty;
      return true;
    });
  };
  EXPECT_EQ(of_other(true), 4u);
  EXPECT_EQ(of_other(false), 0u) << "a tensor that may be empty";
  EXPECT_EQ(asked_of([](LaunchContract& c) {
              c.args[1].role = analysis::ArgRole::Value;
              return true;
            }),
            0u)
      << "any number";
}

template <class From, class To>
std::size_t selects_of_conversion() {
  Array<From> x({64});
  const double special[] = {0.0 / 0.0, 1e30, -1e30, 3.7, -3.7, 1.0 / 0.0, -1.0 / 0.0, 0.0};
  x.each([&](std::int64_t i) { return static_cast<From>(static_cast<float>(special[i % 8])); });
  const auto module = expect_same<convert<From, To>>(cpu::Grid{1}, Array<To>({64}, To{55}), x);
  return count(*module->functions[0], ir::Op::Select) - plain_selects();
}

TEST(DefineResults, NanToIntegers) {
  EXPECT_EQ((selects_of_conversion<double, std::int32_t>()), 1u);
  EXPECT_EQ((selects_of_conversion<float, std::int64_t>()), 1u);
  EXPECT_EQ((selects_of_conversion<f16, std::uint64_t>()), 1u);
  EXPECT_EQ((selects_of_conversion<float, std::int32_t>()), 0u) << "the hardware's conversion gives 0";
}

/// Selects after a conversion of f32 to 32 bits that `x` is converted by, and what it is converted from.
struct Conversion {
  std::size_t selects;
  ir::Elem from;
};
template <class F>
Conversion conversion_of(ir::Signedness sign, F x) {
  Kernel k;
  const ir::Value source = x(k);
  k.keep(k.op(ir::Op::FToI, {source}, source.type().with_element(ir::Elem::I32), {{ir::AttrName::signedness, sign}}));
  ir::Function& f = k.function();
  passes::define_results(f, nullptr, nullptr);
  EXPECT_EQ(problems_of(k.module), "");
  return {count(f, ir::Op::Select), first(f, ir::Op::FToI)->operand(0).type().elem()};
}

TEST(DefineResults, NumbersThatTheAssemblerKnowsAreConverted) {
  using ir::Elem;
  constexpr auto kSigned = ir::Signedness::Signed, kUnsigned = ir::Signedness::Unsigned;
  const auto padded = [](ir::PaddingValue padding) {
    return [padding](Kernel& k) { return k.load(k.view(Elem::F32, {4}, padding), {k.i32(0)})->result(0); };
  };
  const auto from = [](Elem integer, Elem to, ir::Signedness sign) {
    return [=](Kernel& k) {
      return k.op(ir::Op::IToF, {k.arg(integer)}, ir::Type::tile(to), {{ir::AttrName::signedness, sign}});
    };
  };
  EXPECT_EQ(conversion_of(kSigned, padded(ir::PaddingValue::Zero)).selects, 0u) << "0 is in range";
  EXPECT_EQ(conversion_of(kSigned, padded(ir::PaddingValue::PosInf)).selects, 1u);
  EXPECT_EQ(conversion_of(kSigned, padded(ir::PaddingValue::NegInf)).selects, 1u);
  EXPECT_EQ(conversion_of(kUnsigned, padded(ir::PaddingValue::NaN)).selects, 1u);
  // The assembler takes a conversion there and back for a copy of the integer. One of the selects is that of NaN, for
  // f64.
  EXPECT_EQ(conversion_of(kSigned, from(Elem::I32, Elem::F64, kSigned)).selects, 1u);
  EXPECT_EQ(conversion_of(kUnsigned, from(Elem::I32, Elem::F64, kSigned)).selects, 2u) << "negative numbers";
  EXPECT_EQ(conversion_of(kSigned, from(Elem::I32, Elem::F64, kUnsigned)).selects, 2u) << "2^31 and more";
  EXPECT_EQ(conversion_of(kSigned, from(Elem::I64, Elem::F64, kSigned)).selects, 3u);
  EXPECT_EQ(conversion_of(kSigned, [](Kernel& k) { return k.arg(Elem::F32); }).selects, 0u);
  const Conversion narrow = conversion_of(kSigned, [](Kernel& k) { return k.arg(Elem::F16); });
  EXPECT_EQ(narrow.selects, 0u);
  EXPECT_EQ(narrow.from, Elem::F32) << "the assembler takes numbers of f16 for finite";
  EXPECT_EQ(conversion_of(kSigned, [](Kernel& k) { return k.arg(Elem::BF16); }).from, Elem::BF16);
}

void pads(Mut<i32, 64> i, Mut<u32, 64> u, Mut<i64, 64> wide, In<f32, dyn> x) {
  i.store(cast<i32>(x.load_at(shape<64>, 0, pad::pos_inf)) + 2);
  u.store(cast<u32>(x.load_at(shape<64>, 0, pad::neg_inf) * 2.0f));
  wide.store(cast<i64>(x.load_at(shape<64>, 0, pad::nan)));
}
void there_and_back(Mut<i32, 64> low, Mut<u32, 64> high, In<i64, dyn> x) {
  const auto t = cast<f64>(x.load_like(low));
  low.store(cast<i32>(t));
  high.store(cast<u32>(t));
}
TEST(DefineResults, PaddingAndIntegersThatWereConvertedSaturate) {
  Array<float> x({10});
  x.each([](std::int64_t i) { return static_cast<float>(i) * 1e9f - 4e9f; });
  expect_same<pads>(cpu::Grid{1}, Array<std::int32_t>({64}), Array<std::uint32_t>({64}), Array<std::int64_t>({64}), x);
  Array<std::int64_t> numbers({64});
  numbers.each([](std::int64_t i) { return (i - 32) * (std::int64_t{1} << i % 50); });
  expect_same<there_and_back>(cpu::Grid{1}, Array<std::int32_t>({64}), Array<std::uint32_t>({64}), numbers);
}

template <class T>
void shift(Mut<T, 64> left, Mut<T, 64> right, In<T, dyn> x, In<T, dyn> by) {
  const auto a = x.load_like(left), n = by.load_like(left);
  left.store(a << n);
  right.store(a >> n);
}
/// Amounts that their own operations keep below the bits of T.
template <class T>
void shift_by_little(Mut<T, 64> left, Mut<T, 64> right, In<T, dyn> x, In<T, dyn> by) {
  const auto a = x.load_like(left), n = by.load_like(left);
  left.store((a << T{3}) + (a << (n & T{7})));
  right.store((a >> (iota<T, 64>() & T{5})) + (a >> ((n & T{1}) * T{4} + T{2})));
}

template <class T>
void check_shifts() {
  const T high = std::numeric_limits<T>::max();
  const T amounts[] = {0, 1, sizeof(T) * 8 - 1, sizeof(T) * 8, sizeof(T) * 8 + 1, 100, high, static_cast<T>(-1)};
  const T numbers[] = {1, static_cast<T>(-1), high, std::numeric_limits<T>::min(), 5, static_cast<T>(-5), 0, 77};
  Array<T> x({64}), n({64}), out({64}, T{99});
  x.each([&](std::int64_t i) { return numbers[i / 8]; });
  n.each([&](std::int64_t i) { return amounts[i % 8]; });
  const auto guarded = expect_same<shift<T>>(cpu::Grid{1}, out, out, x, n);
  const std::size_t guards = count(*guarded->functions[0], ir::Op::Select) - plain_selects();
  EXPECT_EQ(guards, 3u) << "of amounts, and of results that are then 0";
  // The CPU gives the defined results for any amount: that none is too large for a GPU is seen in the IR only.
  ir::walk(guarded->functions[0]->body(), [](const ir::Operation& op) {
    if (op.op() != ir::Op::ShLI && op.op() != ir::Op::ShRI) return;
    const ir::Operation* chosen = op.operand(1).def();
    if (chosen->op() == ir::Op::Constant) return;
    ASSERT_EQ(chosen->op(), ir::Op::Select);
    EXPECT_EQ(chosen->operand(0).def()->enum_attr<ir::Signedness>(ir::AttrName::signedness), ir::Signedness::Unsigned)
        << "-1 is a large amount";
  });
  const auto plain = expect_same<shift_by_little<T>>(cpu::Grid{1}, out, out, x, n);
  EXPECT_EQ(count(*plain->functions[0], ir::Op::Select), plain_selects()) << "these amounts need no guard";
}

TEST(DefineResults, ShiftsByTheBitsOfTheTypeAndMore) {
  check_shifts<std::int32_t>();
  check_shifts<std::uint32_t>();
  check_shifts<std::int64_t>();
  check_shifts<std::uint64_t>();
  check_shifts<std::int8_t>();
  check_shifts<std::uint8_t>();
  check_shifts<std::int16_t>();
}

TEST(DefineResults, ScansThatTheAssemblerMiscompilesAreExpanded) {
  Array<std::int32_t> x({8, 16}), out({8, 16}, 99);
  x.each([](std::int64_t i) { return static_cast<std::int32_t>(i * i % 23 - 11); });
  const auto module = expect_same<scans>(cpu::Grid{1}, out, out, out, x);
  EXPECT_EQ(count(*module->functions[0], ir::Op::Scan), 0u)
      << "beside an expanded one, that along the last axis is too";
}

}  // namespace THIS_FILE
