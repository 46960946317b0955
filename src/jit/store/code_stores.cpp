// Bundles, then notes on disk. There are two kinds of notes: the obligations of a recording as a program (one), and its
// code (one for each set of obligations that hold, target and hints).
#include "jit/store/code_stores.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "jit/store/code_key.hpp"
#include "tessera/abi/kernel_abi.hpp"
#include "tessera/base/bytes.hpp"
#include "tessera/base/env.hpp"
#include "tessera/jit/assembler.hpp"
#include "tessera/jit/bundle.hpp"
#include "tessera/jit/forms.hpp"
#include "tessera/machine/machine.hpp"

namespace tessera::jit {
namespace {

bool read(BytesIn& in, std::array<std::byte, 32>& digest) {
  const auto bytes = in.bytes(digest.size());
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return in.good();
}

/// A checksum says that a note is as it was written, not that it was written by us.
bool can_be(const CodeShape& shape) {
  constexpr int kMaxOccupancy = 32, kMaxCtas = 16;
  return shape.occupancy >= 0 && shape.occupancy <= kMaxOccupancy && shape.ctas >= 1 && shape.ctas <= kMaxCtas;
}

}  // namespace

std::vector<std::byte> write_code_note(const CodeShape& shape, const CacheKey& cubin) {
  BytesOut out;
  out.bytes(cubin);
  out.bytes(shape.identity);
  out.number(static_cast<std::uint32_t>(shape.form));
  out.number(static_cast<std::uint32_t>(shape.occupancy));
  out.number(static_cast<std::uint32_t>(shape.ctas));
  calling::write(out, shape.abi);
  return out.take();
}

bool read_code_note(std::span<const std::byte> note, CodeShape& shape, CacheKey& cubin) {
  BytesIn in(note);
  if (!read(in, cubin) || !read(in, shape.identity)) return false;
  const auto form = in.number<std::uint32_t>();
  if (form >= all_forms().size()) return false;
  shape.form = static_cast<Form>(form);
  shape.occupancy = static_cast<int>(in.number<std::uint32_t>());
  shape.ctas = static_cast<int>(in.number<std::uint32_t>());
  return can_be(shape) && calling::read(in, shape.abi) && in.ended_well();
}

std::optional<RecordingNotes> RecordingNotes::of(const ir::Module& recording, const analysis::LaunchContract& contract,
                                                 std::span<const std::byte> build) {
  auto cache = build.empty() ? std::nullopt : DiskCache::of_user();
  if (!cache) return std::nullopt;
  return RecordingNotes(std::move(*cache), recording_for_disk(recording, contract, build));
}

std::optional<analysis::LaunchPredicates> RecordingNotes::predicates() const {
  const auto note = cache_.find_note(recording_);
  return note ? analysis::LaunchPredicates::read(*note) : std::nullopt;
}

void RecordingNotes::keep(const analysis::LaunchPredicates& predicates) const {
  cache_.store_note(recording_, predicates.bytes());
}

std::optional<CacheKey> RecordingNotes::place(std::uint64_t predicates, const passes::Target& gpu,
                                              const std::string& hints) const {
  const auto assembler = assembler_for(machine::gpu_name(gpu.sm));
  if (!assembler) return std::nullopt;
  return name_on_disk(recording_, predicates, gpu, hints, *assembler);
}

std::optional<RecordingNotes::Known> RecordingNotes::code(const CacheKey& place) const {
  const auto note = cache_.find_note(place);
  Known known;
  if (!note || !read_code_note(*note, known.shape, known.name)) return std::nullopt;
  auto found = cache_.find(known.name);
  if (!found) return std::nullopt;
  known.code = std::move(*found);
  return known;
}

void RecordingNotes::keep(const CacheKey& place, const CodeShape& shape, const CacheKey& cubin) const {
  cache_.store_note(place, write_code_note(shape, cubin));
}

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

/// They are not there if they were evicted or damaged: without them every start would analyze again.
void CodeStores::keep_predicates() const {
  if (!kept_) notes_->keep(predicates_);
}

CodeStores::Answer CodeStores::find(const CodeRequest& r) const {
  Answer answer;
  if (!bundles().empty()) {
    answer.code = find_bundled(r, r.predicates);
    const std::uint64_t common = predicates_.common_part(r.predicates);
    if (!answer.code && common != r.predicates) answer.code = find_bundled(r, common);
    return answer;
  }
  if (!notes_ || env(Env::DUMP) != nullptr) return answer;  // to be dumped, the stages must run
  answer.place = notes_->place(r.predicates, r.target, r.hints);
  auto known = answer.place ? notes_->code(*answer.place) : std::nullopt;
  if (!known) return answer;
  keep_predicates();
  answer.code = StoredCode{r.predicates, r.target, std::move(known->shape), known->name, std::move(known->code)};
  return answer;
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
      return StoredCode{predicates, made_for, std::move(found), std::nullopt, std::move(*ready)};
    }
  }
  return std::nullopt;
}

void CodeStores::put(const CacheKey& place, const CodeShape& made, const CacheKey& cubin) const {
  keep_predicates();
  notes_->keep(place, made, cubin);
}

}  // namespace tessera::jit
