// The same steps as generate.cpp, without loading the code into the driver.
#include "tessera/jit/build.hpp"

#include <algorithm>
#include <utility>

#include "jit/pipeline.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/ir/verifier.hpp"
#include "tessera/jit/forms.hpp"

namespace tessera::jit {
namespace {

struct Machine {
  int sm, num_sms;
};
// NVIDIA's data sheets: A100, RTX 3090 Ti, Orin, RTX 4090 (L40: 142), H200, B200, B300, Thor, RTX PRO 6000, GB10.
constexpr Machine kMachines[] = {{80, 108},  {86, 84},   {87, 16},  {88, 16},   {89, 142}, {90, 132},
                                 {100, 148}, {103, 160}, {110, 20}, {120, 188}, {121, 48}};

}  // namespace

passes::Target target_for(int sm) {
  passes::Target target;
  target.sm = sm;
  const auto known =
      std::find_if(std::begin(kMachines), std::end(kMachines), [&](const Machine& m) { return m.sm == sm; });
  target.num_sms = known == std::end(kMachines) ? 128 : known->num_sms;
  if (const auto assembler = assembler_for(concat("sm_", sm))) target.bytecode_minor = assembler->newest_bytecode.minor;
  return target;
}

Build build(const ir::Module& module, const LaunchContract& contract, std::uint64_t held, const passes::Target& target,
            const std::string& label) {
  ir::verify_or_throw(module);
  const analysis::Facts facts = analysis::Facts::analyze(module, contract);
  auto best = best_form(
      forms_for(nullptr), [&](Form form) { return prepare(module, facts, held, target, nullptr, form, label); },
      [&](const Prepared& p) {
        return make_cubin(*p.module, concat("sm_", target.sm), label, p.bytecode, effort_of(p.form, p.patient));
      },
      [](const Cubin& cubin) { return notes_of(cubin.code); });
  Build made;
  made.cubin = std::move(best.made);
  made.choices = best.prepared.choices;
  made.form = best.prepared.form;
  return made;
}

}  // namespace tessera::jit
