// A mixture of experts: routing, the order by experts, products by expert, the weighted sum.
#include <cmath>
#include <numeric>

#include "case.hpp"
#include "tessera/kernels/grouped_gemm.hpp"
#include "tessera/kernels/moe_combine.hpp"
#include "tessera/kernels/moe_plan.hpp"
#include "tessera/kernels/moe_route.hpp"

namespace compare {
namespace {

constexpr Size kPlaces = kernels::kMoeRows;

Ready route_case(const Args& args) {
  const Size tokens = size_of(args, "tokens"), experts = size_of(args, "experts"), k = size_of(args, "k");
  const auto scores = normal<f32>(seed_of(args, 1), tokens, experts);
  const auto chosen = [=](Size t) {
    std::vector<Size> order(static_cast<std::size_t>(experts));
    std::iota(order.begin(), order.end(), Size{0});
    std::stable_sort(order.begin(), order.end(), [&](Size a, Size b) { return scores(t, a) > scores(t, b); });
    order.resize(static_cast<std::size_t>(k));
    return order;
  };
  const auto weights = [=](Size t) {
    std::vector<double> w;
    double total = 0;
    for (const Size e : chosen(t)) w.push_back(std::exp(scores(t, e)));
    for (const double v : w) total += v;
    for (double& v : w) v /= total;
    return w;
  };
  const auto numbers = [=](Size t) {
    const auto order = chosen(t);
    return std::vector<double>(order.begin(), order.end());
  };
  return ready(args, {bytes_of<f32>(tokens * experts)},
               outputs(generality::by_line<f32>(weights, tokens, k), generality::by_line<i32>(numbers, tokens, k)),
               inputs(scores), [=](const Stream& on, auto& w, auto& e, const auto& from) {
                 std::tie(w, e) = kernels::moe_route(from, k).on(on);
               });
}

/// What moe_plan makes of the experts of all pairs.
struct Placed {
  std::vector<double> pairs, owners, places;
};
Placed placed(const Input<i32, 2>& experts, Size number, Size blocks) {
  const Size n = experts.count();
  Placed p{std::vector<double>(static_cast<std::size_t>(blocks * kPlaces), -1),
           std::vector<double>(static_cast<std::size_t>(blocks), -1),
           std::vector<double>(static_cast<std::size_t>(n), -1)};
  Size next = 0;
  for (Size e = 0; e < number; ++e) {
    const Size first = next;
    for (Size pair = 0; pair < n; ++pair) {
      if (static_cast<Size>(experts.at(pair)) != e) continue;
      p.pairs[static_cast<std::size_t>(next)] = static_cast<double>(pair);
      p.places[static_cast<std::size_t>(pair)] = static_cast<double>(next++);
    }
    next = (next + kPlaces - 1) / kPlaces * kPlaces;
    for (Size block = first / kPlaces; block < next / kPlaces; ++block)
      p.owners[static_cast<std::size_t>(block)] = static_cast<double>(e);
  }
  return p;
}

Ready plan_case(const Args& args) {
  const Size tokens = size_of(args, "tokens"), number = size_of(args, "experts"), k = size_of(args, "k"),
             n = tokens * k;
  const Size blocks = (n + std::min(n, number) * (kPlaces - 1) + kPlaces - 1) / kPlaces;
  const auto experts = whole<i32>(seed_of(args, 1), 0, number, tokens, k);
  const auto all = std::make_shared<Placed>();
  const auto known = [=](auto member) {
    return [=](Size at) {
      if (all->pairs.empty()) *all = placed(experts, number, blocks);
      return ((*all).*member)[static_cast<std::size_t>(at)];
    };
  };
  return ready(args, {bytes_of<i32>(n * (number + 3))},
               outputs(generality::by_offset<i32>(known(&Placed::pairs), blocks * kPlaces),
                       generality::by_offset<i32>(known(&Placed::owners), blocks),
                       generality::by_offset<i32>(known(&Placed::places), n)),
               inputs(experts), [=](const Stream& on, auto& pairs, auto& owners, auto& places, const auto& from) {
                 std::tie(pairs, owners, places) = kernels::moe_plan(from, number).on(on);
               });
}

/// gathered=1: rows of x by pairs; otherwise x is in the order of places.
Ready grouped_case(const Args& args) {
  const Size experts = size_of(args, "experts"), blocks = size_of(args, "blocks"), n = size_of(args, "n"),
             depth = size_of(args, "k"), places = blocks * kPlaces;
  const bool gathered = args.number("gathered", 0) != 0;
  constexpr int kSlots = 4;
  const Size tokens = gathered ? (places + kSlots - 1) / kSlots : places;
  const auto x = normal<bf16>(seed_of(args, 1), tokens, depth);
  const auto w = normal<bf16>(seed_of(args, 2), experts, depth, n);
  const auto owners = whole<i32>(seed_of(args, 3), 0, experts, blocks);
  const auto pairs = whole<i32>(seed_of(args, 4), 0, tokens * kSlots, places);
  const auto line = [=](Size i) -> Line {
    const Size expert = static_cast<Size>(owners(i / kPlaces)),
               from = gathered ? static_cast<Size>(pairs(i)) / kSlots : i;
    const auto row = generality::row_of(x, from);
    return [=](Size j) {
      double sum = 0;
      for (Size l = 0; l < depth; ++l) sum += row[static_cast<std::size_t>(l)] * w(expert, l, j);
      return sum;
    };
  };
  return ready(args,
               {bytes_of<bf16>(tokens * depth + std::min(experts, blocks) * depth * n + places * n),
                2.0 * static_cast<double>(places * n * depth)},
               outputs(output<bf16>(line, places, n)), inputs(x, w, owners, pairs),
               [=](const Stream& on, auto& y, const auto& from, const auto& weights, const auto& o, const auto& p) {
                 if (gathered)
                   y = kernels::grouped_gemm(from, weights, p, o, kSlots).on(on);
                 else
                   y = kernels::grouped_gemm(from, weights, o).on(on);
               });
}

Ready combine_case(const Args& args) {
  const Size tokens = size_of(args, "tokens"), k = size_of(args, "k"), d = size_of(args, "d"), rows = tokens * k;
  const auto placed_rows = normal<bf16>(seed_of(args, 1), rows, d);
  const auto weights = uniform<f32>(seed_of(args, 2), 0.1, 1, tokens, k);
  const auto places = whole<i32>(seed_of(args, 3), 0, rows, rows);
  const auto line = [=](Size t) -> Line {
    return [=](Size j) {
      double sum = 0;
      for (Size s = 0; s < k; ++s) sum += weights(t, s) * placed_rows(static_cast<Size>(places(t * k + s)), j);
      return sum;
    };
  };
  return ready(args, {bytes_of<bf16>(rows * d + tokens * d)}, outputs(output<bf16>(line, tokens, d)),
               inputs(placed_rows, weights, places),
               [](const Stream& on, auto& y, const auto& from, const auto& w, const auto& p) {
                 y = kernels::moe_combine(from, w, p).on(on);
               });
}

}  // namespace

std::vector<Case> expert_cases() {
  return {{"moe_route", route_case},
          {"moe_plan", plan_case},
          {"grouped_gemm", grouped_case},
          {"moe_combine", combine_case}};
}

}  // namespace compare
