// A kernel is recorded at the first use for each kind of work, its element types and number of axes, and kept until the
// process ends.
#include "host/device_kernels.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "host/convert.hpp"
#include "host/launch_grid.hpp"
#include "host/recorded_kernel.hpp"
#include "tessera/base/error.hpp"
#include "tessera/host/contract.hpp"
#include "tessera/host/create.hpp"
#include "tessera/lang/lang.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace tessera::detail {
namespace {

using lang::ParamInfo;
using lang::ParamKind;

enum class Work : std::uint8_t { Value, Arange, Uniform, Normal, Convert };

/// The key of a recording. `axes`: of the kernel, 1 to 4.
struct Job {
  Work work;
  ElementType from, to;
  int axes;
  auto order() const { return std::tuple(work, from, to, axes); }
};

constexpr int kMaxAxes = 4;
constexpr int kLine = 1024;
// Pieces by number of axes. Square for two axes, because either one may be contiguous.
constexpr int kPieces[kMaxAxes][kMaxAxes] = {{kLine}, {64, 64}, {1, 64, 64}, {1, 1, 64, 64}};
constexpr std::int64_t kMaxPieces = (std::int64_t{1} << 31) - 1;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 30;  // of one launch over an array of rank 1

std::vector<ParamInfo> parameters(const Job& job) {
  const int* piece = kPieces[job.axes - 1];
  std::vector<ParamInfo> p{{ParamKind::Mut, job.to, job.axes, {piece, piece + job.axes}, {}, 0}};
  const auto number = [&](ElementType t) { p.push_back({ParamKind::Scalar, t, 0, {}, {}, 0}); };
  const bool is_float = info(job.to).cls == ElementClass::Float;
  switch (job.work) {
    case Work::Value: number(job.to); break;
    case Work::Arange:
      number(ElementType::i64);
      number(is_float ? ElementType::f64 : ElementType::i64);
      number(is_float ? ElementType::f64 : ElementType::i64);
      break;
    case Work::Uniform:
    case Work::Normal:
      number(ElementType::i64);
      number(ElementType::u64);
      break;
    case Work::Convert:
      const auto axes = static_cast<std::size_t>(job.axes);
      p.push_back({ParamKind::In, job.from, job.axes, std::vector<std::int64_t>(axes, lang::kDyn), {}, 0});
      break;
  }
  return p;
}

const char* name_of(Work work) {
  switch (work) {
    case Work::Value: return "fill";
    case Work::Arange: return "arange";
    case Work::Uniform: return "random_uniform";
    case Work::Normal: return "random_normal";
    case Work::Convert: break;
  }
  return "convert";
}

/// Element offsets of a piece (rank 1) in the whole tensor; scalar parameter 1 is the offset of the launch's first
/// element.
Tile<i64, kLine> offsets_of(lang::Recording& r, SourceLocation where) {
  return Tile<i64, kLine>(lang::piece_offsets(r.piece(0), where)) + Tile<i64>(r.argument(1));
}

/// start + i * step: for floats in f64 with one rounding, and another one to the element type.
ir::Value arange_tile(lang::Recording& r, const Job& job, const lang::TileSpec& result, SourceLocation where) {
  const auto i = offsets_of(r, where);
  if (info(job.to).cls != ElementClass::Float) {
    const auto v = Tile<i64>(r.argument(2)) + i * Tile<i64>(r.argument(3));
    return lang::convert(v.value(), ElementType::i64, result, RoundingDirection::Default, false, where);
  }
  const auto start = Tile<f64>(r.argument(2)), step = Tile<f64>(r.argument(3));
  const auto v = fma(cast<f64>(i), broadcast(step, shape<kLine>), broadcast(start, shape<kLine>));
  return lang::convert(v.value(), ElementType::f64, result, RoundingDirection::Default, false, where);
}

ir::Value element_tile(lang::Recording& r, const Job& job, SourceLocation where) {
  static constexpr int every_axis[kMaxAxes] = {0, 1, 2, 3};
  const lang::TileSpec result{job.to, job.axes, kPieces[job.axes - 1]};
  switch (job.work) {
    case Work::Value: {
      static constexpr int one[] = {1};
      const ir::Value v = lang::reshape(r.argument(1), {job.to, 1, one}, where);
      return lang::broadcast(v, result, where);
    }
    case Work::Arange: return arange_tile(r, job, result, where);
    case Work::Uniform:
    case Work::Normal: {
      const auto kind = job.work == Work::Uniform ? lang::Distribution::Uniform : lang::Distribution::Normal;
      return lang::random_tile(kind, job.to, r.argument(2), offsets_of(r, where).value(), where);
    }
    case Work::Convert: break;
  }
  const auto axes = static_cast<std::size_t>(job.axes);
  const ir::Value v =
      lang::load_like(r.tensor(1), r.piece(0), std::span(every_axis, axes), lang::Regions::Agree, {}, where);
  if (job.from == job.to) return v;
  return lang::convert(v, job.from, result, RoundingDirection::Default, false, where);
}

lang::Trace record(const Job& job, const lang::Specialization& specialization, SourceLocation where) {
  lang::Recording r(name_of(job.work), parameters(job), specialization, where);
  r.begin_body();
  lang::store_piece(r.piece(0), element_tile(r, job, where), where);
  return r.finish();
}

/// A kind of work and the layouts it is specialized by.
struct Key {
  Job job;
  RecordingKey recording;
  bool operator<(const Key& o) const {
    const auto tie = [](const Key& k) {
      return std::tuple(k.job.order(), k.recording.tensors[0], k.recording.tensors[1], k.recording.flags);
    };
    return tie(*this) < tie(o);
  }
};

/// The kernel for `key`; recorded at the first call, never destroyed.
jit::Kernel& kernel_for(const Key& key, bool wide_grid, SourceLocation where) {
  static auto* const mutex = new std::mutex;
  static auto* const all = new std::map<Key, std::unique_ptr<jit::Kernel>>;
  const std::lock_guard lock(*mutex);
  std::unique_ptr<jit::Kernel>& k = (*all)[key];
  if (k) return *k;
  std::vector<ParamInfo> params = parameters(key.job);
  lang::lay_out(params);
  lang::Trace trace = record(key.job, specialization(key.recording, params), where);
  jit::CompileOptions options;
  options.label = trace.name;
  options.raw_writes = false;
  k = std::make_unique<jit::Kernel>(std::move(trace.module), launch_contract(params, wide_grid, trace.same_extents),
                                    std::move(options));
  return *k;
}

/// Extents and strides of up to two arrays, with neighbouring axes merged where both allow it.
struct Shape2 {
  std::array<std::int64_t, kMaxRank> dims{};
  std::array<std::array<std::int64_t, kMaxRank>, 2> strides{};
  int rank = 0;

