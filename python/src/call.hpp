// One call from Python: its tensors, which DLPack lends, its numbers, and the arrays that it makes.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "function.hpp"
#include "tessera/base/error.hpp"
#include "tessera/host/borrow.hpp"
#include "tessera/host/dlpack.hpp"
#include "tessera/host/op.hpp"

namespace tessera::python {

/// Python shows where a function was called; the text of an error needs no line of these files.
inline constexpr SourceLocation kNowhere{};

/// The error of an argument whose element type the function does not take: tessera.ElementError.
class ElementError : public ShapeError {
 public:
  using ShapeError::ShapeError;
};

/// "bf16, f16 or f32"
std::string names_of(std::span<const ElementType> elements);

/// Extents and strides (in elements) of up to kMaxRank axes over a storage.
struct Region {
  runtime::StorageRef storage;
  ElementType element{};
  int rank = 0;
  std::array<std::int64_t, detail::kMaxRank> dims{}, strides{};

  std::span<const std::int64_t> shape() const { return {dims.data(), static_cast<std::size_t>(rank)}; }
  std::span<const std::int64_t> steps() const { return {strides.data(), static_cast<std::size_t>(rank)}; }
};

/// A row-major tensor of the library's own memory, which Python holds and lends to other libraries.
struct Array {
  Region region;
  std::int64_t offset = 0;  ///< of the first element from the storage's start, in elements
};

class Call {
 public:
  /// `where_to`: the stream of a GPU, on the CPU its default stream; or a guest stream of another library.
  Call(const Function& function, std::vector<Region> tensors, std::span<const double> numbers, const Stream& where_to,
       bool guest = false)
      : function_(function), tensors_(std::move(tensors)), numbers_(numbers), stream_(where_to), guest_(guest) {}

  int tensors() const { return static_cast<int>(tensors_.size()); }
  const Region& tensor(int i) const { return tensors_[static_cast<std::size_t>(i)]; }
  ElementType leading_element() const { return tensor(function_.leading).element; }
  double number(int i) const { return numbers_[static_cast<std::size_t>(i)]; }
  std::vector<std::unique_ptr<Array>>& results() { return results_; }

  /// Tensor `i` with exactly R axes. Throws ShapeError for another rank, ElementError for another element type.
  template <Element T, int R>
  View<T, R> view(int i) const {
    check_rank(i, R);
    return made<T, R>(i, tensor(i));
  }
  /// Tensor `i` as a matrix of its rows along the last axis, for any rank of at least 1. Throws ShapeError if the
  /// other axes cannot be read as one.
  template <Element T>
  View<T, 2> rows(int i) const {
    return made<T, 2>(i, as_rows(i));
  }
  /// All tensors with four axes each, which broadcast: adjacent axes are joined where every tensor allows it. Throws
  /// ShapeError for extents that do not fit, and where more than four axes are left.
  void join_axes();
  template <Element T>
  View<T, 4> joined(int i) const {
    return made<T, 4>(i, joined_[static_cast<std::size_t>(i)]);
  }
  /// f.operator()<I>() for the element type I of tensor `i`. Throws ElementError for another than those of the list.
  template <class... I, class F>
  void with_element(int i, Types<I...>, F&& f) const {
    const ElementType found = tensor(i).element;
    if (!((found == element_type<I> && (f.template operator()<I>(), true)) || ...)) wrong_element(i, Types<I...>::list);
  }
  /// Throws ShapeError unless tensors `i` and `other` have the same extents.
  void expect_same_extents(int i, int other) const;
  /// The extents of tensor `i`, without the last `without` axes.
  std::vector<std::int64_t> dims(int i, int without = 0) const {
    const auto d = tensor(i).shape();
    return {d.begin(), d.end() - std::min<std::ptrdiff_t>(without, std::ssize(d))};
  }
  /// The extents that all tensors broadcast to; after join_axes().
  const std::vector<std::int64_t>& broadcast_dims() const { return broadcast_; }

