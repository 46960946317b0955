// Encodings of types, constants, self-contained attributes and debug attributes.
#include "ir/bytecode_tables.hpp"

#include "ir/bytecode_tags.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::ir {

namespace {

std::uint64_t wire_value(Elem e, std::uint64_t bits) { return e == Elem::TF32 ? bits >> kTf32Shift : bits; }

std::string i1_bytes(const DenseAttr& data, bool splat) {
  // The form that NVIDIA's production writers send: 00 or FF for a splat, else packed from the lowest bit on.
  if (splat) return std::string(1, data.bytes.at(0) == std::byte{0} ? '\0' : '\xFF');
  std::string packed((data.bytes.size() + 7) / 8, '\0');
  for (std::size_t i = 0; i < data.bytes.size(); ++i)
    if (data.bytes[i] != std::byte{0}) packed[i / 8] = static_cast<char>(packed[i / 8] | (1 << (i % 8)));
  return packed;
}

std::string tf32_bytes(const DenseAttr& data) {
  ByteWriter out;
  for (std::size_t i = 0; i + 4 <= data.bytes.size(); i += 4) {
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 4; ++k) bits |= std::to_integer<std::uint32_t>(data.bytes[i + k]) << (8 * k);
    out.little_endian(bits >> kTf32Shift, 3);
  }
  return out.take();
}

/// Payload of a constant: the raw buffer of MLIR's DenseElementsAttr.
std::string wire_bytes(const DenseAttr& data) {
  const bool pointers = data.type.is_pointer();
  const Elem e = pointers ? Elem::I64 : data.type.elem();
  const bool splat = data.splat || data.type.num_elements() == 1;
  if (e == Elem::I1) return i1_bytes(data, splat);
  if (e == Elem::TF32) return tf32_bytes(data);
  return {reinterpret_cast<const char*>(data.bytes.data()), data.bytes.size()};
}

/// Encodes one self-contained attribute; one overload per kind.
struct TaggedEncoder {
  BytecodeTables& tables;
  ByteWriter& out;

  void operator()(const UnitAttr&) { throw InternalError("a unit attribute has no self-contained bytecode form"); }
  void operator()(bool v) {
    out.byte(kBoolAttr);
    out.byte(v ? 1 : 0);
  }
  void operator()(const IntAttr& v) {
    out.byte(kIntegerAttr);
    out.varint(tables.type(Type::element(v.type)));
    out.varint(static_cast<std::uint64_t>(v.value) & mask_of(info(v.type).bits));
  }
  void operator()(const FloatAttr& v) {
    out.byte(kFloatAttr);
    out.varint(tables.type(Type::element(v.type)));
    out.ap_int(wire_value(v.type, v.bits), wire_bits(v.type));
  }
  void operator()(const EnumAttr&) { throw InternalError("an enumeration has no self-contained bytecode form"); }
  void operator()(const std::string& v) {
    out.byte(kStringAttr);
    out.varint(tables.string(v));
  }
  void operator()(const Type& v) {
    out.byte(kTypeAttr);
    out.varint(tables.type(v));
  }
  void operator()(const DenseAttr& v) {
    out.byte(kDenseAttr);
    out.varint(tables.type(v.type));
    out.varint(tables.constant(v));
  }
  void operator()(const DivByAttr& v) {
    out.byte(kDivByAttr);
    out.varint(v.divisor);
    optional_pair(v.every, v.along);
  }
  void operator()(const SameElementsAttr& v) {
    out.byte(kSameElementsAttr);
    out.int_list(v.values, 8);
  }
  void operator()(const BoundedAttr& v) {
    out.byte(kBoundedAttr);
    optional_pair(v.lower, v.upper);
  }
  void operator()(const DictAttr& v) {
    out.byte(kDictionaryAttr);
    tables.dictionary(out, v);
  }
  void operator()(const ArrayAttr& v) {
    out.byte(kArrayAttr);
    out.varint(v.items.size());
    for (const Attribute& item : v.items) tables.tagged(out, item);
  }
  void operator()(const I32ArrayAttr&) { throw InternalError("an i32 array has no self-contained bytecode form"); }
  void operator()(const BoolArrayAttr&) { throw InternalError("a bool array has no self-contained bytecode form"); }

 private:
  void optional_pair(const std::optional<std::int64_t>& a, const std::optional<std::int64_t>& b) {
    out.byte(static_cast<std::uint8_t>((a ? 1 : 0) | (b ? 2 : 0)));
    if (a) out.signed_varint(*a);
    if (b) out.signed_varint(*b);
  }
};

}  // namespace

BytecodeTables::BytecodeTables(BytecodeVersion version) : version_(version) {
  // NVIDIA's writer numbers these two first.
  type(Type::element(Elem::I1));
  type(Type::element(Elem::I32));
}

std::uint64_t BytecodeTables::type(Type t) {
  if (auto it = type_ids_.find(t.data()); it != type_ids_.end()) return it->second;
  std::uint64_t id = encode_type(t);
  type_ids_.emplace(t.data(), id);
  return id;
}

