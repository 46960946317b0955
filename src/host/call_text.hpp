// The text of a call's arguments, read from the user's source file if that is possible; only for error messages.
#pragma once
#include <string>
#include <vector>

#include "tessera/base/source_location.hpp"

namespace tessera::detail {

/// The arguments of the call of kernel<`kernel`...> at `where`, as written. Empty if the file cannot be read or the
/// call is not found there unambiguously.
std::vector<std::string> call_arguments(const std::string& kernel, SourceLocation where);

/// "std::move(y)" and "mut(y)" are y.
std::string bare_name(const std::string& argument);

}  // namespace tessera::detail
