// Interned types: one immutable TypeData per distinct description, found through a hash table that lives as long as the
// process, and the text of types.
#include "tessera/ir/types.hpp"

#include <mutex>
#include <shared_mutex>
#include <unordered_set>

#include "ir/type_data.hpp"
#include "tessera/base/element.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::ir {

namespace {

constexpr ElemInfo kElements[] = {
#define TESSERA_IR_ELEMENT(name, text, tag, since, bits, bytes, is_float, arithmetic) \
  {text, tag, since, bits, bytes, is_float, arithmetic},
#include "tessera/ir/elements.def"
};
constexpr std::size_t kNumElements = std::size(kElements);

constexpr const char* kPaddingNames[] = {"zero", "neg_zero", "nan", "pos_inf", "neg_inf"};

struct Hash {
  std::size_t operator()(const TypeData* d) const {
    std::size_t h = static_cast<std::size_t>(d->kind) * 31 + static_cast<std::size_t>(d->elem);
    auto mix = [&h](std::uint64_t v) { h = (h ^ v) * 0x9E3779B97F4A7C15ull, h ^= h >> 29; };
    auto mix_all = [&mix](const auto& values) {
      mix(values.size());
      for (auto v : values) mix(static_cast<std::uint64_t>(v));
    };
    mix(reinterpret_cast<std::uintptr_t>(d->inner.data()));
    mix_all(d->shape);
    mix_all(d->strides);
    mix_all(d->tile);
    mix_all(d->traversal);
    mix_all(d->dim_map);
    mix(d->padding ? static_cast<std::uint64_t>(*d->padding) : 99);
    mix(static_cast<std::uint64_t>(d->sparse_dim));
    mix(d->inputs.size());
    for (Type t : d->inputs) mix(reinterpret_cast<std::uintptr_t>(t.data()));
    for (Type t : d->results) mix(reinterpret_cast<std::uintptr_t>(t.data()));
    return h;
  }
};
struct Equal {
  bool operator()(const TypeData* a, const TypeData* b) const { return *a == *b; }
};

[[noreturn]] void wrong_kind(const char* asked, Type type) {
  throw InternalError(concat("requested the ", asked, " of ", type ? type.str() : std::string("a null type")));
}

void append_dims(std::string& out, std::span<const std::int64_t> dims) {
  for (std::int64_t d : dims) {
    out += d == kDynamic ? std::string("?") : std::to_string(d);
    out += 'x';
  }
}

std::string bracketed(std::span<const std::int64_t> values) {
  std::string out = "[";
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i != 0) out += ',';
    out += values[i] == kDynamic ? std::string("?") : std::to_string(values[i]);
  }
  return out + "]";
}

}  // namespace

Elem elem_of(ElementType type) {
  static constexpr Elem kElems[] = {
#define TESSERA_ELEMENT(name, host, ir, bits, cls) Elem::ir,
#include "tessera/base/element_types.def"
  };
  return kElems[static_cast<std::size_t>(type)];
}
const ElemInfo& info(Elem e) { return kElements[static_cast<std::size_t>(e)]; }
const char* text(PaddingValue v) { return kPaddingNames[static_cast<std::size_t>(v)]; }

std::optional<Elem> find_element(std::string_view text) {
  for (std::size_t i = 0; i < kNumElements; ++i)
    if (text == kElements[i].text) return static_cast<Elem>(i);
  return std::nullopt;
}
std::optional<Elem> find_element_tag(std::uint64_t tag) {
  for (std::size_t i = 0; i < kNumElements; ++i)
    if (tag == kElements[i].tag) return static_cast<Elem>(i);
  return std::nullopt;
}
std::optional<PaddingValue> find_padding(std::string_view text) {
  for (std::size_t i = 0; i < std::size(kPaddingNames); ++i)
    if (text == kPaddingNames[i]) return static_cast<PaddingValue>(i);
  return std::nullopt;
}
std::optional<PaddingValue> find_padding_number(std::uint64_t number) {
  if (number >= std::size(kPaddingNames)) return std::nullopt;
  return static_cast<PaddingValue>(number);
}
const char* view_name(TypeKind kind) {
  switch (kind) {
    case TypeKind::PartitionView: return "partition_view";
    case TypeKind::StridedView: return "strided_view";
    case TypeKind::GatherScatterView: return "gather_scatter_view";
    default: throw InternalError("requested the name of a view of another type");
  }
}

/// The process-wide table. Never destroyed: handles held by other statics stay valid during exit.
struct TypeInterner {
  static TypeInterner& get() {
    static auto* interner = new TypeInterner;
    return *interner;
  }

  Type intern(TypeData&& wanted) {
    {
      std::shared_lock lock(mutex_);
      if (auto it = types_.find(&wanted); it != types_.end()) return Type(*it);
    }
    std::unique_lock lock(mutex_);
    if (auto it = types_.find(&wanted); it != types_.end()) return Type(*it);
    return Type(*types_.insert(new TypeData(std::move(wanted))).first);
  }

  Type elements[kNumElements];
  Type token;

