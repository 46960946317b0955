// Tensors over a mesh and their collectives as a program uses them: one thread with several ranks, and a thread for
// each rank.
#include "tessera/mesh.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

#include "api/exact_sum.hpp"
#include "host/expect_error.hpp"
#include "mesh/ranks.hpp"
#include "tessera/mesh/processes.hpp"

namespace tessera {
namespace THIS_FILE {

using test::on_ranks;

/// Runs f(mesh) for one member with n ranks, and for n threads.
void on_meshes(int n, const std::function<void(const Mesh&)>& f) {
  SCOPED_TRACE(n);
  f(Mesh::cpu(n));
  on_ranks(Mesh::threads(n, Device::cpu(), 20'000), f);
}

template <class T, int R>
std::vector<T> values(const Tensor<T, R>& t) {
  return host(t).sync();
}
template <Element T, int R>
std::vector<T> values(Replicated<T, R>&& r) {
  const int rank = r.mesh().first_rank();
  return host(std::move(r).local(rank).sync()).sync();
}

template <int B>
void scaled(Mut<f32, 1, B> y, Scalar<f32> a, In<f32, dyn, dyn> x) {
  y.store(a * x.load_like(y));
}
template <int B>
void doubled(Mut<f32, 1, B> y) {
  y.store(2.0f * y.load());
}
template <int B>
void both(Mut<f32, 1, B> y, Mut<f32, 1, B> z, In<f32, dyn, dyn> x, In<f32, dyn, dyn> w) {
  y.store(x.load_like(y) + w.load_like(y));
  z.store(z.load() - x.load_like(z));
}

template <int B>
void rejected(Mut<f32, 1, B> y) {
  check(sum(y.load(), axis<1>) > 1.0f, "the sum is above one");
  y.store(y.load());
}

template <int B>
void totals(Acc<reproducible<f32>, dyn> sums, In<f32, dyn> x) {
  auto X = x.tiles(shape<B>);
  for (auto b : range(block_id<1>(), X.count(0), num_blocks())) sums.add(0, X.load(b));
}

template <int B>
void column_sums(Acc<reproducible<f32>, 1, dyn> sums, In<f32, dyn, dyn> x) {
  auto X = x.tiles(shape<B, 16>);
  for (auto b : range(block_id<1>(), X.count(0), num_blocks())) sums.add(0, iota<i32, 1, 16>(axis<1>), X.load(b, 0));
}

TEST(Mesh, KnowsItsRanks) {
  const Mesh mesh = Mesh::cpu(4);
  EXPECT_EQ(mesh.size(), 4);
  EXPECT_EQ(mesh.first_rank(), 0);
  EXPECT_EQ(mesh.local_ranks(), 4);
  EXPECT_EQ(mesh.device(3), Device::cpu());
  EXPECT_FALSE(mesh.stream(0) == mesh.stream(1));
  EXPECT_TRUE(mesh == Mesh(mesh));
  EXPECT_FALSE(mesh == Mesh::cpu(4));
  EXPECT_ERROR(MeshError, Mesh::cpu(0), "1 to 4096");
  EXPECT_ERROR(MeshError, static_cast<void>(mesh.device(4)), "rank 4", "the ranks 0 to 3");
  EXPECT_ERROR(MeshError, static_cast<void>(mesh.across_replicas()), "one replica");
}

TEST(Mesh, ShardsAndGathersAlongEveryAxis) {
  for (const int n : {1, 2, 3}) {
    on_meshes(n, [&](const Mesh& mesh) {
      const std::int64_t d = 6 * n;
      auto x = random::normal<f32>({d, 2 * d, d}, 1).sync();
      const auto expected = values(x);
      auto a = shard(x, axis<0>, mesh).sync();
      auto b = shard(x, axis<1>, mesh).sync();
      auto c = shard(x, axis<2>, mesh).sync();
      EXPECT_EQ(a.dims(), (Dims<3>({d, 2 * d, d})));
      EXPECT_EQ(b.part_dims(), (Dims<3>({d, 12, d})));
      EXPECT_EQ(values(all_gather(a).sync()), expected);
      EXPECT_EQ(values(all_gather(std::move(b)).sync()), expected);
      EXPECT_EQ(values(all_gather(c).sync()), expected);
      EXPECT_EQ(values(all_gather(std::move(c)).sync()), expected) << "it stays where it was not given";
      EXPECT_ERROR(BorrowError, static_cast<void>(b.dims()), "Sharded is empty");
      EXPECT_ERROR(BorrowError, static_cast<void>(all_gather(std::move(c))), "Sharded is empty");
    });
  }
}

TEST(Mesh, ReproducibleSumsHaveTheSameBitsForEveryNumberOfRanks) {
  constexpr std::int64_t count = 2520;
  std::vector<f32> numbers = values(random::normal<f32>({count}, 7).sync());
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::ldexp(numbers[i], static_cast<int>(i % 80) - 40);
  const f32 wanted = test::exact_sum(numbers);
  for (const int n : {1, 2, 3, 4, 7}) {
    on_meshes(n, [&](const Mesh& mesh) {
      auto x = shard(from(numbers, {count}).sync(), axis<0>, mesh).sync();
      auto partial = kernel<totals<64>>.blocks(3)(partial_zeros<reproducible<f32>>({1}, mesh), x).sync();
      const Replicated<f32, 1> sums = rounded<f32>(all_reduce(std::move(partial)).sync()).sync();
      for (int rank = mesh.first_rank(); rank < mesh.first_rank() + mesh.local_ranks(); ++rank)
        EXPECT_TRUE(test::same_float(host(sums.part(rank)).sync()[0], wanted)) << rank;
    });
  }
}

// Each rank rounds the sums that it owns: of columns, whose rows are divided among the ranks.
TEST(Mesh, ReproducibleSumsThatAreScattered) {
  constexpr std::int64_t rows = 84, columns = 12;
  std::vector<f32> numbers = values(random::normal<f32>({rows, columns}, 8).sync());
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::ldexp(numbers[i], static_cast<int>(i % 70) - 140);
  std::vector<f32> wanted;
  for (std::size_t c = 0; c < columns; ++c) {
    std::vector<f32> column;
    for (std::size_t r = 0; r < rows; ++r) column.push_back(numbers[columns * r + c]);
    wanted.push_back(test::exact_sum(column));
  }
  for (const int n : {1, 2, 3, 4}) {
    on_meshes(n, [&](const Mesh& mesh) {
      auto x = shard(from(numbers, {rows, columns}).sync(), axis<0>, mesh).sync();
      auto partial = kernel<column_sums<16>>.blocks(2)(partial_zeros<reproducible<f32>>({1, columns}, mesh), x).sync();
      const Sharded<i64, 3, 2> mine = reduce_scatter(std::move(partial), axis<2>).sync();
      const Sharded<f32, 2, 1> sums = rounded<f32>(mine).sync();
      EXPECT_EQ(values(all_gather(sums).sync()), wanted);
    });
  }
}

TEST(Mesh, TensorsThatAreNoSumsAreNotRounded) {
  const Mesh mesh = Mesh::cpu(2);
  EXPECT_ERROR(ShapeError, (void)rounded<f32>(replicate(zeros<i64>({4, 3}).sync(), mesh).sync()), "has 10 elements",
               "mesh_test.cpp");
}

TEST(Mesh, LinearLayersInParallelAreTheWhole) {
  for (const int n : {1, 2, 4}) {
    on_meshes(n, [&](const Mesh& mesh) {
      auto x = random::normal<f32>({3, 48}, 1).sync();
      auto w = random::normal<f32>({32, 48}, 2).sync();
      auto v = random::normal<f32>({40, 32}, 3).sync();
      const auto expected = host(kernels::linear(kernels::linear(x, w).sync(), v).sync()).sync();
      auto xr = replicate(x, mesh).sync();
      auto h = kernels::linear(xr, shard(w, axis<0>, mesh).sync()).sync();
      auto p = kernels::linear(h, shard(v, axis<1>, mesh).sync()).sync();
      auto q = kernels::linear(h, shard(v, axis<1>, mesh).sync()).sync();
      const auto whole = values(all_reduce(std::move(p)).sync());
      ASSERT_EQ(whole.size(), expected.size());
      for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(whole[i], expected[i], 2e-3) << i;
      EXPECT_EQ(values(all_gather(reduce_scatter(std::move(q), axis<1>).sync()).sync()), whole);
    });
  }
}

TEST(Mesh, LaunchesRunOnEachRank) {
  on_meshes(3, [](const Mesh& mesh) {
    auto x = random::normal<f32>({6, 64}, 1).sync();
    auto w = random::normal<f32>({2, 64}, 2).sync();
    const auto xs = values(x), ws = values(w);
    auto s = shard(x, axis<0>, mesh).sync();
    auto wr = replicate(w, mesh).sync();
    Sharded<f32, 2, 0> r = kernel<scaled<64>>(empty_like(s), 2.0f, s).sync();
    r = kernel<doubled<64>>(std::move(r)).sync();
    kernel<doubled<64>>(mut(r)).sync();
    auto [y, z] = kernel<both<64>>(empty_like(s), std::move(r), s, wr).sync();
    const auto zs = values(all_gather(z).sync()), ys = values(all_gather(y).sync());
    for (std::size_t i = 0; i < xs.size(); ++i) {
      EXPECT_EQ(zs[i], 8 * xs[i] - xs[i]) << i;
      EXPECT_EQ(ys[i], xs[i] + ws[i % ws.size()]) << i;
    }
    Replicated<f32, 2> same = kernel<scaled<64>>(empty_like(wr), 3.0f, wr).sync();
    EXPECT_EQ(values(std::move(same))[1], 3 * ws[1]);
    auto p = kernel<doubled<64>>(partial_zeros<f32>({2, 64}, mesh)).sync();
    EXPECT_EQ(values(all_reduce(std::move(p)).sync()), std::vector<f32>(128, 0.0F));
  });
}

TEST(Mesh, BroadcastTakesTheRootsElements) {
  on_ranks(Mesh::threads(3, Device::cpu(), 20'000), [](const Mesh& mesh) {
    auto x = full<i32>({5}, mesh.first_rank() + 10).sync();
    for (int root = 0; root < 3; ++root)
      EXPECT_EQ(values(broadcast(x, root, mesh).sync()), std::vector<i32>(5, root + 10));
    EXPECT_ERROR(ShapeError, static_cast<void>(broadcast(x, 3, mesh)), "no rank 3", "0 to 2");
    barrier(mesh).sync();
  });
}

TEST(Mesh, CollectivesAreOrderedBehindTheWorkOfOtherStreams) {
  on_ranks(Mesh::threads(2, Device::cpu(), 20'000), [](const Mesh& mesh) {
    Stream other(Device::cpu());
    auto x = zeros<f32>({2, 64}).sync();
    auto s = shard(x, axis<0>, mesh).sync();
    for (int i = 0; i < 50; ++i) {
      s = kernel<scaled<64>>(std::move(s), 1.0f, full<f32>({2, 64}, static_cast<float>(i), axis<0>, mesh)).on(other);
      auto whole = all_gather(s).on(mesh.stream(mesh.first_rank()));
      kernel<doubled<64>>(mut(s)).on(other);  // waits until the gather has read
      EXPECT_EQ(values(std::move(whole)), std::vector<f32>(128, static_cast<float>(i)));
    }
  });
}

// Two collectives whose operands are ready at different times meet in the order in which they were made.
TEST(Mesh, CollectivesOnTwoStreamsKeepTheirOrder) {
  on_ranks(Mesh::threads(2, Device::cpu(), 20'000), [](const Mesh& mesh) {
    Stream a(Device::cpu()), b(Device::cpu());
    for (int i = 0; i < 100; ++i) {
      auto slow = full<f32>({2, 64}, 1.0f, axis<0>, mesh).on(a);
      for (int k = 0; k < (mesh.first_rank() == i % 2 ? 20 : 0); ++k) kernel<doubled<64>>(mut(slow)).on(a);
      auto first = all_gather(slow).on(a);
      auto second = broadcast(full<i32>({8}, i).on(b), 1, mesh).on(b);
      EXPECT_EQ(values(std::move(second)), std::vector<i32>(8, i));
      EXPECT_EQ(values(std::move(first)).size(), 128U);
    }
  });
}

// A flow is the same program; a graph is captured by a thread with one rank.
TEST(Mesh, FlowsAndGraphs) {
  on_ranks(Mesh::threads(2, Device::cpu(), 20'000), [](const Mesh& mesh) {
    auto x = random::normal<f32>({2, 64}, 4).sync();
    const auto xs = values(x);
    auto flow = [](Mesh m, Tensor<f32, 2> start) -> Flow<Tensor<f32, 2>> {
      auto s = co_await shard(start, axis<0>, m);
      s = co_await kernel<doubled<64>>(std::move(s));
      auto whole = co_await all_gather(std::move(s));
      co_return co_await std::move(whole).local(m.first_rank());
    };
    const auto once = values(flow(mesh, clone(x).sync()).sync());
    for (std::size_t i = 0; i < xs.size(); ++i) EXPECT_EQ(once[i], 2 * xs[i]);
    auto graph = capture([&](Tensor<f32, 2>& t) { return flow(mesh, std::move(t)); }, clone(x).sync());
    for (int i = 0; i < 3; ++i) {
      graph.replay().sync(mesh.stream(mesh.first_rank()));
      EXPECT_EQ(values(graph.output()), once);
    }
  });
}

// The default stream of the CPU is one for all threads: a rank that waits in it would keep the others out.
TEST(Mesh, AGraphWithCollectivesIsNotReplayedOnTheDefaultStream) {
  on_ranks(Mesh::threads(2, Device::cpu(), 20'000), [](const Mesh& mesh) {
    auto flow = [](Mesh m, Tensor<f32, 2> start) -> Flow<Tensor<f32, 2>> {
      auto s = co_await shard(start, axis<0>, m);
      co_return co_await (co_await all_gather(std::move(s))).local(m.first_rank());
    };
    auto graph = capture([&](Tensor<f32, 2>& t) { return flow(mesh, std::move(t)); }, zeros<f32>({2, 64}).sync());
    EXPECT_ERROR(MeshError, graph.replay().sync(), "default stream", "mesh.stream(rank)");
  });
}

// A replay that must skip its collective, after one that did not, tells the others.
TEST(Mesh, AReplayWhoseOperandHasFailedIsTold) {
  on_ranks(Mesh::threads(2, Device::cpu(), 20'000), [](const Mesh& mesh) {
    const Stream own = mesh.stream(mesh.first_rank());
    auto flow = [](Mesh m, Tensor<f32, 2>& x) -> Flow<Tensor<f32, 2>> {
      auto s = co_await shard(x, axis<0>, m);
      s = co_await kernel<rejected<64>>(std::move(s));
      co_return co_await (co_await all_gather(std::move(s))).local(m.first_rank());
    };
    auto graph = capture([&](Tensor<f32, 2>& t) { return flow(mesh, t); }, ones<f32>({2, 64}).sync());
    graph.replay().sync(own);
    if (mesh.first_rank() == 1) copy_into(mut(graph.input<0>()), zeros<f32>({2, 64})).sync(own);
    if (mesh.first_rank() == 0) {
      EXPECT_ERROR(MeshError, graph.replay().sync(own), "rank 1: could not take part in all_gather");
    } else {
      EXPECT_THROW(graph.replay().sync(own), Error);
    }
  });
}

TEST(Mesh, WhatDoesNotFitIsRejectedAndNothingIsLost) {
  const Mesh mesh = Mesh::cpu(4), other = Mesh::cpu(4);
  auto x = random::normal<f32>({8, 64}, 1).sync();
  auto s = shard(x, axis<0>, mesh).sync();
  const auto before = values(all_gather(s).sync());
  EXPECT_ERROR(ShapeError, static_cast<void>(shard(x.slice<0>(0, 6), axis<0>, mesh)), "the extent is 6",
               "multiple of 4", "Pad it to 8");
  auto o = shard(x, axis<0>, other).sync();
  EXPECT_ERROR(ShapeError, static_cast<void>(kernel<scaled<64>>(std::move(o), 1.0f, s)), "tensors of one mesh",
               "mesh_test.cpp");
  EXPECT_EQ(values(all_gather(o).sync()), before) << "what was given to a rejected launch is still there";
  EXPECT_ERROR(ShapeError, static_cast<void>(kernel<scaled<64>>.blocks(1)(empty_like(s), 1.0f, s)), "blocks");
  EXPECT_EQ(values(all_gather(s).sync()), before);
  EXPECT_ERROR(BorrowError, static_cast<void>(kernel<scaled<64>>(std::move(s), 1.0f, s)), "same storage",
               "mesh_test.cpp");
  EXPECT_EQ(values(all_gather(s).sync()), before);
  auto pending = kernel<doubled<64>>(mut(s));
  EXPECT_ERROR(BorrowError, static_cast<void>(all_gather(s)), "doubled", "all_gather");
  std::move(pending).sync();
  auto gathering = all_gather(s);
  EXPECT_ERROR(BorrowError, static_cast<void>(kernel<doubled<64>>(mut(s))), "doubled", "all_gather");
  EXPECT_EQ(values(std::move(gathering).sync()).size(), before.size());
  EXPECT_ERROR(MeshError, static_cast<void>(s.part(4)), "rank 4");
}

/// Members of a mesh wait for each other up to its limit, those of its companion for any time.
TEST(Mesh, ACompanionHasTheRanksAndNoLimit) {
  static constexpr int kLimit = 2'000, kLate = 2'400;  // ms; who is not late comes within them on a busy machine, too
  const auto late_barrier = [](const Mesh& mesh) {
    if (mesh.first_rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(kLate));
    barrier(mesh).sync();
  };
  on_ranks(Mesh::threads(2, Device::cpu(), kLimit), [&](const Mesh& mesh) {
    const Mesh other = mesh::companion(mesh);
    EXPECT_FALSE(other == mesh);
    EXPECT_EQ(other.size(), 2);
    EXPECT_EQ(other.first_rank(), mesh.first_rank());
    late_barrier(other);
    EXPECT_FALSE(other.failure());
  });
  EXPECT_ERROR(MeshError, on_ranks(Mesh::threads(2, Device::cpu(), kLimit), late_barrier), "rank 1");
}

TEST(Mesh, OneRankThatFailsEndsTheOthers) {
  on_ranks(Mesh::threads(3, Device::cpu(), 20'000), [](const Mesh& mesh) {
    auto s = zeros<f32>({3, 64}, axis<0>, mesh).sync();
    if (mesh.first_rank() == 1) {
      EXPECT_EQ(mesh.failure(), std::nullopt);
      mesh.abort("could not read its file");
      EXPECT_ERROR(MeshError, static_cast<void>(all_gather(s).sync()), "rank 1: could not read its file");
      return;
    }
    EXPECT_ERROR(MeshError, static_cast<void>(all_gather(s).sync()), "rank 1: could not read its file");
    EXPECT_ERROR(MeshError, static_cast<void>(barrier(mesh).sync()), "rank 1: could not read its file");
    EXPECT_EQ(mesh.failure(), "rank 1: could not read its file");
  });
}

// A rank whose input carries a failure does not come to the collective; the others learn of it at once.
TEST(Mesh, AFailedOperandIsToldToTheOthers) {
  on_ranks(Mesh::threads(2, Device::cpu(), 20'000), [](const Mesh& mesh) {
    auto s = zeros<f32>({2, 64}, axis<0>, mesh).sync();
    if (mesh.first_rank() == 0) {
      EXPECT_ERROR(MeshError, static_cast<void>(all_gather(s).sync()), "rank 1: could not take part in all_gather");
      return;
    }
    s = kernel<rejected<64>>(std::move(s)).on(Stream(Device::cpu()));
    EXPECT_THROW(static_cast<void>(all_gather(s).sync()), DeviceError);
  });
}

}  // namespace THIS_FILE
}  // namespace tessera
