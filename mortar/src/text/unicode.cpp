// The two-stage table of character classes, made from runs of code points when it is first needed (about a
// millisecond).
#include "text/unicode.hpp"

#include <algorithm>
#include <map>

#include "tessera/base/error.hpp"
#include "text/nfc_data.hpp"
#include "text/utf8.hpp"

namespace mortar::text {
namespace {

constexpr CharClass O = CharClass::Other, L = CharClass::Letter, M = CharClass::Mark, N = CharClass::Number,
                    S = CharClass::Space;
struct ClassRun {
  char32_t first;
  CharClass value;
};
constexpr ClassRun kClasses[] = {
#include "text/unicode_classes.inc"
};

}  // namespace

CharTable::CharTable() {
  std::vector<std::uint8_t> flat(0x110000);
  for (std::size_t i = 0; i < std::size(kClasses); ++i) {
    const char32_t end = i + 1 < std::size(kClasses) ? kClasses[i + 1].first : 0x110000;
    std::fill(flat.begin() + kClasses[i].first, flat.begin() + end, static_cast<std::uint8_t>(kClasses[i].value));
  }
  for (char32_t c : changed_in_nfc()) flat[c] |= 8;
  std::map<std::string_view, std::uint8_t> known;
  for (std::size_t b = 0; b < block_.size(); ++b) {
    const std::string_view block(reinterpret_cast<const char*>(flat.data()) + 256 * b, 256);
    const auto [found, is_new] = known.try_emplace(block, static_cast<std::uint8_t>(known.size()));
    if (is_new)
      blocks_.insert(blocks_.end(), flat.begin() + static_cast<std::ptrdiff_t>(256 * b),
                     flat.begin() + static_cast<std::ptrdiff_t>(256 * (b + 1)));
    block_[b] = found->second;
  }
  if (known.size() > 256) throw tessera::InternalError("the table of character classes needs more than 256 blocks");
}

const CharTable& CharTable::get() {
  static const CharTable table;
  return table;
}

bool is_surely_nfc(std::string_view text) {
  const CharTable& table = CharTable::get();
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const Utf8Unit unit = decode_valid(text.data() + at);
    if (table.may_change_in_nfc(unit.code_point)) return false;
    at += unit.bytes;
  }
  return true;
}

}  // namespace mortar::text
