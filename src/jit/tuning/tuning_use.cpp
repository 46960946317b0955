// Records in use: a list of those that calls have named, and one of those that the process takes from files. Both only
// grow, so that what they hold can be referred to without a lock.
#include "tessera/jit/tuning.hpp"

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "jit/code/sha256.hpp"
#include "jit/tuning/tuning_choice.hpp"
#include "tessera/base/env.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/folders.hpp"
#include "tessera/base/format.hpp"
#include "tessera/ir/bytecode.hpp"
#include "tessera/jit/cubin.hpp"
#include "tessera/machine/machine.hpp"
#include "tessera/passes/tuning_text.hpp"
#include "tessera/runtime/cuda.hpp"

namespace tessera::jit {
namespace {

struct Interned {
  TuningRecord record;
  passes::Tuning tuning;
  TuningId id;
  const Interned* next;
};
std::atomic<const Interned*> interned{nullptr};  // the newest first

const Interned* find(const TuningRecord& record) noexcept {
  const Interned* i = interned.load(std::memory_order_acquire);
  while (i && !(i->record == record)) i = i->next;
  return i;
}
const Interned& find(TuningId id) {
  const Interned* i = interned.load(std::memory_order_acquire);
  while (i && i->id != id) i = i->next;
  if (!i) throw InternalError(concat("there is no tuning record of number ", id));
  return *i;
}

struct Loaded {
  TuningRecord record;
  passes::Tuning tuning;
};
/// Of one value of TESSERA_RECORDS, or of all calls of use_records().
struct Files {
  std::mutex mutex;
  std::map<std::string, std::deque<Loaded>> by_value;  // of the knob
  std::deque<Loaded> named;                            // by use_records()
  std::map<std::string, std::deque<Loaded>> learnt;    // by the file, which is read once
};
Files& files() {
  static auto* const all = new Files;
  return *all;
}

void load(const std::string& path, std::deque<Loaded>& into) {
  for (TuningRecord& r : read_records(path, {})) {
    passes::Tuning tuning = passes::parse_tuning(r.hints);
    into.push_back({std::move(r), tuning});
  }
}

/// The knob's files, read once per value. The caller holds the lock.
const std::deque<Loaded>* of_environment(Files& all) {
  const char* value = env(Env::RECORDS);
  if (!value) return nullptr;
  if (const auto found = all.by_value.find(value); found != all.by_value.end()) return &found->second;
  std::deque<Loaded> loaded;
  const std::string paths = value;
  for (std::size_t at = 0; at <= paths.size();) {
    const std::size_t end = std::min(paths.find(':', at), paths.size());
    if (end > at) load(paths.substr(at, end - at), loaded);
    at = end + 1;
  }
  return &(all.by_value[value] = std::move(loaded));
}

/// What kernels learnt in earlier processes. A file that cannot be read counts as none, because the program has
/// not named it. Needs the lock.
const std::deque<Loaded>* of_learning(Files& all) {
  if (!env_flag(Env::LEARN, true)) return nullptr;
  const std::string path = learnt_records();
  if (path.empty()) return nullptr;
  const auto [found, fresh] = all.learnt.try_emplace(path);
  try {
    if (fresh && path_exists(path)) load(path, found->second);
  } catch (const Error&) { found->second.clear(); }
  return &found->second;
}

bool fits(const TuningRecord& r, const TuningSubject& s) {
  return r.hash == s.hash && r.predicates == s.predicates && r.gpu == s.gpu && r.assembler == s.assembler &&
         (s.device.empty() || r.device == s.device);
}

const passes::Tuning* from_files(const std::string& label, const ir::Module& recording, std::uint64_t predicates,
                                 const Device* device, const passes::Target& target) {
  Files& all = files();
  const std::lock_guard lock(all.mutex);
  const std::deque<Loaded>* named_by_knob = of_environment(all);
  const std::deque<Loaded>* learnt = of_learning(all);
  if (!named_by_knob && all.named.empty() && (!learnt || learnt->empty())) return nullptr;
  const TuningSubject subject = tuning_subject(label, recording, predicates, device, target);
  const passes::Tuning* found = nullptr;
  // The last one that fits is used: those that the user names come after what was learnt.
  for (const std::deque<Loaded>* some : {learnt, named_by_knob, const_cast<const std::deque<Loaded>*>(&all.named)}) {
    if (!some) continue;
    for (const Loaded& l : *some) {
      if (fits(l.record, subject)) found = &l.tuning;
    }
  }
  return found;
}

[[noreturn]] void stale(const TuningSubject& subject, const char* field, const std::string& recorded,
                        const std::string& found, const char* why) {
  throw CompileError(concat("kernel ", subject.label, ": its tuning record is stale: ", field, " was ", recorded,
                            ", found ", found, why,
                            ".\n  Tune again on this machine (tune(), or `tessera tune`), or call the kernel without "
                            ".tuned()."));
}
std::string or_none(const std::string& text) { return text.empty() ? "none" : text; }
std::string start_of(const std::string& hash) { return hash.substr(0, 12); }

/// On the CPU a GPU's record means nothing, so that programs which name one run there; but it must be of this kernel.
void check_fresh(const TuningRecord& r, const TuningSubject& s) {
  if (r.hash != s.hash) {
    stale(s, "the kernel's hash", start_of(r.hash), start_of(s.hash),
          " (the kernel was changed, or its arguments are of another class: layout, extents of 1)");
  }
  if (s.gpu.empty() && !r.gpu.empty()) return;
  if (r.gpu != s.gpu) stale(s, "the architecture", or_none(r.gpu), or_none(s.gpu), "");
  if (!s.device.empty() && r.device != s.device) stale(s, "the device", r.device, s.device, "");
  if (r.assembler != s.assembler) stale(s, "the assembler", or_none(r.assembler), or_none(s.assembler), "");
}

}  // namespace

namespace {
passes::Tuning parse_hints(const TuningRecord& record, SourceLocation where) {
  try {
    return passes::parse_tuning(record.hints);
  } catch (const CompileError& error) { throw CompileError(error.message(), where); }
}
}  // namespace

TuningId intern_tuning(const TuningRecord& record, SourceLocation where) {
  if (const Interned* known = find(record)) return known->id;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (const Interned* known = find(record)) return known->id;
  const passes::Tuning tuning = parse_hints(record, where);
  const Interned* newest = interned.load(std::memory_order_relaxed);
  const TuningId id = newest ? newest->id + 1 : 1;
  if (id > kMaxTunings) throw CompileError(concat("more than ", kMaxTunings, " tuning records in one process"), where);
  auto made = std::make_unique<Interned>(Interned{record, tuning, id, newest});
  interned.store(made.release(), std::memory_order_release);  // lives as long as the process
  return id;
}

namespace {

struct InternedHints {
  Hints hints;
  TuningId id;
  const InternedHints* next;
};
/// Lives as long as the process; only grows.
std::atomic<const InternedHints*> all_hints{nullptr};

passes::Tuning tuning_of(const Hints& h) {
  passes::Tuning t;
  const auto set = [](std::optional<int>& to, int from) {
    if (from != 0) to = from;
  };
  set(t.warps, h.warps);
  set(t.ctas, h.ctas);
  set(t.occupancy, h.occupancy);
  set(t.latency, h.latency);
  set(t.pieces, h.pieces);
  set(t.early_tiles, h.early_tiles);
  return t;
}

}  // namespace

TuningId intern_hints(const Hints& hints, SourceLocation where) {
  if (hints == Hints{}) return 0;
  for (const InternedHints* i = all_hints.load(std::memory_order_acquire); i != nullptr; i = i->next)
    if (i->hints == hints) return i->id;
  TuningRecord record;
  try {
    const passes::Tuning tuning = tuning_of(hints);
    passes::check_numbers(tuning);
    record.hints = passes::text_of(tuning);
  } catch (const CompileError& error) { throw CompileError(error.message(), where); }
  auto made = std::make_unique<InternedHints>(
      InternedHints{hints, intern_tuning(record, where), all_hints.load(std::memory_order_acquire)});
  // Two threads may add equal hints: intern_tuning gives both one number.
  while (!all_hints.compare_exchange_weak(made->next, made.get(), std::memory_order_acq_rel)) {}
  return made.release()->id;
}

thread_local constinit TuningId scoped_tuning = 0;

const TuningRecord& interned_tuning(TuningId id) { return find(id).record; }

std::string learnt_records() {
  const std::string folder = env_flag(Env::CACHE, true) ? tileiras::cache_folder() : std::string();
  return folder.empty() ? folder : folder + "/learnt.tune";
}

std::string hash_of(const ir::Module& module) { return hex(sha256(ir::write_bytecode(module, {{}, false}))); }

std::string predicates_text(std::uint64_t predicates) {
  std::string text;
  do {
    text.insert(text.begin(), "0123456789abcdef"[predicates & 15]);
    predicates >>= 4;
  } while (predicates != 0);
  return text;
}

std::string device_description(Device device) {
  return device.kind() == DeviceKind::Cuda ? runtime::cuda::device_info(device).name : device.name();
}

std::string assembler_release(const std::string& gpu) {
  const auto assembler = assembler_for(gpu);
  return assembler ? concat(assembler->major, ".", assembler->minor) : std::string();
}

TuningSubject tuning_subject(const std::string& label, const ir::Module& recording, std::uint64_t predicates,
                             const Device* device, const passes::Target& target) {
  TuningSubject s;
  s.label = label;
  s.hash = hash_of(recording);
  s.predicates = predicates_text(predicates);
  if (device) s.device = device_description(*device);
  if (target.is_gpu()) {
    s.gpu = machine::gpu_name(target.sm);
    s.assembler = assembler_release(s.gpu);
  }
  return s;
}

const passes::Tuning* tuning_for(TuningId given, const std::string& label, const ir::Module& recording,
                                 std::uint64_t predicates, const Device* device, const passes::Target& target) {
  if (given == 0) return target.is_gpu() ? from_files(label, recording, predicates, device, target) : nullptr;
  const Interned& used = find(given);
  // Compiled ahead for another GPU (`tessera build`): the record is not for it.
  if (!device && !used.record.gpu.empty() && used.record.gpu != machine::gpu_name(target.sm)) return nullptr;
  if (!used.record.hash.empty()) check_fresh(used.record, tuning_subject(label, recording, predicates, device, target));
  return &used.tuning;
}

}  // namespace tessera::jit

namespace tessera {

TuningScope::TuningScope(std::string_view hints, SourceLocation where) : before_(jit::scoped_tuning) {
  TuningRecord record;
  record.hints = hints;
  jit::scoped_tuning = hints.empty() ? 0 : jit::intern_tuning(record, where);
}

void use_records(const std::string& path) {
  std::deque<jit::Loaded> loaded;
  jit::load(path, loaded);
  jit::Files& all = jit::files();
  const std::lock_guard lock(all.mutex);
  for (jit::Loaded& l : loaded) all.named.push_back(std::move(l));
}

}  // namespace tessera
