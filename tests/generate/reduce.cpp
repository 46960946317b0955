// The steps that make a program smaller, coarse ones first.
#include "generate/reduce.hpp"

#include <algorithm>

namespace tessera::generate {
namespace {

class Reducer {
 public:
  Reducer(Program p, const std::function<bool(Program&)>& fails, int most)
      : best_(std::move(p)), fails_(fails), left_(most) {
    check(best_);
  }
  Program run() {
    while (left_ > 0) {
      const std::size_t before = steps_;
      launches();
      statements();
      shorter_launches();
      flatten();
      values();
      elements();
      extents();
      unused();
      if (steps_ == before) break;
    }
    return best_;
  }

 private:
  bool attempt(Program next) {
    if (left_ <= 0 || !check(next).empty()) return false;
    --left_;
    if (!fails_(next)) return false;
    best_ = std::move(next);
    ++steps_;
    return true;
  }
  /// All trees of a program: the body and those of functions.
  static std::vector<Node*> roots(Program& p) {
    std::vector<Node*> all{&p.body};
    for (Function& f : p.functions) all.push_back(&f.body);
    return all;
  }
  static std::vector<Node*> nodes(Program& p) {
    std::vector<Node*> all;
    for (Node* root : roots(p)) each_node(*root, [&](Node& n) { all.push_back(&n); });
    return all;
  }
  /// Tries `change(node)` for every node; change returns false where it does not apply.
  template <class F>
  void each_change(F change) {
    for (std::size_t i = 0; i < nodes(best_).size() && left_ > 0; ++i) {
      for (int variant = 0; i < nodes(best_).size(); ++variant) {
        Program next = best_;
        const int answer = change(*nodes(next)[i], variant);  // 0: no more variants, 1: try, 2: skip
        if (answer == 0) break;
        if (answer == 1 && attempt(std::move(next))) variant = -1;
      }
    }
  }

  void launches() {
    for (std::size_t i = 0; best_.launches.size() > 1 && i < best_.launches.size(); ++i) {
      Program one = best_;
      one.launches = {best_.launches[i]};
      if (attempt(std::move(one))) return;
    }
    for (std::size_t i = best_.launches.size(); best_.launches.size() > 1 && i-- > 0;) {
      Program fewer = best_;
      fewer.launches.erase(fewer.launches.begin() + static_cast<std::ptrdiff_t>(i));
      attempt(std::move(fewer));
    }
  }

  /// Removes statements, many at a time first.
  void statements() {
    for (std::size_t i = 0; i < nodes(best_).size(); ++i) {
      if (nodes(best_)[i]->kind != Kind::Body) continue;
      for (std::size_t size = nodes(best_)[i]->kids.size(); size >= 1; size /= 2) {
        for (std::size_t at = nodes(best_)[i]->kids.size(); at > 0;) {
          at = at > size ? at - size : 0;
          Program next = best_;
          auto& kids = nodes(next)[i]->kids;
          const std::size_t end = std::min(at + size, kids.size());
          kids.erase(kids.begin() + static_cast<std::ptrdiff_t>(at), kids.begin() + static_cast<std::ptrdiff_t>(end));
          attempt(std::move(next));
          if (nodes(best_)[i]->kids.empty()) break;
        }
      }
    }
  }

  /// Loops and branches become what is in them.
  void flatten() {
    each_change([](Node& n, int variant) {
      if (n.kind != Kind::Body || variant >= static_cast<int>(n.kids.size())) return 0;
      Node inner = n.kids[static_cast<std::size_t>(variant)];
      std::vector<Node> with;
      if (inner.kind == Kind::If) {
        with = inner.kids[1].kids;
      } else if (inner.kind == Kind::HostIf || inner.kind == Kind::HostFor) {
        with = inner.kids[0].kids;
      } else if (inner.kind == Kind::For) {
        with.push_back(Node{Kind::Let, {inner.n[0]}, {inner.kids[0]}});
        for (Node& kid : inner.kids[3].kids) with.push_back(std::move(kid));
      } else {
        return 2;
      }
      const auto at = n.kids.erase(n.kids.begin() + variant);
      n.kids.insert(at, with.begin(), with.end());
      return 1;
    });
    each_change([](Node& n, int variant) {  // the other arm alone
      const std::size_t arm = n.kind == Kind::If ? 1 : 0;
      if ((arm == 0 && n.kind != Kind::HostIf) || variant > 0 || n.kids[arm + 1].kids.empty()) return 0;
      n.kids[arm] = std::move(n.kids[arm + 1]);
      n.kids[arm + 1] = Node{Kind::Body};
      return 1;
    });
  }

