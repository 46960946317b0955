// Statements of random programs.
#include <algorithm>

#include "generate/generator.hpp"

namespace tessera::generate {

Program random_program(std::uint64_t seed) { return Generator(seed).make(); }

Program Generator::make() {
  parameters();
  grids();
  if (random_.chance(15)) add_function();
  budget_ = random_.between(30, 110);
  std::vector<Node> out;
  if (random_.chance(8)) requirement(out);
  for (int i = random_.between(0, 2); i > 0; --i) { declare(out, {}, int32(random_.between(-1, 3))); }
  const int statements = random_.between(2, 8);
  for (int i = 0; i < statements; ++i) statement(out);
  for (std::size_t i = 0; i < p_.params.size(); ++i) {
    const Param& param = p_.params[i];
    if (param.kind == ParamKind::MutTiles) tile_loop(out, static_cast<int>(i));
    if (param.kind != ParamKind::Mut || random_.chance(5)) continue;
    const int axis = part_axis(param);
    const int parts = axis < 0 ? 1 : static_cast<int>(parts_of(param.extents[static_cast<std::size_t>(axis)]).size());
    for (int part = 0; part < parts; ++part) {
      const std::int64_t piece = static_cast<std::int64_t>(i) * kParts + part;
      out.push_back(Node{Kind::Store, {piece}, {final_value(piece_type(p_, piece))}});
    }
  }
  p_.body = Node{Kind::Body, {}, std::move(out)};
  add_random_launches(p_, random_, random_.between(2, 4));
  return std::move(p_);
}

// ---- statements -----------------------------------------------------------------------------------------------------

Node Generator::body(int statements) {
  const std::size_t outer = vars_.size();
  std::vector<Node> out;
  ++depth_;
  for (int i = 0; i < statements; ++i) statement(out);
  --depth_;
  vars_.resize(outer);
  return Node{Kind::Body, {}, std::move(out)};
}

void Generator::declare(std::vector<Node>& out, const Type& t, Node value) {
  const int id = new_var();
  out.push_back(Node{Kind::Let, {id}, {std::move(value)}});
  vars_.push_back({id, t, true});
}

void Generator::statement(std::vector<Node>& out) {
  if (!spend()) return;
  if (!guards_.empty() && random_.chance(45) && guarded_statement(out)) return;
  if (depth_ < 3 && random_.chance(15) && host_control(out)) return;
  if (random_.chance(12)) return copy_or_overwrite(out);
  const int k = random_.below(100);
  if (k < 22) return declare(out, {}, index());
  if (k < 38) {
    Type t = Type::scalar(element());
    if (!grids_.empty() && random_.chance(60)) {
      t = random_.pick(grids_).tile;
    } else if (const auto all = pieces(); !all.empty()) {
      t = piece_type(p_, random_.pick(all));
    }
    return declare(out, t, value(t, 2));
  }
  if (k < 56) return assign(out);
  if (k < 68 && depth_ < 4) return branch(out);
  if (k < 79 && depth_ < 4) return loop(out);
  if (k < 82 && depth_ < 3) return while_loop(out);
  if (in_function_) return assign(out);
  if (k < 92) return write(out);
  if (k < 95) return accumulate(out);
  if (k < 97 && !p_.functions.empty()) return call(out);
  if (k < 99 && depth_ < 3) {
    for (std::size_t i = 0; i < p_.params.size(); ++i) {
      if (p_.params[i].kind == ParamKind::MutTiles && random_.chance(50)) return tile_loop(out, static_cast<int>(i));
    }
  }
  if (const Variable* v = find(Type::scalar(ElementType::i32), false)) {
    const Node var = Node{Kind::Var, {v->id}};
    out.push_back(Node{Kind::Check, {}, {Node{Kind::Equal, {}, {var, var}}}});
  }
}

void Generator::assign(std::vector<Node>& out) {
  std::vector<Variable> open;
  for (const Variable& v : vars_) {
    if (v.assignable) open.push_back(v);
  }
  if (open.empty()) return declare(out, {}, index());
  const Variable v = random_.pick(open);
  const Type t = v.type;
  Node next = t == Type::scalar(ElementType::i32) && random_.chance(50) ? index() : value(t, 2);
  if (random_.chance(35) && computes(t.elem)) {  // v = v op something
    const Kind op = random_.pick({Kind::Add, Kind::Add, Kind::Sub, Kind::Max, Kind::Min, Kind::Mul});
    next = Node{op, {}, {Node{Kind::Var, {v.id}}, std::move(next)}};
  }
  out.push_back(Node{Kind::Set, {v.id}, {std::move(next)}});
}

void Generator::branch(std::vector<Node>& out) {
  latest_.reset();
  Node c = condition();
  const bool guards = latest_.has_value();
  if (guards) guards_.push_back(*latest_);
  Node yes = body(random_.between(1, 3));
  if (guards) guards_.pop_back();
  const std::size_t outer = vars_.size();
  if (random_.chance(30)) copy_or_overwrite(yes.kids);
  vars_.resize(outer);
  if (!records(yes)) {
    const Variable* v = find(Type::scalar(ElementType::i32), true);
    if (v == nullptr) return;
    yes.kids.push_back(Node{Kind::Set, {v->id}, {Node{Kind::Add, {}, {Node{Kind::Var, {v->id}}, int32(1)}}}});
  }
  Node no = Node{Kind::Body};
  if (random_.chance(20)) {  // else if
    std::vector<Node> chain;
    branch(chain);
    no.kids = std::move(chain);
  } else if (random_.chance(45)) {
    no = body(random_.between(1, 2));
  }
  out.push_back(Node{Kind::If, {}, {std::move(c), std::move(yes), std::move(no)}});
}

/// Plain `if` and `for` of the host over a Constant.
bool Generator::host_control(std::vector<Node>& out) {
  std::vector<std::int64_t> constants;
  for (std::size_t i = 0; i < p_.params.size(); ++i) {
    if (p_.params[i].kind == ParamKind::Constant && !is_float(p_.params[i].elem))
      constants.push_back(static_cast<std::int64_t>(i));
  }
  if (in_function_ || constants.empty()) return false;
  const std::int64_t by = random_.pick(constants);
  if (random_.chance(40)) {
    out.push_back(Node{Kind::HostFor, {by, random_.between(1, 3)}, {body(random_.between(1, 2))}});
  } else {
    Node yes = body(random_.between(1, 3)), no = body(random_.between(0, 2));
    out.push_back(Node{Kind::HostIf, {by, random_.between(0, 4)}, {std::move(yes), std::move(no)}});
  }
  return true;
}

/// What makes a guard worth removing: loops inside it, indices from what it bounds, accesses at those.
bool Generator::guarded_statement(std::vector<Node>& out) {
  if (in_function_) return false;
  const Guard& g = guards_.back();
  const int k = random_.below(10);
  if (k < 3 && depth_ < 5) {
    loop(out);
    return true;
  }
  if (k < 6) {
    declare(out, {}, near_guard());
    return true;
  }
  if (const auto all = pieces(); k == 6 && !all.empty()) {
    const std::int64_t piece = random_.pick(all);
    Type sub = piece_type(p_, piece);
    std::vector<Node> kids;
    for (int a = 0; a < sub.rank; ++a) {
      while (sub[a] > 1 && random_.chance(70)) sub[a] /= 2;
      kids.push_back(random_.chance(60) ? near_guard() : int32(random_.between(0, 1)));
    }
    kids.push_back(value(sub, 1));
    out.push_back(Node{Kind::StoreSub, {piece}, std::move(kids)});
    return true;
  }
  Node loaded = load_grid(g.grid);
  if (const Variable* v = find(g.grid.tile, true)) {
    const Node var{Kind::Var, {v->id}};
    const bool add = computes(v->type.elem) && random_.chance(60);
    Node next = add ? Node{Kind::Add, {}, {var, std::move(loaded)}} : std::move(loaded);
    out.push_back(Node{Kind::Set, {v->id}, {std::move(next)}});
  } else {
    declare(out, g.grid.tile, std::move(loaded));
  }
  return true;
}

/// Copies of tiles and branches that replace some of them: which memory belongs to which value then depends on the run.
void Generator::copy_or_overwrite(std::vector<Node>& out) {
  std::vector<Variable> tiles;
  for (const Variable& v : vars_) {
    if (v.type.rank > 0) tiles.push_back(v);
  }
  const auto all = pieces();
  if (tiles.empty() || random_.chance(25)) {
    if (all.empty()) return declare(out, {}, index());
    const Type t = piece_type(p_, random_.pick(all));
    return declare(out, t, value(t, 2));
  }
  const Variable from = random_.pick(tiles);
  if (random_.chance(45)) return declare(out, from.type, Node{Kind::Var, {from.id}});
  const Variable* to = find(from.type, true);
  if (to == nullptr) return declare(out, from.type, Node{Kind::Var, {from.id}});
  const int id = to->id;
  out.push_back(Node{Kind::Set, {id}, {random_.chance(50) ? Node{Kind::Var, {from.id}} : value(from.type, 1)}});
}

/// Few rounds, but with bounds of every kind: known, unknown, empty, close to the ends of the type.
void Generator::loop(std::vector<Node>& out) {
  using enum ElementType;
  const ElementType e = random_.chance(85) ? ElementType::i32 : random_.pick({i64, u32, u64, i16, u8});
  const auto n = [&](std::int64_t v) { return Node{Kind::Number, {v}, {}, Type::scalar(e)}; };
  Node lo = n(0), hi = n(random_.between(0, 4)), step = n(1);
  const int bits = tessera::info(e).bits;
  if (e == ElementType::i32 && random_.chance(50)) {
    hi = Node{Kind::Min, {}, {index(), int32(random_.between(1, 5))}};
    if (random_.chance(30)) lo = Node{Kind::Max, {}, {index(), int32(random_.between(-2, 2))}};
    if (!grids_.empty() && random_.chance(40)) {
      const Grid& g = random_.pick(grids_);
      hi = Node{Kind::Count, {g.tensor, random_.below(g.tile.rank)}, {}, g.tile};
      if (in_function_) hi = n(3);
    }
  } else if (bits < 64 && random_.chance(6)) {
    const std::int64_t most = (std::int64_t{1} << (is_signed(e) ? bits - 1 : bits)) - 1;
    lo = n(most - random_.between(0, 12));
    hi = n(most - random_.between(0, 3));
  }
  if (random_.chance(20)) step = n(random_.between(1, 5));
  if (e == ElementType::i32 && random_.chance(6)) step = Node{Kind::Max, {}, {index(), int32(random_.between(0, 2))}};
  int counter = -1;
  if (random_.chance(45)) {  // an integer that the loop carries
    declare(out, {}, int32(random_.between(-1, 2)));
    counter = vars_.back().id;
  }
  const std::size_t outer = vars_.size();
  const int id = new_var();
  vars_.push_back({id, Type::scalar(e), false});
  Node inside = body(random_.between(1, 4));
  vars_.resize(outer);
  if (counter >= 0) {
    Node next = Node{Kind::Add, {}, {Node{Kind::Var, {counter}}, int32(random_.between(1, 2))}};
    inside.kids.push_back(Node{Kind::Set, {counter}, {std::move(next)}});
  }
  out.push_back(Node{Kind::For, {id}, {std::move(lo), std::move(hi), std::move(step), std::move(inside)}});
}

void Generator::while_loop(std::vector<Node>& out) {
  const std::size_t outer = vars_.size();
  const int id = new_var();
  vars_.push_back({id, Type::scalar(ElementType::i32), false});
  Node c = condition();
  Node inside = body(random_.between(1, 3));
  vars_.resize(outer);
  out.push_back(Node{Kind::While, {id, random_.between(0, 4)}, {std::move(c), std::move(inside)}});
}

void Generator::tile_loop(std::vector<Node>& out, int param) {
  if (std::find(open_tile_loops_.begin(), open_tile_loops_.end(), param) != open_tile_loops_.end()) return;
  const Param& of = p_.params[static_cast<std::size_t>(param)];
  auto& order = orders_[static_cast<std::size_t>(param)];
  if (order.first < 0) {
    const int kind = random_.below(of.rank() >= 2 ? 3 : 2);
    order = {kind, kind == 2 ? random_.pick({1, 2, 2, 3, 8}) : 0};
  }
  open_tile_loops_.push_back(param);
  Node inside = body(random_.between(0, 3));
  const int axis = part_axis(of);
  const int parts = axis < 0 ? 1 : static_cast<int>(parts_of(of.extents[static_cast<std::size_t>(axis)]).size());
  for (int part = 0; part < parts; ++part) {
    const std::int64_t piece = static_cast<std::int64_t>(param) * kParts + part;
    inside.kids.push_back(Node{Kind::Store, {piece}, {final_value(piece_type(p_, piece))}});
  }
  open_tile_loops_.pop_back();
  out.push_back(Node{Kind::TileLoop, {param, order.first, order.second}, {std::move(inside)}});
}

void Generator::write(std::vector<Node>& out) {
  const auto all = pieces();
  if (all.empty()) return;
  const std::int64_t piece = random_.pick(all);
  const Type t = piece_type(p_, piece);
  const int k = random_.below(10);
  if (k < 3) {
    out.push_back(Node{Kind::Store, {piece}, {value(t, 2)}});
  } else if (k < 8) {
    Type sub = t;
    std::vector<Node> kids;
    for (int a = 0; a < t.rank; ++a) {
      while (sub[a] > 1 && random_.chance(60)) sub[a] /= 2;
      kids.push_back(random_.chance(60) ? small_index(t[a] / sub[a]) : index());
    }
    kids.push_back(value(sub, 1));
    out.push_back(Node{Kind::StoreSub, {piece}, std::move(kids)});
  } else if (k == 8) {
    const int axis = random_.below(t.rank);
    const int n = 1 << random_.below(4);
    if (t.with_extent(axis, n).size() > 256) return;
    std::vector<Node> kids{position_tile(Type::of(ElementType::i32, {n}))};
    kids.push_back(value(t.with_extent(axis, n), 1));
    out.push_back(Node{Kind::Scatter, {piece, axis}, std::move(kids)});
  } else {
    Type common = Type::scalar(ElementType::i32);
    if (random_.chance(80)) {
      common.rank = random_.between(1, 2);
      for (int a = 0; a < common.rank; ++a) common[a] = 1 << random_.below(4);
    }
    std::vector<Node> kids;
    for (int a = 0; a < t.rank; ++a) kids.push_back(random_.chance(70) ? position_tile(common) : small_index(t[a]));
    kids.push_back(random_.chance(80) ? value(common.with(t.elem), 1) : value(Type::scalar(t.elem), 1));
    out.push_back(Node{Kind::ScatterElements, {piece}, std::move(kids)});
  }
}

void Generator::accumulate(std::vector<Node>& out) {
  for (std::size_t i = 0; i < p_.params.size(); ++i) {
    const Param& param = p_.params[i];
    if (param.kind != ParamKind::Acc) continue;
    // One operation for each parameter: different ones on an element happen in any order.
    const bool ordered = !is_float(param.elem) || param.elem == ElementType::f32 || param.elem == ElementType::f64;
    const int of_floats = ordered ? random_.pick({0, 0, 1, 2}) : 0;  // sums, extremes
    const int op = operations_.try_emplace(i, is_float(param.elem) ? of_floats : random_.below(6)).first->second;
    const bool whole = op == static_cast<int>(lang::AccOp::Add) && random_.chance(40);
    const auto number = static_cast<std::int64_t>(i);
    Type t = Type::scalar(param.elem);
    t.rank = whole ? param.rank() : random_.between(1, 2);
    for (int a = 0; a < t.rank; ++a) t[a] = 1 << random_.below(3);
    std::vector<Node> kids;
    for (int a = 0; a < param.rank(); ++a) {
      kids.push_back(whole ? index() : random_.chance(80) ? position_tile(t.with(ElementType::i32)) : index());
    }
    Node v = value(t, 1);
    kids.push_back(is_float(param.elem) ? bounded(std::move(v), param.elem, 2) : std::move(v));
    if (whole) {
      out.push_back(Node{Kind::AccumulateTile, {number}, std::move(kids)});
    } else {
      out.push_back(Node{Kind::Accumulate, {number, op}, std::move(kids)});
    }
    return;
  }
}

void Generator::call(std::vector<Node>& out) {
  const int number = random_.below(static_cast<int>(p_.functions.size()));
  const Function& f = p_.functions[static_cast<std::size_t>(number)];
  std::vector<Node> kids;
  for (const auto& a : f.params) {
    const Variable* v = find(a.type, true);
    if (a.by_reference && v == nullptr) {
      declare(out, a.type, value(a.type, 1));
      v = &vars_.back();
    }
    kids.push_back(a.by_reference ? Node{Kind::Var, {v->id}} : value(a.type, 1));
  }
  out.push_back(Node{Kind::Call, {number}, std::move(kids)});
}

void Generator::requirement(std::vector<Node>& out) {
  std::vector<Node> numbers;
  for (std::size_t i = 0; i < p_.params.size(); ++i) {
    const auto number = static_cast<std::int64_t>(i);
    const Param& param = p_.params[i];
    if (!param.is_tensor() && param.elem == ElementType::i32) numbers.push_back(Node{argument_of(param), {number}});
    if (param.kind == ParamKind::In) numbers.push_back(Node{Kind::Dim, {number, random_.below(param.rank())}});
    if (param.kind == ParamKind::Mut)
      numbers.push_back(Node{Kind::PieceDim, {number * kParts, random_.below(param.rank())}});
    if (param.kind == ParamKind::Mut && part_axis(param) >= 0) numbers.pop_back();
  }
  if (numbers.empty()) return;
  Node left = random_.pick(numbers), right = int32(random_.between(0, 20));
  if (random_.chance(40)) left = Node{Kind::Rem, {}, {std::move(left), int32(1 << random_.below(4))}};
  const Kind op = random_.pick({Kind::Equal, Kind::LessEqual, Kind::Less, Kind::GreaterEqual});
  if (op == Kind::Equal) right = random_.chance(50) ? random_.pick(numbers) : int32(0);
  out.push_back(Node{Kind::Require, {}, {Node{op, {}, {std::move(left), std::move(right)}}}});
}

std::vector<std::int64_t> Generator::pieces() {
  std::vector<std::int64_t> all;
  if (in_function_) return all;
  for (std::size_t i = 0; i < p_.params.size(); ++i) {
    const Param& param = p_.params[i];
    const bool scheduled =
        std::find(open_tile_loops_.begin(), open_tile_loops_.end(), static_cast<int>(i)) != open_tile_loops_.end();
    if (param.kind != ParamKind::Mut && !(param.kind == ParamKind::MutTiles && scheduled)) continue;
    const int axis = part_axis(param);
    const int parts = axis < 0 ? 1 : static_cast<int>(parts_of(param.extents[static_cast<std::size_t>(axis)]).size());
    for (int part = 0; part < parts; ++part) all.push_back(static_cast<std::int64_t>(i) * kParts + part);
  }
  return all;
}

/// What a program stores last: it shows as many variables as fit, the ones that loops carry above all.
Node Generator::final_value(const Type& t) {
  const Variable* tile = find(t, true);
  Node result = tile != nullptr && random_.chance(55) ? Node{Kind::Var, {tile->id}} : value(t, 2);
  if (!computes(t.elem)) return result;
  if (tile != nullptr && random_.chance(30))
    return Node{Kind::Add, {}, {std::move(result), number(Type::scalar(t.elem))}};
  for (int i = 0; i < 2; ++i) {
    const Variable* v = find(i == 0 ? t : Type::scalar(ElementType::i32), true);
    if (v == nullptr) continue;
    Node shown = Node{Kind::Var, {v->id}};
    if (v->type.elem != t.elem) shown = Node{Kind::Cast, {0}, {std::move(shown)}, Type::scalar(t.elem)};
    result = Node{Kind::Add, {}, {std::move(result), std::move(shown)}};
  }
  return result;
}

const Generator::Variable* Generator::find(const Type& t, bool assignable) {
  const Variable* found = nullptr;
  const bool recent = random_.chance(30);
  int seen = 0;
  for (const Variable& v : vars_) {
    if (v.type == t && (v.assignable || !assignable) && (recent || random_.below(++seen) == 0)) found = &v;
  }
  return found;
}

}  // namespace tessera::generate
