// Loops of products, as matrix multiplication and attention have them.
#pragma once
#include "passes/pass_support.hpp"

namespace tessera::test {

/// A kernel whose tensors have base, extents and strides of multiples of 16, so that accesses are wide.
struct AlignedKernel : Kernel {
  ir::Value view(ir::Elem e, const std::vector<std::int32_t>& tile, std::optional<ir::PaddingValue> padding = {}) {
    const ir::Value made = Kernel::view(e, tile, padding);
    ir::Operation* tensor = made.def()->operand(0).def();
    for (std::size_t i = 0; i < tensor->num_operands(); ++i) {
      const ir::Value x = tensor->operand(i);
      const ir::Builder after = b;
      b = ir::Builder::before(tensor);
      tensor->set_operand(
          i,
          b.create(ir::Op::Assume, {x}, {x.type()}, {{ir::AttrName::predicate, ir::DivByAttr{16, {}, {}}}})->result());
      b = after;
    }
    return made;
  }
};

/// A loop of products with an accumulator of m x n, `depth` elements a step. With `columns`, the product of m x n is
/// computed anew in each step and feeds one with an accumulator of m x columns.
struct ProductLoop {
  AlignedKernel k;
  ir::Function* f = nullptr;
  ir::Operation* loop = nullptr;
  ir::Value i, carried;           ///< arguments of the loop's body
  ir::Value scores;               ///< result of the first of two products
  ir::Operation* keys = nullptr;  ///< load of its right operand

