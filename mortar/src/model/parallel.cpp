// The collectives of a forward pass: a rank's tensor becomes a part of a tensor of the mesh, and the result is a tensor
// of the rank again.
#include "model/parallel.hpp"

#include <utility>
#include <vector>

#include "files/shard.hpp"
#include "mortar/errors.hpp"
#include "tessera/mesh.hpp"

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wconsumed"  // it does not see what co_await returns
#endif

namespace mortar {

using namespace tessera;

namespace {

/// The tensor of this rank as its part of P.
template <class P>
P placed(const Parallel& parallel, Tensor<typename P::element, P::rank> part) {
  std::vector<Tensor<typename P::element, P::rank>> parts;
  parts.push_back(std::move(part));
  return detail::PlacedReach::make<P>(parallel.mesh, std::move(parts));
}

template <Element T>
Flow<Tensor<T, 2>> summed(const Parallel& parallel, Tensor<T, 2> part) {
  auto all = co_await all_reduce(placed<Partial<T, 2>>(parallel, std::move(part)));
  co_return co_await std::move(all).local(parallel.mesh.first_rank());
}
template <Element T>
Flow<Tensor<T, 2>> gathered(const Parallel& parallel, Tensor<T, 2> part) {
  auto all = co_await all_gather(placed<Sharded<T, 2, 1>>(parallel, std::move(part)));
  co_return co_await std::move(all).local(parallel.mesh.first_rank());
}

template <int B>
void add_rounded(Mut<bf16, 1, B> y, In<bf16, dyn, dyn> residual, In<f32, dyn, dyn> sums, Constant<bool> strict) {
  auto sum = sums.load_like(y);
  if (strict) sum = cast<f32>(cast<bf16>(sum));
  y.store(cast<bf16>(sum + cast<f32>(residual.load_like(y))));
}

/// The first `n` columns, and those from `from` on behind them: the last rank's part begins in the one before.
Flow<Tensor<f32, 2>> without_overlap(Tensor<f32, 2> all, std::int64_t n, std::int64_t from) {
  const std::int64_t end = all.dim(1);
  const Dims<2> dims({all.dim(0), n + (end - from)});
  auto made = co_await empty<f32>(dims);
  co_await copy_into(mut(made).slice<1>(0, n), all.slice<1>(0, n));
  co_await copy_into(mut(made).slice<1>(n, n + (end - from)), all.slice<1>(from, end));
  co_return made;
}

}  // namespace

std::int64_t Parallel::first_expert(const ExpertMlp& w) const {
  return ranks.rank * (w.down.is_fp8 ? w.down.quantized.dim(0) : w.down.values.dim(0));
}

Parallel parallel_of(const ModelSpec& model, Mesh mesh, bool exact) {
  Parallel p{std::move(mesh), {}, model.vocabulary, 0, 0};
  p.ranks = {p.mesh.first_rank(), p.mesh.size(), exact};
  const files::Range head = files::part_of(model, model.tensors->of(files::Role::LmHead), p.ranks).rows;
  p.first_id = head.begin, p.ids = head.size();
  return p;
}

Flow<Tensor<f32, 2>> sum_of_ranks(const Parallel& parallel, Tensor<f32, 2> part) {
  return summed(parallel, std::move(part));
}
Flow<Tensor<bf16, 2>> columns_of_ranks(const Parallel& parallel, Tensor<bf16, 2> part) {
  return gathered(parallel, std::move(part));
}
Flow<Tensor<bf16, 2>> rows_of_ranks(const Parallel& parallel, Tensor<bf16, 2> part) {
  return summed(parallel, std::move(part));
}

Flow<Tensor<f32, 2>> logits_of_ranks(const Parallel& parallel, Tensor<f32, 2> part) {
  auto all = co_await gathered(parallel, std::move(part));
  if (all.dim(1) == parallel.vocabulary) co_return all;
  const std::int64_t others = parallel.ids * (parallel.ranks.ranks - 1);
  const std::int64_t behind = others + all.dim(1) - parallel.vocabulary;  // the last rank's first id of its own
  co_return co_await without_overlap(std::move(all), others, behind);
}

RowsOp add_sums(Rows residual, const Tensor<f32, 2>& sums, const Numerics& numerics) {
  return kernel<add_rounded<1024>>(empty<bf16>(residual.dims()), residual, sums, numerics.strict);
}

Flow<Tensor<bf16, 2>> joined_add(const Parallel* parallel, Tensor<bf16, 2> h, const Matrix& w, Rows x,
                                 Numerics numerics) {
  if (parallel == nullptr) co_return co_await linear_add(h.view(), w, x, numerics);
  if (!parallel->ranks.exact) {
    auto part = co_await linear_sums(h.view(), w, numerics);
    const auto sums = co_await sum_of_ranks(*parallel, std::move(part));
    co_return co_await add_sums(x, sums, numerics);
  }
  const auto all = co_await columns_of_ranks(*parallel, std::move(h));
  const std::int64_t outputs = w.is_fp8 ? w.quantized.dim(0) : w.values.dim(0), first = parallel->ranks.rank * outputs;
  if (outputs == x.dim(1)) co_return co_await linear_add(all.view(), w, x, numerics);
  auto part = co_await linear_add(all.view(), w, x.slice<1>(first, first + outputs), numerics);
  co_return co_await columns_of_ranks(*parallel, std::move(part));
}

}  // namespace mortar
