// Loops, branches, temporaries and changed numbers of graphs, on the fake driver, which runs what is not ordered in any
// order.
#include <gtest/gtest.h>

#include "base/rounds.hpp"
#include "runtime/graph_programs.hpp"
#include "tessera/base/error.hpp"
#include "tessera/runtime/transfer.hpp"

namespace tessera::runtime::cuda::fake {
namespace {

using Kind = Statement::Kind;

struct ControlRig : Rig {
  explicit ControlRig(int version = 13000) : Rig(1, version) { add_program_kernels(driver); }
};

void write(const StorageRef& storage, std::uint64_t value) { copy_from_host(*storage, 0, &value, sizeof value); }

TEST(CudaGraphControl, ALoopRunsUntilItsConditionIsZero) {
  ControlRig rig;
  ProgramRecorder recorder(rig);
  const std::vector<StorageRef> v{rig.make(2), rig.make(3), rig.make(5)};
  const Block program{{Kind::While, 2, 0, 0, 0, {{{Kind::Mix, 0, 1, 4}, {Kind::Down, 2}}}}, {Kind::Mix, 1, 0, 1}};
  const auto recording = recorder.record(program, v, 3);
  EXPECT_EQ(recording->call_count(), 3u);
  const auto graph = rig.backend.make_graph(recording);
  const Stream stream(rig.device());
  std::vector<std::uint64_t> expected{2, 3, 5};
  for (const std::uint64_t runs : {5u, 0u, 1u, 3u}) {
    write(v[2], expected[2] = runs);
    replay(graph, *recording, stream);
    compute(program, expected);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(rig.read(v[i]), expected[i]) << runs << ' ' << i;
  }
  EXPECT_EQ(rig.driver.violation(), "");
}

TEST(CudaGraphControl, ABranchTakesOneOfItsBodiesAlsoIfTheFirstChangesTheCondition) {
  ControlRig rig;
  ProgramRecorder recorder(rig);
  const std::vector<StorageRef> v{rig.make(1), rig.make(10), rig.make(20)};
  const Block program{{Kind::If, 0, 0, 0, 0, {{{Kind::Down, 0}, {Kind::Mix, 1, 2, 5}}, {{Kind::Mix, 2, 1, 6}}}}};
  const auto recording = recorder.record(program, v, 3);
  const auto graph = rig.backend.make_graph(recording);
  const Stream stream(rig.device());
  std::vector<std::uint64_t> expected{1, 10, 20};
  for (int i = 0; i < 2; ++i) {
    replay(graph, *recording, stream);
    compute(program, expected);
    for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(rig.read(v[k]), expected[k]) << i << ' ' << k;
  }
  EXPECT_EQ(rig.driver.violation(), "");
}

/// A body waits for its last work before the condition of a loop is set again; the nodes of a branch are in line.
TEST(CudaGraphControl, NodesOfLoopsAndBranches) {
  const auto shape = [](const Block& program) {
    ControlRig rig;
    ProgramRecorder recorder(rig);
    const std::vector<StorageRef> v{rig.make(2), rig.make(3), rig.make(1)};
    (void)rig.backend.make_graph(recorder.record(program, v, 3));
    EXPECT_EQ(rig.driver.violation(), "");
    return rig.driver.last_graph();
  };
  const Block body{{Kind::Mix, 0, 1, 4}, {Kind::Down, 2}};
  EXPECT_EQ(shape({{Kind::While, 2, 0, 0, 0, {body}}, {Kind::Mix, 1, 0, 1}}), "k ?0{k k k0,1} k1");
  EXPECT_EQ(shape({{Kind::If, 2, 0, 0, 0, {body, {{Kind::Mix, 1, 0, 1}}}}}), "k k0 ?1{k k} ?2{k}");
  EXPECT_EQ(shape({{Kind::If, 2, 0, 0, 0, {{{Kind::Mix, 0, 1, 4}, {Kind::If, 1, 0, 0, 0, {body}}}}}}),
            "k ?0{k k0 ?1{k k}}")
      << "beside a branch, a body is in one line";
}

/// The driver restricts what a body may copy.
TEST(CudaGraphControl, BodiesCopyNoHostMemory) {
  ControlRig rig;
  const StorageRef x = rig.make(1), counter = rig.make(2);
  const StorageRef in = Storage::allocate(Device::cpu(), 8);
  write(in, 5);
  auto recording = std::make_shared<GraphRecording>(rig.device());
  {
    const CaptureScope scope(*recording, {});
    auto body = std::make_shared<GraphRecording>(rig.device());
    {
      const BodyScope inner(*body);
      transfer(Stream(scope.stream()), {x}, {in}, 8, "copy_into", {"a.cpp", "", 3});
    }
    recording->add_control(RecordedWork::Kind::While, {counter, 0, 4}, {body}, "graph_while", {"a.cpp", "", 2});
  }
  try {
    (void)rig.backend.make_graph(recording);
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.where().line, 3u);
    EXPECT_NE(error.message().find("in the body of a loop"), std::string::npos) << error.what();
  }
  EXPECT_EQ(rig.driver.violation(), "");
}

TEST(CudaGraphControl, RandomProgramsGiveTheResultsOfTheHost) {
  std::size_t shared = 0, loops = 0;
  for (std::uint64_t seed = 0; seed < test::rounds(250); ++seed) {
    ControlRig rig;
    ProgramRecorder recorder(rig);
    constexpr std::size_t kVariables = 3, kCounters = 3;
    ProgramMaker maker(seed, kVariables, kCounters);
    const Block program = maker.block(3, 4 + seed % 20);
    std::mt19937_64 random(seed);
    std::vector<StorageRef> given;
    std::vector<std::uint64_t> expected;
    for (std::size_t i = 0; i < kVariables + kCounters; ++i) {
      expected.push_back(random() % 4);
      given.push_back(rig.make(expected.back()));
    }
    expected.resize(maker.variables());
    const auto recording = recorder.record(program, given, maker.variables());
    const GraphMemory memory = recording->memory();
    EXPECT_LE(memory.planned_bytes, memory.temporaries * kStorageAlignment) << seed;
    shared += memory.temporaries * kStorageAlignment > memory.planned_bytes ? 1 : 0;
    for (const RecordedWork& entry : recording->work()) loops += entry.kind == RecordedWork::Kind::While ? 1 : 0;
    const auto graph = rig.backend.make_graph(recording);
    const Stream a(rig.device()), b(rig.device());
    for (int i = 0; i < 3; ++i) {
      for (std::size_t c = kVariables; c < given.size(); ++c) write(given[c], expected[c] = random() % 4);
      replay(graph, *recording, i == 1 ? b : a);
      compute(program, expected);
      for (std::size_t k = 0; k < given.size(); ++k) ASSERT_EQ(rig.read(given[k]), expected[k]) << seed << ' ' << k;
    }
    ASSERT_EQ(rig.driver.violation(), "") << seed;
  }
  EXPECT_GT(shared, test::rounds(60)) << "too few programs share memory";
  EXPECT_GT(loops, test::rounds(60));
}

TEST(CudaGraphControl, EveryFailingCallLosesNothing) {
  const Block program{
      {Kind::Set, 3, 0, 1},
      {Kind::While,
       2,
       0,
       0,
       0,
       {{{Kind::If, 3, 0, 0, 0, {{{Kind::Mix, 0, 3, 4, 77}}, {{Kind::Mix, 1, 3, 1}}}}, {Kind::Down, 2}}}},
      {Kind::Mix, 1, 0, 1},
      {Kind::Drop, 3}};
  for (int k = 0;; ++k) {
    ControlRig rig;
    ProgramRecorder recorder(rig);
    const std::vector<StorageRef> v{rig.make(2), rig.make(3), rig.make(2)};
    const auto recording = recorder.record(program, v, 4);
    const std::string before = rig.driver.leaks();
    rig.driver.fail_at(k);
    bool made = false;
    try {
      (void)rig.backend.make_graph(recording);
      made = true;
    } catch (const DeviceError&) {}
    const bool failed = rig.driver.fault_happened();
    rig.driver.heal();
    EXPECT_TRUE(made || failed) << k;
    const auto graph = rig.backend.make_graph(recording);  // the next one works
    const Stream stream(rig.device());
    std::vector<std::uint64_t> expected{2, 3, 2, 0};
    replay(graph, *recording, stream);
    compute(program, expected);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(rig.read(v[i]), expected[i]) << k << ' ' << i;
    EXPECT_EQ(rig.driver.violation(), "") << k;
    if (!failed) break;
    ASSERT_LT(k, 300);
  }
}

TEST(CudaGraphControl, DroppedGraphsLeaveNothing) {
  ControlRig rig;
  std::string before;
  for (int i = 0; i < 2; ++i) {  // the second time the kernel for conditions is loaded
    if (i == 1) before = rig.driver.leaks();
    ProgramRecorder recorder(rig);
    const std::vector<StorageRef> v{rig.make(1), rig.make(2), rig.make(3)};
    const Block program{{Kind::While, 2, 0, 0, 0, {{{Kind::Mix, 0, 1, 4}, {Kind::Down, 2}}}}};
    const auto recording = recorder.record(program, v, 3);
    const auto graph = rig.backend.make_graph(recording);
    const Stream stream(rig.device());
    for (int n = 0; n < 3; ++n) replay(graph, *recording, stream);
    (void)rig.backend.make_graph(recording);  // never replayed
  }
  rig.driver.run_all();
  EXPECT_EQ(rig.driver.violation(), "");
  EXPECT_EQ(rig.driver.leaks(), before);
}

TEST(CudaGraphControl, AnOldDriverIsNamedWithTheLineOfTheLoop) {
  ControlRig rig;
  ProgramRecorder recorder(rig);
  const std::vector<StorageRef> v{rig.make(1), rig.make(2), rig.make(3)};
  const auto loop = recorder.record({{Kind::While, 2, 0, 0, 0, {{{Kind::Down, 2}}}}}, v, 3);
  const auto plain = recorder.record({{Kind::Mix, 0, 1, 4}}, v, 3);
  rig.driver.table().cuGraphConditionalHandleCreate = nullptr;
  try {
    (void)rig.backend.make_graph(loop);
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_NE(error.message().find("graph_while in a graph of cuda:0 needs a driver of CUDA 12.3"), std::string::npos)
        << error.message();
    EXPECT_EQ(error.where().line, 7);
  }
  const Stream stream(rig.device());
  replay(rig.backend.make_graph(plain), *plain, stream);
  EXPECT_EQ(rig.read(v[0]), 1u * 31 + 2 + 4);
  EXPECT_EQ(rig.driver.violation(), "");
}

TEST(GraphControlRecording, WhatABodyOverwritesMayStayAsItWas) {
  ControlRig rig;
  const auto set = rig.load("set");
  const auto y = rig.make(1), condition = rig.make(0);
  auto recording = std::make_shared<GraphRecording>(rig.device());
  const auto mode_of = [&] {
    for (const Access& access : recording->accesses())
      if (access.storage == y) return access.mode;
    return AccessMode::Read;
  };
  const std::array<Access, 2> accesses{Access{y, AccessMode::Write}, Access{condition, AccessMode::Read}};
  const std::array<std::uint64_t, 3> args{};
  auto body = std::make_shared<GraphRecording>(rig.device());
  body->add({set, {}, args, accesses, "kernel", {}});
  recording->add_control(RecordedWork::Kind::If, {condition, 0, 4}, {body}, "graph_if", {});
  EXPECT_EQ(mode_of(), AccessMode::ReadWrite) << "if the body does not run";
  recording = std::make_shared<GraphRecording>(rig.device());
  recording->add({set, {}, args, accesses, "kernel", {}});
  EXPECT_EQ(mode_of(), AccessMode::Write);
}

// -- numbers ---------------------------------------------------------------------------------------------------------

std::shared_ptr<const GraphCalls> with_number(const GraphRecording& recording, std::uint64_t id, std::uint64_t value) {
  auto calls = std::make_shared<GraphCalls>(recording.calls());
  for (std::size_t i = 0; i < calls->size(); ++i) {
    if (recording.updatable()[i]->scalars[0].scalar == id) (*calls)[i].args[2] = value;
  }
  return calls;
}

/// At the top level, and perhaps also in a loop.
void check_numbers(bool in_loop, int version = 13000) {
  for (int k = -1; k < 12; ++k) {
    ControlRig rig(version);
    ProgramRecorder recorder(rig);
    const std::vector<StorageRef> v{rig.make(2), rig.make(3), rig.make(0)};
    const auto program = [&](std::uint64_t addend) {
      Block block{{Kind::Mix, 0, 1, addend, 5}, {Kind::Mix, 1, 0, 9, 6}};
      if (in_loop) block.push_back({Kind::While, 2, 0, 0, 0, {{{Kind::Mix, 0, 1, addend, 5}, {Kind::Down, 2}}}});
      return block;
    };
    const auto recording = recorder.record(program(4), v, 3);
    ASSERT_EQ(recording->calls().size(), in_loop ? 3u : 2u);
    auto graph = rig.backend.make_graph(recording);
    const Stream stream(rig.device());
    std::vector<std::uint64_t> expected{2, 3, 0};
    write(v[2], expected[2] = 2);
    replay(graph, *recording, stream);  // in flight while the number is changed
    compute(program(4), expected);
    graph = graph->with(with_number(*recording, 5, 1000));
    rig.driver.fail_at(k);  // -1: none
    bool enqueued = false;
    try {
      replay(graph, *recording, stream);
      enqueued = true;
    } catch (const DeviceError&) {}
    EXPECT_TRUE(enqueued || rig.driver.fault_happened());
    rig.driver.heal();
    if (enqueued) compute(program(1000), expected);
    replay(graph, *recording, stream);
    compute(program(1000), expected);
    graph = graph->with(with_number(*recording, 5, 4));  // back
    replay(graph, *recording, stream);
    compute(program(4), expected);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(rig.read(v[i]), expected[i]) << k << ' ' << i;
    EXPECT_EQ(rig.driver.violation(), "") << k;
    if (k >= 0) continue;
    EXPECT_EQ(rig.driver.count(in_loop ? Fn::cuGraphExecUpdate : Fn::cuGraphExecKernelNodeSetParams), 2);
  }
}

TEST(CudaGraphNumbers, AreChangedForLaterReplaysOnly) { check_numbers(false); }
TEST(CudaGraphNumbers, AreChangedInBodiesToo) { check_numbers(true); }
TEST(CudaGraphNumbers, AreChangedByOldDrivers) { check_numbers(false, 12020); }

// -- temporaries -----------------------------------------------------------------------------------------------------

GraphMemory memory_of(const Block& program, std::size_t variables) {
  ControlRig rig;
  ProgramRecorder recorder(rig);
  const std::vector<StorageRef> v{rig.make(1), rig.make(2), rig.make(1)};
  return recorder.record(program, v, variables)->memory();
}
constexpr std::size_t kOne = kStorageAlignment;

TEST(GraphMemoryPlan, AChainNeedsTheMemoryOfTwo) {
  Block chain{{Kind::Set, 3, 0, 1}};
  for (std::size_t i = 4; i < 20; ++i) {
    chain.push_back({Kind::Set, i, i - 1, 1});
    chain.push_back({Kind::Drop, i - 1});
  }
  chain.push_back({Kind::Mix, 0, 19, 0});
  chain.push_back({Kind::Drop, 19});
  const GraphMemory memory = memory_of(chain, 20);
  EXPECT_EQ(memory.temporaries, 17u);
  EXPECT_EQ(memory.temporary_bytes, 17u * 8);
  EXPECT_EQ(memory.planned_bytes, 2 * kOne);
}

TEST(GraphMemoryPlan, IndependentBranchesShareNothing) {
  const Block one{{Kind::Set, 3, 0, 1}, {Kind::Mix, 0, 3, 1}, {Kind::Drop, 3}};
  Block both = one;
  both.insert(both.end(), {{Kind::Set, 4, 1, 1}, {Kind::Mix, 1, 4, 1}, {Kind::Drop, 4}});
  EXPECT_EQ(memory_of(both, 5).planned_bytes, 2 * kOne);
  Block sequence = one;
  sequence.insert(sequence.end(), {{Kind::Set, 4, 0, 1}, {Kind::Mix, 1, 4, 1}, {Kind::Drop, 4}});
  EXPECT_EQ(memory_of(sequence, 5).planned_bytes, kOne);
}

TEST(GraphMemoryPlan, WhatATensorKeepsIsNotShared) {
  const Block kept{
      {Kind::Set, 3, 0, 1}, {Kind::Mix, 0, 3, 1}, {Kind::Drop, 3}, {Kind::Set, 4, 0, 1}, {Kind::Mix, 1, 4, 1}};
  ControlRig rig;
  ProgramRecorder recorder(rig);
  std::vector<StorageRef> v{rig.make(1), rig.make(2), rig.make(1)};
  auto recording = std::make_shared<GraphRecording>(rig.device());
  {
    const CaptureScope scope(*recording, {});
    v.resize(5);
    recorder.statements(kept, Stream(scope.stream()), v);
  }
  recording->finish();  // v[4] is still held
  EXPECT_EQ(recording->memory().temporaries, 1u);
}

TEST(GraphMemoryPlan, TheBodiesOfABranchShareAndALoopKeepsWhatWasMadeBefore) {
  const Block body{{Kind::Set, 3, 0, 1}, {Kind::Mix, 0, 3, 1}, {Kind::Drop, 3}};
  const Block other{{Kind::Set, 4, 1, 1}, {Kind::Mix, 1, 4, 1}, {Kind::Drop, 4}};
  EXPECT_EQ(memory_of({{Kind::If, 2, 0, 0, 0, {body, other}}}, 5).planned_bytes, kOne);
  // 3 is made before the loop and used at the begin of each run, 4 is made behind that use.
  const Block loop{
      {Kind::Set, 3, 0, 1},
      {Kind::While,
       2,
       0,
       0,
       0,
       {{{Kind::Mix, 0, 3, 1}, {Kind::Set, 4, 0, 1}, {Kind::Mix, 0, 4, 1}, {Kind::Drop, 4}, {Kind::Down, 2}}}},
      {Kind::Drop, 3}};
  EXPECT_EQ(memory_of(loop, 5).planned_bytes, 2 * kOne);
}

}  // namespace
}  // namespace tessera::runtime::cuda::fake
