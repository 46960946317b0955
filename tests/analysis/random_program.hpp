// Random integer programs over a kernel's arguments and block numbers: arithmetic, comparisons, branches, loops, small
// tiles. Nothing is loaded or stored; what matters is which comparisons the analysis believes to be decided. For the
// checker also with accesses, and with divisions in arms that exclude each other.
#pragma once
#include <random>
#include <vector>

#include "tessera/analysis/launch_contract.hpp"
#include "tessera/ir/operation.hpp"

namespace tessera::test {

/// A contract with two tensors (rank 2) and two values (i32, i64). The first tensor has pieces, or the number of blocks
/// is a last argument, or neither.
inline analysis::LaunchContract random_contract(std::mt19937_64& rng) {
  using analysis::ArgRole;
  analysis::LaunchContract c;
  const std::int64_t extents[] = {1, 2, 16, 64};
  for (int t = 0; t < 2; ++t) {
    c.tensors.push_back({t * 5, 2, t == 0, t == 0});
    c.args.push_back({ArgRole::Base, t, -1});
    for (int a = 0; a < 2; ++a) c.args.push_back({ArgRole::Dim, t, a});
    for (int a = 0; a < 2; ++a) c.args.push_back({ArgRole::Stride, t, a});
  }
  c.args.push_back({});
  c.args.push_back({});
  if (rng() % 4 != 0) {
    c.pieces_of_tensor = 0;
    c.piece = {extents[rng() % 2], extents[rng() % 4]};
  } else if (rng() % 2 != 0) {
    c.blocks_arg = static_cast<int>(c.args.size());
    c.args.push_back({ArgRole::Blocks, -1, -1});
  }
  return c;
}

/// With accesses the program can be judged, but not run: its tensors are nowhere.
enum class Accesses : std::uint8_t { None, Some };

class RandomProgram {
 public:
  RandomProgram(std::mt19937_64& rng, const analysis::LaunchContract& contract, Accesses accesses = Accesses::None)
      : rng_(rng),
        module_(std::make_unique<ir::Module>()),
        entry_(module_->add_function("program")),
        b_(entry_.body()) {
    const ir::Type pointer = ir::Type::tile(ir::Type::pointer(ir::Type::element(ir::Elem::F32)), {});
    const ir::Type i64 = ir::Type::tile(ir::Elem::I64), i32 = ir::Type::tile(ir::Elem::I32);
    for (std::size_t i = 0; i < contract.args.size(); ++i) {
      const bool base = contract.args[i].role == analysis::ArgRole::Base;
      const bool narrow = i == 10 || contract.args[i].role == analysis::ArgRole::Blocks;  // after two tensors
      entry_.body().add_arg(base ? pointer : narrow ? i32 : i64);
    }
    start(contract);
    if (accesses == Accesses::Some) make_views(contract);
    statements(18, 0);
    b_.create(ir::Op::Return, {}, {});
  }
  std::unique_ptr<ir::Module> take() { return std::move(module_); }

 private:
  using Value = ir::Value;
  using Op = ir::Op;
  using AttrName = ir::AttrName;

  std::uint64_t below(std::uint64_t n) { return rng_() % n; }
  Value pick(const std::vector<Value>& from) {  // recent values more often
    const std::size_t n = from.size();
    return below(3) == 0 ? from[below(n)] : from[n - 1 - below(std::min<std::size_t>(n, 5))];
  }
  Value i32(std::int64_t v) { return b_.constant_int(ir::Elem::I32, v); }
  Value interesting() {
    const std::int64_t values[] = {0,  1,  2,    3,  4,  7,   8,         16,        63,
                                   64, 65, 1000, -1, -2, -64, INT32_MAX, INT32_MIN, 1 << 24};
    return i32(values[below(std::size(values))]);
  }
  ir::NamedAttr sign() {
    return {AttrName::signedness, below(2) == 0 ? ir::Signedness::Signed : ir::Signedness::Unsigned};
  }

