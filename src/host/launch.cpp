// Launches: leases, aliasing, shapes, the grid, the specialization, submission. No strings are built unless there is an
// error.
#include "tessera/host/launch.hpp"

#include <algorithm>

#include "host/launch_errors.hpp"
#include "host/variant.hpp"
#include "tessera/base/error.hpp"
#include "tessera/host/checking.hpp"
#include "tessera/jit/build.hpp"

namespace tessera::detail {
namespace {

constexpr std::uint64_t kMaxGridAxis = (1u << 24) - 1;  // blocks along one axis (tile-ir: get_num_tile_blocks)

bool writes(const lang::ParamInfo& p) { return p.kind != lang::ParamKind::In; }
bool has_pieces(const lang::ParamInfo& p) {
  return p.kind == lang::ParamKind::Mut || p.kind == lang::ParamKind::MutTiles || p.kind == lang::ParamKind::UnsafeMut;
}
std::uint64_t address_of(const lang::ParamInfo& p, const TensorOperand& o) {
  return reinterpret_cast<std::uintptr_t>(o.storage->data() + o.offset * size_of(p.element));
}

}  // namespace

std::span<std::int64_t> Launch::dims(int param) const {
  const lang::ParamInfo& p = params()[static_cast<std::size_t>(param)];
  return {reinterpret_cast<std::int64_t*>(slots_ + p.first_arg + 1), static_cast<std::size_t>(p.rank)};
}
std::span<std::int64_t> Launch::strides(int param) const {
  const lang::ParamInfo& p = params()[static_cast<std::size_t>(param)];
  return {reinterpret_cast<std::int64_t*>(slots_ + p.first_arg + 1 + p.rank), static_cast<std::size_t>(p.rank)};
}

LaunchContextText Launch::context() const { return {record_.signature(), where_}; }

// -- building ------------------------------------------------------------------------------------------------------

void Launch::bind(Arguments args) {
  check_present(args);
  check_aliases(args);
  take_leases(args);
  fill_slots(args);
  const auto all = params();
  bool known = true;
  for (std::size_t i = 0; i < all.size(); ++i) known = known && (!all[i].is_tensor() || operands_[i].known);
  if (known) check_shapes();
  accept(args);
}

void Launch::check_present(Arguments args) const {
  const auto all = params();
  for (std::size_t i = 0; i < args.size(); ++i) {
    const ArgRef& a = args[i];
    if (!all[i].is_tensor()) {
      if (!a.fits) throw_number_too_large(context(), static_cast<int>(i));
    } else if (a.op) {
      if (!a.peek(a.op)) throw_spent_argument(context(), static_cast<int>(i));
    } else if (!*a.layout.storage) {
      throw_empty_argument(context(), static_cast<int>(i));
    }
  }
}

void Launch::check_aliases(Arguments args) const {
  const auto all = params();
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!all[i].is_tensor() || !writes(all[i])) continue;
    for (std::size_t j = 0; j < args.size(); ++j) {
      if (j == i || !all[j].is_tensor()) continue;
      const ArgRef &a = args[i], &b = args[j];
      const bool same = a.op ? a.op == b.op : !b.op && *a.layout.storage == *b.layout.storage;
      if (same) throw_alias(context(), static_cast<int>(i), static_cast<int>(j), writes(all[j]));
    }
  }
}

runtime::Lease Launch::lease(int param, const runtime::StorageRef& storage) const {
  const KernelRecord::Signature& s = record_.signature();
  const lang::ParamInfo& p = s.params[static_cast<std::size_t>(param)];
  const runtime::Holder holder{s.what.c_str(), param + 1, p.spelling.c_str(), where_, this};
  if (writes(p)) return runtime::WriteLease(storage, holder);
  return runtime::ReadLease(storage, holder);
}

void Launch::take_leases(Arguments args) {
  const auto all = params();
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!all[i].is_tensor() || args[i].op) continue;
    operands_[i].lease = lease(static_cast<int>(i), *args[i].layout.storage);
  }
}

void Launch::fill_slots(Arguments args) {
  const auto all = params();
  for (std::size_t i = 0; i < args.size(); ++i) {
    const ArgRef& a = args[i];
    const int param = static_cast<int>(i);
    if (!all[i].is_tensor()) {
      slots_[all[i].first_arg] = a.number;
    } else if (a.op) {
      operands_[i].known = a.peek(a.op)->promise(dims(param), strides(param));
    } else {
      operands_[i].storage = *a.layout.storage;
      operands_[i].offset = a.layout.offset;
      std::copy(a.layout.dims.begin(), a.layout.dims.end(), dims(param).begin());
      std::copy(a.layout.strides.begin(), a.layout.strides.end(), strides(param).begin());
      operands_[i].known = true;
    }
  }
}

