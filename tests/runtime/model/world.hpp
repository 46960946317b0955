// What the interpreter of programs needs of a device: the model device, or the CUDA backend over the fake driver.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "runtime/model/choices.hpp"
#include "runtime/model/program.hpp"
#include "runtime/model/run.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace tessera::runtime::model {

/// One operation's work, and what the sequential program says of it.
struct Work {
  struct Touch {
    int block = -1;
    unsigned generation = 0;
    AccessMode mode = AccessMode::Read;
    bool known = false;           ///< the contents before it are
    std::uint64_t before = 0;     ///< these
    std::byte* memory = nullptr;  ///< on the model device
  };
  int operation = 0;
  bool fails = false, overwrites = false;
  std::vector<Touch> touches;  ///< in the order of the accesses
  std::uint64_t addend = 0;
  std::uint64_t scalar = 0;  ///< of a graph's work: another Work can take its place (GraphRecording)
};
/// y = 31 y + x + addend; what is only read contributes to the sum.
inline std::uint64_t mixed(std::uint64_t y, std::uint64_t x, std::uint64_t addend) { return y * 31 + x + addend; }

/// What work leaves that fails.
inline constexpr std::uint64_t kGarbage = 0xDDDDDDDDDDDDDDDD;

/// How a call ended.
struct Ended {
  enum class How : std::uint8_t { Well, Rejected, Injected, Failed, Strange } how = How::Well;
  int failure = -1;  ///< Failed: the operation whose work failed
  std::string text;
};

class World {
 public:
  virtual ~World() = default;
  virtual Device device() = 0;
  virtual void allow_faults(bool allow) = 0;
  /// A promise was broken, or this order is explored elsewhere: the rest of the run does not matter.
  virtual bool stopped() const = 0;
  /// Every further call fails.
  virtual bool dead() const { return false; }
  virtual void heal() {}
  virtual void violate(const std::string& text) = 0;
  virtual void note(const std::string& line) = 0;
  /// The host is about to drop a reference.
  virtual void before_drop(const Storage&) {}
  virtual void run_all() = 0;
  /// What should not be there at the end; empty if nothing.
  virtual std::string left() = 0;
  virtual Ticket submit(StreamCore& stream, Work& work, std::span<const Access> accesses) = 0;
  /// The argument of submit()'s work that is the address of the Work.
  virtual std::size_t work_slot() const = 0;
  /// Which of these an exception is. Called in a catch block.
  virtual Ended classify() = 0;
  /// A failed upload may have written.
  virtual bool failed_writes_write() const { return false; }
  /// Failures of one stream may become known in another order than that of its work.
  virtual bool failures_come_late() const { return false; }
  virtual std::shared_ptr<void> make_foreign(void** memory) = 0;
};

/// Adds what a graph needs to know of a Work to its submission.
class GraphNotes {
 public:
  GraphNotes(const Work& work, std::size_t slot) : use_{static_cast<std::uint16_t>(slot), work.scalar} {}
  Ticket submit(StreamCore& stream, Submission submission) const;

 private:
  ScalarUse use_;
};

/// Runs the program in a world. The world outlives nothing of it.
void interpret(const Program& program, World& world, Choices& choices, bool foreign);

}  // namespace tessera::runtime::model
