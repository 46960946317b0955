// Op<T>: one lazy operation on a device. Building it checks arguments and takes leases; running it enqueues its work
// and returns the result at once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/base/stack.hpp"
#include "tessera/host/tensor.hpp"
#include "tessera/runtime/stream.hpp"

namespace tessera {

namespace jit {
struct CodeReport;
}

namespace detail {

/// The target of compiling an operation without running it.
struct CompileRequest {
  Device device;
  int gpu = 0;  ///< compute capability of a GPU that is not present, 90 for sm_90; 0: `device`
};

/// The interface of every operation before it runs.
class OpBase {
 public:
  OpBase() = default;
  OpBase(const OpBase&) = delete;
  OpBase& operator=(const OpBase&) = delete;
  virtual ~OpBase();
  /// The device that its operands live on; null if it runs anywhere.
  virtual runtime::Backend* device() const noexcept;
  /// For an operation that makes a tensor: sets the extents and strides of that tensor and returns true if they are
  /// already known.
  virtual bool promise(std::span<std::int64_t> dims, std::span<std::int64_t> strides) const noexcept;

  /// Compiles the code that running needs, for the device of `stream` or for a GPU that is not present, and runs
  /// nothing. False if the operation is not the launch of one kernel, or its operands are operations themselves.
  virtual bool compile(const CompileRequest& request, jit::CodeReport& report);

  /// Appends the work that running the operation on `stream` would make the host wait for, and enqueues what comes
  /// before it. A flow calls it before run(), to be suspended meanwhile. Nothing for operations that only enqueue.
  virtual void before_waiting(const Stream& stream, std::vector<runtime::Ticket>& work);

  // The memory of operations is reused, so a launch that was made before allocates nothing (op_memory.cpp).
  static void* operator new(std::size_t bytes);
  static void operator delete(void* memory, std::size_t bytes) noexcept;
  static void* operator new(std::size_t bytes, std::align_val_t alignment);
  static void operator delete(void* memory, std::size_t bytes, std::align_val_t alignment) noexcept;
};

template <class T>
class OpNode : public OpBase {
 public:
  /// Enqueues; called once.
  virtual T run(const Stream& stream) = 0;
};

// Operations are operands of each other as deep as users make them, so each is run, asked and destroyed where the stack
// suffices for the next (tessera/base/stack.hpp).

/// Destroys an operation. One whose operands need more stack, for which there is no memory, is leaked.
inline void destroy_op(OpBase* op) noexcept {
  try_with_stack([&] { delete op; });
}
/// The owner of an operation that has not run. (A std::unique_ptr makes a tuple and its functions for each type, which
/// was a sixth of the time that files with many kernels compile.)
template <class Node>
class OwnedOp {
 public:
  OwnedOp() noexcept = default;
  explicit OwnedOp(Node* op) noexcept : op_(op) {}
  OwnedOp(OwnedOp&& other) noexcept : op_(other.release()) {}
  template <class Derived>
  OwnedOp(OwnedOp<Derived>&& other) noexcept : op_(other.release()) {}  // NOLINT: as of pointers
  OwnedOp& operator=(OwnedOp&& other) noexcept {
    Node* const next = other.release();  // first: it may be this one
    Node* const before = op_;
    op_ = next;
    if (before != nullptr) destroy_op(before);
    return *this;
  }
  ~OwnedOp() {
    if (op_ != nullptr) destroy_op(op_);
  }
  Node* release() noexcept {
    Node* const op = op_;
    op_ = nullptr;
    return op;
  }
  Node* get() const noexcept { return op_; }
  Node& operator*() const noexcept { return *op_; }
  Node* operator->() const noexcept { return op_; }
  explicit operator bool() const noexcept { return op_ != nullptr; }

