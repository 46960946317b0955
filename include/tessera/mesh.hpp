// Tensors over several devices, threads, processes and machines: one header.
#pragma once
#include "tessera/kernels/sharded.hpp"
#include "tessera/mesh/collective.hpp"
#include "tessera/mesh/launch.hpp"
#include "tessera/mesh/mesh.hpp"
#include "tessera/mesh/placement.hpp"
#include "tessera/tessera.hpp"
