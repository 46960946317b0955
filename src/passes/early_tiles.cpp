// Peels the first iterations of a loop, so that their tiles of one tensor are loaded before the wait for the kernels
// that write the others:
//
//   for i in (lo to hi) with c {       if (flags & 3) == 1 && lo < hi && hi - lo >=u 2 {
//     x = load X[i]                      w0 = load W[lo];  w1 = load W[lo + 1]
//     w = load W[i]             =>       t = gdc_wait after the loads
//     rest(x, w, c)                      c0 = rest(load X[lo] after t, w0, c)
//   }                                    c1 = rest(load X[lo + 1] after t, w1, c0)
//                                        for i in (lo + 2 to hi) with c1 { ... after t }
//                                      } else {
//                                        t = if (flags & 3) == 3 { make_token } else { gdc_wait }
//                                        for i in (lo to hi) with c { ... after t }
//                                      }
//
// The loop does all of these loads, so that what is known of them (`inbounds`) holds for the copies. Both arms have a
// loop of their own: the assembler does not unroll a loop that begins where a branch says.
//
// docs/compiler/overlap_launches.md, "Tiles before the wait".
#include "passes/early_tiles.hpp"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "passes/rewriter.hpp"
#include "passes/values.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/kernel_facts.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::Block;
using ir::Builder;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

namespace {

// What the choice depends on. Registers that the assembler takes: bench/notes/overlap_launches.md.
constexpr int kHeldRegisters = 32;    // of a thread, for the tiles that it holds while it waits
constexpr int kRegistersBeside = 40;  // of a thread: tiles of the other tensors, addresses
constexpr int kInterleaved = 2;       // further iterations whose tiles a loop of a known length has in flight
constexpr int kMaxChosen = 2;         // iterations: more hide nothing that two do not (bench/notes/overlap_launches.md)
constexpr std::int64_t kLanes = 32;   // threads of a warp
constexpr int kWarpsIfUnknown = 4;
constexpr std::size_t kMaxCopied = 400;  // operations of all peeled iterations

/// True for loops with step 1 whose iterations only compute and load: they have no token dependences, no way out but
/// the end, and no loops or products inside. (Operands of products are loaded to shared memory by warps of their own.)
bool can_peel(const Operation& loop) {
  if (loop.op() != Op::For || loop.has_attr(AttrName::unsignedCmp) || constant_int(loop.operand(2)) != 1) return false;
  const Operation* end = loop.region(0).terminator();
  if (!end || end->op() != Op::Continue || leaves_early(loop)) return false;
  const auto has_token = [](const Operation& op) {
    return std::any_of(op.operands().begin(), op.operands().end(),
                       [](const ir::OpOperand& use) { return use.value.type().is_token(); });
  };
  bool ok = !has_token(loop);
  ir::walk(loop.region(0), [&](const Operation& op) {
    const bool branch = op.op() == Op::If || op.info().has(ir::traits::Terminator);
    ok = ok && (branch || is_pure(op) || analysis::is_load(op)) && !analysis::is_product(op) && !has_token(op);
  });
  return ok;
}

/// The operations of a loop's body from which the operands of some loads are computed.
class Addresses {
 public:
  explicit Addresses(const Block& body) : body_(body) {}
  /// Adds those of `op`; false if that includes a carried value or an operation that cannot be copied.
  bool add(const Operation& op) {
    return std::all_of(op.operands().begin(), op.operands().end(), [&](const ir::OpOperand& use) {
      const Value v = use.value;
      if (defined_outside(v, body_)) return true;
      if (!v.def()) return v.argument_block() == &body_ && v.index() == 0;
      if (set_.contains(v.def())) return true;
      if (!is_pure(*v.def()) || v.def()->num_regions() != 0 || !add(*v.def())) return false;
      set_.insert(v.def());
      return true;
    });
  }
  bool contains(const Operation& op) const { return set_.contains(&op); }

