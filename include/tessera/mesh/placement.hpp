// Tensors over a mesh. Where their elements are is part of their type:
//
//   Sharded<T, R, Axis>   each rank owns an equal part along that axis of the tensor; may be written, by its rank
//   Replicated<T, R>      each rank has the same elements; read-only, copyable
//   Partial<T, R>         each rank has one summand of the elements; only a collective makes something readable of it
//
// The ranks' parts are tensors like all others: leased by operations, ordered between streams. A handle has those of
// the ranks of its member of the mesh.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tessera/host/create.hpp"
#include "tessera/host/transfer.hpp"
#include "tessera/lang/shape.hpp"
#include "tessera/mesh/mesh.hpp"

namespace tessera {

namespace detail {

/// Access of operations to the parts of a handle.
struct PlacedReach {
  template <class P>
  static auto& parts(P& placed) {
    return placed.parts_;
  }
  template <class P, class Parts>
  static P make(const Mesh& mesh, Parts&& parts) {
    return P(mesh, std::forward<Parts>(parts));
  }
};

/// The kinds of placement, for messages and for choosing overloads.
enum class PlacementKind : std::uint8_t { Sharded, Replicated, Partial };

template <class>
struct Placed {
  static constexpr bool ok = false;
};
template <class P>
inline constexpr bool is_placed = Placed<std::remove_cvref_t<P>>::ok;

[[noreturn]] void throw_empty_placed(const char* what, SourceLocation where);
/// The extents of all parts together: the part's, with `axis` times the number of ranks.
void scale_extent(std::span<std::int64_t> dims, int axis, const Mesh& mesh) noexcept;

/// What all placements answer. `Part` is what a rank has: a Tensor, or a Shared.
template <class Part, int Axis>
class PlacedParts {
 public:
  using element = typename Part::element;
  static constexpr int rank = Part::rank;

  /// The mesh. All queries throw BorrowError if the handle is empty.
  const Mesh& mesh(SourceLocation where = SourceLocation::current()) const {
    live(where);
    return mesh_[0];
  }
  /// The extents of the whole tensor.
  Dims<rank> dims(SourceLocation where = SourceLocation::current()) const {
    std::array<std::int64_t, rank> all = live(where)[0].dims(where).array();
    if constexpr (Axis >= 0) scale_extent(all, Axis, mesh_[0]);
    return Dims<rank>::from(all, where);
  }
  std::int64_t dim(int axis, SourceLocation where = SourceLocation::current()) const {
    check_axis(axis, rank, where);
    return dims(where)[axis];
  }
  /// The extents of what each rank has.
  Dims<rank> part_dims(SourceLocation where = SourceLocation::current()) const { return live(where)[0].dims(where); }

 protected:
  PlacedParts() noexcept = default;
  PlacedParts(const Mesh& mesh, std::vector<Part>&& parts) : mesh_{mesh}, parts_(std::move(parts)) {}
  const std::vector<Part>& live(SourceLocation where) const {
    if (parts_.empty()) [[unlikely]] { throw_empty_placed(kNames[Axis >= 0 ? 0 : Axis + 3], where); }
    return parts_;
  }
  const Part& part_of(int rank_number, const char* what, SourceLocation where) const {
    live(where);
    if (!mesh_[0].is_local(rank_number)) throw_not_local(rank_number, mesh_[0], what, where);
    return parts_[static_cast<std::size_t>(rank_number - mesh_[0].first_rank())];
  }

  static constexpr const char* kNames[] = {"Sharded", "Replicated", "Partial"};
  std::vector<Mesh> mesh_;  ///< one, or none where the handle is empty
  std::vector<Part> parts_;
};

inline constexpr int kReplicatedAxis = -2, kPartialAxis = -1;  // index kNames as Axis + 3

}  // namespace detail

/// A tensor of which each rank of a mesh owns an equal part along `Axis`. Move-only.
template <Element T, int R, int Axis>
class [[nodiscard]] Sharded : public detail::PlacedParts<Tensor<T, R>, Axis> {
  static_assert(Axis >= 0 && Axis < R, "a Sharded is split along one of its axes: 0 to its rank - 1");

