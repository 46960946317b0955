// Assembles one kernel, after looking it up in the disk cache.
#include "tessera/jit/cubin.hpp"

#include <mutex>
#include <unordered_map>

#include "jit/sha256.hpp"
#include "jit/single_flight.hpp"
#include "tessera/base/bytes.hpp"
#include "tessera/base/env.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/profile.hpp"
#include "tessera/ir/bytecode.hpp"
#include "tessera/jit/forms.hpp"

namespace tessera::jit {
namespace {

constexpr int kDefaultSeconds = 300;

/// Everything that a cubin depends on. The bytecode is that of the newest version, whatever the assembler is given, and
/// has the locations: profilers show the user's lines.
CacheKey key_of(std::span<const std::byte> bytecode, const std::string& gpu, const tileiras::Assembler& assembler,
                int opt_level) {
  Sha256 hash;
  hash.add_field("tessera cubin 1").add_field(gpu).add_number(static_cast<std::uint64_t>(opt_level));
  hash.add_number(static_cast<std::uint64_t>(assembler.major)).add_number(static_cast<std::uint64_t>(assembler.minor));
  hash.add_field(assembler.identity).add_field(bytecode);
  return hash.finish();
}

std::string joined_lines(const std::vector<std::string>& lines) { return join(lines, "\n"); }

CachedCubin assemble(std::span<const std::byte> bytecode, const std::string& gpu, const std::string& label,
                     const tileiras::Assembler& assembler, const Effort& effort) {
  const ProfileRange range(ProfileTopic::Compile, concat("kernel ", label, " with the assembler").c_str(), {});
  tileiras::AssembleOptions options;
  options.gpu = gpu;
  options.opt_level = effort.opt_level;
  options.processor_limit_s = effort.processor_seconds;
  options.assembler = assembler.path;
  options.time_limit_s = static_cast<double>(env_int(Env::TILEIRAS_SECONDS, kDefaultSeconds, 1));
  try {
    tileiras::AssembleResult made = tileiras::assemble(bytecode, options);
    CachedCubin code;
    code.cubin = std::move(made.cubin);
    code.label = label;
    code.gpu = gpu;
    code.assembler = concat(assembler.major, ".", assembler.minor, " (", assembler.origin, ")");
    code.warnings = joined_lines(made.warnings);
    code.register_pressure = made.register_pressure;
    code.seconds = made.seconds;
    return code;
  } catch (const tileiras::Rejection& error) {
    throw tileiras::Rejection(concat("kernel ", label, ": ", error.message()), error.where());
  } catch (const tileiras::TooSlow& error) {
    throw tileiras::TooSlow(concat("kernel ", label, ": ", error.message()), error.by_processor());
  } catch (const CompileError& error) {
    throw CompileError(concat("kernel ", label, ": ", error.message()), error.where());
  }
}

/// Notes in the disk cache: the assembler needs more than so many microseconds for what `cubin` names.
class SlowNote {
 public:
  explicit SlowNote(const CacheKey& cubin) : key_(Sha256().add_field("slow").add(cubin).finish()) {}
  void keep(const DiskCache& cache, double seconds) const {
    BytesOut out;
    out.number(microseconds(seconds));
    cache.store_note(key_, out.take());
  }
  /// Throws TooSlow if it is known that `seconds` are not enough.
  void check(const DiskCache& cache, double seconds, const std::string& label) const {
    const auto note = cache.find_note(key_);
    if (!note) return;
    BytesIn in(*note);
    const auto known = in.number<std::uint64_t>();
    if (in.ended_well() && known >= microseconds(seconds))
      throw tileiras::TooSlow(concat("kernel ", label, ": the assembler did not finish within ",
                                     static_cast<double>(known) * 1e-6, " s of processor time when it was last tried"),
                              true);
  }

