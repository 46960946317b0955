// Types in the text that is parsed. Each text is read once: later ones are found by their characters.
#include <limits>

#include "ir/characters.hpp"
#include "ir/read_limits.hpp"
#include "ir/text_parts.hpp"
#include "ir/type_data.hpp"
#include "ir/verify_rules.hpp"

namespace tessera::ir {

namespace {

constexpr std::int32_t kMaxExtent = std::numeric_limits<std::int32_t>::max();
constexpr const char* kTypes = "a type (tile<...>, a view or token)";

}  // namespace

/// From the name to the bracket that closes; empty if it is never closed.
std::string_view TextParts::type_text() const {
  const std::string_view text = in_.text();
  const std::size_t start = in_.at();
  std::size_t end = start;
  int depth = 0;
  for (; end < text.size(); ++end) {
    const char c = text[end];
    if (c == '<') ++depth;
    if (c == '>' && --depth <= 0) return text.substr(start, depth == 0 ? end + 1 - start : 0);
    if (depth == 0 && (c == ' ' || c == ',' || c == '\n' || c == ')')) break;
  }
  return depth == 0 ? text.substr(start, end - start) : std::string_view{};
}

Type TextParts::type() {
  in_.skip();
  const std::size_t start = in_.at();
  const std::string_view text = type_text();
  if (const auto known = types_.find(text); known != types_.end()) {
    in_.move_to(start + text.size());
    return known->second;
  }
  const Type made = new_type();
  if (std::string problem = type_problem(made); !problem.empty()) in_.fail_at(start, std::move(problem));
  types_.emplace(in_.text().substr(start, in_.at() - start), made);
  return made;
}

Type TextParts::new_type() {
  const std::size_t start = in_.at();
  in_.take("!");
  const std::string_view name = without_dialect(in_.word());
  if (name == "token") return Type::token();
  if (name == "tile") return tile();
  if (name == "tensor_view") return tensor_view();
  for (const TypeKind kind : {TypeKind::PartitionView, TypeKind::StridedView, TypeKind::GatherScatterView})
    if (name == view_name(kind)) return tiled_view(kind);
  in_.move_to(start);
  in_.fail(kTypes);
}

Elem TextParts::element() {
  const std::optional<Elem> e = find_element(in_.peek_word());
  if (!e) in_.fail("an element type (i32, f32, ...)");
  in_.word();
  return *e;
}

Type TextParts::element_or_pointer() {
  in_.take("!");
  if (without_dialect(in_.peek_word()) != "ptr") return Type::element(element());
  in_.word();
  in_.expect("<");
  const Type pointee = Type::element(element());
  in_.expect(">");
  return Type::pointer(pointee);
}

/// `4x8x`; with `dynamic` also `?x`.
std::vector<std::int64_t> TextParts::dims(bool dynamic) {
  std::vector<std::int64_t> shape;
  for (char next = in_.peek(); is_digit(next) || (dynamic && next == '?'); next = in_.peek()) {
    if (shape.size() == kMaxAxes) in_.fail_at(in_.at(), concat("expected at most ", kMaxAxes, " axes, found more"));
    if (next == '?') {
      in_.move_to(in_.at() + 1);
      shape.push_back(kDynamic);
    } else {
      shape.push_back(in_.integer("an extent", 0, std::numeric_limits<std::int64_t>::max()));
    }
    const std::string_view rest = in_.text().substr(in_.at());
    if (!rest.starts_with('x')) in_.fail("`x` after an extent");
    in_.move_to(in_.at() + 1);
  }
  return shape;
}

Type TextParts::tile() {
  in_.expect("<");
  const std::vector<std::int64_t> shape = dims(false);
  const Type element = element_or_pointer();
  in_.expect(">");
  return Type::tile(element, shape);
}

Type TextParts::tensor_view() {
  in_.expect("<");
  const std::vector<std::int64_t> shape = dims(true);
  const Elem of = element();
  std::vector<std::int64_t> strides;
  if (in_.take(",")) {
    in_.expect("strides=");
    in_.expect("[");
    while (!in_.is_next("]")) {
      if (!strides.empty()) in_.expect(",");
      if (strides.size() == kMaxAxes) in_.fail("at most as many strides as extents");
      strides.push_back(in_.take("?") ? kDynamic
                                      : in_.integer("a stride", 0, std::numeric_limits<std::int64_t>::max()));
    }
    in_.expect("]");
  }
  in_.expect(">");
  return Type::tensor_view(of, shape, strides);
}

template <class Int>
std::vector<Int> TextParts::list(const char* what, std::int64_t least, std::int64_t most, std::string_view open,
                                 std::string_view close, std::string_view separator) {
  std::vector<Int> items;
  in_.expect(open);
  while (!in_.take(close)) {
    if (!items.empty() && separator == "x") {  // no word of its own: 4x8
      if (in_.peek() != 'x') in_.fail(concat("`x` or `", close, "`"));
      in_.move_to(in_.at() + 1);
    } else if (!items.empty()) {
      in_.expect(separator);
    }
    items.push_back(static_cast<Int>(in_.integer(what, least, most)));
  }
  return items;
}
template std::vector<std::int32_t> TextParts::list(const char*, std::int64_t, std::int64_t, std::string_view,
                                                   std::string_view, std::string_view);
template std::vector<std::int64_t> TextParts::list(const char*, std::int64_t, std::int64_t, std::string_view,
                                                   std::string_view, std::string_view);

Type TextParts::tiled_view(TypeKind kind) {
  using Ints = std::vector<std::int32_t>;
  const auto axes = [&](const char* what, std::string_view open, std::string_view close, std::string_view separator) {
    const std::size_t start = in_.at();
    Ints items = list<std::int32_t>(what, 0, kMaxExtent, open, close, separator);
    if (items.size() > kMaxAxes)
      in_.fail_at(start, concat("expected at most ", kMaxAxes, " axes, found ", items.size()));
    return items;
  };
  in_.expect("<tile=");
  const Ints tile = axes("an extent", "(", ")", "x");
  Ints traversal, dim_map;
  if (kind == TypeKind::StridedView) {
    in_.expect(", traversal_strides=");
    traversal = axes("a stride", "[", "]", ",");
  }
  std::optional<PaddingValue> padding;
  in_.expect(",");
  if (in_.take("padding_value =")) {
    padding = find_padding(in_.peek_word());
    if (!padding) in_.fail("a padding value (zero, neg_zero, nan, pos_inf or neg_inf)");
    in_.word();
    in_.expect(",");
  }
  in_.take("!");
  if (without_dialect(in_.peek_word()) != "tensor_view") in_.fail("tensor_view<...>");
  in_.word();
  const Type tensor = tensor_view();
  std::int32_t sparse_dim = 0;
  if (kind == TypeKind::GatherScatterView) {
    in_.expect(", sparse_dim=");
    sparse_dim = static_cast<std::int32_t>(in_.integer("an axis", 0, kMaxExtent));
  } else if (in_.take(", dim_map=")) {
    dim_map = axes("an axis", "[", "]", ",");
  }
  in_.expect(">");
  if (kind == TypeKind::GatherScatterView) return Type::gather_scatter_view(tensor, tile, sparse_dim, padding);
  if (kind == TypeKind::StridedView) return Type::strided_view(tensor, tile, traversal, dim_map, padding);
  return Type::partition_view(tensor, tile, dim_map, padding);
}

}  // namespace tessera::ir
