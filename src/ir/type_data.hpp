// What a Type handle points to. Fields that a kind does not have are empty.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tessera/ir/types.hpp"

namespace tessera::ir {

struct TypeData {
  TypeKind kind;
  Elem elem = Elem::I1;  ///< also of what `inner` holds in the end
  Type inner{};          ///< pointee; element of a tile; tensor view of a tiled view
  std::vector<std::int64_t> shape{}, strides{};
  std::vector<std::int32_t> tile{}, traversal{}, dim_map{};
  std::optional<PaddingValue> padding{};
  std::int32_t sparse_dim = 0;
  std::vector<Type> inputs{}, results{};
  bool operator==(const TypeData&) const = default;
};

/// The element of that name or bytecode tag.
std::optional<Elem> find_element(std::string_view text);
std::optional<Elem> find_element_tag(std::uint64_t tag);
/// "partition_view", "strided_view", "gather_scatter_view".
const char* view_name(TypeKind);
std::optional<PaddingValue> find_padding(std::string_view text);
std::optional<PaddingValue> find_padding_number(std::uint64_t number);

}  // namespace tessera::ir
