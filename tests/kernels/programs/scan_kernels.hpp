// Kernels with a scan, made from a description: what is scanned, along which axis, and what stands beside it.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "tessera/base/format.hpp"
#include "tessera/lang/access.hpp"
#include "tessera/lang/emit.hpp"
#include "tessera/lang/trace.hpp"

namespace tessera::test {

/// The function of a scan. `LastNonzero` takes the later of two elements unless that is zero: it does not commute.
/// `None`: the tile is not scanned.
enum class ScanFunction { Sum, Product, Largest, LastNonzero, None };
inline constexpr const char* kScanFunctions[] = {"sum", "product", "largest", "last nonzero", "no scan"};

/// What stands beside the scan. `Alone`: nothing. `Reductions`: sums of the tile along its first and last axis.
/// `Scales`, `Masks`: a product of matrices that it is multiplied with, or whose elements it selects. `Operand`: it is
/// an operand of a product. `Result`: it is over the result of one.
enum class ScanPlace { Alone, Reductions, Scales, Masks, Operand, Result };
inline constexpr const char* kScanPlaces[] = {"alone",           "beside reductions",    "scales a product",
                                              "masks a product", "operand of a product", "of a product"};

struct ScanKernel {
  ElementType element = ElementType::f32;
  std::vector<int> shape;
  int axis = 0;
  bool backward = false;
  ScanFunction function = ScanFunction::Sum;
  ScanPlace place = ScanPlace::Alone;

  std::string text() const {
    std::string extents;
    for (const int n : shape) extents += concat(extents.empty() ? "" : "x", n);
    return concat(kScanFunctions[static_cast<int>(function)], " of ", info(element).name, " ", extents, " along axis ",
                  axis, backward ? ", backward, " : ", ", kScanPlaces[static_cast<int>(place)]);
  }
};

/// Records a kernel as the classes of the language would.
class ScanRecorder {
 public:
  explicit ScanRecorder(const ScanKernel& k) : k_(k) {
    // A column, a row or a line beside a product is stretched over its result.
    shape_ = k.shape;
    if (in_product() && shape_.size() == 1) shape_.push_back(1);
    result_ = shape_;
    if (in_product())
      for (std::size_t a = shape_.size() - 2; a < shape_.size(); ++a)
        if (result_[a] == 1) result_[a] = 64;
    factor_ = k.element == ElementType::f16 || k.element == ElementType::i8 ? k.element : ElementType::bf16;
    sum_ = factor_ == ElementType::i8 ? ElementType::i32 : ElementType::f32;
  }

  /// Tensors y, x, a, b; those after x in kernels with a product.
  std::vector<lang::ParamInfo> params() const {
    std::vector<lang::ParamInfo> all;
    const auto add = [&](lang::ParamKind kind, ElementType e, std::vector<std::int64_t> extents) {
      const int rank = static_cast<int>(extents.size());
      all.push_back({kind, e, rank, std::move(extents), {}, 0});
    };
    const auto dynamic = [](std::size_t rank) { return std::vector<std::int64_t>(rank, lang::kDyn); };
    const std::vector<int> stored = result();
    add(lang::ParamKind::Mut, in_product() ? sum_ : k_.element, {stored.begin(), stored.end()});
    add(lang::ParamKind::In, k_.element, dynamic(k_.shape.size()));
    if (in_product()) {
      add(lang::ParamKind::In, factor_, dynamic(shape_.size()));
      add(lang::ParamKind::In, factor_, dynamic(shape_.size()));
    }
    lang::lay_out(all);
    return all;
  }

  lang::Trace trace(const lang::Specialization& s) {
    lang::Recording recording("scan", params(), s, {});
    recording.begin_body();
    record(recording);
    return recording.finish();
  }

 private:
  bool in_product() const { return k_.place >= ScanPlace::Scales; }
  /// The shape of what is stored.
  std::vector<int> result() const {
    std::vector<int> r = result_;
    if (k_.place == ScanPlace::Operand) r.back() = 64;
    return r;
  }
  static lang::TileSpec spec(ElementType e, const std::vector<int>& shape) {
    return {e, static_cast<int>(shape.size()), shape.data()};
  }

