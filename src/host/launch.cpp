// Launches: leases, aliasing, shapes, the grid, the specialization, submission. Strings are built only for errors, and
// the results of an equal launch that the thread remembers are reused.
#include "host/launch.hpp"

#include <algorithm>
#include <typeinfo>

#include "host/launch_errors.hpp"
#include "host/launch_grid.hpp"
#include "host/launch_memo.hpp"
#include "host/recorded_kernel.hpp"
#include "tessera/base/error.hpp"
#include "tessera/host/kernel.hpp"
#include "tessera/jit/build.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace tessera::detail {

// -- building ------------------------------------------------------------------------------------------------------

std::size_t Launch::tensor_number(int param) const noexcept {
  const auto before = brief().first(static_cast<std::size_t>(param));
  return static_cast<std::size_t>(std::ranges::count(before, true, &Param::is_tensor));
}

bool Launch::promise(int param, std::span<std::int64_t> into, std::span<std::int64_t> strides_into) const noexcept {
  const Param& p = brief()[static_cast<std::size_t>(param)];
  std::ranges::copy(dims(p), into.begin());
  std::ranges::copy(strides(p), strides_into.begin());
  return room_.operands[tensor_number(param)].known;
}

void Launch::hand_back(int param, Place& place) noexcept {
  const Param& p = brief()[static_cast<std::size_t>(param)];
  const std::size_t tensor = tensor_number(param);
  place.storage = std::move(room_.accesses[tensor].storage);
  place.offset = room_.operands[tensor].offset;
  std::ranges::copy(dims(p), place.dims);
  std::ranges::copy(strides(p), place.strides);
}

void Launch::bind(Arguments args) {
  check_present(args);
  check_aliases(args);
  take_leases(args);
  if (fill_slots(args)) check_shapes();
  accept(args);
}

void Launch::check_present(Arguments args) const {
  const auto all = brief();
  for (std::size_t i = 0; i < args.size(); ++i) {
    const ArgRef& a = *args[i];
    if (!all[i].is_tensor) {
      if (!a.fits) throw_number_too_large(context(), static_cast<int>(i));
    } else if (a.op) {
      if (!a.access->peek(a.op)) throw_spent_argument(context(), static_cast<int>(i));
    } else if (!*a.layout.storage) {
      throw_empty_argument(context(), static_cast<int>(i));
    } else if (stale_lend(a)) {
      throw_stale_argument(context(), static_cast<int>(i));
    }
  }
}

void Launch::check_aliases(Arguments args) const {
  const auto all = brief();
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!all[i].is_tensor || !all[i].writes) continue;
    const ArgRef& a = *args[i];
    for (std::size_t j = 0; j < args.size(); ++j) {
      if (j == i || !all[j].is_tensor) continue;
      const ArgRef& b = *args[j];
      const bool same = a.op ? a.op == b.op : !b.op && *a.layout.storage == *b.layout.storage;
      if (same) throw_alias(context(), static_cast<int>(i), static_cast<int>(j), all[j].writes);
    }
  }
}

void Launch::take_lease(std::size_t param, LaunchOperand& operand, runtime::Storage& storage) {
  const Param& p = brief()[param];
  operand.lease.take(storage, p.writes,
                     {signature_.what.c_str(), static_cast<int>(param) + 1, p.spelling, where_, this});
}

void Launch::take_leases(Arguments args) {
  const auto all = brief();
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!all[i].is_tensor) continue;
    LaunchOperand& operand = room_.operands[tensors_++];
    if (!args[i]->op) take_lease(i, operand, **args[i]->layout.storage);
  }
}

/// True if all extents are known.
bool Launch::fill_slots(Arguments args) {
  const auto all = brief();
  LaunchOperand* operand = room_.operands;
  bool known = true;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const ArgRef& a = *args[i];
    const Param& p = all[i];
    if (!p.is_tensor) {
      room_.slots[p.slot] = a.number;
      if (a.scalar != 0) scalars_.push_back({p.slot, a.scalar});
      continue;
    }
    room_.slots[p.slot] = 0;
    if (a.op) {
      pending_ = true;
      const OpBase& op = *a.access->peek(a.op);
      operand->known = op.promise(dims(p), strides(p));
    } else {
      operand->offset = a.layout.offset;
      std::int64_t* const to = numbers(p);
      for (std::size_t k = 0; k < p.rank; ++k) {
        to[k] = a.layout.dims[k];
        to[p.rank + k] = a.layout.strides[k];
      }
      operand->known = true;
    }
    known = known && operand->known;
    ++operand;
  }
  return known;
}

