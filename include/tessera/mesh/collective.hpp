// Collectives: operations like all others, lazy, leased and ordered, usable in flows and captured in graphs. Every
// member of the mesh makes them in the same order. What the ranks disagree about (another operation, another number of
// elements, a rank that does not call or has failed) is a MeshError on all of them, which names the rank and its line;
// the mesh cannot be used afterwards.
//
//   Replicated<bf16, 2> y = all_reduce(std::move(partial)).sync();
//   Replicated<bf16, 2> whole = all_gather(std::move(sharded)).sync();    // or all_gather(sharded): it stays
//   Sharded<bf16, 2, 0> part = reduce_scatter(std::move(partial), axis<0>).sync();
#pragma once
#include <memory>
#include <utility>

#include "tessera/mesh/communicator.hpp"
#include "tessera/mesh/placement.hpp"

namespace tessera {

namespace detail {

/// The parts of a placed tensor as operands of a collective: leased together, or not at all.
class PartOperands {
 public:
  /// Takes a lease of every part. Nothing is taken from the caller.
  PartOperands(std::span<const ArgRef> parts, int rank, const char* what, SourceLocation where);
  std::size_t size() const noexcept { return size_; }
  ReadOperand& operator[](std::size_t i) noexcept { return operands_[i]; }
  /// The collective has been enqueued.
  void release() noexcept;

 private:
  std::unique_ptr<ReadOperand[]> operands_;
  std::size_t size_;
};

template <class P>
std::vector<ArgRef> part_args(const P& placed, bool given, SourceLocation where) {
  placed.mesh(where);  // throws if it is empty
  std::vector<ArgRef> args;
  for (const auto& part : PlacedReach::parts(placed)) {
    ArgRef a;
    a.how = given ? ArgRef::How::Give : ArgRef::How::Read;
    a.layout = ref(Reach::layout(part), element_type<typename P::element>);
    args.push_back(a);
  }
  return args;
}

/// New row-major memory for a result of rank `index`.
template <Element T, int R>
Layout<R> result_layout(const Dims<R>& dims, const char* label, const Stream& stream, SourceLocation where) {
  Layout<R> l{make_storage(recipe<T>(label, nullptr, where), dims.numel(where), stream), 0, dims.array(), {}};
  set_contiguous(l.dims, l.strides);
  return l;
}

/// One collective of a mesh, as its operations enqueue it. `in` and `out`: of each local rank; empty storages where
/// there are none.
struct CollectiveOperands {
  LayoutRef in, out;
};
void enqueue_collective(const Mesh& mesh, mesh::Collective kind, ElementType element, std::int64_t count, int peer,
                        std::span<const Stream> streams, std::span<const CollectiveOperands> ranks, const char* label,
                        SourceLocation where);
/// Throws ShapeError unless 0 <= rank < mesh.size().
void check_rank(int rank, const Mesh& mesh, const char* what, SourceLocation where);
/// Throws MeshError unless this member has one rank.
void check_one_rank(const Mesh& mesh, const char* what, SourceLocation where);
std::vector<Stream> streams_of_ranks(const Mesh& mesh, const Stream& given, SourceLocation where);

/// `n` blocks of a part each, one after the other, as they lie in the whole tensor: the whole's strides with the blocks
/// as the first axis.
template <int R>
Layout<R + 1> blocks_along(const Layout<R>& whole, int axis, std::int64_t n) {
  Layout<R + 1> l{whole.storage, whole.offset, {}, {}};
  const auto a = static_cast<std::size_t>(axis);
  for (std::size_t i = 0; i < R; ++i) l.dims[i + 1] = whole.dims[i], l.strides[i + 1] = whole.strides[i];
  l.dims[a + 1] /= n;
  l.dims[0] = n;
  l.strides[0] = l.dims[a + 1] * whole.strides[a];
  return l;
}

template <class Result>
class CollectiveNode : public OpNode<Result> {
 public:
  runtime::Backend* device() const noexcept override { return &mesh_.device(mesh_.first_rank()).backend(); }

