// The messages of rejected launches.
#include "host/launch_errors.hpp"

#include "host/call_text.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/number_range.hpp"

namespace tessera::detail {
namespace {

const lang::ParamInfo& param_of(Context c, int param) { return c.signature.params[static_cast<std::size_t>(param)]; }

/// "argument 3 (In<f32, dyn>)".
std::string position(Context c, int param) {
  return concat("argument ", param + 1, " (", param_of(c, param).spelling, ")");
}

/// The argument as the user wrote it, without std::move and mut; empty where the source cannot be read.
std::string name(Context c, int param) {
  const auto arguments = call_arguments(c.signature.name, c.where);
  return static_cast<std::size_t>(param) < arguments.size() ? bare_name(arguments[static_cast<std::size_t>(param)])
                                                            : "";
}

/// "argument 3 (In<f32, dyn>) `x` of kernel saxpy".
std::string argument(Context c, int param) {
  const std::string text = name(c, param);
  return concat(position(c, param), text.empty() ? "" : " `" + text + "`", " of ", c.signature.what);
}

}  // namespace

void throw_number_too_large(Context c, int param) {
  throw ShapeError(
      concat(argument(c, param), ": the number given does not fit in ", range_text(param_of(c, param).element), "."),
      c.where);
}

void throw_spent_argument(Context c, int param) {
  throw BorrowError(concat(argument(c, param),
                           " is an operation that has been run or moved already: an Op runs once.\n"
                           "  Build it again, or pass the tensor that it made."),
                    c.where);
}

void throw_empty_argument(Context c, int param) {
  throw BorrowError(
      concat(argument(c, param),
             " is an empty tensor: it was moved from (given to a launch, or std::move'd) or never assigned.\n"
             "  Assign a tensor to it before using it, for example the one that the launch returns."),
      c.where);
}

void throw_stale_argument(Context c, int param) { throw_stale_lend(argument(c, param), c.where); }

void throw_alias(Context c, int writer, int other, bool both_write) {
  const std::string text = name(c, writer);
  if (both_write) {
    const std::string fix = text.empty() ? "clone() one of them" : "clone(" + text + ") for one of them";
    throw BorrowError(
        concat(position(c, writer), " and ", position(c, other), " of ", c.signature.what,
               " are the same storage; both are written, so each needs its own.\n  Make a copy: ", fix, "."),
        c.where);
  }
  const std::string fix =
      text.empty() || text.find('(') != std::string::npos
          ? "Make a copy (clone()), or write in place with the Mut parameter's load()."
          : concat("Make a copy (x = clone(", text, ")), or write in place with ", text, ".load().");
  throw BorrowError(concat(position(c, other), " and ", position(c, writer), " of ", c.signature.what,
                           " are the same storage; argument ", writer + 1, " is written, so argument ", other + 1,
                           " may not share it.\n  ", fix),
                    c.where);
}

void throw_axis_too_long(Context c, int param, int axis, Dimensions found) {
  throw ShapeError(concat(argument(c, param), " has the extents ", extents_text(found), ": axis ", axis,
                          " is longer than ", kMaxExtent, " elements, which kernels count to."),
                   c.where);
}

void throw_wrong_extent(Context c, int param, int axis, Dimensions found) {
  const auto a = static_cast<std::size_t>(axis);
  throw ShapeError(concat(argument(c, param), " has the extents ", extents_text(found), ": axis ", axis, " has ",
                          found[a], " elements, the kernel's parameter says ", param_of(c, param).extents[a],
                          ".\n  Pass a tensor of that extent, or declare the axis dyn."),
                   c.where);
}

void throw_wrong_device(Context c, int param, const std::string& expected, const std::string& found) {
  throw DeviceError(concat(argument(c, param), " is on ", found, " but the launch runs on ", expected,
                           ": all tensors of a launch live on its device.\n  Launch on a stream of that device, or "
                           "copy the tensor: copy_to(t, device)."),
                    c.where);
}

void throw_too_many_pieces(Context c, int param, Dimensions found) {
  throw ShapeError(concat(argument(c, param), " has the extents ", extents_text(found), ", which are more than ",
                          kMaxExtent, " pieces: choose larger pieces."),
                   c.where);
}

void throw_unequal_pieces(Context c, int first, std::uint64_t first_pieces, Dimensions first_dims, int second,
                          std::uint64_t second_pieces, Dimensions second_dims) {
  throw ShapeError(
      concat(argument(c, first), " has ", first_pieces, " pieces (extents ", extents_text(first_dims), "), but ",
             argument(c, second), " has ", second_pieces, " (extents ", extents_text(second_dims),
             ").\n  Every block owns one piece of each Mut parameter, so all must have equally many."),
      c.where);
}

void throw_blocks_not_free(Context c) {
  throw ShapeError(concat(c.signature.what,
                          " has a Mut parameter: there is one block per piece, so .blocks(n) cannot be given.\n"
                          "  Leave it out, or declare the parameter MutTiles."),
                   c.where);
}

void throw_blocks_missing(Context c) {
  throw ShapeError(
      concat(c.signature.what, " has no Mut parameter that would say how many blocks there are.\n  Write kernel<",
             c.signature.name, ">.blocks(n)(...)."),
      c.where);
}

void throw_blocks_out_of_range(Context c, std::int64_t found, std::int64_t most) {
  const std::string bound = c.signature.has_mut_tiles ? "" : concat(" and at most ", most);
  throw ShapeError(concat(".blocks(", found, ") of ", c.signature.what, ": the number of blocks is at least ",
                          c.signature.has_mut_tiles ? 1 : 0, bound, "."),
                   c.where);
}

void throw_regions_differ(Context c, const lang::SameExtent& s, const Launch& launch) {
  const auto extents = [&](const lang::ExtentOf& e) { return launch.dims(e.param); };
  const auto found = [&](const lang::ExtentOf& e) { return extents(e)[static_cast<std::size_t>(e.axis)]; };
  const std::string at = s.where.known() ? concat(" at ", s.where.file, ":", s.where.line) : "";
  throw ShapeError(
      concat(argument(c, s.loaded.param), " has the extents ", extents_text(extents(s.loaded)), ", but ",
             argument(c, s.piece.param), " has ", extents_text(extents(s.piece)), ": load_like", at, " needs axis ",
             s.loaded.axis, " of the first to be as long as axis ", s.piece.axis, " of the second, or 1; found ",
             found(s.loaded), " and ", found(s.piece),
             ".\n  Pass arguments whose extents agree. If what lies outside is to read as padding, the kernel says so "
             "with `partial`: load_like(y, partial)."),
      c.where);
}

void throw_recorded_differently(const KernelState::Signature& kernel, const lang::Difference& at,
                                SourceLocation launch) {
  const auto place = [](SourceLocation l) { return l.known() ? concat(l.file, ":", l.line) : "an unknown line"; };
  const bool both = at.before.known() && at.now.known();
  const std::string there = !both && at.now.known() ? concat("the first recording does not have what it records here")
                            : !both                 ? concat("the first recording has here what it no longer records")
                            : at.before == at.now   ? concat("here it records something else than at first")
                                                  : concat("here, where the first recording was at ", place(at.before));
  throw TraceError(
      concat(kernel.what, ", launched at ", place(launch),
             ", is recorded differently than at its first launch with such arguments: ", there,
             ". Its body reads state of the host that has changed (a global or static variable, the time, ...), which "
             "launches outside checked mode would not see: they run the first recording.\n  Give the kernel that "
             "state as a parameter: Constant<T> where it decides what is recorded, Scalar<T> where it is a number to "
             "compute with."),
      at.now.known() ? at.now : at.before);
}

void throw_requirement(Context c, const lang::Requirement& r, std::span<const std::uint64_t> slots) {
  std::string extents;
  for (std::size_t i = 0; i < c.signature.params.size(); ++i) {
    const KernelState::Param& p = c.signature.brief[i];
    if (!p.is_tensor) continue;
    const auto* const dims = reinterpret_cast<const std::int64_t*>(slots.data() + p.slot + 1);
    extents += concat(extents.empty() ? "" : ", ", "argument ", i + 1, " has ", extents_text({dims, p.rank}));
  }
  std::string stated;
  if (r.where.known()) stated = concat(" (stated at ", r.where.file, ":", r.where.line, ")");
  throw ShapeError(concat(c.signature.what, " requires: ", r.message, stated, ".\n  Extents: ", extents, "."), c.where);
}

}  // namespace tessera::detail
