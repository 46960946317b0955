// Moves the recorded locations of a kernel from its launch to its first line.
#include "lang/first_line.hpp"

#include <string_view>

namespace tessera::lang {

void locate_at_first_line(ir::Function& f, SourceLocation launch) {
  const auto is_launch = [&](SourceLocation loc) {
    return loc.line == launch.line && std::string_view(loc.file) == launch.file;
  };
  SourceLocation first;
  ir::walk(f.body(), [&](ir::Operation& op) {
    if (!first.known() && op.loc.known() && !is_launch(op.loc)) first = op.loc;
  });
  if (!first.known()) return;
  first.function = "";
  f.loc = first;
  ir::walk(f.body(), [&](ir::Operation& op) {
    if (is_launch(op.loc)) op.loc = first;
  });
}

}  // namespace tessera::lang
