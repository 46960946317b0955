// Attention of one query per sequence, over a cache in one piece and in pages.
#include "attention.hpp"
#include "tessera/kernels/decode_attention.hpp"
#include "tessera/kernels/paged_attention.hpp"

namespace compare {
namespace {

Ready decode_case(const Args& args) {
  return by_type<bf16, f16>(args, [&]<class T>(std::type_identity<T>) {
    const Size batch = size_of(args, "batch"), heads = size_of(args, "heads"), kv_heads = size_of(args, "kv_heads"),
               keys = size_of(args, "keys"), d = size_of(args, "d");
    const auto q = normal<T>(seed_of(args, 1), batch, heads, d);
    const auto k = normal<T>(seed_of(args, 2), batch, kv_heads, keys, d),
               v = normal<T>(seed_of(args, 3), batch, kv_heads, keys, d);
    const auto lengths = whole<i32>(seed_of(args, 4), keys / 2 + 1, keys + 1, batch);
    const auto line = [=](Size at) -> Line {
      const Size head = at % heads, b = at / heads, kv = head / (heads / kv_heads);
      return attended(
          d, 0, static_cast<Size>(lengths(b)), [=](Size i) { return q(b, head, i); },
          [=](Size key, Size i) { return k(b, kv, key, i); }, [=](Size key, Size i) { return v(b, kv, key, i); });
    };
    return ready(args, {bytes_of<T>(2 * batch * kv_heads * keys * d * 3 / 4)},
                 outputs(output<T>(line, batch, heads, d).within(8e-3)), inputs(q, k, v, lengths),
                 [](const Stream& on, auto& o, const auto& a, const auto& b, const auto& c, const auto& used) {
                   o = kernels::decode_attention(a, b, c, used).on(on);
                 });
  });
}

Ready paged_case(const Args& args) {
  const Size batch = size_of(args, "batch"), heads = size_of(args, "heads"), kv_heads = size_of(args, "kv_heads"),
             page = size_of(args, "page"), pages = size_of(args, "pages"), d = size_of(args, "d");
  const Size all = batch * pages;
  const auto q = normal<bf16>(seed_of(args, 1), batch, heads, d);
  const auto k = normal<bf16>(seed_of(args, 2), all, kv_heads, page, d),
             v = normal<bf16>(seed_of(args, 3), all, kv_heads, page, d);
  const auto table = whole<i32>(seed_of(args, 4), 0, all, batch, pages);
  const auto lengths = whole<i32>(seed_of(args, 5), page * pages / 2 + 1, page * pages + 1, batch);
  const auto line = [=](Size at) -> Line {
    const Size head = at % heads, b = at / heads, kv = head / (heads / kv_heads);
    const auto element = [=](const auto& cache) {
      return [=](Size key, Size i) { return cache(static_cast<Size>(table(b, key / page)), kv, key % page, i); };
    };
    return attended(
        d, 0, static_cast<Size>(lengths(b)), [=](Size i) { return q(b, head, i); }, element(k), element(v));
  };
  return ready(args, {bytes_of<bf16>(2 * all * kv_heads * page * d * 3 / 4)},
               outputs(output<bf16>(line, batch, heads, d).within(8e-3)), inputs(q, k, v, table, lengths),
               [](const Stream& on, auto& o, const auto& a, const auto& b, const auto& c, const auto& t,
                  const auto& used) { o = kernels::paged_attention(a, b, c, t, used).on(on); });
}

}  // namespace

std::vector<Case> decode_cases() { return {{"decode_attention", decode_case}, {"paged_attention", paged_case}}; }

}  // namespace compare
