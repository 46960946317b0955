// Building ahead of time: the steps of generate.cpp without loading the code into the driver.
#include "tessera/jit/build.hpp"

#include <utility>

#include "jit/compile/pipeline.hpp"
#include "tessera/base/error.hpp"
#include "tessera/ir/verifier.hpp"
#include "tessera/jit/forms.hpp"
#include "tessera/machine/machine.hpp"
#include "tessera/passes/predicates.hpp"

namespace tessera::jit {
passes::Target target_for(int sm) {
  passes::Target target;
  target.sm = sm;
  const machine::Machine* known = machine::find_machine(sm);
  target.num_sms = known == nullptr ? machine::kUsualSms : known->num_sms;
  if (const auto assembler = assembler_for(machine::gpu_name(sm)))
    target.bytecode_minor = assembler->newest_bytecode.minor;
  return target;
}

Build build(const ir::Module& module, const analysis::LaunchContract& contract, std::uint64_t predicates,
            const passes::Target& target, const std::string& label) {
  ir::verify_or_throw(module);
  const analysis::Facts facts = analysis::Facts::analyze(module, contract, passes::predicate_table());
  auto best = best_form(
      forms_for(nullptr), [&](Form form) { return prepare(module, facts, predicates, target, nullptr, form, label); },
      [&](const Prepared& p) {
        return make_cubin(*p.module, machine::gpu_name(target.sm), label, p.bytecode, effort_of(p.form, p.patient));
      },
      [](const Cubin& cubin) { return notes_of(cubin.code); });
  Build made;
  made.cubin = std::move(best.made);
  made.choices = best.prepared.choices;
  made.form = best.prepared.form;
  return made;
}

}  // namespace tessera::jit
