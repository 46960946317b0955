// Programmatic edges of graphs: which kernels of a graph may start before the one before them has ended, what they may
// read before they wait, and which are asked to trigger. The fake driver starts them as early as hardware may.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/rounds.hpp"
#include "runtime/cuda/graph_chain.hpp"
#include "runtime/graph_programs.hpp"
#include "tessera/base/error.hpp"

namespace tessera::runtime::cuda::fake {
namespace {

struct CudaGraphEarly : ::testing::Test {
  static inline std::vector<std::uint64_t> bits;  ///< the launch flags of "eager", as they run
  static constexpr std::uint64_t kTrigger = std::uint64_t{1} << calling::kTriggerBit;
  Rig rig;
  FakeDriver& driver = rig.driver;
  StorageRef x = rig.make(1), y = rig.make(2), z = rig.make(3), w = rig.make(4);
  std::shared_ptr<GraphRecording> recording = std::make_shared<GraphRecording>(rig.device());

  CudaGraphEarly() {
    bits.clear();
    driver.add_kernel("eager", {4,
                                [](const Call& call) {
                                  bits.push_back(call.args[3]);
                                  run_eager(call);
                                },
                                start_eager});
  }
  ~CudaGraphEarly() override { EXPECT_EQ(driver.violation(), ""); }

