// Reductions and scans. A region that is one known operation runs as a primitive; any other region is translated as
// elementwise arithmetic on whole slices, log2(n) times: a reduction combines neighbours pairwise (so that the order of
// the elements is kept and only associativity is used), a scan combines each element with the one 1, 2, 4, ... before
// it (Hillis and Steele 1986).
#include <array>

#include "codegen/cpu/fold_instr.hpp"
#include "codegen/cpu/translate.hpp"
#include "tessera/base/format.hpp"

namespace tessera::cpu {
namespace {

/// The region's only operation if it combines the two arguments and is what the region yields.
const ir::Operation* single_operation(const ir::Block& body) {
  const ir::Operation* op = body.front();
  if (op == nullptr || body.num_args() != 2 || op->num_operands() != 2 || op->num_results() != 1) return nullptr;
  const ir::Operation* end = op->next();
  if (end == nullptr || end->op() != ir::Op::Yield || end->num_operands() != 1 || end->operand(0) != op->result())
    return nullptr;
  const ir::Value a = body.arg(0), b = body.arg(1);
  const bool both = (op->operand(0) == a && op->operand(1) == b) || (op->operand(0) == b && op->operand(1) == a);
  return both ? op : nullptr;
}

std::uint64_t identity_bits(const ir::Operation& op, std::size_t i) {
  const ir::Attribute& item = op.attr(ir::AttrName::identities)->as<ir::ArrayAttr>()->items[i];
  if (const auto* f = item.as<ir::FloatAttr>()) return f->bits;
  return static_cast<std::uint64_t>(item.as<ir::IntAttr>()->value);
}

/// Extents before and after an axis, broadcast axes left out.
void split(const Tile& t, std::size_t axis, std::int64_t& outer, std::int64_t& inner) {
  outer = inner = 1;
  for (std::size_t a = 0; a < t.shape.size(); ++a) {
    if (a == axis || t.stride[a] == 0) continue;
    (a < axis ? outer : inner) *= t.shape[a];
  }
}

/// Elements first, first + step, ... (n of them) along an axis.
Tile window(const Tile& t, std::size_t axis, std::int64_t first, std::int64_t step, std::int64_t n) {
  Tile w = t;
  w.ref.offset += first * t.stride[axis] * t.elem_bytes;
  w.shape[axis] = n;
  w.stride[axis] = n == 1 ? 0 : t.stride[axis] * step;
  return w;
}

}  // namespace

std::vector<Tile> Translator::combine(const ir::Operation& fold, std::span<const Tile> elements,
                                      std::span<const Tile> accumulators) {
  const ir::Block& body = fold.region(0);
  const Dims shape = elements[0].shape;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    define(body.arg(2 * i), elements[i]);
    define(body.arg(2 * i + 1), accumulators[i]);
  }
  const auto operand = [&](ir::Value v) {
    Tile t = tile(v);
    if (t.shape.empty()) {  // a scalar from outside or a constant
      t.shape = shape;
      t.stride.assign(shape.size(), 0);
    }
    return t;
  };
  for (const ir::Operation& op : body) {
    std::vector<Tile> in;
    for (ir::Value v : op.operand_values()) in.push_back(operand(v));
    switch (op.op()) {
      case ir::Op::Yield: return in;
      case ir::Op::Constant: translate_op(op); continue;
      case ir::Op::Assume:
      case ir::Op::Bitcast:
      case ir::Op::Broadcast:
      case ir::Op::Reshape:
      case ir::Op::PtrToPtr: define(op.result(), in[0]); continue;
      default: break;
    }
    const prims::Elementwise fn = op.num_results() == 1 ? prims::elementwise(op) : prims::Elementwise{};
    if (!fn || in.size() > ElementwiseInstr::kMaxSources)
      unsupported(op, concat("inside `", fold.info().mnemonic, "` only elementwise operations are supported"));
    define(op.result(), elementwise(fn, in, ir::info(op.result().type().elem()).bytes, shape));
  }
  unsupported(fold, "the region does not yield");
}

