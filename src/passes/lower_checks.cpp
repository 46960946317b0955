// Lowers assertions. A trap or a device-side assert destroys the CUDA context of the whole process, so a failed check
// must not end the kernel. It writes its number to an error record, which the runtime reads when the result is waited
// for. The first failed check wins: a compare-and-swap on a word that is 0. What the kernel writes afterwards is
// unspecified but in bounds, because no access relies on a check for its safety.
#include "tessera/passes/lower_checks.hpp"

#include "passes/values.hpp"
#include "tessera/base/error.hpp"

namespace tessera::passes {
namespace {

using ir::AttrName;
using ir::Builder;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

/// A scalar i1: true if every element of `condition` is.
Value all_true(Builder& b, Value condition) {
  const std::int64_t size = condition.type().num_elements();
  const Type flag = Type::tile(Elem::I1);
  if (condition.type().rank() == 0) return condition;
  if (size == 1) return b.create(Op::Reshape, {condition}, {flag})->result();
  const std::int64_t flat_shape[] = {size};
  Value flat = condition;
  if (condition.type().rank() != 1) {
    flat = b.create(Op::Reshape, {condition}, {condition.type().with_shape(flat_shape)})->result();
  }
  const ir::ArrayAttr identities{{ir::IntAttr{Elem::I1, -1}}};
  Operation* reduce = b.create(Op::Reduce, {flat}, {flag},
                               {{AttrName::dim, ir::IntAttr{Elem::I64, 0}}, {AttrName::identities, identities}});
  ir::Block& body = reduce->add_region();
  const Value x = body.add_arg(flag), y = body.add_arg(flag);
  Builder inner(body);
  inner.loc = b.loc;
  const Value both = inner.create(Op::AndI, {x, y}, {flag})->result();
  inner.create(Op::Yield, {both}, {});
  return reduce->result();
}

/// The record's word number `at`: a tile<ptr<i32>>.
Value word(Builder& b, Value record, std::int64_t at) {
  return b.create(Op::Offset, {record, b.constant_int(Elem::I32, at)}, {record.type()})->result();
}

/// Relaxed and of device scope: blocks race for the record, and nothing is published by it.
constexpr ir::MemoryOrdering kOrder = ir::MemoryOrdering::Relaxed;
constexpr ir::MemoryScope kScope = ir::MemoryScope::Device;

/// The block whose check came first writes its coordinates.
void record_block(Builder b, Value record) {
  const Type number = Type::tile(Elem::I32);
  Operation* id = b.create(Op::GetTileBlockId, {}, {number, number, number});
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const Value one_more = b.create(Op::AddI, {id->result(axis), b.constant_int(Elem::I32, 1)}, {number})->result();
    const Value operands[] = {word(b, record, static_cast<std::int64_t>(axis) + 1), one_more};
    const std::uint32_t groups[] = {1, 1, 0, 0};
    const Type token = Type::token();
    b.create_grouped(Op::StorePtrTko, operands, groups, {&token, 1},
                     {{AttrName::memory_ordering_semantics, kOrder}, {AttrName::memory_scope, kScope}});
  }
  b.create(Op::Yield, {}, {});
}

/// The code of a failed check: the first failure of all blocks claims the record.
void report(Builder b, Value record, std::size_t number) {
  const Value zero = b.constant_int(Elem::I32, 0);
  const Value operands[] = {record, zero, b.constant_int(Elem::I32, static_cast<std::int64_t>(number) + 1)};
  const std::uint32_t groups[] = {1, 1, 1, 0, 0};
  const Type results[] = {Type::tile(Elem::I32), Type::token()};
  Operation* swap = b.create_grouped(Op::AtomicCASTko, operands, groups, results,
                                     {{AttrName::memory_ordering_semantics, kOrder}, {AttrName::memory_scope, kScope}});
  const Value won = compared(b, ir::ComparisonPredicate::Equal, swap->result(), zero);
  Operation* winner = b.create(Op::If, {won}, {});
  Builder inner(winner->add_region());
  inner.loc = b.loc;
  record_block(inner, record);
  Builder other(winner->add_region());
  other.loc = b.loc;
  other.create(Op::Yield, {}, {});
  b.create(Op::Yield, {}, {});
}

void lower(Operation& check, Value record, std::size_t number) {
  Builder b = Builder::before(&check);
  b.loc = check.loc;
  const Value holds = all_true(b, check.operand(0));
  Operation* branch = b.create(Op::If, {holds}, {});
  Builder good(branch->add_region());
  good.loc = b.loc;
  good.create(Op::Yield, {}, {});
  Builder bad(branch->add_region());
  bad.loc = b.loc;
  report(bad, record, number);
}

}  // namespace

std::vector<calling::Check> lower_checks(ir::Function& entry) {
  std::vector<Operation*> checks;
  ir::walk(entry.body(), [&](Operation& op) {
    if (op.op() == Op::Assert) checks.push_back(&op);
  });
  std::vector<calling::Check> lowered;
  if (checks.empty()) return lowered;
  const Value record = entry.body().add_arg(Type::tile(Type::pointer(Type::element(Elem::I32)), {}));
  for (Operation* check : checks) {
    lower(*check, record, lowered.size());
    lowered.push_back({*check->attr(AttrName::message)->as<std::string>(), check->loc});
    check->erase();
  }
  return lowered;
}

}  // namespace tessera::passes
