// The gradients of attention. The output and the log-sum-exp of the forward pass are any numbers here: the gradients
// are functions of them.
#include <cmath>

#include "case.hpp"
#if __has_include("tessera/kernels/attention_backward.hpp")
#include "tessera/kernels/attention_backward.hpp"
#define COMPARE_HAS_ATTENTION_BACKWARD 1
#else
#define COMPARE_HAS_ATTENTION_BACKWARD 0  // the library of an older commit
#endif

namespace compare {
namespace {

#if COMPARE_HAS_ATTENTION_BACKWARD
/// What a gradient is computed from, element by element.
template <class T>
struct Backward {
  Size heads, kv_heads, queries, keys, d;
  kernels::AttentionOptions options;
  Input<T, 4> q, k, v, g, o;
  Input<f32, 3> lse;

  bool sees(Size i, Size j) const {
    const Size at = i + keys - queries;
    return !options.causal || (j <= at && (options.window == 0 || at - j < options.window));
  }
  double scale() const { return 1 / std::sqrt(static_cast<double>(d)); }
  std::vector<double> row(const Input<T, 4>& x, Size b, Size head, Size i) const {
    std::vector<double> v_row;
    for (Size c = 0; c < d; ++c) v_row.push_back(x(b, head, i, c));
    return v_row;
  }
  static double dot(const std::vector<double>& a, const std::vector<double>& b) {
    double total = 0;
    for (std::size_t c = 0; c < a.size(); ++c) total += a[c] * b[c];
    return total;
  }
  static void add(std::vector<double>& to, double factor, const std::vector<double>& x) {
    for (std::size_t c = 0; c < to.size(); ++c) to[c] += factor * x[c];
  }
  static Line line_of(std::vector<double> values) {
    return [values = std::move(values)](Size c) { return values[static_cast<std::size_t>(c)]; };
  }
  Line of_query(Size at) const {
    const Size i = at % queries, head = at / queries % heads, b = at / queries / heads, kv = head / (heads / kv_heads);
    const auto own_q = row(q, b, head, i), own_g = row(g, b, head, i);
    const double delta = dot(own_g, row(o, b, head, i));
    std::vector<double> dq(static_cast<std::size_t>(d), 0.0);
    for (Size j = 0; j < keys; ++j) {
      if (!sees(i, j)) continue;
      const auto key = row(k, b, kv, j);
      const double p = std::exp(dot(own_q, key) * scale() - lse(b, head, i));
      add(dq, p * (dot(own_g, row(v, b, kv, j)) - delta) * scale(), key);
    }
    return line_of(std::move(dq));
  }
  Line of_key(Size at, bool values) const {
    const Size j = at % keys, kv = at / keys % kv_heads, b = at / keys / kv_heads, group = heads / kv_heads;
    const auto key = row(k, b, kv, j), value = row(v, b, kv, j);
    std::vector<double> total(static_cast<std::size_t>(d), 0.0);
    for (Size head = kv * group; head < (kv + 1) * group; ++head)
      for (Size i = 0; i < queries; ++i) {
        if (!sees(i, j)) continue;
        const auto own_q = row(q, b, head, i), own_g = row(g, b, head, i);
        const double p = std::exp(dot(own_q, key) * scale() - lse(b, head, i));
        if (values)
          add(total, p, own_g);
        else
          add(total, p * (dot(own_g, value) - dot(own_g, row(o, b, head, i))) * scale(), own_q);
      }
    return line_of(std::move(total));
  }
};

Ready attention_backward_case(const Args& args) {
  return by_type<bf16, f16>(args, [&]<class T>(std::type_identity<T>) {
    const Size batch = size_of(args, "batch"), heads = size_of(args, "heads"), kv_heads = size_of(args, "kv_heads"),
               queries = size_of(args, "queries"), keys = size_of(args, "keys"), d = size_of(args, "d");
    kernels::AttentionOptions options;
    options.causal = args.number("causal", 0) != 0;
    options.window = static_cast<int>(args.number("window", 0));
    const double usual = std::log(static_cast<double>(keys)) + 0.5;  // of normal numbers
    const Backward<T> b{heads,
                        kv_heads,
                        queries,
                        keys,
                        d,
                        options,
                        normal<T>(seed_of(args, 1), batch, heads, queries, d),
                        normal<T>(seed_of(args, 2), batch, kv_heads, keys, d),
                        normal<T>(seed_of(args, 3), batch, kv_heads, keys, d),
                        normal<T>(seed_of(args, 4), batch, heads, queries, d),
                        normal<T>(seed_of(args, 5), batch, heads, queries, d),
                        uniform<f32>(seed_of(args, 6), usual - 0.5, usual + 0.5, batch, heads, queries)};
    const double pairs = static_cast<double>(queries) * static_cast<double>(keys) * (options.causal ? 0.5 : 1);
    const Cost cost{bytes_of<T>(4 * batch * heads * queries * d + 4 * batch * kv_heads * keys * d),
                    10.0 * static_cast<double>(batch * heads * d) * pairs};
    return ready(
        args, cost,
        compare::outputs(output<T>([=](Size at) { return b.of_query(at); }, batch, heads, queries, d).within(1e-2),
                         output<T>([=](Size at) { return b.of_key(at, false); }, batch, kv_heads, keys, d).within(1e-2),
                         output<T>([=](Size at) { return b.of_key(at, true); }, batch, kv_heads, keys, d).within(1e-2)),
        inputs(b.g, b.q, b.k, b.v, b.o, b.lse),
        [=](const Stream& on, auto& dq, auto& dk, auto& dv, const auto& g, const auto& q, const auto& k, const auto& v,
            const auto& o, const auto& lse) {
          std::tie(dq, dk, dv) = kernels::attention_backward(g, q, k, v, o, lse, options).on(on);
        });
  });
}
#else
Ready attention_backward_case(const Args&) { throw std::runtime_error("this library has no gradients of attention"); }
#endif

}  // namespace

std::vector<Case> attention_backward_cases() { return {{"attention_backward", attention_backward_case}}; }

}  // namespace compare