 private:
  TypeInterner() {
    for (std::size_t i = 0; i < kNumElements; ++i) {
      TypeData d{TypeKind::Element};
      d.elem = static_cast<Elem>(i);
      elements[i] = intern(std::move(d));
    }
    token = intern(TypeData{TypeKind::Token});
  }
  std::shared_mutex mutex_;
  std::unordered_set<const TypeData*, Hash, Equal> types_;
};

namespace {
template <class T>
std::vector<T> to_vector(std::span<const T> s) {
  return std::vector<T>(s.begin(), s.end());
}

/// The dim_map as given, or the identity of the tile's rank.
std::vector<std::int32_t> full_dim_map(std::span<const std::int32_t> dim_map, std::size_t rank) {
  if (!dim_map.empty()) return to_vector(dim_map);
  std::vector<std::int32_t> identity(rank);
  for (std::size_t i = 0; i < rank; ++i) identity[i] = static_cast<std::int32_t>(i);
  return identity;
}

TypeData view_data(TypeKind kind, Type tensor_view, std::span<const std::int32_t> tile,
                   std::optional<PaddingValue> padding) {
  TypeData d{kind};
  d.inner = tensor_view;
  d.elem = tensor_view.elem();
  d.tile = to_vector(tile);
  d.padding = padding;
  return d;
}
}  // namespace

Type Type::element(Elem e) { return TypeInterner::get().elements[static_cast<std::size_t>(e)]; }
Type Type::token() { return TypeInterner::get().token; }

Type Type::pointer(Type pointee) {
  TypeData d{TypeKind::Pointer};
  d.inner = pointee;
  d.elem = pointee.elem();
  return TypeInterner::get().intern(std::move(d));
}

Type Type::tile(Type element_or_pointer, std::span<const std::int64_t> shape) {
  TypeData d{TypeKind::Tile};
  d.inner = element_or_pointer;
  d.elem = element_or_pointer.elem();
  d.shape = to_vector(shape);
  return TypeInterner::get().intern(std::move(d));
}
Type Type::tile(Elem e, std::initializer_list<std::int64_t> shape) {
  return tile(element(e), std::span(shape.begin(), shape.size()));
}

Type Type::tensor_view(Elem e, std::span<const std::int64_t> shape, std::span<const std::int64_t> strides) {
  TypeData d{TypeKind::TensorView};
  d.elem = e;
  d.shape = to_vector(shape);
  d.strides = to_vector(strides);
  return TypeInterner::get().intern(std::move(d));
}

Type Type::partition_view(Type tensor_view, std::span<const std::int32_t> tile, std::span<const std::int32_t> dim_map,
                          std::optional<PaddingValue> padding) {
  TypeData d = view_data(TypeKind::PartitionView, tensor_view, tile, padding);
  d.dim_map = full_dim_map(dim_map, tile.size());
  return TypeInterner::get().intern(std::move(d));
}

Type Type::strided_view(Type tensor_view, std::span<const std::int32_t> tile,
                        std::span<const std::int32_t> traversal_strides, std::span<const std::int32_t> dim_map,
                        std::optional<PaddingValue> padding) {
  TypeData d = view_data(TypeKind::StridedView, tensor_view, tile, padding);
  d.traversal = to_vector(traversal_strides);
  d.dim_map = full_dim_map(dim_map, tile.size());
  return TypeInterner::get().intern(std::move(d));
}

Type Type::gather_scatter_view(Type tensor_view, std::span<const std::int32_t> tile, std::int32_t sparse_dim,
                               std::optional<PaddingValue> padding) {
  TypeData d = view_data(TypeKind::GatherScatterView, tensor_view, tile, padding);
  d.sparse_dim = sparse_dim;
  d.dim_map = full_dim_map({}, tile.size());
  return TypeInterner::get().intern(std::move(d));
}

Type Type::function(std::span<const Type> inputs, std::span<const Type> results) {
  TypeData d{TypeKind::Function};
  d.inputs = to_vector(inputs);
  d.results = to_vector(results);
  return TypeInterner::get().intern(std::move(d));
}

TypeKind Type::kind() const {
  if (!data_) wrong_kind("kind", *this);
  return data_->kind;
}

bool Type::is_view() const { return data_ && (data_->kind == TypeKind::TensorView || is_tiled_view()); }
bool Type::is_tiled_view() const {
  return data_ && (data_->kind == TypeKind::PartitionView || data_->kind == TypeKind::StridedView ||
                   data_->kind == TypeKind::GatherScatterView);
}