 public:
  static constexpr int axis = Axis;
  /// Empty; using it throws BorrowError.
  Sharded() noexcept = default;
  Sharded(Sharded&& other) noexcept { *this = std::move(other); }
  Sharded& operator=(Sharded&& other) noexcept {
    this->mesh_ = std::move(other.mesh_), this->parts_ = std::move(other.parts_);
    other.mesh_.clear(), other.parts_.clear();
    return *this;
  }
  Sharded(const Sharded&) = delete;
  Sharded& operator=(const Sharded&) = delete;

  /// What a local rank owns, read-only. MeshError for a rank of another member.
  View<T, R> part(int rank_number, SourceLocation where = SourceLocation::current()) const {
    return this->part_of(rank_number, "the part", where).view(where);
  }

 private:
  friend detail::PlacedReach;
  using detail::PlacedParts<Tensor<T, R>, Axis>::PlacedParts;
};

/// A tensor of which each rank of a mesh has all elements, the same ones. Read-only; copies share the elements.
template <Element T, int R>
class Replicated : public detail::PlacedParts<Shared<T, R>, detail::kReplicatedAxis> {
 public:
  /// Empty; using it throws BorrowError.
  Replicated() noexcept = default;

  /// The copy of a local rank, read-only. MeshError for a rank of another member.
  View<T, R> part(int rank_number, SourceLocation where = SourceLocation::current()) const {
    return this->part_of(rank_number, "the copy", where).view(where);
  }
  /// The copy of a local rank as a tensor of one's own: its memory if no other handle shares it, else a copy. MeshError
  /// for a rank of another member.
  Op<Tensor<T, R>> local(int rank_number, SourceLocation where = SourceLocation::current()) &&;

 private:
  friend detail::PlacedReach;
  using detail::PlacedParts<Shared<T, R>, detail::kReplicatedAxis>::PlacedParts;
};

/// A tensor of which each rank of a mesh has one summand: all_reduce() or reduce_scatter() adds them. Nothing else can
/// be done with it. Move-only.
template <Element T, int R>
class [[nodiscard(
    "a Partial is summands: all_reduce(std::move(p)) or reduce_scatter(std::move(p), axis<A>) adds them")]] Partial
    : public detail::PlacedParts<Tensor<T, R>, detail::kPartialAxis> {
 public:
  /// Empty; using it throws BorrowError.
  Partial() noexcept = default;
  Partial(Partial&& other) noexcept { *this = std::move(other); }
  Partial& operator=(Partial&& other) noexcept {
    this->mesh_ = std::move(other.mesh_), this->parts_ = std::move(other.parts_);
    other.mesh_.clear(), other.parts_.clear();
    return *this;
  }
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;

 private:
  friend detail::PlacedReach;
  using detail::PlacedParts<Tensor<T, R>, detail::kPartialAxis>::PlacedParts;
};

namespace detail {

template <Element T, int R, int A>
struct Placed<Sharded<T, R, A>> {
  static constexpr bool ok = true;
  static constexpr PlacementKind kind = PlacementKind::Sharded;
};
template <Element T, int R>
struct Placed<Replicated<T, R>> {
  static constexpr bool ok = true;
  static constexpr PlacementKind kind = PlacementKind::Replicated;
};
template <Element T, int R>
struct Placed<tessera::Partial<T, R>> {
  static constexpr bool ok = true;
  static constexpr PlacementKind kind = PlacementKind::Partial;
};

/// What the parts of a placed tensor become: shared for Replicated.
template <class P>
P placed_of(const Mesh& mesh, std::vector<Tensor<typename P::element, P::rank>>&& made) {
  if constexpr (Placed<P>::kind == PlacementKind::Replicated) {
    std::vector<Shared<typename P::element, P::rank>> parts;
    for (auto& t : made) parts.push_back(share(std::move(t)));
    return PlacedReach::make<P>(mesh, std::move(parts));
  } else {
    return PlacedReach::make<P>(mesh, std::move(made));
  }
}

/// The interface of operations whose ranks need nothing of each other, so that a launch over the mesh can take the
/// operations of its ranks: the freshly made operands.
template <Element T, int R>
class RankOps {
 public:
  virtual ~RankOps() = default;
  virtual const Mesh& mesh() const noexcept = 0;
  /// An operation for each local rank; this one is as before.
  virtual std::vector<Op<Tensor<T, R>>> ops() const = 0;
};

/// A placed tensor that is made anew on each rank.
template <class P>
class MakePlacedNode final : public OpNode<P>, public RankOps<typename P::element, P::rank> {
  using T = typename P::element;
  static constexpr int R = P::rank;

