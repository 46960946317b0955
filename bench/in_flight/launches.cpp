// The host's cost of a cached launch of one to five tensors, compared with cuLaunchKernel for the same kernel.
#include <cstdint>
#include <string>
#include <vector>

#include "in_flight/plain_driver.hpp"

namespace in_flight {
namespace {

constexpr int kBlock = 1024;

void one(Mut<f32, kBlock> y, Scalar<f32> s) { y.store(s * y.load()); }
void two(Mut<f32, kBlock> y, Scalar<f32> s, In<f32, dyn> a) { y.store(s * a.load_like(y) + y.load()); }
void three(Mut<f32, kBlock> y, Scalar<f32> s, In<f32, dyn> a, In<f32, dyn> b) {
  y.store(s * a.load_like(y) + b.load_like(y));
}
void four(Mut<f32, kBlock> y, Scalar<f32> s, In<f32, dyn> a, In<f32, dyn> b, In<f32, dyn> c) {
  y.store(s * a.load_like(y) + b.load_like(y) * c.load_like(y));
}
void five(Mut<f32, kBlock> y, Scalar<f32> s, In<f32, dyn> a, In<f32, dyn> b, In<f32, dyn> c, In<f32, dyn> d) {
  y.store(s * a.load_like(y) + b.load_like(y) * c.load_like(y) + d.load_like(y));
}

struct Way {
  std::string name;
  Timing ours = {}, plain = {};
};

}  // namespace

void measure_launches(const Options& options) {
  constexpr std::int64_t kElements = 4096;
  constexpr unsigned kBlocks = kElements / kBlock;
  const Stream stream(options.device);
  auto y = zeros<f32>({kElements}).sync();
  const auto a = ones<f32>({kElements}).sync(), b = ones<f32>({kElements}).sync(), c = ones<f32>({kElements}).sync(),
             d = ones<f32>({kElements}).sync();
  std::vector<PlainKernel> plain;
  Handle native = nullptr;
  if (options.has_driver()) {
    // The plain launches go to a stream of their own: one whose handle was taken no longer overlaps kernels.
    static const Stream theirs(options.device);
    native = theirs.native();
    std::vector<std::uint64_t> args = tensor_args(y);
    args.push_back(number_arg(2));
    const auto more = [&](const Tensor<f32, 1>& t) {
      for (const std::uint64_t arg : tensor_args(t)) args.push_back(arg);
    };
    plain.push_back(PlainKernel::make<one>(options, "one", kBlocks, args));
    more(a), plain.push_back(PlainKernel::make<two>(options, "two", kBlocks, args));
    more(b), plain.push_back(PlainKernel::make<three>(options, "three", kBlocks, args));
    more(c), plain.push_back(PlainKernel::make<four>(options, "four", kBlocks, args));
    more(d), plain.push_back(PlainKernel::make<five>(options, "five", kBlocks, args));
  }
  std::vector<Way> ways = {{"launch of one tensor"},         {"launch of two tensors"},
                           {"launch of three tensors"},      {"launch of four tensors"},
                           {"launch of five tensors"},       {"launch of two tensors, given"},
                           {"launch of five tensors, given"}};
  const std::size_t plain_of[] = {0, 1, 2, 3, 4, 1, 4};
  const int launches = options.count(256, 4);  // fewer than the driver's queue holds
  const auto wait = [&] { Stream(stream).synchronize(); };
  const auto round = [&](Way& way, auto&& launch) {
    launch();  // compiled, and the stream is awake
    wait();
    way.ours.round(launches, false, launch, wait);
    if (plain.empty()) return;
    PlainKernel& kernel = plain[plain_of[static_cast<std::size_t>(&way - ways.data())]];
    way.plain.round(
        launches, false, [&] { kernel.launch(native); },
        [&] { check(PlainDriver::get().synchronize(native), "cuStreamSynchronize"); });
  };
  for (int i = 0; i < options.count(101, 3); ++i) {
    round(ways[0], [&] { kernel<one>(mut(y), 2.0f).on(stream); });
    round(ways[1], [&] { kernel<two>(mut(y), 2.0f, a).on(stream); });
    round(ways[2], [&] { kernel<three>(mut(y), 2.0f, a, b).on(stream); });
    round(ways[3], [&] { kernel<four>(mut(y), 2.0f, a, b, c).on(stream); });
    round(ways[4], [&] { kernel<five>(mut(y), 2.0f, a, b, c, d).on(stream); });
    round(ways[5], [&] { y = kernel<two>(std::move(y), 2.0f, a).on(stream); });
    round(ways[6], [&] { y = kernel<five>(std::move(y), 2.0f, a, b, c, d).on(stream); });
  }
  for (const Way& way : ways) {
    Figure f{way.name, "ns", way.ours.seconds() * 1e9, {}};
    if (!plain.empty()) {
      f.peer = "cuLaunchKernel", f.peer_value = way.plain.seconds() * 1e9;
      f.asked = above(300), f.allocations = way.ours.allocations();
    }
    print(f);
  }
}

}  // namespace in_flight
