// Types, constants and self-contained attributes of a bytecode file.
#include <algorithm>
#include <tuple>

#include "ir/bytecode_sections.hpp"
#include "ir/read_limits.hpp"
#include "ir/type_data.hpp"
#include "ir/verify_rules.hpp"
#include "tessera/ir/semantics.hpp"

namespace tessera::ir {

namespace {

constexpr int kMaxTypeDepth = 4;       // function, tile, pointer, element
constexpr int kMaxAttributeDepth = 8;  // dictionaries and arrays in each other

/// i1 comes as 00 or FF for all elements, packed from the lowest bit on, or as a byte for each.
void i1_bytes(const ByteReader& in, std::string_view payload, DenseAttr& data) {
  const auto n = static_cast<std::size_t>(data.type.num_elements());
  const auto bit = [&](std::size_t i) { return static_cast<std::byte>((payload[i / 8] >> (i % 8)) & 1); };
  const bool one = payload.size() == 1;
  if (one && (n == 1 || payload[0] == '\0' || payload[0] == '\xFF')) {
    data.splat = true;
    data.bytes = {static_cast<std::byte>(payload[0] != '\0')};
  } else if (payload.size() == (n + 7) / 8) {
    for (std::size_t i = 0; i < n; ++i) data.bytes.push_back(bit(i));
  } else if (payload.size() == n) {
    for (char c : payload) data.bytes.push_back(static_cast<std::byte>(c != '\0'));
  } else {
    in.fail("expected ", (n + 7) / 8, " bytes of constant data for ", data.type.str(), ", found ", payload.size());
  }
}

/// 19 bits in three bytes each.
void tf32_bytes(const ByteReader& in, std::string_view payload, DenseAttr& data) {
  for (std::size_t i = 0; i + 3 <= payload.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) bits |= std::uint32_t{static_cast<std::uint8_t>(payload[i + k])} << (8 * k);
    if (bits > mask_of(wire_bits(Elem::TF32))) in.fail("expected 19 bits of tf32, found ", bits);
    for (int k = 0; k < 4; ++k) data.bytes.push_back(static_cast<std::byte>((bits << kTf32Shift) >> (8 * k)));
  }
}

}  // namespace

// ---- types ------------------------------------------------------------------------------------------------------

Type BytecodeSections::type(ByteReader& in, const char* what) { return type_of(in, in.varint(what), 0); }

Type BytecodeSections::value_type(ByteReader& in, const char* what) {
  const Type t = type(in, what);
  if (std::string problem = type_problem(t); !problem.empty()) in.fail(what, ": ", problem);
  return t;
}

/// No type holds itself: what it is made of is less deep than the limit.
Type BytecodeSections::type_of(const ByteReader& in, std::uint64_t index, int depth) {
  const ByteReader& item = types_.at(in, index);
  Type& known = known_types_[static_cast<std::size_t>(index)];
  if (known) return known;
  if (depth >= kMaxTypeDepth) in.fail("expected types in at most ", kMaxTypeDepth, " levels, found more");
  const Type made = decode_type(item, depth);
  return known = made;
}

Type BytecodeSections::decode_type(ByteReader item, int depth) {
  const std::uint64_t tag = item.varint("the tag of a type");
  if (const std::optional<Elem> e = find_element_tag(tag)) {
    if (!at_least(info(*e).since)) item.fail("element type ", info(*e).text, " came with 13.", int{info(*e).since});
    return Type::element(*e);
  }
  switch (tag) {
    case kPointer: {
      if (at_least(4)) item.number("the flags of a pointer", 0);
      const Type pointee = type_of(item, item.varint("a pointee"), depth + 1);
      if (pointee.kind() != TypeKind::Element)
        item.fail("expected a pointer to an element type, found ", pointee.str());
      return Type::pointer(pointee);
    }
    case kTile: return tile(item, depth);
    case kTensorView: return tensor_view(item, depth);
    case kPartitionView:
    case kStridedView:
    case kGatherScatterView: return tiled_view(item, tag, depth);
    case kToken: return Type::token();
    case kFunction: return function(item, depth);
    default: item.fail("expected the tag of a type, found ", tag);
  }
}

Type BytecodeSections::tile(ByteReader& item, int depth) {
  const Type element = type_of(item, item.varint("an element type"), depth + 1);
  if (element.kind() != TypeKind::Element && element.kind() != TypeKind::Pointer)
    item.fail("expected a tile of numbers or pointers, found one of ", element.str());
  return Type::tile(element, item.int_list<std::int64_t>("extents", kMaxAxes));
}

