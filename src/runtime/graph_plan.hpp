// Memory of a graph's temporaries: tensors that are made and end while a flow is captured. Two of them share memory if
// in every replay one is used only before the other.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "runtime/entry_set.hpp"
#include "tessera/runtime/graph.hpp"

namespace tessera::runtime {

/// The plan of one capture: made after the capture, and applied to the storages and the entries.
class GraphPlan {
 public:
  explicit GraphPlan(GraphRecording& root) : root_(root) {}
  /// Throws DeviceError if there is no memory for the temporaries.
  void apply();

 private:
  /// A recording: the whole capture, or a body of it.
  struct Level {
    GraphRecording* recording;
    const Level* parent;
    std::size_t entry;  ///< of the parent: the loop or the branch
    std::size_t depth;
    std::vector<EntrySet> before{};  ///< of each entry: those that end before it starts
  };
  struct Temporary {
    StorageRef storage;
    const Level* home;              ///< where it is made
    std::vector<std::size_t> uses;  ///< the last entries there: when they have ended, so have all that use it
    EntrySet before;                ///< entries that end before each of them starts
    std::size_t offset = 0;
  };
  /// How a temporary is used in a level: by the entries in `uses`, or by one loop or branch around its home.
  struct Place {
    const Level* level;
    const Temporary* temporary;
    std::size_t entry = kNoEntry;
    void to_parent() {
      entry = level->entry;
      level = level->parent;
    }
    bool ends_before(const Place& other) const;
  };

  void find_levels(GraphRecording& recording, const Level* parent, std::size_t entry);
  void find_temporaries();
  void find_uses();
  static void find_order(Level& level);
  void pin(const GraphRecording& recording);
  static bool may_share(const Temporary& a, const Temporary& b);
  std::size_t place_all();
  void move_to(const StorageRef& arena);
  void patch(GraphRecording& recording, const std::unordered_map<const Storage*, std::uint64_t>& moved);

  GraphRecording& root_;
  std::deque<Level> levels_;
  std::vector<Temporary> temporaries_;
  std::unordered_set<const Storage*> pinned_;  ///< used in ways that do not allow to move them
};

}  // namespace tessera::runtime
