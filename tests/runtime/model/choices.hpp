// The choices of one run, as one sequence: enumerated depth-first, drawn at random, or replayed.
#pragma once
#include <array>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace tessera::runtime::model {

/// The memory, events and pool that an action touches, one bit each.
struct Footprint {
  std::uint64_t reads = 0, writes = 0;
  bool empty() const { return (reads | writes) == 0; }
  bool conflicts(const Footprint& other) const {
    return (writes & (other.reads | other.writes)) != 0 || (reads & other.writes) != 0;
  }
};

/// What may happen next: the next step of a queue, or the next call of the host.
struct Action {
  std::uint8_t agent = 0;  ///< 0: the host; otherwise a queue
  std::uint8_t what = 0;   ///< distinguishes actions of one agent
  Footprint footprint;
};
inline bool same(const Action& a, const Action& b) { return a.agent == b.agent && a.what == b.what; }
inline bool dependent(const Action& a, const Action& b) {
  return a.agent == b.agent || a.footprint.conflicts(b.footprint);
}
inline constexpr std::size_t kMaxActions = 16;

class Choices {
 public:
  /// Depth-first search; call next() between runs. With `reduced`, orders that differ in independent actions only are
  /// left out. Beyond `limit` choices a run takes the first alternative.
  static Choices all(bool reduced = true, std::size_t limit = 400);
  static Choices random(std::uint64_t seed, bool reduced = false);
  /// The text of an earlier run.
  static Choices replay(const std::string& text);

  /// One of `n` alternatives.
  unsigned pick(unsigned n);
  static constexpr unsigned kRedundant = ~0u;
  /// One of the actions; kRedundant if every continuation has been explored elsewhere.
  unsigned schedule(std::span<const Action> actions);
  /// Actions that nothing else depends on may run without a choice.
  bool reduced() const { return reduced_; }

  /// Prepares the next run; false if all have been made.
  bool next();
  bool truncated() const { return truncated_; }
  /// The choices of the last run.
  std::string text() const;
  std::size_t size() const { return taken_.size(); }

 private:
  enum class Mode : std::uint8_t { All, Random, Replay };
  struct Node {
    std::uint8_t taken, of;
    std::uint16_t explored, asleep;
  };
  Choices(Mode mode, bool reduced) : mode_(mode), reduced_(reduced) {}
  unsigned take(unsigned n, std::uint16_t asleep);
  bool sleeping(const Action& action) const;

  Mode mode_;
  bool reduced_, truncated_ = false;
  std::uint16_t explored_ = 0;  // of the node of the last choice
  std::size_t limit_ = 0;
  std::mt19937_64 random_;
  std::vector<Node> nodes_;           // of the search: the path of this run
  std::size_t position_ = 0;          // in nodes_, or in taken_ when replaying
  std::vector<std::uint8_t> taken_;   // of this run
  std::vector<std::uint8_t> replay_;  // the choices to take
  std::array<Action, kMaxActions> sleep_;
  std::size_t sleep_count_ = 0;
};

}  // namespace tessera::runtime::model
