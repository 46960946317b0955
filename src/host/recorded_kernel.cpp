// The table of a kernel's recordings: lock-free to look up (a list that only grows), one thread at a time to extend.
// Checked mode is one of the things that recordings are specialized by.
#include "host/recorded_kernel.hpp"

#include <algorithm>
#include <string_view>

#include "host/launch_errors.hpp"
#include "tessera/base/env.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/profile.hpp"
#include "tessera/base/stack.hpp"
#include "tessera/host/contract.hpp"
#include "tessera/lang/difference.hpp"

namespace tessera::detail {
namespace {

/// Names the arguments, for the errors of checked mode.
jit::CompileOptions options_of(const KernelState::Signature& signature, const RecordingKey& key) {
  jit::CompileOptions options;
  options.label = signature.name;
  if (!key.constants.empty()) options.label += "(" + lang::constants_text(signature.params, key.constants) + ")";
  options.checked = (key.flags & kChecked) != 0;
  options.tuning = key.flags >> kTuningShift;
  options.raw_writes = std::any_of(signature.params.begin(), signature.params.end(),
                                   [](const auto& p) { return p.kind == lang::ParamKind::UnsafePtr; });
  for (std::size_t i = 0; options.checked && i < signature.params.size(); ++i) {
    const lang::ParamInfo& p = signature.params[i];
    if (p.is_tensor()) options.tensors.push_back({p.first_arg, concat("argument ", i + 1, " (", p.spelling, ")")});
  }
  return options;
}

/// Extents, strides and Constants decide the recording and the grid. A scalar counts only where a condition reads it.
void set_masks(RecordedKernel& v, std::span<const lang::ParamInfo> params) {
  for (const lang::ParamInfo& p : params) {
    if (p.is_constant()) continue;
    const auto first = static_cast<std::size_t>(p.first_arg);
    const std::uint64_t code = v.kernel->slot_mask(first);
    bool required = false;
    for (const lang::Requirement& r : v.trace.requirements) required |= r.condition.reads(first);
    v.shape_masks.push_back(p.is_tensor() ? 0 : required ? ~std::uint64_t{0} : code);
    v.address_masks.push_back(p.is_tensor() ? code : 0);
    v.shape_masks.resize(first + static_cast<std::size_t>(p.num_args()), ~std::uint64_t{0});
    v.address_masks.resize(v.shape_masks.size(), 0);
  }
  const std::size_t more = v.constants.size() + (lang::counts_blocks(params) ? 1 : 0);
  v.shape_masks.resize(v.shape_masks.size() + more, ~std::uint64_t{0});
  v.address_masks.resize(v.shape_masks.size(), 0);
}

KernelState::Param brief_of(const lang::ParamInfo& p, int arguments) {
  KernelState::Param b;
  b.is_tensor = p.is_tensor();
  b.writes = p.kind != lang::ParamKind::In;
  b.is_mut_tiles = p.kind == lang::ParamKind::MutTiles;
  b.has_pieces = lang::has_pieces(p.kind);
  b.rank = static_cast<std::uint8_t>(p.rank);
  b.element_bytes = static_cast<std::uint8_t>(size_of(p.element));
  b.slot = static_cast<std::uint16_t>(p.is_constant() ? arguments + p.first_arg : p.first_arg);
  b.extents = p.extents.data();
  b.spelling = p.spelling.c_str();
  return b;
}

std::atomic<std::uint32_t> kernels{0};
std::atomic<int> mode{-1};  // a CheckMode; -1: read the environment variable

}  // namespace

CheckMode current_check_mode() {
  const int known = mode.load(std::memory_order_relaxed);
  if (known >= 0) return static_cast<CheckMode>(known);
  const char* word = env(Env::CHECK);
  const bool strict = word != nullptr && std::string_view(word) == "strict";
  const CheckMode found = strict ? CheckMode::Strict : env_flag(Env::CHECK, false) ? CheckMode::On : CheckMode::Off;
  int unknown = -1;  // a mode that the program sets meanwhile stays
  const bool first = mode.compare_exchange_strong(unknown, static_cast<int>(found), std::memory_order_relaxed);
  return first ? found : static_cast<CheckMode>(unknown);
}

bool RecordingKey::operator==(const RecordingKey& other) const noexcept {
  return flags == other.flags && std::equal(std::begin(tensors), std::end(tensors), other.tensors) &&
         std::equal(constants.begin(), constants.end(), other.constants.begin(), other.constants.end());
}

lang::Specialization specialization(const RecordingKey& key, std::span<const lang::ParamInfo> params) {
  lang::Specialization s;
  std::size_t tensor = 0;
  for (const lang::ParamInfo& p : params) {
    if (!p.is_tensor()) continue;
    const std::uint32_t bits = key.tensors[tensor++];
    lang::TensorFacts facts;
    facts.unit_axis = static_cast<int>(bits & ((1u << kAxisBits) - 1)) - 1;
    facts.unit_dims = bits >> kAxisBits;
    facts.long_dims = ~facts.unit_dims & ((1u << p.rank) - 1);
    s.tensors.push_back(facts);
  }
  s.constants.assign(key.constants.begin(), key.constants.end());
  s.wide_grid = (key.flags & kWide) != 0;
  s.checked = (key.flags & kChecked) != 0;
  s.strict = (key.flags & kStrict) != 0;
  s.accuracy_given = (key.flags & kAccuracyGiven) != 0;
  s.accuracy = (key.flags & kApproximate) != 0 ? lang::Accuracy::Approximate : lang::Accuracy::Precise;
  return s;
}

KernelState::KernelState(const lang::KernelBody& body) : body_(body) {
  Signature& s = signature_;
  s.name = lang::kernel_label(body.text);
  s.what = "kernel " + s.name;
  s.params = lang::param_infos(body);
  s.slots = s.arguments = lang::lay_out(s.params);
  s.counts_blocks = lang::counts_blocks(s.params);
  for (const lang::ParamInfo& p : s.params) {
    s.has_mut |= lang::has_own_piece(p.kind);
    s.has_mut_tiles |= p.kind == lang::ParamKind::MutTiles;
    s.slots += p.is_constant();
    s.brief.push_back(brief_of(p, s.arguments));
    if (p.is_tensor()) s.address_slots.push_back(s.brief.back().slot);
  }
  s.id = kernels.fetch_add(1, std::memory_order_relaxed);
}

KernelState& KernelState::of(KernelRecord& record) {
  static std::mutex one_at_a_time;
  const std::atomic_ref<KernelState*> state(record.state_);
  if (KernelState* s = state.load(std::memory_order_acquire)) [[likely]]
    return *s;
  const std::lock_guard lock(one_at_a_time);
  if (KernelState* s = state.load(std::memory_order_acquire)) return *s;
  auto made = std::make_unique<KernelState>(*record.body_);
  state.store(made.get(), std::memory_order_release);
  return *made.release();
}

RecordedKernel& KernelState::recording(const RecordingKey& key, SourceLocation where) {
  const auto find = [&]() -> RecordedKernel* {
    RecordedKernel* v = recordings_.load(std::memory_order_acquire);
    while (v && !(v->key == key)) v = v->next;
    return v;
  };
  if (RecordedKernel* v = find()) [[likely]] {
    if (v->checked) check_recorded_alike(*v, where);
    return *v;
  }
  const Signature& s = signature();
  const std::lock_guard lock(mutex_);
  if (RecordedKernel* v = find()) return *v;  // another thread has recorded it in the meantime
  const ProfileRange range(ProfileTopic::Record, s.what.c_str(), where);
  auto v = std::make_unique<RecordedKernel>();
  v->constants.assign(key.constants.begin(), key.constants.end());
  v->key = key;
  v->key.constants = v->constants;
  v->checked = (key.flags & kChecked) != 0;
  const auto record = [&] {
    v->trace = lang::trace(body_, specialization(key, s.params), where);
    const auto contract = launch_contract(s.params, (key.flags & kWide) != 0, v->trace.same_extents);
    v->kernel = std::make_unique<jit::Kernel>(std::move(v->trace.module), contract, options_of(s, key));
  };
  with_stack(record, kStackOfRegions);
  set_masks(*v, s.params);
  v->next = recordings_.load(std::memory_order_relaxed);
  recordings_.store(v.get(), std::memory_order_release);
  return *v.release();
}

/// Checked mode records the kernel again: its body is ordinary C++ and may have read host state that has changed.
void KernelState::check_recorded_alike(const RecordedKernel& first, SourceLocation where) {
  const Signature& s = signature();
  const std::lock_guard lock(mutex_);
  const auto record = [&] { return lang::trace(body_, specialization(first.key, s.params), where); };
  const lang::Trace again = with_stack(record, kStackOfRegions);
  const auto difference = lang::first_difference(first.kernel->module(), first.trace, again);
  if (difference) throw_recorded_differently(s, *difference, where);
}

}  // namespace tessera::detail

namespace tessera {

bool check_mode() { return detail::current_check_mode() != CheckMode::Off; }
bool strict_check_mode() { return detail::current_check_mode() == CheckMode::Strict; }
void set_check_mode(CheckMode mode) noexcept { detail::mode.store(static_cast<int>(mode), std::memory_order_relaxed); }
void set_check_mode(bool on) noexcept { set_check_mode(on ? CheckMode::On : CheckMode::Off); }

}  // namespace tessera