 protected:
  CollectiveNode(const Mesh& mesh, const char* label, SourceLocation where)
      : mesh_(mesh), label_(label), where_(where) {}
  Mesh mesh_;
  const char* label_;
  SourceLocation where_;
};

/// The operand of a part as a layout of the rank's tensor.
template <int R>
Layout<R> layout_of(const ReadOperand& operand) {
  Layout<R> l{operand.storage, operand.offset, {}, {}};
  for (std::size_t i = 0; i < R; ++i) l.dims[i] = operand.dims[i], l.strides[i] = operand.strides[i];
  return l;
}

template <Element T, int R>
class AllReduceNode final : public CollectiveNode<Replicated<T, R>> {
  using Base = CollectiveNode<Replicated<T, R>>;

 public:
  AllReduceNode(tessera::Partial<T, R>& p, SourceLocation where)
      : Base(p.mesh(where), "all_reduce", where), parts_(part_args(p, true, where), R, "all_reduce", where) {
    given_ = std::move(p);
  }
  Replicated<T, R> run(const Stream& stream) override {
    const auto streams = streams_of_ranks(this->mesh_, stream, this->where_);
    std::vector<CollectiveOperands> ranks;
    auto& tensors = PlacedReach::parts(given_);
    for (auto& t : tensors) {
      const LayoutRef l = ref(Reach::layout(t), element_type<T>);
      ranks.push_back({l, l});  // in place
    }
    enqueue_collective(this->mesh_, mesh::Collective::AllReduce, element_type<T>, ranks[0].in.size(), 0, streams, ranks,
                       this->label_, this->where_);
    parts_.release();
    return placed_of<Replicated<T, R>>(this->mesh_, std::move(tensors));
  }

 private:
  PartOperands parts_;
  tessera::Partial<T, R> given_;
};

template <Element T, int R, int A>
class AllGatherNode final : public CollectiveNode<Replicated<T, R>> {
  using Base = CollectiveNode<Replicated<T, R>>;
  static_assert(A == 0 || R < kMaxRank, "all_gather along another axis than the first takes tensors of at most 7 axes");

 public:
  AllGatherNode(const Sharded<T, R, A>& s, SourceLocation where) : AllGatherNode(s, false, where) {}
  AllGatherNode(Sharded<T, R, A>&& s, SourceLocation where) : AllGatherNode(s, true, where) { given_ = std::move(s); }
  Replicated<T, R> run(const Stream& stream) override {
    const auto streams = streams_of_ranks(this->mesh_, stream, this->where_);
    std::vector<Layout<R>> in, out, gathered;
    std::vector<CollectiveOperands> ranks;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      in.push_back(layout_of<R>(parts_[i]));
      out.push_back(result_layout<T, R>(dims_, this->label_, streams[i], this->where_));
      gathered.push_back(A == 0 ? out.back() : result_layout<T, R>(dims_, this->label_, streams[i], this->where_));
    }
    for (std::size_t i = 0; i < parts_.size(); ++i)
      ranks.push_back({ref(in[i], element_type<T>), ref(gathered[i], element_type<T>)});
    enqueue_collective(this->mesh_, mesh::Collective::AllGather, element_type<T>, ranks[0].in.size(), 0, streams, ranks,
                       this->label_, this->where_);
    parts_.release();
    std::vector<Tensor<T, R>> made;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if constexpr (A != 0) rearrange(streams[i], gathered[i], out[i]);
      made.push_back(Reach::make<Tensor<T, R>>(std::move(out[i])));
    }
    return placed_of<Replicated<T, R>>(this->mesh_, std::move(made));
  }

 private:
  AllGatherNode(const Sharded<T, R, A>& s, bool given, SourceLocation where)
      : Base(s.mesh(where), "all_gather", where),
        dims_(s.dims(where)),
        parts_(part_args(s, given, where), R, "all_gather", where) {}
  void rearrange(const Stream& stream, const Layout<R>& gathered, const Layout<R>& whole) {
    const Layout<R + 1> to = blocks_along(whole, A, ranks_of(this->mesh_));
    Layout<R + 1> from{gathered.storage, gathered.offset, to.dims, {}};
    set_contiguous(from.dims, from.strides);
    enqueue_convert(stream, ref(from, element_type<T>), ref(to, element_type<T>), this->label_, this->where_);
  }
  Dims<R> dims_;
  PartOperands parts_;
  Sharded<T, R, A> given_;
};

template <Element T, int R, int A>
class ReduceScatterNode final : public CollectiveNode<Sharded<T, R, A>> {
  using Base = CollectiveNode<Sharded<T, R, A>>;
  static_assert(A == 0 || R < kMaxRank,
                "reduce_scatter along another axis than the first takes tensors of at most 7 axes");

