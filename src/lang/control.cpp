// Loops and branches as C++ objects that open and close regions of the trace.
#include "tessera/lang/control.hpp"

#include <exception>

#include "lang/ints.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::lang {

Region::Region(SourceLocation loc) : loc_(loc), exceptions_(std::uncaught_exceptions()) {}

void Region::opened() {
  tracer_ = &Tracer::current();
  depth_ = tracer_->depth();
}

void Region::leave(const char* advice) noexcept {
  if (!tracer_ || Tracer::maybe() != tracer_) return;
  if (std::uncaught_exceptions() <= exceptions_) tracer_->fail(advice, loc_);
  while (tracer_->depth() >= depth_) tracer_->abandon();
  tracer_ = nullptr;
}

// ---- range --------------------------------------------------------------------------------------------------------

namespace {

/// Tile IR leaves steps below 1 undefined.
ir::Value positive_step(ir::Value step, bool is_unsigned, SourceLocation loc) {
  const auto known = ints::constant_of(step);
  if (known && *known > 0) return step;
  if (known) throw TraceError(concat("the step of a range must be positive, found ", *known), loc);
  ir::Builder& b = Tracer::current().at(loc);
  const ir::Value one = b.constant_int(step.type().elem(), 1);
  const auto sign = is_unsigned ? ir::Signedness::Unsigned : ir::Signedness::Signed;
  return b.create(ir::Op::MaxI, {step, one}, {step.type()}, {{ir::AttrName::signedness, sign}})->result();
}

}  // namespace

ForLoop::ForLoop(ir::Value lo, ir::Value hi, ir::Value step, bool is_unsigned, SourceLocation loc)
    : Region(loc), unsigned_(is_unsigned) {
  Tracer& tracer = Tracer::current();
  lo_ = tracer.fresh(lo);
  hi_ = tracer.fresh(hi);
  step_ = tracer.fresh(positive_step(step, is_unsigned, loc));
}

ForLoop::~ForLoop() {
  leave(
      "`break`, `return` or `goto` leaves a device loop. Its body is traced once, so the exit would be taken always: "
      "use "
      "tile_while with the exit in its condition, or guard the rest of the body with tile_if");
}

ir::Value ForLoop::open() {
  Tracer& tracer = Tracer::current();
  const ir::Value lo = tracer.read(lo_), hi = tracer.read(hi_), step = tracer.read(step_);
  const ir::Value induction = tracer.open_for(lo, hi, step, unsigned_, loc_);
  opened();
  return induction;
}

void ForLoop::close() {
  closed();
  Tracer::current().close();
}

// ---- tile_if ------------------------------------------------------------------------------------------------------

Branch::Branch(ir::Value condition, SourceLocation loc) : Region(loc), condition_(Tracer::current().fresh(condition)) {}

Branch::~Branch() {
  leave(
      "`break`, `return` or `goto` leaves a tile_if. Both arms are traced, so the exit would be taken always: put what "
      "is to be "
      "skipped into the other arm");
}

bool Branch::enter(bool first) {
  if (first) {
    Tracer& tracer = Tracer::current();
    tracer.open_if(tracer.read(condition_), loc_);
    opened();
  }
  return first;
}

void Branch::leave_arm(bool first) {
  Tracer& tracer = Tracer::current();
  if (!first) {
    closed();
    tracer.close();
    return;
  }
  if (tracer.untouched()) {
    tracer.fail(
        "the true arm of this tile_if recorded nothing. `continue` ends only the arm, not the loop around it: invert "
        "the "
        "condition and put the rest of the loop's body into the arm",
        loc_);
  }
  tracer.open_else();
}

// ---- tile_while ---------------------------------------------------------------------------------------------------

While::While(SourceLocation loc) : Region(loc) {}

While::~While() {
  leave(
      "`break`, `return` or `goto` leaves a tile_while. Its body is traced once, so the exit would be taken always: "
      "put the exit "
      "into the condition");
}

bool While::begin_body() {
  Tracer& tracer = Tracer::current();
  if (traced_) {
    closed();
    tracer.close();
    return false;
  }
  traced_ = true;
  tracer.open_loop(loc_);
  opened();
  return true;
}

void While::test(ir::Value condition) { Tracer::current().break_unless(condition); }

}  // namespace tessera::lang
