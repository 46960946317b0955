// Records a program for its first launch, and asks the assembler about it.
#include "generate/assembled.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "generate/record.hpp"
#include "host/recorded_kernel.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/host/contract.hpp"
#include "tessera/jit/build.hpp"
#include "tessera/jit/forms.hpp"
#include "tessera/jit/kernel.hpp"

namespace tessera::generate {
namespace {

constexpr double kMaxSeconds = 20;

/// Processor time of the assembler so far.
double assembler_seconds() {
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// What a launch passes; every tensor begins at a multiple of a large power of two.
std::vector<std::uint64_t> slots_of(const Program& p, std::span<const lang::ParamInfo> infos) {
  const Launch& launch = p.launches.front();
  std::vector<std::uint64_t> slots;
  std::size_t tensor = 0, scalar = 0;
  for (const Param& param : p.params) {
    if (!param.is_tensor()) {
      slots.push_back(static_cast<std::uint64_t>(launch.scalars[scalar++]));
      continue;
    }
    const Layout& t = launch.tensors[tensor++];
    slots.push_back(static_cast<std::uint64_t>(tensor) << 40);
    for (const std::int64_t d : t.dims) slots.push_back(static_cast<std::uint64_t>(d));
    for (const std::int64_t s : t.strides) slots.push_back(static_cast<std::uint64_t>(s));
  }
  if (lang::counts_blocks(infos)) slots.push_back(static_cast<std::uint64_t>(launch.blocks));
  return slots;
}

jit::CodeReport report_of(const Program& p, int sm) {
  const std::vector<lang::ParamInfo> infos = param_infos(p);
  lang::Trace trace = record(p, specialization_of(p));
  const auto contract = detail::launch_contract(infos, false, trace.same_extents);
  const jit::Kernel kernel(std::move(trace.module), contract, {trace.name, false, {}});
  return kernel.report(jit::target_for(sm), slots_of(p, infos));
}

/// The name of a form that spills nothing, among those that are not tried for spills; empty if there is none.
std::string form_that_does_not_spill(const Program& p, int sm) {
  std::string found;
  for (const jit::Form form : jit::all_forms().subspan(1)) {
    if (jit::step_of(form, jit::Cause::Spills) > 0 || jit::text_of(form).find("opt-level") != std::string::npos)
      continue;
    setenv("TESSERA_TUNING", jit::text_of(form).c_str(), 1);
    try {
      if (jit::spill_cost(report_of(p, sm).notes) == 0) found = jit::name_of(form);
    } catch (const Error&) {}  // rejected, or too slow
    unsetenv("TESSERA_TUNING");
    if (!found.empty()) break;
  }
  return found;
}

}  // namespace

lang::Specialization specialization_of(const Program& p) {
  const Launch& launch = p.launches.front();
  detail::RecordingKey key;
  for (std::size_t t = 0; t < launch.tensors.size(); ++t)
    key.tensors[t] = detail::tensor_bits(launch.tensors[t].dims, launch.tensors[t].strides);
  key.flags = detail::flag_bits(false, CheckMode::Off, true, lang::Accuracy::Precise);
  return detail::specialization(key, param_infos(p));
}

Assembled assembled(const Program& p, int sm) {
  Assembled a;
  const double before = assembler_seconds();
  const auto start = std::chrono::steady_clock::now();
  try {
    const jit::CodeReport r = report_of(p, sm);
    // Several forms are assembled at once; a busy machine stretches the time.
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    a.seconds = std::min(assembler_seconds() - before, passed.count());
    a.resources = r.notes.resources;
    a.form = jit::name_of(r.form);
    if (a.seconds > kMaxSeconds) a.problem = concat("the assembler needs ", a.seconds, " s");
    // Where registers are limited, a little may spill.
    if (!jit::spills_too_much(r.notes, true)) return a;
    if (const std::string other = form_that_does_not_spill(p, sm); !other.empty())
      a.problem = concat(a.resources.stack, " bytes are spilled; the form ", other, " spills nothing");
  } catch (const std::exception& e) { a.problem = e.what(); }
  return a;
}

}  // namespace tessera::generate