/// Parts first, so that they have the lower numbers.
std::uint64_t BytecodeTables::encode_type(Type t) {
  ByteWriter out;
  switch (t.kind()) {
    case TypeKind::Element: out.varint(info(t.elem()).tag); break;
    case TypeKind::Pointer: {
      std::uint64_t pointee = type(t.pointee());
      out.byte(kPointer);
      if (at_least(4)) out.varint(0);  // optional parameters: none set
      out.varint(pointee);
      break;
    }
    case TypeKind::Tile: {
      std::uint64_t element = type(t.element_type());
      out.byte(kTile);
      out.varint(element);
      out.int_list(t.shape(), 8);
      break;
    }
    case TypeKind::TensorView: {
      std::uint64_t element = type(Type::element(t.elem()));
      out.byte(kTensorView);
      if (at_least(4)) out.varint(0);
      out.varint(element);
      out.int_list(t.shape(), 8);
      out.int_list(t.strides(), 8);
      break;
    }
    case TypeKind::PartitionView:
    case TypeKind::StridedView:
    case TypeKind::GatherScatterView: view_type(out, t); break;
    case TypeKind::Token: out.byte(kToken); break;
    case TypeKind::Function: {
      std::vector<std::uint64_t> inputs, results;
      for (Type i : t.inputs()) inputs.push_back(type(i));
      for (Type r : t.results()) results.push_back(type(r));
      out.byte(kFunction);
      out.varint(inputs.size());
      for (std::uint64_t i : inputs) out.varint(i);
      out.varint(results.size());
      for (std::uint64_t r : results) out.varint(r);
      break;
    }
  }
  return types.id(out.bytes());
}

void BytecodeTables::view_type(ByteWriter& out, Type t) {
  std::uint64_t tensor = type(t.tensor());
  const bool padded = t.padding().has_value();
  const TypeKind kind = t.kind();
  out.byte(kind == TypeKind::PartitionView ? kPartitionView
           : kind == TypeKind::StridedView ? kStridedView
                                           : kGatherScatterView);
  if (at_least(3)) out.varint(padded ? 1 : 0);
  out.int_list(t.tile_shape(), 4);
  if (kind == TypeKind::StridedView) out.int_list(t.traversal_strides(), 4);
  out.varint(tensor);
  if (kind == TypeKind::GatherScatterView)
    out.varint(static_cast<std::uint64_t>(t.sparse_dim()));
  else
    out.int_list(t.dim_map(), 4);
  if (!at_least(3)) out.byte(padded ? 1 : 0);
  if (padded) out.byte(static_cast<std::uint8_t>(*t.padding()));
}

std::uint64_t BytecodeTables::constant(const DenseAttr& data) {
  std::string payload = wire_bytes(data);
  ByteWriter out;
  out.varint(payload.size());
  out.raw(payload);
  return constants.id(out.bytes());
}

void BytecodeTables::tagged(ByteWriter& out, const Attribute& attr) {
  std::visit(TaggedEncoder{*this, out}, attr.storage());
}

void BytecodeTables::dictionary(ByteWriter& out, const DictAttr& dict) {
  out.varint(dict.entries.size());
  for (const auto& [key, value] : dict.entries) {
    out.varint(string(key));
    tagged(out, value);
  }
}

void BytecodeTables::tagged_hints(ByteWriter& out, const DictAttr& hints) {
  out.byte(kHintsAttr);
  dictionary(out, hints);
}

std::uint64_t BytecodeTables::file(std::string_view path) {
  std::size_t slash = path.rfind('/');
  std::string_view directory = slash == std::string_view::npos ? std::string_view{} : path.substr(0, slash);
  std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  ByteWriter out;
  out.byte(kFile);
  out.varint(string(name));
  out.varint(string(directory));
  return debug.id(out.bytes());
}

std::uint64_t BytecodeTables::subprogram(const Function& function) {
  std::uint64_t in_file = file(function.loc.file);
  ByteWriter unit;
  unit.byte(kCompileUnit);
  unit.varint(in_file);
  std::uint64_t compile_unit = debug.id(unit.bytes());
  ByteWriter out;
  out.byte(kSubprogram);
  out.varint(in_file);
  out.varint(function.loc.line);
  out.varint(string(function.name));
  out.varint(string(function.name));  // linkage name
  out.varint(compile_unit);
  out.varint(function.loc.line);
  return debug.id(out.bytes());
}

std::uint64_t BytecodeTables::location(const SourceLocation& loc, const Function& function) {
  if (!loc.known() || !function.loc.known()) return 0;
  std::uint64_t scope = subprogram(function);
  if (std::string_view(loc.file) != function.loc.file) {
    // A helper in another file. Debug formats take the file from the scope, so it needs a scope of its own.
    std::uint64_t in_file = file(loc.file);
    ByteWriter block;
    block.byte(kLexicalBlock);
    block.varint(scope);
    block.varint(in_file);
    block.varint(loc.line);
    block.varint(loc.column);
    scope = debug.id(block.bytes());
  }
  ByteWriter out;
  out.byte(kLocation);
  out.varint(scope);
  out.varint(string(loc.file));
  out.varint(loc.line);
  out.varint(loc.column);
  return debug.id(out.bytes());
}

}  // namespace tessera::ir
