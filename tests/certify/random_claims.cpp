// Claims of every kind about random programs, and what executions say of them (see random_claims.hpp).
#include "certify/random_claims.hpp"

#include <unordered_map>

#include "generate/claims.hpp"

namespace tessera::test {
namespace {

using analysis::Claim;
using analysis::ClaimKind;
using ir::AttrName;
using ir::Op;
using ir::Operation;
using ir::Value;

bool is_number(ir::Type t) { return t.is_tile() && !t.is_pointer() && !t.is_float() && ir::info(t.elem()).bits > 1; }
bool is_condition(ir::Type t) { return t.is_tile() && !t.is_pointer() && t.elem() == ir::Elem::I1; }

using analysis::LaunchBound;
using analysis::LaunchQuestion;

constexpr std::int64_t kNumbers[] = {INT64_MIN, INT32_MIN, INT32_MIN / 2, -64, -9, -3, -1, 0, 1, 2, 3, 5,
                                     8,         64,        1 << 20};

/// What a launch may be asked, most of it in vain. Claims point into the list.
const std::vector<LaunchQuestion>& questions() {
  static const std::vector<LaunchQuestion> all = [] {
    std::vector<LaunchQuestion> made;
    for (const LaunchBound::Of of :
         {LaunchBound::Of::Pieces, LaunchBound::Of::PiecesAlong, LaunchBound::Of::FirstAxes, LaunchBound::Of::Argument})
      for (int index = 0; index < 9; ++index)
        for (const std::int64_t n : kNumbers) {
          if (n == LaunchBound::kNoLeast) continue;
          made.push_back({.bounds = {{of, index, n, LaunchBound::kNoMost}}});
          made.push_back({.bounds = {{of, index, LaunchBound::kNoLeast, n}}});
          made.push_back({.bounds = {{of, index, 0, n}, {LaunchBound::Of::Pieces, 0, 1, LaunchBound::kNoMost}}});
          made.push_back({.bounds = {{of, index, 0, 1 << 20}}, .equal = {{index, (index + 3) % 9}}});
        }
    return made;
  }();
  return all;
}

class Random {
 public:
  Random(const ir::Module& module, std::mt19937_64& rng) : rng_(rng) {
    const ir::Function& entry = entry_of(module);
    for (std::size_t i = 0; i < entry.body().num_args(); ++i) of_argument(static_cast<int>(i));
    for (int i = 0; i < 40; ++i)
      claims.push_back({.kind = ClaimKind::OfLaunch, .question = &questions()[below(questions().size())]});
    ir::walk(entry.body(), [&](Operation& op) { of_operation(op); });
  }
  std::vector<Claim> claims;

