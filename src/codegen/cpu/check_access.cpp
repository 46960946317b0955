// Checks of a view access before it runs, in checked mode: indices outside the view, false claims of `inbounds`.
#include "codegen/cpu/check_access.hpp"

#include "codegen/cpu/tile_instr.hpp"
#include "tessera/base/format.hpp"

namespace tessera::cpu {
namespace {

void check_rows(const Frame& f, const ViewAccess& a, const Site& site) {
  const auto& axis = a.axes[static_cast<std::size_t>(a.sparse)];
  if (!axis.inbounds) return;
  const std::int64_t extent = f.at<std::int64_t>(a.view)[1 + axis.tensor_axis];
  for (std::int64_t i = 0; i < axis.tile; ++i) {
    const std::int64_t row = sparse_index(f, a, i);
    if (row < 0 || row >= extent)
      f.checker->fail(concat("the compiler claims that this ", site.verb, " is inside the tensor, but index ", row,
                             " along axis ", a.sparse, " is outside its extent ", extent),
                      site);
  }
}

}  // namespace

void check_view_claims(const Frame& f, const ViewAccess& a, const Window& w, const Site& site) {
  const auto* words = f.at<std::int64_t>(a.view);
  for (std::size_t i = 0; i < a.axes.size(); ++i) {
    if (static_cast<int>(i) == a.sparse) {
      check_rows(f, a, site);
      continue;
    }
    const auto& axis = a.axes[i];
    const std::int64_t extent = words[1 + axis.tensor_axis];
    const std::int64_t tiles = extent <= 0 ? 0 : (extent - 1) / axis.step + 1;
    const std::uint64_t index = read_unsigned(f, axis.index, axis.index_elem);
    if (index >= static_cast<std::uint64_t>(tiles))
      f.checker->fail(concat(site.verb, a.sparse < 0 ? " at tile index " : " at index ",
                             read_signed(f, axis.index, axis.index_elem), " along axis ", i, ", but the view has ",
                             tiles, a.sparse < 0 ? " tiles there" : " elements there"),
                      site);
    if (axis.inbounds && w.inside[i] < axis.tile)
      f.checker->fail(concat("the compiler claims that this ", site.verb, " is inside the tensor, but along axis ", i,
                             " it covers elements ", w.origin[i], " to ", w.origin[i] + axis.tile - 1, " of ", extent),
                      site);
  }
}

}  // namespace tessera::cpu