  void add(std::int64_t dim, std::int64_t s0, std::int64_t s1) {
    if (dim == 1) return;
    const auto last = static_cast<std::size_t>(rank - 1), next = static_cast<std::size_t>(rank);
    if (rank > 0 && strides[0][last] == s0 * dim && strides[1][last] == s1 * dim && dims[last] * dim <= kMaxElements) {
      dims[last] *= dim;
      strides[0][last] = s0, strides[1][last] = s1;
      return;
    }
    dims[next] = dim, strides[0][next] = s0, strides[1][next] = s1;
    ++rank;
  }
};

/// Pieces of a job over these extents.
std::int64_t pieces_of(int axes, std::span<const std::int64_t> dims) {
  std::int64_t n = 1;
  for (std::size_t a = 0; a < dims.size(); ++a) n *= ceil_div(dims[a], std::int64_t{kPieces[axes - 1][a]});
  return n;
}

struct Operand {
  std::byte* base;
  std::span<const std::int64_t> dims, strides;
};

/// Submits one launch. `numbers`: the scalar arguments.
void launch(const Stream& stream, const Job& job, std::span<const Operand> tensors,
            std::span<const std::uint64_t> numbers, std::span<const runtime::Access> accesses, const char* label,
            SourceLocation where) {
  const std::int64_t pieces = pieces_of(job.axes, tensors[0].dims);
  Key key{job, {}};
  for (std::size_t i = 0; i < tensors.size(); ++i)
    key.recording.tensors[i] = tensor_bits(tensors[i].dims, tensors[i].strides);
  const bool wide_grid = pieces > static_cast<std::int64_t>(kMaxGridAxis);
  key.recording.flags = flag_bits(wide_grid, CheckMode::Off, false, lang::Accuracy::Precise);
  std::vector<std::uint64_t> slots;
  std::vector<std::uint16_t> addresses;
  for (const Operand& t : tensors) {
    addresses.push_back(static_cast<std::uint16_t>(slots.size()));
    slots.push_back(reinterpret_cast<std::uintptr_t>(t.base));
    for (const std::int64_t d : t.dims) slots.push_back(static_cast<std::uint64_t>(d));
    for (const std::int64_t s : t.strides) slots.push_back(static_cast<std::uint64_t>(s));
  }
  slots.insert(slots.end(), numbers.begin(), numbers.end());
  const jit::Code& code = kernel_for(key, wide_grid, where).code(stream.device(), slots);
  const runtime::LaunchGrid grid = launch_grid(code, static_cast<std::uint64_t>(pieces), false, slots);
  runtime::Submission submission{code.work, grid, slots, accesses, label, where};
  submission.movable = true;
  submission.addresses = addresses;
  stream.core()->submit(submission);
}

/// The kernel twin of a host fill, and its scalar arguments after the base.
struct Twin {
  Job job;
  std::vector<std::uint64_t> numbers;
};
ElementType bits_type(ElementType t) {
  switch (size_of(t)) {
    case 1: return ElementType::u8;
    case 2: return ElementType::u16;
    case 4: return ElementType::u32;
    default: return ElementType::u64;
  }
}
std::optional<Twin> twin_of(const Recipe& r) {
  const auto of = [&](Work w) { return Job{w, r.element, r.element, 1}; };
  if (r.fill == fill_uniform) return Twin{of(Work::Uniform), {r.seed}};
  if (r.fill == fill_normal) return Twin{of(Work::Normal), {r.seed}};
  if (r.fill == fill_value) {
    const ElementType bits = bits_type(r.element);
    return Twin{{Work::Value, bits, bits, 1}, {r.first}};
  }
  if (r.fill == fill_arange && r.element != ElementType::boolean) {
    return Twin{of(Work::Arange), {widened_bits(r.element, r.first), widened_bits(r.element, r.second)}};
  }
  return std::nullopt;
}

}  // namespace