 public:
  MakePlacedNode(const Mesh& mesh, const Dims<R>& part, const Recipe& recipe)
      : mesh_(mesh), part_(part), recipe_(recipe) {
    check_bytes(part.numel(recipe.where), recipe);
  }
  const Mesh& mesh() const noexcept override { return mesh_; }
  runtime::Backend* device() const noexcept override { return &mesh_.device(mesh_.first_rank()).backend(); }
  std::vector<Op<Tensor<T, R>>> ops() const override {
    std::vector<Op<Tensor<T, R>>> all;
    for (int i = 0; i < mesh_.local_ranks(); ++i)
      all.push_back(make<T>(part_, recipe_, &mesh_.device(mesh_.first_rank() + i).backend()));
    return all;
  }
  P run(const Stream& stream) override {
    std::vector<Tensor<T, R>> made;
    auto each = ops();
    for (int i = 0; i < mesh_.local_ranks(); ++i)
      made.push_back(std::move(each[static_cast<std::size_t>(i)])
                         .on(stream_of_rank(mesh_, i, stream, recipe_.where), recipe_.where));
    return placed_of<P>(mesh_, std::move(made));
  }

 private:
  Mesh mesh_;
  Dims<R> part_;
  Recipe recipe_;
};

/// A tensor that is there already.
template <Element T, int R>
class HeldNode final : public OpNode<Tensor<T, R>> {
 public:
  explicit HeldNode(Tensor<T, R>&& tensor) noexcept : tensor_(std::move(tensor)) {}
  runtime::Backend* device() const noexcept override { return &tensor_.device().backend(); }
  Tensor<T, R> run(const Stream&) override { return std::move(tensor_); }

 private:
  Tensor<T, R> tensor_;
};

/// Runs an operation on each local rank; the results are the parts.
template <class P>
class EachRankNode final : public OpNode<P> {
  using T = typename P::element;

 public:
  EachRankNode(const Mesh& mesh, std::vector<Op<Tensor<T, P::rank>>>&& each, SourceLocation where)
      : mesh_(mesh), each_(std::move(each)), where_(where) {}
  runtime::Backend* device() const noexcept override { return &mesh_.device(mesh_.first_rank()).backend(); }
  P run(const Stream& stream) override {
    std::vector<Tensor<T, P::rank>> made;
    for (std::size_t i = 0; i < each_.size(); ++i)
      made.push_back(std::move(each_[i]).on(stream_of_rank(mesh_, static_cast<int>(i), stream, where_), where_));
    return placed_of<P>(mesh_, std::move(made));
  }

