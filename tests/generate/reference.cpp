// Statements of the reference interpreter.
#include "generate/reference.hpp"

#include <algorithm>
#include <cmath>

#include "generate/reference_state.hpp"

namespace tessera::generate {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

std::int64_t pieces(const Param& p, std::span<const std::int64_t> dims) {
  std::int64_t n = 1;
  for (std::size_t a = 0; a < dims.size(); ++a) n *= ceil_div(dims[a], p.extents[a]);
  return n;
}

}  // namespace

Position place(const Type& t, int k) {
  Position at{};
  for (int a = t.rank; a-- > 0; k /= t[a]) at[static_cast<std::size_t>(a)] = k % t[a];
  return at;
}

int source(const Type& from, const Type& to, int k) {
  if (from.rank == 0) return 0;
  const Position at = place(to, k);
  int n = 0;
  for (int a = 0; a < from.rank; ++a)
    n = n * from[a] + (from[a] == 1 ? 0 : static_cast<int>(at[static_cast<std::size_t>(a)]));
  return n;
}

bool Tensor::inside(const Position& at) const {
  for (std::size_t a = 0; a < static_cast<std::size_t>(rank); ++a) {
    if (at[a] < 0 || at[a] >= dims[a]) return false;
  }
  return true;
}
std::byte* Tensor::address(const Position& at) const {
  std::int64_t offset = 0;
  for (std::size_t a = 0; a < static_cast<std::size_t>(rank); ++a) offset += at[a] * strides[a];
  return origin + offset * (tessera::info(elem).bits / 8);
}

Blocks blocks_of(const Program& p, const Launch& launch) {
  Blocks b;
  bool own = false, scheduled = false;
  std::int64_t most = 0;
  std::size_t next = 0;
  for (const Param& param : p.params) {
    if (!param.is_tensor()) continue;
    const Layout& t = launch.tensors[next++];
    if (!param.has_pieces()) continue;
    const std::int64_t n = pieces(param, t.dims);
    if (param.kind == ParamKind::MutTiles) {
      scheduled = true;
      most = std::max(most, n);
      continue;
    }
    if (own && n != b.count) b.agree = false;
    if (!own) b.count = n;
    own = true;
  }
  if (!own) b.count = scheduled ? std::min<std::int64_t>(most, launch.blocks) : launch.blocks;
  return b;
}

Outcome run_reference(const Program& p, const Launch& launch, const Memory& layout, std::byte* memory) {
  const Blocks blocks = blocks_of(p, launch);
  if (!blocks.agree) return Outcome::Rejected;
  try {
    Interpreter interpreter(p, launch, layout, memory);
    if (!interpreter.requirements()) return Outcome::Rejected;
    interpreter.run(blocks.count);
  } catch (const TooLong&) { return Outcome::TooLong; }
  return Outcome::Done;
}

Interpreter::Interpreter(const Program& p, const Launch& launch, const Memory& layout, std::byte* memory)
    : p_(p), launch_(launch) {
  std::size_t tensors = 0, scalars = 0;
  for (const Param& param : p.params) {
    tensors_.emplace_back();
    numbers_.push_back(0);
    index_.push_back({});
    if (!param.is_tensor()) {
      numbers_.back() = launch.scalars[scalars++];
      continue;
    }
    const Placed& placed = layout.tensors[tensors++];
    Tensor& t = tensors_.back();
    t.elem = param.elem;
    t.rank = param.rank();
    t.origin = memory + placed.origin;
    std::copy(placed.layout->dims.begin(), placed.layout->dims.end(), t.dims.begin());
    std::copy(placed.layout->strides.begin(), placed.layout->strides.end(), t.strides.begin());
  }
  std::int64_t most = 0;
  const auto see = [&](const Node& n) {
    const bool names = n.kind == Kind::Let || n.kind == Kind::For || n.kind == Kind::While || n.kind == Kind::Var;
    if (names) most = std::max(most, n.n[0] + 1);
  };
  Program& tree = const_cast<Program&>(p);  // walked only
  each_node(tree.body, see);
  for (Function& f : tree.functions) {
    for (const auto& a : f.params) most = std::max<std::int64_t>(most, a.var + 1);
    each_node(f.body, see);
  }
  vars_.resize(static_cast<std::size_t>(most));
  for (std::int64_t v = 0; v < most; ++v) alias_.push_back(v);
}