  enum class Scores { FromLoads, FromCarried, OrderedLoad };
  ProductLoop(std::int32_t m, std::int32_t n, std::int32_t depth, ir::Elem e = ir::Elem::BF16, std::int32_t columns = 0,
              Scores from = Scores::FromLoads) {
    using ir::Op;
    using ir::Type;
    using ir::Value;
    const Value a = k.view(e, {m, depth}, ir::PaddingValue::Zero), b = k.view(e, {depth, n}, ir::PaddingValue::Zero);
    const Value zero = k.i32(0), one = k.i32(1), steps = k.arg(ir::Elem::I32);
    const Type acc = Type::tile(ir::Elem::F32, {m, columns > 0 ? columns : n});
    const Type product = Type::tile(ir::Elem::F32, {m, n});
    const Value start = k.b.constant_float(ir::Elem::F32, 0, acc.shape());
    const Value v = columns > 0 ? k.view(e, {n, columns}, ir::PaddingValue::Zero) : Value();
    const Value left = k.load(a, {zero, zero})->result();
    loop = k.b.create(Op::For, {zero, steps, one, start}, {acc});
    ir::Block& body = loop->add_region();
    i = body.add_arg(zero.type());
    carried = body.add_arg(acc);
    const ir::Builder outside = k.b;
    k.b.set_to_end(body);
    Value out;
    if (columns == 0) {
      out = k.op(Op::MmaF, {k.load(a, {zero, i})->result(), k.load(b, {i, zero})->result(), carried}, acc);
    } else {
      keys = k.load(b, {zero, i});
      if (from == Scores::OrderedLoad) k.store(keys->result(), b, {zero, i}, {}, keys->result(1));
      Value x = left;
      if (from == Scores::FromCarried) x = k.op(Op::FToF, {carried}, left.type());
      scores = k.op(Op::MmaF, {x, keys->result(), k.b.constant_float(ir::Elem::F32, 0, product.shape())}, product);
      const Value p = k.op(Op::Exp2, {scores}, product);
      out =
          k.op(Op::MmaF, {k.op(Op::FToF, {p}, product.with_element(e)), k.load(v, {i, zero})->result(), carried}, acc);
    }
    k.b.create(Op::Continue, {out}, {});
    k.b = outside;
    k.keep(loop->result());
    f = &k.function();
  }
};

/// A piece made of sub-tiles: m rows times n and then n2 columns, in one loop that loads the rows once, and both
/// stored.
struct ProductsOfParts {
  AlignedKernel k;
  ir::Function* f = nullptr;
  ir::Operation* loop = nullptr;
  ProductsOfParts(std::int32_t m, std::int32_t n, std::int32_t n2, double start = 0) {
    using ir::Elem;
    using ir::Op;
    using ir::Type;
    using ir::Value;
    const Value a = k.view(Elem::BF16, {m, 64}), zero = k.i32(0);
    const std::vector<Value> b{k.view(Elem::BF16, {64, n}), k.view(Elem::BF16, {64, n2})};
    const std::vector<Value> c{k.view(Elem::BF16, {m, n}), k.view(Elem::BF16, {m, n2})};
    const Type sums[] = {Type::tile(Elem::F32, {m, n}), Type::tile(Elem::F32, {m, n2})};
    const Value first = k.b.constant_float(Elem::F32, start, sums[0].shape()),
                second = k.b.constant_float(Elem::F32, start, sums[1].shape());
    loop = k.b.create(Op::For, {zero, k.arg(Elem::I32), k.i32(1), first, second}, {sums[0], sums[1]});
    ir::Block& body = loop->add_region();
    const Value i = body.add_arg(zero.type()), sum = body.add_arg(sums[0]), sum2 = body.add_arg(sums[1]);
    const ir::Builder outside = k.b;
    k.b.set_to_end(body);
    const Value rows = k.load(a, {zero, i})->result();
    const Value next = k.op(Op::MmaF, {rows, k.load(b[0], {i, zero})->result(), sum}, sums[0]);
    const Value next2 = k.op(Op::MmaF, {rows, k.load(b[1], {i, zero})->result(), sum2}, sums[1]);
    k.b.create(Op::Continue, {next, next2}, {});
    k.b = outside;
    for (std::size_t p = 0; p < 2; ++p)
      k.store(k.op(Op::FToF, {loop->result(p)}, sums[p].with_element(Elem::BF16)), c[p], {zero, zero});
    f = &k.function();
  }
};

/// Moves the loop into the arm of a branch on `condition`.
inline void put_into_branch(ProductLoop& l, ir::Value condition) {
  ir::Builder b = ir::Builder::before(l.loop);
  ir::Operation* branch = b.create(ir::Op::If, {condition}, {l.loop->result().type()});
  ir::Block& arm = branch->add_region();
  ir::Block& other = branch->add_region();
  const ir::Value start = l.loop->operand(3);
  b.set_to_end(other);
  b.create(ir::Op::Yield, {start}, {});
  l.loop->result().replace_all_uses_with(branch->result());
  b.set_to_end(arm);
  ir::Operation* end = b.create(ir::Op::Yield, {l.loop->result()}, {});
  l.loop->move_before(end);
}

/// True if any element of the product of the loop's left operand and itself is above 1.
inline ir::Value product_is_large(ProductLoop& l) {
  ir::Builder b = ir::Builder::before(l.loop);
  const ir::Value x = l.scores.def()->operand(0);
  const ir::Type all = l.scores.type();
  const ir::Value y = b.create(ir::Op::MmaF, {x, x, b.constant_float(ir::Elem::F32, 0, all.shape())}, {all})->result();
  const std::int64_t corner[] = {1, 1};
  const ir::Value zero = b.constant_int(ir::Elem::I32, 0);
  const ir::Value first = b.create(ir::Op::Extract, {y, zero, zero}, {all.with_shape(corner)})->result();
  const ir::Value number = b.create(ir::Op::Reshape, {first}, {all.with_shape({})})->result();
  return b
      .create(ir::Op::CmpF, {number, b.constant_float(ir::Elem::F32, 1)}, {ir::Type::tile(ir::Elem::I1)},
              {{ir::AttrName::comparison_predicate, ir::ComparisonPredicate::Greater},
               {ir::AttrName::comparison_ordering, ir::ComparisonOrdering::Ordered}})
      ->result();
}

}  // namespace tessera::test
