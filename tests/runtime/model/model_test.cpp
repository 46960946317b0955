// The families of programs that are searched, and tests that the search finds what it must.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "runtime/model/device.hpp"
#include "runtime/model/search.hpp"

namespace tessera::runtime::model {
namespace {

constexpr Setting kGpu{}, kCpu{Setting::On::Cpu};

std::vector<Kind> kinds(std::span<const Kind> from) { return {from.begin(), from.end()}; }

/// Every program of `length` operations under every choice.
Statistics check_all(const Alphabet& alphabet, std::size_t length, const Setting& setting) {
  Statistics statistics;
  for_each_program(alphabet, length, [&](const Program& program) {
    const auto found = search_all(program, setting, statistics);
    if (found) ADD_FAILURE() << describe(minimised(*found));
    return !found;
  });
  EXPECT_EQ(statistics.truncated, 0u);
  std::printf("%s, %zu operations: %llu programs, %llu runs, of which %llu redundant\n", text(setting).c_str(), length,
              static_cast<unsigned long long>(statistics.programs), static_cast<unsigned long long>(statistics.runs),
              static_cast<unsigned long long>(statistics.redundant));
  return statistics;
}

void check_random(const Alphabet& alphabet, std::size_t shortest, std::size_t longest, const Setting& setting,
                  std::uint64_t programs) {
  Statistics statistics;
  for (std::uint64_t seed = 0; seed < programs; ++seed) {
    std::mt19937_64 random(seed);
    const Program program = random_program(alphabet, shortest + random() % (longest - shortest + 1), random);
    const auto found = search_random(program, setting, statistics, 10, seed * 1000);
    if (found) {
      ADD_FAILURE() << "seed " << seed << "\n" << describe(minimised(*found));
      return;
    }
  }
}

TEST(ModelOrder, SixOperationsOnThreeStreamsAndOneStorage) {
  const auto statistics = check_all({3, 1, {Kind::Fill, Kind::Read}}, 6, kGpu);
  EXPECT_GT(statistics.programs, 7000u);
}

TEST(ModelOrder, AllOperationsOnTwoStreamsAndTwoStorages) {
  const auto statistics = check_all({2, 2, kinds(kinds_without_failures())}, 3, kGpu);
  EXPECT_GT(statistics.programs, 2000u);
}

TEST(ModelFailures, AllOperationsOnOneStream) {
  const auto statistics = check_all({1, 2, kinds(all_kinds())}, 3, kCpu);
  EXPECT_GT(statistics.programs, 5000u);
}

TEST(ModelFailures, OnTwoStreams) {
  const auto statistics = check_all(
      {2,
       2,
       {Kind::Mix, Kind::Fill, Kind::Fail, Kind::FailWait, Kind::Renew, Kind::HostRead, Kind::HostWrite, Kind::Sync}},
      3, kCpu);
  EXPECT_GT(statistics.programs, 10000u);
}

TEST(ModelFaults, EachCallFailsOnce) {
  check_all({2, 2, kinds(kinds_without_failures())}, 2, {Setting::On::Gpu, Setting::Fault::Once});
  check_all({2, 2, kinds(all_kinds())}, 2, {Setting::On::Cpu, Setting::Fault::Once});
}

TEST(ModelFaults, ACallIsMadeAgainAfterItFailed) {
  const std::vector<Kind> few{Kind::Fill, Kind::Read, Kind::Renew, Kind::HostRead};
  check_all({2, 1, few}, 3, {Setting::On::Gpu, Setting::Fault::Once});
}

TEST(ModelFaults, EachCallIsTheLast) {
  check_all({2, 2, kinds(kinds_without_failures())}, 2, {Setting::On::Gpu, Setting::Fault::Dead});
}

TEST(ModelMemory, BorrowedMemory) {
  check_all({2, 1, {Kind::Fill, Kind::Read, Kind::Renew}}, 3, {Setting::On::Gpu, Setting::Fault::None, true});
}

TEST(ModelMemory, AllocatedAndFreedOnThreeStreams) { check_all({3, 1, {Kind::Read, Kind::Renew}}, 3, kGpu); }

TEST(ModelOrder, MoreReadersThanAStorageKeeps) {
  for (const char* program :
       {"read00 read10 read20 read30 read40 fill50", "read00 read10 read20 read30 read40 renew000",
        "fill00 read10 read20 read30 read40 read00 read50 fill10"}) {
    Statistics statistics;
    const auto found = search_all(parse(program), kGpu, statistics, 20000);
    EXPECT_FALSE(found) << describe(minimised(*found));
  }
}

TEST(ModelAtRandom, OnADeviceThatKeepsNothingAlive) {
  check_random({3, 3, kinds(kinds_without_failures())}, 6, 12, kGpu, 3000);
  check_random({3, 3, kinds(kinds_without_failures())}, 6, 12, {Setting::On::Gpu, Setting::Fault::Once}, 1000);
  check_random({3, 3, kinds(kinds_without_failures())}, 6, 12, {Setting::On::Gpu, Setting::Fault::Dead}, 500);
  check_random({3, 3, kinds(kinds_without_failures())}, 6, 12, {Setting::On::Gpu, Setting::Fault::None, true}, 500);
}

TEST(ModelAtRandom, OnADeviceWhoseWorkFails) {
  check_random({3, 3, kinds(all_kinds())}, 6, 12, kCpu, 3000);
  check_random({3, 3, kinds(all_kinds())}, 6, 12, {Setting::On::Cpu, Setting::Fault::Once}, 1000);
}

constexpr Setting kCuda{Setting::On::Cuda};

TEST(ModelCuda, DependentLaunchesOfFourKernels) {
  const auto statistics = check_all({2, 2, {Kind::Mix, Kind::Fill}}, 4, kCuda);
  EXPECT_GT(statistics.programs, 500u);
}

TEST(ModelCuda, AllOperations) { check_all({2, 2, kinds(all_kinds())}, 2, kCuda); }

/// The last operation once got the failure of operation 2, which the waiting of operation 3 had ended: work that is
/// skipped ends the pending outcome of what it was to write.
TEST(ModelCuda, SkippedWorkEndsThePendingOutcomeOfItsTarget) {
  Statistics statistics;
  const auto found = search_all(parse("fail021 wait012 fail001 fail_wait002 wait110"), kCuda, statistics);
  EXPECT_FALSE(found) << describe(*found);
}

TEST(ModelCuda, EachCallFailsOnce) {
  check_all({2, 2, {Kind::Mix, Kind::Renew, Kind::HostRead, Kind::Build, Kind::Submit}}, 2,
            {Setting::On::Cuda, Setting::Fault::Once});
}

TEST(ModelCuda, AtRandom) {
  check_random({2, 3, {Kind::Mix, Kind::Fill, Kind::Read, Kind::HostRead}}, 4, 10, kCuda, 500);
  check_random({3, 3, kinds(all_kinds())}, 4, 12, kCuda, 500);
  check_random({3, 3, kinds(all_kinds())}, 4, 12, {Setting::On::Cuda, Setting::Fault::Once}, 300);
}

// -- graphs --

std::vector<Kind> with_graphs(std::vector<Kind> some) {
  some.insert(some.end(), graph_kinds().begin(), graph_kinds().end());
  return some;
}

TEST(ModelGraphs, OnTwoStreams) {
  const auto statistics = check_all({2, 2, with_graphs({Kind::Mix, Kind::HostRead})}, 4, kGpu);
  EXPECT_GT(statistics.programs, 1000u);
  check_all({2, 2, with_graphs({Kind::Renew})}, 3, kGpu);
}

TEST(ModelGraphs, LeasesOfPendingOperations) {
  check_all({1, 2, with_graphs({Kind::Build, Kind::Submit, Kind::Cancel, Kind::HostRead})}, 4, kCpu);
}

TEST(ModelGraphs, FailuresOfWhatTheyRead) {
  check_all({2, 2, with_graphs({Kind::Fail, Kind::Fill, Kind::HostRead})}, 3, kCpu);
}

TEST(ModelGraphs, EachCallFailsOnce) {
  check_all({1, 2, with_graphs({Kind::HostRead})}, 3, {Setting::On::Gpu, Setting::Fault::Once});
  check_all({1, 2, with_graphs({Kind::HostRead})}, 3, {Setting::On::Cpu, Setting::Fault::Once});
  check_all({1, 2, with_graphs({Kind::HostRead})}, 3, {Setting::On::Cuda, Setting::Fault::Once});
}

/// The driver runs what a graph does not order in any order.
TEST(ModelGraphs, OnCuda) {
  check_all({2, 2, with_graphs({Kind::Mix, Kind::HostRead})}, 3, kCuda);
  check_random({2, 2, with_graphs({Kind::HostRead, Kind::HostWrite, Kind::Renew})}, 5, 10, kCuda, 100);
  check_random({2, 2, with_graphs({Kind::HostRead})}, 5, 10, {Setting::On::Cuda, Setting::Fault::Once}, 200);
}

TEST(ModelGraphs, AtRandom) {
  check_random({3, 3, with_graphs(kinds(kinds_without_failures()))}, 6, 12, kGpu, 500);
  check_random({3, 3, with_graphs(kinds(all_kinds()))}, 6, 12, kCpu, 500);
  check_random({2, 3, with_graphs(kinds(all_kinds()))}, 6, 12, kCuda, 100);
}

// -- the check itself --

TEST(ModelCheck, ProgramsAreEnumeratedUpToRenaming) {
  std::set<std::string> programs;
  for_each_program({2, 1, {Kind::Fill, Kind::Read}}, 2,
                   [&](const Program& program) { return programs.insert(text(program)).second; });
  EXPECT_EQ(programs, (std::set<std::string>{"fill00 fill00", "fill00 fill10", "fill00 read00", "fill00 read10",
                                             "read00 fill00", "read00 fill10", "read00 read00", "read00 read10"}));
  for (const std::string& program : programs) EXPECT_EQ(text(parse(program)), program);
}

TEST(ModelCheck, FindsADeviceThatIgnoresWaits) {
  Statistics statistics;
  const Setting setting{Setting::On::Gpu, Setting::Fault::None, false, static_cast<int>(Defect::IgnoresWaits)};
  const auto found = search_all(parse("host_read0 mix001 fill10 read11"), setting, statistics);
  ASSERT_TRUE(found);
  const Counterexample small = minimised(*found);
  EXPECT_EQ(small.program.size(), 2u) << describe(small);
  Choices replay = Choices::replay(small.choices);
  EXPECT_EQ(run(small.program, small.setting, replay).violation, small.violation);
  EXPECT_FALSE(search_all(parse("mix001 fill00 read01"), setting, statistics)) << "one stream needs no waits";
}

TEST(ModelCheck, FindsADeviceThatFreesAtOnce) {
  Statistics statistics;
  const Setting setting{Setting::On::Gpu, Setting::Fault::None, false, static_cast<int>(Defect::FreesAtOnce)};
  EXPECT_TRUE(search_all(parse("fill00"), setting, statistics));
}

/// Orders that are left out change nothing of what is found.
TEST(ModelCheck, TheReducedSearchFindsWhatTheFullOneFinds) {
  const Setting setting{Setting::On::Gpu, Setting::Fault::None, false, static_cast<int>(Defect::IgnoresWaits)};
  std::uint64_t broken = 0;
  Statistics reduced, full;
  for_each_program({2, 1, {Kind::Fill, Kind::Read}}, 3, [&](const Program& program) {
    const bool found = search_all(program, setting, reduced).has_value();
    EXPECT_EQ(found, search_all(program, setting, full, ~std::uint64_t{0}, false).has_value()) << text(program);
    broken += found ? 1 : 0;
    return true;
  });
  EXPECT_GT(broken, 10u);
  EXPECT_LT(broken, reduced.programs);
  EXPECT_LT(reduced.runs, full.runs);
}

}  // namespace
}  // namespace tessera::runtime::model