std::int64_t Interpreter::host_number(std::int64_t param) const {
  const auto number = static_cast<std::size_t>(param);
  return literal(p_.params[number].elem, numbers_[number]).i;
}

/// The extents of what load_like takes agree, wherever it stands in what is recorded.
bool Interpreter::regions_agree(const Node& n) const {
  if (n.kind == Kind::HostIf) return regions_agree(n.kids[host_number(n.n[0]) >= n.n[1] ? 0 : 1]);
  if (n.kind == Kind::HostFor && (n.n[1] < 1 || host_number(n.n[0]) < 1)) return true;
  if (n.kind == Kind::LoadLike && static_cast<lang::Regions>(n.n[3]) != lang::Regions::Partial) {
    const Tensor x = tensor(n.n[0]), &y = tensors_[static_cast<std::size_t>(param_of(n.n[1]))];
    for (std::size_t a = 0; a < static_cast<std::size_t>(x.rank); ++a) {
      if (x.dims[a] != 1 && x.dims[a] != y.dims[static_cast<std::size_t>(n.n[4 + a])]) return false;
    }
  }
  return std::all_of(n.kids.begin(), n.kids.end(), [&](const Node& kid) { return regions_agree(kid); });
}

/// What a launch is rejected for.
bool Interpreter::requirements() {
  if (!regions_agree(p_.body)) return false;
  for (const Node& n : p_.body.kids) {
    if (n.kind == Kind::Require && scalar(n.kids[0]) == 0) return false;
  }
  return true;
}

void Interpreter::run(std::int64_t blocks) {
  blocks_ = blocks;
  for (block_ = 0; block_ < blocks; ++block_) {
    for (std::size_t i = 0; i < p_.params.size(); ++i) {
      const Param& param = p_.params[i];
      if (param.kind != ParamKind::Mut) continue;
      std::int64_t rest = block_;
      for (std::size_t a = param.extents.size(); a-- > 0;) {
        const std::int64_t n = ceil_div(tensors_[i].dims[a], param.extents[a]);
        index_[i][a] = a == 0 ? rest : rest % n;
        rest /= n;
      }
    }
    block(p_.body);
  }
}

void Interpreter::block(const Node& n) {
  for (const Node& kid : n.kids) statement(kid);
}

void Interpreter::statement(const Node& n) {
  step(1);
  switch (n.kind) {
    case Kind::Body: return block(n);
    case Kind::Let:
    case Kind::Set: {
      Value v = value(n.kids[0]);
      variable(n.n[0]) = std::move(v);
      return;
    }
    case Kind::If: return block(n.kids[scalar(n.kids[0]) != 0 ? 1 : 2]);
    case Kind::HostIf: return block(n.kids[host_number(n.n[0]) >= n.n[1] ? 0 : 1]);
    case Kind::HostFor:
      for (std::int64_t i = 0; i < n.n[1] && i < host_number(n.n[0]); ++i) block(n.kids[0]);
      return;
    case Kind::For: return loop(n);
    case Kind::While: {
      Value& counter = variable(n.n[0]);
      counter = {Type::scalar(ElementType::i32), {integer(0)}};
      while (counter.cells[0].i < n.n[1] && scalar(n.kids[0]) != 0) {
        block(n.kids[1]);
        counter.cells[0].i += 1;
      }
      return;
    }
    case Kind::TileLoop: return tile_loop(n);
    case Kind::Call: return call(n);
    case Kind::Store: {
      const Type t = piece_type(p_, n.n[0]);
      Position origin = piece_index(n.n[0]);
      for (std::size_t a = 0; a < static_cast<std::size_t>(t.rank); ++a) origin[a] *= t.extents[a];
      return store_tile(n, origin, t, value(n.kids[0]));
    }
    case Kind::StoreSub: {
      const Type piece = piece_type(p_, n.n[0]), t = n.kids.back().type;
      Position origin = piece_index(n.n[0]);
      bool inside = true;
      for (std::size_t a = 0; a < static_cast<std::size_t>(t.rank); ++a) {
        const std::int64_t i = scalar(n.kids[a]);
        inside = inside && i >= 0 && i < piece.extents[a] / t.extents[a];
        origin[a] = origin[a] * piece.extents[a] + i * t.extents[a];
      }
      const Value v = value(n.kids.back());
      return inside ? store_tile(n, origin, t, v) : void();
    }
    case Kind::Scatter: return scatter(n);
    case Kind::ScatterElements: return scatter_elements(n);
    case Kind::Accumulate: return accumulate(n);
    case Kind::AccumulateTile: return accumulate_tile(n);
    case Kind::Require: return;
    case Kind::Check: return;
    default: throw std::logic_error("no statement");
  }
}

