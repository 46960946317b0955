// A rank that fails at any call, or does not come: the engine's step throws why, later calls throw at once, and nothing
// waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <stop_token>
#include <utility>

#include "host/expect_error.hpp"
#include "mortar/errors.hpp"
#include "mortar/parallel/ranks.hpp"
#include "tessera/base/error.hpp"
#include "tessera/mesh/communicator.hpp"
#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/memory.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace mortar::test {
namespace THIS_FILE {

using tessera::mesh::CollectiveCall;
using tessera::mesh::Communicator;
using testing::HasSubstr;

/// What is done in place of a call of the communicator `real`.
using Fault = std::function<void(Communicator& real, const CollectiveCall& call)>;

/// The calls of a rank.
struct Calls {
  std::atomic<std::int64_t> direct = 0, captured = 0;
  std::int64_t all() const { return direct + captured; }
};

/// Another communicator, of which the calls from one on are something else.
class Faulty final : public Communicator {
 public:
  Faulty(std::shared_ptr<Communicator> real, std::int64_t when, Fault fault, std::shared_ptr<Calls> calls)
      : real_(std::move(real)), when_(when), fault_(std::move(fault)), calls_(std::move(calls)) {}
  int size() const noexcept override { return real_->size(); }
  int first() const noexcept override { return real_->first(); }
  int locals() const noexcept override { return real_->locals(); }
  const char* name() const noexcept override { return real_->name(); }
  void enqueue(const CollectiveCall& call) override {
    const bool now = when_ >= 0 && calls_->all() >= when_;
    ++(call.ranks.front().stream.core()->capturing() ? calls_->captured : calls_->direct);
    now ? fault_(*real_, call) : real_->enqueue(call);
  }
  std::shared_ptr<Communicator> split(int colour, tessera::SourceLocation where) override {
    return real_->split(colour, where);
  }
  void abort(const tessera::mesh::GroupFailure& failure) noexcept override { real_->abort(failure); }
  std::optional<tessera::mesh::GroupFailure> failure() const override { return real_->failure(); }