 private:
  Node* op_ = nullptr;
};

/// node.run(stream)
template <class T>
T run_node(OpNode<T>& node, const Stream& stream) {
  return with_stack([&]() -> T { return node.run(stream); });
}
/// op.before_waiting(stream, work)
inline void before_waiting_for(OpBase& op, const Stream& stream, std::vector<runtime::Ticket>& work) {
  with_stack([&] { op.before_waiting(stream, work); });
}
/// op.device(); null, too, if there is no memory for a stack.
inline runtime::Backend* device_of(const OpBase& op) noexcept {
  runtime::Backend* device = nullptr;
  try_with_stack([&] { device = op.device(); });
  return device;
}

[[noreturn]] void throw_spent_op(SourceLocation where);
[[noreturn]] void throw_null_function(const char* what, SourceLocation where);
/// Throws BorrowError for a null pointer to a function, or an empty std::function.
template <class F>
void check_function(const F& f, const char* what, SourceLocation where) {
  if constexpr (std::is_constructible_v<F, std::nullptr_t> && std::is_constructible_v<bool, const F&>) {
    if (!static_cast<bool>(f)) [[unlikely]] { throw_null_function(what, where); }
  }
}
bool recording_a_kernel() noexcept;
[[noreturn]] void throw_while_recording(const char* what, SourceLocation where);
/// A kernel's body runs once, while it is recorded: an operation that it runs would run then, and not in the kernel.
/// Throws a TraceError on a thread that is recording; `what` is "kernel k", null for any other operation.
inline void check_not_recording(const char* what, SourceLocation where) {
  if (recording_a_kernel()) [[unlikely]] { throw_while_recording(what, where); }
}
/// Throws the DeviceError for host memory that ran out while recording, compiling or enqueuing.
[[noreturn]] void throw_no_memory_to_run(SourceLocation where);
/// Throws DeviceError for a stream that is being captured: the work does not run now, so nothing can wait for it.
void check_can_wait(const Stream& stream, SourceLocation where);
/// Calls run(state), which enqueues an operation's work on `stream`, where the stack suffices for it. With `wait` it
/// waits for that work and throws its failure, and what check_can_wait() throws. Host memory that runs out is a
/// DeviceError.
void run_operation(void (*run)(void*), void* state, const Stream& stream, bool wait, SourceLocation where);
/// The stream that sync() uses: the default one of the operation's device.
Stream stream_for(const OpBase& op, SourceLocation where);

/// The state of run_operation().
template <class T>
struct Running {
  OpNode<T>& node;
  const Stream& stream;
  std::optional<T> result{};
  static void call(void* state) {
    auto& self = *static_cast<Running*>(state);
    self.result.emplace(self.node.run(self.stream));
  }
};
template <>
struct Running<void> {
  OpNode<void>& node;
  const Stream& stream;
  static void call(void* state) {
    auto& self = *static_cast<Running*>(state);
    self.node.run(self.stream);
  }
};

}  // namespace detail

/// A lazy operation whose result is a T (void: it only has effects). Move-only; running it consumes it. It holds its
/// leases until it has been enqueued or destroyed.
template <class T>
class [[nodiscard("an operation does nothing until it is run: write .sync() or .on(stream)")]] Op {
 public:
  using value_type = T;
  /// Takes `node`, which `new` made.
  explicit Op(detail::OpNode<T>* node) noexcept : node_(node) {}
  Op(Op&&) noexcept = default;
  Op& operator=(Op&&) noexcept = default;

  /// Runs on the default stream of the operation's device and waits. Throws the errors of operations among its
  /// operands, TraceError, CompileError, and the DeviceError of work that failed.
  [[nodiscard("the result owns the tensors that were given")]] T sync(
      SourceLocation where = SourceLocation::current()) && {
    const Stream stream = detail::stream_for(live(where), where);
    return run(stream, true, where);
  }
  /// The same on a stream of the caller's.
  [[nodiscard("the result owns the tensors that were given")]] T sync(
      const Stream& stream, SourceLocation where = SourceLocation::current()) && {
    return run(stream, true, where);
  }
  /// Enqueues on `stream` and returns at once. A tensor in the result can be used immediately, on any stream: dependent
  /// work is ordered after it. Throws as sync(), except the errors of the work itself, which are thrown where its
  /// result is waited for.
  [[nodiscard("the result owns the tensors that were given")]] T on(
      const Stream& stream, SourceLocation where = SourceLocation::current()) && {
    return run(stream, false, where);
  }

  /// An operation that runs this, then the operation that `f(result)` returns, on the same stream. What `f` gets ends
  /// with it if it throws.
  template <class F>
  auto then(F f, SourceLocation where = SourceLocation::current()) &&;

  // An operation that has a name must be moved: these two overloads only report that.
  template <class X = T>
  T sync() & {
    static_assert(detail::never_true<X>, "running an operation consumes it: write std::move(op).sync()");
  }
  template <class X = T>
  T on(const Stream&) & {
    static_assert(detail::never_true<X>, "running an operation consumes it: write std::move(op).on(stream)");
  }

