// Reading what the assembler writes on stderr.
#pragma once
#include <string>
#include <vector>

#include "tessera/base/source_location.hpp"

namespace tessera::tileiras {

struct Messages {
  std::vector<std::string> warnings;
  std::string first_error;  ///< without its location
  SourceLocation where;     ///< of the first error that has one; the file name is interned
  bool register_pressure = false;
};
Messages read_messages(const std::string& stderr_text);

}  // namespace tessera::tileiras