Type BytecodeSections::tensor_view(ByteReader& item, int depth) {
  if (at_least(4)) item.number("the flags of a tensor_view", 0);
  const Type element = type_of(item, item.varint("an element type"), depth + 1);
  if (element.kind() != TypeKind::Element) item.fail("expected a tensor_view of numbers, found one of ", element.str());
  const auto shape = item.int_list<std::int64_t>("extents", kMaxAxes);
  return Type::tensor_view(element.elem(), shape, item.int_list<std::int64_t>("strides", kMaxAxes));
}

std::optional<PaddingValue> BytecodeSections::padding(ByteReader& item, bool present) {
  if (!at_least(3)) present = item.number("whether there is a padding value", 1) != 0;
  if (!present) return std::nullopt;
  const std::uint64_t number = item.varint("a padding value");
  const std::optional<PaddingValue> value = find_padding_number(number);
  if (!value) item.fail("expected the number of a padding value, found ", number);
  return value;
}

Type BytecodeSections::tiled_view(ByteReader& item, std::uint64_t tag, int depth) {
  if (tag != kPartitionView && !at_least(3)) item.fail("strided_view and gather_scatter_view came with 13.3");
  const bool padded = at_least(3) && item.number("the flags of a view", 1) != 0;
  const auto extents = item.int_list<std::int32_t>("extents of a tile", kMaxAxes);
  std::vector<std::int32_t> traversal, dim_map;
  if (tag == kStridedView) traversal = item.int_list<std::int32_t>("traversal strides", kMaxAxes);
  const Type tensor = type_of(item, item.varint("a tensor_view"), depth + 1);
  if (tensor.kind() != TypeKind::TensorView) item.fail("expected a view of a tensor_view, found ", tensor.str());
  std::int32_t sparse = 0;
  if (tag == kGatherScatterView)
    sparse = static_cast<std::int32_t>(item.number("a sparse axis", INT32_MAX));
  else
    dim_map = item.int_list<std::int32_t>("entries of a dim_map", kMaxAxes);
  const std::optional<PaddingValue> value = padding(item, padded);
  if (tag == kGatherScatterView) return Type::gather_scatter_view(tensor, extents, sparse, value);
  if (tag == kStridedView) return Type::strided_view(tensor, extents, traversal, dim_map, value);
  return Type::partition_view(tensor, extents, dim_map, value);
}

Type BytecodeSections::function(ByteReader& item, int depth) {
  std::vector<Type> lists[2];
  for (std::vector<Type>& list : lists) {
    const std::size_t n = item.count("types of a function");
    for (std::size_t i = 0; i < n; ++i) list.push_back(type_of(item, item.varint("a type"), depth + 1));
  }
  return Type::function(lists[0], lists[1]);
}

// ---- constants --------------------------------------------------------------------------------------------------

DenseAttr BytecodeSections::constant(ByteReader& in, Type type) {
  ByteReader item = constants_.at(in, in.varint("a constant"));
  const std::uint64_t size = item.varint("the size of a constant");
  const std::string_view payload = item.raw(size, "a constant");
  if (!type.is_tile()) in.fail("expected a constant of a tile type, found ", type.str());
  DenseAttr data{type, {}, false};
  const auto n = static_cast<std::size_t>(type.num_elements());
  charge(in, payload.size());
  const bool pointers = type.is_pointer();
  if (!pointers && type.elem() == Elem::I1) {
    charge(in, payload.size() * 7);
    i1_bytes(in, payload, data);
    return data;
  }
  const bool tf32 = !pointers && type.elem() == Elem::TF32;
  const std::size_t bytes = pointers ? 8 : tf32 ? 3 : info(type.elem()).bytes;
  data.splat = payload.size() == bytes;
  if (!data.splat && payload.size() != bytes * n)
    in.fail("expected ", bytes * n, " bytes of constant data for ", type.str(), ", found ", payload.size());
  if (tf32) {
    tf32_bytes(in, payload, data);
    return data;
  }
  const auto* first = reinterpret_cast<const std::byte*>(payload.data());
  data.bytes.assign(first, first + payload.size());
  const std::uint64_t most = pointers ? UINT8_MAX : mask_of(std::min(8, int{info(type.elem()).bits}));
  for (const std::byte b : data.bytes)
    if (std::to_integer<unsigned>(b) > most)
      in.fail("expected elements of ", info(type.elem()).text, ", found the byte ", std::to_integer<int>(b));
  return data;
}

