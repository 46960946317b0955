// Kernels bound by arithmetic, or, with few rows, by memory.
#include <stdexcept>

#include "library_cases.hpp"
#include "tessera/base/format.hpp"
#include "tessera/kernels/attention.hpp"
#include "tessera/kernels/linear.hpp"
#include "tessera/kernels/matmul.hpp"

namespace tessera {
namespace {

using measure::Args;
using measure::Prepared;

double real(std::int64_t n) { return static_cast<double>(n); }

/// m = n = k unless they are given; layout NN, NT (b is stored transposed).
template <class T>
Prepared gemm_of(const Args& args, const char* math) {
  const std::int64_t n = args.number("n", 1024), m = args.number("m", n), k = args.number("k", n);
  const std::string layout = args.text("layout", "NN");
  if (layout != "NN" && layout != "NT") throw std::runtime_error(concat("layout must be NN or NT, found ", layout));
  const bool turned = layout == "NT";
  Prepared p;
  p.bytes = sizeof(T) * (real(m) * real(k) + real(k) * real(n) + real(m) * real(n));
  p.flops = 2 * real(m) * real(n) * real(k);
  p.math = math;
  p.sets = measure::sets_for(args, p.bytes);
  struct Operands {
    Tensor<T, 2> a, b;
  };
  auto o = std::make_shared<std::vector<Operands>>();
  for (int s = 0; s < p.sets; ++s) {
    o->push_back({random::normal<T>({m, k}, 1).sync(),
                  turned ? random::normal<T>({n, k}, 2).sync() : random::normal<T>({k, n}, 2).sync()});
  }
  p.launch = [o, turned](int s, const Stream& on) {
    const Operands& x = (*o)[static_cast<std::size_t>(s)];
    [[maybe_unused]] const auto c =
        turned ? kernels::matmul(x.a, x.b.template permute<1, 0>()).on(on) : kernels::matmul(x.a, x.b).on(on);
  };
  return p;
}
Prepared gemm_case(const Args& args) {
  const std::string type = args.text("dtype", "f32");
  if (type == "f32") return gemm_of<f32>(args, "f32");
  if (type == "bf16") return gemm_of<bf16>(args, "bf16");
  throw std::runtime_error(concat("dtype must be f32 or bf16, found ", type));
}

/// Few rows times the weights of a layer: bound by reading the weights.
Prepared linear_case(const Args& args) {
  const std::int64_t m = args.number("m", 1), n = args.number("n", 4096), k = args.number("k", 4096);
  Prepared p;
  p.bytes = sizeof(bf16) * (real(m) * real(k) + real(n) * real(k) + real(m) * real(n));
  p.sets = measure::sets_for(args, p.bytes);
  struct Operands {
    Tensor<bf16, 2> x, w;
  };
  auto o = std::make_shared<std::vector<Operands>>();
  for (int s = 0; s < p.sets; ++s) {
    o->push_back({random::normal<bf16>({m, k}, 1).sync(), random::normal<bf16>({n, k}, 2).sync()});
  }
  p.launch = [o](int s, const Stream& on) {
    const Operands& x = (*o)[static_cast<std::size_t>(s)];
    [[maybe_unused]] const auto y = kernels::linear(x.x, x.w).on(on);
  };
  return p;
}

Prepared attention_case(const Args& args) {
  const std::int64_t length = args.number("length", 1024), heads = args.number("heads", 8), d = args.number("d", 128);
  const bool causal = args.number("causal", 0) != 0;
  Prepared p;
  p.bytes = 4.0 * sizeof(bf16) * real(heads) * real(length) * real(d);
  p.flops = 4 * real(heads) * real(length) * real(length) * real(d) / (causal ? 2 : 1);
  p.math = "bf16";
  p.sets = measure::sets_for(args, p.bytes);
  struct Operands {
    Tensor<bf16, 4> q, k, v;
  };
  auto o = std::make_shared<std::vector<Operands>>();
  const auto heads_of = [&](std::uint64_t seed) { return random::normal<bf16>({1, heads, length, d}, seed).sync(); };
  for (int s = 0; s < p.sets; ++s) o->push_back({heads_of(1), heads_of(2), heads_of(3)});
  kernels::AttentionOptions options;
  options.causal = causal;
  p.launch = [o, options](int s, const Stream& on) {
    const Operands& x = (*o)[static_cast<std::size_t>(s)];
    [[maybe_unused]] const auto y = kernels::attention(x.q, x.k, x.v, options).on(on);
  };
  return p;
}

}  // namespace

std::vector<measure::Case> library_product_cases() {
  return {{"gemm", "n=256..16384 dtype=bf16,f32 layout=NN (m and k: as n)", gemm_case},
          {"linear", "n=1024..65536 k=4096 m=1,8 (bf16)", linear_case},
          {"attention", "length=512..16384 heads=8 d=128 causal=0,1 (bf16)", attention_case}};
}

}  // namespace tessera
