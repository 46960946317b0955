// The note's fields one after the other; the ABI last.
#include "jit/store/code_note.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "tessera/abi/kernel_abi.hpp"
#include "tessera/base/bytes.hpp"
#include "tessera/jit/forms.hpp"

namespace tessera::jit {
namespace {

bool read(BytesIn& in, std::array<std::byte, 32>& digest) {
  const auto bytes = in.bytes(digest.size());
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return in.good();
}

/// A checksum says that a note is as it was written, not that it was written by us.
bool can_be(const CodeShape& shape) {
  constexpr int kMostOccupancy = 32, kMostCtas = 16;
  return shape.occupancy >= 0 && shape.occupancy <= kMostOccupancy && shape.ctas >= 1 && shape.ctas <= kMostCtas;
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

}  // namespace tessera::jit