 public:
  ReduceScatterNode(tessera::Partial<T, R>& p, SourceLocation where)
      : Base(p.mesh(where), "reduce_scatter", where),
        part_(part_of_dims<T, R, A>(p.dims(where), p.mesh(where), "reduce_scatter", where)),
        parts_(part_args(p, true, where), R, "reduce_scatter", where) {
    given_ = std::move(p);
  }
  Sharded<T, R, A> run(const Stream& stream) override {
    const auto streams = streams_of_ranks(this->mesh_, stream, this->where_);
    std::vector<Layout<R>> in, out;
    std::vector<CollectiveOperands> ranks;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      in.push_back(in_blocks(streams[i], layout_of<R>(parts_[i])));
      out.push_back(result_layout<T, R>(part_, this->label_, streams[i], this->where_));
    }
    for (std::size_t i = 0; i < parts_.size(); ++i)
      ranks.push_back({ref(in[i], element_type<T>), ref(out[i], element_type<T>)});
    enqueue_collective(this->mesh_, mesh::Collective::ReduceScatter, element_type<T>, ranks[0].out.size(), 0, streams,
                       ranks, this->label_, this->where_);
    parts_.release();
    std::vector<Tensor<T, R>> made;
    for (auto& l : out) made.push_back(Reach::make<Tensor<T, R>>(std::move(l)));
    return placed_of<Sharded<T, R, A>>(this->mesh_, std::move(made));
  }

 private:
  /// The summand with the ranks' parts one after the other.
  Layout<R> in_blocks(const Stream& stream, const Layout<R>& whole) {
    if constexpr (A == 0) {
      return whole;
    } else {
      const Layout<R + 1> from = blocks_along(whole, A, ranks_of(this->mesh_));
      Layout<R> made = result_layout<T, R>(Dims<R>::from(whole.dims, this->where_), this->label_, stream, this->where_);
      Layout<R + 1> to{made.storage, made.offset, from.dims, {}};
      set_contiguous(to.dims, to.strides);
      enqueue_convert(stream, ref(from, element_type<T>), ref(to, element_type<T>), this->label_, this->where_);
      return made;
    }
  }
  Dims<R> part_;
  PartOperands parts_;
  tessera::Partial<T, R> given_;
};

template <Element T, int R>
class BroadcastNode final : public CollectiveNode<Replicated<T, R>> {
  using Base = CollectiveNode<Replicated<T, R>>;

 public:
  BroadcastNode(const View<T, R>& x, int root, const Mesh& mesh, SourceLocation where)
      : Base(mesh, "broadcast", where), dims_(x.dims(where)), root_(root) {
    check_rank(root, mesh, "broadcast", where);
    if (mesh.is_local(root)) source_.push_back(copy_to(x, mesh.device(root), where));
  }
  Replicated<T, R> run(const Stream& stream) override {
    const auto streams = streams_of_ranks(this->mesh_, stream, this->where_);
    std::vector<Tensor<T, R>> made;
    std::vector<CollectiveOperands> ranks;
    for (int i = 0; i < this->mesh_.local_ranks(); ++i) {
      const Stream& own = streams[static_cast<std::size_t>(i)];
      const bool is_root = this->mesh_.first_rank() + i == root_;
      made.push_back(is_root ? std::move(source_[0]).on(own, this->where_)
                             : Reach::make<Tensor<T, R>>(result_layout<T, R>(dims_, this->label_, own, this->where_)));
    }
    for (int i = 0; i < this->mesh_.local_ranks(); ++i) {
      const LayoutRef l = ref(Reach::layout(made[static_cast<std::size_t>(i)]), element_type<T>);
      ranks.push_back({this->mesh_.first_rank() + i == root_ ? l : LayoutRef{}, l});
    }
    enqueue_collective(this->mesh_, mesh::Collective::Broadcast, element_type<T>, dims_.numel(this->where_), root_,
                       streams, ranks, this->label_, this->where_);
    return placed_of<Replicated<T, R>>(this->mesh_, std::move(made));
  }

 private:
  Dims<R> dims_;
  int root_;
  std::vector<Op<Tensor<T, R>>> source_;  ///< of the root, where it is local
};

