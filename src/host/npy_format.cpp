// Reading and writing the header of .npy files: a small parser for the Python dictionary literal in it.
#include "host/npy_format.hpp"

#include <cctype>

#include "tessera/base/error.hpp"

namespace tessera::detail {
namespace {

struct NpyType {
  ElementType element;
  const char* name;
};
constexpr NpyType kTypes[] = {
    {ElementType::f64, "<f8"}, {ElementType::f32, "<f4"}, {ElementType::f16, "<f2"}, {ElementType::i64, "<i8"},
    {ElementType::i32, "<i4"}, {ElementType::i16, "<i2"}, {ElementType::i8, "|i1"},  {ElementType::u64, "<u8"},
    {ElementType::u32, "<u4"}, {ElementType::u16, "<u2"}, {ElementType::u8, "|u1"},  {ElementType::boolean, "|b1"},
};

struct Parser {
  std::string_view text;
  const std::string& path;
  SourceLocation where;
  std::size_t at = 0;

  [[noreturn]] void fail(const std::string& what) const {
    throw IoError("'" + path + "' is not a .npy file that can be read: " + what + ".", where);
  }
  void space() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t')) ++at;
  }
  bool accept(char c) {
    space();
    if (at >= text.size() || text[at] != c) return false;
    ++at;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("its header should have '") + c + "' at character " + std::to_string(at));
  }
  std::string_view string() {
    space();
    if (at >= text.size() || (text[at] != '\'' && text[at] != '"')) {
      fail("its header should have a quoted name at character " + std::to_string(at));
    }
    const char quote = text[at++];
    const std::size_t end = text.find(quote, at);
    if (end == std::string_view::npos) fail("a quoted name in its header does not end");
    const std::string_view s = text.substr(at, end - at);
    at = end + 1;
    return s;
  }
  bool boolean() {
    space();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text.substr(at, word.size()) == word) {
        at += word.size();
        return value;
      }
    }
    fail("'fortran_order' in its header is neither True nor False");
  }
  std::int64_t extent() {
    space();
    std::uint64_t value = 0;
    const std::size_t first = at;
    for (; at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])); ++at) {
      value = value * 10 + static_cast<std::uint64_t>(text[at] - '0');
      if (value > INT64_MAX / 16) fail("an extent in its header is too large");
    }
    if (at == first) fail("an extent in its header is not a number");
    if (at < text.size() && text[at] == 'L') ++at;  // Python 2 wrote long integers with this suffix
    return static_cast<std::int64_t>(value);
  }
};

ElementType parse_type(Parser& p) {
  p.space();
  if (p.at < p.text.size() && p.text[p.at] == '[')
    p.fail("it holds a structured type; only plain numbers can be loaded");
  const std::string name(p.string());
  if (name.size() > 1 && name[0] == '>') {
    p.fail("its type '" + name.substr(0, 16) + "' is big-endian; write it with the type '<" + name.substr(1, 15) + "'");
  }
  for (const NpyType& t : kTypes) {
    const std::string_view known = t.name;
    const bool order =
        name.size() == known.size() && (name[0] == known[0] || name[0] == '=' || (known[0] == '|' && name[0] == '<'));
    if (order && std::string_view(name).substr(1) == known.substr(1)) return t.element;
  }
  p.fail("its type '" + name.substr(0, 32) +
         "' is unknown; bool, integers of 8 to 64 bits and floats of 16 to 64 bits can be loaded");
}

void parse_shape(Parser& p, NpyHeader& h) {
  p.expect('(');
  bool comma = true;
  while (!p.accept(')')) {
    if (!comma) p.fail("the extents in its header are not separated by commas");
    if (h.rank == kNpyMaxRank) p.fail("it has more than " + std::to_string(kNpyMaxRank) + " axes");
    h.dims[static_cast<std::size_t>(h.rank++)] = p.extent();
    comma = p.accept(',');
  }
}

/// Product of the extents; fails where elements * bytes does not fit 63 bits (a zero extent makes the product zero,
/// whatever the others).
std::uint64_t checked_product(const Parser& p, const NpyHeader& h) {
  std::uint64_t product = 1;
  bool overflow = false;
  for (int i = 0; i < h.rank; ++i) {
    const auto d = static_cast<std::uint64_t>(h.dims[static_cast<std::size_t>(i)]);
    if (d == 0) return 0;
    overflow |= __builtin_mul_overflow(product, d, &product);
  }
  std::uint64_t bytes = 0;
  overflow |= __builtin_mul_overflow(product, static_cast<std::uint64_t>(size_of(h.element)), &bytes);
  if (overflow || bytes > INT64_MAX) p.fail("the product of the extents in its header overflows");
  return product;
}

}  // namespace