Elem Type::elem() const {
  if (!data_ || data_->kind == TypeKind::Token || data_->kind == TypeKind::Function) wrong_kind("element", *this);
  return data_->elem;
}
bool Type::is_pointer() const {
  if (!data_) return false;
  return data_->kind == TypeKind::Pointer ||
         (data_->kind == TypeKind::Tile && data_->inner.kind() == TypeKind::Pointer);
}
bool Type::is_float() const {
  if (!data_ || is_pointer()) return false;
  return (data_->kind == TypeKind::Element || data_->kind == TypeKind::Tile) && info(data_->elem).is_float;
}
Type Type::element_type() const {
  if (!is_tile()) wrong_kind("element type", *this);
  return data_->inner;
}
Type Type::pointee() const {
  if (!is_pointer()) wrong_kind("pointee", *this);
  return data_->kind == TypeKind::Pointer ? data_->inner : data_->inner.pointee();
}
Type Type::tensor() const {
  if (!is_tiled_view()) wrong_kind("tensor view", *this);
  return data_->inner;
}
std::span<const std::int64_t> Type::shape() const {
  if (!data_ || (data_->kind != TypeKind::Tile && data_->kind != TypeKind::TensorView)) wrong_kind("shape", *this);
  return data_->shape;
}
std::span<const std::int64_t> Type::strides() const {
  if (!data_ || data_->kind != TypeKind::TensorView) wrong_kind("strides", *this);
  return data_->strides;
}
std::span<const std::int32_t> Type::tile_shape() const {
  if (!is_tiled_view()) wrong_kind("tile shape", *this);
  return data_->tile;
}
std::span<const std::int32_t> Type::traversal_strides() const {
  if (!data_ || data_->kind != TypeKind::StridedView) wrong_kind("traversal strides", *this);
  return data_->traversal;
}
std::span<const std::int32_t> Type::dim_map() const {
  if (!is_tiled_view()) wrong_kind("dim_map", *this);
  return data_->dim_map;
}
std::optional<PaddingValue> Type::padding() const {
  if (!is_tiled_view()) wrong_kind("padding value", *this);
  return data_->padding;
}
std::int32_t Type::sparse_dim() const {
  if (!data_ || data_->kind != TypeKind::GatherScatterView) wrong_kind("sparse dimension", *this);
  return data_->sparse_dim;
}
std::span<const Type> Type::inputs() const {
  if (!data_ || data_->kind != TypeKind::Function) wrong_kind("inputs", *this);
  return data_->inputs;
}
std::span<const Type> Type::results() const {
  if (!data_ || data_->kind != TypeKind::Function) wrong_kind("results", *this);
  return data_->results;
}

std::int64_t Type::num_elements() const {
  std::int64_t n = 1;
  for (std::int64_t d : shape()) n *= d;
  return n;
}
Type Type::with_element(Elem e) const { return tile(element(e), shape()); }
Type Type::with_element(Type element_or_pointer) const { return tile(element_or_pointer, shape()); }
Type Type::with_shape(std::span<const std::int64_t> shape) const { return tile(element_type(), shape); }
Type Type::view_tile() const {
  std::span<const std::int32_t> t = tile_shape();
  return tile(element(elem()), std::vector<std::int64_t>(t.begin(), t.end()));
}

namespace {

/// What the three tiled views share after their tile shape: padding, tensor view.
void append_view_tail(std::string& out, const TypeData& d) {
  if (d.padding) out += concat(", padding_value = ", text(*d.padding));
  out += ", " + d.inner.str();
}

void append_dim_map(std::string& out, const TypeData& d) {
  bool identity = true;
  for (std::size_t i = 0; i < d.dim_map.size(); ++i) identity = identity && d.dim_map[i] == static_cast<int>(i);
  if (!identity) out += concat(", dim_map=[", join(d.dim_map), "]");
}

std::string view_text(const TypeData& d) {
  std::string out = concat(view_name(d.kind), "<tile=(", join(d.tile, "x"), ")");
  if (d.kind == TypeKind::StridedView) out += concat(", traversal_strides=[", join(d.traversal, ","), "]");
  append_view_tail(out, d);
  if (d.kind == TypeKind::GatherScatterView)
    out += concat(", sparse_dim=", d.sparse_dim);
  else
    append_dim_map(out, d);
  return out + ">";
}

std::string function_text(const TypeData& d) {
  std::vector<std::string> in, out;
  for (Type t : d.inputs) in.push_back(t.str());
  for (Type t : d.results) out.push_back(t.str());
  std::string results = join(out);
  if (out.size() != 1) results = "(" + results + ")";
  return concat("(", join(in), ") -> ", results);
}

}  // namespace

std::string Type::str() const {
  if (!data_) return "<null type>";
  switch (data_->kind) {
    case TypeKind::Element: return info(data_->elem).text;
    case TypeKind::Pointer: return concat("ptr<", data_->inner.str(), ">");
    case TypeKind::Tile: {
      std::string out = "tile<";
      append_dims(out, data_->shape);
      return out + data_->inner.str() + ">";
    }
    case TypeKind::TensorView: {
      std::string out = "tensor_view<";
      append_dims(out, data_->shape);
      out += info(data_->elem).text;
      if (!data_->strides.empty()) out += ", strides=" + bracketed(data_->strides);
      return out + ">";
    }
    case TypeKind::PartitionView:
    case TypeKind::StridedView:
    case TypeKind::GatherScatterView: return view_text(*data_);
    case TypeKind::Token: return "token";
    case TypeKind::Function: return function_text(*data_);
  }
  return "<unknown type>";
}

}  // namespace tessera::ir
