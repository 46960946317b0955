// Tile IR types. A Type is a cheap handle to an immutable, process-wide interned description: equality is pointer
// equality, handles never dangle, and interning is thread-safe.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tessera {
enum class ElementType : std::uint8_t;  // tessera/base/element.hpp
}

namespace tessera::ir {

enum class Elem : std::uint8_t {
#define TESSERA_IR_ELEMENT(name, ...) name,
#include "tessera/ir/elements.def"
};

struct ElemInfo {
  const char* text;
  std::uint16_t tag;   ///< bytecode type tag
  std::uint8_t since;  ///< first bytecode version, 13.<since>
  std::uint8_t bits;
  std::uint8_t bytes;  ///< storage of one element
  bool is_float;
  bool arithmetic;  ///< ops other than conversion, mma, load and store accept it
};
const ElemInfo& info(Elem);
/// What a language element is in Tile IR (the column of base/element_types.def); both signs of an integer are one.
Elem elem_of(ElementType);

enum class TypeKind : std::uint8_t {
  Element,
  Pointer,
  Tile,
  TensorView,
  PartitionView,
  StridedView,
  GatherScatterView,
  Token,
  Function
};

/// Numbers as in the bytecode.
enum class PaddingValue : std::uint8_t { Zero = 0, NegZero = 1, NaN = 2, PosInf = 3, NegInf = 4 };
const char* text(PaddingValue);  ///< "zero", "neg_zero", "nan", "pos_inf", "neg_inf"

/// A dynamic entry of a tensor view's shape or strides (INT64_MIN in the bytecode, `?` in text).
inline constexpr std::int64_t kDynamic = INT64_MIN;

struct TypeData;

class Type {
 public:
  constexpr Type() = default;  ///< the null type
  explicit operator bool() const { return data_ != nullptr; }
  bool operator==(const Type&) const = default;

  // Constructors (interned). No checking of Tile IR's rules here: the verifier does that.
  static Type element(Elem);
  static Type pointer(Type pointee);
  static Type tile(Type element_or_pointer, std::span<const std::int64_t> shape);
  static Type tile(Elem, std::initializer_list<std::int64_t> shape = {});
  static Type tensor_view(Elem, std::span<const std::int64_t> shape, std::span<const std::int64_t> strides);
  /// `dim_map` empty means identity.
  static Type partition_view(Type tensor_view, std::span<const std::int32_t> tile,
                             std::span<const std::int32_t> dim_map, std::optional<PaddingValue>);
  static Type strided_view(Type tensor_view, std::span<const std::int32_t> tile,
                           std::span<const std::int32_t> traversal_strides, std::span<const std::int32_t> dim_map,
                           std::optional<PaddingValue>);
  static Type gather_scatter_view(Type tensor_view, std::span<const std::int32_t> tile, std::int32_t sparse_dim,
                                  std::optional<PaddingValue>);
  static Type token();
  static Type function(std::span<const Type> inputs, std::span<const Type> results);

  TypeKind kind() const;
  bool is_tile() const { return data_ && kind() == TypeKind::Tile; }
  bool is_token() const { return data_ && kind() == TypeKind::Token; }
  bool is_view() const;        ///< tensor, partition, strided or gather/scatter view
  bool is_tiled_view() const;  ///< a view that loads and stores go through: partition, strided, gather/scatter

  /// Element of an Element type, of a tile of numbers, of a view's tensor; pointee of a pointer (tile).
  Elem elem() const;
  bool is_pointer() const;                           ///< a Pointer, or a tile of pointers
  bool is_float() const;                             ///< an element or tile of numbers with a floating element
  Type element_type() const;                         ///< tile: its element (an Element or Pointer type)
  Type pointee() const;                              ///< pointer or tile of pointers
  Type tensor() const;                               ///< partition, strided, gather/scatter view: the tensor view
  std::span<const std::int64_t> shape() const;       ///< tile or tensor view
  std::span<const std::int64_t> strides() const;     ///< tensor view
  std::span<const std::int32_t> tile_shape() const;  ///< partition, strided, gather/scatter view
  std::span<const std::int32_t> traversal_strides() const;
  std::span<const std::int32_t> dim_map() const;  ///< always of the tensor's rank; identity if none was given
  std::optional<PaddingValue> padding() const;
  std::int32_t sparse_dim() const;
  std::span<const Type> inputs() const;   ///< function
  std::span<const Type> results() const;  ///< function

  int rank() const {
    return static_cast<int>(is_tile() || kind() == TypeKind::TensorView ? shape().size() : tile_shape().size());
  }
  std::int64_t num_elements() const;  ///< tile: product of the extents; 1 for rank 0
  /// A tile type of the same shape with another element.
  Type with_element(Elem) const;
  Type with_element(Type element_or_pointer) const;
  Type with_shape(std::span<const std::int64_t>) const;
  /// The tile that loading through a view gives.
  Type view_tile() const;

  std::string str() const;  ///< NVIDIA's text form, without dialect prefixes
  const TypeData* data() const { return data_; }

 private:
  explicit constexpr Type(const TypeData* d) : data_(d) {}
  friend struct TypeInterner;
  const TypeData* data_ = nullptr;
};

}  // namespace tessera::ir
