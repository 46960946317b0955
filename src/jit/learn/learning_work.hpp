// A kernel in several codes that compute the same bits: its first launches time them on real data, later ones run the
// fastest. docs/learning.md.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/runtime/backend.hpp"

namespace tessera::jit {

/// What was found of one choice.
struct LearntTime {
  std::string hints;  ///< "" is the compiler's own choice
  double seconds = 0;
};
/// The winner first, then the best of the others, then the compiler's own choice.
struct LearntResult {
  LearntTime best, runner_up, own;
  int launches = 0;  ///< that were timed
};

/// Which arguments tell launches of different size apart: extents and strides, without addresses and numbers.
using SizeSlots = std::vector<std::uint16_t>;

class LearningWork final : public runtime::Launchable {
 public:
  using MakeMark = std::function<std::shared_ptr<const runtime::TimeMark>()>;
  using Report = std::function<void(const LearntResult&)>;

  /// `own`: the compiler's choice, which runs until others are there. `report` is called once, on a thread that
  /// launches, when the fastest is known; not if that cannot be found out.
  LearningWork(std::shared_ptr<const runtime::Launchable> own, SizeSlots sizes, MakeMark make_mark, Report report);
  ~LearningWork() override;

  /// Another code that computes the same; before ready().
  void add(std::string hints, std::shared_ptr<const runtime::Launchable> work);
  /// Nothing more is added. From now on launches are timed.
  void ready() noexcept;
  bool learns() const noexcept { return phase_.load(std::memory_order_acquire) != Phase::Done; }

  void launch(const runtime::LaunchContext&) const override;
  const void* native_kernel() const noexcept override { return running().native_kernel(); }

 private:
  enum class Phase : std::uint8_t { Waiting, Learning, Done };
  struct Candidate {
    std::string hints;
    std::shared_ptr<const runtime::Launchable> work;
    std::vector<double> seconds = {};
    int asked = 0;  ///< launches that were timed or still run
    bool out = false;
  };
  struct Pending {
    std::size_t candidate;
    std::shared_ptr<const runtime::TimeMark> begin, end;
  };
  using Size = std::vector<std::uint64_t>;

  const runtime::Launchable& running() const noexcept { return *current_.load(std::memory_order_acquire); }
  Size size_of(const runtime::LaunchContext&) const;
  bool is_comparable(const runtime::LaunchContext&) const;
  std::optional<std::size_t> next_to_time() const;
  std::optional<Pending> begin(const runtime::LaunchContext&) const;
  void collect() const;
  void judge() const;
  void finish(std::size_t winner) const;

  SizeSlots sizes_;
  MakeMark make_mark_;
  Report report_;
  std::atomic<Phase> mutable phase_{Phase::Waiting};
  std::atomic<const runtime::Launchable*> mutable current_;
  std::mutex mutable mutex_;  ///< of what follows; a launch that cannot have it at once runs untimed
  std::deque<Candidate> mutable candidates_;
  std::deque<Pending> mutable pending_;
  Size mutable size_;
  int mutable unlike_ = 0;    ///< launches of another size since the last that was timed
  int mutable launches_ = 0;  ///< since ready()
  int mutable wanted_ = 0;    ///< measurements that each candidate shall have
};

}  // namespace tessera::jit
