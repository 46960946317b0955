// Running regions: loops, branches, and the failures that end a launch.
#include "codegen/cpu/control_instr.hpp"

#include "codegen/cpu/tile_instr.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::cpu {

void throw_device_error(const Frame& f, const std::string& what, SourceLocation where) {
  throw DeviceError(concat("kernel ", f.kernel != nullptr ? *f.kernel : std::string("?"), ": ", what), where);
}

Status ForInstr::run(Frame& f) const {
  // Unsigned bounds are compared as signed numbers shifted by half the range, so that one loop serves both.
  const std::uint64_t bias = is_unsigned ? std::uint64_t{1} << 63 : 0;
  const auto read = [&](Ref r) {
    return is_unsigned ? read_unsigned(f, r, elem) : static_cast<std::uint64_t>(read_signed(f, r, elem));
  };
  const auto lo = static_cast<std::int64_t>(read(lower) ^ bias), hi = static_cast<std::int64_t>(read(upper) ^ bias);
  const std::uint64_t by = read(step);
  if (lo >= hi) return Status::Next;
  if (by == 0 || (!is_unsigned && static_cast<std::int64_t>(by) < 0))
    throw_device_error(f, concat("a for loop needs a step > 0, found ", static_cast<std::int64_t>(by)), where);
  for (auto i = static_cast<std::uint64_t>(lo);;) {
    write_integer(f, induction, elem, i ^ bias);
    const Status s = cpu::run(body, f);
    if (s == Status::Return) return s;
    if (s == Status::Break) return Status::Next;
    if (f.stop->load(std::memory_order_relaxed)) return Status::Return;
    // What is left, hi - i > 0, fits in 64 unsigned bits: no overflow at the end of the range.
    if (static_cast<std::uint64_t>(hi) - i <= by) return Status::Next;
    i += by;
  }
}

Status LoopInstr::run(Frame& f) const {
  for (;;) {
    const Status s = cpu::run(body, f);
    if (s == Status::Break) return Status::Next;
    if (s == Status::Return || f.stop->load(std::memory_order_relaxed)) return Status::Return;
  }
}

Status IfInstr::run(Frame& f) const { return cpu::run(*f.at<std::uint8_t>(condition) != 0 ? then_code : else_code, f); }

Status AssertInstr::run(Frame& f) const {
  const auto* bits = f.at<std::uint8_t>(condition);
  std::vector<std::int64_t> index(shape.size(), 0);
  for (;;) {
    std::int64_t at = 0;
    for (std::size_t a = 0; a < shape.size(); ++a) at += index[a] * stride[a];
    if (bits[at] == 0) {
      const std::string place = shape.empty() ? "" : concat(" (first at element [", join(index), "])");
      throw_device_error(
          f,
          concat("assertion failed in block (", f.block[0], ", ", f.block[1], ", ", f.block[2], "): ", message, place),
          where);
    }
    std::size_t a = shape.size();
    while (a > 0 && ++index[a - 1] == shape[a - 1]) index[--a] = 0;
    if (a == 0) return Status::Next;
  }
}

}  // namespace tessera::cpu
