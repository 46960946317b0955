// The rows of ops.def, parsed once: operand groups, results, attributes, traits.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tessera/ir/attributes.hpp"

namespace tessera::ir {

enum class Op : std::uint8_t {
#define TESSERA_IR_OP(name, ...) name,
#include "tessera/ir/ops.def"
};

namespace traits {
inline constexpr std::uint16_t Pure = 1;       ///< no effect: may be dropped, moved, merged
inline constexpr std::uint16_t SameType = 2;   ///< all operands and results have one type
inline constexpr std::uint16_t SameShape = 4;  ///< all operands and results have one shape
inline constexpr std::uint16_t Read = 8;
inline constexpr std::uint16_t Write = 16;
inline constexpr std::uint16_t Effect = 32;  ///< observable otherwise (print, assert, gdc)
inline constexpr std::uint16_t Terminator = 64;
inline constexpr std::uint16_t Regions = 128;      ///< holds regions (one block each)
inline constexpr std::uint16_t Segmented = 256;    ///< operands are encoded group by group
inline constexpr std::uint16_t ModuleLevel = 512;  ///< lives in a Module, never in a block
// Works element by element, with the meaning of one element in a file of src/ir:
inline constexpr std::uint16_t Integer = 1024;     ///< semantics_integer.cpp
inline constexpr std::uint16_t Exact = 2048;       ///< semantics_float.cpp: a float that is rounded once
inline constexpr std::uint16_t Elementary = 4096;  ///< semantics_float.cpp: computed in double and rounded
inline constexpr std::uint16_t Conversion = 8192;  ///< semantics_convert.cpp: conversions and what moves bits
inline constexpr std::uint16_t Elementwise = Integer | Exact | Elementary | Conversion;
}  // namespace traits

enum class Arity : std::uint8_t { One, Optional, Variadic };

/// What types a group accepts (Ops.td's type constraints). A tile class says what the tile's elements may be: Float f16
/// bf16 f32 f64; Int i1 to i64; AnyFloat, AnyInt with the narrow formats that only convert, multiply or move; Number
/// Int and AnyFloat.
enum class TypeClass : std::uint8_t {
  Any,
  Tile,
  Number,
  AnyNumber,
  Float,
  AnyFloat,
  F32,
  Int,
  AnyInt,
  I1,
  I8,
  I32,
  I64,
  Pointer,
  ScalarI1,
  ScalarI32,
  ScalarInt,
  ScalarPointer,
  Token,
  TensorView,
  View,
  PartitionView,
  StridedView,
  GatherScatterView
};
const char* text(TypeClass);  ///< in words: "tile of f16, bf16, f32 or f64"
bool accepts(TypeClass, Type);

struct GroupInfo {
  std::string_view name;
  TypeClass type_class;
  Arity arity;
  std::uint8_t since;
};

enum class AttrKind : std::uint8_t {
  Unit,
  Bool,
  I32,
  I64,
  String,
  Symbol,
  Dense,
  Dict,
  Tagged,
  TaggedArray,
  I32Array,
  BoolArray,
  Rounding,
  Predicate,
  Ordering,
  Signedness,
  Overflow,
  MemoryOrdering,
  MemoryScope,
  AtomicMode
};

/// Spellings of an enumerated kind in Tile IR's text, at their bytecode numbers; empty for other kinds.
std::span<const char* const> enum_names(AttrKind);
const char* enum_text(AttrKind, std::uint8_t value);
int enum_value(AttrKind, std::string_view text);  ///< -1: no such spelling

struct AttrInfo {
  AttrName name;
  AttrKind kind;
  bool optional;  ///< unit attributes are always optional
  std::uint8_t since;
  std::int16_t implied;  ///< number that an absent attribute stands for and that versions before `since` imply (arrays:
                         ///< of every item); -1: none, the attribute must be present
};

struct OpInfo {
  Op op;
  std::string_view mnemonic;
  std::uint16_t opcode;
  std::uint8_t since;
  std::uint16_t traits;
  std::span<const GroupInfo> operands;
  std::span<const GroupInfo> results;
  std::span<const AttrInfo> attributes;
  bool has(std::uint16_t trait) const { return (traits & trait) != 0; }
  /// Index of an operand group or result by its name; -1 if the op has none.
  int operand_group(std::string_view name) const;
  /// What the table says of an attribute; null if the op has none of that name.
  const AttrInfo* attribute(AttrName) const;
};

const OpInfo& info(Op);
std::span<const OpInfo> all_ops();
const OpInfo* find_op(std::string_view mnemonic);
const OpInfo* find_opcode(std::uint16_t opcode);

}  // namespace tessera::ir