 private:
  friend detail::Reach;
  detail::OpNode<T>& live(SourceLocation where) const {
    if (!node_) [[unlikely]] { detail::throw_spent_op(where); }
    return *node_;
  }
  detail::OwnedOp<detail::OpNode<T>> take(SourceLocation where) {
    live(where);
    return std::move(node_);
  }
  detail::OwnedOp<detail::OpNode<T>> take_to_run(SourceLocation where) {
    detail::check_not_recording(nullptr, where);
    return take(where);
  }
  T run(const Stream& stream, bool wait, SourceLocation where) {
    const auto node = take_to_run(where);
    detail::Running<T> running{*node, stream};
    detail::run_operation(detail::Running<T>::call, &running, stream, wait, where);
    if constexpr (!std::is_void_v<T>) return std::move(*running.result);
  }
  detail::OwnedOp<detail::OpNode<T>> node_;
};

namespace detail {

template <class T>
inline constexpr bool is_op<Op<T>> = true;

template <class T, class F>
struct ThenTraits {
  using type = std::invoke_result_t<F&, T>;
};
template <class F>
struct ThenTraits<void, F> {
  using type = std::invoke_result_t<F&>;
};

template <class T, class F, class U>
class ThenNode final : public OpNode<U> {
 public:
  /// Takes `first` if it does not throw.
  ThenNode(OwnedOp<OpNode<T>>& first, F&& f, SourceLocation where) : f_(std::move(f)), where_(where) {
    first_ = std::move(first);
  }
  runtime::Backend* device() const noexcept override { return device_of(*first_); }
  void before_waiting(const Stream& stream, std::vector<runtime::Ticket>& work) override {
    before_waiting_for(*first_, stream, work);
  }
  U run(const Stream& stream) override {
    const auto first = std::move(first_);
    if constexpr (std::is_void_v<T>) {
      run_node(*first, stream);
      return f_().on(stream, where_);
    } else {
      return f_(run_node(*first, stream)).on(stream, where_);
    }
  }

 private:
  OwnedOp<OpNode<T>> first_;
  F f_;
  SourceLocation where_;  ///< of the call of then()
};

/// Runs an operation; returns its result as a tuple of one element, or of none.
template <class T>
auto run_to_tuple(Op<T>& op, const Stream& stream) {
  if constexpr (std::is_void_v<T>) {
    std::move(op).on(stream);
    return std::tuple<>();
  } else {
    return std::tuple<T>(std::move(op).on(stream));
  }
}
template <class T>
using ResultTuple = std::conditional_t<std::is_void_v<T>, std::tuple<>, std::tuple<T>>;
template <class... T>
using JoinedTuple = decltype(std::tuple_cat(std::declval<ResultTuple<T>>()...));
template <class Tuple>
using TupleOrVoid = std::conditional_t<std::tuple_size_v<Tuple> == 0, void, Tuple>;

template <class... T>
class AllNode final : public OpNode<TupleOrVoid<JoinedTuple<T...>>> {
 public:
  explicit AllNode(Op<T>&&... ops) : ops_(std::move(ops)...) {}
  runtime::Backend* device() const noexcept override {
    runtime::Backend* found = nullptr;
    std::apply([&](const auto&... op) { ((found = found ? found : device_of(*Reach::node(op))), ...); }, ops_);
    return found;
  }
  void before_waiting(const Stream& stream, std::vector<runtime::Ticket>& work) override {
    std::apply([&](const auto&... op) { (before_waiting_for(*Reach::node(op), stream, work), ...); }, ops_);
  }
  TupleOrVoid<JoinedTuple<T...>> run(const Stream& stream) override {
    return std::apply(
        [&](auto&... op) -> TupleOrVoid<JoinedTuple<T...>> {
          std::tuple<ResultTuple<T>...> parts{run_to_tuple(op, stream)...};  // braces: in order
          if constexpr (!std::is_void_v<TupleOrVoid<JoinedTuple<T...>>>) {
            return std::apply([](auto&... part) { return std::tuple_cat(std::move(part)...); }, parts);
          }
        },
        ops_);
  }

