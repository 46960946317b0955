// Buffers, values, scopes, and the dispatch of operations to the files that translate them.
#include "codegen/cpu/translate.hpp"

#include <array>
#include <cstring>

#include "tessera/analysis/index_arithmetic.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/ir/printer.hpp"

namespace tessera::cpu {
namespace {

std::int64_t element_bytes(ir::Type tile) { return tile.is_pointer() ? 8 : ir::info(tile.elem()).bytes; }

}  // namespace

void Translator::unsupported(const ir::Operation& op, const std::string& what) const {
  throw CompileError(concat("the CPU backend cannot run `", op.info().mnemonic, "`: ", what), op.loc);
}

Ref Translator::new_buffer(std::int64_t bytes, Scope* scope) {
  BufferInfo info;
  info.bytes = bytes;
  buffers.push_back(info);
  buffer_scope_.push_back(scope);
  return {static_cast<std::uint32_t>(buffers.size() - 1), 0};
}

Tile Translator::new_tile(std::int64_t elem_bytes, Dims shape, Scope* scope, std::span<const bool> live) {
  Tile t = packed_tile({}, elem_bytes, std::move(shape), live);
  t.ref = new_buffer(t.stored() * elem_bytes, scope);
  return t;
}

Tile Translator::new_tile(ir::Type type, Scope* scope) {
  if (type.is_token()) return new_tile(4, {}, scope);
  return new_tile(element_bytes(type), Dims(type.shape().begin(), type.shape().end()), scope);
}

Ref Translator::constant_ref(const void* data, std::size_t bytes) {
  const std::size_t at = (constants.size() + 63) / 64 * 64;
  constants.resize(at + bytes);
  std::memcpy(constants.data() + at, data, bytes);
  const Ref r = new_buffer(static_cast<std::int64_t>(bytes), &uniform_scope_);
  buffers.back().kind = BufferKind::Constant;
  buffers.back().where = static_cast<std::int64_t>(at);
  return r;
}

Tile Translator::constant_tile(const ir::DenseAttr& value) {
  const auto bytes = element_bytes(value.type);
  Tile t = packed_tile(constant_ref(value.bytes.data(), value.bytes.size()), bytes,
                       Dims(value.type.shape().begin(), value.type.shape().end()));
  if (value.splat) t.stride.assign(t.shape.size(), 0);
  return t;
}

Scope* Translator::target(std::span<const Ref> operands) {
  Scope* deepest = &uniform_scope_;
  for (Ref r : operands)
    if (scope_of(r)->depth > deepest->depth) deepest = scope_of(r);
  if (deepest->kind == Scope::Kind::Uniform) return deepest;
  // Out of loops, but not out of an `if`: what it guards may be costly.
  Scope* s = scope_;
  while (s != deepest && s->kind == Scope::Kind::Loop) s = s->parent;
  return s;
}

const Tile& Translator::tile(ir::Value v) const { return tiles_.at(v.impl()); }

void Translator::define(ir::Value v, Tile t) { tiles_.insert_or_assign(v.impl(), std::move(t)); }

Tile Translator::dense(const Tile& t) {
  if (t.is_dense()) return t;
  Scope* to = target({t.ref});
  Tile out = new_tile(t.elem_bytes, t.shape, to);
  emit<CopyInstr>(to, out, t);
  return out;
}

Tile Translator::packed(const Tile& t) {
  if (t.is_packed()) return t;
  Scope* to = target({t.ref});
  std::array<bool, kMaxRank> live{};
  for (int a = 0; a < t.rank(); ++a) live[static_cast<std::size_t>(a)] = t.live(a);
  Tile out = new_tile(t.elem_bytes, t.shape, to, std::span(live.data(), t.shape.size()));
  Tile from = t;  // only the live axes are copied
  for (std::size_t a = 0; a < t.shape.size(); ++a)
    if (!live[a]) from.shape[a] = 1;
  Tile onto = out;
  onto.shape = from.shape;
  emit<CopyInstr>(to, onto, from);
  return out;
}

int Translator::root_of(ir::Value v) const {
  for (int guard = 0; guard < 64 && v; ++guard) {
    const ir::Operation* op = v.def();
    if (op == nullptr)
      return v.argument_block() != nullptr && v.argument_block()->parent() == nullptr ? static_cast<int>(v.index())
                                                                                      : -1;
    switch (op->op()) {
      case ir::Op::Offset:
      case ir::Op::Broadcast:
      case ir::Op::Reshape:
      case ir::Op::Permute:
      case ir::Op::PtrToPtr:
      case ir::Op::Assume:
      case ir::Op::Extract: v = op->operand(0); break;
      default: return -1;
    }
  }
  return -1;
}

void Translator::translate_entry_args(const ir::Block& body) {
  for (std::size_t i = 0; i < body.num_args(); ++i) {
    const ir::Type type = body.arg(i).type();
    const Ref r = new_buffer(8, &uniform_scope_);
    buffers.back().kind = BufferKind::Argument;
    buffers.back().where = static_cast<std::int64_t>(i);
    define(body.arg(i), Tile{r, element_bytes(type), {}, {}});
  }
}

void Translator::translate(const ir::Function& entry) {
  for (const ir::Operation* op : analysis::index_arithmetic(entry.body())) index_arithmetic_.insert(op);
  separable_.emplace(entry.body(), index_arithmetic_);
  translate_entry_args(entry.body());
  translate_block(entry.body());
}

void Translator::translate_block(const ir::Block& body) {
  for (const ir::Operation& op : body) {
    for (std::size_t i = 0; i < op.num_results(); ++i)
      if (op.result(i).type().is_tile() && op.result(i).type().rank() > kMaxRank)
        unsupported(op, concat("tiles of more than ", kMaxRank, " axes"));
    translate_op(op);
  }
}

void Translator::translate_op(const ir::Operation& op) {
  if (separable_->unneeded.contains(&op)) return;
  switch (op.op()) {
    case ir::Op::For: return translate_for(op);
    case ir::Op::Loop: return translate_loop(op);
    case ir::Op::If: return translate_if(op);
    case ir::Op::Break:
    case ir::Op::Continue:
    case ir::Op::Return:
    case ir::Op::Yield: return translate_terminator(op);
    case ir::Op::Reduce: return translate_reduce(op);
    case ir::Op::Scan: return translate_scan(op);
    case ir::Op::MmaF:
    case ir::Op::MmaI:
    case ir::Op::MmaFScaled: return translate_mma(op);
    default: break;
  }
  if (!translate_shape(op) && !translate_memory(op)) translate_elementwise(op);
}

}  // namespace tessera::cpu
