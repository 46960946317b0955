// The store of cubins: what is not on disk is assembled, and then kept.
#include "tessera/jit/cubin.hpp"

#include "jit/code/single_flight.hpp"
#include "jit/compile/assemble.hpp"
#include "jit/store/code_key.hpp"
#include "tessera/base/bytes.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/ir/bytecode.hpp"
#include "tessera/jit/forms.hpp"

namespace tessera::jit {
namespace {

/// Notes in the disk cache: the assembler needs more than so many microseconds for what `cubin` names.
class SlowNote {
 public:
  explicit SlowNote(const CacheKey& name) : key_(name) {}
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

/// From the disk cache, or by `compile()`; concurrent calls for the same key share one attempt.
template <class F>
Cubin cached(const CubinNames& names, const Effort& effort, const std::string& label, F&& compile) {
  const std::optional<DiskCache> cache = DiskCache::of_user();
  const SlowNote slow(names.slow);
  const CacheKey& key = names.cubin;
  const auto make = [&] {
    if (cache) {
      if (auto found = cache->find(key)) {
        return std::make_shared<const Cubin>(Cubin{std::move(*found), CubinOrigin::DiskCache, key});
      }
      if (effort.processor_seconds > 0) slow.check(*cache, effort.processor_seconds, label);
    }
    try {
      auto made = std::make_shared<const Cubin>(Cubin{compile(), CubinOrigin::Assembled, key});
      if (cache) cache->store(key, made->code);
      return made;
    } catch (const tileiras::TooSlow& error) {
      if (cache && error.by_processor()) slow.keep(*cache, effort.processor_seconds);
      throw;
    }
  };
  // The result is kept on disk and by the caller that loads it. Who has more time does not wait for who has less.
  static auto* const in_flight = new SingleFlight<Cubin>(Keep::No);
  return *in_flight->get(names.attempt, make);
}

tileiras::Assembler assembler_or_throw(const std::string& gpu, const std::string& label) {
  std::string why;
  if (auto found = assembler_for(gpu, &why)) return *found;
  throw CompileError(concat("kernel ", label, " cannot be compiled for ", gpu, ": ", why));
}

}  // namespace

Cubin make_cubin(const ir::Module& module, const std::string& gpu, const std::string& label,
                 std::span<const std::byte> bytecode, const Effort& effort) {
  const tileiras::Assembler assembler = assembler_or_throw(gpu, label);
  std::vector<std::byte> written;
  if (bytecode.empty()) bytecode = written = ir::write_bytecode(module);
  return cached(cubin_names(bytecode, gpu, assembler, effort.opt_level, effort.processor_seconds), effort, label, [&] {
    const ir::BytecodeVersion newest = assembler.newest_bytecode;
    return newest == ir::BytecodeVersion{} ? assemble(bytecode, gpu, label, assembler, effort)
                                           : assemble(bytecode_for(module, newest), gpu, label, assembler, effort);
  });
}

Cubin make_cubin(std::span<const std::byte> bytecode, const std::string& gpu, const std::string& label,
                 const Effort& effort) {
  const tileiras::Assembler assembler = assembler_or_throw(gpu, label);
  return cached(cubin_names(bytecode, gpu, assembler, effort.opt_level, effort.processor_seconds), effort, label,
                [&] { return assemble(bytecode, gpu, label, assembler, effort); });
}

}  // namespace tessera::jit