 private:
  std::tuple<Op<T>...> ops_;
};

}  // namespace detail

template <class T>
template <class F>
auto Op<T>::then(F f, SourceLocation where) && {
  using Next = typename detail::ThenTraits<T, F>::type;
  static_assert(detail::is_op<Next>,
                "the function given to then() takes the result and returns the next operation, an Op");
  using U = typename Next::value_type;
  detail::check_function(f, "then()", where);
  live(where);
  return Op<U>(new detail::ThenNode<T, F, U>(node_, std::move(f), where));
}

namespace detail {
template <class... T>
using AllOf = Op<TupleOrVoid<JoinedTuple<T...>>>;

template <class... T>
AllOf<T...> all_of(SourceLocation where, Op<T>&... ops) {
  (Reach::check_live(ops, where), ...);
  return AllOf<T...>(new AllNode<T...>(std::move(ops)...));
}
}  // namespace detail

/// Combines operations into one, which runs them in order on one stream. Its result is the tuple of the results in
/// order, without operations that have no result (void if none has one). Throws BorrowError if one of them has been run
/// or moved already.
template <class A>
detail::AllOf<A> all(Op<A> a, SourceLocation where = SourceLocation::current()) {
  return detail::all_of(where, a);
}
template <class A, class B>
detail::AllOf<A, B> all(Op<A> a, Op<B> b, SourceLocation where = SourceLocation::current()) {
  return detail::all_of(where, a, b);
}
template <class A, class B, class C>
detail::AllOf<A, B, C> all(Op<A> a, Op<B> b, Op<C> c, SourceLocation where = SourceLocation::current()) {
  return detail::all_of(where, a, b, c);
}
template <class A, class B, class C, class D>
detail::AllOf<A, B, C, D> all(Op<A> a, Op<B> b, Op<C> c, Op<D> d, SourceLocation where = SourceLocation::current()) {
  return detail::all_of(where, a, b, c, d);
}
/// After a parameter pack the caller's line cannot be a default argument: the error of more than four operations has no
/// line.
template <class... T>
  requires(sizeof...(T) > 4)
detail::AllOf<T...> all(Op<T>... ops) {
  return detail::all_of({}, ops...);
}

namespace detail {
template <class T>
class ReadyNode final : public OpNode<T> {
 public:
  explicit ReadyNode(T&& value) : value_(std::move(value)) {}
  runtime::Backend* device() const noexcept override { return nullptr; }
  T run(const Stream&) override { return std::move(value_); }

 private:
  T value_;
};
}  // namespace detail

/// An operation that has this result and does nothing: what a function given to then() passes on, beside others in
/// all().
template <class T>
  requires(!std::is_lvalue_reference_v<T>)
Op<T> ready(T&& value) {
  return Op<T>(new detail::ReadyNode<T>(std::move(value)));
}

namespace detail {
/// The parts of a tuple; anything else as a tuple of one element.
template <class T>
std::tuple<T> parts_of_result(T&& value) {
  return std::tuple<T>(std::move(value));
}
template <class... T>
std::tuple<T...> parts_of_result(std::tuple<T...>&& values) {
  return std::move(values);
}
template <class... T>
auto flat_tuple(std::tuple<T...>&& values) {
  return std::apply([](T&... value) { return std::tuple_cat(parts_of_result(std::move(value))...); }, values);
}
template <class T>
using FlatTuple = decltype(flat_tuple(std::declval<T&&>()));

template <class T>
class FlatNode final : public OpNode<FlatTuple<T>> {
 public:
  explicit FlatNode(OwnedOp<OpNode<T>>& first) { first_ = std::move(first); }
  runtime::Backend* device() const noexcept override { return device_of(*first_); }
  void before_waiting(const Stream& stream, std::vector<runtime::Ticket>& work) override {
    before_waiting_for(*first_, stream, work);
  }
  FlatTuple<T> run(const Stream& stream) override { return flat_tuple(run_node(*std::move(first_), stream)); }

 private:
  OwnedOp<OpNode<T>> first_;
};
}  // namespace detail

/// The operation with the elements of tuples in its result in their places: {a, {b, c}}, which all() gives of
/// operations of which one has two results, becomes {a, b, c}. Throws BorrowError if the operation has been run or
/// moved already.
template <class... T>
Op<detail::FlatTuple<std::tuple<T...>>> flattened(Op<std::tuple<T...>> op,
                                                  SourceLocation where = SourceLocation::current()) {
  detail::Reach::check_live(op, where);
  return Op<detail::FlatTuple<std::tuple<T...>>>(new detail::FlatNode<std::tuple<T...>>(detail::Reach::node(op)));
}

}  // namespace tessera