  /// Records what `program(stream)` submits, and replays it once.
  template <class F>
  void run(F program) {
    {
      const CaptureScope scope(*recording, {});
      program(Stream(scope.stream()));
    }
    recording->finish();
    const auto graph = rig.backend.make_graph(recording);
    shape = driver.last_graph();
    replay(graph, *recording, Stream(rig.device()));
    driver.run_all();
  }
  /// The flags of tensors without in-flight writer: bit 0 the tensor that is read, bit 1 the one that is changed.
  static std::vector<std::uint64_t> free() {
    std::vector<std::uint64_t> flags = bits;
    for (std::uint64_t& f : flags) f &= ~kTrigger;
    return flags;
  }
  static std::vector<bool> triggers() {
    std::vector<bool> trigger;
    for (const std::uint64_t flags : bits) trigger.push_back((flags & kTrigger) != 0);
    return trigger;
  }
  std::string shape;  ///< of the graph: FakeDriver::last_graph()
};

using Flags = std::vector<std::uint64_t>;

TEST_F(CudaGraphEarly, AChainReadsBeforeTheWaitWhatItDoesNotWrite) {
  const auto kernel = rig.load_eager();
  run([&](const Stream& s) {
    rig.mix(kernel, s, y, x);
    rig.mix(kernel, s, z, y);
    rig.mix(kernel, s, w, z);
    rig.mix(kernel, s, w, x);
  });
  EXPECT_EQ(shape, "k k0* k1* k2*");
  EXPECT_EQ(free(), (Flags{3, 2, 2, 1})) << "the first starts after everything; y, z and w are written in the chain";
  EXPECT_EQ(triggers(), (std::vector<bool>{true, true, true, false})) << "small kernels, as long as one follows";
  const std::uint64_t in_y = 2 * 31 + 1, in_z = 3 * 31 + in_y, in_w = (4 * 31 + in_z) * 31 + 1;
  EXPECT_EQ(rig.read(w), in_w);
}

TEST_F(CudaGraphEarly, AKernelThatDoesNotWaitBeginsAChainAnew) {
  const auto kernel = rig.load_eager(), plain = rig.load("mix");
  run([&](const Stream& s) {
    rig.mix(kernel, s, y, x);
    rig.mix(plain, s, z, y);
    rig.mix(kernel, s, z, y);
  });
  EXPECT_EQ(shape, "k k0 k1*");
  EXPECT_EQ(free(), (Flags{3, 1})) << "y was written before the plain kernel started";
}

TEST_F(CudaGraphEarly, ACopyBeginsAChainAnew) {
  const auto kernel = rig.load_eager();
  run([&](const Stream& s) {
    rig.mix(kernel, s, y, x);
    const std::array<std::uint64_t, 3> args{0, 0, 8};  // from the begin of both, 8 bytes
    const std::array<Access, 2> accesses{{{z, AccessMode::Write}, {y, AccessMode::Read}}};
    s.core()->submit({rig.backend.range_copy(), {1}, args, accesses, "a copy", {}});
    rig.mix(kernel, s, w, z);
    rig.mix(kernel, s, w, y);
  });
  EXPECT_EQ(shape, "k c0 k1 k2*");
  EXPECT_EQ(free(), (Flags{3, 3, 1}));
}

TEST_F(CudaGraphEarly, AKernelBehindTwoBranchesStartsAfterBoth) {
  const auto kernel = rig.load_eager();
  run([&](const Stream& s) {
    rig.mix(kernel, s, y, x);
    rig.mix(kernel, s, z, x);
    rig.mix(kernel, s, y, z);
    rig.mix(kernel, s, w, y);
  });
  EXPECT_EQ(shape, "k k k0,1 k2*") << "only the last has one predecessor";
  EXPECT_EQ(rig.read(w), 4u * 31 + ((2 * 31 + 1) * 31 + (3 * 31 + 1)));
}

TEST_F(CudaGraphEarly, NothingAfterAKernelThatWritesThroughRawPointers) {
  const auto kernel = rig.load_eager(), raw = rig.load_eager({1, 0}, true);
  run([&](const Stream& s) {
    rig.mix(kernel, s, y, x);
    rig.mix(raw, s, y, x);
    rig.mix(kernel, s, y, x);
    rig.mix(kernel, s, y, x);
  });
  EXPECT_EQ(free(), (Flags{3, 1, 0, 0})) << "it may have written x";
}

/// Two storages over one memory: the one that is written and the one that is read differ.
TEST_F(CudaGraphEarly, MemoryThatIsBorrowedTwiceHasTheWriterOfBoth) {
  const auto kernel = rig.load_eager();
  const StorageRef alias = Storage::adopt(rig.device(), y->data(), 8, y);
  run([&](const Stream& s) {
    rig.mix(kernel, s, x, w);
    rig.mix(kernel, s, y, x);
    rig.mix(kernel, s, y, w);
    const std::array<std::uint64_t, 3> args{reinterpret_cast<std::uintptr_t>(y->data()),
                                            reinterpret_cast<std::uintptr_t>(alias->data()), 0};
    const std::array<Access, 2> accesses{{{y, AccessMode::ReadWrite}, {alias, AccessMode::Read}}};
    s.core()->submit({kernel, {1}, args, accesses, "kernel mix", {}});
  });
  EXPECT_EQ(free(), (Flags{3, 2, 1, 0}));
}

TEST(CudaGraphEarlyDriver, NoEdgesIfItDoesNotKnowThem) {
  for (const int version : {12020, 12030}) {
    Rig rig(1, version);
    const auto kernel = rig.load_eager();
    const StorageRef x = rig.make(1), y = rig.make(2);
    auto recording = std::make_shared<GraphRecording>(rig.device());
    {
      const CaptureScope scope(*recording, {});
      for (int i = 0; i < 2; ++i) rig.mix(kernel, Stream(scope.stream()), y, x);
    }
    recording->finish();
    const auto graph = rig.backend.make_graph(recording);
    EXPECT_EQ(rig.driver.last_graph(), version == 12020 ? "k k0" : "k k0*");
  }
}

/// The union of ranges, compared with a set of bytes.
TEST(CudaGraphChain, KnowsEveryByteThatItWrites) {
  Rig rig;
  const StorageRef memory = Storage::allocate(rig.device(), 64, {});
  auto* const begin = static_cast<std::byte*>(memory->data());
  for (std::uint64_t seed = 0; seed < test::rounds(200); ++seed) {
    std::mt19937_64 random(seed);
    GraphChain chain;
    std::vector<bool> written(64, false);
    for (int i = 0; i < 12; ++i) {
      const std::size_t from = random() % 60, bytes = 1 + random() % (64 - from) / 6;
      const bool writes = random() % 3 != 0;
      const Access access{Storage::adopt(rig.device(), begin + from, bytes, memory),
                          writes ? AccessMode::Write : AccessMode::Read};
      const GraphChain::Range range = GraphChain::range_of(*access.storage);
      const auto first = written.begin() + static_cast<std::ptrdiff_t>(from);
      const auto last = first + static_cast<std::ptrdiff_t>(bytes);
      EXPECT_EQ(chain.may_write(range), std::find(first, last, true) != last) << seed << ' ' << i;
      chain.add({&access, 1}, false);
      if (writes) std::fill(first, last, true);
    }
    chain.restart();
    EXPECT_FALSE(chain.may_write(GraphChain::range_of(*memory)));
  }
}

/// Random chains and branches of kernels that wait and of others, with storages that share memory.
TEST(CudaGraphEarlyRandom, GivesTheResultsOfTheProgram) {
  std::ptrdiff_t edges = 0;
  for (std::uint64_t seed = 0; seed < test::rounds(150); ++seed) {
    std::mt19937_64 random(seed);
    Rig rig;
    const std::array kernels{rig.load_eager(), rig.load_eager({1}), rig.load_early(), rig.load("mix"),
                             rig.load_eager({1, 0}, true)};
    const std::size_t count = 2 + random() % 4;
    std::vector<StorageRef> storages;
    std::vector<std::uint64_t> expected;
    for (std::size_t i = 0; i < count; ++i) {
      expected.push_back(random() % 1000);
      storages.push_back(rig.make(expected.back()));
    }
    auto recording = std::make_shared<GraphRecording>(rig.device());
    std::vector<std::array<std::uint64_t, 3>> program;
    {
      const CaptureScope scope(*recording, {});
      const Stream stream(scope.stream());
      const std::size_t length = 1 + random() % 24;
      for (std::size_t i = 0; i < length; ++i) {
        const std::size_t to = random() % count, from = (to + 1 + random() % (count - 1)) % count;
        const std::uint64_t addend = random() % 100;
        const auto& kernel = kernels[random() % (random() % 2 == 0 ? kernels.size() : 2)];
        rig.mix(kernel, stream, storages[to], storages[from], addend);
        program.push_back({to, from, addend});
      }
    }
    recording->finish();
    const auto graph = rig.backend.make_graph(recording);
    const std::string shape = rig.driver.last_graph();
    edges += std::count(shape.begin(), shape.end(), '*');
    const Stream a(rig.device()), b(rig.device());
    for (std::size_t i = 0; i < 2; ++i) {
      replay(graph, *recording, i == 0 ? a : b);
      for (const auto& [to, from, addend] : program) expected[to] = expected[to] * 31 + expected[from] + addend;
    }
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(rig.read(storages[i]), expected[i]) << seed << ' ' << i;
    EXPECT_EQ(rig.driver.violation(), "") << seed;
  }
  EXPECT_GT(edges, static_cast<std::ptrdiff_t>(2 * test::rounds(150)));
}

}  // namespace
}  // namespace tessera::runtime::cuda::fake