 private:
  std::uint64_t below(std::uint64_t n) { return rng_() % n; }
  std::int64_t number() { return kNumbers[below(std::size(kNumbers))]; }
  void of_argument(int i) {
    Claim bounded{.kind = ClaimKind::ArgBounded, .index = i};
    const std::int64_t upper[] = {0, 16, 64, INT32_MAX, INT32_MAX, INT64_MAX};
    bounded.lower = number();
    bounded.upper = upper[below(std::size(upper))];
    claims.push_back(bounded);
    for (const std::uint64_t by : {std::uint64_t{2}, std::uint64_t{1} << below(6)})
      claims.push_back({.kind = ClaimKind::ArgDivisible, .index = i, .divisor = by});
  }
  void of_operation(Operation& op) {
    for (std::size_t i = 0; i < op.num_results(); ++i) {
      if (!is_condition(op.result(i).type())) continue;
      for (const bool truth : {true, false})
        claims.push_back({.op = &op, .index = static_cast<int>(i), .truth = truth});
    }
    for (std::size_t i = 0; i < op.num_operands(); ++i)
      if (is_number(op.operand(i).type()) && below(3) == 0) {
        const int index = static_cast<int>(i);
        claims.push_back({.kind = ClaimKind::AtLeast, .op = &op, .index = index, .lower = number()});
        claims.push_back({.kind = ClaimKind::AtMost, .op = &op, .index = index, .upper = number()});
      }
    if (op.op() == Op::DivI || op.op() == Op::RemI) {
      claims.push_back({.kind = ClaimKind::DivisorIsOne, .op = &op});
      for (int axis = 0; axis < 2; ++axis)
        claims.push_back({.kind = ClaimKind::CountsPieces, .op = &op, .index = axis});
    }
    if (op.op() == Op::CmpI) claims.push_back({.kind = ClaimKind::StartsTile, .op = &op});
    if (op.op() == Op::For) claims.push_back({.kind = ClaimKind::StepFits, .op = &op});
    if (op.op() == Op::StoreViewTko) of_access(op);
  }
  void of_access(Operation& op) {
    for (int axis = 0; axis < 2; ++axis) claims.push_back({.kind = ClaimKind::Inbounds, .op = &op, .index = axis});
    claims.push_back({.kind = ClaimKind::DisjointIterations, .op = &op});
    for (Operation* other : accesses_) {
      if (below(3) == 0) claims.push_back({.kind = ClaimKind::Disjoint, .op = &op, .other = other});
      if (below(9) == 0) claims.push_back({.kind = ClaimKind::Disjoint, .op = other, .other = &op});
    }
    claims.push_back({.kind = ClaimKind::Disjoint, .op = &op, .other = &op});
    accesses_.push_back(&op);
  }

