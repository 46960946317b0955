// capture() records what a flow, an operation or a scope enqueues; Graph replays it. docs/graphs.md.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tessera/host/graph_control.hpp"
#include "tessera/host/operand.hpp"
#include "tessera/runtime/memory.hpp"

namespace tessera {

namespace detail {

class GraphCore;
/// The untyped part of a graph: the recording, its leases, replays. Shared with replays that have not been enqueued.
class GraphHandle {
 public:
  /// Runs `body` with a stream that records. Throws what `body` throws, and the DeviceError of what cannot be captured.
  template <class F>
  GraphHandle(Device device, F body, SourceLocation where)
      : GraphHandle(
            device, [](void* f, const Stream& stream) { (*static_cast<F*>(f))(stream); }, &body, where) {}
  /// A replay that has not been run; takes the leases. Throws BorrowError.
  Op<void> replay(SourceLocation where) const;
  /// No replay is possible any more. Throws BorrowError if the graph was retired, or a replay waits to be enqueued.
  void retire(SourceLocation where);
  void check_live(SourceLocation where) const;
  /// Changes a number of the replays that are built from now on. Throws as Graph::set().
  void set_scalar(std::uint64_t id, std::uint64_t bits, SourceLocation where);
  /// Number of launches and other pieces of work.
  std::size_t work_count() const noexcept;
  runtime::GraphMemory memory() const noexcept;
  Device device(SourceLocation where) const;
  std::string dot() const;
  std::string svg() const;

 private:
  GraphHandle(Device device, void (*call)(void*, const Stream&), void* body, SourceLocation where);
  std::shared_ptr<GraphCore> core_;
};

template <class Out>
struct GraphOutput {
  using type = std::optional<Out>;
};
template <>
struct GraphOutput<void> {
  using type = std::tuple<>;
};

/// Where the inputs and the output of a graph stay for its life.
template <class Out, class... In>
struct GraphValues {
  std::tuple<In...> inputs;
  typename GraphOutput<Out>::type output;
};

/// How capture() passes an argument on: what the graph owns as an lvalue of it, the rest as it was.
template <class A>
inline constexpr bool graph_owns = !std::is_lvalue_reference_v<A>;
template <class... A>
using OwnedTuple = decltype(std::tuple_cat(
    std::declval<std::conditional_t<graph_owns<A>, std::tuple<std::remove_cvref_t<A>>, std::tuple<>>>()...));
template <std::size_t I, class... A>
constexpr std::size_t owned_before() {
  constexpr bool owned[] = {graph_owns<A>..., false};
  std::size_t n = 0;
  for (std::size_t i = 0; i < I; ++i) n += owned[i] ? 1 : 0;
  return n;
}
template <class A>
auto owned_argument(A&& argument) {
  if constexpr (graph_owns<A>) {
    return std::tuple<std::remove_cvref_t<A>>(std::move(argument));
  } else {
    return std::tuple<>();
  }
}
template <bool Owned, std::size_t I, class Inputs, class A>
auto* graph_argument(Inputs& inputs, A& argument) {
  if constexpr (Owned) {
    return std::addressof(std::get<I>(inputs));
  } else {
    return std::addressof(argument);
  }
}
/// After a capture that failed: what the graph would own is the caller's again, unless its type cannot be assigned.
template <bool Owned, std::size_t I, class Inputs, class A>
void give_back(Inputs& inputs, A& argument) {
  if constexpr (Owned && std::is_move_assignable_v<A>) argument = std::move(std::get<I>(inputs));
}
/// A scope: a function that takes the stream before its arguments.
template <class F, class... A>
inline constexpr bool is_scope = std::is_invocable_v<F&, const Stream&, std::remove_reference_t<A>&...>;
/// What a captured function computes: the result of its flow or its operation; a scope returns it itself.
template <bool Scope, class F, class... A>
struct Captured {
  using type = std::invoke_result_t<F&, const Stream&, std::remove_reference_t<A>&...>;
};
template <class F, class... A>
struct Captured<false, F, A...> {
  using made = std::invoke_result_t<F&, std::remove_reference_t<A>&...>;
  static_assert(is_flow<made> || is_op<made>, "capture() takes a function that returns a Flow or an Op");
  using type = typename made::value_type;
};

template <class Out, class Inputs>
struct GraphType;

}  // namespace detail

/// The recording of a flow. Owns what was given to capture() with std::move, and keeps every storage alive that it
/// uses. Move-only. Use by one thread at a time.
template <class Out, class... In>
class Graph {
 public:
  /// An operation that does all of the recorded work once more. It takes leases on everything that the graph uses:
  /// BorrowError if another operation that has not been enqueued does, or if a tensor that the graph writes has been
  /// moved, given, shared or assigned another since.
  Op<void> replay(SourceLocation where = SourceLocation::current()) const { return graph_.replay(where); }

