// Rules of types, constants and hints (Types.td, AttrDefs.td).
#include "ir/verify_rules.hpp"

namespace tessera::ir {

namespace {

constexpr std::int64_t kMaxTileElements = 16'777'216;
constexpr const char* kArchitectures[] = {"default", "sm_80",  "sm_86",  "sm_87",  "sm_88",  "sm_89", "sm_90",
                                          "sm_100",  "sm_103", "sm_107", "sm_110", "sm_120", "sm_121"};

bool is_power_of_two(std::int64_t v) { return v > 0 && (v & (v - 1)) == 0; }

std::string tile_problem(std::span<const std::int64_t> shape, Type element) {
  std::int64_t elements = 1;
  for (std::int64_t d : shape) {
    if (!is_power_of_two(d)) return concat("expected extents that are powers of two, found ", shape_text(shape));
    if (elements > kMaxTileElements / d)
      return concat("expected at most ", kMaxTileElements, " elements, found ", shape_text(shape));
    elements *= d;
  }
  if (element.kind() == TypeKind::Element && element.elem() == Elem::F4E2M1FN && elements % 2 != 0)
    return "expected an even number of f4E2M1FN elements (two share a byte), found 1";
  return "";
}

std::string tensor_view_problem(Type t) {
  if (t.shape().size() != t.strides().size())
    return concat("expected as many strides as extents, found ", t.strides().size(), " and ", t.shape().size());
  for (std::int64_t d : t.shape())
    if (d <= 0 && d != kDynamic) return concat("expected positive extents, found ", shape_text(t.shape()));
  for (std::int64_t s : t.strides())
    if (s <= 0 && s != kDynamic) return concat("expected positive strides, found ", shape_text(t.strides()));
  if (t.elem() == Elem::I4) return "a tensor_view cannot hold i4";
  return "";
}

std::string dim_map_problem(Type t, std::size_t rank) {
  auto map = t.dim_map();
  if (map.size() != rank) return concat("expected a dim_map of ", rank, " entries, found ", map.size());
  std::vector<bool> used(rank, false);
  for (std::int32_t d : map) {
    if (d < 0 || static_cast<std::size_t>(d) >= rank)
      return concat("expected dim_map entries from 0 to ", rank - 1, ", found ", d);
    if (used[static_cast<std::size_t>(d)]) return concat("dim_map names axis ", d, " twice");
    used[static_cast<std::size_t>(d)] = true;
  }
  return "";
}

std::string traversal_problem(Type t) {
  if (t.traversal_strides().size() != t.tile_shape().size())
    return concat("expected ", t.tile_shape().size(), " traversal strides, found ", t.traversal_strides().size());
  for (std::int32_t s : t.traversal_strides())
    if (s <= 0) return concat("expected positive traversal strides, found ", s);
  return "";
}

std::string tiled_view_problem(Type t) {
  if (std::string inner = type_problem(t.tensor()); !inner.empty()) return inner;
  const std::size_t rank = t.tile_shape().size();
  if (rank == 0) return "expected a tile of at least one axis";
  if (rank != t.tensor().shape().size())
    return concat("expected a tile of the tensor_view's rank ", t.tensor().shape().size(), ", found rank ", rank);
  std::vector<std::int64_t> shape(t.tile_shape().begin(), t.tile_shape().end());
  if (std::string tile = tile_problem(shape, Type::element(t.elem())); !tile.empty()) return tile;
  if (std::string map = dim_map_problem(t, rank); !map.empty()) return map;
  if (t.kind() == TypeKind::StridedView)
    if (std::string strides = traversal_problem(t); !strides.empty()) return strides;
  if (t.kind() == TypeKind::GatherScatterView &&
      (t.sparse_dim() < 0 || static_cast<std::size_t>(t.sparse_dim()) >= rank))
    return concat("expected a sparse_dim from 0 to ", rank - 1, ", found ", t.sparse_dim());
  if (t.padding() && *t.padding() != PaddingValue::Zero && !info(t.elem()).is_float)
    return concat("padding ", text(*t.padding()), " needs floating-point elements, found ", info(t.elem()).text);
  return "";
}

/// One key of a hint dictionary; `arch` says for which GPU.
std::string hint_problem(const std::string& arch, const std::string& key, const Attribute& value) {
  const auto* number = value.as<IntAttr>();
  auto in_range = [&](std::int64_t low, std::int64_t high) {
    return number && number->value >= low && number->value <= high
               ? std::string()
               : concat("expected an integer from ", low, " to ", high, " for ", arch, ".", key, ", found ",
                        number ? std::to_string(number->value) : std::string("no integer"));
  };
  if (key == "allow_tma") return value.as<bool>() ? "" : concat("expected true or false for ", arch, ".", key);
  if (key == "latency") return in_range(1, 10);
  if (key == "occupancy") return in_range(1, 32);
  if (key == "num_worker_warps_per_cta" || key == "num_cta_in_cga") {
    const std::int64_t most = key == "num_cta_in_cga" ? 16 : 32;
    if (std::string p = in_range(1, most); !p.empty()) return p;
    if (!is_power_of_two(number->value))
      return concat("expected a power of two for ", arch, ".", key, ", found ", number->value);
    if (key == "num_cta_in_cga" && arch.starts_with("sm_8") && number->value != 1)
      return concat("expected 1 for ", arch, ".", key, " (no clusters before sm_90), found ", number->value);
    return "";
  }
  return concat("unknown hint ", arch, ".", key);
}

bool hint_belongs(const std::string& key, const Operation* op) {
  const bool of_entry = key == "num_cta_in_cga" || key == "num_worker_warps_per_cta" || key == "occupancy";
  if (!op) return of_entry;
  const bool view = op->op() == Op::LoadViewTko || op->op() == Op::StoreViewTko;
  return key == "latency" || (key == "allow_tma" && view);
}

}  // namespace

std::string type_problem(Type t) {
  if (!t) return "expected a type, found none";
  switch (t.kind()) {
    case TypeKind::Pointer: return t.elem() == Elem::I4 ? "a pointer cannot point to i4" : "";
    case TypeKind::Tile:
      if (t.element_type().kind() != TypeKind::Element)
        if (std::string inner = type_problem(t.element_type()); !inner.empty()) return inner;
      return tile_problem(t.shape(), t.element_type());
    case TypeKind::TensorView: return tensor_view_problem(t);
    case TypeKind::PartitionView:
    case TypeKind::StridedView:
    case TypeKind::GatherScatterView: return tiled_view_problem(t);
    case TypeKind::Element:
    case TypeKind::Function: return concat("a value cannot be of type ", t.str());
    case TypeKind::Token: return "";
  }
  return "";
}

std::string hints_problem(const DictAttr& hints, const Operation* op) {
  for (const auto& [arch, values] : hints.entries) {
    bool known = false;
    for (const char* a : kArchitectures) known = known || arch == a;
    if (!known) return concat("unknown hint architecture ", arch, ": expected default, sm_80, ..., sm_121");
    const auto* dict = values.as<DictAttr>();
    if (!dict) return concat("expected a dictionary of hints for ", arch);
    for (const auto& [key, value] : dict->entries) {
      if (std::string p = hint_problem(arch, key, value); !p.empty()) return p;
      if (!hint_belongs(key, op)) return concat("hint ", key, " does not belong here");
    }
  }
  return "";
}

std::string dense_problem(const DenseAttr& data) {
  if (!data.type.is_tile()) return "expected constant data of a tile type";
  if (std::string p = type_problem(data.type); !p.empty()) return p;
  const std::size_t bytes = data.type.is_pointer() ? 8 : info(data.type.elem()).bytes;
  const std::size_t expected = data.splat ? bytes : bytes * static_cast<std::size_t>(data.type.num_elements());
  if (data.bytes.size() != expected)
    return concat("expected ", expected, " bytes of constant data for ", data.type.str(),
                  data.splat ? " (one element)" : "", ", found ", data.bytes.size());
  return "";
}

}  // namespace tessera::ir
