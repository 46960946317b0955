// A tuning run without types: what is tried, what came of it, and what drives it. docs/tuning.md says what happens.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tessera/host/op.hpp"
#include "tessera/jit/code_report.hpp"
#include "tessera/jit/tuning_record.hpp"

namespace tessera {

struct TuneOptions {
  std::string file = {};   ///< the record is added there, and an interrupted run continues; empty: nothing is written
  std::string hints = {};  ///< instead of the space's ("-": none)
  std::string first = {};  ///< the default candidate; empty: the space's first
  double seconds = 0;      ///< no new measurements after so long; 0: no limit
  double tolerance = 0;    ///< of results, relative; 0: by element type. Integers are compared exactly
  bool keep = false;       ///< a fresh record of a finished run in the file is the answer, without measuring again
  bool warm = false;       ///< caches keep what the last launch left in them
  int jobs = 0;            ///< compilations at a time; 0: one per processor
  int launches = 10;       ///< of each point, before the last round
  int rounds = 15;         ///< of the last round
  int only_compile = 0;    ///< compute capability of a GPU that need not be here (90): compiles for it and runs nothing
};

enum class TrialOutcome : std::uint8_t {
  Measured,
  Slow,      ///< given up after two launches
  Wrong,     ///< another result than the default's
  Pressure,  ///< the assembler warns of registers
  Failed,    ///< did not compile, or its launch failed
  Same,      ///< the same code as an earlier point
  NotTried,  ///< the time was up
  Compiled,  ///< only_compile
};
/// "measured", "slow", ...
const char* name_of(TrialOutcome outcome);

/// One point of a space.
struct TuningTrial {
  std::string choice, hints;
  TrialOutcome outcome = TrialOutcome::NotTried;
  double ms = 0;         ///< median; of a slow one the best
  std::string note;      ///< why it was dropped
  bool resumed = false;  ///< from the journal of an interrupted run
  jit::CodeReport code;  ///< as far as it was compiled
};

struct TuningReport {
  TuningRecord best;  ///< empty if only compiled
  std::vector<TuningTrial> trials;
  bool kept = false;  ///< `best` was in the file, and nothing was measured
};

namespace detail {

/// Tensors that a candidate may write to, and what it left in them.
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
  /// The lent tensors again; with their contents or with any.
  virtual std::unique_ptr<TuneCopies> copies(bool contents) const = 0;
  virtual Op<void> launch(std::size_t candidate, const TuningRecord& hints, TuneCopies& copies) const = 0;
  virtual std::unique_ptr<TuneValues> values(const TuneCopies& copies) const = 0;
  /// Empty if they are alike.
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
