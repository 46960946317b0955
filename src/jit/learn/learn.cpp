// Candidates are prepared at once, by the passes; the assembler makes them in the background.
#include "jit/learn/learn.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <utility>

#include "jit/learn/background.hpp"
#include "jit/load/generate.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/jit/learning.hpp"
#include "tessera/machine/machine.hpp"
#include "tessera/passes/tuning_text.hpp"

namespace tessera::jit {
namespace {

constexpr int kMaxWarpsTried = 16;
constexpr std::size_t kMaxCandidates = 12;
constexpr int kRegistersTried[] = {128, 96, 64, 40};  // of a thread, that an occupancy leaves
constexpr int kLatenciesTried[] = {2, 3, 4, 6};
constexpr int kBlocksOfProducts[] = {1, 2, 3};

int blocks_with(int warps, int registers) {
  const int threads = std::max(warps, machine::kFewestSharingWarps) * machine::kThreadsAWarp;
  return std::clamp(static_cast<int>(machine::kRegisters / (threads * registers)), 1, machine::kMaxBlocks);
}

std::string date() {
  char text[16] = "";
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  if (gmtime_r(&now, &parts) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

TuningRecord record_of(const LearntResult& found, const TuningSubject& s) {
  constexpr double kMilliseconds = 1e3;
  TuningRecord r;
  r.kernel = s.label;
  r.space = kLearntSpace;
  r.choice = found.best.hints.empty() ? "as chosen" : found.best.hints;
  r.hints = found.best.hints;
  r.arguments = concat(s.hash.substr(0, 16), " ", s.predicates);  // one record for each specialization
  r.hash = s.hash;
  r.predicates = s.predicates;
  r.device = s.device;
  r.gpu = s.gpu;
  r.assembler = s.assembler;
  r.library = library_version();
  r.date = date();
  r.runner_up = found.runner_up.hints;
  r.ms = found.best.seconds * kMilliseconds;
  r.default_ms = found.own.seconds * kMilliseconds;
  r.runner_up_ms = found.runner_up.seconds * kMilliseconds;
  return r;
}

SizeSlots size_slots(const analysis::LaunchContract& contract) {
  SizeSlots slots;
  for (std::size_t i = 0; i < contract.args.size(); ++i)
    if (const analysis::ArgRole role = contract.args[i].role;
        role == analysis::ArgRole::Dim || role == analysis::ArgRole::Stride || role == analysis::ArgRole::Blocks)
      slots.push_back(static_cast<std::uint16_t>(i));
  return slots;
}

/// True if both are launched alike. The grid of kernels without persistent blocks does not follow from the hints.
bool same_launch(const calling::KernelAbi& a, calling::KernelAbi b, bool persistent) {
  if (!persistent) b.persistent_blocks = a.persistent_blocks;
  return a == b;
}
bool is_persistent(const Prepared& p) { return p.choices.features[passes::Feature::persistent] != 0; }

/// The candidates whose launches have the arguments and the grid of the compiler's choice, each code once.
std::vector<std::pair<std::string, Prepared>> prepared_candidates(const Prepared& own, const LearningSubject& subject) {
  std::vector<std::pair<std::string, Prepared>> all;
  std::vector<Digest> seen{own.identity};
  for (const passes::Tuning& hints : hints_to_try(own)) {
    if (all.size() == kMaxCandidates) break;
    Prepared p = subject.prepare(hints);
    if (!same_launch(own.choices.abi, p.choices.abi, is_persistent(own))) continue;
    if (std::ranges::find(seen, p.identity) != seen.end()) continue;
    seen.push_back(p.identity);
    all.emplace_back(passes::text_of(hints), std::move(p));
  }
  return all;
}

}  // namespace

std::vector<passes::Tuning> hints_to_try(const Prepared& own) {
  const passes::Choices& chosen = own.choices;
  std::vector<passes::Tuning> all;
  const auto add = [&](int warps, int occupancy, std::optional<int> latency = {}) {
    passes::Tuning t;
    t.warps = warps, t.occupancy = occupancy, t.latency = latency;
    all.push_back(t);
  };
  const bool order = analysis::order_matters(entry_of(*own.module));
  // Another form may combine numbers in another order, and candidates are made from what the passes choose.
  if (order && own.form != Form::Chosen) return all;
  if (chosen.features[passes::Feature::products] > 0) {
    for (const int blocks : kBlocksOfProducts)
      for (const int steps : kLatenciesTried) add(chosen.warps, blocks, steps);
    return all;
  }
  for (const double factor : {1.0, 2.0, 0.5, 4.0, 0.25}) {
    const double warps = chosen.warps * factor;
    if (warps < 1 || warps > kMaxWarpsTried || (factor != 1.0 && order)) continue;
    add(static_cast<int>(warps), 0);
    for (const int registers : kRegistersTried)
      if (registers <= 64 || factor == 1.0)
        add(static_cast<int>(warps), blocks_with(static_cast<int>(warps), registers));
  }
  return all;
}

thread_local constinit signed char scoped_learning = -1;

Code learning(Code code, const Prepared& own, const LearningSubject& subject) {
  if (own.choices.warps == 0) return code;  // left to the assembler
  auto candidates = std::make_shared<std::vector<std::pair<std::string, Prepared>>>(prepared_candidates(own, subject));
  if (candidates->empty()) return code;
  const Device device = subject.device;
  auto report = [about = subject.subject](const LearntResult& found) {
    in_background([record = record_of(found, about)] {
      if (const std::string file = learnt_records(); !file.empty()) add_record(file, record);
    });
  };
  auto work = std::make_shared<LearningWork>(
      code.work, size_slots(subject.contract), [device] { return device.backend().make_time_mark(); },
      std::move(report));
  in_background([work, candidates, device, options = subject.options, abi = code.abi, persistent = is_persistent(own)] {
    for (auto& [hints, prepared] : *candidates) {
      try {
        const Code made = generate(prepared, device, options);
        if (made.notes && spill_cost(*made.notes) == kNeverEnds) continue;
        if (same_launch(abi, made.abi, persistent)) work->add(hints, made.work);
      } catch (const Error&) {}  // the assembler rejects it, or takes too long: one candidate less
    }
    work->ready();
  });
  code.work = work;
  return code;
}

}  // namespace tessera::jit

namespace tessera {

LearningScope::LearningScope(bool on) noexcept : before_(jit::scoped_learning) { jit::scoped_learning = on ? 1 : 0; }
LearningScope::~LearningScope() { jit::scoped_learning = before_; }
void finish_compiling_for_learning() { jit::wait_for_background(); }

}  // namespace tessera
