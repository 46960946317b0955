// Records a kernel: ordinary C++ runs once and produces Tile IR.
//
// A tile object is a *variable* (an id, never an address and never an SSA value), so copies, moves, containers and
// dangling references are harmless. Each open region keeps variable -> current SSA value. A read that crosses an open
// loop makes a provisional block argument (incomplete phis: Braun et al., "Simple and Efficient Construction of SSA
// Form", 2013); when the loop closes, arguments whose variable was never assigned are replaced by the outer value, the
// others become iter_values and results. Reads inside the arms of an `if` need no argument (dominance); what the arms
// assigned becomes results of the `if`.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "tessera/base/element.hpp"
#include "tessera/base/source_location.hpp"
#include "tessera/ir/value.hpp"

namespace tessera::lang {

/// Identity of one mutable C++ tile object: (trace serial << 32 | number).
using Var = std::uint64_t;

/// Accuracy of math functions whose call does not set it. OfOutputs: by the outputs that the result reaches
/// (docs/language.md).
enum class Accuracy : std::uint8_t { Precise, Approximate, OfOutputs };

class Tracer {
 public:
  /// Becomes the thread's current tracer until destroyed (traces nest).
  explicit Tracer(std::string kernel_name, SourceLocation where = {});
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  /// Throws TraceError outside a kernel; `where` is the user's line, for calls that know it.
  static Tracer& current(SourceLocation where = {});
  static Tracer* maybe() noexcept;
  const std::string& kernel_name() const;

  // Recording operations. `loc` becomes the location of the operation and of following operators (which cannot know
  // their own line).
  ir::Builder& at(SourceLocation loc);  ///< builder at the insertion point with this location
  ir::Builder& here();                  ///< the same with the location of the nearest call before
  SourceLocation location() const;
  ir::Value add_param(ir::Type);  ///< appends an entry argument (only before anything is emitted)
  /// Builder that inserts at the start of the entry, before everything recorded so far but after what it inserted
  /// earlier: values made through it dominate the whole kernel (views, dimensions, block number).
  ir::Builder& prologue();

  // Variables.
  Var fresh(ir::Value initial);
  ir::Value read(Var);         ///< throws TraceError: other trace, region already closed
  void write(Var, ir::Value);  ///< same
  void check_alive(Var) const;

  // Regions (used by range, tile_if, tile_while and the persistent loop).
  ir::Value open_for(ir::Value lo, ir::Value hi, ir::Value step, bool is_unsigned,
                     SourceLocation);      ///< induction variable
  void open_loop(SourceLocation);          ///< endless loop; body starts with break_unless
  void break_unless(ir::Value condition);  ///< leaves the innermost loop when the scalar i1 is false
  void open_if(ir::Value condition, SourceLocation);
  void open_else();
  void close();             ///< closes the innermost region and merges its variables
  void abandon() noexcept;  ///< drops the innermost region without merging (exception in flight)
  /// Opens the region of a reduce or scan, whose arguments exist already. In it only its own values may be read, and
  /// only pure operations on scalars recorded; close() checks that (TraceError). The caller adds the yield before
  /// closing.
  void open_combiner(ir::Operation* reduce_or_scan, SourceLocation);
  std::size_t depth() const;
  bool untouched() const;  ///< nothing was recorded in the innermost region yet

  /// Records an error to be thrown by finish(): safe in destructors.
  void fail(std::string message, SourceLocation) noexcept;

  Accuracy accuracy = Accuracy::Precise;
  void decide_later(
      ir::Operation&);   ///< finish() decides between precise and approximate, by the outputs that the result reaches
  bool checked = false;  ///< TESSERA_CHECK: emit assertions for out-of-range tile indices and integers that wrap
  bool strict = false;   ///< TESSERA_CHECK=strict: emit assertions for positions outside a tensor

  /// Ends the kernel (adds `return`), drops dead pure operations and dead loop-carried values; throws TraceError with
  /// the first recorded failure. The module holds one entry.
  std::unique_ptr<ir::Module> finish();

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// The text of errors after "... was used outside a kernel".
std::string outside_kernel();

}  // namespace tessera::lang