bool fill_by_kernel(const Stream& stream, const runtime::StorageRef& to, const Recipe& r, std::int64_t count) {
  const std::optional<Twin> twin = twin_of(r);
  if (!twin) return false;
  const runtime::Access access{to, runtime::AccessMode::Write};
  const std::int64_t size = size_of(r.element);
  for (std::int64_t base = 0; base < count; base += kMaxElements) {
    const std::int64_t dims[] = {std::min(kMaxElements, count - base)}, strides[] = {1};
    const Operand target{to->data() + base * size, dims, strides};
    std::vector<std::uint64_t> numbers = twin->numbers;
    if (twin->job.work != Work::Value) numbers.insert(numbers.begin(), static_cast<std::uint64_t>(base));
    try {
      launch(stream, twin->job, {&target, 1}, numbers, {&access, 1}, r.label, r.where);
    } catch (const CompileError&) {
      if (base != 0) throw;
      return false;
    }
  }
  to->host_wrote(0, to->bytes());
  return true;
}

bool convert_by_kernel(const Stream& stream, const LayoutRef& from, const LayoutRef& to, const char* label,
                       SourceLocation where) {
  Shape2 s;
  for (std::size_t a = 0; a < from.dims.size(); ++a) {
    if (from.dims[a] == 0) return true;
    s.add(from.dims[a], to.strides[a], from.strides[a]);
  }
  if (s.rank == 0) s.dims[0] = s.strides[0][0] = s.strides[1][0] = s.rank = 1;  // one element
  const std::span<const std::int64_t> dims(s.dims.data(), static_cast<std::size_t>(s.rank));
  if (s.rank > kMaxAxes || pieces_of(s.rank, dims) > kMaxPieces) return false;
  const auto operand = [&](const LayoutRef& l, std::size_t which) {
    return Operand{(*l.storage)->data() + l.offset * size_of(l.element), dims, {s.strides[which].data(), dims.size()}};
  };
  const Operand operands[] = {operand(to, 0), operand(from, 1)};
  const bool whole =
      to.contiguous() && to.size() * size_of(to.element) == static_cast<std::int64_t>((*to.storage)->bytes());
  const runtime::Access accesses[] = {
      {*to.storage, whole ? runtime::AccessMode::Write : runtime::AccessMode::ReadWrite},
      {*from.storage, runtime::AccessMode::Read}};
  try {
    const bool copy = from.element == to.element;  // copies bits, without conversion
    const Job job{Work::Convert, copy ? bits_type(from.element) : from.element,
                  copy ? bits_type(to.element) : to.element, s.rank};
    launch(stream, job, operands, {}, accesses, label, where);
  } catch (const CompileError&) { return false; }
  return true;
}

}  // namespace tessera::detail
