// The note's fields one after the other; checks and their texts last.
#include "jit/code_note.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tessera/base/bytes.hpp"
#include "tessera/jit/forms.hpp"
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

bool read(BytesIn& in, std::array<std::byte, 32>& digest) {
  const auto bytes = in.bytes(digest.size());
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return in.good();
}

/// A checksum says that a note is as it was written, not that it was written by us: a launch must survive what it says.
bool can_be(const CodeShape& shape) {
  constexpr std::uint64_t kMostBlocks = 0x7FFFFFFF;  // of a grid along x
  constexpr int kMostOccupancy = 32, kMostCtas = 16;
  const auto is_argument = [&](int n) { return n >= 0 && n < shape.num_args; };
  if (shape.early_reads.size() > runtime::cuda::kMostEarlyReads ||
      (!shape.launch_flags && !shape.early_reads.empty()) || shape.early_alone < 0 ||
      static_cast<std::size_t>(shape.early_alone) > shape.early_reads.size() ||
      !std::all_of(shape.early_reads.begin(), shape.early_reads.end(), is_argument))
    return false;
  const auto is_axis = [&](const passes::GridAxis& a) {
    return a.argument < shape.num_args && a.argument >= -1 && a.extent >= 1;
  };
  return !shape.entry.empty() && shape.num_args >= 0 && shape.num_args <= runtime::cuda::kMaxArguments &&
         shape.persistent_blocks >= 1 && shape.persistent_blocks <= kMostBlocks && shape.occupancy >= 0 &&
         shape.occupancy <= kMostOccupancy && shape.ctas >= 1 && shape.ctas <= kMostCtas && shape.pieces >= 1 &&
         shape.pieces <= kMostBlocks && is_axis(shape.grid.x) && is_axis(shape.grid.y);
}

}  // namespace

std::vector<std::byte> write_code_note(const CodeShape& shape, const CacheKey& cubin) {
  BytesOut out;
  out.bytes(cubin);
  out.bytes(shape.identity);
  out.text(shape.entry);
  out.number(static_cast<std::uint32_t>(shape.num_args));
  out.number(static_cast<std::uint32_t>(shape.programmatic_launch));
  out.number(static_cast<std::uint32_t>(shape.form));
  out.number(static_cast<std::uint32_t>(shape.launch_flags));
  out.number(static_cast<std::uint32_t>(shape.early_reads.size()));
  for (const int argument : shape.early_reads) out.number(static_cast<std::uint32_t>(argument));
  out.number(static_cast<std::uint32_t>(shape.early_alone));
  out.number(shape.persistent_blocks);
  out.number(static_cast<std::uint32_t>(shape.occupancy));
  out.number(static_cast<std::uint32_t>(shape.ctas));
  out.number(shape.pieces);
  out.number(static_cast<std::uint32_t>(shape.grid.used));
  for (const passes::GridAxis& axis : {shape.grid.x, shape.grid.y}) {
    out.number(static_cast<std::uint32_t>(axis.argument));
    out.number(static_cast<std::uint64_t>(axis.extent));
  }
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

bool read_code_note(std::span<const std::byte> note, CodeShape& shape, CacheKey& cubin) {
  BytesIn in(note);
  if (!read(in, cubin) || !read(in, shape.identity)) return false;
  shape.entry = in.text();
  shape.num_args = static_cast<int>(in.number<std::uint32_t>());
  shape.programmatic_launch = in.number<std::uint32_t>() != 0;
  const auto form = in.number<std::uint32_t>();
  if (form >= all_forms().size()) return false;
  shape.form = static_cast<Form>(form);
  shape.launch_flags = in.number<std::uint32_t>() != 0;
  for (auto left = in.number<std::uint32_t>(); left != 0 && in.good(); --left)
    shape.early_reads.push_back(static_cast<int>(in.number<std::uint32_t>()));
  shape.early_alone = static_cast<int>(in.number<std::uint32_t>());
  shape.persistent_blocks = in.number<std::uint64_t>();
  shape.occupancy = static_cast<int>(in.number<std::uint32_t>());
  shape.ctas = static_cast<int>(in.number<std::uint32_t>());
  shape.pieces = in.number<std::uint64_t>();
  shape.grid.used = in.number<std::uint32_t>() != 0;
  for (passes::GridAxis* axis : {&shape.grid.x, &shape.grid.y}) {
    axis->argument = static_cast<int>(in.number<std::uint32_t>());
    axis->extent = static_cast<std::int64_t>(in.number<std::uint64_t>());
  }
  std::vector<std::array<std::string, 2>> places;  // of the checks: file and function
  for (auto left = in.number<std::uint32_t>(); left != 0 && in.good(); --left) {
    passes::LoweredCheck check;
    check.message = in.text();
    places.push_back({in.text(), in.text()});
    check.where.line = in.number<std::uint32_t>();
    check.where.column = in.number<std::uint32_t>();
    shape.checks.push_back(std::move(check));
  }
  if (!in.ended_well() || !can_be(shape)) return false;
  for (std::size_t i = 0; i < places.size(); ++i) {  // only now: they are kept for good
    shape.checks[i].where.file = interned(std::move(places[i][0]));
    shape.checks[i].where.function = interned(std::move(places[i][1]));
  }
  return true;
}

}  // namespace tessera::jit
