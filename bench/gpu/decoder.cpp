// The products of a decoder's step, one row of activations, each reading what the one before has written: the four
// products of every layer of Qwen3-4B and its vocabulary, bound by reading 8 GB of weights. What stands between them in
// a decoder (norms, attention, activations) is left out: a product reads the first columns of the last one's output.
#include <optional>

#include "harness.hpp"
#include "tessera/kernels/linear.hpp"

namespace gpu_bench {
namespace {

using namespace tessera;

using Row = Tensor<bf16, 2>;

/// Weights of [out, in], filled by seed.
struct Weights {
  Tensor<bf16, 2> w;
  std::uint64_t seed = 0;
  std::int64_t in() const { return w.dim(1); }
};
struct Layer {
  Weights qkv, o, gate_up, down;
};

struct Decoder {
  Row x, y;
  std::vector<Layer> layers;
  Weights vocabulary;
  std::optional<Graph<Row>> graph;
  double bytes = 0;  ///< of the weights

  /// `hidden` scales all extents; 2560 is the model's own.
  Decoder(std::int64_t count, std::int64_t hidden) : x(normal<bf16>(Dims<2>({1, hidden}), kInput)) {
    const auto scaled = [&](std::int64_t extent) { return extent * hidden / 2560; };
    for (std::int64_t i = 0; i < count; ++i) {
      layers.push_back({weights(scaled(6144), hidden), weights(hidden, scaled(4096)), weights(scaled(19456), hidden),
                        weights(hidden, scaled(9728))});
    }
    vocabulary = weights(scaled(151936), hidden);
  }
  static constexpr std::uint64_t kInput = 1;

 private:
  /// With this scale an output is about as large as its input.
  Weights weights(std::int64_t out, std::int64_t in) {
    bytes += 2.0 * static_cast<double>(out) * static_cast<double>(in);
    const std::uint64_t seed = ++seeds_;
    return {normal<bf16>(Dims<2>({out, in}), seed, unit_scale(in)), seed};
  }
  std::uint64_t seeds_ = kInput;
};

Flow<Row> decode(const Decoder& d) {
  View<bf16, 2> in = d.x.view();
  for (const Layer& layer : d.layers) {
    const auto qkv = co_await kernels::linear(in, layer.qkv.w);
    const auto o = co_await kernels::linear(qkv.slice<1>(0, layer.o.in()), layer.o.w);
    const auto gate_up = co_await kernels::linear(o, layer.gate_up.w);
    const auto down = co_await kernels::linear(gate_up.slice<1>(0, layer.down.in()), layer.down.w);
    in = down.view();
  }
  co_return co_await kernels::linear(in, d.vocabulary.w);
}

/// x w^T by the host, waiting for the device; adds some of its elements, compared with f64, to `norm`.
Row product(const View<bf16, 2>& in, const Weights& w, Norm& norm) {
  auto y = kernels::linear(in, w.w).sync();
  const std::vector<double> x = values(in);
  for (std::int64_t s = 0; s < 4; ++s) {
    const std::int64_t j = s == 3 ? y.dim(1) - 1 : y.dim(1) * s / 3, k = w.in();
    double wanted = 0;
    for (std::int64_t p = 0; p < k; ++p)
      wanted += x[static_cast<std::size_t>(p)] * normal_input<bf16>(w.seed, j * k + p, unit_scale(k));
    norm.add(values(y.slice<1>(j, j + 1))[0], wanted);
  }
  return y;
}

/// The chain once more, waiting for every product: the result has to be equal bit for bit, whatever was read before the
/// wait.
Accuracy check(const Decoder& d) {
  Norm norm;
  View<bf16, 2> in = d.x.view();
  for (const Layer& layer : d.layers) {
    const auto qkv = product(in, layer.qkv, norm);
    const auto o = product(qkv.slice<1>(0, layer.o.in()), layer.o, norm);
    const auto gate_up = product(o.view(), layer.gate_up, norm);
    const auto down = product(gate_up.slice<1>(0, layer.down.in()), layer.down, norm);
    in = down.view();
  }
  const auto wanted = product(in, d.vocabulary, norm);
  const Row& found = d.graph ? d.graph->output() : d.y;
  return {values(found) == values(wanted) ? norm.relative() : INFINITY, 4e-3};
}

Prepared decoder_case(const Args& args) {
  const std::string how = args.text("how", "stream");
  if (how != "stream" && how != "graph") throw std::runtime_error("how must be stream or graph, found " + how);
  auto d = std::make_shared<Decoder>(args.number("layers", 36), args.number("hidden", 2560));
  Prepared p;
  p.bytes = d->bytes;
  if (how == "graph") {
    d->graph.emplace(capture(decode, std::as_const(*d)));
    p.launch = [d](int, const Stream& on) { d->graph->replay().on(on); };
  } else {
    p.launch = [d](int, const Stream& on) { d->y = decode(*d).on(on); };
  }
  p.check = [d] { return check(*d); };
  return p;
}

}  // namespace

std::vector<Case> decoder_cases() {
  return {{"decoder", "how=stream|graph layers=N hidden=N (products of one row, each reading the last one's output)",
           decoder_case}};
}

}  // namespace gpu_bench