  std::mt19937_64& rng_;
  std::vector<Operation*> accesses_;
};

std::string text_of(const Claim& c) {
  return "claim of kind " + std::to_string(static_cast<int>(c.kind)) + ", index " + std::to_string(c.index);
}

/// Asserts that the first of the positions that are compared is a multiple of their number, and inside.
void assert_starts_tile(const Claim& c) {
  Operation* const next = c.op->next();
  ir::Builder b = next ? ir::Builder::before(next) : ir::Builder(*c.op->block());
  const std::int64_t count = c.op->operand(0).type().num_elements();
  const auto first = [&](Value v) {
    if (v.type().rank() == 0) return v;
    const std::vector<std::int64_t> one(v.type().shape().size(), 1);
    std::vector<Value> operands{v};
    operands.insert(operands.end(), one.size(), b.constant_int(ir::Elem::I32, 0));
    const std::vector<ir::Type> type{v.type().with_shape(one)};
    return b.create(Op::Extract, operands, type)->result();
  };
  const Value start = first(c.op->operand(0)), extent = first(c.op->operand(1));
  const auto number = [&](std::int64_t n) { return b.constant_int(start.type().elem(), n, start.type().shape()); };
  const auto holds = [&](ir::ComparisonPredicate predicate, Value x, Value y) {
    const Value v =
        b.create(Op::CmpI, {x, y}, {x.type().with_element(ir::Elem::I1)},
                 {{AttrName::comparison_predicate, predicate}, {AttrName::signedness, ir::Signedness::Signed}})
            ->result();
    b.create(Op::Assert, {v}, {}, {{AttrName::message, "certified: " + text_of(c)}});
  };
  holds(ir::ComparisonPredicate::GreaterEqual, start, number(0));
  holds(ir::ComparisonPredicate::Less, start, extent);
  const Value rest = b.create(Op::AndI, {start, number(count - 1)}, {start.type()})->result();
  holds(ir::ComparisonPredicate::Equal, rest, number(0));
}

}  // namespace

std::vector<Claim> random_claims(const ir::Module& module, std::mt19937_64& rng) { return Random(module, rng).claims; }

Observed::Observed(ir::Module& module, std::vector<Claim> certified, std::vector<std::int64_t> pieces)
    : claims_(std::move(certified)), pieces_(std::move(pieces)), cells_(2 + kRows * kColumns, 0) {
  const ir::Function& entry = entry_of(module);
  for (std::size_t i = 0; i < entry.body().num_args(); ++i) arguments_.push_back(entry.body().arg(i).type());
  ir::walk(entry.body(), [&](const Operation& op) {
    if (op.op() != Op::StoreViewTko) return;
    const Value view = op.single("view");
    const Operation* tensor = view.def()->operand(0).def();
    accesses_.push_back({&op, view.type(), tensor, tensor->operand(0).index()});
  });
  for (const Claim& c : claims_) c.kind == ClaimKind::StartsTile ? assert_starts_tile(c) : assert_number(c);
  observe(module);
}

/// An assertion where the claim is one about numbers.
void Observed::assert_number(const Claim& c) {
  const bool loop = c.kind == ClaimKind::StepFits, counts = c.kind == ClaimKind::CountsPieces;
  const bool divisor = c.kind == ClaimKind::DivisorIsOne || counts, condition = c.kind == ClaimKind::Condition;
  const bool least = c.kind == ClaimKind::AtLeast, compared = least || c.kind == ClaimKind::AtMost;
  if (!loop && !divisor && !condition && !compared) return;
  Operation* const next = loop ? c.op->region(0).front() : condition ? c.op->next() : c.op;
  ir::Builder b = next ? ir::Builder::before(next) : ir::Builder(*c.op->block());
  const auto index = static_cast<std::size_t>(c.index);
  const auto is_so = [&](Value v, std::int64_t limit) {
    const auto predicate = least ? ir::ComparisonPredicate::GreaterEqual : ir::ComparisonPredicate::LessEqual;
    return b
        .create(Op::CmpI, {v, b.constant_int(v.type().elem(), limit, v.type().shape())},
                {v.type().with_element(ir::Elem::I1)},
                {{AttrName::comparison_predicate, predicate}, {AttrName::signedness, ir::Signedness::Signed}})
        ->result();
  };
  Value v = loop        ? generate::step_fits(b, *c.op)
            : divisor   ? generate::divides_by(b, *c.op, counts ? pieces_.at(index) : 1)
            : condition ? c.op->result(index)
                        : Value();
  if (compared) {
    const Value number = c.op->operand(index);
    const int bits = ir::info(number.type().elem()).bits;
    const std::int64_t limit = least ? c.lower : c.upper;
    if (least ? limit <= INT64_MIN >> (64 - bits) : limit >= INT64_MAX >> (64 - bits)) return;  // so is every number
    v = is_so(number, limit);
  }
  if (!c.truth) {
    const Value one = b.constant_int(ir::Elem::I1, 1, v.type().shape());
    v = b.create(Op::XOrI, {v, one}, {v.type()})->result();
  }
  b.create(Op::Assert, {v}, {}, {{AttrName::message, "certified: " + text_of(c)}});
}

/// An i64: how often this counter was asked before.
Value Observed::next(ir::Builder& b, std::int64_t cell) {
  const ir::Type i64 = ir::Type::tile(ir::Elem::I64);
  const ir::Type pointer = ir::Type::tile(ir::Type::pointer(ir::Type::element(ir::Elem::I64)), {});
  const Value place =
      b.create(Op::IntToPtr, {b.constant_int(ir::Elem::I64, reinterpret_cast<std::int64_t>(&cells_[0]) + 8 * cell)},
               {pointer})
          ->result();
  const std::vector<Value> operands{place, b.constant_int(ir::Elem::I64, 1)};
  const std::vector<std::uint32_t> groups{1, 1, 0, 0};
  const std::vector<ir::Type> types{i64, ir::Type::token()};
  return b
      .create_grouped(Op::AtomicRMWTko, operands, groups, types,
                      {{AttrName::memory_ordering_semantics, ir::MemoryOrdering::Relaxed},
                       {AttrName::memory_scope, ir::MemoryScope::Device},
                       {AttrName::mode, ir::AtomicMode::Add}})
      ->result(0);
}

void Observed::write(ir::Builder& b, const std::vector<Value>& row) {
  const ir::Type i64 = ir::Type::tile(ir::Elem::I64);
  const ir::Type pointer = ir::Type::tile(ir::Type::pointer(ir::Type::element(ir::Elem::I64)), {});
  const auto signed_op = [&](Op op, Value x, std::int64_t y) {
    return b.create(op, {x, b.constant_int(ir::Elem::I64, y)}, {i64}, {{AttrName::signedness, ir::Signedness::Signed}})
        ->result();
  };
  const Value number = signed_op(Op::MinI, next(b, 0), kRows - 1);
  const Value first = b.create(Op::MulI, {number, b.constant_int(ir::Elem::I64, 8 * kColumns)}, {i64})->result();
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::int64_t cell = reinterpret_cast<std::int64_t>(&cells_[2 + i]);
    const Value address = b.create(Op::AddI, {first, b.constant_int(ir::Elem::I64, cell)}, {i64})->result();
    const std::vector<Value> operands{b.create(Op::IntToPtr, {address}, {pointer})->result(), row[i]};
    const std::vector<std::uint32_t> groups{1, 1, 0, 0};
    const std::vector<ir::Type> token{ir::Type::token()};
    b.create_grouped(Op::StorePtrTko, operands, groups, token,
                     {{AttrName::memory_ordering_semantics, ir::MemoryOrdering::Weak}});
  }
}

