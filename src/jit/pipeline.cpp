// The pipeline: a copy of the recording, the claims that hold, the passes. Each leaves a module that verifies.
#include "jit/pipeline.hpp"

#include <algorithm>

#include "tessera/base/env.hpp"
#include "tessera/base/error.hpp"
#include "tessera/ir/bytecode.hpp"
#include "tessera/ir/verifier.hpp"
#include "tessera/jit/plain_form.hpp"
#include "tessera/passes/apply_claims.hpp"
#include "tessera/passes/passes.hpp"
#include "tessera/passes/tuning_text.hpp"
#include "tessera/passes/watch_writes.hpp"

namespace tessera::jit {
namespace {

constexpr int kBlocksPerThread = 4;  // CPU: uneven pieces are evened out by having more of them

/// From a clone whose claims are applied, if there were any. `checked`: what it reads includes shadows, of whose
/// writers no storage tells.
Prepared finish(std::unique_ptr<ir::Module> module, const passes::Target& target, bool optimize, bool checked,
                const passes::Tuning* tuning, Form form) {
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
  asked.early_reads = asked.early_reads && !checked;
  if (optimize) p.choices = passes::optimize(*p.module, target, &asked);
  const int blocks = target.is_gpu() ? p.choices.persistent_blocks : target.multiprocessors * kBlocksPerThread;
  p.persistent_blocks = static_cast<std::uint64_t>(std::max(1, blocks));
  if (target.is_gpu()) p.checks = passes::lower_checks(*p.module);
  p.bytecode = ir::write_bytecode(*p.module);
  return p;
}

std::vector<WatchedTensor> watch(ir::Function& entry, const std::vector<TensorArgument>& arguments) {
  std::vector<passes::WatchedTensor> tensors;
  for (const TensorArgument& a : arguments) tensors.push_back({a.slot, a.label});
  const std::vector<int> bytes = passes::watch_writes(entry, tensors);
  std::vector<WatchedTensor> watched;
  for (std::size_t i = 0; i < bytes.size(); ++i) watched.push_back({tensors[i].arg, bytes[i]});
  return watched;
}

/// Before claims are applied, which may erase what they name.
void count_loops(ir::Module& module, std::span<const analysis::Claim> claims = {}, std::uint64_t held = 0) {
  for (const auto& function : module.functions) {
    if (function->entry) passes::count_loops(*function, claims, held);
  }
}

}  // namespace

/// Checked mode on the CPU comes here: what it finds must be what the kernel does, so nothing is moved or merged (an
/// invariant that is computed before a loop that does not run could be reported as an overflow).
Prepared prepare(const ir::Module& module, const passes::Target& target, const CompileOptions& options, Form form) {
  ir::verify_or_throw(module);
  std::unique_ptr<ir::Module> copy = ir::clone(module);
  std::vector<WatchedTensor> watched;
  if (options.checked && target.is_gpu()) {
    for (const auto& function : copy->functions) {
      if (!function->entry) continue;
      passes::check_index_arithmetic(*function);
      watched = watch(*function, options.tensors);
    }
  }
  if (target.is_gpu()) count_loops(*copy);
  Prepared p = finish(std::move(copy), target, target.is_gpu(), options.checked, nullptr, form);
  p.watched = std::move(watched);
  return p;
}

Prepared prepare(const ir::Module& module, const analysis::Facts& facts, std::uint64_t held,
                 const passes::Target& target, const passes::Tuning* tuning, Form form) {
  std::unique_ptr<ir::Module> copy = ir::clone(module);
  const std::vector<analysis::Claim> claims = facts.claims_of(*copy);
  if (target.is_gpu()) count_loops(*copy, claims, held);
  passes::apply_claims(*copy, claims, held);
  return finish(std::move(copy), target, true, false, tuning, form);
}

CodeShape shape_of(const Prepared& prepared) {
  const ir::Function& entry = entry_of(*prepared.module);
  CodeShape s;
  s.entry = entry.name;
  s.watched = prepared.watched;
  const std::size_t added =
      s.watched.size() + (prepared.checks.empty() ? 0 : 1) + (prepared.choices.launch_word ? 1 : 0);
  s.num_args = static_cast<int>(entry.body().num_args() - added);
  s.starts_early = prepared.choices.overlaps;
  s.launch_word = prepared.choices.launch_word;
  s.early_reads = prepared.choices.early_reads;
  s.persistent_blocks = prepared.persistent_blocks;
  s.checks = prepared.checks;
  s.form = prepared.form;
  // The bytecode is with locations, which errors name; what lowered checks say is not in it.
  Sha256 hash;
  for (const passes::LoweredCheck& check : s.checks) hash.add_field(check.message);
  s.identity = hash.add_field(prepared.bytecode).finish();
  return s;
}

std::string hints_text(const passes::Tuning* tuning) {
  if (const char* experiment = env(Env::TUNING)) return passes::text_of(passes::parse_tuning(experiment));
  return tuning ? passes::text_of(*tuning) : std::string();
}

const ir::Function& entry_of(const ir::Module& module) {
  for (const auto& function : module.functions) {
    if (function->entry) return *function;
  }
  throw CompileError("the module has no entry: there is nothing to launch");
}

}  // namespace tessera::jit