  /// Dimensions, counts of tiles and block coordinates, as every recording has them.
  void start(const analysis::LaunchContract& contract) {
    const ir::Type i32t = ir::Type::tile(ir::Elem::I32);
    const ir::Block& body = entry_.body();
    std::vector<Value> counts;
    for (std::size_t i = 0; i < contract.args.size(); ++i) {
      const Value arg = body.arg(i);
      if (contract.args[i].role == analysis::ArgRole::Base) continue;
      if (arg.type().elem() == ir::Elem::I32) {
        ints_.push_back(arg);
        continue;
      }
      wide_.push_back(arg);
      const Value narrow = b_.create(Op::TruncI, {arg}, {i32t})->result();
      ints_.push_back(narrow);
      if (contract.args[i].role != analysis::ArgRole::Dim) continue;
      const auto axis = static_cast<std::size_t>(contract.args[i].axis);
      const std::int64_t extent = contract.args[i].tensor == 0 && !contract.piece.empty() ? contract.piece[axis] : 16;
      counts.push_back(divide(narrow, i32(extent), ir::Signedness::Unsigned, ir::Rounding::PositiveInf));
      ints_.push_back(counts.back());
    }
    ir::Operation* block = b_.create(Op::GetTileBlockId, {}, {i32t, i32t, i32t});
    ir::Operation* grid = b_.create(Op::GetNumTileBlocks, {}, {i32t, i32t, i32t});
    ints_.push_back(grid->result(0));
    const Value number = block->result(0);
    ints_.push_back(number);
    ints_.push_back(divide(number, counts[1], ir::Signedness::Unsigned, ir::Rounding::Zero));
    ints_.push_back(
        b_.create(Op::RemI, {number, counts[1]}, {i32t}, {{AttrName::signedness, ir::Signedness::Unsigned}})->result());
  }

  Value divide(Value a, Value b, ir::Signedness s, ir::Rounding r) {
    return b_.create(Op::DivI, {a, b}, {a.type()}, {{AttrName::signedness, s}, {AttrName::rounding, r}})->result();
  }

  Value operand() { return below(3) == 0 ? interesting() : pick(ints_); }

  Value binary(Value x, Value y) {
    const ir::Type t = x.type();
    switch (below(15)) {
      case 0:
      case 1: return b_.create(Op::AddI, {x, y}, {t})->result();
      case 2: return b_.create(Op::SubI, {x, y}, {t})->result();
      case 3:
      case 4: return b_.create(Op::MulI, {x, y}, {t})->result();
      case 5: return divide(x, y, ir::Signedness::Signed, ir::Rounding(below(4) == 0 ? 2 : below(2) == 0 ? 3 : 1));
      case 6:
        return divide(x, y, ir::Signedness::Unsigned, below(2) == 0 ? ir::Rounding::PositiveInf : ir::Rounding::Zero);
      case 7: return b_.create(Op::RemI, {x, y}, {t}, {sign()})->result();
      case 8: return b_.create(Op::MinI, {x, y}, {t}, {sign()})->result();
      case 9: return b_.create(Op::MaxI, {x, y}, {t}, {sign()})->result();
      case 10: return b_.create(Op::ShLI, {x, y}, {t})->result();
      case 11: return b_.create(Op::ShRI, {x, y}, {t}, {sign()})->result();
      case 12: return b_.create(Op::AndI, {x, y}, {t})->result();
      case 13: return b_.create(below(2) == 0 ? Op::OrI : Op::XOrI, {x, y}, {t})->result();
      default: return b_.create(below(2) == 0 ? Op::NegI : Op::AbsI, {x}, {t})->result();
    }
  }

  Value through_wide() {
    const ir::Type i64t = ir::Type::tile(ir::Elem::I64), i32t = ir::Type::tile(ir::Elem::I32);
    Value x = b_.create(Op::ExtI, {operand()}, {i64t}, {sign()})->result();
    if (below(2) == 0) x = binary(x, pick(wide_));
    wide_.push_back(x);
    return b_.create(Op::TruncI, {x}, {i32t})->result();
  }

