// The rows of passes.def as the pipeline runs them. Private to the layer: tests run rows of their own.
#pragma once
#include "tessera/passes/passes.hpp"
#include "tessera/passes/pipeline.hpp"

namespace tessera::passes {

/// One entry on its way through the passes.
struct Run {
  ir::Function& f;
  const Target& target;
  const Tuning& tuning;
  const Work& work;
  Passed& made;
  bool first = true;  ///< the first entry of its module
  /// Claims and their certifier are about the first entry.
  const Certifier* certifier() const { return first ? work.certifier : nullptr; }
  const analysis::LaunchContract* contract() const { return first ? work.contract : nullptr; }
  bool relaxed = false;           ///< token order was relaxed: the passes for tokens and clean-up run again
  ScannedRegisters scanned = {};  ///< of the scans that were expanded
};

struct Row {
  PassInfo info;
  void (*run)(Run&);
  bool Tuning::*on = nullptr;  ///< null: it cannot be switched off
};

Passed run_rows(std::span<const Row> rows, ir::Module& module, const Target& target, const Tuning& tuning,
                const Work& work);

}  // namespace tessera::passes
