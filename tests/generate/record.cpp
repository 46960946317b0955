// Walks a program and calls the language.
#include "generate/record.hpp"

#include <optional>
#include <stdexcept>

#include "generate/number.hpp"
#include "tessera/lang/control.hpp"
#include "tessera/lang/handles.hpp"
#include "tessera/lang/mut_tiles.hpp"
#include "tessera/lang/reports.hpp"

namespace tessera::generate {
namespace {

using lang::Var;

constexpr SourceLocation here(SourceLocation loc = SourceLocation::current()) { return loc; }

class Recorder {
  using Value = ir::Value;  // the reference has another

 public:
  Recorder(const Program& p, const lang::Recording& recording) : p_(p), recording_(recording) {}

  void run() {
    for (const View& v : p_.views) views_.push_back(lang::permuted_tensor(recording_.tensor(v.param), v.order));
    scheduled_.resize(p_.params.size());
    block(p_.body);
  }

 private:
  /// The line of the program's text, if lines have been set.
  SourceLocation here(SourceLocation loc = SourceLocation::current()) const {
    return line_ > 0 ? SourceLocation{"program", "generated", static_cast<std::uint32_t>(line_), 0} : loc;
  }

  // ---- statements ---------------------------------------------------------------------------------------------------

  void block(const Node& n) {
    for (const Node& kid : n.kids) statement(kid);
  }
  Var& variable(std::int64_t var) {
    if (static_cast<std::size_t>(var) >= vars_.size()) vars_.resize(static_cast<std::size_t>(var) + 1);
    return vars_[static_cast<std::size_t>(var)];
  }
  Var fresh(Value v) { return lang::Tracer::current().fresh(v); }
  Value read(std::int64_t var) { return lang::Tracer::current().read(variable(var)); }

  void statement(const Node& n) {
    line_ = n.line;
    switch (n.kind) {
      case Kind::Body: return block(n);
      case Kind::Let: {
        const Value v = value(n.kids[0]);
        variable(n.n[0]) = fresh(v);
        return;
      }
      case Kind::Set: {
        const Value v = value(n.kids[0]);
        return lang::Tracer::current().write(variable(n.n[0]), v);
      }
      case Kind::If: {
        lang::Branch branch(value(n.kids[0]), here());
        for (lang::Branch::Iterator arm = branch.begin(); arm != branch.end(); ++arm) block(n.kids[*arm ? 1 : 2]);
        return;
      }
      case Kind::HostIf: return block(n.kids[constant(n.n[0]).i >= n.n[1] ? 0 : 1]);
      case Kind::HostFor:
        for (std::int64_t i = 0; i < n.n[1] && i < constant(n.n[0]).i; ++i) block(n.kids[0]);
        return;
      case Kind::For: return loop(n);
      case Kind::While: return while_loop(n);
      case Kind::TileLoop: return tile_loop(n);
      case Kind::Call: return call(n);
      case Kind::Require: return lang::require_value(value(n.kids[0]), "a requirement", here());
      case Kind::Check: return lang::check_tile(value(n.kids[0]), "a check", here());
      default: return write(n);
    }
  }
  void loop(const Node& n) {
    const Value lo = value(n.kids[0]), hi = value(n.kids[1]), step = value(n.kids[2]);
    const lang::RangeBounds bounds(lo, hi, step, !is_signed(n.kids[0].type.elem), here());
    lang::ForLoop loop(bounds);
    variable(n.n[0]) = fresh(loop.induction());
    block(n.kids[3]);
    loop.close();
  }
  void while_loop(const Node& n) {
    const Type t = Type::scalar(ElementType::i32), flag = Type::scalar(ElementType::boolean);
    variable(n.n[0]) = fresh(lang::splat(t.spec(), 0));
    for (lang::While loop; loop.next([&] {
           const Value below =
               lang::compare(lang::CompareOp::Less, read(n.n[0]), lang::splat(t.spec(), n.n[1]), t.spec());
           const Value condition = value(n.kids[0]);
           return Tile<bool>(
               lang::binary(lang::BinaryOp::And, below, condition, flag.spec(), MathAccuracy::OfKernel, {}));
         });) {
      block(n.kids[1]);
      const Value next = lang::binary(lang::BinaryOp::Add, read(n.n[0]), lang::splat(t.spec(), 1), t.spec(),
                                      MathAccuracy::OfKernel, {});
      lang::Tracer::current().write(variable(n.n[0]), next);
    }
  }
  void tile_loop(const Node& n) {
    const auto param = static_cast<std::size_t>(n.n[0]);
    const lang::TileOrder order{static_cast<lang::TileOrderKind>(n.n[1]), n.n[1] == 2 ? static_cast<int>(n.n[2]) : 0};
    lang::TileLoop loop(recording_.tensor(static_cast<int>(param)), p_.params[param].extents, order, here());
    scheduled_[param].emplace(loop.piece());
    block(n.kids[0]);
    loop.close();
  }
  void call(const Node& n) {
    const Function& f = p_.functions[static_cast<std::size_t>(n.n[0])];
    for (std::size_t i = 0; i < f.params.size(); ++i) {
      const Var var = f.params[i].by_reference ? variable(n.kids[i].n[0]) : fresh(value(n.kids[i]));
      variable(f.params[i].var) = var;
    }
    block(f.body);
  }

