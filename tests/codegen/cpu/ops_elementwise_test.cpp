// Every elementwise operation of Tile IR as a kernel of its own, run by the CPU backend: on a tile, on a scalar, with
// operands that are broadcast, and on a result that overwrites its operand in a loop; against ir/semantics.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "codegen/cpu/kernel.hpp"
#include "prims_support.hpp"

namespace tessera::test {
namespace {

using cpu::prims::RandomElements;
using cpu::prims::same;
using cpu::prims::Tile;

/// An operation: elements of its operands and of its result, attributes.
struct Case {
  Op op;
  std::vector<Elem> operands;
  Elem result;
  std::vector<NamedAttr> attrs;
  bool exact = true;  ///< else an elementary function: within one unit of the last place of the reference
};

const NamedAttr kSigned{AttrName::signedness, Signedness::Signed},
    kUnsigned{AttrName::signedness, Signedness::Unsigned};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  const Elem integers[] = {Elem::I1, Elem::I8, Elem::I16, Elem::I32, Elem::I64},
             floats[] = {Elem::F16, Elem::BF16, Elem::F32, Elem::F64};
  for (const Elem e : integers) {
    for (const Op op : {Op::AddI, Op::SubI, Op::MulI, Op::MulhiI, Op::AndI, Op::OrI, Op::XOrI, Op::ShLI})
      cases.push_back({op, {e, e}, e, {}});
    for (const Op op : {Op::AbsI, Op::NegI}) cases.push_back({op, {e}, e, {}});
    for (const NamedAttr& s : {kSigned, kUnsigned}) {
      for (const Op op : {Op::DivI, Op::RemI, Op::MaxI, Op::MinI, Op::ShRI}) cases.push_back({op, {e, e}, e, {s}});
      for (const auto p : {ComparisonPredicate::Less, ComparisonPredicate::NotEqual})
        cases.push_back({Op::CmpI, {e, e}, Elem::I1, {{AttrName::comparison_predicate, p}, s}});
      for (const Elem f : floats) {
        cases.push_back({Op::IToF, {e}, f, {s}});
        cases.push_back({Op::FToI, {f}, e, {s}});
      }
    }
    cases.push_back({Op::Select, {Elem::I1, e, e}, e, {}});
  }
  for (const Elem e : floats) {
    for (const Op op : {Op::AddF, Op::SubF, Op::MulF, Op::DivF, Op::MaxF, Op::MinF, Op::RemF})
      cases.push_back({op, {e, e}, e, {}});
    cases.push_back({Op::AddF, {e, e}, e, {{AttrName::rounding_mode, Rounding::PositiveInf}}});
    cases.push_back({Op::MaxF, {e, e}, e, {{AttrName::propagate_nan, UnitAttr{}}}});
    cases.push_back({Op::Fma, {e, e, e}, e, {}});
    for (const Op op : {Op::AbsF, Op::NegF, Op::Ceil, Op::Floor, Op::Sqrt}) cases.push_back({op, {e}, e, {}});
    for (const Op op :
         {Op::Exp, Op::Exp2, Op::Log, Op::Log2, Op::Sin, Op::Cos, Op::Tan, Op::SinH, Op::CosH, Op::TanH, Op::Rsqrt})
      cases.push_back({op, {e}, e, {}, false});
    for (const Op op : {Op::Pow, Op::Atan2}) cases.push_back({op, {e, e}, e, {}, false});
    cases.push_back({Op::FPowI, {e, Elem::I32}, e, {}, false});
    for (const auto order : {ComparisonOrdering::Ordered, ComparisonOrdering::Unordered})
      cases.push_back({Op::CmpF,
                       {e, e},
                       Elem::I1,
                       {{AttrName::comparison_predicate, ComparisonPredicate::GreaterEqual},
                        {AttrName::comparison_ordering, order}}});
    cases.push_back({Op::Select, {Elem::I1, e, e}, e, {}});
    for (const Elem to : {Elem::F16, Elem::BF16, Elem::F32, Elem::F64, Elem::TF32, Elem::F8E4M3FN, Elem::F8E5M2})
      if (to != e) {
        cases.push_back({Op::FToF, {e}, to, {}});
        cases.push_back({Op::FToF, {to}, e, {}});
      }
  }
  for (const Elem from : {Elem::I1, Elem::I8, Elem::I16, Elem::I32})
    for (const Elem to : {Elem::I8, Elem::I16, Elem::I32, Elem::I64})
      if (info(to).bits > info(from).bits) {
        for (const NamedAttr& s : {kSigned, kUnsigned}) cases.push_back({Op::ExtI, {from}, to, {s}});
        cases.push_back({Op::TruncI, {to}, from, {}});
      }
  cases.push_back({Op::Bitcast, {Elem::F32}, Elem::I32, {}});
  cases.push_back({Op::Bitcast, {Elem::I16}, Elem::BF16, {}});
  return cases;
}

/// Shape of an operand before it is broadcast to the whole tile.
using OperandShape = Shape;

/// A kernel that loads operands of these shapes, broadcasts them to `shape`, applies the operation and stores.
void run_case(const Case& c, const Shape& shape, const std::vector<OperandShape>& shapes) {
  Kernel k;
  std::vector<Value> pointers, values;
  for (const Elem e : c.operands) pointers.push_back(k.pointer(e));
  const Value out = k.pointer(c.result);
  const auto view = [&](Value pointer, const Shape& s) {
    const Shape padded = s.empty() ? Shape{1} : s;
    Shape strides(padded.size(), 1);
    for (std::size_t i = padded.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * padded[i];
    return k.partition(k.tensor(pointer, padded, strides), std::vector<std::int32_t>(padded.begin(), padded.end()));
  };
  const auto zeros = [&](std::size_t rank) { return std::vector<Value>(std::max<std::size_t>(rank, 1), k.i32(0)); };
  for (std::size_t i = 0; i < pointers.size(); ++i) {
    Value v = k.load(view(pointers[i], shapes[i]), zeros(shapes[i].size()))->result();
    if (shape.empty()) v = k.reshape(v, {});
    if (shapes[i] != shape && !shape.empty()) v = k.broadcast(v, shape);
    values.push_back(v);
  }
  Operation* op = k.b.create(c.op, values, std::array{k.t(c.result, shape)});
  for (const NamedAttr& a : c.attrs) op->set_attr(a.name, a.value);
  const auto element = element_op(*op);
  ASSERT_TRUE(element);
  k.store(shape.empty() ? k.reshape(op->result(), {1}) : op->result(), view(out, shape), zeros(shape.size()));

  const auto count = [](const Shape& s) {
    std::int64_t n = 1;
    for (const std::int64_t d : s) n *= d;
    return static_cast<std::size_t>(n);
  };
  RandomElements random(count(shape) + static_cast<std::size_t>(c.op));
  std::vector<Tile> inputs;
  std::vector<std::uint64_t> args;
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    inputs.emplace_back(c.operands[i], count(shapes[i]));
    for (std::size_t n = 0; n < count(shapes[i]); ++n) inputs.back().set(n, random(c.operands[i]));
  }
  Tile result(c.result, count(shape));
  for (Tile& t : inputs) args.push_back(slot(t.data.data()));
  args.push_back(slot(result.data.data()));
  k.compile()->run({1}, args);
  for (std::size_t n = 0; n < count(shape); ++n) {
    std::vector<std::uint64_t> bits;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      std::size_t at = 0, rest = n, stride = 1;
      for (std::size_t axis = shape.size(); axis-- > 0;) {
        const auto extent = static_cast<std::size_t>(shape[axis]), own = static_cast<std::size_t>(shapes[i][axis]);
        if (own != 1) at += rest % extent * stride;
        rest /= extent;
        stride *= own;
      }
      bits.push_back(inputs[i].get(at));
    }
    const std::uint64_t want = evaluate_element(*element, bits), got = result.get(n);
    const bool close = !c.exact && (want + 1 == got || got + 1 == want || want + 2 == got || got + 2 == want);
    ASSERT_TRUE(same(c.result, want, got) || close)
        << cpu::prims::describe(*element) << " at " << n << std::hex << ": of " << bits[0] << " " << bits.back()
        << " expected " << want << ", found " << got;
  }
}

