// The processes of a group watch each other over TCP: which of them lives, and how far it is. No data goes this way.
// Rank 0 is connected with every other process. The first failure ends the watch on all of them.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "mesh/environment.hpp"
#include "mesh/watch_socket.hpp"
#include "tessera/mesh/communicator.hpp"

namespace tessera::mesh {

struct WatchOptions {
  std::string address;  ///< of rank 0's machine
  int port = 0;         ///< where rank 0 listens
  int rank = 0, size = 1;
  int start_ms = 60'000;     ///< to reach rank 0; on rank 0, for all processes to connect
  int silence_ms = 5'000;    ///< a process that sends nothing for so long has stopped, or cannot be reached
  int progress_ms = 60'000;  ///< steps in which no rank makes progress for so long hang; 0: no limit
  int beat_ms = 200;         ///< how often each process says that it lives
};

/// Of a process that a launcher has started; TESSERA_MESH_TIMEOUT is the limit for the start and for progress.
WatchOptions watch_options(const ProcessRanks& ranks);

/// Makes no other process wait: a thread of its own does all of it. The processes are those of one program, on machines
/// of one byte order and in a network whose users are trusted.
class Watch {
 public:
  using OnFailure = std::function<void(const GroupFailure&)>;

  /// Returns when all processes have connected; all call it. `on_failure` is called once, by the watch's thread, and
  /// should only abort communicators. Throws MeshError: rank 0 cannot be reached or cannot listen, a process did not
  /// connect within start_ms, or one ended meanwhile.
  Watch(const WatchOptions& options, OnFailure on_failure, SourceLocation where = {});
  /// This process leaves the group as it should; while an exception is thrown, it reports that as a failure. Rank 0
  /// stays until the others have left, too.
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// The stamps by which a hang is found: between the beginning and the end of a step, a rank has to make progress. All
  /// ranks count the same, so the one that is behind is the one that hangs.
  void begin_step() noexcept { stamp(true); }
  void progress() noexcept { stamp(true); }
  void end_step() noexcept { stamp(false); }

  /// Ends the group with this failure of this process. Returns when rank 0 knows, or after a second.
  void report(const std::string& reason);
  /// Why the group has ended; empty while all is well.
  std::optional<GroupFailure> failure() const;
  /// Throws it.
  void throw_if_failed(const char* label, SourceLocation where = {}) const;

 private:
  class Loop;
  void stamp(bool in_step) noexcept;

  std::unique_ptr<Loop> loop_;
  int exceptions_;
};

}  // namespace tessera::mesh
