// A rank that fails at any call, or does not come: the engine's step throws why, later calls throw at once, and nothing
// waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <stop_token>

#include "mortar/errors.hpp"
#include "mortar/parallel/ranks.hpp"
#include "tessera/base/error.hpp"
#include "tessera/mesh/communicator.hpp"
#include "tessera/runtime/memory.hpp"

namespace mortar::test {
namespace THIS_FILE {

using tessera::mesh::CollectiveCall;
using tessera::mesh::Communicator;
using testing::HasSubstr;

/// Another communicator, of which one call is something else.
class Faulty final : public Communicator {
 public:
  Faulty(std::shared_ptr<Communicator> real, std::int64_t when, std::function<void()> fault)
      : real_(std::move(real)), left_(when), fault_(std::move(fault)) {}
  int size() const noexcept override { return real_->size(); }
  int first() const noexcept override { return real_->first(); }
  int locals() const noexcept override { return real_->locals(); }
  const char* name() const noexcept override { return real_->name(); }
  void enqueue(const CollectiveCall& call) override {
    if (left_-- == 0) return fault_();
    real_->enqueue(call);
  }
  std::shared_ptr<Communicator> split(int colour, tessera::SourceLocation where) override {
    return real_->split(colour, where);
  }
  void abort(const tessera::mesh::GroupFailure& failure) noexcept override { real_->abort(failure); }
  std::optional<tessera::mesh::GroupFailure> failure() const override { return real_->failure(); }

 private:
  std::shared_ptr<Communicator> real_;
  std::atomic<std::int64_t> left_;
  std::function<void()> fault_;
};

/// Two ranks, of which one has a fault at call `when`.
std::vector<tessera::Mesh> with_fault(int rank, std::int64_t when, std::function<void()> fault, int timeout_ms) {
  auto communicators = tessera::mesh::thread_communicators(2, 1, timeout_ms);
  auto& own = communicators[static_cast<std::size_t>(rank)];
  own = std::make_shared<Faulty>(own, when, std::move(fault));
  std::vector<tessera::Mesh> meshes;
  for (auto& c : communicators) meshes.push_back(tessera::Mesh::over(c, {tessera::Device::cpu()}));
  return meshes;
}

/// What a step throws; empty if all of them succeed.
std::string error_of(Engine& engine) {
  try {
    engine.run();
  } catch (const std::exception& error) { return error.what(); }
  return {};
}

/// Two answers with prompts of several steps.
void submit_some(Engine& engine) {
  engine.submit(some_request(60, 6, 1), [](const Token&) {});
  engine.submit(some_request(10, 6, 2), [](const Token&) {});
}

constexpr int kSoon = 300;  ///< ms

TEST(MortarParallelFailures, ARankThatThrowsEndsTheGroup) {
  const SharedModel shared{"dense-tied"};
  for (const bool exact : {false, true}) {
    for (const int rank : {0, 1}) {
      std::int64_t when = 0;
      for (bool failed = true; failed; when = when * 2 + 1) {
        SCOPED_TRACE(testing::Message() << "rank " << rank << ", call " << when << (exact ? ", exact" : ""));
        const auto fault = [] { throw std::runtime_error("injected"); };
        Engine engine(shared.load(with_fault(rank, when, fault, 60'000), exact, 2),
                      {.max_batch = 2, .prefill_tokens = 32});
        submit_some(engine);
        const std::string error = error_of(engine);
        failed = !error.empty();
        if (!failed) continue;
        EXPECT_THAT(error, HasSubstr("injected"));
        EXPECT_THAT(error_of(engine), HasSubstr("injected")) << "a later call";
        EXPECT_ANY_THROW((void)engine.logits(some_ids(3, 1)));
      }
      EXPECT_GT(when, 15) << "calls of prompts and of graphs";
    }
  }
}

TEST(MortarParallelFailures, ARankWithoutMemory) {
  const auto fault = [] { throw tessera::OutOfMemoryError("rank 1 has no memory left", {}); };
  Engine engine(SharedModel{"moe"}.load(with_fault(1, 3, fault, 60'000), false), {});
  submit_some(engine);
  EXPECT_THAT(error_of(engine), HasSubstr("no memory left"));
  EXPECT_THAT(error_of(engine), HasSubstr("no memory left"));
}

TEST(MortarParallelFailures, ARankThatDoesNotCome) {
  for (const int rank : {0, 1}) {
    Engine engine(SharedModel{"dense-tied"}.load(with_fault(
                                                     rank, 2, [] {}, kSoon),
                                                 false),
                  {});
    submit_some(engine);
    const std::string error = error_of(engine);
    EXPECT_FALSE(error.empty());
    EXPECT_FALSE(error_of(engine).empty());
  }
}

/// serve() gives every request an answer, and ends.
TEST(MortarParallelFailures, ServingEndsWithAnErrorForAll) {
  const auto fault = [] { throw std::runtime_error("injected"); };
  Engine engine(SharedModel{"dense-tied"}.load(with_fault(1, 9, fault, 60'000), false, 2), {.max_batch = 2});
  std::vector<Heard> heard(2);
  for (std::uint32_t i = 0; i < 2; ++i) engine.submit(some_request(10, 20, i), heard[i].listener());
  std::stop_source stop;
  try {
    engine.serve(stop.get_token());
    ADD_FAILURE() << "served on";
  } catch (const std::exception& error) { EXPECT_THAT(error.what(), HasSubstr("injected")); }
  for (const Heard& h : heard) {
    EXPECT_EQ(h.finish, FinishReason::Failed);
    EXPECT_THAT(h.tokens.back().error, HasSubstr("injected"));
  }
}

}  // namespace THIS_FILE
}  // namespace mortar::test