void Interpreter::loop(const Node& n) {
  const Type t = n.kids[0].type;
  const bool is_unsigned = !is_signed(t.elem);
  const std::int64_t lo = scalar(n.kids[0]), hi = scalar(n.kids[1]);
  std::int64_t by = scalar(n.kids[2]);
  if (is_unsigned ? by == 0 : by < 1) by = 1;
  const auto below = [&](std::int64_t a, std::int64_t b) {
    return is_unsigned ? static_cast<std::uint64_t>(a) < static_cast<std::uint64_t>(b) : a < b;
  };
  for (std::int64_t i = lo; below(i, hi);) {
    variable(n.n[0]) = {t, {integer(i)}};
    step(1);
    block(n.kids[3]);
    // The last step may leave the type's range: then the loop ends.
    const std::uint64_t left = static_cast<std::uint64_t>(hi) - static_cast<std::uint64_t>(i);
    if (left <= static_cast<std::uint64_t>(by)) break;
    i = static_cast<std::int64_t>(static_cast<std::uint64_t>(i) + static_cast<std::uint64_t>(by));
  }
}

void Interpreter::tile_loop(const Node& n) {
  const auto number = static_cast<std::size_t>(n.n[0]);
  const Param& param = p_.params[number];
  const auto rank = static_cast<std::size_t>(param.rank());
  Position counts{};
  std::int64_t total = 1;
  for (std::size_t a = 0; a < rank; ++a) total *= counts[a] = ceil_div(tensors_[number].dims[a], param.extents[a]);
  const auto order = static_cast<lang::TileOrderKind>(n.n[1]);
  for (std::int64_t k = block_; k < total; k += blocks_) {
    Position& at = index_[number];
    std::int64_t t = k;
    if (order == lang::TileOrderKind::Column) {
      for (std::size_t a = 0; a < rank; t /= counts[a++]) at[a] = t % counts[a];
    } else {
      std::size_t plain = rank;
      if (order == lang::TileOrderKind::Grouped) {  // over the last two axes; leading axes are slowest
        plain = rank - 2;
        const std::int64_t rows = counts[plain], columns = counts[plain + 1], plane = rows * columns;
        const std::int64_t height = std::min(n.n[2], rows), rest = t % plane;
        const std::int64_t first = rest / (height * columns) * height, within = rest % (height * columns);
        const std::int64_t here = std::min(height, rows - first);
        at[plain] = first + within % here;
        at[plain + 1] = within / here;
        t /= plane;
      }
      for (std::size_t a = plain; a-- > 0; t /= counts[a]) at[a] = t % counts[a];
    }
    step(1);
    block(n.kids[0]);
  }
}

void Interpreter::call(const Node& n) {
  const Function& f = p_.functions[static_cast<std::size_t>(n.n[0])];
  std::vector<Value> values;
  for (const Node& kid : n.kids) values.push_back(value(kid));
  for (std::size_t i = 0; i < f.params.size(); ++i) {
    const auto var = static_cast<std::size_t>(f.params[i].var);
    if (f.params[i].by_reference) {
      alias_[var] = alias_[static_cast<std::size_t>(n.kids[i].n[0])];
    } else {
      alias_[var] = f.params[i].var;
      vars_[var] = std::move(values[i]);
    }
  }
  block(f.body);
}

void Interpreter::store_tile(const Node& n, const Position& origin, const Type& tile, const Value& v) {
  step(tile.size());
  const Tensor t = tensor(param_of(n.n[0]));
  for (int k = 0; k < tile.size(); ++k) {
    Position at = place(tile, k);
    for (std::size_t a = 0; a < at.size(); ++a) at[a] += origin[a];
    if (t.inside(at)) generate::store(t.elem, t.address(at), v.cells[static_cast<std::size_t>(k)]);
  }
}

