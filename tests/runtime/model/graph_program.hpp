// The graph of the model check: a recording with temporaries that share memory, its replays, and what they do in the
// sequential program.
#pragma once
#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/model/world.hpp"
#include "tessera/runtime/graph.hpp"

namespace tessera::runtime::model {

/// What one replay does, in order: t = a0; u = a1; y = mixed(y, t, a2); t = a3; y = mixed(y, t, a4); y = mixed(y, u,
/// a5); v = a6; x = mixed(x, v, a7). t, u and v are temporaries; a2 can be changed.
class GraphProgram {
 public:
  /// Captures it and makes the graph. Throws what that throws; nothing is left then.
  GraphProgram(World& world, const StorageRef& y, const StorageRef& x, int operation);

  const GraphRecording& recording() const { return *recording_; }
  /// The submission of a replay, but for the leases of its accesses.
  Submission replay(std::span<const Access> accesses) const { return {work_, {}, {}, accesses, "graph", {}}; }
  /// Gives a2 another value, for later replays.
  void change_number();
  void apply(std::uint64_t& y, std::uint64_t& x) const;
  /// What steps of the device may still refer to, after the graph has been dropped.
  std::vector<std::unique_ptr<Work>> end() { return std::move(works_); }

 private:
  static constexpr std::size_t kSteps = 8;
  void record(const StorageRef& y, const StorageRef& x, int operation);
  Work& make_work(std::size_t step, int operation, bool overwrites);

  World& world_;
  std::array<std::uint64_t, kSteps> numbers_{};
  std::vector<std::unique_ptr<Work>> works_;
  std::shared_ptr<GraphRecording> recording_;
  std::shared_ptr<const GraphCalls> calls_;
  std::shared_ptr<const GraphWork> work_;
};

}  // namespace tessera::runtime::model
