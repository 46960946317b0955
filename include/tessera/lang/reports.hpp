// What a kernel reports: require() to the host before a launch, check() and print() while it runs.
//
// require(condition, "message"): a condition that a launch must satisfy, over dimensions, strides, scalar parameters
// and constants. It is evaluated on the host before anything is enqueued (ShapeError) and costs the kernel nothing.
//
// check(condition, "message"): an assertion that runs on the device. Where it fails, waiting for the result throws a
// DeviceError with the message and this line; the context stays usable.
//
// print("m = {}", m): prints from the device, one line per call and block. `{}` stands for a tile or scalar, `{{` and
// `}}` for braces.
#pragma once
#include <cstddef>
#include <span>
#include <string_view>

#include "tessera/lang/access.hpp"
#include "tessera/lang/tile.hpp"

namespace tessera::lang {

struct PrintArgument {
  ir::Value value;
  ElementType type;
};
/// `format` has one `{}` per argument.
void print_tiles(std::string_view format, std::span<const PrintArgument>, SourceLocation);

void check_tile(ir::Value condition, std::string_view message, SourceLocation);
void check_while_recording(bool condition, std::string_view message, SourceLocation);

/// Throws TraceError if the condition depends on anything known on the device only.
void require_value(ir::Value condition, std::string_view message, SourceLocation);
void require_while_recording(bool condition, std::string_view message, SourceLocation);

}  // namespace tessera::lang

namespace tessera {

inline void require(const Tile<bool>& condition, std::string_view message,
                    SourceLocation loc = SourceLocation::current()) {
  lang::require_value(condition.value(), message, loc);
}
template <class T, int... D>
  requires(sizeof...(D) > 0 || !std::is_same_v<T, bool>)
void require(const Tile<T, D...>&, std::string_view) {
  static_assert(detail::never<T>,
                "require needs one condition for the launch, a Scalar<bool> over dimensions and scalar parameters; "
                "for the elements of a tile use check");
}
/// A condition over template arguments and Constants alone. Throws ShapeError while recording if it is false.
template <class B>
  requires(std::is_same_v<detail::host_value_t<B>, bool>)
void require(B condition, std::string_view message, SourceLocation loc = SourceLocation::current()) {
  lang::require_while_recording(condition, message, loc);
}

/// Every element of `condition` must be true.
template <int... D>
void check(const Tile<bool, D...>& condition, std::string_view message,
           SourceLocation loc = SourceLocation::current()) {
  lang::check_tile(condition.value(), message, loc);
}
/// A condition that is known while the kernel is recorded. Throws TraceError if it is false.
inline void check(bool condition, std::string_view message, SourceLocation loc = SourceLocation::current()) {
  lang::check_while_recording(condition, message, loc);
}

namespace detail {

void the_number_of_braces_differs_from_the_number_of_values_to_print();

/// A format with N places, checked while compiling, and the line of the call.
template <std::size_t N>
class PrintFormat {
 public:
  template <std::size_t L>
  consteval PrintFormat(const char (&text)[L], SourceLocation at = SourceLocation::current())  // NOLINT
      : text_(text, L - 1), loc_(at) {
    std::size_t places = 0;
    for (std::size_t i = 0; i + 1 < L; ++i) {
      if (text[i] == '{' && text[i + 1] == '}') {
        ++places;
        ++i;
      } else if ((text[i] == '{' || text[i] == '}') && text[i + 1] == text[i]) {
        ++i;
      }
    }
    if (places != N) the_number_of_braces_differs_from_the_number_of_values_to_print();
  }
  constexpr std::string_view text() const { return text_; }
  constexpr SourceLocation where() const { return loc_; }

 private:
  std::string_view text_;
  SourceLocation loc_;
};
template <class... T>
struct PrintFormatOf {
  using type = PrintFormat<sizeof...(T)>;
};

template <class T, int... D>
lang::PrintArgument print_argument(const Tile<T, D...>& t) {
  return {t.value(), element_type<T>};
}
template <class X>
inline constexpr bool printable_tile = false;
template <class T, int... D>
inline constexpr bool printable_tile<Tile<T, D...>> = true;

}  // namespace detail

/// Tiles print with all their elements. A block's prints appear in order; those of different blocks may interleave.
template <class... X>
  requires(detail::printable_tile<X> && ...)
void print(typename detail::PrintFormatOf<X...>::type format, const X&... tiles) {
  const lang::PrintArgument arguments[] = {detail::print_argument(tiles)..., {}};
  lang::print_tiles(format.text(), {arguments, sizeof...(X)}, format.where());
}

}  // namespace tessera