  Value compare(Value x, Value y) {
    return b_
        .create(Op::CmpI, {x, y}, {x.type().with_element(ir::Elem::I1)},
                {{AttrName::comparison_predicate, ir::ComparisonPredicate(below(6))}, sign()})
        ->result();
  }
  Value condition() {
    Value c = compare(pick(ints_), operand());
    if (below(3) == 0) {
      const Op ops[] = {Op::AndI, Op::OrI, Op::XOrI};
      c = b_.create(ops[below(3)], {c, compare(pick(ints_), operand())}, {c.type()})->result();
    }
    return c;
  }

  /// Comparing tiles: a mask whose select is what wants it decided.
  void masked_tile() {
    const std::int64_t one[] = {1};
    const ir::Type t = ir::Type::tile(ir::Elem::I32, {4});
    const auto splat = [&](Value v) {
      const Value r = b_.create(Op::Reshape, {v}, {v.type().with_shape(one)})->result();
      return b_.create(Op::Broadcast, {r}, {t})->result();
    };
    Value at = b_.create(Op::Iota, {}, {t})->result();
    for (std::uint64_t i = below(3); i > 0; --i) at = binary(at, splat(operand()));
    const Value mask = compare(at, splat(operand()));
    b_.create(Op::Select, {mask, at, splat(i32(0))}, {t});
  }

  // ---- accesses ---------------------------------------------------------------------------------------------------

  /// Tiles of each tensor, of which a row-major one has elements at distance 1, the other one at any distance.
  void make_views(const analysis::LaunchContract& contract) {
    const ir::Block& body = entry_.body();
    for (const analysis::TensorContract& t : contract.tensors) {
      const auto base = static_cast<std::size_t>(t.base_arg);
      const bool fixed = below(3) == 0;
      const std::vector<std::int64_t> shape(2, ir::kDynamic), strides{fixed ? 64 : ir::kDynamic, 1};
      std::vector<Value> operands{body.arg(base), body.arg(base + 1), body.arg(base + 2)};
      if (!fixed) operands.push_back(body.arg(base + 3));
      const std::vector<std::uint32_t> groups{1, 2, fixed ? 0u : 1u};
      const std::vector<ir::Type> type{ir::Type::tensor_view(ir::Elem::F32, shape, strides)};
      const Value tensor = b_.create_grouped(Op::MakeTensorView, operands, groups, type)->result();
      const std::int32_t extents[][2] = {{1, 4}, {1, 1}, {4, 1}, {2, 4}, {1, 16}};
      for (int i = 0; i < 2; ++i) {
        const auto& e = extents[below(std::size(extents))];
        const std::vector<std::int32_t> tile{e[0], e[1]};
        const ir::Type view = ir::Type::partition_view(tensor.type(), tile, {}, {});
        views_.push_back(b_.create(Op::MakePartitionView, {tensor}, {view})->result());
      }
    }
  }
  /// Near the place of an access before, so that they often share no element, and often do.
  Value index() {
    if (last_.empty() || below(3) == 0) last_ = {below(2) == 0 ? interesting() : pick(ints_)};
    const auto number = [&](std::uint64_t n) { return i32(static_cast<std::int64_t>(n)); };
    Value at = last_.front();
    if (below(4) == 0) at = b_.create(Op::MulI, {at, number(1 + below(3))}, {at.type()})->result();
    if (below(2) == 0) at = b_.create(Op::AddI, {at, number(1 + below(3))}, {at.type()})->result();
    if (below(4) == 0) at = b_.create(Op::SubI, {number(below(9)), at}, {at.type()})->result();
    return at;
  }
  void access() {
    const Value view = pick(views_), row = below(2) == 0 ? i32(0) : index(), column = index();
    const ir::Type tile = view.type().view_tile();
    const std::vector<std::uint32_t> groups{1, 1, 2, 0};
    const Value line = b_.create(Op::Iota, {}, {ir::Type::tile(ir::Elem::I32, {tile.num_elements()})})->result();
    const Value value =
        b_.create(Op::IToF, {b_.create(Op::Reshape, {line}, {tile.with_element(ir::Elem::I32)})->result()}, {tile},
                  {{AttrName::signedness, ir::Signedness::Signed}})
            ->result();
    const std::vector<Value> operands{value, view, row, column};
    const std::vector<ir::Type> token{ir::Type::token()};
    b_.create_grouped(Op::StoreViewTko, operands, groups, token,
                      {{AttrName::memory_ordering_semantics, ir::MemoryOrdering::Weak}});
  }

