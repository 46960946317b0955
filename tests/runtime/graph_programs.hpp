// Random programs with loops, branches and temporaries, for tests of graphs: recorded, and computed on the host.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "runtime/cuda_rig.hpp"
#include "tessera/runtime/graph.hpp"
#include "tessera/runtime/transfer.hpp"

namespace tessera::runtime::cuda::fake {

/// The kernels of the programs, in device memory of 8 bytes each: "set" y = 7 x + addend, "down" y = y - 1.
inline void add_program_kernels(FakeDriver& driver) {
  driver.add_kernel("set", {3, [](const Call& call) {
                              auto* y = static_cast<std::uint64_t*>(call.memory(0, 8));
                              const auto* x = static_cast<const std::uint64_t*>(call.memory(1, 8));
                              if (y != nullptr && x != nullptr) *y = *x * 7 + call.args[2];
                            }});
  driver.add_kernel("down", {3, [](const Call& call) {
                               auto* y = static_cast<std::uint64_t*>(call.memory(0, 8));
                               if (y != nullptr && *y != 0) --*y;
                             }});
}

/// A statement. Variables below the number of the given storages are these; the others are temporaries.
struct Statement {
  enum class Kind : std::uint8_t { Mix, Set, Down, Drop, While, If } kind = Kind::Mix;
  std::size_t y = 0, x = 0;  ///< While, If: `y` is the condition
  std::uint64_t addend = 0;
  std::uint64_t scalar = 0;  ///< the id of the addend, if it can be changed
  std::vector<std::vector<Statement>> bodies{};
};
using Block = std::vector<Statement>;

/// A block of a random program. Loops count a variable of their own down. A temporary ends in the block that makes it.
class ProgramMaker {
 public:
  ProgramMaker(std::uint64_t seed, std::size_t variables, std::size_t counters)
      : random_(seed), variables_(variables), counters_(counters), next_(variables + counters) {}
  /// `outer`: temporaries of the blocks around it.
  Block block(int depth, std::size_t length, std::vector<std::size_t> outer = {}) {
    Block made;
    std::vector<std::size_t> temporaries;
    const auto any = [&] {
      const std::size_t n = variables_ + outer.size() + temporaries.size(), i = random_() % n;
      if (i < variables_) return i;
      return i < variables_ + outer.size() ? outer[i - variables_] : temporaries[i - variables_ - outer.size()];
    };
    const auto inner = [&](std::size_t statements) {
      std::vector<std::size_t> all = outer;
      all.insert(all.end(), temporaries.begin(), temporaries.end());
      return block(depth - 1, statements, std::move(all));
    };
    for (std::size_t i = 0; i < length; ++i) {
      const auto choice = random_() % 10;
      if (choice < 3) {
        made.push_back({Statement::Kind::Set, next_, any(), random_() % 100, 0});
        temporaries.push_back(next_++);
      } else if (choice < 4 && !temporaries.empty()) {
        made.push_back({Statement::Kind::Drop, temporaries.back()});
        temporaries.pop_back();
      } else if (choice < 5 && depth > 0 && used_counters_ < counters_) {
        const std::size_t counter = variables_ + used_counters_++;
        Block body = inner(1 + random_() % 4);
        body.push_back({Statement::Kind::Down, counter});
        made.push_back({Statement::Kind::While, counter, 0, 0, 0, {std::move(body)}});
      } else if (choice < 6 && depth > 0) {
        Statement branch{Statement::Kind::If, any()};
        for (std::size_t b = 0; b < 1 + random_() % 2; ++b) branch.bodies.push_back(inner(1 + random_() % 3));
        made.push_back(std::move(branch));
      } else {
        const std::size_t y = any();
        std::size_t x = any();
        if (x == y) x = (y + 1) % variables_;
        if (x == y) continue;
        made.push_back({Statement::Kind::Mix, y, x, random_() % 100, 0});
      }
    }
    for (const std::size_t t : temporaries) made.push_back({Statement::Kind::Drop, t});
    return made;
  }
  std::size_t variables() const { return next_; }

