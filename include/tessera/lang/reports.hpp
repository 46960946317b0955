// print, check and require, without templates.
#pragma once
#include <span>
#include <string_view>

#include "tessera/lang/access.hpp"

namespace tessera::lang {

struct PrintArgument {
  ir::Value value;
  ElementType type;
};
/// `format` has one `{}` per argument.
void print_tiles(std::string_view format, std::span<const PrintArgument>, SourceLocation);

void check_tile(ir::Value condition, std::string_view message, SourceLocation);
void check_while_recording(bool condition, std::string_view message, SourceLocation);

/// Throws TraceError if the condition depends on anything known on the device only.
void require_value(ir::Value condition, std::string_view message, SourceLocation);
void require_while_recording(bool condition, std::string_view message, SourceLocation);

}  // namespace tessera::lang