/// Takes over the tensors that the caller gives: from here on the launch holds the storages.
void Launch::accept(Arguments args) noexcept {
  const auto all = brief();
  LaunchOperand* operand = room_.operands;
  runtime::Access* access = room_.accesses;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const ArgRef& a = *args[i];
    if (!all[i].is_tensor) continue;
    access->mode = all[i].writes ? runtime::AccessMode::ReadWrite : runtime::AccessMode::Read;
    access->lease = &operand->lease;
    if (a.op) {
      operand->access = a.access;
      operand->pending = a.access->take(a.op);
    } else if (a.owner) {
      access->storage = std::move(*a.owner);
    } else {
      access->storage = *a.layout.storage;
    }
    ++operand;
    ++access;
  }
}

// -- shapes ------------------------------------------------------------------------------------------------------

runtime::Backend* Launch::device() const noexcept {
  if (options_.device) return options_.device;
  for (std::size_t i = 0; i < tensors_; ++i) {
    const LaunchOperand& o = room_.operands[i];
    if (const runtime::Storage* storage = o.lease.storage()) return &storage->device().backend();
    if (!o.pending) continue;
    if (runtime::Backend* device = device_of(*o.pending)) return device;
  }
  return nullptr;
}

void Launch::check_shapes() {
  checked_shapes_ = true;
  if (signature_.counts_blocks)
    room_.slots[signature_.arguments - 1] = static_cast<std::uint64_t>(options_.blocks);  // checked by choose_grid
  if (recall()) return check_devices();
  check_extents();
  check_devices();
  choose_grid();
  choose_recording();
  check_requirements();
  remember();
}

/// In checked mode nothing is remembered: each launch is recorded anew.
bool Launch::recall() {
  if (mode_ != CheckMode::Off) return false;
  RememberedLaunch* const r = recall_launch(record_, signature_.id, options_, slots());
  if (r == nullptr) return false;
  recording_ = r->recording;
  blocks_ = r->blocks;
  persistent_ = r->persistent;
  remembered_ = r;
  thread_ = this_thread();
  stamp_ = r->stamp;
  return true;
}

void Launch::remember() {
  if (mode_ != CheckMode::Off || slots().size() > RememberedLaunch::kMaxSlots) return;
  RememberedLaunch* const r = remember_launch(record_, signature_.id);
  if (r == nullptr) return;
  r->options = options_;
  std::copy(slots().begin(), slots().end(), r->slots.begin());
  r->recording = recording_;
  r->blocks = blocks_;
  r->persistent = persistent_;
  remembered_ = r;
  thread_ = this_thread();
  stamp_ = r->stamp;
}

void Launch::check_extents() const {
  const auto all = brief();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Param& p = all[i];
    if (!p.is_tensor) continue;
    const auto found = dims(p);
    for (std::size_t axis = 0; axis < p.rank; ++axis) {
      const int param = static_cast<int>(i), a = static_cast<int>(axis);
      if (found[axis] > kMaxExtent) throw_axis_too_long(context(), param, a, found);
      const bool fixed = !p.has_pieces && p.extents[axis] != lang::kDyn;
      if (fixed && found[axis] != p.extents[axis]) throw_wrong_extent(context(), param, a, found);
    }
  }
}

void Launch::check_devices() const {
  const runtime::Backend* const expected = device();
  std::size_t param = 0;
  for (std::size_t i = 0; i < tensors_; ++i, ++param) {
    const runtime::Storage* const storage = room_.operands[i].lease.storage();
    if (storage == nullptr || &storage->device().backend() == expected) [[likely]] { continue; }
    std::size_t left = i;  // the tensor's number among all parameters
    for (param = 0; !brief()[param].is_tensor || left-- != 0;) ++param;
    throw_wrong_device(context(), static_cast<int>(param), expected->name(), storage->device().name());
  }
}

