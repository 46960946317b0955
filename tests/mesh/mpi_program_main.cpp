// A program over the mesh of the processes that mpirun started, as a user writes it. "program": collectives and
// launches, against the whole; "grid": two replicas of two ranks. "other-version": a rank whose first message is not
// that of this version (Mesh::check_links), until the others have ended the group.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tessera/base/error.hpp"
#include "tessera/mesh.hpp"

using namespace tessera;

namespace {

void require_that(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::_Exit(1);
}

template <int B>
void doubled(Mut<f32, 1, B> y) {
  y.store(2.0f * y.load());
}

int run_program() {
  const Mesh mesh = Mesh::from_environment();
  const int n = mesh.size();
  auto x = random::normal<f32>({3, 64}, 1).sync();
  auto w = random::normal<f32>({16 * n, 64}, 2).sync();
  auto v = random::normal<f32>({8, 16 * n}, 3).sync();
  const auto expected = host(kernels::linear(kernels::linear(x, w).sync(), v).sync()).sync();
  auto h = kernels::linear(replicate(x, mesh).sync(), shard(w, axis<0>, mesh).sync()).sync();
  auto p = kernels::linear(h, shard(v, axis<1>, mesh).sync()).sync();
  const auto got = host(all_reduce(std::move(p)).sync().part(mesh.first_rank())).sync();
  require_that(got.size() == expected.size(), "the number of elements");
  for (std::size_t i = 0; i < got.size(); ++i) require_that(std::abs(got[i] - expected[i]) < 1e-2f, "a product");
  auto s = full<f32>({2 * n, 64}, 1.0f, axis<0>, mesh).sync();
  s = kernel<doubled<64>>(std::move(s)).sync();
  const auto all = host(all_gather(std::move(s)).sync().part(mesh.first_rank())).sync();
  for (const float f : all) require_that(f == 2.0f, "a launch");
  barrier(mesh).sync();
  return 0;
}

int run_grid() {
  const Mesh grid = Mesh::from_environment({.tensor = 2, .replica = 2});
  require_that(grid.size() == 2 && grid.replicas() == 2, "the extents of the grid");
  auto mine = full<i32>({4}, 10 * grid.replica() + grid.first_rank()).sync();
  const auto first = host(broadcast(mine, 0, grid).sync().part(grid.first_rank())).sync();
  require_that(first[0] == 10 * grid.replica(), "rank 0 of the replica");
  const Mesh across = grid.across_replicas();
  const auto other = host(broadcast(mine, 1, across).sync().part(across.first_rank())).sync();
  require_that(other[0] == 10 + grid.first_rank(), "the same rank of the second replica");
  return 0;
}

int run_other_version() {
  const Mesh mesh = Mesh::from_environment();
  while (true) {
    auto version = full<i64>({mesh.size()}, 1, axis<0>, mesh).sync();
    (void)all_gather(std::move(version)).sync().part(mesh.first_rank());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  try {
    if (mode == "program") return run_program();
    if (mode == "grid") return run_grid();
    if (mode == "other-version") return run_other_version();
  } catch (const Error& e) { std::fprintf(stderr, "%s\n", e.what()); }
  return 1;
}
