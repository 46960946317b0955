// Operations that make or rearrange tiles. Most only make another window on the same elements.
#include <array>

#include "codegen/cpu/translate.hpp"
#include "tessera/base/format.hpp"

namespace tessera::cpu {
namespace {

Dims dims_of(ir::Type type) { return Dims(type.shape().begin(), type.shape().end()); }

/// The value of a scalar integer constant; nullopt for anything else.
std::optional<std::uint32_t> constant_index(ir::Value v) {
  const ir::Operation* op = v.def();
  if (op == nullptr || op->op() != ir::Op::Constant) return std::nullopt;
  const auto& bytes = op->attr(ir::AttrName::value)->as<ir::DenseAttr>()->bytes;
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < bytes.size() && i < 4; ++i) value |= std::to_integer<std::uint32_t>(bytes[i]) << (8 * i);
  return value;
}

/// The part of `whole` that one slice of `shape` occupies; strides are those of `whole`.
Tile slice_of(const Tile& whole, const Dims& shape) {
  Tile t = whole;
  t.shape = shape;
  for (std::size_t a = 0; a < shape.size(); ++a)
    if (shape[a] == 1) t.stride[a] = 0;
  return t;
}

}  // namespace

bool Translator::translate_shape(const ir::Operation& op) {
  switch (op.op()) {
    case ir::Op::Constant:
      define(op.result(), constant_tile(*op.attr(ir::AttrName::value)->as<ir::DenseAttr>()));
      return true;
    case ir::Op::Assume:
    case ir::Op::Bitcast:
    case ir::Op::PtrToPtr: define(op.result(), tile(op.operand(0))); return true;
    case ir::Op::Broadcast:
      define(op.result(), broadcasted(tile(op.operand(0)), op.result().type().shape()));
      return true;
    case ir::Op::Permute:
      define(op.result(),
             permuted(tile(op.operand(0)), op.attr(ir::AttrName::permutation)->as<ir::I32ArrayAttr>()->values));
      return true;
    case ir::Op::Reshape: {
      const auto shape = op.result().type().shape();
      auto window = reshaped(tile(op.operand(0)), shape);
      define(op.result(), window ? *window : *reshaped(dense(tile(op.operand(0))), shape));
      return true;
    }
    case ir::Op::Iota: translate_iota(op); return true;
    case ir::Op::Extract: translate_extract(op); return true;
    case ir::Op::Insert: translate_insert(op); return true;
    case ir::Op::Cat: translate_cat(op); return true;
    case ir::Op::Pack:
    case ir::Op::Unpack: translate_pack(op); return true;
    case ir::Op::GetTileBlockId:
    case ir::Op::GetNumTileBlocks: translate_query(op); return true;
    default: return false;
  }
}

void Translator::translate_iota(const ir::Operation& op) {
  const Tile t = new_tile(op.result().type(), &uniform_scope_);
  auto* instr = emit<IotaInstr>(&uniform_scope_, t.ref, op.result().type().elem(), t.count());
  instr->accesses = {{t.ref.buffer, true}};
  define(op.result(), t);
}

void Translator::translate_extract(const ir::Operation& op) {
  const Tile& source = tile(op.operand(0));
  const Dims shape = dims_of(op.result().type());
  Tile window = slice_of(source, shape);
  std::vector<SliceInstr::Index> indices;
  std::vector<Ref> refs{source.ref};
  for (std::size_t a = 0; a < shape.size(); ++a) {
    const std::int64_t slices = source.shape[a] / shape[a], step = source.stride[a] * shape[a] * source.elem_bytes;
    if (auto fixed = constant_index(op.operand(1 + a))) {
      window.ref.offset += std::min<std::int64_t>(*fixed, slices - 1) * step;
    } else if (step != 0 && slices > 1) {
      indices.push_back({tile(op.operand(1 + a)).ref, step, slices});
      refs.push_back(indices.back().ref);
    }
  }
  if (indices.empty()) return define(op.result(), window);
  Scope* to = target(refs);
  const Tile dst = new_tile(op.result().type(), to);
  emit<SliceInstr>(to, dst, window, false, std::move(indices));
  define(op.result(), dst);
}

void Translator::translate_insert(const ir::Operation& op) {
  const Tile& slice = tile(op.operand(0));
  const Tile& whole = tile(op.operand(1));
  std::vector<SliceInstr::Index> indices;
  std::vector<Ref> refs{slice.ref, whole.ref};
  for (std::size_t a = 0; a < slice.shape.size(); ++a) refs.push_back(tile(op.operand(2 + a)).ref);
  Scope* to = target(refs);
  const Tile dst = new_tile(op.result().type(), to);
  emit<CopyInstr>(to, dst, whole);
  for (std::size_t a = 0; a < slice.shape.size(); ++a)
    indices.push_back({refs[2 + a], dst.stride[a] * slice.shape[a] * dst.elem_bytes, whole.shape[a] / slice.shape[a]});
  emit<SliceInstr>(to, slice_of(dst, slice.shape), slice, true, std::move(indices));
  define(op.result(), dst);
}

void Translator::translate_cat(const ir::Operation& op) {
  const auto axis = static_cast<std::size_t>(op.int_attr(ir::AttrName::dim));
  const Tile &lhs = tile(op.operand(0)), &rhs = tile(op.operand(1));
  Scope* to = target({lhs.ref, rhs.ref});
  const Tile dst = new_tile(op.result().type(), to);
  Tile first = slice_of(dst, lhs.shape), second = slice_of(dst, rhs.shape);
  second.ref.offset += lhs.shape[axis] * dst.stride[axis] * dst.elem_bytes;
  emit<CopyInstr>(to, first, lhs);
  emit<CopyInstr>(to, second, rhs);
  define(op.result(), dst);
}

void Translator::translate_pack(const ir::Operation& op) {
  const bool pack = op.op() == ir::Op::Pack;
  const ir::Elem elements = (pack ? op.operand(0) : op.result()).type().elem();
  const Tile source = dense(tile(op.operand(0)));
  const ir::Type type = op.result().type();
  if (ir::info(elements).bits == 1) unsupported(op, "i1 tiles have no packed form");
  if (ir::info(elements).bits >= 8)
    return define(op.result(), packed_tile(source.ref, ir::info(type.elem()).bytes, dims_of(type)));
  Scope* to = target({source.ref});
  const Tile dst = new_tile(type, to);
  auto* instr = emit<NibbleInstr>(to, dst.ref, source.ref, pack ? dst.count() : source.count(), pack);
  instr->accesses = {{source.ref.buffer, false}, {dst.ref.buffer, true}};
  define(op.result(), dst);
}

void Translator::translate_query(const ir::Operation& op) {
  const bool block_id = op.op() == ir::Op::GetTileBlockId;
  auto& cached = block_id ? block_id_ : grid_;
  if (!cached) {
    Scope* to = block_id ? &block_scope_ : &uniform_scope_;
    cached.emplace();
    Ref dst[3];
    for (auto& d : dst) {
      cached->push_back(new_tile(4, {}, to));
      d = cached->back().ref;
    }
    Instr* instr = block_id ? static_cast<Instr*>(emit<BlockIdInstr>(to, dst)) : emit<GridInstr>(to, dst);
    for (const Ref& d : dst) instr->accesses.push_back({d.buffer, true});
  }
  for (std::size_t i = 0; i < op.num_results(); ++i) define(op.result(i), (*cached)[i]);
}

}  // namespace tessera::cpu