std::uint64_t Launch::pieces(int param) const {
  const Param& p = brief()[static_cast<std::size_t>(param)];
  const auto found = dims(p);
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
  const KernelState::Signature& s = signature_;
  int first = -1;
  for (std::size_t i = 0; i < s.brief.size(); ++i) {
    if (!s.brief[i].has_pieces) continue;
    const int param = static_cast<int>(i);
    const std::uint64_t n = pieces(param);
    if (s.has_mut && s.brief[i].is_mut_tiles) continue;  // scheduled over the blocks that the Mut parameters determine
    if (first >= 0 && !s.brief[i].is_mut_tiles && n != blocks_) {
      throw_unequal_pieces(context(), first, blocks_, dims(first), param, n, dims(param));
    }
    if (first < 0 || n > blocks_) blocks_ = n;
    if (first < 0) first = param;
  }
  if (s.has_mut) {
    if (options_.blocks_given) throw_blocks_not_free(context());
    return;
  }
  if (!options_.blocks_given) {
    if (!s.has_mut_tiles) throw_blocks_missing(context());
    persistent_ = true;  // as many blocks as fill the device once, which the compiled code determines (submit)
    return;
  }
  // For MutTiles an upper bound, however large; else the grid itself.
  const std::int64_t least = s.has_mut_tiles ? 1 : 0;
  const std::int64_t most = s.has_mut_tiles ? INT64_MAX : static_cast<std::int64_t>(kMaxGridAxis);
  if (options_.blocks < least || options_.blocks > most) throw_blocks_out_of_range(context(), options_.blocks, most);
  const auto asked = std::min(static_cast<std::uint64_t>(options_.blocks), kMaxGridAxis);
  blocks_ = s.has_mut_tiles ? std::min(blocks_, asked) : asked;
}

void Launch::choose_recording() {
  check_not_recording(signature_.what.c_str(), where_);
  RecordingKey key;
  key.constants = slots().subspan(static_cast<std::size_t>(signature_.arguments));
  std::size_t tensor = 0;
  for (const Param& p : brief()) {
    if (p.is_tensor) key.tensors[tensor++] = tensor_bits(dims(p), strides(p));
  }
  key.flags = flag_bits(!persistent_ && blocks_ > kMaxGridAxis, mode_, options_.accuracy_given, options_.accuracy,
                        options_.tuning);
  recording_ = &record_.recording(key, where_);
}

void Launch::check_requirements() const {
  for (const lang::Requirement& r : recording_->trace.requirements) {
    if (!r.condition.holds(arguments())) throw_requirement(context(), r, arguments());
  }
  for (const lang::SameExtent& s : recording_->trace.same_extents) {
    if (!s.holds(slots())) throw_regions_differ(context(), s, *this);
  }
}

// -- running -------------------------------------------------------------------------------------------------------

void Launch::enqueue(const Stream& stream) {
  if (pending_) resolve(stream);
  if (!checked_shapes_) check_shapes();
  check_stream_device(stream);
  if (blocks_ != 0) submit(stream);
  for (std::size_t i = 0; i < tensors_; ++i) room_.operands[i].lease.release();
}

void Launch::resolve(const Stream& stream) {
  const auto all = brief();
  std::size_t tensor = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Param& p = all[i];
    if (!p.is_tensor) continue;
    runtime::Access& access = room_.accesses[tensor];
    LaunchOperand& o = room_.operands[tensor++];
    if (!o.pending) continue;
    const auto pending = std::move(o.pending);
    std::int64_t new_dims[kMaxRank], new_strides[kMaxRank];
    Place place{{}, 0, new_dims, new_strides};
    o.access->resolve(*pending, stream, place);
    const auto d = dims(p), s = strides(p);
    if (o.known && !(std::equal(d.begin(), d.end(), new_dims) && std::equal(s.begin(), s.end(), new_strides))) {
      throw InternalError("an operation made a tensor with other extents than it had reported");
    }
    std::copy_n(new_dims, d.size(), d.begin());
    std::copy_n(new_strides, s.size(), s.begin());
    o.offset = place.offset;
    access.storage = std::move(place.storage);
    take_lease(i, o, *access.storage);
    o.known = true;
  }
}

void Launch::check_stream_device(const Stream& stream) const {
  for (std::size_t i = 0; i < tensors_; ++i) {
    const runtime::Storage& storage = *room_.accesses[i].storage;
    if (storage.device() == stream.device()) [[likely]] { continue; }
    check_stream(stream, storage, signature_.what.c_str(), where_);  // throws
  }
}