  /// Values become one of their operands, or a number.
  void values() {
    each_change([](Node& n, int variant) {
      const KindClass cls = info(n.kind).cls;
      if (cls == KindClass::Statement || n.kind == Kind::Number) return 0;
      const int operands = static_cast<int>(n.kids.size());
      if (variant < operands) {
        Node kid = n.kids[static_cast<std::size_t>(variant)];
        if (!(kid.type == n.type)) return 2;
        n = std::move(kid);
        return 1;
      }
      if (variant >= operands + 3) return 0;
      const int number = variant - operands;
      if (n.type.elem == ElementType::boolean && number == 2) return 0;
      n = Node{Kind::Number, {is_float(n.type.elem) ? 4 * number : number}, {}, n.type};
      return 1;
    });
    each_change([](Node& n, int variant) {  // smaller numbers
      if (n.kind != Kind::Number || variant > 1 || n.n[0] == 0 || n.n[0] == 1) return 0;
      if (variant == 1 && n.n[0] / 2 == 0) return 0;
      n.n[0] = variant == 0 ? 0 : n.n[0] / 2;
      return 1;
    });
    each_change([](Node& n, int variant) {  // no padding
      const bool load = info(n.kind).cls == KindClass::Load;
      if (!load || variant > 0) return 0;
      const std::size_t at = n.kind == Kind::LoadLike || n.kind == Kind::Gather || n.kind == Kind::PieceGather ? 2 : 1;
      if (n.n.size() <= at || n.n[at] == 0) return 0;
      if (n.n[at] == static_cast<int>(lang::PadKind::Value)) n.kids.pop_back();
      n.n[at] = 0;
      return 1;
    });
  }

  template <class F>
  void try_number(std::int64_t now, std::initializer_list<std::int64_t> smaller, F set) {
    for (const std::int64_t v : smaller) {
      if (v == now || (v > now && now >= 0)) continue;
      Program next = best_;
      set(next, v);
      if (attempt(std::move(next))) return;
    }
  }
  void shorter_launches() {
    for (std::size_t l = 0; l < best_.launches.size(); ++l) {
      for (std::size_t t = 0; t < best_.launches[l].tensors.size(); ++t) tensor(l, t);
      for (std::size_t s = 0; s < best_.launches[l].scalars.size(); ++s) {
        const std::int64_t now = best_.launches[l].scalars[s];
        try_number(now, {0, 1, 2, 4, now / 2}, [&](Program& p, std::int64_t v) { p.launches[l].scalars[s] = v; });
      }
      try_number(best_.launches[l].blocks, {1, 2},
                 [&](Program& p, std::int64_t v) { p.launches[l].blocks = static_cast<int>(v); });
      if (best_.launches[l].wide_grid) {
        Program next = best_;
        next.launches[l].wide_grid = false;
        attempt(std::move(next));
      }
    }
  }
  void tensor(std::size_t l, std::size_t t) {
    const auto layout = [&](Program& p) -> Layout& { return p.launches[l].tensors[t]; };
    Program plain = best_;
    Layout& now = layout(plain);
    now.before = now.after = 0;
    std::int64_t step = 1;
    for (std::size_t a = now.dims.size(); a-- > 0; step *= std::max<std::int64_t>(1, now.dims[a]))
      now.strides[a] = step;
    if (!(layout(best_).strides == now.strides && layout(best_).before == 0 && layout(best_).after == 0))
      attempt(std::move(plain));
    for (std::size_t a = 0; a < layout(best_).dims.size(); ++a) {
      const std::int64_t d = layout(best_).dims[a];
      try_number(d, {1, 2, d / 2, d - d % 8, d - 1}, [&](Program& p, std::int64_t v) { layout(p).dims[a] = v; });
    }
    try_number(static_cast<std::int64_t>(layout(best_).fill), {1},
               [&](Program& p, std::int64_t v) { layout(p).fill = static_cast<std::uint64_t>(v); });
  }

  /// One element type in place of another, everywhere.
  void elements() {
    static constexpr ElementType all[] = {
#define TESSERA_ELEMENT(name, ...) ElementType::name,
#include "tessera/base/element_types.def"
    };
    for (const ElementType from : all) {
      const ElementType to = is_float(from) ? ElementType::f32 : ElementType::i32;
      if (from == to || from == ElementType::boolean) continue;
      Program next = best_;
      bool changed = false;
      const auto change = [&](ElementType& e) {
        changed = changed || e == from;
        if (e == from) e = to;
      };
      for (Param& p : next.params) change(p.elem);
      for (Function& f : next.functions) {
        for (auto& a : f.params) change(a.type.elem);
      }
      for (Node* n : nodes(next)) change(n->given.elem);
      if (changed) attempt(std::move(next));
    }
  }

