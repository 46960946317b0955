// A trap or a device-side assert poisons the CUDA context of the whole process for good, so a failed check must not end
// the kernel. It leaves its number in a record instead, which the runtime reads when somebody waits for the result. The
// first failed check wins: a compare-and-swap of a word that is 0. What the kernel writes afterwards is unspecified but
// in bounds, because no access depends on a check for its safety.
#include "tessera/passes/lower_checks.hpp"

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

/// One i1: whether every element of `condition` is true.
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

/// Relaxed and of device scope: blocks race for the word, and nothing is published through it.
void lower(Operation& check, Value record, std::size_t number) {
  Builder b = Builder::before(&check);
  b.loc = check.loc;
  const Value holds = all_true(b, check.operand(0));
  const Value one = b.constant_int(Elem::I1, 1);
  const Value failed = b.create(Op::XOrI, {holds, one}, {holds.type()})->result();
  const Value expected = b.constant_int(Elem::I32, 0);
  const Value mark = b.constant_int(Elem::I32, static_cast<std::int64_t>(number) + 1);
  const Value operands[] = {record, expected, mark, failed};
  const std::uint32_t groups[] = {1, 1, 1, 1, 0};
  const Type results[] = {Type::tile(Elem::I32), Type::token()};
  b.create_grouped(Op::AtomicCASTko, operands, groups, results,
                   {{AttrName::memory_ordering_semantics, ir::MemoryOrdering::Relaxed},
                    {AttrName::memory_scope, ir::MemoryScope::Device}});
}

}  // namespace

std::vector<LoweredCheck> lower_checks(ir::Module& module) {
  std::vector<LoweredCheck> lowered;
  for (const auto& function : module.functions) {
    if (!function->entry) continue;
    std::vector<Operation*> checks;
    ir::walk(function->body(), [&](Operation& op) {
      if (op.op() == Op::Assert) checks.push_back(&op);
    });
    if (checks.empty()) continue;
    if (!lowered.empty()) throw InternalError("lower_checks expects a module with one entry");
    const Value record = function->body().add_arg(Type::tile(Type::pointer(Type::element(Elem::I32)), {}));
    for (Operation* check : checks) {
      lower(*check, record, lowered.size());
      lowered.push_back({*check->attr(AttrName::message)->as<std::string>(), check->loc});
      check->erase();
    }
  }
  return lowered;
}

}  // namespace tessera::passes