 private:
  const Block& body_;
  std::unordered_set<const Operation*> set_;
};

/// The loads of one tensor that can precede everything else of their iteration.
struct Candidate {
  int address = 0;
  std::vector<Operation*> loads;
  std::int64_t bytes = 0;
};

/// The candidate with the most bytes; none if the others' loads of an iteration have more, or if there are no others:
/// then the whole loop depends on one bit of the launch flags.
std::optional<Candidate> largest_tensor(const Block& body, const Block& entry) {
  std::vector<Candidate> found;
  std::int64_t all = 0;
  ir::walk(body, [&](Operation& op) {
    if (!analysis::is_load(op)) return;
    const std::int64_t bytes = analysis::bytes_of(op.result(0).type());
    all += bytes;
    const auto address = address_argument(op.operand(0), entry);
    if (!address || op.block() != &body || !analysis::is_unordered_load(op) || !Addresses(body).add(op)) return;
    auto known = std::find_if(found.begin(), found.end(), [&](const Candidate& c) { return c.address == *address; });
    if (known == found.end()) known = found.insert(found.end(), Candidate{*address, {}, 0});
    known->loads.push_back(&op);
    known->bytes += bytes;
  });
  const auto most = std::max_element(found.begin(), found.end(),
                                     [](const Candidate& x, const Candidate& y) { return x.bytes < y.bytes; });
  if (most == found.end() || 2 * most->bytes < all || most->bytes == all) return std::nullopt;
  return *most;
}

/// Registers of a thread of a block with `warps` warps (0: unknown) that hold a tile.
int registers_of(Type tile, int warps) {
  const std::int64_t bytes = 4 * kLanes * (warps > 0 ? warps : kWarpsIfUnknown);  // of one register of each
  return tile.is_tile() ? static_cast<int>((analysis::bytes_of(tile) + bytes - 1) / bytes) : 0;
}

/// lo < hi and at least `count` iterations; exact for every type, because hi - lo fits it read as unsigned.
Value has_iterations(Builder& b, const Operation& loop, int count) {
  const Value low = loop.operand(0), high = loop.operand(1);
  const Value any = compared(b, ir::ComparisonPredicate::Less, low, high);
  const Value length = b.create(Op::SubI, {high, low}, {high.type()})->result();
  const Value enough = compared(b, ir::ComparisonPredicate::GreaterEqual, length,
                                b.constant_int(high.type().elem(), count), ir::Signedness::Unsigned);
  return b.create(Op::AndI, {any, enough}, {any.type()})->result();
}

/// The launch flags have bit 0, but not all of `bits`.
Value has_first_alone(Builder& b, Value launch_flags, std::int64_t bits) {
  const auto masked = [&](std::int64_t mask) {
    return b.create(Op::AndI, {launch_flags, b.constant_int(ir::Elem::I32, mask)}, {launch_flags.type()})->result();
  };
  const auto differs = [&](std::int64_t mask, std::int64_t from) {
    const Value number = b.constant_int(ir::Elem::I32, from);
    return compared(b, ir::ComparisonPredicate::NotEqual, masked(mask), number);
  };
  const Value first = differs(1, 0), some = differs(bits, bits);
  return b.create(Op::AndI, {first, some}, {first.type()})->result();
}

/// Copies the loads and their addresses for the iteration `i`; the tiles, in the order of the loads.
std::vector<Value> load_tiles(const EarlyTiles& tiles, Value i, std::vector<Value>& tokens, Builder& b) {
  const Block& body = tiles.loop->region(0);
  Addresses addresses(body);
  for (const Operation* load : tiles.loads) addresses.add(*load);
  Copier copier;
  copier.map(body.arg(0), i);
  std::vector<Value> loaded;
  for (const Operation& op : body) {
    const bool is_load = std::find(tiles.loads.begin(), tiles.loads.end(), &op) != tiles.loads.end();
    if (!is_load && !addresses.contains(op)) continue;
    Operation* copy = copier.copy(op, b);
    if (!is_load) continue;
    tokens.push_back(copy->result(1));
    loaded.push_back(copy->result(0));
  }
  return loaded;
}

/// Makes `op`, if it is a load, and all loads in it depend on `token`.
void make_loads_wait(Operation& op, Value token) {
  const auto wait = [&](Operation& inner) {
    if (analysis::is_load(inner)) set_token(inner, token);
  };
  wait(op);
  for (std::size_t r = 0; r < op.num_regions(); ++r) ir::walk(op.region(r), wait);
}

/// The loop's loads depend on `token`; the arm yields its results and the token.
void end_arm(Operation& loop, Value token, Builder& b) {
  make_loads_wait(loop, token);
  std::vector<Value> out;
  for (std::size_t i = 0; i < loop.num_results(); ++i) out.push_back(loop.result(i));
  out.push_back(token);
  b.create(Op::Yield, out, {});
}

/// The rest of the iteration `i`; what it carries to the next one.
std::vector<Value> copy_iteration(const EarlyTiles& tiles, Value i, const std::vector<Value>& carried,
                                  const std::vector<Value>& loaded, Value token, Builder& b) {
  const Block& body = tiles.loop->region(0);
  Copier copier;
  copier.map(body.arg(0), i);
  for (std::size_t c = 0; c < carried.size(); ++c) copier.map(body.arg(1 + c), carried[c]);
  for (std::size_t l = 0; l < loaded.size(); ++l) copier.map(tiles.loads[l]->result(0), loaded[l]);
  for (const Operation& op : body) {
    const bool loaded_before = std::find(tiles.loads.begin(), tiles.loads.end(), &op) != tiles.loads.end();
    if (loaded_before || op.info().has(ir::traits::Terminator)) continue;
    make_loads_wait(*copier.copy(op, b), token);
  }
  return copier.mapped(body.terminator()->operand_values());
}

}  // namespace

std::optional<int> address_argument(Value v, const Block& entry) {
  while (const Operation* def = v.def()) {
    switch (def->op()) {
      case Op::MakeTensorView:
      case Op::MakePartitionView:
      case Op::MakeStridedView:
      case Op::MakeGatherScatterView:
      case Op::Assume:
      case Op::Offset:
      case Op::Reshape:
      case Op::PtrToPtr:
      case Op::Broadcast: v = def->operand(0); break;
      default: return std::nullopt;
    }
  }
  if (v.argument_block() != &entry) return std::nullopt;
  return static_cast<int>(v.index());
}

