// Where a router nearly decides otherwise: sums in another order may give such a token other experts, on one device as
// on several, and with them another answer.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "engine/packed_step.hpp"
#include "model/decoder.hpp"
#include "mortar/engine/test_engine.hpp"
#include "mortar/model/routing.hpp"
#include "tessera/kernels/common.hpp"
#include "tessera/runtime/thread_device.hpp"

namespace mortar::test {

/// Says of each token whether a router of any layer has a near tie.
class NearTies final : public RouterObserver {
 public:
  explicit NearTies(std::size_t tokens) : found(tokens, false) {}
  void routed(const tessera::Tensor<tessera::f32, 2>& scores, Routing& routing) override {
    Decisions decisions;
    decisions.experts = scores.dim(1), decisions.per_token = routing.chosen.dim(1);
    decisions.scores = host(scores).sync();
    for (std::size_t i = 0; i < found.size(); ++i)
      found[i] = found[i] || !decisions.near_ties(static_cast<std::int64_t>(i), 1).empty();
  }
  std::vector<bool> found;
};

/// For each token of `ids` whether a router has a near tie when one CPU computes them as a prompt; without experts
/// nowhere. Takes the weights of `model`.
class RouterTies {
 public:
  explicit RouterTies(Model&& model) {
    const tessera::runtime::ThreadDevice cpu(tessera::Device::cpu());
    const RopeAngles angles = rope_angles(model.config);
    network_.config = model.config;
    network_.weights = std::move(model.weights);
    network_.frequencies =
        tessera::from(std::span(angles.inverse_frequencies), {std::ssize(angles.inverse_frequencies)}).sync();
    network_.rope_factor = angles.attention_factor;
    const tessera::Dims<4> dims(
        {model.config.attention.kv_heads, std::ssize(pages_) * kPage, 2, model.config.attention.head_dim / 2});
    for (std::int64_t layer = 0; layer < model.config.layers; ++layer) {
      cache_.keys.push_back(tessera::zeros<tessera::bf16>(dims).sync());
      cache_.values.push_back(tessera::zeros<tessera::bf16>(dims).sync());
    }
  }
  /// The sequence has at most four pages.
  std::vector<bool> of(const std::vector<TokenId>& ids) {
    NearTies ties(ids.size());
    if (!network_.config.mlp.experts) return ties.found;
    const tessera::runtime::ThreadDevice cpu(tessera::Device::cpu());
    network_.observer = &ties;
    const RowPlan row{ids, 0, pages_};
    const StepShape shape = shape_of(std::span(&row, 1), 1, kSmallQueryTile);
    const std::vector<tessera::i32> packed = PackedStep(std::span(&row, 1), shape).data();
    const auto data = tessera::from(packed, {std::ssize(packed)}).sync();
    const StepViews views = views_of(data, shape);
    (void)forward(network_, cache_, views.step).sync();
    return ties.found;
  }

 private:
  const std::vector<PageId> pages_{0, 1, 2, 3};
  Network network_;
  KvCache cache_;
};

}  // namespace mortar::test
