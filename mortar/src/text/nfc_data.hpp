// The data of canonical normalization, for nfc.cpp and the table of characters.
#pragma once
#include <vector>

namespace mortar::text {

/// The code points that may be different, or combine with what is before them, in NFC.
std::vector<char32_t> changed_in_nfc();

}  // namespace mortar::text
