// Values of attributes in the text that is parsed: constants, numbers with their types, assumptions, hints, locations.
#include <algorithm>
#include <limits>

#include "ir/characters.hpp"
#include "ir/kept_text.hpp"
#include "ir/text_parts.hpp"
#include "ir/text_values.hpp"
#include "ir/type_data.hpp"
#include "tessera/ir/semantics.hpp"

namespace tessera::ir {

namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMost32 = std::numeric_limits<std::int32_t>::max();

std::size_t element_bytes(Type tile) { return tile.is_pointer() ? 8 : info(tile.elem()).bytes; }

std::string alternatives(std::span<const char* const> names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i)
    out += concat(i == 0 ? "" : i + 1 == names.size() ? " or " : ", ", names[i]);
  return out;
}

}  // namespace

// ---- constants --------------------------------------------------------------------------------------------------

/// The offset of the `>` after the values, which hold no other one outside of strings.
std::size_t TextParts::end_of_values() {
  const std::string_view text = in_.text();
  for (std::size_t at = in_.at(); at < text.size(); ++at) {
    if (text[at] == '>') return at;
    if (text[at] == '"') at = text.find('"', at + 1);
    if (at == std::string_view::npos) break;
  }
  in_.fail("values that end with `>`");
}

/// The type follows the values: it is read first, and the values then fill it.
DenseAttr TextParts::dense() {
  in_.expect("<");
  const std::size_t start = in_.at();
  const Type element = element_or_pointer();
  in_.expect(":");
  const std::size_t values = in_.at(), close = end_of_values();
  in_.move_to(close + 1);
  in_.expect(":");
  in_.skip();
  const std::size_t at_type = in_.at();
  DenseAttr data{type(), {}, false};
  if (!data.type.is_tile()) in_.fail_at(at_type, concat("expected a tile, found ", data.type.str()));
  if (data.type.element_type() != element)
    in_.fail_at(start, concat("expected elements of ", data.type.element_type().str(), ", found ", element.str()));
  const std::size_t end = in_.at();
  in_.move_to(values);
  dense_values(data);
  in_.expect(">");
  in_.move_to(end);
  return data;
}

void TextParts::dense_values(DenseAttr& data) {
  const char next = in_.peek();
  if (next == '"') return hex_bytes(data);
  data.splat = next != '[';
  if (data.splat) return number(data);
  const std::size_t wanted = static_cast<std::size_t>(data.type.num_elements()) * element_bytes(data.type);
  data.bytes.reserve(std::min(wanted, in_.text().size() - in_.at()));  // a number takes at least a character
  nested(data, data.type.shape());
}

/// As deep as the type has axes.
void TextParts::nested(DenseAttr& data, std::span<const std::int64_t> shape) {
  if (shape.empty()) return number(data);
  in_.expect("[");
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    if (i != 0 && !in_.take(",")) in_.fail(concat("`,`: ", shape[0], " items instead of ", i));
    nested(data, shape.subspan(1));
  }
  if (!in_.take("]")) in_.fail(concat("`]` after ", shape[0], " items"));
}

void TextParts::number(DenseAttr& data) {
  const Elem e = data.type.is_pointer() ? Elem::I64 : data.type.elem();
  in_.skip();
  const std::size_t start = in_.at();
  const std::string_view text = e == Elem::I1 ? in_.word() : in_.number();
  std::uint64_t bits = 0;
  if (!number_bits(e, text, bits)) {
    in_.move_to(start);
    in_.fail(concat("a number of ", info(e).text));
  }
  for (std::size_t i = 0; i < element_bytes(data.type); ++i)
    data.bytes.push_back(static_cast<std::byte>(bits >> (8 * i)));
}

/// `"0x..."`: the bytes of all elements.
void TextParts::hex_bytes(DenseAttr& data) {
  const std::size_t start = in_.at() + 1, end = in_.text().find('"', start);
  std::string_view digits = in_.text().substr(start, end - start);
  const std::size_t wanted = static_cast<std::size_t>(data.type.num_elements()) * element_bytes(data.type);
  if (!digits.starts_with("0x") || digits.size() != 2 + 2 * wanted)
    in_.fail_at(start, concat("expected 0x and ", 2 * wanted, " hexadecimal digits for ", data.type.str(), ", found ",
                              digits.size(), " characters"));
  digits.remove_prefix(2);
  data.bytes.reserve(wanted);
  const Type element = data.type.element_type();
  const int most = element.kind() == TypeKind::Pointer ? 255 : (1 << std::min(8, int{info(element.elem()).bits})) - 1;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    const int high = hex_digit(digits[i]), low = hex_digit(digits[i + 1]);
    if (high < 0 || low < 0) in_.fail_at(start + 2 + i, "expected two hexadecimal digits");
    const int value = high * 16 + low;
    if (value > most)
      in_.fail_at(start + 2 + i, concat("expected at most ", most, " for an element of ", element.str()));
    data.bytes.push_back(static_cast<std::byte>(value));
  }
  in_.move_to(end + 1);
}

// ---- other values -----------------------------------------------------------------------------------------------

