// A compiled kernel on the CPU as work of a stream.
#pragma once
#include <memory>

#include "tessera/codegen/cpu/program.hpp"
#include "tessera/jit/compile.hpp"

namespace tessera::jit {

std::shared_ptr<const runtime::Launchable> make_cpu_work(std::shared_ptr<const cpu::Program>, const CompileOptions&);

}  // namespace tessera::jit
