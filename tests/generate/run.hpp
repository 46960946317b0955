// Runs a program in every way that must give the same results: as the language says it (reference.hpp), as recorded,
// with what launches allow to be claimed and all passes for the CPU and for GPUs, with its operations in another legal
// order, with every claim checked.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "generate/program.hpp"

namespace tessera::generate {

struct Failure {
  std::string kind;    ///< which of the ways: "recorded", "cpu", "gpu", ...
  std::string detail;  ///< what was different, with which choices
};

struct Options {
  int gpu_percent = 60;      ///< how many programs go through the passes for a GPU; the others through the CPU's
  int cpu_percent = 30;      ///< ... of those, through the CPU's as well
  int checked_percent = 25;  ///< ... are run in checked mode
  int claims_percent = 25;   ///< ... with every claimed condition as an assertion
  bool device = false;       ///< only as recorded, and on the default device
  bool judge = false;        ///< runs nothing: the checker is asked about all claims of the analysis
};

/// What a run has seen; a test that ran nothing must not pass.
struct Counts {
  std::int64_t programs = 0, launches = 0, rejected = 0, too_long = 0, runs = 0, claims = 0, held = 0;
  std::int64_t judged = 0, uncertified = 0;  ///< claims that the checker was asked about, and rejected
  std::int64_t coarsened = 0;                ///< runs in which a block takes several pieces
  std::int64_t of_axes = 0;                  ///< runs over a grid of several axes
  Counts& operator+=(const Counts&);
};
std::string to_text(const Counts&);

class Runner {
 public:
  explicit Runner(Options = {});
  ~Runner();
  /// Checks the program and runs its launches. Keeps nothing but memory for the next one.
  std::optional<Failure> run(Program&, Counts&);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::generate
