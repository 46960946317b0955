// Tensor cores multiply 16 rows and 8 columns at least. The assembler computes smaller products by fused multiply-add.
// Their rows and columns are repeated here until tensor cores multiply them, and the result is cut. docs/compiler/
// widen_products.md.
//
//   a = load A : 4x64; b = load B : 64x32               a = repeat(load A) : 16x64; b = load B : 64x32
//   for ... (sum : 4x32) { mma(a, b, sum) }       =>    for ... (sum : 16x32) { mma(a, b, sum) }
//   store C, sum                                        store C, sum[0:4, :]
//
// A loop carries the sum wide if nothing in it but products of this kind reads the sum.
#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <vector>

#include "passes/values.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

namespace {

/// The largest tile that is made by repetition: 64 registers of each thread of 4 warps. What is repeated takes the
/// registers, or the shared memory, of as many elements that are all needed.
constexpr std::int64_t kMaxBytes = std::int64_t{64} * 4 * 128;

/// How often the rows and the columns of a product are repeated.
struct Times {
  std::int64_t rows = 1, columns = 1;
};
/// The sum's type says it: only products of f64 have sums of f64.
Times times_of(Type sum) {
  const std::span<const std::int64_t> shape = sum.shape();
  const std::int64_t rows = shape[shape.size() - 2], columns = shape.back();
  const std::int64_t least = sum.elem() == ir::Elem::F64 ? analysis::kRowsOfMmaF64 : analysis::kRowsOfMma;
  // Extents are powers of two.
  return {rows < least ? least / rows : 1, columns < analysis::kColumnsOfMma ? analysis::kColumnsOfMma / columns : 1};
}
Type widened(Type sum) {
  const Times times = times_of(sum);
  std::vector<std::int64_t> shape(sum.shape().begin(), sum.shape().end());
  shape[shape.size() - 2] *= times.rows;
  shape.back() *= times.columns;
  return sum.with_shape(shape);
}

bool is_small(const Operation& op) {
  if (op.op() != Op::MmaF && op.op() != Op::MmaI) return false;
  if (op.operand(0).type().elem() == ir::Elem::F32 || analysis::uses_tensor_cores(op)) return false;
  const Times t = times_of(op.result().type());
  const auto fits = [](Value tile, std::int64_t times) {
    return times == 1 || analysis::bytes_of(tile.type()) * times <= kMaxBytes;
  };
  return fits(op.operand(0), t.rows) && fits(op.operand(1), t.columns) && fits(op.result(), t.rows * t.columns);
}

/// A variable of a loop.
struct Carried {
  Operation* loop;
  std::size_t number;

  Value argument() const { return loop->region(0).arg(analysis::first_carried_arg(*loop) + number); }
  Value result() const { return loop->result(number); }
  std::size_t first() const { return analysis::first_carried_operand(*loop) + number; }
  Operation& end() const { return *loop->region(0).terminator(); }
};

/// The variables of loops that are sums of small products and nothing else: each iteration only adds products to them,
/// in inner loops too.
class Sums {
 public:
  explicit Sums(ir::Function& f) {
    ir::walk(f.body(), [&](Operation& op) {
      if (op.op() != Op::For || analysis::leaves_early(op)) return;  // connect() knows one end of an iteration
      for (std::size_t i = 0; i < op.num_results(); ++i) sums_.push_back({&op, i});
    });
    for (bool changed = true; changed;) {
      std::vector<Carried> kept;
      std::ranges::copy_if(sums_, std::back_inserter(kept), [&](const Carried& c) { return only_sums(c); });
      changed = kept.size() < sums_.size();
      sums_ = std::move(kept);
    }
  }
  const std::vector<Carried>& all() const { return sums_; }

 private:
  bool contains(const Operation* loop, std::size_t number) const {
    return std::ranges::any_of(sums_, [&](const Carried& c) { return c.loop == loop && c.number == number; });
  }
  bool only_sums(const Carried& c) const {
    for (const ir::OpOperand* use = c.argument().first_use(); use != nullptr; use = use->next)
      if (!adds_to(*use)) return false;
    const Value next = c.end().operand(c.number);
    const Operation* from = next.def();
    return from != nullptr && (is_small(*from) || contains(from, next.index()));
  }
  /// True if the use is as the sum that a product is added to, or that an inner loop begins with.
  bool adds_to(const ir::OpOperand& use) const {
    const Operation& op = *use.owner;
    if (is_small(op)) return use.number() == 2;
    return op.op() == Op::For && use.number() >= analysis::first_carried_operand(op) &&
           contains(&op, use.number() - analysis::first_carried_operand(op));
  }

