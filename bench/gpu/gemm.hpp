// Matrix products of one element type; a source file per type, so that they compile at the same time.
#pragma once
#include "harness.hpp"
#include "kernels.hpp"
#include "tessera/kernels/gemm.hpp"
#include "tessera/kernels/matmul.hpp"

namespace gpu_bench {

using tessera::measure::Action;

Prepared gemm_f16(const Args&);
Prepared gemm_bf16(const Args&);
Prepared gemm_f8(const Args&);

/// Operands of c[m, n] = a b, plus a residual with "residual=1". A letter T means that the operand is stored transposed
/// and seen through a permuted view.
template <class T, class O>
struct GemmOperands {
  static constexpr int kResidualSeed = 4;
  std::int64_t m, n, k;
  bool a_transposed, b_transposed;
  float scale;  // of b
  bool has_residual;
  std::vector<Tensor<T, 2>> a, b;
  std::vector<Tensor<O, 2>> c, residual;

  explicit GemmOperands(const Args& args) {
    m = args.number("m", 128), n = args.number("n", 128), k = args.number("k", 128);
    const std::string layout = args.text("layout", "NN");
    if (layout.size() != 2 || layout.find_first_not_of("NT") != std::string::npos)
      throw std::runtime_error("layout must be NN, NT, TN or TT, found " + layout);
    a_transposed = layout[0] == 'T', b_transposed = layout[1] == 'T';
    scale = args.number("chain", 0) != 0 ? unit_scale(k) : 1;
    has_residual = args.number("residual", 0) != 0;
    const int sets = sets_for(args, bytes());
    for (int s = 0; s < sets; ++s) {
      a.push_back(normal<T>(a_transposed ? Dims<2>({k, m}) : Dims<2>({m, k}), 1));
      b.push_back(normal<T>(b_transposed ? Dims<2>({n, k}) : Dims<2>({k, n}), 2, scale));
      c.push_back(poisoned<O>(Dims<2>({m, n})));
      if (has_residual) residual.push_back(normal<O>(Dims<2>({m, n}), kResidualSeed));
    }
  }
  double bytes() const {
    const double M = static_cast<double>(m), N = static_cast<double>(n), K = static_cast<double>(k);
    return (M * K + K * N) * sizeof(T) + (has_residual ? 2 : 1) * M * N * sizeof(O);
  }
  View<T, 2> left(int s) const { return a_transposed ? a[s].template permute<1, 0>() : a[s].view(); }
  View<T, 2> right(int s) const { return b_transposed ? b[s].template permute<1, 0>() : b[s].view(); }

