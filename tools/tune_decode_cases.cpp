// Decoding attention: the kernel that reads the cache, whole or with the number of KV splits that the library chooses.
// The kernel that combines the splits reads little and has no choices.
#include <cmath>
#include <stdexcept>

#include "tessera/base/format.hpp"
#include "tessera/kernels/decode_attention.hpp"
#include "tessera/kernels/paged_attention.hpp"
#include "tune_cases.hpp"

namespace tessera {
namespace {

using namespace kernels;

constexpr const char* kDecodeHints = "latency=2,3,4,6 warps=4,8 occupancy=1,2";
constexpr int kMaxKeys = 256;  // keys per step of a candidate

/// Queries and lengths of sequences of equal length; the results of the kernel.
struct Decoding {
  std::int64_t batch, length, heads, kv_heads, d;
  Tensor<bf16, 3> q;
  Tensor<i32, 1> lengths;
  DecodeShape shape;
  View<bf16, 4> groups;
  float scale;

  /// `page`: keys of a page; 0: the cache is contiguous.
  Decoding(const measure::Args& args, const TuneOptions& o, std::int64_t page = 0)
      : batch(args.number("batch", 8)),
        length(args.number("length", 8192)),
        heads(args.number("heads", 32)),
        kv_heads(args.number("kv_heads", 8)),
        d(args.number("d", 128)),
        q(tune_input<bf16>(o, Dims<3>(batch, heads, d), 1)),
        lengths(full<i32>(Dims<1>(batch), static_cast<int>(length)).sync()),
        shape(shape_of(args, o, page)),
        groups(reshape(q.view(), shape.result_dims())),
        scale(1.0f / std::sqrt(static_cast<float>(d))) {}