  /// What was given to capture() with std::move or as a temporary, in order: the arguments that are not lvalues, from
  /// 0. Tensors in it may be read and lent (mut) between replays.
  template <std::size_t I>
  auto& input(SourceLocation where = SourceLocation::current()) {
    static_assert(I < sizeof...(In),
                  "the graph owns fewer arguments: input<I>() counts those that are not lvalues, from 0");
    graph_.check_live(where);
    if constexpr (I < sizeof...(In)) {
      return std::get<I>(values_->inputs);
    } else {
      return *this;  // only so that the message above is the only one
    }
  }
  /// What the flow returned. Its tensors have contents after the first replay.
  const auto& output(SourceLocation where = SourceLocation::current()) const {
    static_assert(!std::is_void_v<Out>, "the captured flow returns nothing");
    graph_.check_live(where);
    return *values_->output;
  }
  /// Ends the graph and returns the inputs and the output, as one tuple. BorrowError if a replay has been built and not
  /// enqueued.
  auto release(SourceLocation where = SourceLocation::current()) && {
    graph_.retire(where);
    if constexpr (std::is_void_v<Out>) {
      return std::move(values_->inputs);
    } else {
      return std::tuple_cat(std::move(values_->inputs), std::tuple<Out>(std::move(*values_->output)));
    }
  }
  /// Gives a GraphScalar another value, for replays that are enqueued from now on; those in flight keep the old one.
  /// Nothing is captured anew. `scalar` is one that launches of the flow have used, wherever it is. Throws ShapeError
  /// if its type does not hold the value or a launch does not allow it (require), DeviceError if no launch uses it,
  /// BorrowError if a replay has been built and not enqueued; then nothing has changed.
  template <class T>
  void set(GraphScalar<T>& scalar, std::type_identity_t<detail::Number<T>> value,
           SourceLocation where = SourceLocation::current()) {
    const std::uint64_t bits = detail::graph_scalar_bits(value.arg(), "set", where);
    graph_.set_scalar(detail::Reach::scalar_id(scalar), bits, where);
    detail::Reach::set_scalar_bits(scalar, bits);
  }
  /// The same for the I-th of the arguments that the graph owns, as input<I>() counts them.
  template <std::size_t I, class X>
  void set(X value, SourceLocation where = SourceLocation::current()) {
    static_assert(I < sizeof...(In),
                  "the graph owns fewer arguments: set<I>(value) counts those that are not lvalues, from 0");
    if constexpr (I < sizeof...(In)) {
      constexpr bool number = detail::is_graph_scalar<std::tuple_element_t<I, std::tuple<In...>>>;
      static_assert(number, "set<I>(value) changes a GraphScalar: pass one to capture(), and to the kernels");
      if constexpr (number) set(input<I>(where), value, where);
    }
  }

  Device device(SourceLocation where = SourceLocation::current()) const { return graph_.device(where); }
  /// Launches and other pieces of work that were recorded, those in bodies of loops and branches included.
  std::size_t work_count() const noexcept { return graph_.work_count(); }
  /// The memory of its temporaries.
  runtime::GraphMemory memory() const noexcept { return graph_.memory(); }

