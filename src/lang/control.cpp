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
  ir::Builder& b = Tracer::current(loc).at(loc);
  const ir::Value one = b.constant_int(step.type().elem(), 1);
  const auto sign = is_unsigned ? ir::Signedness::Unsigned : ir::Signedness::Signed;
  return b.create(ir::Op::MaxI, {step, one}, {step.type()}, {{ir::AttrName::signedness, sign}})->result();
}

}  // namespace

RangeBounds::RangeBounds(ir::Value low, ir::Value high, ir::Value by, bool unsigned_compare, SourceLocation where)
    : is_unsigned(unsigned_compare), loc(where) {
  Tracer& tracer = Tracer::current(where);
  lo = tracer.fresh(low);
  hi = tracer.fresh(high);
  step = tracer.fresh(positive_step(by, is_unsigned, where));
}

ForLoop::ForLoop(const RangeBounds& r) : Region(r.loc) {
  Tracer& tracer = Tracer::current(r.loc);
  const ir::Value lo = tracer.read(r.lo), hi = tracer.read(r.hi), step = tracer.read(r.step);
  induction_ = tracer.open_for(lo, hi, step, r.is_unsigned, r.loc);
  opened();
}

ForLoop::~ForLoop() {
  leave(
      "`break`, `return` or `goto` leaves a device loop. Its body is traced once, so the exit would be taken always: "
      "use "
      "tile_while with the exit in its condition, or guard the rest of the body with tile_if");
}

ir::Value ForLoop::induction() const {
  if (!is_open()) throw TraceError("an iterator of range was read after its loop had ended", loc_);
  return induction_;
}

void ForLoop::close() {
  if (!is_open())
    throw TraceError("an iterator of range was advanced past its end: the loop's body is traced once", loc_);
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
        "the condition and put the rest of the loop's body into the arm. An `if` of the host (a Constant) that may "
        "leave the arm empty belongs outside the tile_if",
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