 private:
  /// As decode_attention() or paged_attention() chooses for the target GPU.
  DecodeShape shape_of(const measure::Args& args, const TuneOptions& o, std::int64_t page) const {
    if (kv_heads < 1 || heads % kv_heads != 0 || length < 1)
      throw std::runtime_error(concat("heads must be a multiple of kv_heads, and length at least 1; found heads=",
                                      heads, " kv_heads=", kv_heads, " length=", length));
    const std::int64_t steps = ceil_div(length, page > 0 ? page : std::int64_t{kDecodeKeys});
    const std::int64_t chosen =
        decode_heuristic(batch * kv_heads, steps, tune_target(o), page > 0 ? paged_blocks(page) : 1);
    return decode_shape(q, kv_heads, steps, std::max<std::int64_t>(args.number("parts", chosen), 1),
                        SourceLocation::current());
  }
};

/// Candidates differ in the keys per step.
template <int G, int D>
TuningReport tune_keys(const Decoding& c, TuneOptions o, const View<bf16, 4>& k, const View<bf16, 4>& v) {
  if (c.shape.parts == 1) {
    const auto keys = space("decode", kDecodeHints, candidate<decode_whole<bf16, G, kDecodeKeys, D>>("128 keys"),
                            candidate<decode_whole<bf16, G, 64, D>>("64 keys"),
                            candidate<decode_whole<bf16, G, kMaxKeys, D>>("256 keys"));
    auto out = empty<bf16>(c.shape.result_dims()).sync();
    return tune(keys, o, mut(out), c.groups, k, v, c.lengths, c.scale);
  }
  // Results of splits are f32, but sums of weights that are rounded to bf16, relative to the largest score of the steps
  // so far.
  if (o.tolerance == 0) o.tolerance = detail::default_tolerance<bf16>();
  // Splits consist of whole steps: with other lengths, candidates would have different splits and results.
  const std::int64_t unit = c.shape.parts * kMaxKeys;
  if (c.length % unit != 0)
    throw std::runtime_error(concat("length must be a multiple of ", c.shape.parts, " parts of ", kMaxKeys,
                                    " keys, so that all candidates have the same parts; found ", c.length, ": take ",
                                    ceil_div(c.length, unit) * unit, " or parts=1"));
  const auto keys = space("decode", kDecodeHints, candidate<decode_split<bf16, G, kDecodeKeys, D>>("128 keys"),
                          candidate<decode_split<bf16, G, 64, D>>("64 keys"),
                          candidate<decode_split<bf16, G, kMaxKeys, D>>("256 keys"));
  auto parts = empty<f32>(c.shape.parts_dims()).sync();
  auto sums = empty<f32>(c.shape.sums_dims()).sync();
  return tune(keys, o, mut(parts), mut(sums), c.groups, k, v, c.lengths, c.scale);
}

TuningReport tune_decode(const measure::Args& args, TuneOptions o) {
  const Decoding c(args, o);
  const Dims<4> cache(c.batch, c.kv_heads, c.length, c.d);
  const auto k = tune_input<bf16>(o, cache, 2), v = tune_input<bf16>(o, cache, 3);
  return with_decode_tile(c.shape, [&](auto g, auto d) { return tune_keys<g, d>(c, o, k.view(), v.view()); });
}

/// The page size is given by the cache, so only hints vary; with elements of 8 bits also the order of the products.
template <class C, int G, int D, int Page>
TuningReport tune_pages(const Decoding& c, const TuneOptions& o, const View<C, 4>& k, const View<C, 4>& v,
                        const Tensor<i32, 2>& table, const auto& scales) {
  constexpr int Queries = std::max<int>(G, 512 / Page);  // as in paged_attention()
  constexpr bool orders = has_scales<C> && Page % 16 == 0 && D % 64 == 0;
  const auto tuned = [&](const auto& one, auto&... results) {
    return tune(one, o, mut(results)..., c.groups, k, v, table, c.lengths, c.scale, scales);
  };
  if (c.shape.parts == 1) {
    auto out = empty<bf16>(c.shape.result_dims()).sync();
    if constexpr (orders)
      return tuned(
          space("paged", kDecodeHints, candidate<paged_whole<bf16, Queries, Page, D, C, true>>("whole, ordered"),
                candidate<paged_whole<bf16, Queries, Page, D, C>>("whole")),
          out);
    else
      return tuned(space("paged", kDecodeHints, candidate<paged_whole<bf16, Queries, Page, D, C>>("whole")), out);
  }
  auto parts = empty<f32>(c.shape.parts_dims()).sync();
  auto sums = empty<f32>(c.shape.sums_dims()).sync();
  if constexpr (orders)
    return tuned(space("paged", kDecodeHints, candidate<paged_split<bf16, Queries, Page, D, C, true>>("parts, ordered"),
                       candidate<paged_split<bf16, Queries, Page, D, C>>("parts")),
                 parts, sums);
  else
    return tuned(space("paged", kDecodeHints, candidate<paged_split<bf16, Queries, Page, D, C>>("parts")), parts, sums);
}

template <class C>
TuningReport tune_cache(const Decoding& c, const TuneOptions& o, std::int64_t page, const auto& scales) {
  const std::int64_t each = ceil_div(c.length, page);
  const Dims<4> pages(c.batch * each, c.kv_heads, page, c.d);
  const auto k = tune_input<C>(o, pages, 2), v = tune_input<C>(o, pages, 3);
  // Consecutive pages of a sequence are not consecutive in memory.
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(c.batch * each));
  for (std::int64_t i = 0; i < c.batch * each; ++i)
    numbers[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i % each * c.batch + i / each);
  const auto table = from(numbers, {c.batch, each}).sync();
  return with_extent<64, 128>(c.d, [&](auto d) {
    return with_extent<16, 128>(
        page, [&](auto keys) { return tune_pages<C, 8, d, keys>(c, o, k.view(), v.view(), table, scales); });
  });
}

TuningReport tune_paged(const measure::Args& args, TuneOptions o) {
  const std::int64_t page = args.number("page", 64);
  const Decoding c(args, o, std::clamp<std::int64_t>(page, 1, 128));
  if (page < 16 || page > 128 || (page & (page - 1)) != 0 || c.d > 128 || c.shape.group > 8)
    throw std::runtime_error(
        concat("page must be 16, 32, 64 or 128, d at most 128, heads at most 8 kv_heads; found page=", page, " d=", c.d,
               ", ", c.shape.group, " heads a kv_head"));
  const std::string cache = args.text("cache", "bf16");
  if (cache == "bf16") return tune_cache<bf16>(c, o, page, kNoScales);
  if (cache != "f8e4m3") throw std::runtime_error("cache must be bf16 or f8e4m3, found " + cache);
  return tune_cache<f8e4m3>(c, o, page, full<f32>(Dims<2>(2, c.kv_heads), 1.0f).sync());
}

}  // namespace

std::vector<TuneCase> tune_decode_cases() {
  return {
      {"decode", "batch=8 length=8192 heads=32 kv_heads=8 d=128 parts=(the library's) (bf16)", kDecodeHints,
       tune_decode},
      {"paged",
       "batch=8 length=8192 heads=32 kv_heads=8 d=128 page=64,16,32,128 cache=bf16,f8e4m3 parts=(the library's) (bf16)",
       kDecodeHints, tune_paged}};
}

}  // namespace tessera
