// Two kinds of notes: the obligations of a recording as a program (one note), and what its code is (one per answer to
// them, target and set of hints). The cubin is not in the note but named by it: recordings that become the same code
// share it.
#include "jit/recording_notes.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <unordered_set>

#include "jit/cuda_work.hpp"
#include "jit/recording_key.hpp"
#include "tessera/base/bytes.hpp"
#include "tessera/jit/cubin.hpp"
#include "tessera/runtime/cuda.hpp"

namespace tessera::jit {
namespace {

/// Texts of source locations live as long as the process.
const char* interned(std::string text) {
  static std::mutex mutex;
  static auto* const all = new std::unordered_set<std::string>;
  const std::lock_guard lock(mutex);
  return all->insert(std::move(text)).first->c_str();
}

std::vector<std::byte> write(const CodeShape& shape, const CacheKey& cubin) {
  BytesOut out;
  out.bytes(cubin);
  out.bytes(shape.identity);
  out.text(shape.entry);
  out.number(static_cast<std::uint32_t>(shape.num_args));
  out.number(static_cast<std::uint32_t>(shape.starts_early));
  out.number(static_cast<std::uint32_t>(shape.form));
  out.number(static_cast<std::uint32_t>(shape.launch_word));
  out.number(static_cast<std::uint32_t>(shape.early_reads.size()));
  for (const int argument : shape.early_reads) out.number(static_cast<std::uint32_t>(argument));
  out.number(shape.persistent_blocks);
  out.number(static_cast<std::uint32_t>(shape.checks.size()));
  for (const passes::LoweredCheck& check : shape.checks) {
    out.text(check.message);
    out.text(check.where.file);
    out.text(check.where.function);
    out.number(check.where.line);
    out.number(check.where.column);
  }
  return out.take();
}

bool read(BytesIn& in, std::array<std::byte, 32>& digest) {
  const auto bytes = in.bytes(digest.size());
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return in.good();
}

/// A checksum says that a note is as it was written, not that it was written by us: a launch must survive what it says.
bool can_be(const CodeShape& shape) {
  constexpr std::uint64_t kMostBlocks = 0x7FFFFFFF;  // of a grid along x
  const auto is_argument = [&](int n) { return n >= 0 && n < shape.num_args; };
  if (shape.early_reads.size() > runtime::cuda::kMostEarlyReads || (!shape.launch_word && !shape.early_reads.empty()) ||
      !std::all_of(shape.early_reads.begin(), shape.early_reads.end(), is_argument))
    return false;
  return !shape.entry.empty() && shape.num_args >= 0 && shape.num_args <= runtime::cuda::kMaxArguments &&
         shape.persistent_blocks >= 1 && shape.persistent_blocks <= kMostBlocks;
}

bool read(std::span<const std::byte> note, CodeShape& shape, CacheKey& cubin) {
  BytesIn in(note);
  if (!read(in, cubin) || !read(in, shape.identity)) return false;
  shape.entry = in.text();
  shape.num_args = static_cast<int>(in.number<std::uint32_t>());
  shape.starts_early = in.number<std::uint32_t>() != 0;
  const auto form = in.number<std::uint32_t>();
  if (form > static_cast<std::uint32_t>(Form::Bare)) return false;
  shape.form = static_cast<Form>(form);
  shape.launch_word = in.number<std::uint32_t>() != 0;
  for (auto left = in.number<std::uint32_t>(); left != 0 && in.good(); --left)
    shape.early_reads.push_back(static_cast<int>(in.number<std::uint32_t>()));
  shape.persistent_blocks = in.number<std::uint64_t>();
  for (auto left = in.number<std::uint32_t>(); left != 0 && in.good(); --left) {
    passes::LoweredCheck check;
    check.message = in.text();
    check.where.file = interned(in.text());
    check.where.function = interned(in.text());
    check.where.line = in.number<std::uint32_t>();
    check.where.column = in.number<std::uint32_t>();
    shape.checks.push_back(std::move(check));
  }
  return in.ended_well() && can_be(shape);
}

}  // namespace

std::optional<RecordingNotes> RecordingNotes::of(const ir::Module& recording, const analysis::LaunchContract& contract,
                                                 std::span<const std::byte> build) {
  if (build.empty() || !DiskCache::of_user()) return std::nullopt;
  Sha256 hash;
  hash.add_field("tessera notes 2").add_field(build).add(recording_key(recording, contract));
  return RecordingNotes(hash.finish());
}

std::optional<analysis::LaunchConditions> RecordingNotes::conditions() const {
  const auto cache = DiskCache::of_user();
  const auto note = cache ? cache->find_note(recording_) : std::nullopt;
  return note ? analysis::LaunchConditions::read(*note) : std::nullopt;
}

void RecordingNotes::keep(const analysis::LaunchConditions& conditions) const {
  if (const auto cache = DiskCache::of_user()) cache->store_note(recording_, conditions.bytes());
}

/// Empty without an assembler: its cubin could not be found either.
std::optional<CacheKey> RecordingNotes::code_key(std::uint64_t held, const passes::Target& gpu,
                                                 const std::string& hints) const {
  const auto assembler = assembler_for(gpu_name(gpu.sm));
  if (!assembler) return std::nullopt;
  Sha256 hash;
  hash.add_field("code").add(recording_).add_number(held).add_field(hints);
  for (const int n : {gpu.sm, gpu.multiprocessors, gpu.bytecode_minor, assembler->major, assembler->minor})
    hash.add_number(static_cast<std::uint64_t>(n));
  return hash.add_field(assembler->identity).finish();
}

std::optional<RecordingNotes::Known> RecordingNotes::code(std::uint64_t held, const passes::Target& gpu,
                                                          const std::string& hints) const {
  const auto cache = DiskCache::of_user();
  const auto key = cache ? code_key(held, gpu, hints) : std::nullopt;
  const auto note = key ? cache->find_note(*key) : std::nullopt;
  Known known;
  CacheKey cubin;
  if (!note || !read(*note, known.shape, cubin)) return std::nullopt;
  auto found = cache->find(cubin);
  if (!found) return std::nullopt;
  known.code = std::move(*found);
  return known;
}

void RecordingNotes::keep(std::uint64_t held, const passes::Target& gpu, const std::string& hints,
                          const CodeShape& shape, const CacheKey& cubin) const {
  const auto cache = DiskCache::of_user();
  if (const auto key = cache ? code_key(held, gpu, hints) : std::nullopt) cache->store_note(*key, write(shape, cubin));
}

}  // namespace tessera::jit