 private:
  std::shared_ptr<Communicator> real_;
  const std::int64_t when_;
  Fault fault_;
  const std::shared_ptr<Calls> calls_;
};

/// Two ranks, of which one has a fault from its call `when` on; -1: at none.
std::vector<tessera::Mesh> with_fault(int rank, std::int64_t when, Fault fault, int timeout_ms,
                                      std::shared_ptr<Calls> calls = std::make_shared<Calls>()) {
  auto communicators = tessera::mesh::thread_communicators(2, 1, timeout_ms);
  auto& own = communicators[static_cast<std::size_t>(rank)];
  own = std::make_shared<Faulty>(own, when, std::move(fault), std::move(calls));
  std::vector<tessera::Mesh> meshes;
  for (auto& c : communicators) meshes.push_back(tessera::Mesh::over(c, {tessera::Device::cpu()}));
  return meshes;
}

void throw_injected(Communicator&, const CollectiveCall&) { throw std::runtime_error("injected"); }
/// Work that computes what the call reads fails later, on the rank's stream.
void fail_work(Communicator& real, const CollectiveCall& call) {
  using namespace tessera::runtime;
  const auto& rank = call.ranks.front();
  const auto work = host_work([](const LaunchContext&) { throw std::runtime_error("injected"); });
  const std::vector<Access> accesses{{rank.in, AccessMode::ReadWrite}};
  rank.stream.core()->submit({work, {}, {}, accesses, "a fault", {}});
  real.enqueue(call);
}
void say_nothing(Communicator&, const CollectiveCall&) {}

/// What a step throws; empty if all of them succeed.
std::string error_of(Engine& engine) {
  try {
    engine.run();
  } catch (const RanksError& error) { return error.message(); }
  return {};
}

/// Two answers with prompts of several steps.
void submit_some(Engine& engine) {
  engine.submit(some_request(60, 6, 1), [](const Token&) {});
  engine.submit(some_request(10, 6, 2), [](const Token&) {});
}

constexpr int kSoon = 2'000, kLong = 60'000;  ///< ms

/// At every call of either rank, those that run at once and those that are captured in graphs.
void expect_the_end_at_every_call(const Fault& fault, bool exact) {
  const SharedModel shared{"dense-tied"};
  const auto engine_with = [&](int rank, std::int64_t when, const std::shared_ptr<Calls>& calls) {
    return Engine(shared.load(with_fault(rank, when, fault, kLong, calls), exact, 2),
                  {.max_batch = 2, .prefill_tokens = 32});
  };
  for (const int rank : {0, 1}) {
    const auto healthy = std::make_shared<Calls>();
    {
      Engine engine = engine_with(rank, -1, healthy);
      submit_some(engine);
      EXPECT_EQ(error_of(engine), "");
      EXPECT_GT(healthy->direct, 0);
      EXPECT_GT(healthy->captured, 0);
    }
    const std::string expected = "rank " + std::to_string(rank) + " of 2 (cpu) has failed: injected";
    for (std::int64_t when = 0; when < healthy->all(); ++when) {
      SCOPED_TRACE(testing::Message() << "rank " << rank << ", call " << when << (exact ? ", exact" : ""));
      const auto calls = std::make_shared<Calls>();
      Engine engine = engine_with(rank, when, calls);
      submit_some(engine);
      EXPECT_EQ(error_of(engine), expected);
      const std::int64_t made = calls->all();
      EXPECT_EQ(error_of(engine), expected) << "a later call";
      EXPECT_THROW((void)engine.logits(some_ids(3, 1)), RanksError);
      EXPECT_EQ(calls->all(), made) << "a later call goes to no rank";
    }
  }
}

TEST(MortarParallelFailures, ARankThatThrowsEndsTheGroup) {
  for (const bool exact : {false, true}) expect_the_end_at_every_call(throw_injected, exact);
}

/// The other rank waits for its result within the same call.
TEST(MortarParallelFailures, ARankThatThrowsWhileTheOtherWaits) {
  for (const int rank : {0, 1}) {
    Engine engine(SharedModel{"dense-tied"}.load(with_fault(rank, 1, throw_injected, kLong), false), {});
    const auto begin = std::chrono::steady_clock::now();
    const std::string expected = "rank " + std::to_string(rank) + " of 2 (cpu) has failed: injected";
    EXPECT_ERROR(RanksError, (void)engine.logits(some_ids(3, 1)), expected.c_str());
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(kLong / 2));
  }
}

/// The rank that failed says why, also if another one notices first.
TEST(MortarParallelFailures, WorkThatFailsEndsTheGroup) { expect_the_end_at_every_call(fail_work, false); }

TEST(MortarParallelFailures, ARankWithoutMemory) {
  const auto fault = [](Communicator&, const CollectiveCall&) {
    throw tessera::OutOfMemoryError("no memory is left", {});
  };
  Engine engine(SharedModel{"moe"}.load(with_fault(1, 3, fault, kLong), false), {});
  submit_some(engine);
  EXPECT_THAT(error_of(engine), HasSubstr("rank 1 of 2 (cpu) has failed: no memory is left"));
  EXPECT_THAT(error_of(engine), HasSubstr("no memory is left"));
}

TEST(MortarParallelFailures, ARankThatDoesNotCome) {
  for (const int rank : {0, 1}) {
    Engine engine(SharedModel{"dense-tied"}.load(with_fault(rank, 2, say_nothing, kSoon), false), {});
    submit_some(engine);
    const std::string error = error_of(engine);
    EXPECT_THAT(error, HasSubstr("rank " + std::to_string(rank) + ": did not call the collective"));
    EXPECT_EQ(error_of(engine), error);
  }
}

