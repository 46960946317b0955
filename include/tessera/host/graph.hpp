// capture(flow function, arguments...) records what a flow enqueues; Graph replays it. docs/graphs.md.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tessera/host/flow.hpp"
#include "tessera/host/op.hpp"

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
  /// Number of entries and of storages.
  std::size_t work_count() const noexcept;
  std::size_t storage_count() const noexcept;
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
template <class F, class... A>
using CapturedFlow = std::invoke_result_t<F&, std::remove_reference_t<A>&...>;

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
  /// moved, given or shared since.
  Op<void> replay(SourceLocation where = SourceLocation::current()) const { return graph_.replay(where); }

  /// What was given to capture() with std::move, in order. Tensors in it may be read and lent (mut) between replays.
  template <std::size_t I>
  auto& input(SourceLocation where = SourceLocation::current()) {
    static_assert(I < sizeof...(In), "the graph owns fewer arguments: input<I>() counts those given with std::move");
    graph_.check_live(where);
    return std::get<I>(values_->inputs);
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
  Device device(SourceLocation where = SourceLocation::current()) const { return graph_.device(where); }
  /// Pieces of work of one replay.
  std::size_t work_count() const noexcept { return graph_.work_count(); }

 private:
  template <class F, class... A>
  friend auto capture(F&& f, A&&... arguments);
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
};

/// Runs a flow or an operation on the recording stream, and keeps its result.
template <class Out, class Values, class X>
void capture_result(X&& captured, Values& values, const Stream& stream) {
  if constexpr (std::is_void_v<Out>) {
    std::move(captured).on(stream);
  } else {
    values.output.emplace(std::move(captured).on(stream));
  }
}
}  // namespace detail

/// Records the flow f(arguments...) on the default device: its body runs once, its work does not. Arguments given with
/// std::move belong to the graph, and the flow takes them by reference (State&); others are passed as they are, and
/// must live as long as this call; the memory of their tensors is kept by the graph. Throws what the flow throws, and
/// DeviceError for what cannot be captured.
template <class F, class... A>
auto capture(F&& f, A&&... arguments) {
  static_assert(
      std::is_invocable_v<F&, std::remove_reference_t<A>&...>,
      "a captured flow takes its arguments by reference (State&, const Model&): what the graph owns stays in the "
      "graph");
  using Captured = detail::CapturedFlow<F, A...>;
  static_assert(detail::is_flow<Captured> || detail::is_op<Captured>,
                "capture() takes a function that returns a Flow or an Op");
  using Out = typename Captured::value_type;
  using Type = detail::GraphType<Out, detail::OwnedTuple<A...>>;
  std::unique_ptr<typename Type::values> values(
      new typename Type::values{std::tuple_cat(detail::owned_argument(std::forward<A>(arguments))...), {}});
  const auto call = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return f(
        *detail::graph_argument<detail::graph_owns<A>, detail::owned_before<I, A...>()>(values->inputs, arguments)...);
  };
  detail::GraphHandle graph(
      default_device(),
      [&](const Stream& stream) {
        detail::capture_result<Out>(call(std::index_sequence_for<A...>()), *values, stream);
      },
      SourceLocation());
  return typename Type::graph(std::move(values), std::move(graph));
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
