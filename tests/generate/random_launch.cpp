// Launches at and around the boundaries of a program's tiles: extents of 0, 1, a tile less one, a tile, a tile and one,
// multiples, primes; views inside larger storages, with gaps, with axes in another order; numbers at their ends.
#include <algorithm>

#include "generate/generator.hpp"

namespace tessera::generate {
namespace {

/// Near a multiple of a tile.
std::int64_t near(Random& r, int tile) {
  const std::int64_t base = static_cast<std::int64_t>(tile) * r.pick({0, 1, 1, 2, 2, 3});
  const std::int64_t n = base + r.pick({-1, 0, 0, 0, 1, tile / 2});
  return std::clamp<std::int64_t>(n, 0, 160);
}

/// Extents that give `counts` pieces along each axis.
std::vector<std::int64_t> dims_for(Random& r, const Param& p, std::span<const int> counts) {
  std::vector<std::int64_t> dims;
  for (std::size_t a = 0; a < counts.size(); ++a) {
    const std::int64_t e = p.extents[a], full = e * counts[a];
    const std::int64_t least = counts[a] == 0 ? 0 : full - e + 1;
    dims.push_back(r.chance(45) ? full : r.chance(30) ? least : least + r.below(static_cast<int>(full - least) + 1));
  }
  return dims;
}

/// What the launches of a program mostly have in common, so that they share a recording.
struct Style {
  bool swapped = false;
  int step = 1;
};

void strides(Random& r, Layout& t, Style style) {
  const auto rank = t.dims.size();
  if (r.chance(8)) style = {r.chance(50), r.between(1, 3)};
  std::vector<std::size_t> order(rank);  // from the outermost
  for (std::size_t a = 0; a < rank; ++a) order[a] = a;
  if (rank > 1 && style.swapped) std::swap(order[0], order[rank - 1]);
  t.strides.assign(rank, 1);
  std::int64_t step = style.step;
  const bool gaps = r.chance(25);
  for (std::size_t k = rank; k-- > 0;) {
    t.strides[order[k]] = step;
    step *= std::max<std::int64_t>(1, t.dims[order[k]]);
    if (gaps) step += r.pick({1, 2, 4, 8, 16});
  }
  t.before = r.chance(40) ? r.pick({1, 2, 3, 4, 8, 16, 33}) : 0;
  t.after = r.chance(40) ? r.between(1, 70) : 0;
  t.fill = r.next() >> 16;
}

std::int64_t number(Random& r, ElementType e) {
  if (e == ElementType::boolean) return r.below(2);
  if (is_float(e)) return r.between(-16, 16);
  if (r.chance(80)) return is_signed(e) ? r.between(-3, 12) : r.between(0, 12);
  const int bits = tessera::info(e).bits;
  const auto most =
      static_cast<std::int64_t>(~std::uint64_t{0} >> (is_signed(e) || bits == 64 ? 65 - bits : 64 - bits));
  return r.pick({most, most - r.below(9), is_signed(e) ? -most - 1 : std::int64_t{0}, most / 2 + 1});
}

class Launcher {
 public:
  Launcher(const Program& p, Random& r) : p_(p), r_(r) {
    for (std::size_t i = 0; i < p.params.size(); ++i) styles_.push_back({r.chance(20), r.chance(6) ? 2 : 1});
    wide_grid_ = r.chance(5);
  }

  Launch make() {
    Launch launch;
    counts_.clear();
    like_.clear();
    for (const Param& param : p_.params) {
      if (param.has_pieces()) pieces(param);
      if (param.has_pieces()) break;
    }
    std::vector<std::vector<std::int64_t>> dims(p_.params.size());
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (p_.params[i].is_tensor()) dims[i] = extents(p_.params[i]);
    }
    agree(dims);
    for (const Param& param : p_.params) {
      const auto number_of = static_cast<std::size_t>(&param - p_.params.data());
      if (!param.is_tensor()) {
        launch.scalars.push_back(number(r_, param.elem));
        continue;
      }
      Layout t;
      t.dims = dims[number_of];
      strides(r_, t, styles_[number_of]);
      launch.tensors.push_back(std::move(t));
    }
    launch.blocks = r_.pick({1, 1, 2, 3, 3, 5, 0});
    launch.wide_grid = wide_grid_;
    if (launch.blocks == 0 && r_.chance(70)) launch.blocks = 2;
    return launch;
  }

 private:
  /// What load_like takes is mostly as long as what it follows; else the launch is rejected.
  void agree(std::vector<std::vector<std::int64_t>>& dims) {
    each_node(const_cast<Program&>(p_).body, [&](Node& n) {
      if (n.kind != Kind::LoadLike || n.n[3] == 1 || n.n[0] >= kFirstView || r_.chance(2)) return;
      const Param& x = p_.params[static_cast<std::size_t>(n.n[0])];
      for (std::size_t a = 0; a < x.extents.size(); ++a) {
        std::int64_t& d = dims[static_cast<std::size_t>(n.n[0])][a];
        const std::int64_t of = dims[static_cast<std::size_t>(param_of(n.n[1]))][static_cast<std::size_t>(n.n[4 + a])];
        if (x.extents[a] == -1 && d != 1) d = r_.chance(8) ? 1 : of;
      }
    });
  }
  /// How many pieces along each axis of the first parameter that has some.
  void pieces(const Param& first) {
    int most = 8;
    for (int a = 0; a < first.rank(); ++a) {
      const int n = r_.chance(3) ? 0 : r_.between(1, std::min(most, 4));
      counts_.push_back(n);
      most = std::max(1, most / std::max(1, n));
    }
  }
  int total() const {
    int n = 1;
    for (const int c : counts_) n *= c;
    return n;
  }
  std::vector<std::int64_t> extents(const Param& param) {
    if (param.kind == ParamKind::Mut) {
      std::vector<int> counts = counts_;
      if (static_cast<int>(counts.size()) != param.rank()) {
        counts.assign(param.extents.size(), 1);
        counts[static_cast<std::size_t>(r_.below(param.rank()))] = total();
      }
      if (r_.chance(1)) counts[0] += 1;  // not equally many: rejected
      auto dims = dims_for(r_, param, counts);
      if (like_.empty()) like_ = dims;
      return dims;
    }
    std::vector<std::int64_t> dims;
    const bool like = like_.size() == param.extents.size() && r_.chance(60);
    for (std::size_t a = 0; a < param.extents.size(); ++a) {
      const int e = param.extents[a];
      if (!param.has_pieces() && e != -1) {
        dims.push_back(e);
      } else if (like) {
        dims.push_back(r_.chance(8) ? 1 : like_[a]);
      } else {
        dims.push_back(near(r_, param.has_pieces() ? e : r_.pick({1, 2, 4, 8, 16, 32, 7})));
      }
    }
    if (param.has_pieces() && like_.empty()) like_ = dims;
    return dims;
  }

  const Program& p_;
  Random& r_;
  std::vector<Style> styles_;
  bool wide_grid_ = false;
  std::vector<int> counts_;
  std::vector<std::int64_t> like_;
};

}  // namespace

void add_random_launches(Program& p, Random& r, int count) {
  Launcher launcher(p, r);
  for (int i = 0; i < count; ++i) p.launches.push_back(launcher.make());
}

}  // namespace tessera::generate
