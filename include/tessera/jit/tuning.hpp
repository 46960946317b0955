// Tuning records: what a tuning run found, and what it was found for; as a line of text. docs/tuning.md.
//
// Files of them have a first line that says what it is and how many records follow, then one record a line.
//
// They are used as numbers in specialization keys, or from files that apply to the whole process.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/source_location.hpp"
#include "tessera/runtime/device.hpp"

namespace tessera {

/// What the program says about a kernel's code instead of the cost model. Each is a number, or 0: as the cost model
/// says. On the CPU hints have no effect.
struct Hints {
  int warps = 0;        ///< of a block, 32 threads each: 1, 2, 4, 8, 16 or 32
  int ctas = 0;         ///< CTAs of a cluster that compute a block together: 1, 2, 4, 8 or 16; 1 below sm_90
  int occupancy = 0;    ///< blocks that an SM shall have room for: 1 to 32
  int latency = 0;      ///< steps of a loop whose loads are in flight: 1 to 10
  int pieces = 0;       ///< neighbouring pieces that a block computes: 1, 2, 4, 8, 16 or 32
  int early_tiles = 0;  ///< steps of a loop that load before the kernel waits for the one before it: 1 to 8
  bool operator==(const Hints&) const = default;
};

/// One result of the tuner. A record made by hand (`TuningRecord r; r.hints = "warps=8";`) has no hash, and then
/// nothing about it is checked when it is used.
struct TuningRecord {
  std::string kernel;      ///< label of the kernel that won: "softmax"
  std::string space;       ///< name of the space
  std::string choice;      ///< name of the space's candidate that won
  std::string hints;       ///< "warps=4 latency=2" (passes/tuning_text.hpp); empty: what the cost model says
  std::string arguments;   ///< of the run: types, extents, strides
  std::string hash;        ///< SHA-256 of the kernel's recording without source lines, 64 hexadecimal digits
  std::string predicates;  ///< the obligations that the launch fulfilled, as a hexadecimal number
  std::string device;      ///< "NVIDIA H200", "cpu"
  std::string gpu;         ///< "sm_90"; empty for the CPU
  std::string assembler;   ///< its release, "13.5"; empty for the CPU
  std::string library;     ///< version of Tessera
  std::string date;        ///< "2026-11-21"
  std::string runner_up;   ///< choice and hints of the second best
  double ms = 0;           ///< median of one launch
  double default_ms = 0;   ///< of the first candidate without hints
  double runner_up_ms = 0;
  bool operator==(const TuningRecord&) const = default;
};

namespace jit {

/// The record as one line (a JSON object, without the line's end), with a checksum as its last field.
std::string line_of(const TuningRecord& record);
/// What line_of() wrote. Throws IoError that says what is wrong with the line.
TuningRecord record_of(std::string_view line);
/// True if `b` is about the same thing as `a`: it replaces it in a file.
bool same_subject(const TuningRecord& a, const TuningRecord& b);
/// The version of Tessera: "0.1.0".
const char* library_version();

}  // namespace jit

/// Every record of a file. Throws IoError that names the file and the line: it is not there, of another kind or
/// version, cut short, damaged, or changed by hand. Then none of its records is returned.
std::vector<TuningRecord> read_records(const std::string& path, SourceLocation where = SourceLocation::current());

/// Adds a record, or replaces the one of the same space, arguments, device and assembler; makes the file if there is
/// none. Any number of processes may add to one file. Throws IoError (also if what is there is no such file: it is left
/// as it is).
void add_record(const std::string& path, const TuningRecord& record, SourceLocation where = SourceLocation::current());

/// Removes the records of kernels whose names contain `kernel` (all if it is empty), and returns how many they were; 0
/// if there is no file. Throws IoError as add_record().
std::size_t remove_records(const std::string& path, const std::string& kernel,
                           SourceLocation where = SourceLocation::current());

namespace jit {

/// The results of an interrupted run, in a journal next to the file of its record: a line per point, added by a single
/// write that begins with a line's end. What a full disk or a lost machine left of a line is on a line of its own and
/// is skipped; that point is measured again. A line is the point as a record; one that was dropped has no time and says
/// why in `runner_up`.
class TuningJournal {
 public:
  /// Of runs that ask the same as `subject` (see same_subject). Nothing is made before something is added.
  TuningJournal(const std::string& file, const TuningRecord& subject);
  ~TuningJournal();
  TuningJournal(const TuningJournal&) = delete;
  TuningJournal& operator=(const TuningJournal&) = delete;
  /// What is there; lines that are not whole are skipped.
  std::vector<TuningRecord> read() const;
  void add(const TuningRecord& point);  ///< throws IoError
  void remove() noexcept;               ///< the run has ended
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace jit

namespace jit {
inline constexpr const char* kLearntSpace = "learnt";  ///< TuningRecord::space of what kernels learnt (learning.hpp)
/// The file of what they learnt, learnt.tune in the folder of the caches; empty where there is no such folder, or
/// TESSERA_CACHE is 0.
std::string learnt_records();
}  // namespace jit

/// Every kernel without a record of its own that is compiled from now on takes its hints from the record of this file
/// that fits it: kernel, obligations, device and assembler (the last one that does). Throws IoError as read_records().
/// TESSERA_RECORDS does the same for the files that it names; what use_records() adds comes after them.
void use_records(const std::string& path);

namespace jit {

/// A record as a number: a part of specialization keys. 0: none.
using TuningId = std::uint32_t;
inline constexpr TuningId kMaxTunings = (1u << 24) - 1;  ///< what a key has room for

/// The number of a record; equal records have equal ones. Allocates nothing if it has been given before. Throws
/// CompileError, of the place `where`, if the hints have an unknown word.
TuningId intern_tuning(const TuningRecord& record, SourceLocation where = {});
/// The number of a record with these hints; 0 if there are none. Equal hints have one number, and only the
/// first of them allocate. Throws CompileError, of the place `where`, for a number that no GPU takes.
TuningId intern_hints(const Hints& hints, SourceLocation where = {});
/// The record of a number.
const TuningRecord& interned_tuning(TuningId id);

/// The number that calls of this thread without a record or hints of their own use: that of the innermost TuningScope,
/// 0 without one.
extern thread_local constinit TuningId scoped_tuning;

/// A device as records name it: "NVIDIA H200", "cpu".
std::string device_description(Device device);

/// The combinations of "warps=2,4 latency=2,4,6" as hints, "warps=2 latency=2" first; one empty text of an empty one.
/// Throws CompileError if a word is unknown.
std::vector<std::string> hint_combinations(std::string_view space);

}  // namespace jit

/// While it lives, launches that this thread builds without tuned() or hints() of their own are compiled with these
/// hints ("warps=4 latency=2", docs/tuning.md): for programs that compare choices of kernels they do not call
/// themselves. Scopes of a thread end in the reverse order. An empty text means that the compiler chooses. On the CPU
/// hints have no effect.
class TuningScope {
 public:
  /// Throws CompileError, of the place `where`, for an unknown word.
  explicit TuningScope(std::string_view hints, SourceLocation where = SourceLocation::current());
  ~TuningScope() { jit::scoped_tuning = before_; }
  TuningScope(const TuningScope&) = delete;
  TuningScope& operator=(const TuningScope&) = delete;

 private:
  jit::TuningId before_;
};

}  // namespace tessera
