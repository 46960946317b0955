// Running the instructions on tiles.
#include "codegen/cpu/tile_instr.hpp"

#include <algorithm>
#include <cstring>

namespace tessera::cpu {
namespace {

/// Operations on fewer elements are over before a cache line comes.
constexpr std::int64_t kLongEnoughToFetch = 256;

}  // namespace

std::uint64_t read_unsigned(const Frame& f, Ref r, ir::Elem e) {
  switch (e) {
    case ir::Elem::I16: return *f.at<std::uint16_t>(r);
    case ir::Elem::I32: return *f.at<std::uint32_t>(r);
    case ir::Elem::I64: return *f.at<std::uint64_t>(r);
    default: return *f.at<std::uint8_t>(r);
  }
}

std::int64_t read_signed(const Frame& f, Ref r, ir::Elem e) {
  switch (e) {
    case ir::Elem::I1: return -static_cast<std::int64_t>(*f.at<std::uint8_t>(r) & 1);
    case ir::Elem::I16: return *f.at<std::int16_t>(r);
    case ir::Elem::I32: return *f.at<std::int32_t>(r);
    case ir::Elem::I64: return *f.at<std::int64_t>(r);
    default: return *f.at<std::int8_t>(r);
  }
}

void write_integer(const Frame& f, Ref r, ir::Elem e, std::uint64_t v) {
  switch (e) {
    case ir::Elem::I1: *f.at<std::uint8_t>(r) = v & 1; break;
    case ir::Elem::I16: *f.at<std::uint16_t>(r) = static_cast<std::uint16_t>(v); break;
    case ir::Elem::I32: *f.at<std::uint32_t>(r) = static_cast<std::uint32_t>(v); break;
    case ir::Elem::I64: *f.at<std::uint64_t>(r) = v; break;
    default: *f.at<std::uint8_t>(r) = static_cast<std::uint8_t>(v); break;
  }
}

CopyInstr::CopyInstr(const Tile& dst, const Tile& src) : dst_(dst.ref), src_(src.ref), elem_bytes_(src.elem_bytes) {
  for (std::size_t a = 0; a < src.shape.size(); ++a)
    shape_.add_axis(src.shape[a], dst.stride[a] * elem_bytes_, src.stride[a] * elem_bytes_);
  shape_.simplify(elem_bytes_);
  accesses = {{src_.buffer, false}, {dst_.buffer, true}};
  dense_ = dst.is_dense() && src.is_dense() && dst_.offset == 0 && src_.offset == 0;
  if (dense_) in_place = {{src_.buffer, dst_.buffer}};
}

Status CopyInstr::run(Frame& f) const {
  if (forward_) f.base[dst_.buffer] = dense_ ? f.base[src_.buffer] : f.home[dst_.buffer];
  auto* dst = f.at<std::byte>(dst_);
  const auto* src = f.at<std::byte>(src_);
  if (dst != src) copy_elements(shape_, dst, src, elem_bytes_);
  return Status::Next;
}

Status ElementwiseInstr::run(Frame& f) const {
  if (rows * cols == 1 && fn.plain && !fn.swapped && outer.empty()) {  // arithmetic on indices
    const auto at = [&](int i) { return i < sources ? f.at<std::byte>(source[i].ref) : nullptr; };
    fn.loop(f.at<std::byte>(dst), at(0), at(1), at(2), 1);
    return Status::Next;
  }
  prims::Operand operands[kMaxSources];
  for (int i = 0; i < sources; ++i)
    operands[i] = {f.at<std::byte>(source[i].ref),
                   source[i].apart ? f.pitch[source[i].ref.buffer] : source[i].row_stride, source[i].splat};
  auto* to = f.at<std::byte>(dst);
  if (outer.empty()) {
    fn(to, operands, rows, cols);
    if (rows * cols >= kLongEnoughToFetch) f.ahead->fetch();
  } else {
    run_outer(f, operands, to, 0);
  }
  return Status::Next;
}

/// Operands are rows of the wanted length, or can be seen as such: where all of them are stored without a gap, or are
/// one value.
bool ElementwiseInstr::takes_rows(std::uint32_t buffer, std::int64_t length) const {
  if (!outer.empty() || (rows > 1 ? cols != length : cols % length != 0)) return false;
  for (int i = 0; i < sources; ++i) {
    const Source& s = source[i];
    const bool full = !s.splat && (rows == 1 || s.row_stride == length * s.elem_bytes);
    if (s.ref.buffer == buffer && (!full || s.ref.offset != 0)) return false;
  }
  return true;
}

void ElementwiseInstr::take_rows(std::uint32_t buffer, std::int64_t length) {
  if (rows == 1) {
    rows = cols / length;
    cols = length;
    for (int i = 0; i < sources; ++i) source[i].row_stride = source[i].splat ? 0 : length * source[i].elem_bytes;
  }
  for (int i = 0; i < sources; ++i) source[i].apart |= source[i].ref.buffer == buffer;
}

void ElementwiseInstr::run_outer(Frame& f, prims::Operand* operands, std::byte* to, std::size_t axis) const {
  if (axis == outer.size()) return fn(to, operands, rows, cols);
  std::int64_t step = rows * cols * elem_bytes;
  for (std::size_t a = axis + 1; a < outer.size(); ++a) step *= outer[a];
  prims::Operand here[kMaxSources];
  std::copy_n(operands, kMaxSources, here);
  for (std::int64_t i = 0; i < outer[axis]; ++i) {
    run_outer(f, here, to + i * step, axis + 1);
    for (int s = 0; s < sources; ++s)
      here[s].data = static_cast<const std::byte*>(here[s].data) + source[s].outer[axis];
  }
}

Status IotaInstr::run(Frame& f) const {
  const auto write = [&](auto* to) {
    for (std::int64_t i = 0; i < count_; ++i) to[i] = static_cast<std::remove_reference_t<decltype(*to)>>(i);
  };
  switch (elem_) {
    case ir::Elem::I16: write(f.at<std::uint16_t>(dst_)); break;
    case ir::Elem::I32: write(f.at<std::uint32_t>(dst_)); break;
    case ir::Elem::I64: write(f.at<std::uint64_t>(dst_)); break;
    default: write(f.at<std::uint8_t>(dst_)); break;
  }
  return Status::Next;
}

SliceInstr::SliceInstr(const Tile& dst, const Tile& src, bool index_destination, std::vector<Index> indices)
    : dst_(dst.ref),
      src_(src.ref),
      elem_bytes_(src.elem_bytes),
      index_destination_(index_destination),
      indices_(std::move(indices)) {
  const Dims& shape = index_destination ? src.shape : dst.shape;  // the slice
  for (std::size_t a = 0; a < shape.size(); ++a)
    shape_.add_axis(shape[a], dst.stride[a] * elem_bytes_, src.stride[a] * elem_bytes_);
  shape_.simplify(elem_bytes_);
  accesses = {{src_.buffer, false}, {dst_.buffer, true}};
  for (const Index& i : indices_) accesses.push_back({i.ref.buffer, false});
}

Status SliceInstr::run(Frame& f) const {
  std::int64_t offset = 0;
  for (const Index& i : indices_) offset += std::min<std::int64_t>(*f.at<std::uint32_t>(i.ref), i.count - 1) * i.stride;
  copy_elements(shape_, f.at<std::byte>(dst_) + (index_destination_ ? offset : 0),
                f.at<std::byte>(src_) + (index_destination_ ? 0 : offset), elem_bytes_);
  return Status::Next;
}

Status NibbleInstr::run(Frame& f) const {
  auto* dst = f.at<std::uint8_t>(dst_);
  const auto* src = f.at<std::uint8_t>(src_);
  for (std::int64_t i = 0; i < bytes_; ++i) {
    if (pack_) {
      dst[i] = static_cast<std::uint8_t>((src[2 * i] & 15) | (src[2 * i + 1] & 15) << 4);
    } else {
      dst[2 * i] = src[i] & 15;
      dst[2 * i + 1] = src[i] >> 4;
    }
  }
  return Status::Next;
}

/// One of the two factors whose rows, or columns, are the rows of the buffer. Accumulators and scales are not.
bool MmaInstr::takes_rows(std::uint32_t buffer, std::int64_t length) const {
  if (batch != 1 || acc.buffer == buffer || (scaled && (a_scale.ref.buffer == buffer || b_scale.ref.buffer == buffer)))
    return false;
  for (const Operand* o : {&a, &b}) {
    if (o->ref.buffer != buffer) continue;
    const bool by_rows = o->row_stride == length && o->col_stride == 1;
    const bool by_cols = o->col_stride == length && o->row_stride == 1;
    if (o->ref.offset != 0 || by_rows == by_cols) return false;
  }
  return true;
}

void MmaInstr::take_rows(std::uint32_t buffer, std::int64_t /*length*/) {
  for (Operand* o : {&a, &b}) {
    if (o->ref.buffer != buffer) continue;
    o->rows_apart = o->col_stride == 1;
    o->cols_apart = !o->rows_apart;
  }
}

prims::Matrix MmaInstr::matrix(const Frame& f, const Operand& o) const {
  const auto* data = f.at<std::byte>(o.ref);
  if (!o.rows_apart && !o.cols_apart) return {data, o.batch_stride, o.row_stride, o.col_stride};
  const std::int64_t pitch = f.pitch[o.ref.buffer] / elem_bytes, step = f.step[o.ref.buffer] / elem_bytes;
  return {data, o.batch_stride, o.rows_apart ? pitch : step, o.rows_apart ? step : pitch};
}

Status MmaInstr::run(Frame& f) const {
  prims::MmaArgs args{};
  args.a = matrix(f, a);
  args.b = matrix(f, b);
  if (scaled) {
    args.a_scale = matrix(f, a_scale);
    args.b_scale = matrix(f, b_scale);
  }
  args.acc = f.at<std::byte>(acc);
  args.dst = f.at<std::byte>(dst);
  args.scratch = f.at<std::byte>(scratch);
  args.batch = batch;
  args.m = m;
  args.n = n;
  args.k = k;
  fn(args);
  return Status::Next;
}

Status BlockIdInstr::run(Frame& f) const {
  for (int a = 0; a < 3; ++a) *f.at<std::int32_t>(dst_[a]) = f.block[a];
  return Status::Next;
}

Status GridInstr::run(Frame& f) const {
  for (int a = 0; a < 3; ++a) *f.at<std::int32_t>(dst_[a]) = f.grid[a];
  return Status::Next;
}

}  // namespace tessera::cpu
