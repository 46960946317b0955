// print("m = {}", m): prints from the device, one line per call and block. `{}` stands for a tile or scalar, `{{` and
// `}}` for braces.
#pragma once
#include <cstddef>
#include <span>
#include <string_view>

#include "tessera/lang/reports.hpp"
#include "tessera/lang/tile.hpp"

namespace tessera {

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
