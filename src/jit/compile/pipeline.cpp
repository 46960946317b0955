// A copy of the recording goes through the passes.
#include "jit/compile/pipeline.hpp"

#include "jit/compile/certified_claims.hpp"
#include "jit/compile/dump.hpp"
#include "jit/store/code_key.hpp"
#include "tessera/base/env.hpp"
#include "tessera/base/error.hpp"
#include "tessera/ir/bytecode.hpp"
#include "tessera/ir/verifier.hpp"
#include "tessera/passes/pipeline.hpp"
#include "tessera/passes/tuning_text.hpp"

namespace tessera::jit {
namespace {

constexpr int kBlocksPerThread = 4;  // CPU: more blocks balance uneven pieces

std::vector<ScanAcross> scans_across(const ir::Function& f) {
  std::vector<ScanAcross> found;
  ir::walk(f.body(), [&](const ir::Operation& op) {
    if (op.op() != ir::Op::Scan) return;
    const auto shape = op.operand(0).type().shape();
    int last = static_cast<int>(shape.size()) - 1;
    while (last > 0 && shape[static_cast<std::size_t>(last)] == 1) --last;
    const auto axis = static_cast<int>(op.int_attr(ir::AttrName::dim));
    if (axis < last && shape[static_cast<std::size_t>(axis)] > 1) found.push_back({op.loc, axis, last});
  });
  return found;
}

/// What no pass says about the launch.
void complete(calling::KernelAbi& abi, const ir::Function& entry) {
  abi.entry = entry.name;
  abi.num_args = static_cast<int>(entry.body().num_args() - calling::implicit_arguments(abi));
}

/// `work`: claims and contract of the module; code generation is requested. `optimize` false: no pass runs.
Prepared finish(std::unique_ptr<ir::Module> module, const passes::Target& target, passes::Work work, bool optimize,
                const passes::Tuning* tuning, Form form, const std::string& label) {
  Prepared p;
  p.target = target;
  p.module = std::move(module);
  p.form = form;
  const char* experiment = env(Env::TUNING);
  const passes::Tuning overrides = passes::parse_tuning(experiment ? experiment : "");
  const passes::Tuning* used = experiment ? &overrides : tuning;
  if (form != Form::Chosen) used = tuning_of(form);
  if (tuning && used == tuning) p.tuning = passes::text_of(*tuning);
  passes::Tuning asked = used ? *used : passes::Tuning{};
  asked.early_reads = asked.early_reads && !work.checked;
  if (target.is_gpu()) p.scans = scans_across(entry_of(*p.module));
  if (optimize) {
    const auto dump =
        env(Env::DUMP) != nullptr ? dump_after_passes(*p.module, target, asked, form, work.predicates, label) : nullptr;
    work.lower = true;
    work.observer = dump.get();
    passes::Passed made = passes::run_passes(*p.module, target, &asked, work);
    p.choices = std::move(made.choices);
    p.asked = {p.choices.limits_registers, p.choices.occupancy, target.sm};
    p.whole_tiles = std::move(made.whole_tiles);
  }
  complete(p.choices.abi, entry_of(*p.module));
  if (!target.is_gpu()) p.choices.abi.persistent_blocks = target.num_sms * kBlocksPerThread;
  p.bytecode = ir::write_bytecode(*p.module);
  p.identity = identity_of(p.bytecode, p.choices.abi.checks);
  return p;
}

}  // namespace

/// For checked mode on the CPU: errors must be those of the kernel as written, so nothing is moved or merged (a hoisted
/// invariant of a loop that does not run could be reported as an overflow).
Prepared prepare(const ir::Module& module, const passes::Target& target, const CompileOptions& options, Form form) {
  ir::verify_or_throw(module);
  std::vector<passes::WatchedTensor> tensors;
  passes::Work work;
  work.checked = options.checked;
  const RejectingCertifier certifier;
  work.certifier = &certifier;
  if (options.checked && target.is_gpu()) {
    for (const TensorArgument& a : options.tensors) tensors.push_back({a.slot, a.label});
    work.watched = tensors;
  }
  return finish(ir::clone(module), target, work, target.is_gpu(), nullptr, form, options.label);
}

Prepared prepare(const ir::Module& module, const analysis::Facts& facts, std::uint64_t predicates,
                 const passes::Target& target, const passes::Tuning* tuning, Form form, const std::string& label) {
  std::unique_ptr<ir::Module> copy = ir::clone(module);
  const std::vector<analysis::Claim> claims = certified_claims(*copy, facts, predicates);
  passes::Work work;
  work.claims = claims;
  work.predicates = predicates;
  work.contract = &facts.contract();
  const CertifierOfPasses certifier(facts, predicates);
  work.certifier = &certifier;
  return finish(std::move(copy), target, work, true, tuning, form, label);
}

std::string hints_text(const passes::Tuning* tuning) {
  if (const char* experiment = env(Env::TUNING)) return passes::text_of(passes::parse_tuning(experiment));
  return tuning ? passes::text_of(*tuning) : std::string();
}

}  // namespace tessera::jit
