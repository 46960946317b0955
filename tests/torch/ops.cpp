// Operators of the tests: every kind of parameter and result, derivatives of each form, and misuse.
#include <tessera/kernels/rms_norm.hpp>
#include <tessera/torch.hpp>

using namespace tessera;
using namespace std;  // the names of the block are found all the same

namespace {

template <class T>
void affine(Mut<T, 8, 128> y, In<T, dyn, dyn> x, Scalar<f32> a, Scalar<i32> n, Constant<bool> negate) {
  auto t = cast<f32>(x.load_like(y)) * a + cast<f32>(n);
  if (negate) t = -t;
  y.store(cast<T>(t));
}

template <class T>
void affine_backward(Mut<T, 8, 128> dx, In<T, dyn, dyn> dy, Scalar<f32> a, Constant<bool> negate) {
  auto t = cast<f32>(dy.load_like(dx)) * a;
  if (negate) t = -t;
  dx.store(cast<T>(t));
}

void positive(Mut<bool, 128> y, In<f32, dyn> x) { y.store(x.load_like(y) > 0.0f); }

void sin_cos(Mut<f32, 128> s, Mut<f32, 128> c, In<f32, dyn> x) {
  s.store(sin(x.load_like(s)));
  c.store(cos(x.load_like(c)));
}
void sin_cos_backward(Mut<f32, 128> dx, In<f32, dyn> ds, In<f32, dyn> dc, In<f32, dyn> s, In<f32, dyn> c) {
  dx.store(ds.load_like(dx) * c.load_like(dx) - dc.load_like(dx) * s.load_like(dx));
}

template <class T>
void add_rows(Mut<T, 8, 128> y, In<T, dyn, dyn> x) {
  y.store(y.load() + x.load_like(y));
}

void take(Mut<f32, 128> y, In<f32, dyn> x, In<i64, dyn> index) {
  y.store(x.gather(axis<0>, cast<i32>(index.load_like(y))));
}

void root(Mut<f32, 128> y, In<f32, dyn> x) {
  const auto t = x.load_like(y);
  check(t >= 0.0f, "x must not be negative");
  y.store(sqrt(t));
}

template <class T>
void product(Mut<T, 32, 32> y, In<T, dyn, dyn> a, In<T, dyn, dyn> b) {
  const auto left = a.tiles(shape<32, 32>), right = b.tiles(shape<32, 32>);
  auto [i, j] = y.index();
  auto sum = zeros<f32, 32, 32>();
  for (auto k : range(left.count(1))) sum = mma(left.load(i, k), right.load(k, j), sum);
  y.store(cast<T>(sum));
}

void row_sums(Mut<f32, 8, 1> y, In<f32, dyn, dyn> x) {
  const auto tiles = x.tiles(shape<8, 128>);
  auto [i, j] = y.index();
  auto total = zeros<f32, 8, 1>();
  for (auto k : range(tiles.count(1))) total += sum(tiles.load(i, k), axis<1>);
  y.store(total);
}

void copy_to(Mut<f32, 128> y, In<f32, dyn> x) { y.store(x.load_like(y)); }

}  // namespace

TESSERA_TORCH_LIBRARY(tessera_test, m) {
  m.op<f32, bf16>("affine(x, a, n, negate)", like<0>, []<class T>(View<T, 2> x, float a, int n, bool negate) {
    return kernel<affine<T>>(empty_like(x), x, a, n, negate);
  });
  m.autograd<f32, bf16>("affine", []<class T>(View<T, 2> dy, View<T, 2>, float a, int, bool negate) {
    return kernel<affine_backward<T>>(empty_like(dy), dy, a, negate);
  });
  m.op("positive", like<0>, [](View<f32, 1> x) { return kernel<positive>(tessera::empty<bool>({x.dim(0)}), x); });
  m.op("sin_cos(x)", like<0, 0>, [](View<f32, 1> x) { return kernel<sin_cos>(empty_like(x), empty_like(x), x); });
  m.autograd("sin_cos", saves<result<0>, result<1>>, like<2>,
             [](View<f32, 1> ds, View<f32, 1> dc, View<f32, 1> s, View<f32, 1> c) {
               return kernel<sin_cos_backward>(empty_like(s), ds, dc, s, c);
             });
  m.op<f32, f64, i32>("add_(y, x)", in_place<0>,
                      []<class T>(Lend<T, 2> y, View<T, 2> x) { return kernel<add_rows<T>>(y, x); });
  m.op("take(x, index)", like<1>,
       [](View<f32, 1> x, View<i64, 1> index) { return kernel<take>(tessera::empty<f32>({index.dim(0)}), x, index); });
  m.op<f32, bf16>("product(a, b)", shaped<of<0, 0>, of<1, 1>>, []<class T>(View<T, 2> a, View<T, 2> b) {
    return kernel<product<T>>(tessera::empty<T>({a.dim(0), b.dim(1)}), a, b);
  });
  m.op("row_sums(x)", shaped<of<0, 0>, one>, [](View<f32, 2> x) {
    return kernel<row_sums>(tessera::empty<f32>({x.dim(0), 1}), x);
  });
  // Two operations, the library's kernel among them: what lies between them is PyTorch's memory too.
  m.op<f32, bf16>("norm_affine(x, weight)", like<0>, []<class T>(View<T, 2> x, View<T, 1> weight) {
    return kernel<affine<T>>(empty_like(x), kernels::rms_norm(x, weight, 1e-5f), 2.0f, 1, false);
  });
}

// Another block of the same namespace, with what is wrong.
TESSERA_TORCH_LIBRARY(tessera_test, m) {
  m.op("root(x)", like<0>, [](View<f32, 1> x) { return kernel<root>(empty_like(x), x); });
  m.op("outsider(x)", like<0>, [](View<f32, 1> x) {
    static const Tensor<f32, 1> mine = ones<f32>({128}).sync(Stream::default_of(Device::cpu()));
    return kernel<copy_to>(empty_like(x), mine);
  });
  m.op("waits(x)", like<0>, [](View<f32, 1> x) {
    const Tensor<f32, 1> inner = kernel<copy_to>(empty_like(x), x).sync();
    return kernel<copy_to>(empty_like(x), inner);
  });
}
