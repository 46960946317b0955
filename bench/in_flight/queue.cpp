// Queues of independent matrix products on one stream and on several. Of two sizes: four fifths of 512 cubed, one fifth
// of 2048 cubed, each of which fills a GPU of 132 SMs and takes 64 times as long as a small one would on a full GPU: so
// one stream is nearly as fast as the GPU. And of 512 cubed alone, which leave most of the GPU to others. A unit of
// work is a product of 512 cubed.
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

  Products(const Options& options, bool mixed) : small(options.count(512, 32)), large(4 * small) {
    std::mt19937 random(7);
    for (int i = 0; i < options.count(2000, 20); ++i) {
      is_large.push_back(mixed && random() % 5 == 0);
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

/// Compute-bound, in as many blocks as x has pieces.
void iterate(Mut<f32, 1024> y, In<f32, dyn> x, Scalar<i32> steps) {
  auto t = x.load_like(y);
  for (auto i : range(steps)) t = t * 0.5f + 1.0f + cast<f32>(i - i);
  y.store(t);
}

/// Kernels of 16 blocks.
struct FewBlocks {
  int kernels;
  i32 steps;
  Tensor<f32, 1> x;
  double units;

  explicit FewBlocks(const Options& options)
      : kernels(options.count(2000, 20)),
        steps(options.tiny ? 4 : 2000),
        x(ones<f32>({16 * 1024}).sync()),
        units(kernels) {}
  double run(std::vector<Stream>& streams) const {
    std::vector<Tensor<f32, 1>> results(streams.size());
    return seconds_of([&] {
      for (int i = 0; i < kernels; ++i) {
        const std::size_t at = static_cast<std::size_t>(i) % streams.size();
        results[at] = kernel<iterate>(empty_like(x), x, steps).on(streams[at]);
      }
      for (Stream& stream : streams) stream.synchronize();
    });
  }
};

template <class Queue>
void measure(const Options& options, const Queue& queue, const std::string& name) {
  constexpr int kCounts[] = {1, 2, 4, 8, 16, 32};
  std::vector<std::vector<double>> seconds(std::size(kCounts));
  for (std::size_t i = 0; i < std::size(kCounts); ++i) {
    std::vector<Stream> streams;
    for (int k = 0; k < kCounts[i]; ++k) streams.emplace_back(options.device);
    queue.run(streams);  // compiles, and takes memory
    for (int round = 0; round < options.count(7, 1); ++round) seconds[i].push_back(queue.run(streams));
  }
  const auto rate = [&](std::size_t i) { return queue.units / median(seconds[i]); };
  std::size_t best = 0;
  for (std::size_t i = 0; i < std::size(kCounts); ++i) best = rate(i) > rate(best) ? i : best;
  for (std::size_t i = 0; i < std::size(kCounts); ++i) {
    const int count = kCounts[i];
    Figure f{name + ", " + std::to_string(count) + (count == 1 ? " stream" : " streams"), "units/s", rate(i), {}};
    if (i > 0) f.peer = "one stream", f.peer_value = rate(0);
    if (i > 0 && i == best && options.has_driver()) f.asked = faster(2);
    print(f);
  }
}

}  // namespace

void measure_queue(const Options& options) {
  measure(options, Products(options, true), "queue of small and large products");
  measure(options, Products(options, false), "queue of small products");
  measure(options, FewBlocks(options), "queue of kernels of 16 blocks");
}

}  // namespace in_flight