/// Puts a note in the place of each access.
void Observed::observe(ir::Module& module) {
  const ir::Type i64 = ir::Type::tile(ir::Elem::I64);
  std::unordered_map<const ir::Block*, Value> region_of, loop_of;
  const auto count = [&](auto& known, const ir::Block* of, Operation* before) {
    const auto [it, fresh] = known.try_emplace(of);
    if (fresh) {
      ir::Builder b = ir::Builder::before(before);
      it->second = next(b, 1);
    }
    return it->second;
  };
  std::vector<Operation*> found;
  ir::walk(entry_of(module).body(), [&](Operation& op) {
    if (op.op() == Op::StoreViewTko) found.push_back(&op);
  });
  for (std::size_t i = 0; i < found.size(); ++i) {
    Operation* op = found[i];
    Operation* loop = op->parent_op();
    const Value region = count(region_of, op->block(), op->block()->front());
    const Value around = loop != nullptr ? count(loop_of, op->block(), loop) : region;
    ir::Builder b = ir::Builder::before(op);
    std::vector<Value> row{b.constant_int(ir::Elem::I64, static_cast<std::int64_t>(i)), region, around};
    for (const Value at : op->group("index"))
      row.push_back(b.create(Op::ExtI, {at}, {i64}, {{AttrName::signedness, ir::Signedness::Signed}})->result());
    write(b, row);
  }
  for (Operation* op : found) op->erase();
}

std::size_t Observed::number_of(const Operation* op) const {
  std::size_t i = 0;
  while (i < accesses_.size() && accesses_[i].op != op) ++i;
  return i;
}

std::vector<Observed::Row> Observed::rows() const {
  std::vector<Row> all;
  for (std::int64_t i = 0; i < std::min(cells_[0], kRows - 1); ++i) {
    const std::int64_t* at = &cells_[static_cast<std::size_t>(2 + i * kColumns)];
    all.push_back({at[0], at[1], at[2], {at[3], at[4]}});
  }
  return all;
}

std::string Observed::refuted(const std::vector<std::uint64_t>& slots) const {
  const std::vector<Row> all = rows();
  std::string text;
  for (const Claim& c : claims_) {
    const std::string found = c.kind == ClaimKind::OfLaunch ? refuted_launch(*c.question, slots)
                              : c.op == nullptr             ? refuted_argument(c, slots)
                                                            : refuted_access(c, slots, all);
    if (!found.empty()) text += text_of(c) + ": " + found + "\n";
  }
  return text;
}

std::string Observed::refuted_argument(const Claim& c, const std::vector<std::uint64_t>& slots) const {
  const auto i = static_cast<std::size_t>(c.index);
  const bool narrow = !arguments_[i].is_pointer() && arguments_[i].elem() == ir::Elem::I32;
  const auto value = narrow ? std::int64_t{static_cast<std::int32_t>(slots[i])} : static_cast<std::int64_t>(slots[i]);
  if (c.kind == ClaimKind::ArgBounded && (value < c.lower || value > c.upper))
    return std::to_string(value) + " is not in [" + std::to_string(c.lower) + ", " + std::to_string(c.upper) + "]";
  if (c.kind == ClaimKind::ArgDivisible && static_cast<std::uint64_t>(value) % c.divisor != 0)
    return std::to_string(value) + " is no multiple of " + std::to_string(c.divisor);
  return "";
}

