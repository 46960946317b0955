// Summarised, aligned text of arrays. Two passes over the elements that are shown: the first chooses a common number
// format and column width, the second writes.
#include "host/array_text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

namespace tessera::detail {
namespace {

template <class T>
T read(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

/// The format of floating-point values: as few decimals as the shown values need, or an exponent if their range is too
/// wide.
struct NumberFormat {
  bool scientific = false;
  int decimals = 0;
};

class Writer {
 public:
  Writer(const ArrayView& a, const TextOptions& o) : a_(a), o_(o) {
    std::int64_t count = 1;
    for (const std::int64_t d : a.dims) count *= std::min<std::int64_t>(d, o.threshold + 1);
    summarise_ = count > o.threshold;
    if (info(a.element).cls == ElementClass::Float) choose_format();
    visit(a.base, 0, [&](const std::byte* p) { width_ = std::max(width_, element(p).size()); });
  }

  std::string text() {
    write(a_.base, 0);
    return std::move(out_);
  }

 private:
  bool elides(int axis) const { return summarise_ && a_.dims[static_cast<std::size_t>(axis)] > 2 * o_.edge; }

  /// Calls f with every element that is shown.
  template <class F>
  void visit(const std::byte* p, int axis, F&& f) const {
    if (axis == static_cast<int>(a_.dims.size())) return f(p);
    const auto i = static_cast<std::size_t>(axis);
    for (std::int64_t k = 0; k < a_.dims[i]; ++k) {
      if (elides(axis) && k == o_.edge) k = a_.dims[i] - o_.edge;
      visit(p + k * a_.strides[i] * size_of(a_.element), axis + 1, f);
    }
  }

  double number(const std::byte* p) const {
    switch (a_.element) {
      case ElementType::f64: return read<double>(p);
      case ElementType::f32: return read<float>(p);
      case ElementType::tf32: return read<tf32>(p);
      case ElementType::f16: return read<f16>(p);
      case ElementType::bf16: return read<bf16>(p);
      case ElementType::f8e4m3: return read<f8e4m3>(p);
      case ElementType::f8e5m2: return read<f8e5m2>(p);
      default: return 0;
    }
  }

  void choose_format() {
    double largest = 0, smallest = INFINITY;
    visit(a_.base, 0, [&](const std::byte* p) {
      const double v = std::fabs(number(p));
      if (!std::isfinite(v) || v == 0) return;
      largest = std::max(largest, v);
      smallest = std::min(smallest, v);
    });
    // NumPy's bounds (numpy.core.arrayprint, FloatingFormat) for huge and tiny numbers.
    format_.scientific = largest >= 1e8 || (largest != 0 && smallest < 1e-4);
    visit(a_.base, 0, [&](const std::byte* p) {
      const double v = number(p);
      if (!std::isfinite(v)) return;
      char s[64];
      std::snprintf(s, sizeof s, format_.scientific ? "%.*e" : "%.*f", o_.decimals,
                    format_.scientific ? v : std::fabs(v));
      const char* dot = std::strchr(s, '.');
      if (!dot) return;
      int used = 0;
      for (int d = 1; d <= o_.decimals; ++d) {
        if (dot[d] != '0') used = d;
      }
      format_.decimals = std::max(format_.decimals, used);
    });
  }

  std::string element(const std::byte* p) const {
    switch (a_.element) {
      case ElementType::i64: return std::to_string(read<std::int64_t>(p));
      case ElementType::i32: return std::to_string(read<std::int32_t>(p));
      case ElementType::i16: return std::to_string(read<std::int16_t>(p));
      case ElementType::i8: return std::to_string(read<std::int8_t>(p));
      case ElementType::u64: return std::to_string(read<std::uint64_t>(p));
      case ElementType::u32: return std::to_string(read<std::uint32_t>(p));
      case ElementType::u16: return std::to_string(read<std::uint16_t>(p));
      case ElementType::u8: return std::to_string(read<std::uint8_t>(p));
      case ElementType::boolean: return read<std::uint8_t>(p) ? "true" : "false";
      default: break;
    }
    const double v = number(p);
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
    char s[400];  // a double below 1e8 in fixed form, or with an exponent
    std::snprintf(s, sizeof s, format_.scientific ? "%.*e" : "%.*f", format_.decimals, v);
    std::string text = s;
    if (format_.decimals == 0 && !format_.scientific) text += '.';
    return text;
  }

  void write_row(const std::byte* p, std::size_t axis) {
    const std::size_t indent = axis + 1;
    std::size_t column = indent;
    const auto put = [&](const std::string& s, bool first) {
      const std::size_t width = std::max(width_, s.size());
      if (!first) {
        out_ += ',';
        if (column + 2 + width > static_cast<std::size_t>(o_.width)) {
          out_ += '\n' + std::string(indent, ' ');
          column = indent;
        } else {
          out_ += ' ';
          column += 2;
        }
      }
      out_ += std::string(width - s.size(), ' ') + s;
      column += width;
    };
    for (std::int64_t k = 0; k < a_.dims[axis]; ++k) {
      if (elides(static_cast<int>(axis)) && k == o_.edge) {
        out_ += ", ...";
        column += 5;
        k = a_.dims[axis] - o_.edge;
      }
      put(element(p + k * a_.strides[axis] * size_of(a_.element)), k == 0);
    }
  }

  void write(const std::byte* p, std::size_t axis) {
    out_ += '[';
    if (axis + 1 == a_.dims.size()) {
      write_row(p, axis);
    } else {
      const std::string gap = "," + std::string(a_.dims.size() - axis - 1, '\n') + std::string(axis + 1, ' ');
      for (std::int64_t k = 0; k < a_.dims[axis]; ++k) {
        if (k != 0) out_ += gap;
        if (elides(static_cast<int>(axis)) && k == o_.edge) {
          out_ += "..." + gap;
          k = a_.dims[axis] - o_.edge;
        }
        write(p + k * a_.strides[axis] * size_of(a_.element), axis + 1);
      }
    }
    out_ += ']';
  }

  const ArrayView& a_;
  const TextOptions& o_;
  bool summarise_ = false;
  NumberFormat format_;
  std::size_t width_ = 0;
  std::string out_;
};

}  // namespace

std::string array_text(const ArrayView& a, const TextOptions& options) {
  for (const std::int64_t d : a.dims) {
    if (d == 0) return "[]";
  }
  return Writer(a, options).text();
}

}  // namespace tessera::detail