  std::vector<Carried> sums_;
};

class Widener {
 public:
  void widen(Operation& product);
  /// Makes the variable wide; what reads it reads a part.
  void widen(const Carried& sum);
  /// Hands wide values to the loop and to its next iteration, once all products are wide.
  void connect(const Carried& sum);

 private:
  static Value repeated_along(ir::Builder& b, Value tile, std::size_t axis, std::int64_t times);
  static Value repeated(ir::Builder& b, Value tile, Times times);
  void cut(ir::Builder& b, Value wide, Type type);
  Value wide_of(ir::Builder& b, Value sum);

  std::unordered_map<const ir::ValueImpl*, Value> wide_;  ///< what a value was cut from
};

/// `tile` as often as told along `axis`, one after the other.
Value Widener::repeated_along(ir::Builder& b, Value tile, std::size_t axis, std::int64_t times) {
  if (times == 1) return tile;
  const auto at = static_cast<std::ptrdiff_t>(axis);
  std::vector<std::int64_t> shape(tile.type().shape().begin(), tile.type().shape().end());
  shape.insert(shape.begin() + at, 1);
  const Value apart = b.create(Op::Reshape, {tile}, {tile.type().with_shape(shape)})->result();
  shape[axis] = times;
  const Value all = broadcast_to(b, apart, shape);
  shape.erase(shape.begin() + at);
  shape[axis] *= times;
  return b.create(Op::Reshape, {all}, {tile.type().with_shape(shape)})->result();
}

Value Widener::repeated(ir::Builder& b, Value tile, Times times) {
  const auto rank = static_cast<std::size_t>(tile.type().rank());
  return repeated_along(b, repeated_along(b, tile, rank - 2, times.rows), rank - 1, times.columns);
}

/// What has read `wide` reads its first rows and columns.
void Widener::cut(ir::Builder& b, Value wide, Type type) {
  std::vector<Value> operands{wide};
  for (int a = 0; a < type.rank(); ++a) operands.push_back(b.constant_int(ir::Elem::I32, 0));
  const Value narrow = b.create(Op::Extract, operands, std::span<const Type>(&type, 1))->result();
  wide.replace_all_uses_with(narrow);
  narrow.def()->set_operand(0, wide);
  wide_.emplace(narrow.impl(), wide);
}

Value Widener::wide_of(ir::Builder& b, Value sum) {
  const auto from = wide_.find(sum.impl());
  return from != wide_.end() ? from->second : repeated(b, sum, times_of(sum.type()));
}

void Widener::widen(Operation& product) {
  const Type narrow = product.result().type();
  const Times t = times_of(narrow);
  ir::Builder b = ir::Builder::before(&product);
  b.loc = product.loc;
  product.set_operand(0, repeated(b, product.operand(0), {t.rows, 1}));
  product.set_operand(1, repeated(b, product.operand(1), {1, t.columns}));
  product.set_operand(2, wide_of(b, product.operand(2)));
  product.result().set_type(widened(narrow));
  ir::Builder after = ir::Builder::before(product.next());
  after.loc = product.loc;
  cut(after, product.result(), narrow);
}

void Widener::widen(const Carried& sum) {
  const Type narrow = sum.result().type();
  for (const Value wide : {sum.argument(), sum.result()}) wide.set_type(widened(narrow));
  ir::Builder inside = ir::Builder::before(sum.loop->region(0).front()), after = ir::Builder::before(sum.loop->next());
  inside.loc = after.loc = sum.loop->loc;
  cut(inside, sum.argument(), narrow);
  cut(after, sum.result(), narrow);
}

void Widener::connect(const Carried& sum) {
  ir::Builder before = ir::Builder::before(sum.loop), last = ir::Builder::before(&sum.end());
  before.loc = last.loc = sum.loop->loc;
  sum.loop->set_operand(sum.first(), wide_of(before, sum.loop->operand(sum.first())));
  sum.end().set_operand(sum.number, wide_of(last, sum.end().operand(sum.number)));
}

}  // namespace

bool widen_products(ir::Function& f) {
  std::vector<Operation*> products;
  ir::walk(f.body(), [&](Operation& op) {
    if (is_small(op)) products.push_back(&op);
  });
  if (products.empty()) return false;
  const Sums sums(f);
  Widener widener;
  for (const Carried& sum : sums.all()) widener.widen(sum);
  for (Operation* product : products) widener.widen(*product);
  for (const Carried& sum : sums.all()) widener.connect(sum);
  return true;
}

}  // namespace tessera::passes
