// Two kinds of entries: the obligations of a recording as a program (one), and its code (one per set of obligations
// that hold, target and hints). The cubin is not in the note but named by it: recordings that become the same code
// share it.
#include "jit/store/recording_notes.hpp"

#include "jit/store/code_key.hpp"
#include "jit/store/code_note.hpp"
#include "tessera/jit/assembler.hpp"
#include "tessera/machine/machine.hpp"

namespace tessera::jit {

std::optional<RecordingNotes> RecordingNotes::of(const ir::Module& recording, const analysis::LaunchContract& contract,
                                                 std::span<const std::byte> build) {
  if (build.empty() || !DiskCache::of_user()) return std::nullopt;
  return RecordingNotes(recording_for_disk(recording, contract, build));
}

std::optional<analysis::LaunchPredicates> RecordingNotes::predicates() const {
  const auto cache = DiskCache::of_user();
  const auto note = cache ? cache->find_note(recording_) : std::nullopt;
  return note ? analysis::LaunchPredicates::read(*note) : std::nullopt;
}

void RecordingNotes::keep(const analysis::LaunchPredicates& conditions) const {
  if (const auto cache = DiskCache::of_user()) cache->store_note(recording_, conditions.bytes());
}

/// Empty without an assembler: its cubin could not be found either.
std::optional<CacheKey> RecordingNotes::code_key(std::uint64_t predicates, const passes::Target& gpu,
                                                 const std::string& hints) const {
  const auto assembler = assembler_for(machine::gpu_name(gpu.sm));
  if (!assembler) return std::nullopt;
  return name_of({recording_, predicates, gpu, hints, Form::Chosen, maker_of(*assembler)});
}

std::optional<RecordingNotes::Known> RecordingNotes::code(std::uint64_t predicates, const passes::Target& gpu,
                                                          const std::string& hints) const {
  const auto cache = DiskCache::of_user();
  const auto key = cache ? code_key(predicates, gpu, hints) : std::nullopt;
  const auto note = key ? cache->find_note(*key) : std::nullopt;
  Known known;
  CacheKey cubin;
  if (!note || !read_code_note(*note, known.shape, cubin)) return std::nullopt;
  auto found = cache->find(cubin);
  if (!found) return std::nullopt;
  known.code = std::move(*found);
  return known;
}

void RecordingNotes::keep(std::uint64_t predicates, const passes::Target& gpu, const std::string& hints,
                          const CodeShape& shape, const CacheKey& cubin) const {
  const auto cache = DiskCache::of_user();
  if (const auto key = cache ? code_key(predicates, gpu, hints) : std::nullopt)
    cache->store_note(*key, write_code_note(shape, cubin));
}

}  // namespace tessera::jit
