// Attention over whole and over packed sequences.
#include "attention.hpp"

#include "tessera/kernels/attention.hpp"
#include "tessera/kernels/attention_varlen.hpp"
#define COMPARE_HAS_LSE __has_include("tessera/kernels/attention_backward.hpp")

namespace compare {
namespace {

kernels::AttentionOptions options_of(const Args& args) {
  kernels::AttentionOptions options;
  options.causal = args.number("causal", 0) != 0;
  options.window = static_cast<int>(args.number("window", 0));
  return options;
}

/// The keys [first, last) that query `row` of `queries` sees of `keys`.
std::pair<Size, Size> seen(const kernels::AttentionOptions& options, Size row, Size queries, Size keys) {
  if (!options.causal) return {0, keys};
  const Size last = std::clamp<Size>(row + keys - queries + 1, 0, keys);
  return {options.window > 0 ? std::max<Size>(0, last - options.window) : 0, last};
}

Ready attention_case(const Args& args) {
  return by_type<bf16, f16>(args, [&]<class T>(std::type_identity<T>) {
    const Size batch = size_of(args, "batch"), heads = size_of(args, "heads"), kv_heads = size_of(args, "kv_heads"),
               queries = size_of(args, "queries"), keys = size_of(args, "keys"), d = size_of(args, "d");
    const auto options = options_of(args);
    const auto q = normal<T>(seed_of(args, 1), batch, heads, queries, d);
    const auto k = normal<T>(seed_of(args, 2), batch, kv_heads, keys, d),
               v = normal<T>(seed_of(args, 3), batch, kv_heads, keys, d);
    const auto line = [=](Size at) -> Line {
      const Size row = at % queries, head = at / queries % heads, b = at / queries / heads;
      const Size kv = head / (heads / kv_heads);
      const auto [first, last] = seen(options, row, queries, keys);
      return attended(
          d, first, last, [=](Size i) { return q(b, head, row, i); },
          [=](Size key, Size i) { return k(b, kv, key, i); }, [=](Size key, Size i) { return v(b, kv, key, i); });
    };
    const double pairs = static_cast<double>(queries) * static_cast<double>(keys) * (options.causal ? 0.5 : 1);
    const Cost cost{bytes_of<T>(2 * batch * heads * queries * d + 2 * batch * kv_heads * keys * d),
                    4.0 * static_cast<double>(batch * heads * d) * pairs};
    return ready(args, cost, outputs(output<T>(line, batch, heads, queries, d).within(8e-3)), inputs(q, k, v),
                 [=](const Stream& on, auto& o, const auto& a, const auto& b, const auto& c) {
                   o = kernels::attention(a, b, c, options).on(on);
                 });
  });
}

#if COMPARE_HAS_LSE
Ready attention_with_lse_case(const Args& args) {
  return by_type<bf16, f16>(args, [&]<class T>(std::type_identity<T>) {
    const Size batch = size_of(args, "batch"), heads = size_of(args, "heads"), kv_heads = size_of(args, "kv_heads"),
               queries = size_of(args, "queries"), keys = size_of(args, "keys"), d = size_of(args, "d");
    const auto options = options_of(args);
    const auto q = normal<T>(seed_of(args, 1), batch, heads, queries, d);
    const auto k = normal<T>(seed_of(args, 2), batch, kv_heads, keys, d),
               v = normal<T>(seed_of(args, 3), batch, kv_heads, keys, d);
    const auto line = [=](Size at) -> Line {
      const Size row = at % queries, head = at / queries % heads, b = at / queries / heads;
      const Size kv = head / (heads / kv_heads);
      const auto [first, last] = seen(options, row, queries, keys);
      return attended(
          d, first, last, [=](Size i) { return q(b, head, row, i); },
          [=](Size key, Size i) { return k(b, kv, key, i); }, [=](Size key, Size i) { return v(b, kv, key, i); });
    };
    const auto sums = [=](Size at) -> Line {
      const Size head = at % heads, b = at / heads, kv = head / (heads / kv_heads);
      // A line has many rows, all of which take the same keys.
      const auto of_head = std::make_shared<std::vector<double>>();
      for (Size j = 0; j < keys; ++j)
        for (Size i = 0; i < d; ++i) of_head->push_back(k(b, kv, j, i));
      return [=](Size row) {
        const auto [first, last] = seen(options, row, queries, keys);
        std::vector<double> query;
        for (Size i = 0; i < d; ++i) query.push_back(q(b, head, row, i));
        double total = 0;
        for (Size j = first; j < last; ++j) {
          double s = 0;
          const auto* key = of_head->data() + j * d;
          for (Size i = 0; i < d; ++i) s += query[static_cast<std::size_t>(i)] * key[i];
          total += std::exp(s / std::sqrt(static_cast<double>(d)));  // of normal numbers: no overflow
        }
        return std::log(total);
      };
    };
    const double pairs = static_cast<double>(queries) * static_cast<double>(keys) * (options.causal ? 0.5 : 1);
    const Cost cost{bytes_of<T>(2 * batch * heads * queries * d + 2 * batch * kv_heads * keys * d),
                    4.0 * static_cast<double>(batch * heads * d) * pairs};
    return ready(args, cost,
                 outputs(output<T>(line, batch, heads, queries, d).within(8e-3),
                         output<f32>(sums, batch, heads, queries).within(1e-3)),
                 inputs(q, k, v),
                 [=](const Stream& on, auto& o, auto& lse, const auto& a, const auto& b, const auto& c) {
                   std::tie(o, lse) = kernels::attention_with_lse(a, b, c, options).on(on);
                 });
  });
}
#else
Ready attention_with_lse_case(const Args&) { throw std::runtime_error("this library gives no log-sum-exp"); }
#endif

Ready varlen_case(const Args& args) {
  return by_type<bf16, f16>(args, [&]<class T>(std::type_identity<T>) {
    const Size heads = size_of(args, "heads"), kv_heads = size_of(args, "kv_heads"), d = size_of(args, "d"),
               length = size_of(args, "length"), sequences = size_of(args, "sequences"), tokens = length * sequences;
    const auto options = options_of(args);
    const auto q = normal<T>(seed_of(args, 1), tokens, heads, d);
    const auto k = normal<T>(seed_of(args, 2), tokens, kv_heads, d),
               v = normal<T>(seed_of(args, 3), tokens, kv_heads, d);
    const auto offsets = generality::steps(seed_of(args, 4) & 0xFFFFFF, length, sequences + 1);
    const auto line = [=](Size at) -> Line {
      const Size head = at % heads, token = at / heads, kv = head / (heads / kv_heads);
      Size begin = 0, end = tokens;  // before the first offset and from the last on there are sequences, too
      for (Size i = 0; i <= sequences; ++i) {
        const auto limit = std::min(static_cast<Size>(offsets(i)), tokens);
        if (limit <= token) begin = std::max(begin, limit);
        if (limit > token) end = std::min(end, limit);
      }
      const auto [first, last] = seen(options, token - begin, end - begin, end - begin);
      return attended(
          d, begin + first, begin + last, [=](Size i) { return q(token, head, i); },
          [=](Size key, Size i) { return k(key, kv, i); }, [=](Size key, Size i) { return v(key, kv, i); });
    };
    const double pairs = static_cast<double>(tokens) * static_cast<double>(length) * (options.causal ? 0.5 : 1);
    const Cost cost{bytes_of<T>(2 * tokens * heads * d + 2 * tokens * kv_heads * d),
                    4.0 * static_cast<double>(heads * d) * pairs};
    return ready(args, cost, outputs(output<T>(line, tokens, heads, d).within(8e-3)), inputs(q, k, v, offsets),
                 [=](const Stream& on, auto& o, const auto& a, const auto& b, const auto& c, const auto& limits) {
                   o = kernels::attention_varlen(a, b, c, limits, options).on(on);
                 });
  });
}

}  // namespace

std::vector<Case> attention_cases() {
  return {{"attention", attention_case},
          {"attention_with_lse", attention_with_lse_case},
          {"attention_varlen", varlen_case}};
}

}  // namespace compare