  /// Runs the operation. Its result becomes the next result of the call, with the extents `dims` of as many elements.
  template <Element U, int R>
  void put(Op<Tensor<U, R>>&& op, std::span<const std::int64_t> dims) {
    keep(run(std::move(op)), dims);
  }
  /// As above, for several results, each with its extents.
  template <class... U, class... D>
    requires(sizeof...(U) == sizeof...(D))
  void put(Op<std::tuple<U...>>&& op, const D&... dims) {
    std::apply([&](auto&&... made) { (keep(std::move(made), dims), ...); }, run(std::move(op)));
  }

 private:
  void check_rank(int i, int rank) const;
  void check_element(int i, ElementType wanted) const;
  [[noreturn]] void wrong_element(int i, std::span<const ElementType> wanted) const;
  Region as_rows(int i) const;

  template <Element T, int R>
  View<T, R> made(int i, const Region& r) const {
    check_element(i, element_type<T>);
    detail::Layout<R> l;
    l.storage = r.storage;
    std::copy_n(r.dims.begin(), R, l.dims.begin());
    std::copy_n(r.strides.begin(), R, l.strides.begin());
    return detail::Reach::make<View<T, R>>(std::move(l));
  }
  /// On the CPU the work has ended when this returns; on a GPU it has been enqueued. Nothing waits on a guest stream:
  /// its work on the CPU has ended when it has been enqueued.
  template <class X>
  X run(Op<X>&& op) const {
    if (!guest_ && stream_.device().kind() == DeviceKind::Cpu) return std::move(op).sync(stream_, kNowhere);
    return std::move(op).on(stream_, kNowhere);
  }
  template <Element U, int R>
  void keep(Tensor<U, R>&& made, std::span<const std::int64_t> dims) {
    const detail::Layout<R>& l = detail::Reach::layout(static_cast<const Tensor<U, R>&>(made));
    keep_layout(detail::ref(l, element_type<U>), dims);
  }
  void keep_layout(const detail::LayoutRef& made, std::span<const std::int64_t> dims);

  const Function& function_;
  std::vector<Region> tensors_, joined_;
  std::vector<std::int64_t> broadcast_;
  std::span<const double> numbers_;
  const Stream& stream_;
  bool guest_;
  std::vector<std::unique_ptr<Array>> results_;
};

/// A row. `F` is a lambda without captures and with one template parameter, the element type of the leading tensor,
/// which is one of T.
template <class... T, class F>
constexpr Function row(Types<T...>, const char* name, const char* parameters, int least, int most, const char* numbers,
                       Made made, F) {
  return {name, parameters, least, most, numbers, made, Types<T...>::list, [](Call& c) {
            const ElementType found = c.leading_element();
            (void)((found == element_type<T> && (F{}.template operator()<T>(c), true)) || ...);
          }};
}

/// A tensor that Python lends: DLPack's structure in either form, which is taken over.
struct Lent {
  void* managed;
  std::int32_t versioned;
};
/// Takes all of them over, whatever happens: a deleter runs when the last use of its memory has ended. Throws
/// ShapeError, ElementError and DeviceError for what the library cannot read.
std::vector<std::shared_ptr<void>> owners_of(std::span<const Lent> lent);
/// Where tensor `i` is. Throws DeviceError for a device that is neither a CPU nor one of NVIDIA's GPUs.
Device device_of(const Lent& lent, const Function& f, int i);
Region borrowed(const Lent& lent, std::shared_ptr<void> owner, const Function& f, int i, const Stream& stream);

/// Lends an array to another library: DLPack's structure, which its consumer returns by the deleter. On a GPU work
/// that is enqueued on `consumer` from now on comes after the elements.
void* lend(const Array& array, bool versioned, const Stream* consumer);
dlpack::DataType dlpack_type(ElementType e);

}  // namespace tessera::python