std::optional<EarlyTiles> early_tiles_of(Operation& loop, const Block& entry, int warps, std::optional<int> requested) {
  if (!can_peel(loop)) return std::nullopt;
  const auto tensor = largest_tensor(loop.region(0), entry);
  if (!tensor) return std::nullopt;
  int step = 0, carried = 0;
  for (const Operation* load : tensor->loads) step += registers_of(load->result(0).type(), warps);
  for (std::size_t i = 0; i < loop.num_results(); ++i) carried += registers_of(loop.result(i).type(), warps);
  const int iterations = requested ? *requested : std::min(kMaxChosen, kHeldRegisters / std::max(1, step));
  const auto size = static_cast<std::size_t>(std::distance(loop.region(0).begin(), loop.region(0).end()));
  if (iterations < 1 || size * static_cast<std::size_t>(iterations) > kMaxCopied) return std::nullopt;
  const int interleaved = constant_int(loop.operand(1)) ? kInterleaved * step : 0;
  const int registers = std::max(iterations * step, carried + step) + kRegistersBeside + interleaved;
  return EarlyTiles{&loop, tensor->address, tensor->loads, iterations, registers};
}

Value join(Builder& b, const std::vector<Value>& tokens) {
  const std::vector<Type> token{Type::token()};
  return tokens.size() == 1 ? tokens[0] : b.create(Op::JoinTokens, tokens, token)->result();
}

Value wait_after(const std::vector<Value>& issued, Builder& b) {
  const std::vector<Type> token{Type::token()};
  const std::vector<std::uint32_t> one{1};
  const std::vector<Value> joined{join(b, issued)};
  return b.create_grouped(Op::GdcWaitTko, joined, one, token)->result();
}

/// Adds an arm that yields `token`, or the result of a wait after it.
void add_way(Operation& branch, Value token, bool waits) {
  Builder b(branch.add_region());
  b.loc = branch.loc;
  const std::array<std::uint32_t, 1> one{1};
  const std::array<Type, 1> type{Type::token()};
  if (waits) token = b.create_grouped(Op::GdcWaitTko, {&token, 1}, one, type)->result();
  b.create(Op::Yield, {token}, {});
}

Value wait_unless(Builder& b, Value launch_flags, std::int64_t bits, Value earlier) {
  if (!earlier) earlier = b.create(Op::MakeToken, {}, {Type::token()})->result();
  const Value mask = b.constant_int(ir::Elem::I32, bits);
  const Value here = b.create(Op::AndI, {launch_flags, mask}, {launch_flags.type()})->result();
  Operation* branch = b.create(Op::If, {compared(b, ir::ComparisonPredicate::Equal, here, mask)}, {Type::token()});
  add_way(*branch, earlier, false);
  add_way(*branch, earlier, true);
  return branch->result();
}

Operation& peel(const EarlyTiles& tiles, Value launch_flags, std::int64_t bits) {
  Operation& loop = *tiles.loop;
  Builder b = Builder::before(&loop);
  b.loc = loop.loc;
  std::vector<Type> types;
  for (std::size_t i = 0; i < loop.num_results(); ++i) types.push_back(loop.result(i).type());
  types.push_back(Type::token());
  const Value pays = has_first_alone(b, launch_flags, bits), runs = has_iterations(b, loop, tiles.iterations);
  const std::vector<Value> condition{b.create(Op::AndI, {pays, runs}, {pays.type()})->result()};
  Operation& branch = *b.create(Op::If, condition, types);
  Block& peeled = branch.add_region();
  Block& whole = branch.add_region();
  for (std::size_t i = 0; i < loop.num_results(); ++i) loop.result(i).replace_all_uses_with(branch.result(i));

  b.set_to_end(peeled);
  const Type type = loop.operand(0).type();
  std::vector<Value> inductions, issued;
  std::vector<std::vector<Value>> loaded;
  for (int i = 0; i <= tiles.iterations; ++i) {
    const Value offset = b.constant_int(type.elem(), i);
    inductions.push_back(b.create(Op::AddI, {loop.operand(0), offset}, {type})->result());
    if (i < tiles.iterations) loaded.push_back(load_tiles(tiles, inductions.back(), issued, b));
  }
  const Value waited = wait_after(issued, b);
  std::vector<Value> carried = loop.group("initValues");
  for (std::size_t i = 0; i < loaded.size(); ++i)
    carried = copy_iteration(tiles, inductions[i], carried, loaded[i], waited, b);
  Operation* rest = Copier().copy(loop, b);
  rest->set_operand(0, inductions.back());
  for (std::size_t c = 0; c < carried.size(); ++c) rest->set_operand(first_carried_operand(loop) + c, carried[c]);
  end_arm(*rest, waited, b);

  b.set_to_end(whole);
  const Value token = wait_unless(b, launch_flags, bits);
  loop.move_to_end(whole);
  end_arm(loop, token, b);
  return branch;
}

}  // namespace tessera::passes
