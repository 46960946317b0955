// Products of a step's tokens with the weights, bf16 or FP8. The templates of the kernel library are instantiated in
// one source file, because each has many kernels.
#pragma once
#include "mortar/config.hpp"
#include "mortar/weights.hpp"
#include "tessera/tessera.hpp"

namespace mortar {

/// How results are rounded, and on what they may depend.
struct Numerics {
  bool strict = false;           ///< the intermediate roundings of transformers in bf16; else one rounding per kernel
  bool batch_invariant = false;  ///< the result of a token does not depend on the number of tokens of the step
  /// Products of many rows may have a copy of their FP8 weights in bf16 while they run: not in a graph, whose memory
  /// would hold the copies of all layers at once.
  bool may_dequantize = false;
  /// Products of several rows with FP8 weights round the rows to FP8, with a scale for each 128 elements.
  bool fp8_activations = false;

  /// Products run as one kernel for any number of tokens.
  bool one_way() const { return strict || batch_invariant; }
};

/// The largest hidden size in the strict mode, whose norm has a row in one tile.
inline constexpr std::int64_t kMaxStrictHidden = 8192;

using Rows = tessera::View<tessera::bf16, 2>;
using RowsOp = tessera::Op<tessera::Tensor<tessera::bf16, 2>>;

/// What stands before a product: RMS norm of the rows.
struct Norm {
  const tessera::Tensor<tessera::bf16, 1>& weight;
  float epsilon;
};

/// What a router decides for the tokens of a step.
struct Routing {
  tessera::Tensor<tessera::f32, 2> weights;  ///< [tokens, experts per token]
  tessera::Tensor<tessera::i32, 2> chosen;   ///< the experts that have these weights
};
/// Sees what a router decides, and may decide something else, before its experts are computed. For tests, which compute
/// with equal decisions in different ways: where two scores are nearly equal, rounding decides otherwise. Not for steps
/// that are captured.
class RouterObserver {
 public:
  virtual ~RouterObserver() = default;
  /// `scores`: [tokens, experts].
  virtual void routed(const tessera::Tensor<tessera::f32, 2>& scores, Routing& routing) = 0;
};

// The flows below refer to the tensors of their views, to `w` and to the norm's weight, which must outlive them.

/// norm(x) w^T, [tokens, outputs].
tessera::Flow<tessera::Tensor<tessera::bf16, 2>> normed_linear(Rows x, Norm norm, const Matrix& w, Numerics numerics);
/// silu(gate) * up of norm(x), for weights whose rows are gate and then up.
tessera::Flow<tessera::Tensor<tessera::bf16, 2>> normed_gates(Rows x, Norm norm, const Matrix& gate_up,
                                                              Numerics numerics);
/// x + (silu(gate) * up) down^T with gate and up from norm(x).
tessera::Flow<tessera::Tensor<tessera::bf16, 2>> dense_mlp(Rows x, Norm norm, const DenseMlp& w, Numerics numerics);
/// residual + x w^T. Strict: the product is rounded before the sum.
tessera::Flow<tessera::Tensor<tessera::bf16, 2>> linear_add(Rows x, const Matrix& w, Rows residual, Numerics numerics);
/// x w^T as f32: a rank's summands of a product whose inputs the ranks share.
tessera::Flow<tessera::Tensor<tessera::f32, 2>> linear_sums(Rows x, const Matrix& w, Numerics numerics);
/// x w^T as f32, for the head and for routers; strict: rounded to bf16.
tessera::Op<tessera::Tensor<tessera::f32, 2>> logits_of(const Rows& x, const Rows& w, const Numerics& numerics);
inline tessera::Op<tessera::Tensor<tessera::f32, 2>> logits_of(const Rows& x,
                                                               const tessera::Tensor<tessera::bf16, 2>& w,
                                                               const Numerics& numerics) {
  return logits_of(x, w.view(), numerics);
}
/// The same of norm(x).
tessera::Op<tessera::Tensor<tessera::f32, 2>> normed_logits(const Rows& x, const Norm& norm,
                                                            const tessera::Tensor<tessera::bf16, 2>& w,
                                                            const Numerics& numerics);
/// RMS norm of the rows of x.
RowsOp normed(const Rows& x, const Norm& norm, const Numerics& numerics);
/// silu(gate) * up of [tokens, 2 n]: gate in the first n columns.
RowsOp gated(const Rows& gate_up, const Numerics& numerics);
struct Parallel;  // model/parallel.hpp
/// x + the mixture of experts of norm(x). `observer` and `parallel` may be null; the sizes of `config` are those of the
/// rank, the number of experts is the model's.
tessera::Flow<tessera::Tensor<tessera::bf16, 2>> experts(Rows x, Norm norm, const ExpertMlp& w,
                                                         const ExpertSpec& config, Numerics numerics,
                                                         RouterObserver* observer, const Parallel* parallel = nullptr);

}  // namespace mortar
