// The names of a kernel's parameters, as the user wrote them: read from the source file, where it is there.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/source_location.hpp"

namespace tessera::jit {

/// The names of the parameters that are arguments of a launch's code (all but Constants), in order; empty where the
/// file cannot be read or the kernel's head is not found in it. `inside`: a line of the kernel's body; `label`:
/// "softmax", without or with template arguments.
std::vector<std::string> parameter_names(const SourceLocation& inside, std::string_view label);

/// The text of a predicate with "arg2." replaced by the name of parameter 2, where there is one.
std::string with_names(const std::string& text, const std::vector<std::string>& names);

}  // namespace tessera::jit