TEST(MortarParallelFailures, ARankThatSkipsACall) {
  for (const int rank : {0, 1}) {
    const auto skip_one = [skipped = false](Communicator& real, const CollectiveCall& call) mutable {
      if (std::exchange(skipped, true)) real.enqueue(call);
    };
    Engine engine(SharedModel{"dense-tied"}.load(with_fault(rank, 2, skip_one, kLong), false), {});
    submit_some(engine);
    const std::string error = error_of(engine);
    EXPECT_THAT(error, HasSubstr("rank 1: called "));
    EXPECT_THAT(error, HasSubstr(", where rank 0 called "));
    EXPECT_EQ(error_of(engine), error);
  }
}

/// A group whose devices move the data ends so: work in flight ends without an error, with results that mean nothing.
class Silent final : public Communicator {
 public:
  Silent(int rank, std::shared_ptr<std::atomic<bool>> ended) : rank_(rank), ended_(std::move(ended)) {}
  int size() const noexcept override { return 2; }
  int first() const noexcept override { return rank_; }
  int locals() const noexcept override { return 1; }
  const char* name() const noexcept override { return "silent"; }
  void enqueue(const CollectiveCall& call) override {
    const auto work = tessera::runtime::host_work([ended = ended_](const auto&) { *ended = true; });
    const std::vector<tessera::runtime::Access> accesses{{call.ranks.front().out, tessera::runtime::AccessMode::Write}};
    call.ranks.front().stream.core()->submit({work, {}, {}, accesses, "a call that says nothing", {}});
  }
  std::shared_ptr<Communicator> split(int, tessera::SourceLocation) override { return nullptr; }
  void abort(const tessera::mesh::GroupFailure&) noexcept override {}
  std::optional<tessera::mesh::GroupFailure> failure() const override {
    if (!*ended_) return std::nullopt;
    return tessera::mesh::GroupFailure{1, "was lost"};
  }

 private:
  int rank_;
  std::shared_ptr<std::atomic<bool>> ended_;
};

TEST(MortarParallelFailures, NoTokenIsMadeOfWhatMeansNothing) {
  const auto ended = std::make_shared<std::atomic<bool>>(false);
  std::vector<tessera::Mesh> meshes;
  for (const int rank : {0, 1})
    meshes.push_back(tessera::Mesh::over(std::make_shared<Silent>(rank, ended), {tessera::Device::cpu()}));
  Engine engine(SharedModel{"dense-tied"}.load(meshes, false), {});
  Heard heard;
  engine.submit(some_request(10, 6, 1), heard.listener());
  EXPECT_EQ(error_of(engine), "rank 1: was lost");
  EXPECT_TRUE(heard.ids.empty());
}

/// serve() gives every request an answer, and ends, whenever the group does.
TEST(MortarParallelFailures, ServingEndsWithAnErrorForAll) {
  const SharedModel shared{"dense-tied"};
  for (const std::int64_t when : {0, 4, 9, 14}) {
    SCOPED_TRACE(testing::Message() << "call " << when);
    Engine engine(shared.load(with_fault(1, when, throw_injected, kLong), false, 2), {.max_batch = 2});
    std::vector<Heard> heard(when % 2 == 0 ? 2 : 3);  // of three, one waits for its turn
    for (std::uint32_t i = 0; i < heard.size(); ++i)
      engine.submit(some_request(10, 20 + 3 * i, i), heard[i].listener());
    std::stop_source stop;
    EXPECT_THROW(engine.serve(stop.get_token()), RanksError);
    for (const Heard& h : heard) {
      EXPECT_EQ(h.finish, FinishReason::Failed);
      ASSERT_FALSE(h.tokens.empty());
      EXPECT_THAT(h.tokens.back().error, HasSubstr("rank 1 of 2 (cpu) has failed: injected"));
    }
  }
}

}  // namespace THIS_FILE
}  // namespace mortar::test
