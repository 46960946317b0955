// Files of tuning records: a first line that says what it is and how many records follow, then one record a line.
#pragma once
#include <string>
#include <vector>

#include "tessera/base/source_location.hpp"
#include "tessera/jit/tuning_record.hpp"

namespace tessera {

/// Every record of a file. Throws IoError that names the file and the line: it is not there, of another kind or
/// version, cut short, damaged, or changed by hand. Then none of its records is returned.
std::vector<TuningRecord> read_records(const std::string& path, SourceLocation where = SourceLocation::current());

/// Adds a record, or replaces the one of the same space, arguments, device and assembler; makes the file if there is
/// none. Any number of processes may add to one file. Throws IoError (also if what is there is no such file: it is left
/// as it is).
void add_record(const std::string& path, const TuningRecord& record, SourceLocation where = SourceLocation::current());

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

}  // namespace tessera
