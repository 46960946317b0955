// Runs the rows of passes.def.
#include "tessera/passes/pipeline.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>

#include "passes/asks.hpp"
#include "passes/run_rows.hpp"
#include "tessera/base/env.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/ir/verifier.hpp"
#include "tessera/passes/apply_claims.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

namespace {

namespace switches {
struct Switch {
  const char* word;
  bool Tuning::*member;
};
constexpr Switch none{nullptr, nullptr};
#define TESSERA_SWITCH(word, member) constexpr Switch word{#word, &Tuning::member};
#include "passes/passes.def"
}  // namespace switches

/// Several entries with checks would need several error records.
void append(std::vector<calling::Check>& all, std::vector<calling::Check> more) {
  if (all.empty()) return all.swap(more);
  if (!more.empty()) throw InternalError("checks are lowered for one entry of a module, found two with checks");
}

/// Both rows are about launches of few blocks, of kernels without and with products.
bool has_few_pieces(const Work& work) { return holds(work, Predicate::few_pieces) || holds(work, Predicate::one_wave); }
Pieces pieces_of(const Work& work) {
  return has_few_pieces(work) ? Pieces::Few : holds(work, Predicate::several_waves) ? Pieces::Several : Pieces::Unknown;
}

/// Claims are about the first entry.
void find_whole_tiles(Run& r) {
  if (!r.first || !r.work.claims) return;
  r.made.whole_tiles = regions_to_tiles(r.f, r.target, *r.work.claims, r.work.predicates, r.contract(), r.certifier());
}

constexpr Row kRows[] = {
#define TESSERA_PASS(name, when, switch_, page, call, doc)                       \
  {{#name, When::when, switches::switch_.word, *(page) ? (page) : nullptr, doc}, \
   [](Run& r) { (call); },                                                       \
   switches::switch_.member},
#include "passes/passes.def"
};

constexpr auto kInfos = [] {
  std::array<PassInfo, std::size(kRows)> infos{};
  std::transform(std::begin(kRows), std::end(kRows), infos.begin(), [](const Row& row) { return row.info; });
  return infos;
}();

bool applies(const Row& row, const Run& r) {
  const auto& only = r.work.only;
  if (!only.empty() && std::ranges::find(only, row.info.name) == only.end()) return false;
  if (row.on && !(r.tuning.*row.on)) return false;
  switch (row.info.when) {
    case When::Always: return true;
    case When::Gpu: return r.target.is_gpu();
    case When::Relaxed: return r.target.is_gpu() && r.relaxed;
    case When::Checked: return r.work.checked && r.target.is_gpu();
    case When::Claims: return r.first && r.work.claims;
    case When::Code: return r.work.lower && r.target.is_gpu();
  }
  return false;
}

void verify_after(const PassInfo& pass, const ir::Function& f, const ir::Module& module) {
  const std::vector<ir::Diagnostic> found = ir::verify(module);
  if (found.empty()) return;
  const std::string others = found.size() > 1 ? concat(" (and ", found.size() - 1, " more)") : std::string();
  throw InternalError(concat("the pass ", pass.name, " made kernel ", f.name, " invalid: ", found.front().message,
                             others, ". This is a bug of Tessera; TESSERA_DUMP=after:all writes what each pass makes."),
                      found.front().where);
}

void expect_pass(std::string_view name) {
  if (find_pass(name)) return;
  std::string names;
  for (const PassInfo& p : kInfos) names += concat(names.empty() ? "" : ", ", p.name);
  throw CompileError(concat("there is no pass ", name, "; expected one of ", names));
}

}  // namespace

const char* text(When when) noexcept {
  switch (when) {
    case When::Always: return "always";
    case When::Gpu: return "GPUs";
    case When::Relaxed: return "GPUs, if token order was relaxed";
    case When::Checked: return "checked mode on GPUs";
    case When::Claims: return "with claims: not in checked mode";
    case When::Code: return "GPUs, for code";
  }
  return "";
}

std::span<const PassInfo> pass_table() noexcept { return kInfos; }

const PassInfo* find_pass(std::string_view name) noexcept {
  const auto row = std::find_if(kInfos.begin(), kInfos.end(), [&](const PassInfo& p) { return p.name == name; });
  return row == kInfos.end() ? nullptr : &*row;
}

bool verify_passes() {
#ifdef NDEBUG
  constexpr bool kUsually = false;
#else
  constexpr bool kUsually = true;
#endif
  const char* text = env(Env::VERIFY);
  return (text != nullptr && std::string_view(text) == "claims") || env_flag(Env::VERIFY, kUsually);
}

Passed run_rows(std::span<const Row> rows, ir::Module& module, const Target& target, const Tuning& tuning,
                const Work& work) {
  const bool verify = verify_passes();
  Passed made;
  bool first = true;
  for (const auto& function : module.functions) {
    if (!function->entry) continue;
    Run run{*function, target, tuning, work, made, first};
    first = false;
    int number = 0;
    for (const Row& row : rows) {
      ++number;
      if (applies(row, run)) {
        row.run(run);
        if (work.observer) work.observer->ran(row.info, number, module);
        if (verify) verify_after(row.info, run.f, module);
      }
      if (row.info.name == work.stop_after) break;
    }
  }
  return made;
}

Passed run_passes(ir::Module& module, const Target& target, const Tuning* tuning, const Work& work) {
  if (!work.stop_after.empty()) expect_pass(work.stop_after);
  for (const std::string& name : work.only) expect_pass(name);
  return run_rows(kRows, module, target, tuning ? *tuning : Tuning{}, work);
}

Choices optimize(ir::Module& module, const Target& target, const Tuning* tuning) {
  return run_passes(module, target, tuning, {}).choices;
}

}  // namespace tessera::passes