 private:
  static std::uint64_t microseconds(double seconds) { return static_cast<std::uint64_t>(seconds * 1e6); }
  CacheKey key_;
};

tileiras::Assembler assembler_or_throw(const std::string& gpu, const std::string& label) {
  std::string why;
  if (auto found = assembler_for(gpu, &why)) return *found;
  throw CompileError(concat("kernel ", label, " cannot be compiled for ", gpu, ": ", why));
}

/// From the disk cache, or by `compile()`; concurrent calls for the same key share one attempt.
template <class F>
Cubin cached(const CacheKey& key, const Effort& effort, const std::string& label, F&& compile) {
  const std::optional<DiskCache> cache = DiskCache::of_user();
  const SlowNote slow(key);
  const auto make = [&] {
    if (cache) {
      if (auto found = cache->find(key)) {
        return std::make_shared<const Cubin>(Cubin{std::move(*found), CubinOrigin::DiskCache});
      }
      if (effort.processor_seconds > 0) slow.check(*cache, effort.processor_seconds, label);
    }
    try {
      auto made = std::make_shared<const Cubin>(Cubin{compile(), CubinOrigin::Assembled});
      if (cache) cache->store(key, made->code);
      return made;
    } catch (const tileiras::TooSlow& error) {
      if (cache && error.by_processor()) slow.keep(*cache, effort.processor_seconds);
      throw;
    }
  };
  // The result is kept on disk and by the caller that loads it. Who has more time does not wait for who has less.
  static auto* const in_flight = new SingleFlight<Cubin>(Keep::No);
  const auto limit = static_cast<std::uint64_t>(effort.processor_seconds * 1e6);
  return *in_flight->get(Sha256().add(key).add_number(limit).finish(), make);
}

}  // namespace

CodeNotes notes_of(const CachedCubin& code) {
  return {resources_of(code.cubin), code.warnings, code.register_pressure};
}

std::optional<tileiras::Assembler> assembler_for(const std::string& gpu, std::string* why) {
  static std::mutex mutex;
  static auto* known = new std::unordered_map<std::string, tileiras::Assembler>;
  std::string key = gpu;
  for (const Env knob : {Env::TILEIRAS, Env::CACHE_DIR}) {
    const char* value = env(knob);
    key += concat("\n", value ? value : "");
  }
  const std::lock_guard lock(mutex);
  if (const auto it = known->find(key); it != known->end()) return it->second;
  auto found = tileiras::locate_assembler(gpu, why);
  if (found) known->emplace(std::move(key), *found);
  return found;
}

std::vector<std::byte> bytecode_for(const ir::Module& module, ir::BytecodeVersion newest) {
  if (ir::required_version(module) <= newest) return ir::write_bytecode(module, {newest, true});
  const std::unique_ptr<ir::Module> copy = ir::clone(module);
  for (const auto& function : copy->functions) {
    ir::walk(function->body(), [](ir::Operation& op) { op.remove_attr(ir::AttrName::inbounds); });
  }
  return ir::write_bytecode(*copy, {newest, true});
}

Effort effort_of(Form form, bool patient) { return {opt_level_of(form), patient ? 0 : kFormSeconds}; }

Cubin make_cubin(const ir::Module& module, const std::string& gpu, const std::string& label,
                 std::span<const std::byte> bytecode, const Effort& effort) {
  const tileiras::Assembler assembler = assembler_or_throw(gpu, label);
  std::vector<std::byte> written;
  if (bytecode.empty()) bytecode = written = ir::write_bytecode(module);
  return cached(key_of(bytecode, gpu, assembler, effort.opt_level), effort, label, [&] {
    const ir::BytecodeVersion newest = assembler.newest_bytecode;
    return newest == ir::BytecodeVersion{} ? assemble(bytecode, gpu, label, assembler, effort)
                                           : assemble(bytecode_for(module, newest), gpu, label, assembler, effort);
  });
}

std::optional<CacheKey> cubin_key(std::span<const std::byte> bytecode, const std::string& gpu, int opt_level) {
  const auto assembler = assembler_for(gpu);
  return assembler ? std::optional(key_of(bytecode, gpu, *assembler, opt_level)) : std::nullopt;
}

Cubin make_cubin(std::span<const std::byte> bytecode, const std::string& gpu, const std::string& label,
                 const Effort& effort) {
  const tileiras::Assembler assembler = assembler_or_throw(gpu, label);
  return cached(key_of(bytecode, gpu, assembler, effort.opt_level), effort, label,
                [&] { return assemble(bytecode, gpu, label, assembler, effort); });
}

}  // namespace tessera::jit
