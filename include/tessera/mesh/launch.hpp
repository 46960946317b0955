// Launches over a mesh: kernel<K>(...) with tensors that are spread over it runs K on each rank, over what the rank
// has.
//
//   Sharded<f32, 2, 0> y = kernel<softmax<1024>>(empty_like(s), s).sync();
//   kernel<scale<64>>(mut(y), 0.5f).sync();
//
// A Sharded that is given comes back, one that is lent stays, and parts of ranks are disjoint as pieces of blocks are:
// each part is a tensor of its own, and a rank's launch takes that one alone. Reading takes Sharded and Replicated; a
// Partial can be written (one summand on each rank), never read.
#pragma once
#include <tuple>
#include <type_traits>
#include <utility>

#include "tessera/host/kernel.hpp"
#include "tessera/mesh/placement.hpp"

namespace tessera {

namespace detail {
template <class, bool>
struct SpreadArgument;
struct LendPlaced;
}  // namespace detail

/// The result of mut() of a tensor over a mesh: each rank's part, lent to one operation.
template <class P>
class [[nodiscard("mut(t) lends a tensor to a call: write it as the argument")]] PlacedLend {
 private:
  template <class, bool>
  friend struct detail::SpreadArgument;
  friend detail::LendPlaced;
  explicit PlacedLend(P& placed) noexcept : placed_(&placed) {}
  P* placed_;
};

namespace detail {
/// Makes the result of mut().
struct LendPlaced {
  template <class P>
  static PlacedLend<P> of(P& placed) noexcept {
    return PlacedLend<P>(placed);
  }
};
}  // namespace detail

/// Lends the parts to the operation that takes the result. Throws BorrowError if the tensor is empty.
template <Element T, int R, int A>
PlacedLend<Sharded<T, R, A>> mut(Sharded<T, R, A>& placed, SourceLocation where = SourceLocation::current()) {
  placed.mesh(where);
  return detail::LendPlaced::of(placed);
}

namespace detail {

template <class P>
  requires(is_placed<P>)
inline constexpr bool is_spread<P> = true;
template <class P>
  requires(is_placed<P>)
inline constexpr bool is_spread<Op<P>> = true;
template <class P>
inline constexpr bool is_spread<PlacedLend<P>> = true;

/// What a launch does with an argument. Number: passed on. The others belong to the ranks: parts that are read, given
/// or lent, made anew to be written, or made anew to be read.
enum class SpreadUse : std::uint8_t { Number, Read, Give, Lend, Make, Pass };

/// An argument for a parameter that the kernel writes, or only reads. Here: one that the ranks have in common.
template <class A, bool Written>
struct SpreadArgument {
  static constexpr SpreadUse use = SpreadUse::Number;
  static_assert(!is_tensor<std::remove_cvref_t<A>> && !ReadableArg<A>::ok,
                "this tensor is on one device, and the launch runs on all of the mesh: replicate(x, mesh) or "
                "shard(x, axis<A>, mesh) it first");
  const std::remove_cvref_t<A>& argument;
  SpreadArgument(const std::remove_cvref_t<A>& a, SourceLocation) : argument(a) {}
  const Mesh* mesh() const noexcept { return nullptr; }
  const auto& of(std::size_t) const { return argument; }
};

template <class P>
struct SpreadRead {
  static constexpr SpreadUse use = SpreadUse::Read;
  using placed = P;
  static_assert(Placed<P>::kind != PlacementKind::Partial,
                "a Partial is summands, which are not read: all_reduce(std::move(p)) adds them");
  const P& argument;
  SourceLocation where;
  SpreadRead(const P& a, SourceLocation w) : argument(a), where(w) { a.mesh(w); }
  const Mesh* mesh() const { return &argument.mesh(where); }
  auto of(std::size_t i) const { return argument.part(argument.mesh(where).first_rank() + static_cast<int>(i), where); }
};
template <class P, bool Written>
  requires(Placed<P>::ok)
struct SpreadArgument<const P&, Written> : SpreadRead<P> {
  using SpreadRead<P>::SpreadRead;
};
template <class P, bool Written>
  requires(Placed<P>::ok)
struct SpreadArgument<P&, Written> : SpreadRead<P> {
  using SpreadRead<P>::SpreadRead;
};
template <class P>
  requires(Placed<P>::ok)
struct SpreadArgument<P, false> : SpreadRead<P> {
  using SpreadRead<P>::SpreadRead;
};

/// The ranks' launches borrow the parts of a given tensor, which the operation owns and returns: nothing is lost where
/// a later rank's launch is rejected.
template <class P>
  requires(Placed<P>::ok)
struct SpreadArgument<P, true> {
  static constexpr SpreadUse use = SpreadUse::Give;
  using placed = P;
  static_assert(
      Placed<P>::kind != PlacementKind::Replicated,
      "a Replicated is read-only: all ranks have the same elements. A launch that computes another one writes "
      "a new one: kernel<K>(empty_like(r), ...)");
  P& argument;
  SourceLocation where;
  SpreadArgument(P& a, SourceLocation w) : argument(a), where(w) { a.mesh(w); }
  const Mesh* mesh() const { return &argument.mesh(where); }
  auto of(std::size_t i) const { return mut(PlacedReach::parts(argument)[i], where); }
};

template <class P, bool Written>
struct SpreadArgument<PlacedLend<P>, Written> {
  static constexpr SpreadUse use = SpreadUse::Lend;
  P& argument;
  SourceLocation where;
  SpreadArgument(const PlacedLend<P>& lend, SourceLocation w) : argument(*lend.placed_), where(w) {}
  const Mesh* mesh() const { return &argument.mesh(where); }
  auto of(std::size_t i) const { return mut(PlacedReach::parts(argument)[i], where); }
};

[[noreturn]] void throw_not_made_by_ranks(SourceLocation where);

/// An operation that makes the operand: each rank's launch takes the rank's own.
template <class P, bool Written>
struct SpreadArgument<Op<P>, Written> {
  static constexpr SpreadUse use = Written ? SpreadUse::Make : SpreadUse::Pass;
  static_assert(Written || Placed<P>::kind != PlacementKind::Partial,
                "a Partial is summands, which are not read: all_reduce(std::move(p)) adds them");
  using placed = P;
  using Maker = RankOps<typename P::element, P::rank>;
  const Maker* maker;
  mutable std::vector<Op<Tensor<typename P::element, P::rank>>> each;
  SpreadArgument(Op<P>& op, SourceLocation where) {
    Reach::check_live(op, where);
    maker = dynamic_cast<const Maker*>(Reach::node(op).get());
    if (maker == nullptr) throw_not_made_by_ranks(where);
    each = maker->ops();
  }
  const Mesh* mesh() const noexcept { return &maker->mesh(); }
  auto&& of(std::size_t i) const { return std::move(each[i]); }
};

/// What a launch returns for an argument, in the order of the parameters.
template <class P>
struct KeptResult {
  static constexpr bool made = false;
  using placed = P;
  P value;
  P finish(const Mesh&) { return std::move(value); }
};
template <class P>
struct MadeResult {
  static constexpr bool made = true;
  using placed = P;
  std::vector<Tensor<typename P::element, P::rank>> parts;
  P finish(const Mesh& mesh) { return placed_of<P>(mesh, std::move(parts)); }
};

template <class... H>
struct SpreadResult {
  using type = std::tuple<typename H::placed...>;
};
template <class H>
struct SpreadResult<H> {
  using type = typename H::placed;
};
template <>
struct SpreadResult<> {
  using type = void;
};

template <class RankResult, class... H>
class MeshLaunchNode final : public OpNode<typename SpreadResult<H...>::type> {
 public:
  using Result = typename SpreadResult<H...>::type;
  MeshLaunchNode(const Mesh& mesh, std::vector<Op<RankResult>>&& each, std::tuple<H...>&& results, SourceLocation where)
      : mesh_(mesh), each_(std::move(each)), results_(std::move(results)), where_(where) {}
  runtime::Backend* device() const noexcept override { return &mesh_.device(mesh_.first_rank()).backend(); }
  Result run(const Stream& stream) override {
    for (std::size_t i = 0; i < each_.size(); ++i) {
      const Stream own = stream_of_rank(mesh_, static_cast<int>(i), stream, where_);
      if constexpr (std::is_void_v<RankResult>) {
        std::move(each_[i]).on(own, where_);
      } else {
        take(std::move(each_[i]).on(own, where_));
      }
    }
    each_.clear();
    if constexpr (sizeof...(H) > 0) return std::apply([&](H&... h) { return Result{h.finish(mesh_)...}; }, results_);
  }