const char* npy_type(ElementType element) noexcept {
  for (const NpyType& t : kTypes) {
    if (t.element == element) return t.name;
  }
  return nullptr;
}

std::uint32_t npy_prefix(std::string_view prefix, std::uint64_t file_size, std::uint32_t& header_length,
                         const std::string& path, SourceLocation where) {
  const Parser p{prefix, path, where};
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(prefix[i])); };
  if (prefix.size() < 10) p.fail("it is truncated: " + std::to_string(file_size) + " bytes are less than a header");
  if (prefix.substr(0, 6) != "\x93NUMPY") p.fail("it does not begin with the bytes \\x93NUMPY");
  if (byte(6) < 1 || byte(6) > 3) p.fail("it has format version " + std::to_string(byte(6)) + "; 1 to 3 are known");
  const std::uint32_t offset = byte(6) == 1 ? 10 : 12;
  if (prefix.size() < offset) p.fail("it is truncated inside its header");
  header_length = byte(8) | byte(9) << 8;
  if (offset == 12) header_length |= byte(10) << 16 | byte(11) << 24;
  if (header_length > kNpyMaxHeader) {
    p.fail("its header claims " + std::to_string(header_length) + " bytes; at most " + std::to_string(kNpyMaxHeader) +
           " are accepted");
  }
  if (offset + std::uint64_t{header_length} > file_size) {
    p.fail("it is truncated: its header claims " + std::to_string(header_length) + " bytes, the file has " +
           std::to_string(file_size - offset) + " after the prefix");
  }
  return offset;
}

NpyHeader npy_dictionary(std::string_view text, std::uint64_t data_offset, std::uint64_t file_size,
                         const std::string& path, SourceLocation where) {
  Parser p{text, path, where};
  NpyHeader h;
  bool type = false, order = false, shape = false, fortran = false, comma = true;
  p.expect('{');
  while (!p.accept('}')) {
    if (!comma) p.fail("the entries of its header are not separated by commas");
    const std::string_view key = p.string();
    p.expect(':');
    bool& seen = key == "descr" ? type : key == "fortran_order" ? order : shape;
    if (&seen == &shape && key != "shape")
      p.fail("its header has an unknown entry '" + std::string(key.substr(0, 32)) + "'");
    if (seen) p.fail("its header has the entry '" + std::string(key) + "' twice");
    seen = true;
    if (&seen == &type) h.element = parse_type(p);
    if (&seen == &order) fortran = p.boolean();
    if (&seen == &shape) parse_shape(p, h);
    comma = p.accept(',');
  }
  p.space();
  if (p.at != text.size()) p.fail("its header continues after the dictionary");
  if (!type || !order || !shape) p.fail("its header lacks 'descr', 'fortran_order' or 'shape'");
  if (fortran) p.fail("it is in Fortran order; save numpy.ascontiguousarray(array) instead");
  h.data_offset = data_offset;
  h.elements = checked_product(p, h);
  const std::uint64_t wanted = h.elements * static_cast<std::uint64_t>(size_of(h.element));
  const std::uint64_t found = file_size - data_offset;
  if (found != wanted) {
    p.fail(std::string(found < wanted ? "it is truncated" : "it is too long") + ": its header claims " +
           std::to_string(wanted) + " bytes of elements, the file has " + std::to_string(found));
  }
  return h;
}

std::string npy_header(ElementType element, const std::int64_t* dims, int rank) {
  std::string dict = std::string("{'descr': '") + npy_type(element) + "', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < rank; ++i) dict += std::to_string(dims[i]) + (rank == 1 ? "," : i + 1 < rank ? ", " : "");
  dict += "), }";
  const std::size_t total = (10 + dict.size() + 1 + 63) / 64 * 64;
  dict.append(total - 10 - dict.size() - 1, ' ');
  dict += '\n';
  std::string head("\x93NUMPY\x01\x00", 8);
  head += static_cast<char>(dict.size() & 0xFF);
  head += static_cast<char>(dict.size() >> 8);
  return head + dict;
}

}  // namespace tessera::detail
