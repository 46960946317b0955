// Weights without files, made on the device: the speed of a model does not depend on their values. Those of ranks are
// together those of one device.
#include <cmath>

#include "model/pieces.hpp"
#include "model/place.hpp"
#include "mortar/errors.hpp"
#include "tessera/tessera.hpp"

namespace mortar {
namespace {

using namespace tessera;  // NOLINT: kernels

/// A permutation of 32 bits in which every bit of the result depends on every bit of x: shifts of 16, 15 and 16 bits
/// between multiplications by odd numbers (the constants: C. Wellons, hash-prospector, "lowbias32").
template <int... D>
Tile<u32, D...> mixed(Tile<u32, D...> x) {
  x = (x ^ (x >> 16u)) * 0x7FEB352Du;
  x = (x ^ (x >> 15u)) * 0x846CA68Bu;
  return x ^ (x >> 16u);
}

/// Random numbers by the places that the elements have in the whole model's tensor: this one's first is (first_row,
/// first_column) of it. The sum of four bytes of a hash, with mean 0 and variance 1: it is nearly normal (at
/// most 3.45), the same on every device, and takes a tenth of the instructions of random::normal, which made weights
/// wait for it.
template <class T, int R, int C>
void near_normal_values(Mut<T, R, C> w, Scalar<f32> scale, Scalar<u64> seed, Scalar<i64> first_row,
                        Scalar<i64> first_column) {
  constexpr u32 kBytes = 0x00FF00FF, kLow = 0xFFFF;
  constexpr float kMean = 510.0f, kDeviation = 147.79942f;  // of four bytes: sqrt(4 (256^2 - 1) / 12)
  auto [i, j] = w.index();
  auto row = cast<u64>(cast<i64>(iota<i32, R, 1>(axis<0>)) + cast<i64>(i) * R + first_row);
  auto column = cast<u32>(cast<i64>(iota<i32, 1, C>(axis<1>)) + cast<i64>(j) * C + first_column);
  auto half = [](const auto& x, int bits) { return cast<u32>(x >> static_cast<u64>(bits)); };
  auto key = mixed(half(row, 0) ^ mixed(half(row, 32) ^ half(seed, 0)) ^ half(seed, 32));
  auto hash = mixed(column * 0x9E3779B9u + key);
  auto pairs = (hash & kBytes) + ((hash >> 8u) & kBytes);
  auto sum = cast<f32>(cast<i32>((pairs & kLow) + (pairs >> 16u)));
  w.store(cast<T>((sum - kMean) * (scale * (1 / kDeviation))));
}

/// FP8 values have this deviation (the largest FP8 value is 448), their scales make up for it.
constexpr float kFp8Deviation = 64;

/// Products with weights of this deviation keep the variance of what they multiply.
float deviation(std::int64_t columns) { return 1 / std::sqrt(static_cast<float>(columns)); }

/// Parts that follow each other in the device's tensor and in the whole model's: rows [begin, end) of the former.
struct Run {
  std::int64_t begin, end, whole_row, first_column, columns;
};
std::vector<Run> runs_of(const files::WeightTensor& w) {
  std::vector<Run> runs;
  std::int64_t row = 0;
  for (const files::Part& part : w.parts) {
    const Run run{row, row + part.rows, part.whole_row, part.first_column, part.file_columns};
    if (!runs.empty() && runs.back().whole_row + (row - runs.back().begin) == run.whole_row)
      runs.back().end = run.end;
    else
      runs.push_back(run);
    row = run.end;
  }
  return runs;
}

template <class T>
Tensor<T, 2> made(const files::WeightTensor& w, std::int64_t inputs, std::uint64_t seed, const Stream& stream) {
  const Dims<2> dims({w.rows, w.columns});
  if constexpr (std::is_same_v<T, f32>) {
    return full<f32>(dims, deviation(inputs) / kFp8Deviation).on(stream);
  } else {
    if (w.is_vector()) return ones<T>(dims).on(stream);
    const float scale = std::is_same_v<T, f8e4m3> ? kFp8Deviation : deviation(inputs);
    auto values = empty<T>(dims).on(stream);
    for (const Run& run : runs_of(w))
      kernel<near_normal_values<T, 8, 512>>(mut(values).template slice<0>(run.begin, run.end), scale, seed,
                                            run.whole_row, run.first_column)
          .on(stream);
    return values;
  }
}

}  // namespace

Weights random_weights(const ModelSpec& model, std::uint64_t seed, Device device, const LoadOptions& options) {
  const auto layout = files::weight_tensors(model, options.ranks);
  std::uint64_t total = 0;
  for (const auto& w : layout) total += w.bytes();
  model::Meter meter(total, options);
  Weights weights = model::empty_weights(model);
  Stream stream = Stream::default_of(device);
  try {
    std::int64_t inputs = 1;  // of a matrix; its scales follow it
    for (std::size_t i = 0; i < layout.size(); ++i) {
      if (layout[i].stored != files::Stored::Scales) inputs = layout[i].parts[0].file_columns;
      // Each tensor has a seed of its own (an odd multiplier: no two are equal).
      const std::uint64_t own = seed + 0x9E3779B97F4A7C15u * (i + 1);
      model::with_element(layout[i].stored, [&]<class T>() {
        model::place<T>(weights, layout[i], made<T>(layout[i], inputs, own, stream));
      });
      meter.add(layout[i].bytes());
      meter.report();
    }
    stream.synchronize();
  } catch (const OutOfMemoryError& error) {
    throw CapacityError(concat("the weights do not fit into the memory of ", device.name(), ": ", error.message()));
  }
  meter.report(true);
  return weights;
}

}  // namespace mortar