 private:
  template <class O, class T>
  friend struct detail::GraphType;
  template <class O, class... I>
  friend void save_graph(const Graph<O, I...>&, const std::string&, SourceLocation);
  Graph(std::unique_ptr<detail::GraphValues<Out, In...>> values, detail::GraphHandle graph) noexcept
      : values_(std::move(values)), graph_(std::move(graph)) {}
  std::unique_ptr<detail::GraphValues<Out, In...>> values_;
  detail::GraphHandle graph_;
};

namespace detail {
template <class Out, class... In>
struct GraphType<Out, std::tuple<In...>> {
  using graph = Graph<Out, In...>;
  using values = GraphValues<Out, In...>;
  static graph make(std::unique_ptr<values> all, GraphHandle handle) {
    return graph(std::move(all), std::move(handle));
  }
};

/// Runs what a function has made on the recording stream, and keeps its result.
template <class Out, class Values, class X>
void capture_result(X&& captured, Values& values, const Stream& stream, SourceLocation where) {
  if constexpr (std::is_void_v<Out>) {
    std::move(captured).on(stream, where);
  } else {
    values.output.emplace(std::move(captured).on(stream, where));
  }
}
/// Runs `call(stream)`, which enqueues itself.
template <class Out, class Values, class Call>
void capture_scope(Call&& call, Values& values, const Stream& stream) {
  if constexpr (std::is_void_v<Out>) {
    call(stream);
  } else {
    values.output.emplace(call(stream));
  }
}
}  // namespace detail

/// Records what f(arguments...) enqueues, on the default device: its body runs once, its work does not. `f` returns a
/// Flow or an Op; or it is a scope, f(stream, arguments...), that enqueues on the stream (.on(stream)) and returns any
/// value. Arguments given with std::move belong to the graph, and `f` takes them by reference (State&); others are
/// passed as they are, and must live as long as this call; the memory of their tensors is kept by the graph. Throws
/// what `f` throws, DeviceError for what cannot be captured, and BorrowError if a tensor that the work writes is shared
/// when the capture ends. Arguments given with std::move are the caller's again then.
template <class F, class... A>
  requires(!detail::is_op<std::remove_cvref_t<F>> && !detail::is_flow<std::remove_cvref_t<F>>)
auto capture(F&& f, A&&... arguments) {
  constexpr bool scope = detail::is_scope<F, A...>;
  static_assert(
      scope || std::is_invocable_v<F&, std::remove_reference_t<A>&...>,
      "a captured flow takes its arguments by reference (State&, const Model&): what the graph owns stays in the "
      "graph");
  using Out = typename detail::Captured<scope, F, A...>::type;
  using Type = detail::GraphType<Out, detail::OwnedTuple<A...>>;
  detail::check_function(f, "capture()", {});
  std::unique_ptr<typename Type::values> values(
      new typename Type::values{std::tuple_cat(detail::owned_argument(std::forward<A>(arguments))...), {}});
  const auto call = [&]<std::size_t... I>(std::index_sequence<I...>, const Stream& stream) -> decltype(auto) {
    if constexpr (scope) {
      return f(stream, *detail::graph_argument<detail::graph_owns<A>, detail::owned_before<I, A...>()>(values->inputs,
                                                                                                       arguments)...);
    } else {
      return f(*detail::graph_argument<detail::graph_owns<A>, detail::owned_before<I, A...>()>(values->inputs,
                                                                                               arguments)...);
    }
  };
  constexpr std::index_sequence_for<A...> numbers;
  const auto body = [&](const Stream& stream) {
    if constexpr (scope) {
      detail::capture_scope<Out>([&](const Stream& s) -> decltype(auto) { return call(numbers, s); }, *values, stream);
    } else {
      detail::capture_result<Out>(call(numbers, stream), *values, stream, SourceLocation());
    }
  };
  try {
    detail::GraphHandle graph(default_device(), body, SourceLocation());
    return Type::make(std::move(values), std::move(graph));
  } catch (...) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (detail::give_back<detail::graph_owns<A>, detail::owned_before<I, A...>()>(values->inputs, arguments), ...);
    }(numbers);
    throw;
  }
}

/// Records an operation or a flow that exists already: capture(kernel<K>(mut(y), x)).
template <class X>
  requires(!std::is_lvalue_reference_v<X> && (detail::is_op<X> || detail::is_flow<X>))
auto capture(X&& work, SourceLocation where = SourceLocation::current()) {
  using Out = typename X::value_type;
  using Type = detail::GraphType<Out, std::tuple<>>;
  detail::Reach::check_live(work, where);
  auto values = std::make_unique<typename Type::values>();
  detail::GraphHandle graph(
      default_device(),
      [&](const Stream& stream) {
        X ends = std::move(work);  // with the recording, and what it holds
        detail::capture_result<Out>(std::move(ends), *values, stream, where);
      },
      where);
  return Type::make(std::move(values), std::move(graph));
}

/// Only reports that an operation that has a name must be moved.
template <class X>
  requires(detail::is_op<X> || detail::is_flow<X>)
void capture(X&) {
  static_assert(detail::never_true<X>, "capturing an operation or a flow consumes it: write capture(std::move(x))");
}

namespace detail {
void write_graph(const GraphHandle& graph, const std::string& path, SourceLocation where);
}

/// Writes a picture of the graph: kernels by name and line, edges by the tensors that cause them. `path` ends with .svg
/// or .dot (Graphviz). Throws IoError.
template <class Out, class... In>
void save_graph(const Graph<Out, In...>& graph, const std::string& path,
                SourceLocation where = SourceLocation::current()) {
  detail::write_graph(graph.graph_, path, where);
}

}  // namespace tessera