TEST(Ops, EveryElementwiseOperationOnTiles) {
  for (const Case& c : all_cases()) run_case(c, {4, 64}, std::vector<OperandShape>(c.operands.size(), {4, 64}));
}

TEST(Ops, EveryElementwiseOperationOnScalars) {
  for (const Case& c : all_cases()) run_case(c, {}, std::vector<OperandShape>(c.operands.size(), OperandShape{}));
}

TEST(Ops, OperandsThatAreBroadcast) {
  const Shape shape{2, 8, 32};
  const OperandShape shapes[] = {{1, 1, 1}, {1, 1, 32}, {2, 8, 1}, {2, 1, 32}, {1, 8, 1}, {2, 8, 32}};
  for (const Op op : {Op::SubF, Op::CmpF, Op::Fma, Op::Select})
    for (const OperandShape& a : shapes)
      for (const OperandShape& b : shapes) {
        Case c{op, {Elem::F32, Elem::F32}, Elem::F32, {}};
        std::vector<OperandShape> operands{a, b};
        if (op == Op::CmpF) {
          c.result = Elem::I1;
          c.attrs = {{AttrName::comparison_predicate, ComparisonPredicate::Less},
                     {AttrName::comparison_ordering, ComparisonOrdering::Ordered}};
        } else if (op != Op::SubF) {
          c.operands = {op == Op::Select ? Elem::I1 : Elem::F32, Elem::F32, Elem::F32};
          operands.push_back(shape);
        }
        run_case(c, shape, operands);
      }
}

/// Loop-carried values are updated in place: a chain of conversions and updates.
TEST(Ops, UpdatesInALoop) {
  Kernel k;
  const Value in = k.pointer(Elem::F32), out = k.pointer(Elem::F32);
  const Shape shape{512};
  const Value x = k.load(k.partition(k.tensor(in, shape, {1}), {512}), {k.i32(0)})->result();
  const Operation* loop = k.for_loop(k.i32(0), k.i32(10), k.i32(1), {x}, [&](Value, const std::vector<Value>& carried) {
    const Value narrow = k.op(Op::FToF, {carried[0]}, k.t(Elem::BF16, shape));
    const Value wide = k.op(Op::FToF, {narrow}, k.t(Elem::F32, shape));
    return std::vector<Value>{k.same(Op::Fma, {wide, k.f32(0.5, shape), carried[0]})};
  });
  k.store(loop->result(0), k.partition(k.tensor(out, shape, {1}), {512}), {k.i32(0)});
  std::vector<float> a(512), b(512);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = 0.001f * static_cast<float>(i) - 0.2f;
  k.compile()->run({1}, std::array{slot(a.data()), slot(b.data())});
  for (std::size_t i = 0; i < a.size(); ++i) {
    float want = a[i];
    for (int n = 0; n < 10; ++n) {
      const double narrow = to_double(Elem::BF16, from_double(Elem::BF16, want));
      want = std::fma(static_cast<float>(narrow), 0.5f, want);
    }
    ASSERT_EQ(want, b[i]) << i;
  }
}

}  // namespace
}  // namespace tessera::test
