// The kernel language: everything that may stand in a kernel, and trace<K>.
#pragma once
#include "tessera/lang/acc.hpp"
#include "tessera/lang/block.hpp"
#include "tessera/lang/check.hpp"
#include "tessera/lang/in.hpp"
#include "tessera/lang/kernel_signature.hpp"
#include "tessera/lang/mut.hpp"
#include "tessera/lang/mut_tiles.hpp"
#include "tessera/lang/print.hpp"
#include "tessera/lang/random.hpp"
#include "tessera/lang/require.hpp"
#include "tessera/lang/unsafe.hpp"