void Launch::accept(Arguments args) {
  for (std::size_t i = 0; i < args.size(); ++i) {
    const ArgRef& a = args[i];
    if (a.op) {
      operands_[i].pending = a.take(a.op);
      operands_[i].resolve = a.resolve;
    }
    if (a.owner) a.owner->reset();
  }
}

// -- shapes ------------------------------------------------------------------------------------------------------

runtime::Backend* Launch::device() const noexcept {
  if (options_.device) return options_.device;
  for (std::size_t i = 0; i < params().size(); ++i) {
    const TensorOperand& o = operands_[i];
    if (o.storage) return &o.storage->device().backend();
    if (!o.pending) continue;
    if (runtime::Backend* device = o.pending->device()) return device;
  }
  return nullptr;
}

void Launch::check_shapes() {
  const auto all = params();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].is_tensor()) check_extents(static_cast<int>(i));
  }
  check_devices();
  choose_grid();
  choose_variant();
  check_requirements();
  checked_shapes_ = true;
}

void Launch::check_extents(int param) const {
  const lang::ParamInfo& p = params()[static_cast<std::size_t>(param)];
  const auto found = dims(param);
  for (int a = 0; a < p.rank; ++a) {
    const auto axis = static_cast<std::size_t>(a);
    if (found[axis] > kMaxExtent) throw_axis_too_long(context(), param, a, found);
    const bool fixed = !has_pieces(p) && p.extents[axis] != lang::kDyn;
    if (fixed && found[axis] != p.extents[axis]) throw_wrong_extent(context(), param, a, found);
  }
}

void Launch::check_devices() const {
  const runtime::Backend* expected = device();
  for (std::size_t i = 0; i < params().size(); ++i) {
    if (!operands_[i].storage) continue;
    const Device found = operands_[i].storage->device();
    if (expected != &found.backend())
      throw_wrong_device(context(), static_cast<int>(i), expected->name(), found.name());
  }
}

std::uint64_t Launch::pieces(int param) const {
  const lang::ParamInfo& p = params()[static_cast<std::size_t>(param)];
  const auto found = dims(param);
  std::uint64_t total = 1;
  bool overflow = false;
  for (std::size_t a = 0; a < found.size(); ++a) {
    const std::uint64_t n = static_cast<std::uint64_t>((found[a] + p.extents[a] - 1) / p.extents[a]);
    if (n == 0) return 0;
    overflow |= __builtin_mul_overflow(total, n, &total);
  }
  if (overflow || total > static_cast<std::uint64_t>(kMaxExtent)) throw_too_many_pieces(context(), param, found);
  return total;
}

void Launch::choose_grid() {
  const KernelRecord::Signature& s = record_.signature();
  int first = -1;
  for (std::size_t i = 0; i < s.params.size(); ++i) {
    if (!has_pieces(s.params[i])) continue;
    const std::uint64_t n = pieces(static_cast<int>(i));
    if (s.has_mut && s.params[i].kind == lang::ParamKind::MutTiles)
      continue;  // dealt over the blocks that the Mut parameters ask for
    if (first >= 0 && s.params[i].kind != lang::ParamKind::MutTiles && n != blocks_) {
      throw_unequal_pieces(context(), first, blocks_, dims(first), static_cast<int>(i), n, dims(static_cast<int>(i)));
    }
    if (first < 0 || n > blocks_) blocks_ = n;
    if (first < 0) first = static_cast<int>(i);
  }
  if (s.has_mut) {
    if (options_.blocks_given) throw_blocks_not_free(context());
    return;
  }
  if (!options_.blocks_given) {
    if (!s.has_mut_tiles) throw_blocks_missing(context());
    persistent_ = true;  // as many as the device keeps busy: the compiled code says how many (submit)
    return;
  }
  // For MutTiles an upper bound, however large; else the grid itself.
  const std::int64_t least = s.has_mut_tiles ? 1 : 0;
  const std::int64_t most = s.has_mut_tiles ? INT64_MAX : static_cast<std::int64_t>(kMaxGridAxis);
  if (options_.blocks < least || options_.blocks > most) throw_blocks_out_of_range(context(), options_.blocks, most);
  const auto asked = std::min(static_cast<std::uint64_t>(options_.blocks), kMaxGridAxis);
  blocks_ = s.has_mut_tiles ? std::min(blocks_, asked) : asked;
}