  /// 64 elements, spread over all tiles and both edges.
  Accuracy check() const {
    Norm norm;
    for (std::int64_t s = 0; s < 64; ++s) {
      const std::int64_t i = s == 63 ? m - 1 : m * s / 63, j = s == 0 ? n - 1 : (s * 7919 + 5) % n;
      double wanted = has_residual ? normal_input<O>(kResidualSeed, i * n + j) : 0;
      for (std::int64_t p = 0; p < k; ++p)
        wanted += normal_input<T>(1, a_transposed ? p * m + i : i * k + p) *
                  normal_input<T>(2, b_transposed ? j * k + p : p * n + j, scale);
      norm.add(values(c[0].template slice<0>(i, i + 1).template slice<1>(j, j + 1))[0], wanted);
    }
    return {norm.relative(), sizeof(T) == 1 ? 2e-2 : 4e-3};  // f8: accumulated with fewer bits
  }
};

/// The library's host functions, which choose the tile ("row=N": a row of the table; "parts=N": partials of split_k).
/// Null if there is no such impl.
template <class T, class O>
Action<Tensor<O, 2>(const View<T, 2>&, const View<T, 2>&, const Stream&)> library_product(const Args& args) {
  const std::string impl = args.text("impl", "library");
  using Operand = View<T, 2>;
  const kernels::Row row{static_cast<int>(args.number("row", -1))};
  const kernels::Fused<kernels::epilogues::Plain> plain;
  if (impl == "library")
    return [row, plain](const Operand& a, const Operand& b, const Stream& on) {
      return kernels::gemm<O>(a, b, plain, row).on(on);
    };
  if constexpr (std::is_same_v<T, bf16>) {
    if (impl == "matmul")
      return [](const Operand& a, const Operand& b, const Stream& on) { return kernels::matmul(a, b).on(on); };
    if (impl == "stream_k")
      return [](const Operand& a, const Operand& b, const Stream& on) { return kernels::gemm_stream_k(a, b).on(on); };
    if (impl == "split_k") {
      const std::int64_t parts = args.number("parts", 0);
      return [row, plain, parts](const Operand& a, const Operand& b, const Stream& on) {
        return kernels::gemm_split_k(a, b, parts, plain, row).on(on);
      };
    }
  }
  return {};
}

/// Products that read each other's result: c's first k columns are the next a. Where c has fewer columns, a launch is
/// two products, there and back: c times b2 of [n, k], stored as b is.
template <class T, class F>
void chain_of(std::shared_ptr<GemmOperands<T, T>> g, F product, Prepared& p) {
  if (g->a_transposed && (g->m != g->n || g->n != g->k))
    throw std::runtime_error("a chain of products with a transposed left operand needs m = n = k");
  struct State {
    std::vector<Tensor<T, 2>> back;
    Tensor<T, 2> last;
    Chain chain{true};
  };
  auto state = std::make_shared<State>();
  for (std::size_t s = 0; g->n < g->k && s < g->b.size(); ++s)
    state->back.push_back(
        normal<T>(g->b_transposed ? Dims<2>({g->k, g->n}) : Dims<2>({g->n, g->k}), 3, unit_scale(g->n)));
  if (!state->back.empty()) p.bytes *= 2, p.flops *= 2;
  p.launch = [g, state, product](int s, const Stream& on) {
    View<T, 2> a = g->left(s);
    if (!state->chain.begins()) {
      const auto& from = state->back.empty() ? g->c[static_cast<std::size_t>(state->chain.from)] : state->last;
      a = g->a_transposed ? from.template permute<1, 0>() : from.template slice<1>(0, g->k);
    }
    g->c[s] = product(a, g->right(s), on);
    state->chain.from = s;
    if (state->back.empty()) return;
    const auto& back = state->back[s];
    state->last = product(g->c[s].view(), g->b_transposed ? back.template permute<1, 0>() : back.view(), on);
  };
}

template <class T, class O, int BM, int BN, int BK>
auto naive_gemm(std::shared_ptr<GemmOperands<T, O>> g, bool blocks) {
  return [g, blocks](int s, const Stream& on) {
    (void)blocks;
    if constexpr (sizeof(T) > 1) {
      if (blocks) {
        kernel<gemm_blocks<T, O, BM, BN, BK>>(mut(g->c[s]), g->left(s), g->right(s)).on(on);
        return;
      }
    }
    kernel<gemm<T, O, BM, BN, BK>>(mut(g->c[s]), g->left(s), g->right(s)).on(on);
  };
}

using Launch = decltype(Prepared::launch);
/// A kernel of the library with a tile that need not be in its table, for sweeps.
struct MoreTiles {
  std::string tile;
  bool blocks = false;     ///< one tile per block; otherwise persistent
  std::int64_t parts = 1;  ///< split-K partials
  bool swapped = false;    ///< operands are swapped
};
/// Null if there is no such tile.
Launch more_tiles(const MoreTiles& how, std::shared_ptr<GemmOperands<bf16, bf16>> g);

/// tile=128x128x64 selects the naive kernel with that tile (with parts=N the library's split-K); otherwise impl selects
/// a function of the library.
template <class T, class O>
Prepared gemm_of(const Args& args) {
  Prepared p;
  auto g = std::make_shared<GemmOperands<T, O>>(args);
  p.sets = static_cast<int>(g->c.size());
  p.bytes = g->bytes();
  p.flops = 2.0 * static_cast<double>(g->m) * static_cast<double>(g->n) * static_cast<double>(g->k);
  p.check = [g] { return g->check(); };
  const std::string tile = args.text("tile", "");
  const bool blocks = args.text("form", "persistent") == "blocks", swapped = args.text("form", "") == "swapped";
  const std::int64_t parts = args.number("parts", 1);
  const auto take = [&]<int BM, int BN, int BK>(std::integer_sequence<int, BM, BN, BK>) {
    if (tile == std::to_string(BM) + "x" + std::to_string(BN) + "x" + std::to_string(BK))
      p.launch = naive_gemm<T, O, BM, BN, BK>(g, blocks);
  };
  take(std::integer_sequence<int, 32, 32, 32>{});  // for tiny sizes on the CPU
  if (parts == 1 && !swapped) {
    take(std::integer_sequence<int, 64, 128, 64>{});
    take(std::integer_sequence<int, 128, 128, 64>{});
    take(std::integer_sequence<int, 256, 128, 64>{});
    take(std::integer_sequence<int, 256, 256, 64>{});
  }
  if constexpr (std::is_same_v<T, bf16>) {
    if (!p.launch && !tile.empty()) p.launch = more_tiles({tile, blocks, parts, swapped}, g);
  }
  if (g->has_residual) {
    if (!tile.empty() || args.text("impl", "library") != "library" || args.number("chain", 0) != 0)
      throw std::runtime_error("residual=1 is for impl=library, and not for a chain");
    const kernels::Row row{static_cast<int>(args.number("row", -1))};
    p.launch = [g, row](int s, const Stream& on) {
      g->c[s] = kernels::gemm<O>(g->left(s), g->right(s), kernels::residual(g->residual[s]), row).on(on);
    };
  }
  if (!p.launch && tile.empty()) {
    if (const auto product = library_product<T, O>(args)) {
      p.launch = [g, product](int s, const Stream& on) { g->c[s] = product(g->left(s), g->right(s), on); };
      if (args.number("chain", 0) != 0) {
        if constexpr (std::is_same_v<T, O>)
          chain_of<T>(g, product, p);
        else
          throw std::runtime_error("a chain needs results of the operands' type");
      }
    }
  }
  if (!p.launch) throw std::runtime_error("there is no kernel for this tile or impl");
  return p;
}

}  // namespace gpu_bench
