// A tokenizer for the fuzz targets: all bytes, few merges, the tags of thinking and calls.
#pragma once
#include <string>

#include "fuzz/fuzz.hpp"
#include "mortar/tokenizer.hpp"

namespace tessera::fuzz {

/// A tokenizer.json in the published form, without the tags of calls.
const std::string& small_json();
const mortar::Tokenizer& small_tokenizer();

}  // namespace tessera::fuzz
