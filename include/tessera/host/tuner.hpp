// A tuning run, untyped: its options, its results and the tuner (docs/tuning.md).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tessera/host/op.hpp"
#include "tessera/jit/code_report.hpp"
#include "tessera/jit/tuning_record.hpp"

namespace tessera {

struct TuneOptions {
  std::string file =
      {};  ///< where the record is added and the journal is kept, so that an interrupted run continues; empty: none
  std::string hints = {};  ///< instead of the space's ("-": none)
  std::string first = {};  ///< the default candidate; empty: the space's first
  double seconds = 0;      ///< no new measurements after this time; 0: no limit
  double tolerance = 0;    ///< of results, relative; 0: by element type. Integers are compared exactly
  bool keep = false;       ///< returns a record of the file that is not stale, without measuring again
  bool warm = false;       ///< caches are not cleared between launches
  int jobs = 0;            ///< compilations at a time; 0: one per processor
  int launches = 10;       ///< launches of each point before the last round
  int rounds = 15;         ///< rounds of the last comparison
  int only_compile =
      0;  ///< compute capability of a GPU that need not be present (90): compiles for it and runs nothing
};

enum class TrialOutcome : std::uint8_t {
  Measured,
  Slow,      ///< given up after two launches
  Wrong,     ///< its result differs from the default's
  Pressure,  ///< the assembler warns of registers
  Failed,    ///< did not compile, or its launch failed
  Same,      ///< the same code as an earlier point
  NotTried,  ///< the time limit was reached
  Compiled,  ///< only_compile
};
/// "measured", "slow", ...
const char* name_of(TrialOutcome outcome);

/// One point of a space.
struct TuningTrial {
  std::string choice, hints;
  TrialOutcome outcome = TrialOutcome::NotTried;
  double ms = 0;         ///< median; for Slow the minimum
  std::string note;      ///< why it was dropped
  bool resumed = false;  ///< from the journal of an interrupted run
  jit::CodeReport code;  ///< complete as far as it was compiled
};

struct TuningReport {
  TuningRecord best;  ///< empty if only compiled
  std::vector<TuningTrial> trials;
  bool kept = false;  ///< `best` is from the file, and nothing was measured
};

namespace detail {

/// The tensors that a candidate writes to, and their contents afterwards.
class TuneCopies {
 public:
  virtual ~TuneCopies();
};
class TuneValues {
 public:
  virtual ~TuneValues();
};

/// A space with the arguments of a run.
class TuneSubject {
 public:
  virtual ~TuneSubject();
  virtual const char* name() const = 0;
  virtual const char* hints() const = 0;
  virtual std::size_t candidates() const = 0;
  virtual const char* candidate(std::size_t i) const = 0;
  virtual bool takes_hints(std::size_t i) const = 0;
  virtual Device device() const = 0;
  virtual std::string arguments() const = 0;
  /// Copies of the lent tensors, with their contents or uninitialised.
  virtual std::unique_ptr<TuneCopies> copies(bool contents) const = 0;
  virtual Op<void> launch(std::size_t candidate, const TuningRecord& hints, TuneCopies& copies) const = 0;
  virtual std::unique_ptr<TuneValues> values(const TuneCopies& copies) const = 0;
  /// Describes the first difference; empty if they agree.
  virtual std::string difference(const TuneValues& found, const TuneValues& wanted, double tolerance) const = 0;
};

/// Throws CompileError if no point of the space can be used, IoError for the file.
TuningReport run_tuner(const TuneSubject& subject, const TuneOptions& options);

/// The last record of this subject and its device; null if there is none.
const TuningRecord* find_record(const std::vector<TuningRecord>& records, const TuneSubject& subject);

/// "argument 2: element 17 is 3.5, expected 4".
std::string difference_text(std::size_t argument, std::size_t element, double found, double wanted);
/// "f16[4096, 4096]:4096,1"
std::string argument_text(const LayoutRef& layout, bool lent);

}  // namespace detail
}  // namespace tessera
