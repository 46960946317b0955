// Types, pieces and the table of kinds.
#include "generate/program.hpp"

#include <bit>

namespace tessera::generate {

const KindInfo& info(Kind kind) {
  static constexpr KindInfo rows[] = {
#define GENERATE_KIND(Name, word, Class, op, cpp) {word, KindClass::Class, op, cpp},
#include "generate/kinds.def"
  };
  return rows[static_cast<std::size_t>(kind)];
}

Type Type::of(ElementType e, std::initializer_list<int> extents) {
  Type t = scalar(e);
  for (const int n : extents) t[t.rank++] = n;
  return t;
}
int Type::size() const {
  int n = 1;
  for (int a = 0; a < rank; ++a) n *= (*this)[a];
  return n;
}
Type Type::with_extent(int axis, int n) const {
  Type t = *this;
  t[axis] = n;
  return t;
}

bool is_float(ElementType e) { return tessera::info(e).cls == ElementClass::Float; }
bool is_signed(ElementType e) { return tessera::info(e).cls == ElementClass::Signed; }
bool is_integer(ElementType e) { return !is_float(e) && e != ElementType::boolean; }
bool computes(ElementType e) {
  if (is_integer(e)) return true;
  return e == ElementType::f64 || e == ElementType::f32 || e == ElementType::f16 || e == ElementType::bf16;
}

int part_axis(const Param& p) {
  if (!p.has_pieces()) return -1;
  for (int a = 0; a < p.rank(); ++a) {
    if (!std::has_single_bit(static_cast<unsigned>(p.extents[static_cast<std::size_t>(a)]))) return a;
  }
  return -1;
}
std::vector<int> parts_of(int extent) {
  std::vector<int> parts;
  for (int bit = 1 << 30; bit > 0; bit >>= 1) {
    if ((extent & bit) != 0) parts.push_back(bit);
  }
  return parts;
}

bool records(const Node& body) {
  for (const Node& n : body.kids) {
    if (n.kind != Kind::HostIf && n.kind != Kind::HostFor) return true;
  }
  return false;
}

Type piece_type(const Program& p, std::int64_t piece) {
  const Param& param = p.params[static_cast<std::size_t>(param_of(piece))];
  Type t = Type::scalar(param.elem);
  for (const int n : param.extents) t[t.rank++] = n;
  const int axis = part_axis(param);
  if (axis >= 0 && part_of(piece) != kWhole) { t[axis] = parts_of(t[axis])[static_cast<std::size_t>(part_of(piece))]; }
  return t;
}

Type tensor_type(const Program& p, std::int64_t tensor) {
  const View* view = tensor >= kFirstView ? &p.views[static_cast<std::size_t>(tensor - kFirstView)] : nullptr;
  const Param& param = p.params[static_cast<std::size_t>(view ? view->param : tensor)];
  Type t = Type::scalar(param.elem);
  for (int a = 0; a < param.rank(); ++a) {
    const auto source = static_cast<std::size_t>(view ? view->order[static_cast<std::size_t>(a)] : a);
    t[t.rank++] = param.has_pieces() ? -1 : param.extents[source];
  }
  return t;
}

}  // namespace tessera::generate
