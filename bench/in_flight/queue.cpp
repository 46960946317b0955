// A queue of independent matrix products of two sizes, most of them too small to fill a GPU, on one stream and on
// several: four fifths of 512 cubed, one fifth of 2048 cubed. A unit of work is a product of 512 cubed.
#include <random>

#include "in_flight/figures.hpp"
#include "tessera/kernels/gemm.hpp"

namespace in_flight {
namespace {

struct Products {
  std::int64_t small, large;
  std::vector<bool> is_large;  // of each product of the queue
  Tensor<bf16, 2> small_a, small_b, large_a, large_b;
  double units = 0;

  explicit Products(const Options& options) : small(options.count(512, 32)), large(4 * small) {
    std::mt19937 random(7);
    for (int i = 0; i < options.count(2000, 20); ++i) {
      is_large.push_back(random() % 5 == 0);
      units += is_large.back() ? 64 : 1;
    }
    const auto make = [](std::int64_t n, std::uint64_t seed) {
      return cast<bf16>(random::normal<f32>({n, n}, seed)).sync();
    };
    small_a = make(small, 1), small_b = make(small, 2), large_a = make(large, 3), large_b = make(large, 4);
  }
  /// Seconds of the whole queue, given to the streams in turn.
  double run(std::vector<Stream>& streams) const {
    std::vector<Tensor<bf16, 2>> results(streams.size());
    return seconds_of([&] {
      for (std::size_t i = 0; i < is_large.size(); ++i) {
        const std::size_t at = i % streams.size();
        results[at] = (is_large[i] ? kernels::gemm(large_a, large_b) : kernels::gemm(small_a, small_b)).on(streams[at]);
      }
      for (Stream& stream : streams) stream.synchronize();
    });
  }
};

}  // namespace

void measure_queue(const Options& options) {
  const Products products(options);
  constexpr int kCounts[] = {1, 2, 4, 8, 16, 32};
  std::vector<std::vector<Stream>> streams;
  std::vector<std::vector<double>> seconds(std::size(kCounts));
  for (const int count : kCounts) {
    streams.emplace_back();
    for (int i = 0; i < count; ++i) streams.back().emplace_back(options.device);
  }
  for (std::vector<Stream>& some : streams) products.run(some);  // compiles, and takes memory
  for (int round = 0; round < options.count(7, 1); ++round) {
    for (std::size_t i = 0; i < streams.size(); ++i) seconds[i].push_back(products.run(streams[i]));
  }
  const auto rate = [&](std::size_t i) { return products.units / median(seconds[i]); };
  std::size_t best = 0;
  for (std::size_t i = 0; i < streams.size(); ++i) best = rate(i) > rate(best) ? i : best;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const int count = kCounts[i];
    Figure f{"queue of small and large products, " + std::to_string(count) + (count == 1 ? " stream" : " streams"),
             "units/s",
             rate(i),
             {}};
    if (i > 0) f.peer = "one stream", f.peer_value = rate(0);
    if (i > 0 && i == best && options.has_driver()) f.asked = faster(2);
    print(f);
  }
}

}  // namespace in_flight