void Launch::choose_variant() {
  VariantKey key;
  const auto all = params();
  std::size_t tensor = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].is_tensor()) continue;
    key.tensors[tensor++] = tensor_bits(dims(static_cast<int>(i)), strides(static_cast<int>(i)));
  }
  key.flags = flag_bits(!persistent_ && blocks_ > kMaxGridAxis, check_mode(), options_.accuracy_given,
                        options_.accuracy, options_.tuning);
  variant_ = &record_.variant(key, where_);
}

void Launch::check_requirements() const {
  const std::span<const std::uint64_t> slots(slots_, static_cast<std::size_t>(record_.signature().slots));
  for (const lang::Requirement& r : variant_->trace.requirements) {
    if (!r.condition.holds(slots)) throw_requirement(context(), r, *this);
  }
}

// -- running -------------------------------------------------------------------------------------------------------

void Launch::enqueue(const Stream& stream) {
  resolve(stream);
  if (!checked_shapes_) check_shapes();
  check_stream_device(stream);
  if (blocks_ != 0) submit(stream);
  for (std::size_t i = 0; i < params().size(); ++i) operands_[i].lease.release();
}

void Launch::resolve(const Stream& stream) {
  const auto all = params();
  for (std::size_t i = 0; i < all.size(); ++i) {
    TensorOperand& o = operands_[i];
    if (!o.pending) continue;
    const auto pending = std::move(o.pending);
    const int param = static_cast<int>(i);
    std::int64_t new_dims[kMaxRank], new_strides[kMaxRank];
    Place place{{}, 0, new_dims, new_strides};
    o.resolve(*pending, stream, place);
    const auto d = dims(param), s = strides(param);
    if (o.known && !(std::equal(d.begin(), d.end(), new_dims) && std::equal(s.begin(), s.end(), new_strides))) {
      throw InternalError("an operation made a tensor of other extents than it had promised");
    }
    std::copy_n(new_dims, d.size(), d.begin());
    std::copy_n(new_strides, s.size(), s.begin());
    o.offset = place.offset;
    o.lease = lease(param, place.storage);
    o.storage = std::move(place.storage);
    o.known = true;
  }
}

void Launch::check_stream_device(const Stream& stream) const {
  for (std::size_t i = 0; i < params().size(); ++i) {
    if (operands_[i].storage) check_stream(stream, *operands_[i].storage, record_.signature().what.c_str(), where_);
  }
}

bool Launch::compile(const CompileRequest& request, jit::CodeReport& report) {
  const auto all = params();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].is_tensor()) continue;
    if (!operands_[i].storage) return false;
    slots_[all[i].first_arg] = address_of(all[i], operands_[i]);
  }
  if (!checked_shapes_) check_shapes();
  const std::span<const std::uint64_t> slots(slots_, static_cast<std::size_t>(record_.signature().slots));
  report = request.gpu == 0 ? variant_->kernel->report(request.device, slots)
                            : variant_->kernel->report(jit::target_for(request.gpu), slots);
  return true;
}

void Launch::submit(const Stream& stream) {
  const KernelRecord::Signature& s = record_.signature();
  runtime::SmallVector<runtime::Access, 8> accesses;
  for (std::size_t i = 0; i < s.params.size(); ++i) {
    if (!s.params[i].is_tensor()) continue;
    const TensorOperand& o = operands_[i];
    slots_[s.params[i].first_arg] = address_of(s.params[i], o);
    const auto same = [&](const runtime::Access& a) { return a.storage == o.storage; };
    if (std::any_of(accesses.begin(), accesses.end(), same)) continue;  // read through several arguments
    accesses.push_back({o.storage, writes(s.params[i]) ? runtime::AccessMode::ReadWrite : runtime::AccessMode::Read});
  }
  const std::span<const std::uint64_t> slots(slots_, static_cast<std::size_t>(s.slots));
  const jit::Code& code = variant_->kernel->code(stream.device(), slots);
  const std::uint64_t blocks = persistent_ ? std::min(blocks_, code.persistent_blocks) : blocks_;
  runtime::LaunchGrid grid;
  grid.y = static_cast<std::uint32_t>((blocks + kMaxGridAxis - 1) / kMaxGridAxis);
  grid.x = static_cast<std::uint32_t>((blocks + grid.y - 1) / grid.y);
  stream.core()->submit({code.work, grid, slots, accesses.span(), s.what.c_str(), where_});
}

}  // namespace tessera::detail
