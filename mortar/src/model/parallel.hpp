// What the ranks of tensor parallelism say to each other in a forward pass. A rank is a device with a part of the
// weights (files/shard.hpp); all ranks run the same steps, each over its part. docs/mortar/parallel.md explains both
// modes.
#pragma once
#include "model/products.hpp"
#include "mortar/plan.hpp"
#include "tessera/mesh/mesh.hpp"

namespace mortar {

/// The group as one rank sees it.
struct Parallel {
  tessera::Mesh mesh;  ///< this rank is the only local one
  Ranks ranks;
  std::int64_t vocabulary = 0;         ///< of the whole model
  std::int64_t first_id = 0, ids = 0;  ///< the logits that this rank computes
  std::int64_t first_expert(const ExpertMlp& w) const;
};
/// `mesh` has one local rank. Throws RequestError if the ranks cannot share the model.
Parallel parallel_of(const ModelSpec& model, tessera::Mesh mesh, bool exact);

// Every rank makes these in the same order.

/// The sums over all ranks.
tessera::Flow<tessera::Tensor<tessera::f32, 2>> sum_of_ranks(const Parallel& parallel,
                                                             tessera::Tensor<tessera::f32, 2> part);
/// The columns of all ranks beside each other.
tessera::Flow<tessera::Tensor<tessera::bf16, 2>> columns_of_ranks(const Parallel& parallel,
                                                                  tessera::Tensor<tessera::bf16, 2> part);
/// Rows of which each is zeros on all ranks but one: that one's.
tessera::Flow<tessera::Tensor<tessera::bf16, 2>> rows_of_ranks(const Parallel& parallel,
                                                               tessera::Tensor<tessera::bf16, 2> part);
/// The logits of the whole vocabulary from those of each rank.
tessera::Flow<tessera::Tensor<tessera::f32, 2>> logits_of_ranks(const Parallel& parallel,
                                                                tessera::Tensor<tessera::f32, 2> part);
/// residual + sums, rounded once.
RowsOp add_sums(Rows residual, const tessera::Tensor<tessera::f32, 2>& sums, const Numerics& numerics);

/// x + h w^T, where each rank has columns of h, and of w what part_of() says. `parallel` may be null: then h and w are
/// whole.
tessera::Flow<tessera::Tensor<tessera::bf16, 2>> joined_add(const Parallel* parallel,
                                                            tessera::Tensor<tessera::bf16, 2> h, const Matrix& w,
                                                            Rows x, Numerics numerics);

}  // namespace mortar