 private:
  Mesh mesh_;
  std::vector<Op<Tensor<T, P::rank>>> each_;
  SourceLocation where_;
};
template <class P>
Op<P> each_rank(const Mesh& mesh, std::vector<Op<Tensor<typename P::element, P::rank>>>&& each, SourceLocation where) {
  return Op<P>(new EachRankNode<P>(mesh, std::move(each), where));
}

template <Element T, int R, int A>
Dims<R> part_of_dims(const Dims<R>& dims, const Mesh& mesh, const char* what, SourceLocation where) {
  static_assert(A >= 0 && A < R, "this tensor has no such axis: axes count from 0 to its rank - 1");
  check_divides(dims[A], A, mesh, what, where);
  std::array<std::int64_t, R> part = dims.array();
  part[A] /= ranks_of(mesh);
  return Dims<R>::from(part, where);
}

template <class P, Element T, int R>
Op<P> make_placed(const Mesh& mesh, const Dims<R>& part, const Recipe& made) {
  return Op<P>(new MakePlacedNode<P>(mesh, part, made));
}

/// rounded<U>() of each local rank's part.
template <class U, class P, class Sums>
Op<P> round_parts(const Sums& sums, SourceLocation where) {
  const Mesh& mesh = sums.mesh(where);
  std::vector<Op<Tensor<f32, P::rank>>> each;
  for (int i = 0; i < mesh.local_ranks(); ++i)
    each.push_back(rounded<U>(sums.part(mesh.first_rank() + i, where), where));
  return each_rank<P>(mesh, std::move(each), where);
}

}  // namespace detail

/// Each rank owns its part of `x` along the axis: shard(weights, axis<0>, mesh). Every member passes the whole tensor,
/// and takes copies of the parts of its ranks. ShapeError unless the extent is a multiple of the number of ranks.
template <int A, Element T, int R>
Op<Sharded<T, R, A>> shard(const View<T, R>& x, Axis<A>, const Mesh& mesh,
                           SourceLocation where = SourceLocation::current()) {
  const std::int64_t part = detail::part_of_dims<T, R, A>(x.dims(where), mesh, "shard", where)[A];
  std::vector<Op<Tensor<T, R>>> each;
  for (int i = 0; i < mesh.local_ranks(); ++i) {
    const std::int64_t lo = (mesh.first_rank() + i) * part;
    each.push_back(copy_to(x.template slice<A>(lo, lo + part, where), mesh.device(mesh.first_rank() + i), where));
  }
  return detail::each_rank<Sharded<T, R, A>>(mesh, std::move(each), where);
}
template <int A, Element T, int R>
Op<Sharded<T, R, A>> shard(const Tensor<T, R>& x, Axis<A>, const Mesh& mesh,
                           SourceLocation where = SourceLocation::current()) {
  return shard(x.view(where), Axis<A>(), mesh, where);
}

/// Each rank has a copy of `x`. Every member passes the same elements: broadcast() takes those of one rank.
template <Element T, int R>
Op<Replicated<T, R>> replicate(const View<T, R>& x, const Mesh& mesh,
                               SourceLocation where = SourceLocation::current()) {
  std::vector<Op<Tensor<T, R>>> each;
  for (int i = 0; i < mesh.local_ranks(); ++i) each.push_back(copy_to(x, mesh.device(mesh.first_rank() + i), where));
  return detail::each_rank<Replicated<T, R>>(mesh, std::move(each), where);
}
template <Element T, int R>
Op<Replicated<T, R>> replicate(const Tensor<T, R>& x, const Mesh& mesh,
                               SourceLocation where = SourceLocation::current()) {
  return replicate(x.view(where), mesh, where);
}

/// Every element is `value`; each rank owns its part along the axis: full<f32>({rows, 1024}, 1.5f, axis<0>, mesh).
/// ShapeError as for shard(), and if the element type does not hold the value.
template <Element T, int A, std::size_t N>
Op<Sharded<T, static_cast<int>(N), A>> full(BracedDims<N> dims, detail::Number<T> value, Axis<A>, const Mesh& mesh,
                                            SourceLocation where = SourceLocation::current()) {
  constexpr int R = static_cast<int>(N);
  const auto part = detail::part_of_dims<T, R, A>(Dims<R>(dims, where), mesh, "full", where);
  const std::uint64_t bits = detail::fitting(value.arg(), "full", where);
  return detail::make_placed<Sharded<T, R, A>, T>(mesh, part,
                                                  detail::recipe<T>("full", detail::fill_value, where, bits));
}
/// Every element 0; each rank owns its part along the axis.
template <Element T, int A, std::size_t N>
Op<Sharded<T, static_cast<int>(N), A>> zeros(BracedDims<N> dims, Axis<A>, const Mesh& mesh,
                                             SourceLocation where = SourceLocation::current()) {
  constexpr int R = static_cast<int>(N);
  const auto part = detail::part_of_dims<T, R, A>(Dims<R>(dims, where), mesh, "zeros", where);
  return detail::make_placed<Sharded<T, R, A>, T>(mesh, part, detail::recipe<T>("zeros", detail::fill_value, where));
}
/// Elements that are not initialised, for outputs; each rank owns its part along the axis.
template <Element T, int A, std::size_t N>
Op<Sharded<T, static_cast<int>(N), A>> empty(BracedDims<N> dims, Axis<A>, const Mesh& mesh,
                                             SourceLocation where = SourceLocation::current()) {
  constexpr int R = static_cast<int>(N);
  const auto part = detail::part_of_dims<T, R, A>(Dims<R>(dims, where), mesh, "empty", where);
  return detail::make_placed<Sharded<T, R, A>, T>(mesh, part, detail::recipe<T>("empty", nullptr, where));
}
/// Summands of 0 on each rank: for kernels that write, or add to, one summand on each.
template <Element T, std::size_t N>
Op<Partial<T, static_cast<int>(N)>> partial_zeros(BracedDims<N> dims, const Mesh& mesh,
                                                  SourceLocation where = SourceLocation::current()) {
  constexpr int R = static_cast<int>(N);
  return detail::make_placed<Partial<T, R>, T>(mesh, Dims<R>(dims, where),
                                               detail::recipe<T>("partial_zeros", detail::fill_value, where));
}
/// Sums of nothing on each rank, for an Acc<reproducible<f32>, ...> of these extents. all_reduce() adds them without
/// rounding; rounded<f32>() of the result has the same bits for every number of ranks.
template <class S, std::size_t N>
  requires detail::is_reproducible<S>
Op<Partial<i64, static_cast<int>(N) + 1>> partial_zeros(BracedDims<N> dims, const Mesh& mesh,
                                                        SourceLocation where = SourceLocation::current()) {
  constexpr int R = static_cast<int>(N) + 1;
  return detail::make_placed<Partial<i64, R>, i64>(mesh, detail::dims_of_bins<S>(Dims<R - 1>(dims, where), where),
                                                   detail::recipe<i64>("partial_zeros", detail::fill_value, where));
}

/// The sums of an Acc<reproducible<f32>, ...> that all_reduce() has added, each rounded once, by every rank.
template <class U = void, Element T, int R>
Op<Replicated<f32, detail::rounded_rank<R>>> rounded(const Replicated<T, R>& sums,
                                                     SourceLocation where = SourceLocation::current()) {
  return detail::round_parts<U, Replicated<f32, detail::rounded_rank<R>>>(sums, where);
}
/// The sums that reduce_scatter(std::move(p), axis<A>) has added, each rounded once, by the rank that owns it. The
/// axis of the bins comes first, so that `A` is 1 or more; the result is sharded along axis A - 1.
template <class U = void, Element T, int R, int A>
Op<Sharded<f32, detail::rounded_rank<R>, (A > 0 && A < R ? A - 1 : 0)>> rounded(
    const Sharded<T, R, A>& sums, SourceLocation where = SourceLocation::current()) {
  static_assert(A > 0,
                "the numbers of one sum are along axis 0 and stay together: shard sums along another axis, as "
                "reduce_scatter(std::move(p), axis<1>) does");
  return detail::round_parts<U, Sharded<f32, detail::rounded_rank<R>, (A > 0 && A < R ? A - 1 : 0)>>(sums, where);
}
template <class U = void, Element T, int R>
void rounded(const Partial<T, R>&, SourceLocation = SourceLocation::current()) {
  static_assert(detail::never_true<Partial<T, R>>,
                "the ranks' sums are added before they are rounded: all_reduce(std::move(p)) or "
                "reduce_scatter(std::move(p), axis<1>) adds them");
}

/// An output with the extents, element type and placement of `x`, not initialised.
template <Element T, int R, int A>
Op<Sharded<T, R, A>> empty_like(const Sharded<T, R, A>& x, SourceLocation where = SourceLocation::current()) {
  return detail::make_placed<Sharded<T, R, A>, T>(x.mesh(where), x.part_dims(where),
                                                  detail::recipe<T>("empty_like", nullptr, where));
}
/// An output for a launch that reads only replicated tensors, so that each rank computes equal elements.
template <Element T, int R>
Op<Replicated<T, R>> empty_like(const Replicated<T, R>& x, SourceLocation where = SourceLocation::current()) {
  return detail::make_placed<Replicated<T, R>, T>(x.mesh(where), x.part_dims(where),
                                                  detail::recipe<T>("empty_like", nullptr, where));
}

template <Element T, int R>
Op<Tensor<T, R>> Replicated<T, R>::local(int rank_number, SourceLocation where) && {
  this->part_of(rank_number, "local()", where);
  const std::size_t index = static_cast<std::size_t>(rank_number - this->mesh_[0].first_rank());
  Shared<T, R> mine = std::move(this->parts_[index]);
  this->parts_.clear(), this->mesh_.clear();
  if (auto own = try_unshare(std::move(mine), where))
    return Op<Tensor<T, R>>(new detail::HeldNode<T, R>(std::move(*own)));
  return clone(mine, where);
}

}  // namespace tessera