// ---- self-contained attributes ----------------------------------------------------------------------------------

/// An integer or a floating-point number, with its element type.
Attribute BytecodeSections::number(ByteReader& in, std::uint64_t tag) {
  const Type t = type(in, "the type of a number");
  const bool wants_float = tag == kFloatAttr;
  if (t.kind() != TypeKind::Element || info(t.elem()).is_float != wants_float)
    in.fail("expected the type of ", wants_float ? "a floating-point number" : "an integer", ", found ", t.str());
  const Elem e = t.elem();
  const int bits = wire_bits(e);
  if (!wants_float) {
    const std::uint64_t value = in.number("an integer", mask_of(bits));
    return IntAttr{e, to_signed(e, value)};
  }
  if (bits <= 8) {
    const std::uint8_t value = in.byte("a number");
    if (value > mask_of(bits)) in.fail("expected ", bits, " bits of ", info(e).text, ", found ", int{value});
    return FloatAttr{e, value};
  }
  // Writers differ in whether the highest bit is a sign.
  if (bits == 64) return FloatAttr{e, in.bits64("a number")};
  const std::int64_t value = in.signed_varint("a number");
  const auto most = static_cast<std::int64_t>(mask_of(bits));
  if (value > most || value < -(most / 2) - 1) in.fail("expected ", bits, " bits of ", info(e).text, ", found ", value);
  const std::uint64_t wire = static_cast<std::uint64_t>(value) & mask_of(bits);
  return FloatAttr{e, e == Elem::TF32 ? wire << kTf32Shift : wire};
}

std::pair<std::optional<std::int64_t>, std::optional<std::int64_t>> BytecodeSections::optional_pair(ByteReader& in,
                                                                                                    const char* what) {
  const std::uint8_t flags = in.byte(what);
  if (flags > 3) in.fail("expected flags from 0 to 3 of ", what, ", found ", int{flags});
  std::pair<std::optional<std::int64_t>, std::optional<std::int64_t>> pair;
  if ((flags & 1) != 0) pair.first = in.signed_varint(what);
  if ((flags & 2) != 0) pair.second = in.signed_varint(what);
  return pair;
}

DictAttr BytecodeSections::dictionary(ByteReader& in, int depth) {
  DictAttr dict;
  const std::size_t n = in.count("entries of a dictionary", 2);
  for (std::size_t i = 0; i < n; ++i) {
    std::string key = string(in, "a key");
    dict.entries.emplace_back(std::move(key), tagged(in, depth + 1));
  }
  return dict;
}

ArrayAttr BytecodeSections::array(ByteReader& in, int depth) {
  ArrayAttr array;
  const std::size_t n = in.count("items of an array");
  for (std::size_t i = 0; i < n; ++i) array.items.push_back(tagged(in, depth + 1));
  return array;
}

Attribute BytecodeSections::tagged(ByteReader& in, int depth) {
  if (depth >= kMaxAttributeDepth)
    in.fail("expected attributes in at most ", kMaxAttributeDepth, " levels, found more");
  const std::uint8_t tag = in.byte("the tag of an attribute");
  switch (tag) {
    case kIntegerAttr:
    case kFloatAttr: return number(in, tag);
    case kBoolAttr: return in.number("a truth value", 1) != 0;
    case kTypeAttr: return type(in, "a type");
    case kStringAttr: return string(in, "a string");
    case kArrayAttr: return array(in, depth);
    case kDenseAttr: {
      const Type t = value_type(in, "the type of a constant");
      return constant(in, t);
    }
    case kDivByAttr: {
      DivByAttr by{in.varint("a divisor"), {}, {}};
      std::tie(by.every, by.along) = optional_pair(in, "div_by");
      return by;
    }
    case kSameElementsAttr: return SameElementsAttr{in.int_list<std::int64_t>("numbers of elements")};
    case kDictionaryAttr:
    case kHintsAttr: return dictionary(in, depth);
    case kBoundedAttr: {
      BoundedAttr bounds;
      std::tie(bounds.lower, bounds.upper) = optional_pair(in, "bounds");
      return bounds;
    }
    default: in.fail("expected the tag of an attribute, found ", int{tag});
  }
}

}  // namespace tessera::ir