bool Launch::compile(const CompileRequest& request, jit::CodeReport& report) {
  for (std::size_t i = 0; i < tensors_; ++i) {
    if (!room_.accesses[i].storage) return false;
  }
  fill_addresses();
  if (!checked_shapes_) check_shapes();
  report = request.gpu == 0 ? recording_->kernel->report(request.device, arguments())
                            : recording_->kernel->report(jit::target_for(request.gpu), arguments());
  return true;
}

/// Compile errors about the kernel keep the kernel's line; errors about the call (a stale record, no assembler) get the
/// call's.
const jit::Code& Launch::compiled_on(Device device) {
  try {
    return recording_->kernel->code(device, arguments());
  } catch (const CompileError& error) {
    if (error.where().known() || typeid(error) != typeid(CompileError)) throw;
    throw CompileError(error.message(), where_);
  }
}

/// The code for the arguments; their addresses are known now.
const jit::Code& Launch::code_on(Device device) {
  RememberedLaunch* const r =
      remembered_ && thread_ == this_thread() && remembered_->stamp == stamp_ ? remembered_ : nullptr;
  if (r != nullptr && r->device == &device.backend()) {
    const std::uint64_t* const masks = recording_->address_masks.data();
    std::uint64_t differs = 0;
    for (const Param& p : brief()) differs |= (room_.slots[p.slot] ^ r->slots[p.slot]) & masks[p.slot];
    if (differs == 0) return *r->code;
  }
  const jit::Code& code = compiled_on(device);
  if (r == nullptr) return code;
  for (const Param& p : brief()) {
    if (p.is_tensor) r->slots[p.slot] = room_.slots[p.slot];
  }
  r->device = &device.backend();
  r->code = &code;
  return code;
}

void Launch::fill_addresses() noexcept {
  std::size_t tensor = 0;
  for (const Param& p : brief()) {
    if (!p.is_tensor) continue;
    const std::byte* const base = room_.accesses[tensor].storage->data();
    room_.slots[p.slot] = reinterpret_cast<std::uintptr_t>(base + room_.operands[tensor].offset * p.element_bytes);
    ++tensor;
  }
}

/// A kernel that was not compiled for checked mode does not record what it writes.
void Launch::count_as_written(std::span<const runtime::Access> accesses) noexcept {
  for (const runtime::Access& a : accesses) {
    if (a.mode != runtime::AccessMode::Read) a.storage->count_as_written();
  }
}

/// Code lives as long as the process (recordings are never dropped), so its users need not be counted.
static std::shared_ptr<const runtime::Launchable> work_of(const jit::Code& code) {
  return {std::shared_ptr<void>(), code.work.get()};
}

namespace {

/// What a launch with other numbers depends on: the requirements, and which code fits.
class LaunchUpdate final : public runtime::CallUpdate {
 public:
  LaunchUpdate(const LaunchContextText& context, const RecordedKernel& recording, Device device, std::uint64_t blocks,
               bool persistent)
      : context_(context), recording_(recording), device_(device), blocks_(blocks), persistent_(persistent) {}
  void update(runtime::RecordedCall& call) const override {
    for (const lang::Requirement& r : recording_.trace.requirements) {
      if (!r.condition.holds(call.args)) throw_requirement(context_, r, call.args);
    }
    const jit::Code& code = recording_.kernel->code(device_, call.args);
    call.work = work_of(code);
    call.grid = launch_grid(code, blocks_, persistent_, call.args);
  }

 private:
  LaunchContextText context_;
  const RecordedKernel& recording_;
  Device device_;
  std::uint64_t blocks_;
  bool persistent_;
};

}  // namespace

void Launch::submit(const Stream& stream) {
  fill_addresses();
  const jit::Code& code = code_on(stream.device());
  const std::span<const runtime::Access> accesses(room_.accesses, tensors_);
  if (!recording_->checked) count_as_written(accesses);
  runtime::Submission submission{work_of(code),
                                 launch_grid(code, blocks_, persistent_, arguments()),
                                 arguments(),
                                 accesses,
                                 signature_.what.c_str(),
                                 where_};
  submission.movable = true;
  submission.addresses = signature_.address_slots;
  if (!scalars_.empty() && stream.core()->capturing()) {
    submission.scalars = scalars_.span();
    submission.update = std::make_shared<LaunchUpdate>(context(), *recording_, stream.device(), blocks_, persistent_);
  }
  runtime::StreamCore::submit(stream.core(), submission);
}

}  // namespace tessera::detail