  /// Every extent of tiles halved along one axis number, with the extents of tensors.
  void extents() {
    for (int from = 2; from <= 1024; from *= 2) {
      Program next = best_;
      bool changed = false;
      const auto change = [&](int& e) {
        changed = changed || e == from;
        if (e == from) e = from / 2;
      };
      for (Param& p : next.params) {
        for (int& e : p.extents) change(e);
      }
      for (Function& f : next.functions) {
        for (auto& a : f.params) {
          for (int k = 0; k < a.type.rank; ++k) change(a.type[k]);
        }
      }
      for (Node* n : nodes(next)) {
        for (int k = 0; k < n->given.rank; ++k) change(n->given[k]);
      }
      if (!changed) continue;
      Program halved = next;
      for (Launch& l : halved.launches) {
        for (Layout& t : l.tensors) {
          for (std::int64_t& d : t.dims) d = (d + 1) / 2;
        }
      }
      if (!attempt(std::move(next))) attempt(std::move(halved));
    }
  }

  /// Parameters, views and functions that are not used.
  void unused() {
    for (std::size_t v = best_.views.size(); v-- > 0;) {
      Program next = best_;
      bool named = false;
      for (Node* n : nodes(next)) {
        const bool tensor = info(n->kind).cls != KindClass::Statement && n->kind != Kind::Number && !n->n.empty();
        if (!tensor || n->n[0] < kFirstView || n->kind == Kind::Var) continue;
        named = named || n->n[0] == kFirstView + static_cast<std::int64_t>(v);
        if (n->n[0] > kFirstView + static_cast<std::int64_t>(v)) --n->n[0];
      }
      if (named) continue;
      next.views.erase(next.views.begin() + static_cast<std::ptrdiff_t>(v));
      attempt(std::move(next));
    }
    for (std::size_t i = best_.params.size(); i-- > 0;) {
      Program next = best_;
      if (remove_param(next, static_cast<int>(i))) attempt(std::move(next));
    }
    if (!best_.functions.empty()) {
      Program next = best_;
      next.functions.clear();
      attempt(std::move(next));
    }
  }
  static bool remove_param(Program& p, int number) {
    for (View& v : p.views) {
      if (v.param == number) return false;
      v.param -= v.param > number ? 1 : 0;
    }
    if (renumber_params(p, number)) return false;
    std::size_t before_tensors = 0, before_scalars = 0;
    for (int i = 0; i < number; ++i)
      ++(p.params[static_cast<std::size_t>(i)].is_tensor() ? before_tensors : before_scalars);
    for (Launch& l : p.launches) {
      if (p.params[static_cast<std::size_t>(number)].is_tensor()) {
        l.tensors.erase(l.tensors.begin() + static_cast<std::ptrdiff_t>(before_tensors));
      } else {
        l.scalars.erase(l.scalars.begin() + static_cast<std::ptrdiff_t>(before_scalars));
      }
    }
    p.params.erase(p.params.begin() + number);
    return true;
  }
  /// Counts the parameters behind this one from one less. True if a statement names it, and it must stay.
  static bool renumber_params(Program& p, int number) {
    bool named = false;
    const auto tensor = [&](std::int64_t& n) {
      named = named || n == number;
      if (n > number && n < kFirstView) --n;
    };
    const auto piece = [&](std::int64_t& n) {
      named = named || param_of(n) == number;
      if (param_of(n) > number) n -= kParts;
    };
    for (Node* n : nodes(p)) {
      switch (n->kind) {
        case Kind::ScalarArg:
        case Kind::ConstantArg:
        case Kind::HostIf:
        case Kind::HostFor:
        case Kind::Dim:
        case Kind::Stride:
        case Kind::Count:
        case Kind::LoadTile:
        case Kind::LoadAt:
        case Kind::Gather:
        case Kind::GatherElements:
        case Kind::Accumulate:
        case Kind::AccumulateTile:
        case Kind::TileLoop: tensor(n->n[0]); break;
        case Kind::LoadLike:
          tensor(n->n[0]);
          piece(n->n[1]);
          break;
        case Kind::PieceIndex:
        case Kind::PieceOrigin:
        case Kind::PieceDim:
        case Kind::PieceCount:
        case Kind::PieceOffsets:
        case Kind::LoadPiece:
        case Kind::LoadSub:
        case Kind::PieceGather:
        case Kind::PieceGatherElements:
        case Kind::Store:
        case Kind::StoreSub:
        case Kind::Scatter:
        case Kind::ScatterElements: piece(n->n[0]); break;
        default: break;
      }
    }
    return named;
  }

  Program best_;
  const std::function<bool(Program&)>& fails_;
  int left_;
  std::size_t steps_ = 0;
};

}  // namespace

Program reduce(const Program& p, const std::function<bool(Program&)>& fails, int most) {
  return Reducer(p, fails, most).run();
}

}  // namespace tessera::generate
