// Tile IR's rules: types, operand classes, attributes, regions, dominance, versions.
#pragma once
#include <string>
#include <vector>

#include "tessera/ir/operation.hpp"

namespace tessera::ir {

struct Diagnostic {
  const Operation* op = nullptr;  ///< null: the function or module as a whole
  SourceLocation where;
  std::string message;                 ///< expected and found
  const Function* function = nullptr;  ///< if `op` is null: the function that it is about
  const Global* global = nullptr;      ///< likewise
};
/// All violations, in program order; empty if the module is well formed.
std::vector<Diagnostic> verify(const Module&);
/// Throws CompileError with the first violations.
void verify_or_throw(const Module&);

}  // namespace tessera::ir
