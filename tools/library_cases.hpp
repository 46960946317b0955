// The library's kernels as benchmark cases.
#pragma once
#include <vector>

#include "tessera/measure/measure.hpp"

namespace tessera {

std::vector<measure::Case> library_row_cases();      ///< elementwise, rows, reductions
std::vector<measure::Case> library_product_cases();  ///< matrix products, attention

}  // namespace tessera
