// Misuse of operations and launches: running, combining, kernels with their options, tuning.
#include "misuse/kernels.hpp"
#include "misuse/misuse.hpp"

namespace tessera {
namespace {

using misuse::Outcome;

MISUSE(OpSync, "Op::sync") { c.result(c.op<f32, 1>({5}).sync()); }
MISUSE(OpSyncStream, "Op::sync") {
  auto op = c.op<f32, 1>({5});
  c.result(std::move(op).sync(c.stream(Outcome::Either)));
}
MISUSE(OpOn, "Op::on") {
  auto op = c.op<f32, 1>({5});
  c.result(std::move(op).on(c.stream(Outcome::Either)));
}
MISUSE(OpThen, "Op::then") {
  c.result(c.op<f32, 1>({5}).then([](Tensor<f32, 1> t) { return clone(t); }).sync());
}
MISUSE(OpThenInside, "Op::then") {
  const auto x = c.view<f32, 1>({5});
  c.result(zeros<f32>({5}).then([&](const Tensor<f32, 1>&) { return clone(x); }).sync());
}
MISUSE(All, "all") {
  c.has_no_place();
  auto a = c.op<f32, 1>({5});
  auto b = c.op<i32, 1>({3});
  auto [p, q] = all(std::move(a), std::move(b)).sync();
  c.result(p.view());
  c.result(q.view());
}

MISUSE(Ready, "ready") { c.result(ready(std::move(c.given<f32, 1>({5}))).sync()); }
MISUSE(Flattened, "flattened") {
  auto a = c.op<f32, 1>({5});
  auto [p, q] = flattened(all(std::move(a), zeros<i32>({3}))).sync();
  c.result(p.view());
  c.result(q.view());
}
MISUSE(Reading, "reading") {
  auto op = c.op<f32, 1>({5});
  c.result(reading(std::move(op), SourceLocation::current(), c.view<f32, 1>({4})).sync());
}

// ---- launches ------------------------------------------------------------------------------------------------------

using misuse::saxpy;
template <int B>
void add_both(Mut<f32, B> y, Mut<f32, B> z, In<f32, dyn> x, Scalar<i32> n) {
  require(n >= 0, "n must not be negative");
  const auto t = x.load_like(y);
  y.store(t + cast<f32>(n));
  z.store(t + t);
}
template <int B>
void histogram(Acc<i32, dyn> counts, In<i32, dyn> x) {
  auto [i] = block_id<1>();
  counts.add(x.tiles(shape<B>, pad(-1)).load(i), 1);
}
template <int B>
void scale_all(MutTiles<f32, B> y, In<f32, dyn> x) {
  for (auto out : y) out.store(x.load_like(out) * 2.0f);
}

MISUSE(KernelLent, "Kernel::operator()") {
  auto& y = c.out<f32, 1>({100});
  const auto x = c.view<f32, 1>({100});
  kernel<saxpy<32>>(mut(y), c.number<f32>(2), x).sync();
  c.result(y);
}
MISUSE(KernelGiven, "Kernel::operator()") {
  auto& y = c.out<f32, 1>({100});
  const auto x = c.view<f32, 1>({100});
  c.result(kernel<saxpy<32>>(std::move(y), 2.0f, x).sync());
}
MISUSE(KernelReadsTensor, "Kernel::operator()") {
  auto& y = c.out<f32, 1>({100});
  kernel<saxpy<32>>(mut(y), 2.0f, c.in<f32, 1>({100})).sync(c.stream());
  c.result(y);
}
MISUSE(KernelReadsShared, "Kernel::operator()") {
  auto& y = c.out<f32, 1>({100});
  kernel<saxpy<32>>(mut(y), 2.0f, c.shared<f32, 1>({100})).sync();
  c.result(y);
}
MISUSE(KernelTakesOperations, "Kernel::operator()") {
  auto given = c.op<f32, 1>({100});
  auto read = c.op<f32, 1>({100});
  c.result(kernel<saxpy<32>>(std::move(given), 2.0f, std::move(read)).sync());
}
MISUSE(KernelWritesTwo, "Kernel::operator()") {
  auto& y = c.out<f32, 1>({100});
  auto& z = c.out<f32, 1>({100});
  const auto x = c.view<f32, 1>({100});
  kernel<add_both<32>>(mut(y), mut(z), x, c.number<i32>(3)).sync();
  c.result(y);
  c.result(z);
}
MISUSE(KernelGivesAndLends, "Kernel::operator()") {
  auto& y = c.out<f32, 1>({100});
  auto& z = c.out<f32, 1>({100});
  const auto x = c.view<f32, 1>({100});
  const int chosen = c.other({{"what require() forbids", Outcome::Rejected}});
  c.result(kernel<add_both<32>>(std::move(y), mut(z), x, chosen == 0 ? -1 : 1).sync());
  c.result(z);
}
MISUSE(KernelPrecise, "Kernel::precise") {
  auto& y = c.out<f32, 1>({100});
  kernel<saxpy<32>>.precise()(mut(y), 2.0f, c.view<f32, 1>({100})).sync();
  c.result(y);
}
MISUSE(KernelApproximate, "Kernel::approximate") {
  auto& y = c.out<f32, 1>({100});
  kernel<saxpy<32>>.approximate()(mut(y), 2.0f, c.view<f32, 1>({100})).sync();
  c.result(y);
}

/// A number of blocks that no launch can have; `too_many`: it may be an upper bound.
Extent blocks(misuse::Call& c, std::int64_t legal, Outcome too_many = Outcome::Rejected) {
  switch (c.other({{"-1 blocks", Outcome::Rejected},
                   {"0 blocks", Outcome::Either},
                   {"2^31 blocks", too_many},
                   {"-2^63 blocks", Outcome::Rejected},
                   {"2^63 - 1 blocks", too_many}})) {
    case 0: return -1;
    case 1: return 0;
    case 2: return std::int64_t{1} << 31;
    case 3: return std::numeric_limits<std::int64_t>::min();
    case 4: return std::numeric_limits<std::int64_t>::max();
    default: return legal;
  }
}
double small_indices(std::int64_t i) { return static_cast<double>(i % 3); }

MISUSE(KernelBlocks, "Kernel::blocks") {
  auto& counts = c.out<i32, 1>({4});
  const auto x = c.view<i32, 1>({100}, small_indices);
  kernel<histogram<32>>.blocks(blocks(c, 4))(mut(counts), x).sync();
  c.result(counts);
}
MISUSE(KernelWithoutBlocks, "Kernel::blocks") {
  auto& counts = c.out<i32, 1>({4});
  const auto x = c.view<i32, 1>({100}, small_indices);
  if (c.other({{"no number of blocks", Outcome::Rejected}}) == 0)
    kernel<histogram<32>>(mut(counts), x).sync();
  else
    kernel<histogram<32>>.blocks(4)(mut(counts), x).sync();
  c.result(counts);
}
MISUSE(KernelWithPiecesTakesNoBlocks, "Kernel::blocks") {
  auto& y = c.out<f32, 1>({100});
  const auto x = c.view<f32, 1>({100});
  if (c.other({{"a number of blocks", Outcome::Rejected}}) == 0)
    kernel<saxpy<32>>.blocks(4)(mut(y), 2.0f, x).sync();
  else
    kernel<saxpy<32>>(mut(y), 2.0f, x).sync();
  c.result(y);
}
MISUSE(KernelThatSchedulesTiles, "Kernel::blocks") {
  auto& y = c.out<f32, 1>({100});
  kernel<scale_all<32>>.blocks(blocks(c, 2, Outcome::Either))(mut(y), c.view<f32, 1>({100})).sync();
  c.result(y);
}
MISUSE(KernelOnDevice, "Kernel::on_device") {
  auto& y = c.out<f32, 1>({100});
  const auto x = c.view<f32, 1>({100});
  kernel<saxpy<32>>.on_device(c.stream().device())(mut(y), 2.0f, x).sync();
  c.result(y);
}

// ---- tuning --------------------------------------------------------------------------------------------------------

constexpr auto saxpys = space("saxpys", "", candidate<saxpy<32>>("32"), candidate<saxpy<64>>("64"));

/// A record by hand, or one that fits nothing.
TuningRecord record(misuse::Call& c) {
  TuningRecord r;
  r.choice = "64";
  r.hints = "warps=4";
  switch (c.other({{"hints that are none", Outcome::Rejected}, {"the hash of another kernel", Outcome::Rejected}})) {
    case 0: r.hints = "warps=many"; break;
    case 1: r.hash = std::string(64, 'a'); break;
    default: break;
  }
  return r;
}

MISUSE(KernelTuned, "Kernel::tuned") {
  auto& y = c.out<f32, 1>({100});
  const auto x = c.view<f32, 1>({100});
  kernel<saxpy<32>>.tuned(record(c))(mut(y), 2.0f, x).sync();
  c.result(y);
}
MISUSE(KernelHints, "Kernel::hints") {
  auto& y = c.out<f32, 1>({100});
  const auto x = c.view<f32, 1>({100});
  Hints hints = {.warps = 4};
  switch (c.other({{"three warps", Outcome::Rejected}, {"steps below none", Outcome::Rejected}})) {
    case 0: hints.warps = 3; break;
    case 1: hints.latency = -1; break;
    default: break;
  }
  kernel<saxpy<32>>.hints(hints)(mut(y), 2.0f, x).sync();
  c.result(y);
}
MISUSE(SpaceTuned, "TuningSpace::tuned") {
  auto& y = c.out<f32, 1>({100});
  const auto x = c.view<f32, 1>({100});
  TuningRecord r = record(c);
  if (c.other({{"a candidate that is not there", Outcome::Rejected}}) == 0) r.choice = "128";
  saxpys.tuned(r)(mut(y), 2.0f, x).sync();
  c.result(y);
}

MISUSE(Tune, "tune") {
  c.has_no_place();
  c.writes_copies();
  auto& y = c.out<f32, 1>({100});
  TuneOptions options;
  options.launches = 1;
  options.rounds = 1;
  switch (c.other({{"a default that is no candidate", Outcome::Rejected},
                   {"hints that are none", Outcome::Rejected},
                   {"a file in no folder", Outcome::Rejected},
                   {"no launches", Outcome::Either},
                   {"-1 rounds", Outcome::Either},
                   {"a negative time", Outcome::Either},
                   {"-1 jobs", Outcome::Either}})) {
    case 0: options.first = "128"; break;
    case 1: options.hints = "warps=many"; break;
    case 2: options.file = "/nowhere/at/all/records"; break;
    case 3: options.launches = 0; break;
    case 4: options.rounds = -1; break;
    case 5: options.seconds = -1; break;
    case 6: options.jobs = -1; break;
    default: break;
  }
  const TuningReport report = tune(saxpys, options, mut(y), 2.0f, c.view<f32, 1>({100}));
  c.result(static_cast<int>(report.trials.size()));
  c.result(y);
}
MISUSE(FindRecord, "find_record") {
  c.has_no_place();
  c.looks_only();
  c.writes_copies();
  auto& y = c.out<f32, 1>({100});
  const std::vector<TuningRecord> none;
  c.result(find_record(none, saxpys, mut(y), 2.0f, c.view<f32, 1>({100})) == nullptr ? "none" : "one");
}

}  // namespace
}  // namespace tessera