 private:
  std::mt19937_64 random_;
  std::size_t variables_, counters_, next_, used_counters_ = 0;
};

inline void compute(const Block& block, std::vector<std::uint64_t>& v) {
  for (const Statement& s : block) {
    switch (s.kind) {
      case Statement::Kind::Mix: v[s.y] = v[s.y] * 31 + v[s.x] + s.addend; break;
      case Statement::Kind::Set: v[s.y] = v[s.x] * 7 + s.addend; break;
      case Statement::Kind::Down: v[s.y] -= v[s.y] != 0 ? 1 : 0; break;
      case Statement::Kind::Drop: break;
      case Statement::Kind::While:
        while (static_cast<std::uint32_t>(v[s.y]) != 0) compute(s.bodies[0], v);
        break;
      case Statement::Kind::If: {
        const std::size_t body = static_cast<std::uint32_t>(v[s.y]) != 0 ? 0 : 1;
        if (body < s.bodies.size()) compute(s.bodies[body], v);
      }
    }
  }
}

/// Records programs on a rig with add_program_kernels().
class ProgramRecorder {
 public:
  explicit ProgramRecorder(Rig& rig)
      : rig_(rig), mix_(rig.load("mix")), set_(rig.load("set")), down_(rig.load("down")) {}

  std::shared_ptr<GraphRecording> record(const Block& block, const std::vector<StorageRef>& given,
                                         std::size_t variables) {
    auto recording = std::make_shared<GraphRecording>(rig_.device());
    {
      const CaptureScope scope(*recording, {});
      const Stream stream(scope.stream());
      auto all = given;
      all.resize(variables);
      statements(block, stream, all);
    }
    recording->finish();
    return recording;
  }
  void statements(const Block& block, const Stream& stream, std::vector<StorageRef>& v) {
    using Kind = Statement::Kind;
    for (const Statement& s : block) {
      switch (s.kind) {
        case Kind::Set:
          v[s.y] = Storage::allocate(stream.core(), 8);
          launch(stream, set_, s, v, AccessMode::Write);
          break;
        case Kind::Mix: launch(stream, mix_, s, v, AccessMode::ReadWrite); break;
        case Kind::Down: launch(stream, down_, {Kind::Down, s.y, s.y}, v, AccessMode::ReadWrite); break;
        case Kind::Drop: v[s.y].reset(); break;
        default: control(s, stream, v);
      }
    }
  }

 private:
  struct Same final : CallUpdate {
    void update(RecordedCall&) const override {}
  };
  void control(const Statement& s, const Stream& stream, std::vector<StorageRef>& v) {
    GraphRecording* const outer = CaptureScope::innermost();
    std::vector<std::shared_ptr<GraphRecording>> bodies;
    for (const Block& block : s.bodies) {
      bodies.push_back(std::make_shared<GraphRecording>(rig_.device()));
      const BodyScope scope(*bodies.back());
      statements(block, stream, v);
    }
    const bool loop = s.kind == Statement::Kind::While;
    outer->add_control(loop ? RecordedWork::Kind::While : RecordedWork::Kind::If, {v[s.y], 0, 4}, std::move(bodies),
                       loop ? "graph_while" : "graph_if", {"program.cpp", "", 7});
  }
  void launch(const Stream& stream, const std::shared_ptr<const Launchable>& work, const Statement& s,
              const std::vector<StorageRef>& v, AccessMode mode) {
    static constexpr std::uint16_t kAddresses[] = {0, 1};
    const auto address = [&](std::size_t i) { return std::uint64_t{reinterpret_cast<std::uintptr_t>(v[i]->data())}; };
    const std::array<std::uint64_t, 3> args{address(s.y), address(s.x), s.addend};
    const std::array<Access, 2> accesses{Access{v[s.y], mode}, Access{v[s.x], AccessMode::Read}};
    Submission submission{work, {}, args, std::span(accesses).first(s.x == s.y ? 1 : 2), "kernel", {}};
    submission.movable = true;
    submission.addresses = kAddresses;
    if (s.x == s.y) submission.addresses = std::span(kAddresses).first(1);
    const ScalarUse use{2, s.scalar};
    if (s.scalar != 0) {
      submission.scalars = {&use, 1};
      submission.update = std::make_shared<Same>();
    }
    stream.core()->submit(submission);
  }

  Rig& rig_;
  std::shared_ptr<const Launchable> mix_, set_, down_;
};

inline void replay(const std::shared_ptr<const GraphWork>& graph, const GraphRecording& recording,
                   const Stream& stream) {
  stream.core()->submit({graph, {}, {}, recording.accesses(), "graph", {}});
}

}  // namespace tessera::runtime::cuda::fake
