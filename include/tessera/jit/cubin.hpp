// From a module after all passes to a cubin: from the disk cache, else by NVIDIA's assembler. Needs no GPU.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tessera/ir/operation.hpp"
#include "tessera/jit/assembler.hpp"
#include "tessera/jit/code_report.hpp"
#include "tessera/jit/disk_cache.hpp"
#include "tessera/jit/forms.hpp"

namespace tessera::jit {

enum class CubinOrigin : std::uint8_t { Assembled, DiskCache };

/// What the assembler reported: resources and warnings.
inline CodeNotes notes_of(const CachedCubin& code) {
  return {resources_of(code.cubin), code.warnings, code.register_pressure};
}

struct Cubin {
  CachedCubin code;
  CubinOrigin origin = CubinOrigin::Assembled;
  CacheKey name{};  ///< in the disk cache
};

/// Seconds of processor time after which another form of a kernel is tried (forms.hpp).
inline constexpr double kFormSeconds = 20;

/// How hard the assembler tries, and how long.
struct Effort {
  int opt_level = 3;
  double processor_seconds = 0;  ///< limit of processor time; 0: TESSERA_TILEIRAS_SECONDS alone is one
};
/// That of a kernel in one of its forms. `patient`: without the limit of kFormSeconds.
inline Effort effort_of(Form form, bool patient) { return {opt_level_of(form), patient ? 0 : kFormSeconds}; }

/// The cubin of `module` (no `assert` left: passes::lower_checks) for `gpu` ("sm_90"). `label` names the kernel in
/// errors and in the cache. Throws CompileError, with the user's source line where the assembler names one: no
/// assembler, rejected or crashed (tileiras::Rejection), too slow (tileiras::TooSlow: TESSERA_TILEIRAS_SECONDS, or
/// `effort`), no cubin; IoError where there is no space for temporary files. A failed call leaves no file behind but
/// the note that the assembler was too slow, which it is not started for again. `bytecode`: what write_bytecode gives,
/// if it is at hand.
Cubin make_cubin(const ir::Module& module, const std::string& gpu, const std::string& label,
                 std::span<const std::byte> bytecode = {}, const Effort& effort = {});

/// The same from bytecode in its final form (TESSERA_COLLECT writes such).
Cubin make_cubin(std::span<const std::byte> bytecode, const std::string& gpu, const std::string& label,
                 const Effort& effort = {});

/// The bytecode that an assembler of at most version `newest` is given: claims that it does not know are left out.
/// Throws CompileError, with the user's line, if the module needs more than that.
std::vector<std::byte> bytecode_for(const ir::Module& module, ir::BytecodeVersion newest);

}  // namespace tessera::jit
