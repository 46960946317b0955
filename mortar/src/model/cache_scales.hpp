// The scales of an FP8 cache. They follow from the weights: no key and no value that the model can compute is too large
// for its scale. docs/mortar/design.md has the reasons.
#pragma once
#include <span>
#include <vector>

#include "model/decoder.hpp"

namespace mortar {

/// The scales of the key heads of each layer, [2, kv_heads]: those of the keys, then those of the values. Powers of
/// two: an element of the cache, times its scale, is the key or value rounded to the three bits after the first one.
/// `network` has its config, weights and factor of the rotation. Throws ModelError if a query can leave the range of
/// f16, in which an FP8 cache is multiplied.
std::vector<tessera::Tensor<tessera::f32, 2>> cache_scales_of(const Network& network, const tessera::Stream& stream);

/// The smallest power of two such that numbers of up to `bound` times it, with a margin for roundings before, fit
/// f8e4m3. 1 for a bound that is 0 or not finite.
float scale_for(double bound);

/// The largest length of a row of each of the last `heads` heads of a layer's projections, in their order: query heads,
/// key heads, value heads. Each column counts times the weight of the norm before it.
std::vector<float> longest_rows(const LayerWeights& weights, std::int64_t heads, std::int64_t head_dim,
                                const tessera::Stream& stream);

}  // namespace mortar