  void write(const Node& n) {
    switch (n.kind) {
      case Kind::Store: return lang::store_piece(piece(n.n[0]), value(n.kids[0]), here());
      case Kind::StoreSub: {
        const auto at = values(n, n.kids.size() - 1, false);
        return lang::store_sub(piece(n.n[0]), n.kids.back().type.span(), at, value(n.kids.back()), here());
      }
      case Kind::Scatter: {
        const Value index = position(n.kids[0]);
        const Node& values = n.kids[1];
        return lang::store_piece_slices(piece(n.n[0]), static_cast<int>(n.n[1]), index, values.type.span(),
                                        value(values), here());
      }
      case Kind::ScatterElements: {
        const auto at = values(n, n.kids.size() - 1, true);
        return lang::store_piece_elements(piece(n.n[0]), at, joint(n).span(), value(n.kids.back()), here());
      }
      case Kind::Accumulate: {
        const auto at = values(n, n.kids.size() - 1, true);
        const Type& t = n.kids.back().type;
        const bool sign = tessera::info(t.elem).cls != ElementClass::Unsigned;
        return lang::accumulate(tensor(n.n[0]), static_cast<lang::AccOp>(n.n[1]), sign, at, joint(n).span(),
                                value(n.kids.back()), here());
      }
      case Kind::AccumulateTile: {
        const auto at = values(n, n.kids.size() - 1, false);
        return lang::accumulate_tile(tensor(n.n[0]), lang::AccOp::Add, true, n.kids.back().type.span(), at,
                                     value(n.kids.back()), here());
      }
      default: throw std::logic_error("no statement");
    }
  }

  // ---- values -------------------------------------------------------------------------------------------------------

  lang::TensorRef tensor(std::int64_t number) const {
    if (number >= kFirstView) return views_[static_cast<std::size_t>(number - kFirstView)];
    return recording_.tensor(static_cast<int>(number));
  }
  lang::PieceRef piece(std::int64_t number) const {
    const auto param = static_cast<std::size_t>(param_of(number));
    const bool own = p_.params[param].kind == ParamKind::Mut;
    const lang::PieceRef whole = own ? recording_.piece(static_cast<int>(param)) : *scheduled_[param];
    const bool part = part_axis(p_.params[param]) >= 0 && part_of(number) != kWhole;
    return part ? lang::piece_part(whole, part_of(number)) : whole;
  }
  /// The number of the host that a Constant holds.
  Cell constant(std::int64_t param) const {
    const std::uint64_t bits = recording_.constant(static_cast<int>(param));
    return generate::load(p_.params[static_cast<std::size_t>(param)].elem, reinterpret_cast<const std::byte*>(&bits));
  }
  Value position(const Node& n) { return lang::as_position(value(n), is_signed(n.type.elem)); }
  std::vector<Value> values(const Node& n, std::size_t count, bool positions) {
    std::vector<Value> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(positions ? position(n.kids[i]) : value(n.kids[i]));
    return all;
  }
  /// What all operands broadcast to.
  static Type joint(const Node& n) {
    Type t = Type::scalar(ElementType::i32);
    for (const Node& kid : n.kids) {
      if (t.rank == 0) t = kid.type;
      for (int a = 0; a < kid.type.rank; ++a) t[a] = std::max(t[a], kid.type[a]);
    }
    return t;
  }
  lang::PadSpec padding(const Node& n, std::int64_t pad) {
    lang::PadSpec spec{static_cast<lang::PadKind>(pad), {}};
    if (spec.kind == lang::PadKind::Value) spec.value = value(n.kids.back());
    return spec;
  }