 private:
  /// Adds what one rank made.
  template <class X>
  void take(X&& made) {
    if constexpr (is_tensor<std::remove_cvref_t<X>>) {
      std::apply([&](H&... h) { (take_one(h, made), ...); }, results_);
    } else {
      take_all(made, std::index_sequence_for<H...>());
    }
  }
  template <class Holder, class X>
  static void take_one(Holder& h, X& made) {
    if constexpr (Holder::made) h.parts.push_back(std::move(made));
  }
  /// The number of made results before result `I`.
  template <std::size_t I>
  static constexpr std::size_t made_before() {
    constexpr bool made[] = {H::made...};
    std::size_t n = 0;
    for (std::size_t i = 0; i < I; ++i) n += made[i] ? 1u : 0u;
    return n;
  }
  template <class X, std::size_t... I>
  void take_all(X& made, std::index_sequence<I...>) {
    (take_from<I>(made), ...);
  }
  template <std::size_t I, class X>
  void take_from(X& made) {
    auto& h = std::get<I>(results_);
    if constexpr (std::remove_cvref_t<decltype(h)>::made)
      h.parts.push_back(std::move(std::get<made_before<I>()>(made)));
  }

  Mesh mesh_;
  std::vector<Op<RankResult>> each_;
  std::tuple<H...> results_;
  SourceLocation where_;
};

/// The holder of an argument's result, as a tuple of one or none.
template <class Argument>
auto result_holder(const Argument& a) {
  if constexpr (Argument::use == SpreadUse::Give) {
    return std::tuple<KeptResult<typename Argument::placed>>(
        KeptResult<typename Argument::placed>{std::move(a.argument)});
  } else if constexpr (Argument::use == SpreadUse::Make) {
    return std::tuple<MadeResult<typename Argument::placed>>();
  } else {
    return std::tuple<>();
  }
}

template <class Argument>
constexpr bool makes_replicated() {
  if constexpr (Argument::use == SpreadUse::Make)
    return Placed<typename Argument::placed>::kind == PlacementKind::Replicated;
  return false;
}
template <class Argument>
constexpr bool differs_between_ranks() {
  if constexpr (Argument::use == SpreadUse::Read || Argument::use == SpreadUse::Give ||
                Argument::use == SpreadUse::Make)
    return Placed<typename Argument::placed>::kind != PlacementKind::Replicated;
  return Argument::use == SpreadUse::Lend;
}

template <class Kernel>
struct LaunchOver {
  template <class... A>
  static auto call(const Kernel& kernel, SourceLocation where, A&&... args) {
    return each(kernel, where, typename Kernel::HostParameters{}, lang::TypeList<A...>{}, args...);
  }

