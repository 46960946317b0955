// NCCL's table of functions and the communicator over it, on the fake library and the fake CUDA driver.
#include <gmock/gmock.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>

#include "mesh/nccl_group.hpp"
#include "mesh/nccl_rig.hpp"
#include "tessera/runtime/graph.hpp"

namespace tessera::mesh::fake {
namespace THIS_FILE {

using runtime::StorageRef;
using testing::HasSubstr;
using Communicators = std::vector<std::shared_ptr<Communicator>>;

template <class F>
std::string error_of(F f) {
  try {
    f();
    return "ok";
  } catch (const MeshError& error) { return error.what(); }
}

// -- the library -----------------------------------------------------------------------------------------------------

TEST(NcclLibrary, WhatIsWrongWithALibraryIsNamed) {
  EXPECT_EQ(error_of([] { nccl::open_library(library_path("fake_nccl")); }), "ok");
  EXPECT_THAT(error_of([] { nccl::open_library("/no/such/libnccl.so.2"); }), HasSubstr("cannot be opened"));
  EXPECT_THAT(error_of([] { nccl::open_library(library_path("fake_nccl_old")); }),
              HasSubstr("is NCCL 2.26.5, and Tessera needs 2.27.0 or newer"));
  EXPECT_THAT(error_of([] { nccl::open_library(library_path("fake_nccl_incomplete")); }),
              HasSubstr("has no function ncclSend"));
  EXPECT_TRUE(nccl::open_library(library_path("fake_nccl")).has_windows());
}

TEST(NcclLibrary, TheVariableIsTheOnlyCandidate) {
  setenv("TESSERA_NCCL", "/no/such/library", 1);
  EXPECT_EQ(nccl::candidates(), std::vector<std::string>{"/no/such/library"});
  std::string why;
  EXPECT_FALSE(nccl::available(&why));
  EXPECT_THAT(why, HasSubstr("/no/such/library cannot be opened"));
  setenv("TESSERA_NCCL", library_path("fake_nccl").c_str(), 1);
  EXPECT_EQ(nccl::installed_library().version, 23007);
  unsetenv("TESSERA_NCCL");
  EXPECT_EQ(nccl::candidates().front(), "libnccl.so.2");
}

TEST(NcclLibrary, MulticastAndLateConnectionsAreOffUnlessTheUserSetsThem) {
  nccl::open_library(library_path("fake_nccl"));
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "0");
  EXPECT_STREQ(std::getenv("NCCL_RUNTIME_CONNECT"), "0");
}

/// A library is told no more than it knows: the fields end where those of 2.27 do.
TEST(NcclLibrary, TheConfigurationIsThatOfTheLibrary) {
  for (const int version : {22700, 22809}) {
    EXPECT_EQ(nccl::Config(version).size, offsetof(nccl::Config, channels_per_net_peer));
    EXPECT_EQ(nccl::Config(version).version, 22700U);
  }
  EXPECT_EQ(nccl::Config(23007).size, sizeof(nccl::Config));
  EXPECT_EQ(nccl::Config(23007).version, 22900U);
}

TEST(NcclLibrary, TheMeetingPointIsNcclsUnlessTheUserSetsIt) {
  unsetenv("NCCL_COMM_ID");
  set_nccl_meeting_point({"fe80::1", 1, 2});
  EXPECT_STREQ(std::getenv("NCCL_COMM_ID"), "[fe80::1]:2");
  set_nccl_meeting_point({"host", 1, 3});
  EXPECT_STREQ(std::getenv("NCCL_COMM_ID"), "[fe80::1]:2");
  unsetenv("NCCL_COMM_ID");
}

// -- communicators ---------------------------------------------------------------------------------------------------

const NcclOptions kOptions{.timeout_ms = 20'000, .window_bytes = 4096, .window_of_one_rank = true};

/// Calls f(member) in a thread for each member; the error of the first that fails.
std::string in_threads(int members, const std::function<void(int)>& f) {
  std::vector<std::string> errors(static_cast<std::size_t>(members), "ok");
  std::vector<std::thread> threads;
  for (int m = 0; m < members; ++m) {
    threads.emplace_back([&, m] {
      try {
        f(m);
      } catch (const std::exception& error) { errors[static_cast<std::size_t>(m)] = error.what(); }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) {
    if (error != "ok") return error;
  }
  return "ok";
}

/// A group of `members` threads with `locals` ranks each; rank r is device r.
struct Members {
  Members(NcclRig& of, int count, int ranks_each, const NcclOptions& options = kOptions)
      : rig(of), members(count), locals(ranks_each), all(static_cast<std::size_t>(count)) {
    const nccl::UniqueId id = nccl_id(rig.library);
    for (int r = 0; r < members * locals; ++r) streams.emplace_back(rig.device(r));
    error = in_threads(members, [&](int m) {
      const std::span<const Stream> mine(&streams[static_cast<std::size_t>(m * locals)],
                                         static_cast<std::size_t>(locals));
      all[static_cast<std::size_t>(m)] =
          nccl_communicator(rig.library, id, members * locals, m * locals, mine, options);
    });
  }
  ~Members() { end(); }
  /// Communicators end together, as NCCL wants.
  void end() {
    in_threads(members, [&](int m) { all[static_cast<std::size_t>(m)].reset(); });
  }
  /// One collective of all ranks; in and out are by rank.
  std::string run(const Communicators& group, CollectiveCall call, const std::vector<StorageRef>& in,
                  const std::vector<StorageRef>& out) {
    return in_threads(members, [&](int m) {
      std::vector<RankOperands> operands;
      for (int l = 0; l < locals; ++l) {
        const auto r = static_cast<std::size_t>(m * locals + l);
        operands.push_back({streams[r], in.empty() ? nullptr : in[r], 0, out.empty() ? nullptr : out[r], 0});
      }
      CollectiveCall mine = call;
      mine.ranks = operands;
      group[static_cast<std::size_t>(m)]->enqueue(mine);
    });
  }

  NcclRig& rig;
  int members, locals;
  std::vector<Stream> streams;
  Communicators all;
  std::string error;
};

CollectiveCall call_of(Collective kind, ElementType element, std::int64_t count, int peer = 0) {
  CollectiveCall call;
  call.kind = kind;
  call.element = element;
  call.count = count;
  call.peer = peer;
  call.label = text_of(kind);
  return call;
}

std::vector<float> values_of(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(rank * 1000) + static_cast<float>(i % 97);
  return values;
}

void check_collectives(Members& m, const Communicators& group, std::size_t count) {
  NcclRig& rig = m.rig;
  const int n = m.members * m.locals;
  const auto total = static_cast<std::size_t>(n);
  std::vector<StorageRef> in, out, wide;
  std::vector<float> sums(count), all;
  for (int r = 0; r < n; ++r) {
    const std::vector<float> values = values_of(r, count);
    in.push_back(rig.make(r, values));
    out.push_back(rig.make(r, std::vector<float>(count)));
    wide.push_back(rig.make(r, std::vector<float>(count * total)));
    for (std::size_t i = 0; i < count; ++i) sums[i] += values[i];
    all.insert(all.end(), values.begin(), values.end());
  }
  const auto elements = static_cast<std::int64_t>(count);
  const auto f32 = ElementType::f32;
  EXPECT_EQ(m.run(group, call_of(Collective::AllReduce, f32, elements), in, out), "ok");
  for (int r = 0; r < n; ++r) EXPECT_EQ(rig.read<float>(r, out[static_cast<std::size_t>(r)]), sums) << "all_reduce";
  EXPECT_EQ(m.run(group, call_of(Collective::AllGather, f32, elements), in, wide), "ok");
  for (int r = 0; r < n; ++r) EXPECT_EQ(rig.read<float>(r, wide[static_cast<std::size_t>(r)]), all) << "all_gather";
  EXPECT_EQ(m.run(group, call_of(Collective::ReduceScatter, f32, elements), wide, out), "ok");
  for (int r = 0; r < n; ++r) {
    std::vector<float> part = values_of(r, count);
    for (float& x : part) x *= static_cast<float>(n);
    EXPECT_EQ(rig.read<float>(r, out[static_cast<std::size_t>(r)]), part) << "reduce_scatter";
  }
  EXPECT_EQ(m.run(group, call_of(Collective::Barrier, f32, 0), {}, {}), "ok");
  EXPECT_EQ(m.run(group, call_of(Collective::Broadcast, f32, elements, n - 1), in, out), "ok");
  for (int r = 0; r < n; ++r)
    EXPECT_EQ(rig.read<float>(r, out[static_cast<std::size_t>(r)]), values_of(n - 1, count)) << "broadcast";
  EXPECT_EQ(m.run(group, call_of(Collective::AllReduce, f32, elements), in, in), "ok");
  for (int r = 0; r < n; ++r) EXPECT_EQ(rig.read<float>(r, in[static_cast<std::size_t>(r)]), sums) << "in place";
}

struct Shape {
  int members, locals;
};
constexpr Shape kShapes[] = {{1, 1}, {1, 3}, {2, 1}, {3, 1}, {2, 2}};

TEST(NcclCommunicator, EveryCollectiveGivesItsResult) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(std::to_string(shape.members) + " members of " + std::to_string(shape.locals));
    NcclRig rig(shape.members * shape.locals);
    {
      Members m(rig, shape.members, shape.locals);
      ASSERT_EQ(m.error, "ok");
      EXPECT_EQ(m.all[0]->size(), shape.members * shape.locals);
      EXPECT_EQ(m.all.back()->first(), (shape.members - 1) * shape.locals);
      EXPECT_EQ(m.all[0]->locals(), shape.locals);
      check_collectives(m, m.all, 100);
      check_collectives(m, m.all, 600);   // what is gathered is larger than a window
      check_collectives(m, m.all, 3000);  // larger than a window
      EXPECT_EQ(rig.fake.in_windows() > 0, shape.locals == 1);
    }
    rig.stop();
    EXPECT_EQ(rig.driver().violation(), "");
    EXPECT_EQ(rig.fake.violation(), "");
    EXPECT_EQ(rig.fake.leaks(), "");
    EXPECT_EQ(rig.fake.aborts(), 0);
  }
}

TEST(NcclCommunicator, WithoutWindowsTheResultsAreTheSame) {
  NcclRig rig(2);
  rig.fake.support_windows(false);
  {
    Members m(rig, 2, 1);
    check_collectives(m, m.all, 100);
    EXPECT_EQ(rig.fake.in_windows(), 0);
  }
  rig.stop();
  EXPECT_EQ(rig.fake.violation() + rig.driver().violation() + rig.fake.leaks(), "");
}

/// Rank 0 sends `from` to rank 1, which receives it in `to`.
std::string send_to_rank_1(Members& m, const StorageRef& from, const StorageRef& to, std::int64_t count) {
  return in_threads(2, [&](int r) {
    CollectiveCall call = call_of(r == 0 ? Collective::Send : Collective::Receive, ElementType::f32, count, 1 - r);
    const auto n = static_cast<std::size_t>(r);
    const std::vector<RankOperands> operands{{m.streams[n], r == 0 ? from : nullptr, 0, r == 1 ? to : nullptr, 0}};
    call.ranks = operands;
    m.all[n]->enqueue(call);
  });
}

TEST(NcclCommunicator, MessagesGoFromRankToRank) {
  NcclRig rig(2);
  Members m(rig, 2, 1);
  const std::vector<float> values = values_of(3, 50);
  const auto from = rig.make(0, values), to = rig.make(1, std::vector<float>(50));
  EXPECT_EQ(send_to_rank_1(m, from, to, 50), "ok");
  EXPECT_EQ(rig.read<float>(1, to), values);
  EXPECT_EQ(rig.fake.violation(), "");
}

TEST(NcclCommunicator, PartsOfAGroupAreGroups) {
  NcclRig rig(4);
  {
    Members m(rig, 4, 1);
    Communicators parts(4);
    EXPECT_EQ(in_threads(4,
                         [&](int r) {
                           parts[static_cast<std::size_t>(r)] = m.all[static_cast<std::size_t>(r)]->split(r % 2, {});
                         }),
              "ok");
    for (int r = 0; r < 4; ++r) {
      EXPECT_EQ(parts[static_cast<std::size_t>(r)]->size(), 2);
      EXPECT_EQ(parts[static_cast<std::size_t>(r)]->first(), r / 2);
    }
    std::vector<StorageRef> in;
    for (int r = 0; r < 4; ++r) in.push_back(rig.make(r, std::vector<std::int32_t>{r + 1, 10 * r}));
    EXPECT_EQ(m.run(parts, call_of(Collective::AllReduce, ElementType::i32, 2), in, in), "ok");
    for (int r = 0; r < 4; ++r) {
      const std::vector<std::int32_t> expected{r % 2 == 0 ? 4 : 6, r % 2 == 0 ? 20 : 40};
      EXPECT_EQ(rig.read<std::int32_t>(r, in[static_cast<std::size_t>(r)]), expected);
    }
    check_collectives(m, m.all, 20);
    in_threads(4, [&](int r) { parts[static_cast<std::size_t>(r)].reset(); });
  }
  rig.stop();
  EXPECT_EQ(rig.fake.violation() + rig.driver().violation() + rig.fake.leaks(), "");
}

/// On another library's stream an event is recorded with each piece of work: here before the group of NCCL's has ended,
/// which enqueues the kernels.
TEST(NcclCommunicator, UsesAreNotedBehindTheKernelsOfAGroup) {
  NcclRig rig(2);
  {
    Members m(rig, 1, 2);
    for (int r = 0; r < 2; ++r)
      m.streams[static_cast<std::size_t>(r)] = Stream::wrap(rig.foreign_stream(r), rig.device(r));
    for (int i = 0; i < 20; ++i) {
      std::vector<StorageRef> x, y;
      for (int r = 0; r < 2; ++r) {
        x.push_back(rig.make(r, values_of(r, 8)));
        y.push_back(rig.make(r, std::vector<float>(8)));
      }
      rig.pause(true);
      EXPECT_EQ(m.run(m.all, call_of(Collective::AllReduce, ElementType::f32, 8), x, x), "ok");
      const std::array<std::uint64_t, 3> slots{0, 0, 32};
      for (int r = 0; r < 2; ++r) {
        const auto n = static_cast<std::size_t>(r);
        const std::array<runtime::Access, 2> accesses{runtime::Access{y[n], runtime::AccessMode::Write},
                                                      runtime::Access{x[n], runtime::AccessMode::Read}};
        Stream(rig.device(r)).core()->submit({rig.backend(r).range_copy(), {}, slots, accesses, "a copy", {}});
      }
      rig.pause(false);
      std::vector<float> sum = values_of(0, 8);
      for (std::size_t k = 0; k < 8; ++k) sum[k] += values_of(1, 8)[k];
      for (int r = 0; r < 2; ++r) EXPECT_EQ(rig.read<float>(r, y[static_cast<std::size_t>(r)]), sum);
    }
  }
  rig.stop();
  EXPECT_EQ(rig.fake.violation() + rig.driver().violation() + rig.fake.leaks(), "");
}

TEST(NcclCommunicator, CollectivesAreCapturedOneAfterTheOther) {
  for (const std::size_t window : {std::size_t{0}, std::size_t{4096}}) {
    NcclRig rig(1);
    {
      Members m(rig, 1, 1, {.timeout_ms = 20'000, .window_bytes = window, .window_of_one_rank = true});
      const auto a = rig.make(0, values_of(1, 10)), b = rig.make(0, values_of(2, 10));
      const auto x = rig.make(0, std::vector<float>(10)), y = rig.make(0, std::vector<float>(10));
      auto recording = std::make_shared<runtime::GraphRecording>(rig.device(0));
      {
        const runtime::CaptureScope scope(*recording, {});
        for (const auto& [in, out] : {std::pair{a, x}, std::pair{b, y}}) {
          CollectiveCall call = call_of(Collective::AllReduce, ElementType::f32, 10);
          const std::vector<RankOperands> operands{{Stream(scope.stream()), in, 0, out, 0}};
          call.ranks = operands;
          m.all[0]->enqueue(call);
        }
      }
      recording->finish();
      const auto graph = rig.backend(0).make_graph(recording);
      // Nothing but their order connects the two: the second follows the first.
      EXPECT_EQ(rig.driver().last_graph(), window == 0 ? "g{x x0} g0{x x0}" : "c g0{x x0} c1 c2 g3{x x0} c4");
      const Stream stream(rig.device(0));
      stream.core()->submit({graph, {}, {}, recording->accesses(), "a graph", {}});
      EXPECT_EQ(rig.read<float>(0, x), values_of(1, 10));
      EXPECT_EQ(rig.read<float>(0, y), values_of(2, 10));
    }
    rig.stop();
    EXPECT_EQ(rig.fake.violation() + rig.driver().violation() + rig.fake.leaks(), "");
  }
}

// -- failures --------------------------------------------------------------------------------------------------------

/// Creates a group of one thread, runs collectives, splits it. Everything ends; what fails is a MeshError.
std::string scenario(NcclRig& rig, int locals, const NcclOptions& options) {
  try {
    Members m(rig, 1, locals, options);
    if (m.error != "ok") return m.error;
    std::vector<StorageRef> in;
    for (int r = 0; r < locals; ++r) in.push_back(rig.make(r, values_of(r, 10)));
    for (int i = 0; i < 2; ++i) {
      const std::string error = m.run(m.all, call_of(Collective::AllReduce, ElementType::f32, 10), in, in);
      if (error != "ok") return error;
    }
    const auto part = m.all[0]->split(0, {});
    return "ok";
  } catch (const MeshError& error) { return error.what(); }
}

TEST(NcclCommunicator, EveryFailingCallEndsTheGroup) {
  for (const int locals : {1, 2}) {
    for (int k = 0;; ++k) {
      SCOPED_TRACE(std::to_string(locals) + " ranks, call " + std::to_string(k));
      NcclRig rig(locals);
      rig.fake.fail_at(k, 3);
      const std::string error = scenario(rig, locals, kOptions);
      const bool happened = rig.fake.fault_happened();
      rig.stop();
      EXPECT_EQ(rig.driver().violation(), "");
      EXPECT_EQ(rig.fake.leaks(), "");
      if (!happened) {
        EXPECT_EQ(error, "ok");
        break;
      }
      ASSERT_LT(k, 100);
      // Without memory for a window there is none; at the end of a group nothing is left to report to.
      if (error != "ok") {
        EXPECT_THAT(error, testing::AllOf(HasSubstr("MeshError"), HasSubstr("fake error (as injected)")));
      }
    }
  }
}

/// Calls that do not block are polled; those that block are ended by the watchdog.
TEST(NcclCommunicator, EveryHangingCallEndsTheGroup) {
  for (const int locals : {1, 2}) {
    int calls = 0;
    {
      NcclRig rig(locals);
      EXPECT_EQ(scenario(rig, locals, kOptions), "ok");
      calls = rig.fake.calls();
      rig.stop();
    }
    ASSERT_GT(calls, 10);
    for (int k = 0; k < calls; ++k) {
      SCOPED_TRACE(std::to_string(locals) + " ranks, call " + std::to_string(k));
      NcclRig rig(locals);
      rig.fake.hang_at(k);
      const std::string error =
          scenario(rig, locals, {.timeout_ms = 60, .window_bytes = 4096, .window_of_one_rank = true});
      const bool happened = rig.fake.fault_happened();
      rig.stop();
      EXPECT_EQ(rig.fake.leaks(), "");
      // On a busy machine a call before it may exceed the short limit, too.
      EXPECT_TRUE(happened || error != "ok");
      if (error != "ok") {
        EXPECT_THAT(error, testing::AnyOf(HasSubstr("did not end within 0.06 s"), HasSubstr("fake error")));
      }
    }
  }
}

TEST(NcclCommunicator, AMemberThatDoesNotComeIsReported) {
  NcclRig rig(1);
  const Stream stream(rig.device(0));
  EXPECT_THAT(error_of([&] {
                nccl_communicator(rig.library, nccl_id(rig.library), 2, 0, {&stream, 1}, {.timeout_ms = 100});
              }),
              HasSubstr("ncclCommInitRankConfig of rank 0 did not end within 0.1 s: another rank has not called it"));
  EXPECT_EQ(rig.fake.leaks(), "");
}

std::optional<GroupFailure> wait_for_failure(const Communicator& communicator) {
  for (int i = 0; i < 6000 && !communicator.failure(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return communicator.failure();
}

TEST(NcclCommunicator, TheWatchdogFindsErrorsOfOtherRanks) {
  NcclRig rig(2);
  Members m(rig, 2, 1);
  EXPECT_FALSE(m.all[0]->failure());
  rig.fake.break_rank(1, 6);
  const auto failure = wait_for_failure(*m.all[1]);
  ASSERT_TRUE(failure);
  EXPECT_THAT(failure->reason, HasSubstr("NCCL reports for rank 1: fake error"));
  const auto x = rig.make(1, values_of(0, 4));
  CollectiveCall call = call_of(Collective::AllReduce, ElementType::f32, 4);
  const std::vector<RankOperands> operands{{m.streams[1], x, 0, x, 0}};
  call.ranks = operands;
  EXPECT_THAT(error_of([&] { m.all[1]->enqueue(call); }), HasSubstr("NCCL reports for rank 1"));
}

/// What may wait for another rank on the host (here a message to one that does not take it) does not block the thread
/// in NCCL; a collective does not cost a thread of NCCL's.
TEST(NcclCommunicator, OnlyCollectivesBlock) {
  NcclRig rig(2);
  {
    Members m(rig, 2, 1);
    const int before = rig.fake.calls_that_blocked();
    const auto x = rig.make(0, values_of(0, 4)), y = rig.make(1, values_of(1, 4));
    EXPECT_EQ(m.run(m.all, call_of(Collective::AllReduce, ElementType::f32, 4), {x, y}, {x, y}), "ok");
    EXPECT_EQ(rig.fake.calls_that_blocked(), before + 2);
    EXPECT_EQ(send_to_rank_1(m, x, y, 4), "ok");
    EXPECT_EQ(rig.fake.calls_that_blocked(), before + 2);
  }
  rig.stop();
  EXPECT_EQ(rig.fake.violation() + rig.driver().violation() + rig.fake.leaks(), "");
}

/// Rank 1 does not call: the kernel of rank 0 waits until another thread aborts the group.
TEST(NcclCommunicator, AnAbortEndsWorkInFlight) {
  NcclRig rig(2);
  {
    Members m(rig, 2, 1);
    const auto x = rig.make(0, values_of(0, 4));
    CollectiveCall call = call_of(Collective::AllReduce, ElementType::f32, 4);
    const std::vector<RankOperands> operands{{m.streams[0], x, 0, x, 0}};
    call.ranks = operands;
    m.all[0]->enqueue(call);
    std::thread([&] { m.all[0]->abort({1, "killed by signal 9"}); }).join();
    m.all[0]->abort({0, "later"});
    rig.wait(*x);
    EXPECT_EQ(m.all[0]->failure()->rank, 1);
    EXPECT_THAT(error_of([&] { m.all[0]->enqueue(call); }), HasSubstr("all_reduce: rank 1: killed by signal 9"));
    EXPECT_THAT(error_of([&] { m.all[0]->split(0, {}); }), HasSubstr("killed by signal 9"));
    m.all[1]->abort({1, "killed by signal 9"});
  }
  rig.stop();
  EXPECT_EQ(rig.fake.leaks(), "");
  EXPECT_EQ(rig.fake.aborts(), 4) << "two communicators of each rank";
}

CollectiveCall all_reduce_of(const std::vector<RankOperands>& operands) {
  CollectiveCall call = call_of(Collective::AllReduce, ElementType::f32, 4);
  call.ranks = operands;
  return call;
}

/// Members of one process that were told so end together: rank 0 waits in a kernel for rank 1, which has given up.
TEST(NcclCommunicator, SiblingsEndTogether) {
  for (const bool in_part : {false, true}) {
    NcclRig rig(2);
    {
      NcclOptions options = kOptions;
      options.siblings = std::make_shared<nccl::Siblings>();
      Members m(rig, 2, 1, options);
      Communicators parts(2);
      EXPECT_EQ(
          in_threads(
              2, [&](int r) { parts[static_cast<std::size_t>(r)] = m.all[static_cast<std::size_t>(r)]->split(0, {}); }),
          "ok");
      const Communicators& used = in_part ? parts : m.all;
      const auto x = rig.make(0, values_of(0, 4));
      const std::vector<RankOperands> operands{{m.streams[0], x, 0, x, 0}};
      used[0]->enqueue(all_reduce_of(operands));
      m.all[1]->abort({1, "has given up"});
      rig.wait(*x);
      for (const auto& communicator : {m.all[0], parts[0], parts[1]}) {
        const auto failure = wait_for_failure(*communicator);
        ASSERT_TRUE(failure);
        EXPECT_EQ(failure->rank, 1);
        EXPECT_EQ(failure->reason, "has given up");
      }
      // Who comes later ends at once.
      const Stream stream(rig.device(0));
      EXPECT_THAT(error_of([&] {
                    nccl_communicator(rig.library, nccl_id(rig.library), 1, 0, {&stream, 1}, options);
                  }),
                  HasSubstr("has given up"));
    }
    rig.stop();
    EXPECT_EQ(rig.driver().violation() + rig.fake.leaks(), "");
  }
}

/// Rank 1 never calls. With a limit the group of rank 0 ends and names the reason; without one it may wait.
TEST(NcclCommunicator, ACollectiveThatAnotherRankDoesNotMakeEndsAfterTheLimit) {
  for (const int limit : {0, 1000}) {
    NcclRig rig(2);
    {
      NcclOptions options = kOptions;
      options.collective_ms = limit;
      Members m(rig, 2, 1, options);
      const auto x = rig.make(0, values_of(0, 4));
      const std::vector<RankOperands> operands{{m.streams[0], x, 0, x, 0}};
      m.all[0]->enqueue(all_reduce_of(operands));
      if (limit == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        EXPECT_FALSE(m.all[0]->failure());
        m.all[0]->abort({0, "the end of the test"});
      }
      rig.wait(*x);
      const auto failure = wait_for_failure(*m.all[0]);
      ASSERT_TRUE(failure);
      if (limit > 0) { EXPECT_THAT(failure->reason, HasSubstr("a collective of rank 0 has not ended 1 s after")); }
      EXPECT_FALSE(m.all[1]->failure()) << "it was not told of the other";
      m.all[1]->abort({1, "the end of the test"});
    }
    rig.stop();
    EXPECT_EQ(rig.driver().violation() + rig.fake.leaks(), "");
  }
}

/// The variable of the environment while this lives.
class Mixing {
 public:
  explicit Mixing(const char* value) { setenv("NCCL_GRAPH_MIXING_SUPPORT", value, 1); }
  ~Mixing() { unsetenv("NCCL_GRAPH_MIXING_SUPPORT"); }
  Mixing(const Mixing&) = delete;
  Mixing& operator=(const Mixing&) = delete;
};

/// Without the events of NCCL, a collective that is launched waits on the host for graphs with collectives in flight,
/// and for nothing else; with them it does not.
TEST(NcclCommunicator, LaunchedCollectivesWaitForGraphsInFlight) {
  for (const bool mixes : {false, true}) {
    const Mixing environment(mixes ? "1" : "0");
    NcclRig rig(1);
    {
      Members m(rig, 1, 1, {.timeout_ms = 20'000, .window_of_one_rank = false});
      const auto x = rig.make(0, values_of(1, 4)), y = rig.make(0, std::vector<float>(4));
      const std::vector<RankOperands> operands{{m.streams[0], x, 0, y, 0}};
      auto recording = std::make_shared<runtime::GraphRecording>(rig.device(0));
      {
        const runtime::CaptureScope scope(*recording, {});
        const std::vector<RankOperands> captured{{Stream(scope.stream()), x, 0, y, 0}};
        m.all[0]->enqueue(all_reduce_of(captured));
      }
      recording->finish();
      const auto graph = rig.backend(0).make_graph(recording);
      rig.pause(true);
      m.all[0]->enqueue(all_reduce_of(operands));
      m.all[0]->enqueue(all_reduce_of(operands));  // behind one that was launched: at once
      m.streams[0].core()->submit({graph, {}, {}, recording->accesses(), "a graph", {}});
      std::atomic<bool> launched{false};
      std::thread thread([&] {
        m.all[0]->enqueue(all_reduce_of(operands));
        launched = true;
      });
      const int most = mixes ? 30'000 : 100;  // what happens may take long; what must not happen is given a moment
      for (int i = 0; i < most && !launched; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      EXPECT_EQ(launched.load(), mixes);
      rig.pause(false);
      thread.join();
      EXPECT_EQ(rig.read<float>(0, y), values_of(1, 4));
    }
    rig.stop();
    EXPECT_EQ(rig.fake.violation() + rig.driver().violation() + rig.fake.leaks(), "");
  }
}

/// Collectives that end one after the other are not taken for one that does not: the limit begins again.
TEST(NcclCommunicator, CollectivesThatEndHaveNoLimitTogether) {
  NcclRig rig(1);
  {
    NcclOptions options = kOptions;
    options.collective_ms = 1000;  // one collective takes less, however busy the machine is
    Members m(rig, 1, 1, options);
    const auto x = rig.make(0, values_of(0, 4));
    const std::vector<RankOperands> operands{{m.streams[0], x, 0, x, 0}};
    for (int i = 0; i < 6; ++i) {
      m.all[0]->enqueue(all_reduce_of(operands));
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // nothing is in flight
    EXPECT_FALSE(m.all[0]->failure());
  }
  rig.stop();
  EXPECT_EQ(rig.fake.violation() + rig.driver().violation() + rig.fake.leaks(), "");
}

TEST(NcclCommunicator, WhatNcclDoesNotHaveIsRejected) {
  NcclRig rig(1);
  Members m(rig, 1, 1);
  const auto x = rig.make(0, std::vector<std::int16_t>(4));
  const std::vector<StorageRef> s{x};
  EXPECT_THAT(m.run(m.all, call_of(Collective::AllReduce, ElementType::i16, 4), s, s),
              HasSubstr("does not add elements of type i16"));
  EXPECT_EQ(m.run(m.all, call_of(Collective::AllGather, ElementType::i16, 4), s, s), "ok");
  EXPECT_THAT(m.run(m.all, call_of(Collective::Broadcast, ElementType::i16, 4, 1), s, s),
              HasSubstr("there is no rank 1"));
  EXPECT_THAT(m.run(m.all, call_of(Collective::AllGather, ElementType::i16, 5), s, s), HasSubstr("of a storage of 8"));
  const Stream cpu(Device::cpu());
  EXPECT_THROW(nccl_communicator(rig.library, {}, 1, 0, {&cpu, 1}, kOptions), DeviceError);
}

}  // namespace THIS_FILE
}  // namespace tessera::mesh::fake