Attribute TextParts::typed(bool truth, Elem plain) {
  if (in_.peek() == '"') return in_.string("a value");
  in_.skip();
  const std::size_t start = in_.at();
  if (const std::string_view word = in_.peek_word(); word == "true" || word == "false") {
    in_.word();
    if (truth) return word == "true";
    return IntAttr{Elem::I1, word == "true" ? 1 : 0};
  }
  const std::string_view text = in_.number();
  Elem e = text.find_first_of(".eEx") == std::string_view::npos ? plain : Elem::F64;
  if (in_.take(":")) e = element();
  std::uint64_t bits = 0;
  if (!number_bits(e, text, bits)) {
    in_.move_to(start);
    in_.fail(concat("a number of ", info(e).text));
  }
  if (info(e).is_float) return FloatAttr{e, bits};
  return IntAttr{e, to_signed(e, bits)};
}

std::optional<std::int64_t> TextParts::bound() {
  if (in_.take("?")) return std::nullopt;
  return in_.integer("a number or `?`", kLeast, kMost);
}

Attribute TextParts::predicate() {
  if (in_.take("div_by<")) {
    DivByAttr by{in_.unsigned_integer("a divisor"), {}, {}};
    if (in_.take(", every")) by.every = in_.integer("a number", kLeast, kMost);
    if (in_.take("along")) by.along = in_.integer("an axis", kLeast, kMost);
    in_.expect(">");
    return by;
  }
  if (in_.take("bounded<")) {
    BoundedAttr bounds;
    bounds.lower = bound();
    in_.expect(",");
    bounds.upper = bound();
    in_.expect(">");
    return bounds;
  }
  if (!in_.take("same_elements<")) in_.fail("an assumption (div_by, bounded or same_elements)");
  SameElementsAttr same{list<std::int64_t>("a number of elements", kLeast, kMost, "[", "]", ",")};
  in_.expect(">");
  return same;
}

std::string TextParts::key() {
  if (in_.peek() == '"') return in_.string("a name");
  const std::string_view word = in_.peek_word();
  if (!is_bare_name(word)) in_.fail("a name");
  in_.word();
  return std::string(word);
}

DictAttr TextParts::hints() {
  DictAttr hints;
  in_.expect("<");
  while (!in_.take(">")) {
    if (!hints.entries.empty()) in_.expect(",");
    std::string arch = key();
    in_.expect("= {");
    DictAttr values;
    while (!in_.take("}")) {
      if (!values.entries.empty()) in_.expect(",");
      std::string name = key();
      in_.expect("=");
      values.entries.emplace_back(std::move(name), typed(true, Elem::I32));
    }
    hints.entries.emplace_back(std::move(arch), std::move(values));
  }
  return hints;
}

std::string TextParts::symbol() {
  if (in_.peek() != '@') in_.fail("a symbol (@name)");
  in_.move_to(in_.at() + 1);
  return key();
}

SourceLocation TextParts::location() {
  if (!in_.take("loc(")) return {};
  SourceLocation loc;
  if (!in_.take("unknown")) {
    loc.file = kept_text(in_.string("a file or `unknown`"));
    in_.expect(":");
    loc.line = static_cast<std::uint32_t>(in_.integer("a line", 0, std::numeric_limits<std::uint32_t>::max()));
    in_.expect(":");
    loc.column = static_cast<std::uint32_t>(in_.integer("a column", 0, std::numeric_limits<std::uint32_t>::max()));
  }
  in_.expect(")");
  return loc.known() ? loc : SourceLocation{};
}

bool TextParts::truth() {
  const bool is = in_.take("true");
  if (!is && !in_.take("false")) in_.fail("true or false");
  return is;
}

BoolArrayAttr TextParts::truths() {
  BoolArrayAttr array;
  in_.expect("[");
  while (!in_.take("]")) {
    if (!array.values.empty()) in_.expect(",");
    array.values.push_back(truth());
  }
  return array;
}

ArrayAttr TextParts::tagged_array() {
  ArrayAttr array;
  in_.expect("[");
  while (!in_.take("]")) {
    if (!array.items.empty()) in_.expect(",");
    array.items.push_back(typed(false, Elem::I64));
  }
  return array;
}

Attribute TextParts::attribute(AttrKind kind) {
  switch (kind) {
    case AttrKind::Unit: return UnitAttr{};
    case AttrKind::Bool: return truth();
    case AttrKind::I32: return IntAttr{Elem::I32, in_.integer("an integer", -kMost32 - 1, kMost32)};
    case AttrKind::I64: return IntAttr{Elem::I64, in_.integer("an integer", kLeast, kMost)};
    case AttrKind::String: return in_.string("a string");
    case AttrKind::Symbol: return symbol();
    case AttrKind::Dense: return dense();
    case AttrKind::Dict: return hints();
    case AttrKind::Tagged: return predicate();
    case AttrKind::I32Array:
      return I32ArrayAttr{list<std::int32_t>("an integer", -kMost32 - 1, kMost32, "[", "]", ",")};
    case AttrKind::TaggedArray: return tagged_array();
    case AttrKind::BoolArray: return truths();
    default: break;
  }
  const int value = enum_value(kind, in_.peek_word());
  if (value < 0) in_.fail(alternatives(enum_names(kind)));
  in_.word();
  return EnumAttr{static_cast<std::uint8_t>(value)};
}

}  // namespace tessera::ir