std::string Observed::refuted_launch(const LaunchQuestion& question, const std::vector<std::uint64_t>& slots) const {
  const auto argument = [&](int i) { return static_cast<std::int64_t>(slots[static_cast<std::size_t>(i)]); };
  for (const auto& [a, b] : question.equal)
    if (argument(a) != argument(b)) return "arguments " + std::to_string(a) + " and " + std::to_string(b) + " differ";
  for (const LaunchBound& bound : question.bounds) {
    std::size_t first = 0, end = static_cast<std::size_t>(bound.index);
    if (bound.of == LaunchBound::Of::Pieces) end = pieces_.size();
    if (bound.of == LaunchBound::Of::PiecesAlong) first = end++;
    if (bound.of != LaunchBound::Of::Argument && (pieces_.empty() || end > pieces_.size()))
      return "the launch has no such pieces";
    std::int64_t number = 1;
    for (std::size_t a = first; bound.of != LaunchBound::Of::Argument && a < end; ++a) number *= pieces_[a];
    if (bound.of == LaunchBound::Of::Argument) number = argument(bound.index);
    if (number < bound.least || number > bound.most)
      return std::to_string(number) + " is not in [" + std::to_string(bound.least) + ", " + std::to_string(bound.most) +
             "]";
  }
  return "";
}

/// Whether two tiles share no element, whatever the strides are that only the launch knows.
bool Observed::are_apart(const Access& a, const Row& x, const Access& b, const Row& y) {
  const auto same = [&](auto member) { return std::ranges::equal(member(a.view), member(b.view)); };
  if (a.tensor != b.tensor || !same([](ir::Type t) { return t.tile_shape(); })) return false;
  for (const std::size_t moves : {0u, 1u}) {
    const std::size_t stays = 1 - moves;
    const std::int64_t stride = a.view.tensor().strides()[moves];
    if (stride != ir::kDynamic && stride != 0 && x.index[moves] != y.index[moves] && a.view.tile_shape()[stays] == 1 &&
        x.index[stays] == y.index[stays])
      return true;
  }
  return false;
}

std::string Observed::refuted_access(const Claim& c, const std::vector<std::uint64_t>& slots,
                                     const std::vector<Row>& all) const {
  const std::size_t number = number_of(c.op);
  if (number == accesses_.size()) return "";
  const Access& access = accesses_[number];
  const auto is = [](const Row& row, std::size_t n) { return row.access == static_cast<std::int64_t>(n); };
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!is(all[i], number)) continue;
    if (c.kind == ClaimKind::Inbounds) {
      const auto axis = static_cast<std::size_t>(c.index);
      const std::int64_t at = all[i].index[axis], tile = access.view.tile_shape()[axis];
      if (at < 0 || at * tile + tile > static_cast<std::int64_t>(slots[access.base + 1 + axis]))
        return "index " + std::to_string(at) + " is outside";
    }
    for (std::size_t j = 0; j < all.size(); ++j) {
      const bool iterations = c.kind == ClaimKind::DisjointIterations && j < i && is(all[j], number) &&
                              all[j].loop == all[i].loop && all[j].region != all[i].region;
      const std::size_t other = c.kind == ClaimKind::Disjoint ? number_of(c.other) : accesses_.size();
      const bool both = is(all[j], other) && all[j].region == all[i].region;
      if ((iterations || both) && !are_apart(access, all[i], accesses_[both ? other : number], all[j]))
        return "they meet at " + std::to_string(all[i].index[0]) + ", " + std::to_string(all[i].index[1]);
    }
  }
  return "";
}

}  // namespace tessera::test
