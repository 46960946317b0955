// One small kernel that is waited for: by .sync(), in a flow that is run, and in a flow that is spawned.
#include <cstdint>
#include <optional>
#include <vector>

#include "in_flight/plain_driver.hpp"

namespace in_flight {
namespace {

constexpr int kBlock = 1024;
constexpr std::int64_t kElements = 4096;

void accumulate(Mut<f32, kBlock> y, Scalar<f32> s, In<f32, dyn> x) { y.store(s * y.load() + x.load_like(y)); }

Flow<> once(Tensor<f32, 1>& y, const Tensor<f32, 1>& x) { co_await kernel<accumulate>(mut(y), 0.5f, x); }

}  // namespace

void measure_awaits(const Options& options) {
  const Stream stream(options.device), theirs(options.device);
  const auto x = ones<f32>({kElements}).sync();
  auto y = zeros<f32>({kElements}).sync(), z = zeros<f32>({kElements}).sync();
  std::optional<PlainKernel> plain;
  Handle native = nullptr;
  if (options.has_driver()) {
    std::vector<std::uint64_t> args = tensor_args(z);
    args.push_back(number_arg(0.5f));
    for (const std::uint64_t arg : tensor_args(x)) args.push_back(arg);
    plain.emplace(PlainKernel::make<accumulate>(options, "accumulate", kElements / kBlock, args));
    native = theirs.native();
  }
  Timing sync, awaited, spawned, launched;
  const int count = options.count(200, 4);
  const auto nothing = [] {};
  for (int i = 0; i < options.count(31, 3); ++i) {
    sync.round(
        count, true, [&] { kernel<accumulate>(mut(y), 0.5f, x).sync(stream); }, nothing);
    awaited.round(
        count, true, [&] { once(y, x).sync(stream); }, nothing);
    spawned.round(
        count, true, [&] { spawn(once(y, x), stream).get(); }, nothing);
    if (!plain) continue;
    launched.round(
        count, true,
        [&] {
          plain->launch(native);
          check(PlainDriver::get().synchronize(native), "cuStreamSynchronize");
        },
        nothing);
  }
  const auto us = [](const Timing& t) { return t.seconds() * 1e6; };
  Figure first{".sync() of one small kernel", "us", us(sync), {}};
  if (plain) first.peer = "cuLaunchKernel, cuStreamSynchronize", first.peer_value = us(launched);
  print(first);
  const Asked asked = plain ? above(1) : Asked{};
  print({"co_await of one small kernel, the flow run by .sync()", "us", us(awaited), ".sync()", us(sync), asked});
  print({"the same, the flow run by spawn and get()", "us", us(spawned), ".sync()", us(sync)});
}

}  // namespace in_flight