/// Slices along one axis: of equal indices the last is stored.
void Interpreter::scatter(const Node& n) {
  const Type piece = piece_type(p_, n.n[0]);
  const Value index = value(n.kids[0]), v = value(n.kids[1]);
  step(v.type.size());
  const Tensor t = tensor(param_of(n.n[0]));
  const Position piece_at = piece_index(n.n[0]);
  const auto axis = static_cast<std::size_t>(n.n[1]);
  for (int k = 0; k < v.type.size(); ++k) {
    Position at = place(v.type, k);
    const std::int64_t i = index.cells[static_cast<std::size_t>(at[axis])].i;
    if (i < 0 || i >= piece.extents[axis]) continue;
    at[axis] = i;
    for (std::size_t a = 0; a < static_cast<std::size_t>(piece.rank); ++a) at[a] += piece_at[a] * piece.extents[a];
    if (t.inside(at)) generate::store(t.elem, t.address(at), v.cells[static_cast<std::size_t>(k)]);
  }
}

void Interpreter::scatter_elements(const Node& n) {
  const Type piece = piece_type(p_, n.n[0]);
  const auto rank = static_cast<std::size_t>(piece.rank);
  std::vector<Value> operands;
  Type common = Type::scalar(piece.elem);
  for (const Node& kid : n.kids) {
    operands.push_back(value(kid));
    const Type& t = kid.type;
    if (common.rank == 0) common = t;
    for (int a = 0; a < t.rank; ++a) common[a] = std::max(common[a], t[a]);
  }
  step(common.size());
  const Tensor t = tensor(param_of(n.n[0]));
  const Position piece_at = piece_index(n.n[0]);
  for (int k = 0; k < common.size(); ++k) {
    const auto cell = [&](std::size_t o) {
      return operands[o].cells[static_cast<std::size_t>(source(operands[o].type, common, k))];
    };
    Position at{};
    bool inside = true;
    for (std::size_t a = 0; a < rank; ++a) {
      const std::int64_t i = cell(a).i;
      inside = inside && i >= 0 && i < piece.extents[a];
      at[a] = inside ? i + piece_at[a] * piece.extents[a] : -1;
    }
    if (inside && t.inside(at)) generate::store(t.elem, t.address(at), cell(rank));
  }
}

void Interpreter::accumulate_one(const Tensor& t, int op, const Position& at, Cell v) {
  if (!t.inside(at)) return;
  static constexpr lang::BinaryOp kOps[] = {lang::BinaryOp::Add, lang::BinaryOp::Max, lang::BinaryOp::Min,
                                            lang::BinaryOp::And, lang::BinaryOp::Or,  lang::BinaryOp::Xor};
  std::byte* const address = t.address(at);
  generate::store(t.elem, address, binary(kOps[op], t.elem, generate::load(t.elem, address), v));
}

void Interpreter::accumulate(const Node& n) {
  const Tensor t = tensor(n.n[0]);
  std::vector<Value> operands;
  Type common = Type::scalar(t.elem);
  for (const Node& kid : n.kids) {
    operands.push_back(value(kid));
    const Type& k = kid.type;
    if (common.rank == 0) common = k;
    for (int a = 0; a < k.rank; ++a) common[a] = std::max(common[a], k[a]);
  }
  step(common.size());
  for (int k = 0; k < common.size(); ++k) {
    Position at{};
    for (std::size_t a = 0; a < static_cast<std::size_t>(t.rank); ++a) {
      const std::int64_t i = operands[a].cells[static_cast<std::size_t>(source(operands[a].type, common, k))].i;
      at[a] = i;  // a u64 from 2^63 on is negative here: outside, as it is
    }
    const Value& v = operands.back();
    accumulate_one(t, static_cast<int>(n.n[1]), at, v.cells[static_cast<std::size_t>(source(v.type, common, k))]);
  }
}

void Interpreter::accumulate_tile(const Node& n) {
  const Tensor t = tensor(n.n[0]);
  const Value v = value(n.kids.back());
  Position start{};
  for (std::size_t a = 0; a < static_cast<std::size_t>(t.rank); ++a) start[a] = scalar(n.kids[a]) * v.type.extents[a];
  step(v.type.size());
  for (int k = 0; k < v.type.size(); ++k) {
    Position at = place(v.type, k);
    for (std::size_t a = 0; a < at.size(); ++a) at[a] += start[a];
    accumulate_one(t, 0, at, v.cells[static_cast<std::size_t>(k)]);
  }
}

}  // namespace tessera::generate