  void record(const lang::Recording& r) {
    ir::Value x = tile(r, 1, k_.shape);
    ir::Value y;
    switch (k_.place) {
      case ScanPlace::Alone: y = scanned(x, k_.element); break;
      case ScanPlace::Reductions: {
        const std::vector<int>& s = k_.shape;
        const int last = static_cast<int>(s.size()) - 1;
        y = scanned(x, k_.element);
        for (const int axis : {0, last}) {
          const ir::Value sum = lang::reduce(lang::ReduceOp::Add, x, spec(k_.element, s), axis, {});
          y = combined(lang::BinaryOp::Add, y, sum, k_.element, s);
        }
        break;
      }
      case ScanPlace::Scales: {
        const ir::Value factor = converted(reshaped(scanned(x, k_.element)), k_.element, sum_, shape_);
        y = combined(lang::BinaryOp::Mul, product(r), factor, sum_, result_);
        break;
      }
      case ScanPlace::Masks: {
        const lang::TileSpec tile = spec(k_.element, k_.shape);
        const ir::Value below =
            lang::compare(lang::CompareOp::Less, scanned(x, k_.element), lang::splat(tile, 1), tile);
        const ir::Value mask =
            k_.shape.size() == 1 ? lang::reshape(below, spec(ElementType::boolean, shape_), {}) : below;
        y = lang::select(mask, product(r), lang::splat(spec(sum_, result_), 0), spec(sum_, result_), {});
        break;
      }
      case ScanPlace::Operand: {
        const ir::Value a = converted(scanned(x, k_.element), k_.element, factor_, k_.shape);
        std::vector<int> right = k_.shape;
        right[right.size() - 2] = k_.shape.back(), right.back() = 64;
        y = lang::multiply_accumulate(a, tile(r, 3, right), lang::splat(spec(sum_, result()), 0), factor_, factor_,
                                      false, {});
        break;
      }
      case ScanPlace::Result: {
        y = product(r);
        y = converted(scanned(converted(y, sum_, k_.element, result_), k_.element), k_.element, sum_, result_);
        break;
      }
    }
    lang::store_piece(r.piece(0), y, {});
  }

  ir::Value tile(const lang::Recording& r, int param, const std::vector<int>& shape) {
    const ir::Value zero = lang::index_constant(0, {});
    const std::vector<ir::Value> at(shape.size(), zero);
    return lang::load_tile(r.tensor(param), shape, at, {lang::PadKind::Zero, {}}, {});
  }
  ir::Value product(const lang::Recording& r) {
    std::vector<int> left = result_, right = result_;
    const std::size_t last = result_.size() - 1;
    left[last] = 64, right[last - 1] = 64;
    return lang::multiply_accumulate(tile(r, 2, left), tile(r, 3, right), lang::splat(spec(sum_, result_), 0), factor_,
                                     factor_, false, {});
  }
  static ir::Value combined(lang::BinaryOp op, ir::Value x, ir::Value y, ElementType e, const std::vector<int>& shape) {
    return lang::binary(op, x, y, spec(e, shape), MathAccuracy::OfKernel, {});
  }
  ir::Value reshaped(ir::Value v) { return lang::reshape(v, spec(k_.element, shape_), {}); }
  static ir::Value converted(ir::Value v, ElementType from, ElementType to, const std::vector<int>& shape) {
    return from == to ? v : lang::convert(v, from, spec(to, shape), RoundingDirection::Default, false, {});
  }

  ir::Value scanned(ir::Value x, ElementType e) {
    const std::vector<int>& shape = k_.place == ScanPlace::Result ? result_ : k_.shape;
    const lang::TileSpec s = spec(e, shape);
    switch (k_.function) {
      case ScanFunction::Sum: return lang::scan(lang::ReduceOp::Add, x, s, k_.axis, k_.backward, {});
      case ScanFunction::Product: return lang::scan(lang::ReduceOp::Mul, x, s, k_.axis, k_.backward, {});
      case ScanFunction::Largest: return lang::scan(lang::ReduceOp::Max, x, s, k_.axis, k_.backward, {});
      case ScanFunction::None: return x;
      case ScanFunction::LastNonzero: break;
    }
    const lang::TileSpec one = spec(e, {});
    const lang::Combiner c = lang::open_scan(x, s, k_.axis, k_.backward, lang::host_value(0), {});
    lang::CombinerRegion region(c);
    const ir::Value is_zero = lang::compare(lang::CompareOp::Equal, c.element, lang::splat(one, 0), one);
    return region.close(lang::select(is_zero, c.accumulator, c.element, one, {}));
  }

  const ScanKernel& k_;
  std::vector<int> shape_, result_;  ///< of the scan beside a product, and of the product
  ElementType factor_, sum_;
};

}  // namespace tessera::test
