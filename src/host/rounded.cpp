// rounded<f32>(): the sums of an Acc<reproducible<f32>, ...> (lang/exact_sums.cpp) as numbers of f32, by a kernel.
#include <array>
#include <limits>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/host/kernel.hpp"
#include "tessera/host/transfer.hpp"
#include "tessera/lang/lang.hpp"

namespace tessera::detail {
namespace {

constexpr int kBins = reproducible<f32>::bins;
constexpr int kWordsAtOnce = 256;
using Words = Tile<i64, kWordsAtOnce>;

/// The digits, 0 to 2^32 - 1, of a number whose bins are any numbers; what they leave over is the last one, which has
/// the sign. Bins are at most 2^63 - 2^31, so that a carry, at most 2^31, fits.
std::vector<Words> digits_of(const std::vector<Words>& bins) {
  std::vector<Words> digits;
  auto carry = zeros<i64, kWordsAtOnce>();
  for (const Words& bin : bins) {
    const auto sum = bin + carry;
    digits.push_back(sum & 0xffffffff);
    carry = sum >> 32;
  }
  digits.push_back(carry);
  return digits;
}

/// The bits of the f32 nearest to a number with these digits, which is not negative.
Tile<i32, kWordsAtOnce> nearest(const std::vector<Words>& digits) {
  // The highest digit that is not 0, the one below it, and in the last bit whether anything is below these: at least 33
  // bits, which is enough to round to 24.
  auto word = zeros<i64, kWordsAtOnce>(), below = zeros<i64, kWordsAtOnce>();
  auto scale = zeros<i32, kWordsAtOnce>();  // the word counts multiples of 2^(scale - 149)
  for (std::size_t k = 0; k < digits.size(); ++k) {
    auto here = digits[k] << 32;
    if (k > 0) here |= digits[k - 1] | where(below != 0, Words(full<i64, kWordsAtOnce>(1)), zeros<i64, kWordsAtOnce>());
    word = where(digits[k] != 0, here, word);
    scale = where(digits[k] != 0, full<i32, kWordsAtOnce>(32 * static_cast<int>(k) - 32), scale);
    if (k > 0) below |= digits[k - 1];
  }
  const auto bits = bitcast<i32>(cast<f32>(bitcast<u64>(word)));
  const auto exponent = (bits >> 23) + scale - 149;
  // A number below 2^-126 is a multiple of 2^-149, and exact.
  const auto normal = where(exponent > 254, full<i32, kWordsAtOnce>(0x7f800000), bits + ((scale - 149) << 23));
  return where(exponent < 1, cast<i32>(digits[0]), normal);
}

void round_sums(Mut<f32, kWordsAtOnce> y, In<i64, kBins, dyn> sums) {
  auto [i] = y.index();
  auto in = sums.tiles(shape<1, kWordsAtOnce>);
  std::vector<Words> bins;
  for (int k = 0; k + 1 < kBins; ++k) bins.push_back(reshape(in.load(k, i), shape<kWordsAtOnce>));
  const Words special = reshape(in.load(kBins - 1, i), shape<kWordsAtOnce>);

  const auto negative = digits_of(bins).back() < 0;
  for (Words& bin : bins) bin = where(negative, -bin, bin);
  const auto magnitude = nearest(digits_of(bins));
  const auto finite = where(negative, magnitude | std::numeric_limits<i32>::min(), magnitude);

  const auto up = (special & 0xffffffff) != 0, down = (special >> 32) != 0;
  const auto infinite = where(up, full<i32, kWordsAtOnce>(0x7f800000), full<i32, kWordsAtOnce>(-0x800000));
  const auto other = where(up && down, full<i32, kWordsAtOnce>(0x7fc00000), infinite);
  y.store(bitcast<f32>(where(up || down, other, finite)));
}

}  // namespace

void check_bins(const ReadOperand& x, SourceLocation where) {
  if (x.dims[0] == kBins) return;
  throw ShapeError(concat("rounded() got a tensor of extents ",
                          extents_text({x.dims, static_cast<std::size_t>(x.rank)}), ": the first axis of sums has ",
                          kBins, " elements.\n  Pass what zeros<reproducible<f32>>({...}) made and an Acc added to."),
                   where);
}

void enqueue_rounding(const Stream& stream, const LayoutRef& from, const LayoutRef& to, SourceLocation where) {
  const std::int64_t count = to.size();
  if (count == 0) return;
  std::array<std::int64_t, kMaxRank> dense{};
  set_contiguous(from.dims.subspan(1), std::span(dense).first(from.dims.size() - 1));
  bool one_line = true;
  for (std::size_t a = 1; a < from.dims.size(); ++a)
    one_line = one_line && (from.dims[a] == 1 || from.strides[a] == dense[a - 1]);

  Layout<2> sums{*from.storage, from.offset, {kBins, count}, {from.strides[0], 1}};
  if (!one_line) {
    const Recipe copy{nullptr, "rounded", ElementType::i64, 0, 0, 0, where};
    std::array<std::int64_t, kMaxRank> strides{};
    const std::span<std::int64_t> rows = std::span(strides).first(from.dims.size());
    set_contiguous(from.dims, rows);
    sums = {make_storage(copy, kBins * count, stream), 0, {kBins, count}, {count, 1}};
    enqueue_convert(stream, from, {&sums.storage, 0, from.dims, rows, ElementType::i64}, "rounded", where);
  }
  auto y = Reach::make<Tensor<f32, 1>>(Layout<1>{*to.storage, to.offset, {count}, {1}});
  kernel<round_sums>(mut(y), Reach::make<View<i64, 2>>(std::move(sums)), where).on(stream, where);
}

}  // namespace tessera::detail