 private:
  /// `A`: the types of the arguments, with how they were passed.
  template <class... S, class... A, class... X>
  static auto each(const Kernel& kernel, SourceLocation where, lang::TypeList<S...>, lang::TypeList<A...>, X&... args) {
    return with(kernel, where, SpreadArgument<A, is_mutable_param<S>()>(args, where)...);
  }

  template <class RankResult, class... H>
  static auto make_op(const Mesh& mesh, std::vector<Op<RankResult>>&& each, std::tuple<H...>&& results,
                      SourceLocation where) {
    using Node = MeshLaunchNode<RankResult, H...>;
    return Op<typename Node::Result>(new Node(mesh, std::move(each), std::move(results), where));
  }

  template <class... Argument>
  static auto with(const Kernel& kernel, SourceLocation where, const Argument&... argument) {
    static_assert(!(makes_replicated<Argument>() || ...) || !(differs_between_ranks<Argument>() || ...),
                  "a Replicated result is the same on each rank, so the launch may only read what is replicated, too: "
                  "make the output empty_like() of the Sharded, or gather the operands first");
    const Mesh* mesh = nullptr;
    const auto join = [&](const Mesh* other) {
      if (other == nullptr) return;
      if (mesh != nullptr) check_same_mesh(*mesh, *other, "a launch over a mesh", where);
      mesh = other;
    };
    (join(argument.mesh()), ...);
    using RankOp = decltype(kernel(argument.of(0)..., where));
    std::vector<RankOp> each;
    for (int i = 0; i < mesh->local_ranks(); ++i)
      each.push_back(kernel(argument.of(static_cast<std::size_t>(i))..., where));
    const Mesh over = *mesh;
    return make_op(over, std::move(each), std::tuple_cat(result_holder(argument)...), where);
  }
};

}  // namespace detail
}  // namespace tessera
