// Parameters, grids and helper functions of random programs.
#include <algorithm>

#include "generate/generator.hpp"

namespace tessera::generate {

ElementType Generator::element() {
  using enum ElementType;
  const int k = random_.below(100);
  if (k < 38) return ElementType::i32;
  if (k < 60) return f32;
  return random_.pick({f64, f16, bf16, f8e4m3, f8e5m2, i64, i16, i8, u64, u32, u16, u8, boolean, f32, i64, u32, f16});
}

void Generator::add_param(ParamKind kind, ElementType elem, std::vector<int> extents) {
  Param param;
  param.kind = kind;
  param.elem = elem;
  param.extents = std::move(extents);
  p_.params.push_back(std::move(param));
}

std::vector<int> Generator::piece_extents(int rank, bool parts) {
  std::vector<int> extents;
  int budget = parts ? 16 : random_.chance(4) ? 1024 : random_.chance(20) ? 128 : 32;
  for (int a = 0; a < rank; ++a) {
    int e = 1;
    while (e < budget && random_.chance(rank == 1 ? 80 : 66)) e *= 2;
    budget = std::max(1, budget / e);
    extents.push_back(e);
  }
  if (parts) extents[static_cast<std::size_t>(random_.below(rank))] = random_.pick({3, 5, 6, 7, 10, 12, 20, 24});
  return extents;
}

void Generator::outputs() {
  const int style = random_.below(100);
  const int rank = random_.pick({1, 1, 1, 2, 2, 3});
  if (style < 78) {
    const int count = random_.pick({1, 1, 1, 2, 2, 3});
    const std::vector<int> extents = piece_extents(rank, random_.chance(7));
    for (int i = 0; i < count; ++i) {
      const bool like_first = i > 0 && random_.chance(55);
      const ElementType elem = like_first ? p_.params[0].elem : element();
      const int other = random_.between(1, 3);
      add_param(ParamKind::Mut, elem, random_.chance(75) ? extents : piece_extents(other, random_.chance(7)));
    }
  }
  if (style >= 70 && style < 93) {
    for (int i = random_.pick({1, 1, 2}); i > 0; --i) {
      const ElementType elem = element();
      const int own = random_.between(1, 3);
      add_param(ParamKind::MutTiles, elem, piece_extents(own, random_.chance(10)));
    }
  }
  if (style >= 93 || random_.chance(14)) {
    using enum ElementType;
    std::vector<int> extents;
    for (int a = random_.pick({1, 1, 2}); a > 0; --a)
      extents.push_back(random_.chance(75) ? -1 : random_.between(1, 20));
    add_param(ParamKind::Acc, random_.pick({ElementType::i32, ElementType::i32, i64, u32, u64, f32, f64, f16}),
              extents);
  }
}

void Generator::parameters() {
  outputs();
  const int first_rank = std::max(1, p_.params[0].rank());
  for (int i = random_.pick({1, 1, 2, 2, 3}); i > 0; --i) {
    const int rank = random_.chance(60) ? first_rank : random_.between(1, 3);
    std::vector<int> extents;
    for (int a = 0; a < rank; ++a) {
      const int fixed = random_.chance(70) ? 1 << random_.below(5) : random_.between(1, 20);
      extents.push_back(random_.chance(78) ? -1 : fixed);
    }
    add_param(ParamKind::In, random_.chance(30) ? p_.params[0].elem : element(), extents);
    if (rank >= 2 && random_.chance(25)) {
      View v{static_cast<int>(p_.params.size()) - 1, {}};
      for (int a = 0; a < rank; ++a) v.order.push_back(a);
      std::swap(v.order[static_cast<std::size_t>(random_.below(rank))],
                v.order[static_cast<std::size_t>(random_.below(rank))]);
      p_.views.push_back(v);
    }
  }
  for (int i = random_.pick({0, 1, 1, 2, 3}); i > 0; --i) {
    using enum ElementType;
    add_param(ParamKind::Scalar,
              random_.chance(65) ? ElementType::i32 : random_.pick({f32, i64, u64, u32, i16, u8, f64, boolean}), {});
  }
  for (int i = random_.chance(20) ? random_.between(1, 2) : 0; i > 0; --i) {
    using enum ElementType;
    add_param(ParamKind::Constant, random_.pick({ElementType::i32, ElementType::i32, boolean, i64, u32, u8, f32, f16}),
              {});
  }
  if (random_.chance(25)) {  // any order of parameters
    View* const view = p_.views.empty() ? nullptr : &p_.views[0];
    if (view == nullptr)
      std::rotate(p_.params.begin(), p_.params.begin() + random_.below(static_cast<int>(p_.params.size())),
                  p_.params.end());
  }
  orders_.assign(p_.params.size(), {-1, 0});
}

void Generator::grids() {
  std::vector<std::int64_t> tensors;
  for (std::size_t i = 0; i < p_.params.size(); ++i) {
    if (p_.params[i].kind == ParamKind::In) tensors.push_back(static_cast<std::int64_t>(i));
  }
  for (std::size_t i = 0; i < p_.views.size(); ++i) tensors.push_back(kFirstView + static_cast<std::int64_t>(i));
  for (const std::int64_t tensor : tensors) {
    for (int i = random_.pick({1, 1, 2}); i > 0; --i) {
      Type t = tensor_type(p_, tensor);
      int budget = random_.chance(5) ? 256 : 32;
      for (int a = 0; a < t.rank; ++a) {
        int e = 1;
        while (e < budget && random_.chance(62)) e *= 2;
        budget = std::max(1, budget / e);
        t[a] = e;
      }
      grids_.push_back({tensor, t});
    }
  }
}

/// Tiles by value and by reference, arithmetic, branches: nothing that only a kernel has.
void Generator::add_function() {
  Function f;
  in_function_ = true;
  const Type shape = random_.chance(50) ? Type::scalar(ElementType::i32) : Type::of(element(), {1 << random_.below(4)});
  for (int i = random_.between(1, 3); i > 0; --i) {
    const Type t = random_.chance(50) ? shape : Type::scalar(ElementType::i32);
    const bool reference = i == 1 || random_.chance(40);
    f.params.push_back({new_var(), t, reference});
    vars_.push_back({f.params.back().var, t, true});
  }
  budget_ = 16;
  f.body = body(random_.between(1, 3));
  std::vector<Node> last;
  assign(last);
  for (Node& n : last) f.body.kids.push_back(std::move(n));
  vars_.clear();
  in_function_ = false;
  p_.functions.push_back(std::move(f));
}

}  // namespace tessera::generate
