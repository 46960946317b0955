// Bundles, then the disk.
#include "jit/store/code_stores.hpp"

#include <utility>

#include "jit/store/code_key.hpp"
#include "tessera/base/env.hpp"
#include "tessera/jit/bundle.hpp"

namespace tessera::jit {

CacheKey bundle_name(const ir::Module& recording, const analysis::LaunchContract& contract,
                     const analysis::Facts& facts, std::uint64_t predicates, int sm, const std::string& hints,
                     const calling::KernelAbi& abi) {
  return name_of({recording_for_bundles(recording, contract, facts),
                  predicates,
                  {sm, 0, 0},
                  hints,
                  Form::Chosen,
                  calling::call_bytes(abi)});
}

CodeStores::CodeStores(const ir::Module& recording, const analysis::LaunchContract& contract, FactsOf facts)
    : recording_(recording),
      contract_(contract),
      facts_(std::move(facts)),
      notes_(RecordingNotes::of(recording, contract)) {
  auto known = notes_ ? notes_->predicates() : std::nullopt;
  kept_ = known.has_value();
  predicates_ = known ? std::move(*known) : facts_().predicates();
}

/// To be dumped, the stages must run.
const RecordingNotes* CodeStores::disk() const {
  return notes_ && bundles().empty() && env(Env::DUMP) == nullptr ? &*notes_ : nullptr;
}

/// They are not there if they were evicted or damaged: without them every start would analyze again.
void CodeStores::keep_predicates() const {
  if (!kept_) notes_->keep(predicates_);
}

std::optional<StoredCode> CodeStores::find(const CodeRequest& r) const {
  if (!bundles().empty()) {
    auto found = find_bundled(r, r.predicates);
    const std::uint64_t common = predicates_.common_part(r.predicates);
    if (!found && common != r.predicates) found = find_bundled(r, common);
    return found;
  }
  const RecordingNotes* const notes = disk();
  auto known = notes ? notes->code(r.predicates, r.target, r.hints) : std::nullopt;
  if (!known) return std::nullopt;
  keep_predicates();
  return StoredCode{r.predicates, r.target, std::move(known->shape), std::move(known->code)};
}

/// A bundle may be of an assembler that reads more or less than this machine's, if there is one here: its code was
/// prepared for that, and so takes other arguments.
std::optional<StoredCode> CodeStores::find_bundled(const CodeRequest& r, std::uint64_t predicates) const {
  passes::Target other = r.target;
  other.bytecode_minor =
      r.target.bytecode_minor < passes::kFirstWaitMinor ? passes::kFirstWaitMinor : passes::kFirstWaitMinor - 1;
  for (const passes::Target& made_for : {r.target, other}) {
    CodeShape found = r.prepare(made_for, predicates, Form::Chosen);
    const CacheKey key = bundle_name(recording_, contract_, facts_(), predicates, made_for.sm, r.hints, found.abi);
    for (const Form form : r.forms) {
      auto ready = find_in_bundles(form_key(key, form));
      if (!ready) continue;
      if (form != Form::Chosen) found = r.prepare(made_for, predicates, form);
      return StoredCode{predicates, made_for, std::move(found), std::move(*ready)};
    }
  }
  return std::nullopt;
}

void CodeStores::put(const CodeRequest& r, const CodeShape& made, const CacheKey& cubin) const {
  const RecordingNotes* const notes = disk();
  if (!notes) return;
  keep_predicates();
  notes->keep(r.predicates, r.target, r.hints, made, cubin);
}

}  // namespace tessera::jit