  Value value(const Node& n) {
    switch (info(n.kind).cls) {
      case KindClass::Leaf: return leaf(n);
      case KindClass::Load: return load(n);
      case KindClass::Unary:
        return lang::unary(static_cast<lang::UnaryOp>(info(n.kind).op), value(n.kids[0]), n.type.spec(),
                           MathAccuracy::OfKernel, here());
      case KindClass::Binary: {
        const Value x = value(n.kids[0]), y = value(n.kids[1]);
        const auto op = static_cast<lang::BinaryOp>(info(n.kind).op);
        return lang::binary(op, x, y, n.type.spec(), MathAccuracy::OfKernel, here());
      }
      case KindClass::Compare: {
        const Value x = value(n.kids[0]), y = value(n.kids[1]);
        const Type t = n.type.with(n.kids[0].type.elem);
        return lang::compare(static_cast<lang::CompareOp>(info(n.kind).op), x, y, t.spec());
      }
      case KindClass::Reduce: {
        const Value x = value(n.kids[0]);
        const auto op = static_cast<lang::ReduceOp>(info(n.kind).op);
        if (n.n[0] < 0) return lang::reduce_all(op, x, n.kids[0].type.spec(), here());
        return lang::reduce(op, x, n.kids[0].type.spec(), static_cast<int>(n.n[0]), here());
      }
      case KindClass::Scan:
        return lang::scan(static_cast<lang::ReduceOp>(info(n.kind).op), value(n.kids[0]), n.type.spec(),
                          static_cast<int>(n.n[0]), n.n[1] != 0, here());
      case KindClass::Other: return other(n);
      case KindClass::Statement: break;
    }
    throw std::logic_error("no value");
  }

  Value leaf(const Node& n) {
    const auto axis = [&] { return static_cast<int>(n.n[1]); };
    switch (n.kind) {
      case Kind::Var: return read(n.n[0]);
      case Kind::Number:
        if (is_float(n.given.elem)) return lang::splat(n.given.spec(), static_cast<double>(n.n[0]) / 4, here());
        return lang::splat(n.given.spec(), n.n[0], here());
      case Kind::Infinity: {
        const double inf = __builtin_inf();
        return lang::splat(n.given.spec(), n.n[0] == 0 ? __builtin_nan("") : n.n[0] > 0 ? inf : -inf, here());
      }
      case Kind::Iota: return lang::iota(n.given.spec(), static_cast<int>(n.n[0]), here());
      case Kind::ScalarArg: return recording_.argument(static_cast<int>(n.n[0]));
      case Kind::ConstantArg: {
        const Cell number = constant(n.n[0]);
        return is_float(n.type.elem) ? lang::splat(n.type.spec(), number.d, here())
                                     : lang::splat(n.type.spec(), number.i, here());
      }
      case Kind::Dim: return lang::tensor_dim(tensor(n.n[0]), axis());
      case Kind::Stride: return lang::tensor_stride(tensor(n.n[0]), axis());
      case Kind::Count: return lang::tile_count(tensor(n.n[0]), axis(), n.given[axis()]);
      case Kind::PieceIndex: return lang::piece_index(piece(n.n[0]), axis());
      case Kind::PieceOrigin: return lang::piece_origin(piece(n.n[0]), axis());
      case Kind::PieceDim: return lang::piece_dim(piece(n.n[0]), axis());
      case Kind::PieceCount: return lang::piece_count(piece(n.n[0]), axis());
      case Kind::PieceOffsets: return lang::piece_offsets(piece(n.n[0]), here());
      case Kind::Block: return lang::block_coordinate(0, 1);
      case Kind::Blocks: return lang::block_total();
      default: throw std::logic_error("no leaf");
    }
  }

  Value load(const Node& n) {
    switch (n.kind) {
      case Kind::LoadPiece: return lang::load_piece(piece(n.n[0]), padding(n, n.n[1]), here());
      case Kind::LoadLike: {
        const std::vector<int> axes(n.n.begin() + 4, n.n.end());
        return lang::load_like(tensor(n.n[0]), piece(n.n[1]), axes, static_cast<lang::Regions>(n.n[3]),
                               padding(n, n.n[2]), here());
      }
      case Kind::LoadTile:
      case Kind::LoadAt:
      case Kind::LoadSub: {
        const auto at = values(n, static_cast<std::size_t>(n.type.rank), false);
        const lang::PadSpec pad = padding(n, n.n[1]);
        if (n.kind == Kind::LoadSub) return lang::load_sub(piece(n.n[0]), n.type.span(), at, pad, here());
        if (n.kind == Kind::LoadTile) return lang::load_tile(tensor(n.n[0]), n.type.span(), at, pad, here());
        return lang::load_region(tensor(n.n[0]), n.type.span(), at, pad, here());
      }
      case Kind::Gather: {
        const Value index = position(n.kids[0]);
        return lang::load_slices(tensor(n.n[0]), static_cast<int>(n.n[1]), index, n.type.span(), padding(n, n.n[2]),
                                 here());
      }
      case Kind::PieceGather: {
        const Value index = position(n.kids[0]);
        return lang::load_piece_slices(piece(n.n[0]), static_cast<int>(n.n[1]), index, n.type.span(),
                                       padding(n, n.n[2]), here());
      }
      case Kind::GatherElements:
        return lang::load_elements(tensor(n.n[0]), values(n, n.kids.size(), true), n.type.span(), {}, here());
      default:
        return lang::load_piece_elements(piece(n.n[0]), values(n, n.kids.size(), true), n.type.span(), {}, here());
    }
  }