  /// Two arms that exclude each other divide by one number; the divisor of the first dividend is known to be positive
  /// in its arm alone.
  void divided_arms(int depth) {
    const ir::Type t = ir::Type::tile(ir::Elem::I32);
    const auto decided = [&](Value x, ir::ComparisonPredicate p, Value y) {
      return b_
          .create(Op::CmpI, {x, y}, {ir::Type::tile(ir::Elem::I1)},
                  {{AttrName::comparison_predicate, p}, {AttrName::signedness, ir::Signedness::Signed}})
          ->result();
    };
    const Value v = pick(ints_), a = pick(ints_), few = i32(static_cast<std::int64_t>(1 + below(9)));
    const Value n = below(2) == 0 ? b_.create(Op::GetNumTileBlocks, {}, {t, t, t})->result(0)
                                  : b_.create(Op::MaxI, {pick(ints_), i32(1)}, {t},
                                              {{AttrName::signedness, ir::Signedness::Signed}})
                                        ->result();
    const auto part = [&](Value x, Value y) {
      const bool rest = below(4) == 0;
      return rest ? b_.create(Op::RemI, {x, y}, {t}, {{AttrName::signedness, ir::Signedness::Signed}})->result()
                  : divide(x, y, ir::Signedness::Signed, ir::Rounding::Zero);
    };
    ir::Operation* op = b_.create(Op::If, {decided(v, ir::ComparisonPredicate::GreaterEqual, i32(1))}, {});
    for (int arm = 0; arm < 2; ++arm) {
      inside(op->add_region(), [&] {
        if (arm == 0) {
          Value y = divide(few, v, ir::Signedness::Signed, ir::Rounding::Zero);
          if (below(3) == 0)
            y = b_.create(Op::MinI, {y, divide(few, v, ir::Signedness::Signed, ir::Rounding::PositiveInf)}, {t},
                          {{AttrName::signedness, ir::Signedness::Signed}})
                    ->result();
          ints_.push_back(part(y, n));
        } else {
          ir::Operation* positive = b_.create(Op::If, {decided(a, ir::ComparisonPredicate::GreaterEqual, i32(0))}, {});
          inside(positive->add_region(), [&] {
            (void)decided(part(a, n), ir::ComparisonPredicate::LessEqual, few);
            b_.create(Op::Yield, {}, {});
          });
          inside(positive->add_region(), [&] { b_.create(Op::Yield, {}, {}); });
        }
        if (depth < 3) statements(static_cast<int>(below(2)), depth + 1);
        b_.create(Op::Yield, {}, {});
      });
    }
  }

  void statement(int depth) {
    if (!views_.empty() && below(3) == 0) return below(4) == 0 ? divided_arms(depth) : access();
    const std::uint64_t kind = below(depth < 3 ? 14 : 10);
    if (kind < 6) {
      ints_.push_back(binary(operand(), operand()));
    } else if (kind == 6) {
      ints_.push_back(through_wide());
    } else if (kind == 7) {
      ints_.push_back(b_.create(Op::Select, {condition(), pick(ints_), operand()}, {ints_[0].type()})->result());
    } else if (kind == 8) {
      masked_tile();
    } else if (kind == 9) {
      branch(condition(), 3);  // does nothing but be decided
    } else if (kind < 12) {
      branch(condition(), depth);
    } else if (kind == 12) {
      loop(depth);
    } else {
      endless_loop(depth);
    }
  }

  void statements(int n, int depth) {
    for (int i = 0; i < n; ++i) statement(depth);
  }

  /// Runs `body` in a region; what it made is unknown outside.
  template <class F>
  void inside(ir::Block& region, F body) {
    const std::size_t narrow = ints_.size(), wide = wide_.size();
    const std::vector<Value> last = last_;
    const ir::Builder outer = b_;
    b_ = ir::Builder(region);
    body();
    b_ = outer;
    ints_.resize(narrow);
    wide_.resize(wide);
    last_ = last;
  }

