// All specializations of one recording: an append-only list with lock-free lookup.
#include "tessera/jit/kernel.hpp"

#include <bit>
#include <chrono>
#include <mutex>
#include <optional>
#include <utility>

#include "jit/ahead/collect.hpp"
#include "jit/compile/decisions.hpp"
#include "jit/learn/learn.hpp"
#include "jit/load/generate.hpp"
#include "jit/store/code_stores.hpp"
#include "jit/tuning/tuning_choice.hpp"
#include "tessera/analysis/facts.hpp"
#include "tessera/base/env.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/profile.hpp"
#include "tessera/base/stack.hpp"
#include "tessera/ir/verifier.hpp"
#include "tessera/jit/cubin.hpp"
#include "tessera/jit/forms.hpp"
#include "tessera/machine/machine.hpp"
#include "tessera/passes/predicates.hpp"

namespace tessera::jit {

/// The analysis of a recording, independent of the launch.
struct Kernel::Analysis {
  const ir::Module& module;
  LaunchContract contract;
  // The claims, which compiling needs and launching does not: computed on first use.
  std::once_flag once;
  std::optional<analysis::Facts> known = {};
  CodeStores stores{module, contract, [this]() -> const analysis::Facts& { return facts(); }};

  const analysis::Facts& facts() {
    std::call_once(once, [&] {
      ir::verify_or_throw(module);
      known = analysis::Facts::analyze(module, contract, passes::predicate_table());
    });
    return *known;
  }
};

/// A recording with cached facts has been verified before: their key covers all of it.
Kernel::Kernel(std::unique_ptr<const ir::Module> module, const LaunchContract& contract, CompileOptions options)
    : module_(std::move(module)), options_(std::move(options)) {
  // Checked mode runs the recording as it is, so that it can find what the claims would rely on.
  if (options_.checked) {
    ir::verify_or_throw(*module_);
    return;
  }
  analysis_.reset(new Analysis{*module_, contract, {}});
  predicates_ = &analysis_->stores.predicates();
}

Kernel::~Kernel() {
  for (const Specialization* c = specializations_.load(std::memory_order_acquire); c;) {
    const Specialization* next = c->next;
    delete c;
    c = next;
  }
}

/// In checked mode there are no obligations.
std::uint64_t Kernel::common_part(std::uint64_t predicates) const noexcept {
  return predicates_ != nullptr ? predicates_->common_part(predicates) : predicates;
}

const Kernel::Specialization* Kernel::find(const runtime::Backend& device, std::uint64_t predicates) const noexcept {
  const Specialization* c = specializations_.load(std::memory_order_acquire);
  while (c && !(c->device == &device && c->predicates == predicates)) c = c->next;
  return c;
}

/// The limit of specializations of a recording for a device. Beyond it, launches run the best one whose obligations
/// they fulfil: for a program with ever new shapes, one more specialization does not pay for seconds of compiling.
constexpr int kMaxSpecializations = 32;

const Kernel::Specialization* Kernel::find_general(const runtime::Backend& device,
                                                   std::uint64_t predicates) const noexcept {
  const auto worth = [&](const Specialization& c) {
    return std::pair(std::popcount(common_part(c.predicates)), std::popcount(c.predicates));
  };
  const Specialization* best = nullptr;
  int count = 0;
  for (const Specialization* c = specializations_.load(std::memory_order_acquire); c; c = c->next) {
    if (c->device != &device) continue;
    ++count;
    const bool usable = (c->predicates & ~predicates) == 0;
    if (usable && (!best || worth(*c) > worth(*best))) best = c;
  }
  return count >= kMaxSpecializations ? best : nullptr;
}

const Kernel::Specialization* Kernel::compile(Device device, std::uint64_t predicates) {
  const ProfileRange range(ProfileTopic::Compile, concat("kernel ", options_.label).c_str(), entry_of(*module_).loc);
  auto made = std::make_unique<Specialization>();
  made->device = &device.backend();
  made->predicates = predicates;
  // Threads that need the same new code meet in generate(), where the first one compiles; their entries are equal.
  std::uint64_t made_for = predicates;
  made->code = with_stack([&] { return make_code(device, made_for); }, kStackOfRegions);
  if (made->code.notes) check_ends(*made->code.notes);  // of a bundle, or given hints
  made->code.predicates = made_for;
  made->next = specializations_.load(std::memory_order_acquire);
  while (!specializations_.compare_exchange_weak(made->next, made.get(), std::memory_order_acq_rel)) {}
  return made.release();
}

/// The module on the CPU, whatever the launch fulfils. With TESSERA_COLLECT it is left for GPUs, too: without
/// refinements, so that the sizes of this run need not be the real ones.
Code Kernel::code_for_cpu(Device device, const passes::Target& target, std::uint64_t predicates) const {
  Analysis& a = *analysis_;
  Code code =
      generate(prepared(predicates, target, tuning(predicates, &device, target), Form::Chosen), device, options_);
  const std::uint64_t common = common_part(predicates);
  const auto leave = [&](std::uint64_t word) {
    collect(*module_, a.contract, a.facts(), word, options_.label, options_.tuning, word == predicates);
  };
  leave(predicates);
  if (common != predicates) leave(common);
  return code;
}

/// `predicates`: the obligations that the code may rely on; on return those that it does rely on, which are fewer if a
/// bundle has no other code.
Code Kernel::make_code(Device device, std::uint64_t& predicates) const {
  const passes::Target target = target_of(device);
  if (analysis_ && !target.is_gpu()) return code_for_cpu(device, target, predicates);
  const passes::Tuning* hints = tuning(predicates, &device, target);
  const auto as = [&](const passes::Target& gpu, std::uint64_t predicates, Form form) {
    return prepared(predicates, gpu, hints, form);
  };
  const CodeRequest request{predicates, target, hints_text(hints), forms_for(hints),
                            [&](const passes::Target& gpu, std::uint64_t predicates, Form form) {
                              return shape_of(as(gpu, predicates, form));
                            }};
  const CodeStores::Answer answer = analysis_ ? analysis_->stores.find(request) : CodeStores::Answer{};
  if (const auto& stored = answer.code) {
    predicates = stored->predicates;
    if (env(Env::DUMP) != nullptr || env(Env::DECISIONS) != nullptr) {
      const Prepared made = as(stored->target, predicates, stored->shape.form);
      dump(*made.module, options_.label);
      note_decision(options_.label, predicates, made, request.hints, notes_of(stored->cubin), stored->cubin.seconds);
    }
    const Code made = generate(*stored, target, device, options_);
    if (hints != nullptr || !learning_is_on()) return made;
    return learns(made, as(stored->target, predicates, stored->shape.form), device, predicates);
  }
  const auto started = std::chrono::steady_clock::now();
  auto best = best_form(
      request.forms, [&](Form form) { return as(target, predicates, form); },
      [&](const Prepared& p) { return generate(p, device, options_); }, notes_of_code);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - started;
  if (env(Env::DECISIONS) != nullptr)
    note_decision(options_.label, predicates, best.prepared, request.hints, notes_of_code(best.made), taken.count());
  if (!analysis_ || !target.is_gpu()) return best.made;
  const Prepared& made = best.prepared;
  if (answer.place && best.made.cubin) analysis_->stores.put(*answer.place, shape_of(made), *best.made.cubin);
  return hints == nullptr && learning_is_on() ? learns(best.made, made, device, predicates) : best.made;
}

/// `code` as work that learns: `own` is what it was made from.
Code Kernel::learns(const Code& code, const Prepared& own, Device device, std::uint64_t predicates) const {
  if (env(Env::TUNING) != nullptr) return code;
  const auto with = [&](const passes::Tuning& hints) { return prepared(predicates, own.target, &hints, Form::Chosen); };
  return learning(code, own,
                  {tuning_subject(options_.label, *module_, common_part(predicates), &device, own.target), with,
                   analysis_->contract, device, options_});
}

CodeReport Kernel::report(Device device, std::span<const std::uint64_t> slots) {
  const Code& made = code(device, slots);
  const passes::Target target = target_of(device);
  const passes::Tuning* hints = tuning(made.predicates, &device, target);
  CodeReport r = describe(prepared(made.predicates, target, hints, made.form), made.predicates, &device);
  if (made.notes) r.notes = *made.notes;
  return r;
}

CodeReport Kernel::report(const passes::Target& gpu, std::span<const std::uint64_t> slots) const {
  const std::uint64_t predicates = evaluate(slots);
  const passes::Tuning* hints = tuning(predicates, nullptr, gpu);
  const auto best = best_form(
      forms_for(hints), [&](Form form) { return prepared(predicates, gpu, hints, form); },
      [&](const Prepared& p) {
        return notes_of(
            make_cubin(*p.module, machine::gpu_name(gpu.sm), options_.label, p.bytecode, effort_of(p.form, p.patient))
                .code);
      },
      [](const CodeNotes& notes) { return notes; });
  CodeReport r = describe(best.prepared, predicates, nullptr);
  r.notes = best.made;
  return r;
}

/// Checked mode ignores records.
const passes::Tuning* Kernel::tuning(std::uint64_t predicates, const Device* device,
                                     const passes::Target& target) const {
  if (!analysis_) return nullptr;
  return tuning_for(options_.tuning, options_.label, *module_, common_part(predicates), device, target);
}

Prepared Kernel::prepared(std::uint64_t predicates, const passes::Target& target, const passes::Tuning* tuning,
                          Form form) const {
  if (!analysis_) return prepare(*module_, target, options_, form);
  return prepare(*module_, analysis_->facts(), predicates, target, tuning, form, options_.label);
}

CodeReport Kernel::describe(const Prepared& p, std::uint64_t predicates, const Device* device) const {
  TuningSubject s = tuning_subject(options_.label, *module_, common_part(predicates), device, p.target);
  return {std::move(s.label),
          std::move(s.hash),
          std::move(s.predicates),
          std::move(s.device),
          std::move(s.gpu),
          std::move(s.assembler),
          hash_of(*p.module),
          {},
          p.form};
}

const Code& Kernel::find_or_compile(Device device, std::uint64_t predicates) {
  const Specialization* found = find(device.backend(), predicates);
  if (!found) found = find_general(device.backend(), predicates);
  if (!found) found = compile(device, predicates);
  last_.store(found, std::memory_order_release);
  return found->code;
}

}  // namespace tessera::jit
