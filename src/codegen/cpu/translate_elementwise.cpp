// Elementwise operations and matrix multiplication.
//
// An elementwise result is stored only over the axes along which some operand differs ("live" axes): arithmetic on
// broadcast scalars and columns costs what the scalars and columns cost.
#include <array>

#include "codegen/cpu/checked_instr.hpp"
#include "codegen/cpu/translate.hpp"
#include "tessera/base/format.hpp"

namespace tessera::cpu {
namespace {

struct NestAxis {
  std::int64_t extent;
  std::array<std::int64_t, ElementwiseInstr::kMaxSources> stride;  ///< elements
};

/// Live axes, outermost first, neighbours merged where every source can be walked by one stride.
std::vector<NestAxis> make_nest(std::span<const Tile> sources, const Dims& shape, std::span<const bool> live) {
  std::vector<NestAxis> nest;
  for (std::size_t a = 0; a < shape.size(); ++a) {
    if (!live[a]) continue;
    NestAxis axis{shape[a], {}};
    for (std::size_t s = 0; s < sources.size(); ++s) axis.stride[s] = sources[s].stride[a];
    bool merge = !nest.empty();
    for (std::size_t s = 0; s < sources.size() && merge; ++s)
      merge = nest.back().stride[s] == axis.stride[s] * axis.extent;
    if (merge) {
      axis.extent *= nest.back().extent;
      nest.back() = axis;
    } else {
      nest.push_back(axis);
    }
  }
  return nest;
}

/// The result may overwrite a source that has exactly its place and layout and is not also read in another way.
bool may_overwrite(std::span<const Tile> sources, std::size_t s, const Tile& dst) {
  const Tile& source = sources[s];
  if (source.ref.offset != 0 || source.stride != dst.stride || source.elem_bytes < dst.elem_bytes) return false;
  for (const Tile& other : sources)
    if (other.ref.buffer == source.ref.buffer && (other.ref.offset != 0 || other.stride != source.stride)) return false;
  return true;
}

}  // namespace

Tile Translator::elementwise(const prims::Elementwise& fn, std::span<const Tile> given, std::int64_t elem_bytes,
                             const Dims& shape, const ir::Operation* checked) {
  std::vector<Tile> sources(given.begin(), given.end());
  std::array<bool, kMaxRank> live_axes{};
  const std::span<bool> live(live_axes.data(), shape.size());
  for (std::size_t a = 0; a < shape.size(); ++a)
    for (const Tile& s : sources) live[a] |= s.stride[a] != 0;
  std::vector<NestAxis> nest = make_nest(sources, shape, live);
  bool repacked = false;
  if (!nest.empty())
    for (std::size_t s = 0; s < sources.size(); ++s)
      if (nest.back().stride[s] > 1 || nest.back().stride[s] < 0) {
        sources[s] = packed(sources[s]);
        repacked = true;
      }
  if (repacked) nest = make_nest(sources, shape, live);

  std::vector<Ref> refs;
  for (const Tile& s : sources) refs.push_back(s.ref);
  Scope* to = target(refs);
  Tile dst = new_tile(elem_bytes, shape, to, live);
  if (checked != nullptr) emit<OverflowCheckInstr>(scope_, *checked, sources, shape, live);  // never speculated
  auto* instr = emit<ElementwiseInstr>(to);
  instr->fn = fn;
  instr->dst = dst.ref;
  instr->elem_bytes = elem_bytes;
  instr->sources = static_cast<int>(sources.size());
  const std::size_t outer = nest.size() > 2 ? nest.size() - 2 : 0;
  if (!nest.empty()) instr->cols = nest.back().extent;
  if (nest.size() > 1) instr->rows = nest[nest.size() - 2].extent;
  for (std::size_t a = 0; a < outer; ++a) instr->outer.push_back(nest[a].extent);
  for (std::size_t s = 0; s < sources.size(); ++s) {
    auto& source = instr->source[s];
    source.ref = sources[s].ref;
    const std::int64_t bytes = source.elem_bytes = sources[s].elem_bytes;
    source.splat = nest.empty() || nest.back().stride[s] == 0;
    if (nest.size() > 1) source.row_stride = nest[nest.size() - 2].stride[s] * bytes;
    for (std::size_t a = 0; a < outer; ++a) source.outer.push_back(nest[a].stride[s] * bytes);
    instr->accesses.push_back({source.ref.buffer, false});
    if (may_overwrite(sources, s, dst)) instr->in_place.push_back({source.ref.buffer, dst.ref.buffer});
  }
  instr->accesses.push_back({dst.ref.buffer, true});
  return dst;
}

void Translator::translate_elementwise(const ir::Operation& op) {
  const prims::Elementwise fn = op.num_results() == 1 ? prims::elementwise(op) : prims::Elementwise{};
  if (!fn || op.num_operands() > ElementwiseInstr::kMaxSources) unsupported(op, "no primitive for these element types");
  std::vector<Tile> sources;
  for (ir::Value v : op.operand_values()) sources.push_back(tile(v));
  const ir::Type type = op.result().type();
  const std::int64_t bytes = type.is_pointer() ? 8 : ir::info(type.elem()).bytes;
  define(op.result(), elementwise(fn, sources, bytes, Dims(type.shape().begin(), type.shape().end()),
                                  index_arithmetic_.contains(&op) ? &op : nullptr));
}

void Translator::translate_mma(const ir::Operation& op) {
  const prims::MmaFn fn = prims::mma(op);
  if (fn == nullptr) unsupported(op, "no primitive for these element types");
  const bool scaled = op.op() == ir::Op::MmaFScaled;
  std::vector<Tile> in;
  for (ir::Value v : op.operand_values()) in.push_back(tile(v));
  in[2] = dense(in[2]);
  std::vector<Ref> refs;
  for (const Tile& t : in) refs.push_back(t.ref);
  Scope* to = target(refs);
  const Tile dst = new_tile(op.result().type(), to);
  const Ref scratch = new_buffer(static_cast<std::int64_t>(prims::mma_scratch_bytes(op)) + 64, to);
  auto* instr = emit<MmaInstr>(to);
  const auto matrix = [&](const Tile& t) {
    const std::size_t r = t.shape.size();
    return MmaInstr::Operand{t.ref, r == 3 ? t.stride[0] : 0, t.stride[r - 2], t.stride[r - 1]};
  };
  const std::size_t r = in[0].shape.size();
  instr->fn = fn;
  instr->a = matrix(in[0]);
  instr->b = matrix(in[1]);
  instr->acc = in[2].ref;
  instr->dst = dst.ref;
  instr->scratch = scratch;
  instr->scaled = scaled;
  if (scaled) {
    instr->a_scale = matrix(in[3]);
    instr->b_scale = matrix(in[4]);
  }
  instr->batch = r == 3 ? in[0].shape[0] : 1;
  instr->m = in[0].shape[r - 2];
  instr->k = in[0].shape[r - 1];
  instr->n = in[1].shape[r - 1];
  instr->elem_bytes = in[0].elem_bytes;
  for (Ref ref : refs) instr->accesses.push_back({ref.buffer, false});
  instr->accesses.push_back({scratch.buffer, true});
  instr->accesses.push_back({dst.ref.buffer, true});
  if (in[2].ref.offset == 0 && in[0].ref.buffer != in[2].ref.buffer && in[1].ref.buffer != in[2].ref.buffer)
    instr->in_place.push_back({in[2].ref.buffer, dst.ref.buffer});
  define(op.result(), dst);
}

}  // namespace tessera::cpu
