// Tile IR as a library: types, operations, verifier, text and bytecode. Link tessera::ir alone to use it without the
// rest.
#pragma once
#include "tessera/ir/bytecode.hpp"
#include "tessera/ir/operation.hpp"
#include "tessera/ir/parser.hpp"
#include "tessera/ir/printer.hpp"
#include "tessera/ir/verifier.hpp"
