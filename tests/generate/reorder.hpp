// The operations of a module in another order that its values and tokens allow.
#pragma once
#include "generate/generator.hpp"
#include "tessera/ir/operation.hpp"

namespace tessera::generate {

/// Orders the operations of every block at random, each after what it uses. Memory operations are held by their tokens
/// alone; what has other effects (assertions, waits) keeps its place among its like and among memory operations.
void reorder(ir::Module&, Random&);

}  // namespace tessera::generate
