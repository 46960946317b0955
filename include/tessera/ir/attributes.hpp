// Attributes of operations. Names are the ODS names of NVIDIA's op definitions (Ops.td), declared once in
// attributes.def.
#pragma once
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/ir/types.hpp"

namespace tessera::ir {

enum class AttrName : std::uint8_t {
#define TESSERA_IR_ATTRIBUTE(name) name,
#include "tessera/ir/attributes.def"
};
const char* text(AttrName);

// Enumerations; numbers as in the bytecode.
enum class Rounding : std::uint8_t {
  NearestEven = 0,
  Zero = 1,
  NegativeInf = 2,
  PositiveInf = 3,
  Approx = 4,
  Full = 5,
  NearestIntToZero = 6,
  NearestAway = 7
};
enum class ComparisonPredicate : std::uint8_t {
  Equal = 0,
  NotEqual = 1,
  Less = 2,
  LessEqual = 3,
  Greater = 4,
  GreaterEqual = 5
};
enum class ComparisonOrdering : std::uint8_t { Unordered = 0, Ordered = 1 };
enum class Signedness : std::uint8_t { Unsigned = 0, Signed = 1 };
enum class IntegerOverflow : std::uint8_t { None = 0, NoSignedWrap = 1, NoUnsignedWrap = 2, NoWrap = 3 };
enum class MemoryOrdering : std::uint8_t { Weak = 0, Relaxed = 1, Acquire = 2, Release = 3, AcqRel = 4 };
enum class MemoryScope : std::uint8_t { TileBlock = 0, Device = 1, System = 2 };
enum class AtomicMode : std::uint8_t {
  And = 0,
  Or = 1,
  Xor = 2,
  Add = 3,
  AddF = 4,
  Max = 5,
  Min = 6,
  UMax = 7,
  UMin = 8,
  Xchg = 9
};

class Attribute;

/// An integer with its element type (reduce identities, hints).
struct IntAttr {
  Elem type;
  std::int64_t value;
  bool operator==(const IntAttr&) const = default;
};
/// A float with its element type; `bits` are the raw bits of that format.
struct FloatAttr {
  Elem type;
  std::uint64_t bits;
  bool operator==(const FloatAttr&) const = default;
};
/// Enumerations are kept as their bytecode number.
struct EnumAttr {
  std::uint8_t value;
  bool operator==(const EnumAttr&) const = default;
};
/// Constant data: the tile type and little-endian elements, one element only for a splat. One i1 element is one byte
/// 0/1 here.
struct DenseAttr {
  Type type;
  std::vector<std::byte> bytes;
  bool splat = false;
  bool operator==(const DenseAttr&) const = default;
};
/// Assume predicates.
struct DivByAttr {
  std::uint64_t divisor;
  std::optional<std::int64_t> every, along;
  bool operator==(const DivByAttr&) const = default;
};
struct SameElementsAttr {
  std::vector<std::int64_t> values;
  bool operator==(const SameElementsAttr&) const = default;
};
struct BoundedAttr {
  std::optional<std::int64_t> lower, upper;
  bool operator==(const BoundedAttr&) const = default;
};
/// A dictionary, in order. Optimization hints are a dictionary of dictionaries.
struct DictAttr {
  std::vector<std::pair<std::string, Attribute>> entries;
  bool operator==(const DictAttr&) const;
};
struct ArrayAttr {
  std::vector<Attribute> items;
  bool operator==(const ArrayAttr&) const;
};
struct I32ArrayAttr {
  std::vector<std::int32_t> values;
  bool operator==(const I32ArrayAttr&) const = default;
};
struct BoolArrayAttr {
  std::vector<bool> values;
  bool operator==(const BoolArrayAttr&) const = default;
};
struct UnitAttr {
  bool operator==(const UnitAttr&) const = default;
};

/// One of the attributes above. Its members are defined in attributes.cpp: compiled in every file that includes this,
/// those of the variant took a tenth of the time of a user's file.
class Attribute {
 public:
  using Storage = std::variant<UnitAttr, bool, IntAttr, FloatAttr, EnumAttr, std::string, Type, DenseAttr, DivByAttr,
                               SameElementsAttr, BoundedAttr, DictAttr, ArrayAttr, I32ArrayAttr, BoolArrayAttr>;
  Attribute();  ///< a UnitAttr
  // Implicit on purpose, from every alternative: NOLINTBEGIN
  Attribute(UnitAttr);
  Attribute(std::same_as<bool> auto value) : Attribute(Bool{value}) {}  // and from nothing that converts to bool
  Attribute(IntAttr);
  Attribute(FloatAttr);
  Attribute(EnumAttr);
  Attribute(std::string);
  Attribute(const char*);
  Attribute(Type);
  Attribute(DenseAttr);
  Attribute(DivByAttr);
  Attribute(SameElementsAttr);
  Attribute(BoundedAttr);
  Attribute(DictAttr);
  Attribute(ArrayAttr);
  Attribute(I32ArrayAttr);
  Attribute(BoolArrayAttr);
  template <class E>
    requires std::is_enum_v<E>
  Attribute(E e) : Attribute(EnumAttr{static_cast<std::uint8_t>(e)}) {}
  // NOLINTEND
  Attribute(const Attribute&);
  Attribute(Attribute&&) noexcept;
  Attribute& operator=(const Attribute&);
  Attribute& operator=(Attribute&&) noexcept;
  ~Attribute();

  template <class T>
  const T* as() const {
    return std::get_if<T>(&value_);
  }
  template <class E>
  E as_enum() const {
    return static_cast<E>(std::get<EnumAttr>(value_).value);
  }
  const Storage& storage() const { return value_; }
  bool operator==(const Attribute&) const;

 private:
  struct Bool {
    bool value;
  };
  explicit Attribute(Bool);
  Storage value_;
};

}  // namespace tessera::ir
