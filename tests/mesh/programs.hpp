// Random programs over a mesh: every tensor of the program has the elements that the same program gives on the host.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/mesh.hpp"

namespace tessera::test_programs {

inline constexpr std::int64_t kSide = 12;  // divisible by 1 to 4 ranks

inline void add_scaled(Mut<i32, 4, 4> y, Scalar<i32> a, In<i32, dyn, dyn> x) { y.store(y.load() + a * x.load_like(y)); }
inline void scale(Mut<i32, 4, 4> y, Scalar<i32> a) { y.store(a * y.load()); }
inline void made(Mut<i32, 4, 4> y, Scalar<i32> a, In<i32, dyn, dyn> x) { y.store(x.load_like(y) - a); }

using Rows = Sharded<i32, 2, 0>;
using Columns = Sharded<i32, 2, 1>;
using Whole = Replicated<i32, 2>;
using Summands = Partial<i32, 2>;

/// A tensor of the program, and what the elements of the whole (the sums of the summands) have to be.
struct Value {
  std::variant<Rows, Columns, Whole, Summands> placed;
  std::vector<std::uint32_t> expected;  // unsigned: wraps
};

class Program {
 public:
  Program(const Mesh& mesh, std::uint32_t seed) : mesh_(mesh), random_(seed) {
    for (int i = 0; i < mesh.local_ranks(); ++i) streams_.push_back(mesh.stream(mesh.first_rank() + i));
    const Device device = mesh.device(mesh.first_rank());
    streams_.emplace_back(device);
    streams_.emplace_back(device);
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
    while (!values_.empty()) check(take());
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint32_t>(n)); }
  const Stream& stream() { return streams_[static_cast<std::size_t>(below(static_cast<int>(streams_.size())))]; }

  Value take() {
    const auto i = static_cast<std::size_t>(below(static_cast<int>(values_.size())));
    Value v = std::move(values_[i]);
    values_.erase(values_.begin() + static_cast<std::ptrdiff_t>(i));
    return v;
  }
  template <class P>
  void add(P&& placed, std::vector<std::uint32_t> expected) {
    values_.push_back({std::forward<P>(placed), std::move(expected)});
  }

  Tensor<i32, 2> source(std::vector<std::uint32_t>& expected) {
    std::vector<i32> elements(kSide * kSide);
    for (i32& e : elements) e = below(1000) - 500;
    expected.assign(elements.begin(), elements.end());
    return from(elements, Dims<2>(kSide, kSide)).sync();
  }

  void make() {
    std::vector<std::uint32_t> expected;
    auto x = source(expected);
    switch (below(4)) {
      case 0: return add(shard(x, axis<0>, mesh_).on(stream()), expected);
      case 1: return add(shard(x, axis<1>, mesh_).on(stream()), expected);
      case 2: return add(replicate(x, mesh_).on(stream()), expected);
      default: {
        const int root = below(mesh_.size());
        return add(broadcast(x, root, mesh_).on(stream()), expected);
      }
    }
  }

  /// Writes it, lent or given, reading another one of the same placement or a replicated one where that fits.
  template <class P>
  void write(Value v, P placed) {
    const int a = below(5) + 1;
    if (below(2) == 0) {
      placed = kernel<scale>(std::move(placed), a).on(stream());
    } else {
      kernel<scale>(mut(placed), a).on(stream());
    }
    for (auto& e : v.expected) e *= static_cast<std::uint32_t>(a);
    for (const Value& other : values_) {
      if (!std::holds_alternative<P>(other.placed)) continue;
      kernel<add_scaled>(mut(placed), a, std::get<P>(other.placed)).on(stream());
      for (std::size_t i = 0; i < v.expected.size(); ++i)
        v.expected[i] += static_cast<std::uint32_t>(a) * other.expected[i];
      break;
    }
    if (below(3) == 0) {
      auto fresh = kernel<made>(empty_like(placed), a, placed).on(stream());
      auto expected = v.expected;
      for (auto& e : expected) e -= static_cast<std::uint32_t>(a);
      add(std::move(fresh), std::move(expected));
    }
    add(std::move(placed), std::move(v.expected));
  }

  void use(Value v, Whole whole) {
    const int a = below(5);
    const auto n = static_cast<std::uint32_t>(mesh_.size());
    switch (below(3)) {
      case 0: {
        auto expected = v.expected;
        for (auto& e : expected) e -= static_cast<std::uint32_t>(a);
        add(kernel<made>(empty_like(whole), a, whole).on(stream()), expected);
        return add(std::move(whole), std::move(v.expected));
      }
      case 1: {  // every rank has the same summand
        auto p = partial_zeros<i32>({kSide, kSide}, mesh_).on(stream());
        p = kernel<add_scaled>(std::move(p), a, whole).on(stream());
        auto expected = v.expected;
        for (auto& e : expected) e *= static_cast<std::uint32_t>(a) * n;
        add(std::move(p), std::move(expected));
        return add(std::move(whole), std::move(v.expected));
      }
      default: {
        auto mine = std::move(whole).local(mesh_.first_rank()).on(stream());
        return add(shard(mine, axis<0>, mesh_).on(stream()), std::move(v.expected));
      }
    }
  }

  void use(Value v, Rows placed) { sharded(std::move(v), std::move(placed)); }
  void use(Value v, Columns placed) { sharded(std::move(v), std::move(placed)); }
  template <class P>
  void sharded(Value v, P placed) {
    switch (below(3)) {
      case 0: {
        auto whole = all_gather(placed).on(stream());
        add(std::move(whole), v.expected);
        return add(std::move(placed), std::move(v.expected));
      }
      case 1: return add(all_gather(std::move(placed)).on(stream()), std::move(v.expected));
      default: return write(std::move(v), std::move(placed));
    }
  }

  void use(Value v, Summands p) {
    switch (below(3)) {
      case 0: return add(all_reduce(std::move(p)).on(stream()), std::move(v.expected));
      case 1: return add(reduce_scatter(std::move(p), axis<0>).on(stream()), std::move(v.expected));
      default: return add(reduce_scatter(std::move(p), axis<1>).on(stream()), std::move(v.expected));
    }
  }

  void step() {
    if (values_.size() < 2 || below(5) == 0) return make();
    Value v = take();
    auto placed = std::move(v.placed);
    std::visit([&](auto& p) { use(std::move(v), std::move(p)); }, placed);
  }

  void check(Value v) {
    Whole whole = std::visit(
        [&](auto& p) -> Whole {
          using P = std::remove_cvref_t<decltype(p)>;
          if constexpr (std::is_same_v<P, Whole>)
            return p;
          else if constexpr (std::is_same_v<P, Summands>)
            return all_reduce(std::move(p)).sync();
          else
            return all_gather(std::move(p)).sync();
        },
        v.placed);
    for (int i = 0; i < mesh_.local_ranks(); ++i) {
      const std::vector<i32> got = host(whole.part(mesh_.first_rank() + i)).sync();
      ASSERT_EQ(std::vector<std::uint32_t>(got.begin(), got.end()), v.expected) << "rank " << mesh_.first_rank() + i;
    }
  }

  Mesh mesh_;
  std::mt19937 random_;
  std::vector<Stream> streams_;
  std::vector<Value> values_;
};

}  // namespace tessera::test_programs