  void branch(Value c, int depth) {
    const ir::Type t = ir::Type::tile(ir::Elem::I32);
    ir::Operation* op = b_.create(Op::If, {c}, {t});
    for (int arm = 0; arm < 2; ++arm) {
      ir::Block& region = op->add_region();
      inside(region, [&] {
        if (depth < 3) statements(static_cast<int>(below(4)), depth + 1);
        b_.create(Op::Yield, {operand()}, {});
      });
    }
    ints_.push_back(op->result());
  }

  /// At most a few rounds: the bounds are clamped.
  void loop(int depth) {
    const ir::Type t = ir::Type::tile(ir::Elem::I32);
    const bool is_unsigned = below(4) == 0;
    const auto attr = [&] {
      return ir::NamedAttr{AttrName::signedness, is_unsigned ? ir::Signedness::Unsigned : ir::Signedness::Signed};
    };
    Value lo = i32(static_cast<std::int64_t>(below(3)));
    if (below(2) == 0 && !is_unsigned) lo = b_.create(Op::MaxI, {operand(), i32(-3)}, {t}, {attr()})->result();
    Value hi = b_.create(Op::MinI, {operand(), i32(static_cast<std::int64_t>(below(9)))}, {t}, {attr()})->result();
    if (below(6) == 0 && !is_unsigned) {  // where the last step may leave the type
      lo = b_.create(Op::MaxI, {operand(), i32(INT32_MAX - static_cast<std::int64_t>(below(9)))}, {t}, {attr()})
               ->result();
      hi = operand();
    }
    Value step = i32(static_cast<std::int64_t>(1 + below(3)));
    if (below(4) == 0) step = b_.create(Op::MaxI, {operand(), i32(1)}, {t}, {attr()})->result();
    const Value carried = operand();
    ir::Operation* op = b_.create(Op::For, {lo, hi, step, carried}, {t});
    if (is_unsigned) op->set_attr(AttrName::unsignedCmp, ir::UnitAttr{});
    ir::Block& region = op->add_region();
    const Value induction = region.add_arg(t), argument = region.add_arg(t);
    inside(region, [&] {
      ints_.push_back(argument);
      ints_.push_back(induction);
      if (!views_.empty() && below(2) == 0) {
        last_ = {induction};
        access();
      }
      statements(static_cast<int>(1 + below(4)), depth + 1);
      b_.create(Op::Continue, {below(2) == 0 ? binary(argument, operand()) : operand()}, {});
    });
    ints_.push_back(op->result());
  }

  /// A loop with a counter that ends it after a few rounds, and a value carried out.
  void endless_loop(int depth) {
    const ir::Type t = ir::Type::tile(ir::Elem::I32);
    ir::Operation* op = b_.create(Op::Loop, {i32(0), operand()}, {t});
    ir::Block& region = op->add_region();
    const Value counter = region.add_arg(t), argument = region.add_arg(t);
    inside(region, [&] {
      const Value done =
          b_.create(Op::CmpI, {counter, i32(static_cast<std::int64_t>(below(4)))}, {ir::Type::tile(ir::Elem::I1)},
                    {{AttrName::comparison_predicate, ir::ComparisonPredicate::GreaterEqual},
                     {AttrName::signedness, ir::Signedness::Signed}})
              ->result();
      ir::Operation* test = b_.create(Op::If, {done}, {});
      inside(test->add_region(), [&] { b_.create(Op::Break, {argument}, {}); });
      inside(test->add_region(), [&] { b_.create(Op::Yield, {}, {}); });
      ints_.push_back(counter);
      ints_.push_back(argument);
      statements(static_cast<int>(1 + below(3)), depth + 1);
      const Value next = b_.create(Op::AddI, {counter, i32(1)}, {t})->result();
      b_.create(Op::Continue, {next, operand()}, {});
    });
    ints_.push_back(op->result());
  }

  std::mt19937_64& rng_;
  std::unique_ptr<ir::Module> module_;
  ir::Function& entry_;
  ir::Builder b_;
  std::vector<Value> ints_, wide_;
  std::vector<Value> views_;  ///< of tiles; none: nothing is accessed
  std::vector<Value> last_;   ///< the index that other accesses are near to, if any
};

}  // namespace tessera::test