void Translator::translate_reduce(const ir::Operation& op) {
  const auto axis = static_cast<std::size_t>(op.int_attr(ir::AttrName::dim));
  const ir::Operation* single = op.num_operands() == 1 ? single_operation(op.region(0)) : nullptr;
  if (const prims::Reduce fn = single != nullptr ? prims::reduce(*single) : prims::Reduce{})
    return reduce_by_primitive(op, fn, axis);
  std::vector<Tile> in;
  for (ir::Value v : op.operand_values()) in.push_back(tile(v));
  for (std::int64_t n = in[0].shape[axis]; n > 1; n /= 2) {
    std::vector<Tile> elements, accumulators;
    for (const Tile& t : in) {
      accumulators.push_back(window(t, axis, 0, 2, n / 2));
      elements.push_back(window(t, axis, 1, 2, n / 2));
    }
    in = combine(op, elements, accumulators);
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    in[i].shape.erase(in[i].shape.begin() + static_cast<std::ptrdiff_t>(axis));
    in[i].stride.erase(in[i].stride.begin() + static_cast<std::ptrdiff_t>(axis));
    define(op.result(i), in[i]);
  }
}

void Translator::reduce_by_primitive(const ir::Operation& op, const prims::Reduce& fn, std::size_t axis) {
  const Tile& given = tile(op.operand(0));
  const Tile src = given.stride[axis] == 0 && given.shape[axis] > 1 ? dense(given) : packed(given);
  Scope* to = target({src.ref});
  Dims shape;
  std::array<bool, kMaxRank> live{};
  for (std::size_t a = 0; a < src.shape.size(); ++a) {
    if (a == axis) continue;
    live[shape.size()] = src.stride[a] != 0;
    shape.push_back(src.shape[a]);
  }
  const std::size_t rank = shape.size();
  const Tile dst = new_tile(src.elem_bytes, std::move(shape), to, std::span(live.data(), rank));
  auto* instr = emit<ReduceInstr>(to);
  instr->fn = fn;
  instr->dst = dst.ref;
  instr->src = src.ref;
  instr->identity = identity_bits(op, 0);
  instr->elem_bytes = src.elem_bytes;
  instr->n = src.shape[axis];
  split(src, axis, instr->outer, instr->inner);
  instr->accesses = {{src.ref.buffer, false}, {dst.ref.buffer, true}};
  define(op.result(), dst);
}

void Translator::translate_scan(const ir::Operation& op) {
  const auto axis = static_cast<std::size_t>(op.int_attr(ir::AttrName::dim));
  const bool reverse = op.bool_attr(ir::AttrName::reverse);
  const ir::Operation* single = op.num_operands() == 1 ? single_operation(op.region(0)) : nullptr;
  if (const prims::Scan fn = single != nullptr ? prims::scan(*single) : prims::Scan{})
    return scan_by_primitive(op, fn, axis, reverse);
  std::vector<Tile> in;
  for (ir::Value v : op.operand_values()) in.push_back(dense(tile(v)));
  const std::int64_t n = in[0].shape[axis];
  for (std::int64_t s = 1; s < n; s *= 2) {
    std::vector<Tile> elements, accumulators;
    for (const Tile& t : in) {
      elements.push_back(window(t, axis, reverse ? 0 : s, 1, n - s));
      accumulators.push_back(window(t, axis, reverse ? s : 0, 1, n - s));
    }
    const std::vector<Tile> combined = combine(op, elements, accumulators);
    for (std::size_t i = 0; i < in.size(); ++i) {
      Scope* to = target({in[i].ref, combined[i].ref});
      const Tile next = new_tile(in[i].elem_bytes, in[i].shape, to);
      emit<CopyInstr>(to, window(next, axis, reverse ? n - s : 0, 1, s),
                      window(in[i], axis, reverse ? n - s : 0, 1, s));
      emit<CopyInstr>(to, window(next, axis, reverse ? 0 : s, 1, n - s), combined[i]);
      in[i] = next;
    }
  }
  for (std::size_t i = 0; i < in.size(); ++i) define(op.result(i), in[i]);
}

void Translator::scan_by_primitive(const ir::Operation& op, const prims::Scan& fn, std::size_t axis, bool reverse) {
  const Tile src = dense(tile(op.operand(0)));
  Scope* to = target({src.ref});
  const Tile dst = new_tile(op.result().type(), to);
  auto* instr = emit<ScanInstr>(to);
  instr->fn = fn;
  instr->dst = dst.ref;
  instr->src = src.ref;
  instr->identity = identity_bits(op, 0);
  instr->n = src.shape[axis];
  instr->reverse = reverse;
  split(src, axis, instr->outer, instr->inner);
  instr->accesses = {{src.ref.buffer, false}, {dst.ref.buffer, true}};
  if (src.ref.offset == 0) instr->in_place = {{src.ref.buffer, dst.ref.buffer}};
  define(op.result(), dst);
}

}  // namespace tessera::cpu
