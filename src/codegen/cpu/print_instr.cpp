// print_tko: a printf-like format whose every expression prints one whole tile, to stdout, one call at a time.
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "codegen/cpu/control_instr.hpp"
#include "tessera/ir/semantics.hpp"

namespace tessera::cpu {
namespace {

struct Conversion {
  std::string flags;  ///< "%+08.3" without length and letter
  char letter = 0;    ///< 0: a literal '%'
  std::size_t end = 0;
};

Conversion parse(const std::string& format, std::size_t at) {
  Conversion c;
  std::size_t i = at + 1;
  if (i < format.size() && format[i] == '%') {
    c.end = i + 1;
    return c;
  }
  c.flags = "%";
  while (i < format.size() && std::strchr("-+ #0123456789.", format[i]) != nullptr) c.flags += format[i++];
  while (i < format.size() && std::strchr("hljztL", format[i]) != nullptr) ++i;  // the element type says the length
  c.letter = i < format.size() ? format[i] : 'd';
  c.end = i < format.size() ? i + 1 : i;
  return c;
}

std::string element_text(const Conversion& c, const PrintInstr::Argument& a, std::uint64_t bits) {
  char text[512];
  const bool is_float = !a.pointer && ir::info(a.elem).is_float;
  const bool wants_float = std::strchr("fFeEgGaA", c.letter) != nullptr;
  const std::int64_t as_signed = a.pointer                ? static_cast<std::int64_t>(bits)
                                 : is_float               ? static_cast<std::int64_t>(ir::to_double(a.elem, bits))
                                 : a.elem == ir::Elem::I1 ? static_cast<std::int64_t>(bits & 1)
                                                          : ir::to_signed(a.elem, bits);
  if (wants_float) {
    const double v = is_float ? ir::to_double(a.elem, bits) : static_cast<double>(as_signed);
    std::snprintf(text, sizeof text, (c.flags + c.letter).c_str(), v);
  } else if (std::strchr("uxXo", c.letter) != nullptr) {
    std::snprintf(text, sizeof text, (c.flags + "ll" + c.letter).c_str(),
                  static_cast<unsigned long long>(is_float ? static_cast<std::uint64_t>(as_signed) : bits));
  } else if (c.letter == 'p' || a.pointer) {
    std::snprintf(text, sizeof text, "0x%" PRIx64, bits);
  } else if (c.letter == 'c') {
    std::snprintf(text, sizeof text, (c.flags + "c").c_str(), static_cast<int>(as_signed));
  } else {
    std::snprintf(text, sizeof text, (c.flags + "lld").c_str(), static_cast<long long>(as_signed));
  }
  return text;
}

void append_tile(std::string& out, const Frame& f, const Conversion& c, const PrintInstr::Argument& a, std::size_t axis,
                 std::int64_t& element) {
  if (axis == a.shape.size()) {
    const std::int64_t bytes = a.pointer ? 8 : ir::info(a.elem).bytes;
    out += element_text(c, a, load_bits(f.at<std::byte>(a.ref) + element++ * bytes, bytes));
    return;
  }
  out += '[';
  for (std::int64_t i = 0; i < a.shape[axis]; ++i) {
    if (i > 0) out += ", ";
    append_tile(out, f, c, a, axis + 1, element);
  }
  out += ']';
}

}  // namespace

Status PrintInstr::run(Frame& f) const {
  std::string out;
  std::size_t next = 0;
  for (std::size_t i = 0; i < format.size();) {
    if (format[i] != '%') {
      out += format[i++];
      continue;
    }
    const Conversion c = parse(format, i);
    i = c.end;
    if (c.letter == 0) {
      out += '%';
    } else if (next < arguments.size()) {
      std::int64_t element = 0;
      append_tile(out, f, c, arguments[next], 0, element);
      ++next;
    }
  }
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  std::fwrite(out.data(), 1, out.size(), stdout);
  std::fflush(stdout);
  return Status::Next;
}

}  // namespace tessera::cpu
