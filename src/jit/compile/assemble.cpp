// Calls the assembler for one kernel. Nothing is kept here: cubin.cpp asks the store first.
#include "jit/compile/assemble.hpp"

#include <utility>

#include "tessera/base/env.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/profile.hpp"
#include "tessera/ir/bytecode.hpp"

namespace tessera::jit {
namespace {

constexpr int kDefaultSeconds = 300;

}  // namespace

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
    code.warnings = join(made.warnings, "\n");
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

std::vector<std::byte> bytecode_for(const ir::Module& module, ir::BytecodeVersion newest) {
  if (ir::required_version(module) <= newest) return ir::write_bytecode(module, {newest, true});
  const std::unique_ptr<ir::Module> copy = ir::clone(module);
  for (const auto& function : copy->functions) {
    ir::walk(function->body(), [](ir::Operation& op) { op.remove_attr(ir::AttrName::inbounds); });
  }
  return ir::write_bytecode(*copy, {newest, true});
}

}  // namespace tessera::jit