class BarrierNode final : public CollectiveNode<void> {
 public:
  BarrierNode(const Mesh& mesh, SourceLocation where) : CollectiveNode(mesh, "barrier", where) {}
  void run(const Stream& stream) override;
};

template <Element T>
inline constexpr bool adds = (element_class<T> == ElementClass::Float && sizeof(T) > 1 && !std::is_same_v<T, tf32>) ||
                             element_class<T> == ElementClass::Signed || element_class<T> == ElementClass::Unsigned;

}  // namespace detail

/// The sums of the ranks' summands, on every rank. Where the host adds them, floating-point elements of at most 32 bits
/// are added in f32, in the order of the ranks, and rounded once; NCCL may round sums of 16 bits after each addition.
/// Uses the summands' memory.
template <Element T, int R>
Op<Replicated<T, R>> all_reduce(Partial<T, R>&& p, SourceLocation where = SourceLocation::current()) {
  static_assert(detail::adds<T>, "all_reduce adds f64, f32, f16, bf16 and integers: cast the summands first");
  return Op<Replicated<T, R>>(new detail::AllReduceNode<T, R>(p, where));
}
/// Adds the ranks' summands as all_reduce() does; each rank owns its share of the sums along the axis. ShapeError
/// unless the extent is a multiple of the number of ranks.
template <int A, Element T, int R>
Op<Sharded<T, R, A>> reduce_scatter(Partial<T, R>&& p, Axis<A>, SourceLocation where = SourceLocation::current()) {
  static_assert(detail::adds<T>, "reduce_scatter adds f64, f32, f16, bf16 and integers: cast the summands first");
  return Op<Sharded<T, R, A>>(new detail::ReduceScatterNode<T, R, A>(p, where));
}
/// The whole tensor on every rank.
template <Element T, int R, int A>
Op<Replicated<T, R>> all_gather(const Sharded<T, R, A>& s, SourceLocation where = SourceLocation::current()) {
  return Op<Replicated<T, R>>(new detail::AllGatherNode<T, R, A>(s, where));
}
template <Element T, int R, int A>
Op<Replicated<T, R>> all_gather(Sharded<T, R, A>&& s, SourceLocation where = SourceLocation::current()) {
  return Op<Replicated<T, R>>(new detail::AllGatherNode<T, R, A>(std::move(s), where));
}
/// The elements of rank `root` on every rank. Every member passes a tensor of the same extents; only the one of the
/// member with the rank is read.
template <Element T, int R>
Op<Replicated<T, R>> broadcast(const View<T, R>& x, int root, const Mesh& mesh,
                               SourceLocation where = SourceLocation::current()) {
  return Op<Replicated<T, R>>(new detail::BroadcastNode<T, R>(x, root, mesh, where));
}
template <Element T, int R>
Op<Replicated<T, R>> broadcast(const Tensor<T, R>& x, int root, const Mesh& mesh,
                               SourceLocation where = SourceLocation::current()) {
  return broadcast(x.view(where), root, mesh, where);
}
/// Ends when all ranks have come to it.
inline Op<void> barrier(const Mesh& mesh, SourceLocation where = SourceLocation::current()) {
  return Op<void>(new detail::BarrierNode(mesh, where));
}

// What does not compile, with the reason.
template <Element T, int R>
void all_reduce(Partial<T, R>&, SourceLocation = SourceLocation::current()) {
  static_assert(detail::never_true<Partial<T, R>>,
                "all_reduce uses the summands' memory for the sums: write all_reduce(std::move(p))");
}
template <class P>
  requires(detail::Placed<P>::ok && detail::Placed<P>::kind != detail::PlacementKind::Partial)
void all_reduce(const P&, SourceLocation = SourceLocation::current()) {
  static_assert(detail::never_true<P>,
                "only a Partial is reduced: the parts of a Sharded are different elements (all_gather puts them "
                "together), and those of a Replicated are equal already");
}
template <Element T, int R>
void all_gather(const Replicated<T, R>&, SourceLocation = SourceLocation::current()) {
  static_assert(detail::never_true<Replicated<T, R>>, "a Replicated is whole on every rank already");
}
template <Element T, int R>
void all_gather(const Partial<T, R>&, SourceLocation = SourceLocation::current()) {
  static_assert(detail::never_true<Partial<T, R>>,
                "a Partial is summands: all_reduce(std::move(p)) or reduce_scatter(std::move(p), axis<A>) adds them");
}

}  // namespace tessera
