// Names of files that were read: locations hold pointers to them.
#pragma once
#include <string_view>

namespace tessera::ir {

/// The text as a C string that lives as long as the process; equal texts are one. From any thread.
const char* kept_text(std::string_view text);

}  // namespace tessera::ir
