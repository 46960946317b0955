// A benchmark of a user's own kernel, whole: `tessera bench saxpy -- own_bench`.
#include <cstdlib>

#include "tessera/measure/measure.hpp"
#include "tessera/tessera.hpp"

using namespace tessera;

namespace {

template <int B>
void saxpy(Mut<f32, B> y, Scalar<f32> a, In<f32, dyn> x) {
  y.store(a * x.load_like(y) + y.load());
}

measure::Prepared saxpy_case(const measure::Args& args) {
  const std::int64_t n = args.number("n", 1 << 20);
  struct Vectors {
    Tensor<f32, 1> x, y;
  };
  measure::Prepared p;
  p.bytes = 12.0 * static_cast<double>(n);
  p.sets = measure::sets_for(args, p.bytes);
  auto sets = std::make_shared<std::vector<Vectors>>();
  for (int s = 0; s < p.sets; ++s) sets->push_back({ones<f32>({n}).sync(), zeros<f32>({n}).sync()});
  p.launch = [sets](int s, const Stream& on) {
    Vectors& v = (*sets)[static_cast<std::size_t>(s)];
    kernel<saxpy<1024>>(mut(v.y), 0.0f, v.x).on(on);
  };
  p.check = [sets, wrong = args.number("wrong", 0)] {
    measure::Norm norm;
    for (const float v : host((*sets)[0].y).sync()) norm.add(static_cast<double>(v), static_cast<double>(wrong));
    return measure::Accuracy{norm.relative(), 0};
  };
  return p;
}

measure::Prepared dying_case(const measure::Args&) { std::_Exit(7); }

}  // namespace

int main(int argc, char** argv) {
  return measure::run_cases(argc, argv, {{"saxpy", "n=1024..4096 wrong=0", saxpy_case}, {"dying", "n=1", dying_case}});
}