  Value other(const Node& n) {
    std::vector<Value> v;
    for (const Node& kid : n.kids) v.push_back(value(kid));
    const lang::TileSpec to = n.type.spec();
    switch (n.kind) {
      case Kind::Where: return lang::select(v[0], v[1], v[2], to, here());
      case Kind::Fma: return lang::fused_multiply_add(v[0], v[1], v[2], to, here());
      case Kind::Cast:
        return lang::convert(v[0], n.kids[0].type.elem, to, RoundingDirection::Default, n.n[0] != 0, here());
      case Kind::Bitcast: return lang::bit_cast(v[0], to, here());
      case Kind::Reshape: return lang::reshape(v[0], to, here());
      case Kind::Broadcast: return lang::broadcast(v[0], to, here());
      case Kind::Permute: {
        const std::vector<int> order(n.n.begin(), n.n.end());
        return lang::permute(v[0], to, order.data(), here());
      }
      case Kind::Cat: return lang::concatenate(v[0], v[1], to, static_cast<int>(n.n[0]), here());
      case Kind::Extract: return lang::extract(v[0], to, std::span(v).subspan(1), {});
      case Kind::Mma:
        return lang::multiply_accumulate(v[0], v[1], v[2], n.kids[0].type.elem, n.kids[1].type.elem, false, here());
      case Kind::Uniform: return lang::random_tile(lang::Distribution::Uniform, n.type.elem, v[0], v[1], here());
      case Kind::ArgMax:
      case Kind::ArgMin: {
        const lang::Extremum e = lang::reduce_extremum(n.kind == Kind::ArgMax, v[0], n.kids[0].type.spec(),
                                                       static_cast<int>(n.n[0]), here());
        return n.n[1] == 1 ? e.index : e.value;
      }
      case Kind::Fold: return fold(n, v[0]);
      default: throw std::logic_error("no value");
    }
  }
  Value fold(const Node& n, Value x) {
    const auto op = static_cast<lang::BinaryOp>(n.n[0]);
    const Type scalar = Type::scalar(n.type.elem);
    const lang::HostValue identity = lang::host_value(op == lang::BinaryOp::Mul ? 1 : 0);
    const lang::Combiner c = lang::open_reduce(x, n.kids[0].type.spec(), static_cast<int>(n.n[1]), identity, here());
    lang::CombinerRegion region(c);
    const Value joined = lang::binary(op, c.accumulator, c.element, scalar.spec(), MathAccuracy::OfKernel, here());
    return lang::reshape(region.close(joined), n.type.spec(), here());
  }

  const Program& p_;
  const lang::Recording& recording_;
  std::vector<lang::TensorRef> views_;
  std::vector<std::optional<lang::PieceRef>> scheduled_;
  std::vector<Var> vars_;
  int line_ = 0;  ///< of the statement that is being recorded
};

}  // namespace

std::vector<lang::ParamInfo> param_infos(const Program& p) {
  static constexpr lang::ParamKind kKinds[] = {lang::ParamKind::Mut, lang::ParamKind::MutTiles,
                                               lang::ParamKind::In,  lang::ParamKind::Scalar,
                                               lang::ParamKind::Acc, lang::ParamKind::Constant};
  std::vector<lang::ParamInfo> infos;
  for (const Param& param : p.params) {
    infos.push_back({kKinds[static_cast<int>(param.kind)], param.elem, param.rank(), {}, {}, 0});
    for (const int e : param.extents) infos.back().extents.push_back(e);
  }
  lang::lay_out(infos);
  return infos;
}

lang::Trace record(const Program& p, const lang::Specialization& specialization) {
  lang::Recording recording("generated", param_infos(p), specialization, here());
  recording.begin_body();
  Recorder(p, recording).run();
  return recording.finish();
}

}  // namespace tessera::generate
