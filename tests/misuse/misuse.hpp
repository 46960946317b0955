// Misuse of public entries, derived from one legal call each. A row is such a call, written with operands from a Call:
//
//   MISUSE(CopyIntoLent, "copy_into") {
//     auto& to = c.out<f32, 2>({4, 6});
//     copy_into(mut(to), c.view<f32, 2>({4, 6})).sync();
//     c.result(to);
//   }
//
// The row is run as it stands, which must succeed, and then once for every way in which one of its operands can be
// wrong or unusual: empty, in use by an operation that has not run, the storage of another operand, an axis longer or
// without elements, elements that are not neighbours, extents and numbers out of range, a stream of another device.
// Each must have the outcome of its kind of change: a tessera::Error with the row's own file and line, or the legal
// call's result. After an error every operand is as it was, and the legal call with these operands succeeds. The errors
// of work in flight also say what to do (a second line), as all errors should.
// docs/testing.md.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <tessera/tessera.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace tessera::misuse {

/// The expected outcome of a changed operand.
enum class Outcome : std::uint8_t {
  Rejected,  ///< a tessera::Error
  Same,      ///< the result of the legal call
  Either,    ///< an error, or any result
};
struct Variant {
  std::string what;
  Outcome outcome;
  /// What the error says, its class included ("BorrowError"). Of an error that the row itself throws, the whole
  /// message.
  std::vector<std::string> says = {};
};

/// The contents of operands: element i, row-major.
using Fill = double (*)(std::int64_t);
inline double small_numbers(std::int64_t i) { return static_cast<double>(i % 5); }

/// The operands of a row, and their expected state afterwards.
class Operand {
 public:
  virtual ~Operand() = default;
  /// The difference from its initial state; empty if there is none.
  virtual std::string changed() const = 0;
  /// Ends the conflicting uses of it.
  virtual void release() {}
};

template <Element T>
std::vector<T> values_of(std::int64_t count, Fill fill) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_arithmetic_v<T>)
      values.push_back(static_cast<T>(fill(i)));
    else
      values.push_back(T(static_cast<float>(fill(i))));
  }
  return values;
}
/// Elements of any type as bytes.
template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes;
  for (const T& value : values) bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  return bytes;
}
inline std::string bytes_of(const std::vector<bool>& values) { return {values.begin(), values.end()}; }

/// A tensor with contents, and its conflicting uses.
template <Element T, int R>
class TensorOperand final : public Operand {
 public:
  TensorOperand(const Dims<R>& dims, Fill fill) : values_(values_of<T>(dims.numel(), fill)) {
    tensor = from(values_, dims).sync();
  }
  std::string changed() const override {
    const View<T, R> v = view();
    if (!v_exists(v)) return emptied ? "" : "it is empty";
    if (emptied) return "it is not empty any more";
    if (bytes_of(host(v).sync()) != bytes_of(values_)) return "its elements have changed";
    return "";
  }
  void release() override {
    reader.reset();
    writer.reset();
    exported.reset();
  }
  void empty_it() {
    tensor = Tensor<T, R>();
    emptied = true;
  }
  /// An empty view if there is no tensor.
  View<T, R> view() const {
    try {
      return detail::Reach::layout(tensor).storage ? look(tensor) : View<T, R>();
    } catch (const Error&) { return {}; }
  }
  /// The values, as an operation's operand.
  const std::vector<T>& values() const { return values_; }

  Tensor<T, R> tensor;
  bool emptied = false;
  std::unique_ptr<Op<std::vector<T>>> reader;
  std::unique_ptr<Op<void>> writer;
  dlpack::Ptr<dlpack::ManagedTensorVersioned> exported;

 private:
  static View<T, R> look(TESSERA_ARG_LIVE const Tensor<T, R>& t) { return t.view(); }
  static bool v_exists(const View<T, R>& v) { return static_cast<bool>(detail::Reach::layout(v).storage); }
  std::vector<T> values_;
};

/// One run of a row.
class Call {
 public:
  /// As it stands, or with one operand changed.
  Call() = default;
  Call(int site, int variant) : site_(site), variant_(variant) {}

  /// An extent of a tensor that is created.
  Extent extent(std::int64_t legal, SourceLocation where = SourceLocation::current());
  /// A bound of a slice of an axis with `length` elements.
  Extent bound(std::int64_t legal, std::int64_t length, SourceLocation where = SourceLocation::current());
  /// An axis of a tensor of this rank.
  int axis(int legal, int rank, SourceLocation where = SourceLocation::current());
  /// A stream of the CPU; of another device it must be rejected, or may be.
  Stream stream(Outcome elsewhere = Outcome::Rejected, SourceLocation where = SourceLocation::current());
  /// Any other operand: `wrong` says how it is changed, in the order of the numbers that are returned (-1: legal).
  int other(std::vector<Variant> wrong, SourceLocation where = SourceLocation::current()) {
    return choose(std::move(wrong), where);
  }
  /// A number for an element type T.
  template <Element T>
  auto number(double legal, SourceLocation where = SourceLocation::current()) {
    if constexpr (std::is_integral_v<T>)
      return integer(static_cast<long long>(legal), std::numeric_limits<T>::min(), std::numeric_limits<T>::max(),
                     where);
    else
      return floating(legal, where);
  }

  /// A tensor that the call writes: lend it with mut(), or give it with std::move().
  template <Element T, int R>
  Tensor<T, R>& out(const Dims<R>& dims, Fill fill = small_numbers, SourceLocation where = SourceLocation::current()) {
    return tensor<T, R>(dims, fill, true, where);
  }
  /// A tensor that it reads.
  template <Element T, int R>
  const Tensor<T, R>& in(const Dims<R>& dims, Fill fill = small_numbers,
                         SourceLocation where = SourceLocation::current()) {
    return tensor<T, R>(dims, fill, false, where);
  }
  template <Element T, int R>
  View<T, R> view(const Dims<R>& dims, Fill fill = small_numbers, SourceLocation where = SourceLocation::current());
  template <Element T, int R>
  Shared<T, R> shared(const Dims<R>& dims, Fill fill = small_numbers, SourceLocation where = SourceLocation::current());
  /// An operation that makes a tensor.
  template <Element T, int R>
  Op<Tensor<T, R>> op(const Dims<R>& dims, Fill fill = small_numbers, SourceLocation where = SourceLocation::current());

  /// The result of the call: the row's last statements.
  template <Element T, int R>
  void result(const View<T, R>& x, SourceLocation where = SourceLocation::current()) {
    note(x.dims(where).to_string() + bytes_of(host(x, where).sync(where)), where);
  }
  template <Element T, int R>
  void result(TESSERA_ARG_LIVE const Tensor<T, R>& x, SourceLocation where = SourceLocation::current()) {
    result(x.view(where), where);
  }
  template <Element T, int R>
  void result(const Shared<T, R>& x, SourceLocation where = SourceLocation::current()) {
    result(x.view(where), where);
  }
  template <class T>
  void result(const std::vector<T>& x, SourceLocation where = SourceLocation::current()) {
    note(bytes_of(x), where);
  }
  template <class T>
    requires std::is_arithmetic_v<T>
  void result(T x, SourceLocation where = SourceLocation::current()) {
    note(std::to_string(x), where);
  }
  void result(const std::string& x, SourceLocation where = SourceLocation::current()) { note(x, where); }

  /// A tensor that is given to a call which does not touch its elements.
  template <Element T, int R>
  Tensor<T, R>& given(const Dims<R>& dims, Fill fill = small_numbers,
                      SourceLocation where = SourceLocation::current()) {
    return tensor<T, R>(dims, fill, false, where);
  }
  /// The row's last statement if the call has no result, only an effect elsewhere.
  void done(SourceLocation where = SourceLocation::current()) { note("", where); }
  /// The call cannot know its caller's line, because its parameters end with a pack. Its errors have no location.
  void has_no_place() { no_place_ = true; }
  /// Written operands are copies: operands may share storage, and be read meanwhile.
  void writes_copies() { written_twice_ = Outcome::Same; }
  /// The call only reads extents: operands may be in use.
  void looks_only() { in_use_ = Outcome::Same; }
  /// The expected outcome for views whose elements are not contiguous; from here on in the row.
  void elements_apart(Outcome outcome) { apart_ = outcome; }

  // -- for the runner --
  const std::vector<std::vector<Variant>>& sites() const { return sites_; }
  const std::string& results() const { return results_; }
  std::uint32_t last_line() const { return last_line_; }
  bool no_place() const { return no_place_; }
  /// The first operand that has changed.
  std::string changed() const;
  /// Ends the conflicting uses of operands. The next run of the row is legal, with the operands of this one that were
  /// not changed; with new ones for all if `again` is false.
  void make_legal(bool again);

 private:
  int choose(std::vector<Variant> variants, SourceLocation where);
  void note(const std::string& text, SourceLocation where);
  long long integer(long long legal, long long least, unsigned long long most, SourceLocation where);
  double floating(double legal, SourceLocation where);
  /// The operand of the site that was entered last: the one of the run before, or a new one.
  template <class O>
  O& operand(const std::function<std::unique_ptr<O>()>& make) {
    const std::size_t at = sites_.size() - 1;
    if (operands_.size() <= at) operands_.resize(at + 1);
    if (!operands_[at]) operands_[at] = make();
    return static_cast<O&>(*operands_[at]);
  }
  template <Element T, int R>
  Tensor<T, R>& tensor(const Dims<R>& dims, Fill fill, bool written, SourceLocation where);

  int site_ = -1, variant_ = -1;
  Outcome apart_ = Outcome::Same, in_use_ = Outcome::Rejected, written_twice_ = Outcome::Rejected;
  bool no_place_ = false;
  std::vector<std::vector<Variant>> sites_;
  std::vector<std::unique_ptr<Operand>> operands_;  ///< by site; some have none
  std::string results_;
  std::uint32_t last_line_ = 0;
  /// The tensors that the call writes, for other operands that are the same storage: by type.
  struct Written {
    const void* type;
    void* operand;
    std::vector<std::int64_t> dims;
  };
  std::vector<Written> written_;
  /// Those of this type and these extents, and a variant for each.
  template <class O>
  std::vector<O*> same_storages(const void* type, std::span<const std::int64_t> dims, std::vector<Variant>& variants) {
    std::vector<O*> same;
    for (const Written& w : written_) {
      if (w.type != type || !std::equal(w.dims.begin(), w.dims.end(), dims.begin(), dims.end())) continue;
      same.push_back(static_cast<O*>(w.operand));
      variants.push_back({"the storage of a tensor that the call writes", written_twice_});
    }
    return same;
  }
};

struct Row {
  const char* entry;
  const char* file;
  std::uint32_t line;
  void (*run)(Call&);
};
/// True for rows about flows, streams, graphs, memory, and what is exchanged with other libraries.
bool about_work_in_flight(const Row& row);
/// Runs a row in all its variants; failures are reported to GoogleTest.
void check(const Row& row);
/// Adds a row to the table. Always true.
bool add(const Row& row);
/// How many rows of the table `about` accepts, and how many misuses they make that must be rejected.
struct Size {
  std::size_t rows = 0, rejected = 0;
};
Size size_of_table(bool (*about)(const Row& row));

/// A row: the public entry that it is about, as tests/structure/misuse.py knows it.
#define MISUSE(name, entry)                                                               \
  static void misuse_##name(tessera::misuse::Call& c);                                    \
  static const tessera::misuse::Row row_##name{entry, __FILE__, __LINE__, misuse_##name}; \
  [[maybe_unused]] static const bool added_##name = tessera::misuse::add(row_##name);     \
  TEST(Misuse, name) { tessera::misuse::check(row_##name); }                              \
  static void misuse_##name([[maybe_unused]] tessera::misuse::Call& c)

// ---- operands ------------------------------------------------------------------------------------------------------

namespace impl {

template <class T, int R>
inline constexpr char type_of = 0;

/// One variant per axis: longer by one, and without elements.
template <int R>
void add_extents(std::vector<Variant>& variants) {
  for (int axis = 0; axis < R; ++axis) {
    variants.push_back({"axis " + std::to_string(axis) + " longer", Outcome::Either});
    variants.push_back({"axis " + std::to_string(axis) + " without elements", Outcome::Either});
  }
}
/// The extents of the n-th of these.
template <int R>
Dims<R> changed_extents(const Dims<R>& dims, int n) {
  auto d = dims.array();
  auto& changed = d[static_cast<std::size_t>(n / 2)];
  changed = n % 2 == 0 ? changed + 1 : 0;
  return Dims<R>::from(d);
}

/// The same elements, `gap` apart along the last axis of the memory, or with the axes of the memory in reverse.
template <Element T, int R>
View<T, R> scattered(const std::vector<T>& values, const Dims<R>& dims, bool reversed) {
  auto d = dims.array();
  const auto last = static_cast<std::size_t>(R - 1);
  if (!reversed) {
    d[last] += 3;
    auto base = zeros<T>(Dims<R>::from(d)).sync();
    copy_into(mut(base).template slice<R - 1>(2, 2 + dims[R - 1]), from(values, dims)).sync();
    return base.template slice<R - 1>(2, 2 + dims[R - 1]);
  }
  std::reverse(d.begin(), d.end());
  auto base = zeros<T>(Dims<R>::from(d)).sync();
  return [&]<int... A>(std::integer_sequence<int, A...>) {
    copy_into(mut(base).template permute<(R - 1 - A)...>(), from(values, dims)).sync();
    return base.template permute<(R - 1 - A)...>();
  }(std::make_integer_sequence<int, R>{});
}

}  // namespace impl

template <Element T, int R>
Tensor<T, R>& Call::tensor(const Dims<R>& dims, Fill fill, bool written, SourceLocation where) {
  using O = TensorOperand<T, R>;
  std::vector<Variant> variants{{"an empty tensor", Outcome::Rejected}, {"a tensor that an operation writes", in_use_}};
  impl::add_extents<R>(variants);
  if (written) variants.push_back({"a tensor that an operation reads", written_twice_});
  if (written) variants.push_back({"a tensor whose elements are exported", written_twice_});
  const std::vector<O*> same = written ? same_storages<O>(&impl::type_of<T, R>, dims, variants) : std::vector<O*>();
  const int chosen = choose(variants, where), first = 2 + 2 * R;
  O& o = operand<O>([&] {
    const bool other = chosen >= 2 && chosen < first;
    return std::make_unique<O>(other ? impl::changed_extents(dims, chosen - 2) : dims, fill);
  });
  if (chosen == 0) o.empty_it();
  if (chosen == 1) o.writer = std::make_unique<Op<void>>(copy_into(mut(o.tensor), zeros<T>(dims)));
  if (chosen == first) o.reader = std::make_unique<Op<std::vector<T>>>(host(o.view()));
  if constexpr (!std::is_same_v<T, tf32>) {
    if (chosen == first + 1) o.exported = to_dlpack(o.view());
  }
  if (chosen >= first + 2) return same[static_cast<std::size_t>(chosen - first - 2)]->tensor;
  if (written) written_.push_back({&impl::type_of<T, R>, &o, {dims.begin(), dims.end()}});
  return o.tensor;
}

template <Element T, int R>
View<T, R> Call::view(const Dims<R>& dims, Fill fill, SourceLocation where) {
  using O = TensorOperand<T, R>;
  std::vector<Variant> variants{{"an empty view", Outcome::Rejected},
                                {"a view of a tensor that an operation writes", in_use_},
                                {"a view whose elements are apart", apart_},
                                {"a view of memory with its axes in reverse", R > 1 ? apart_ : Outcome::Same}};
  impl::add_extents<R>(variants);
  const std::vector<O*> same = same_storages<O>(&impl::type_of<T, R>, dims, variants);
  const int chosen = choose(variants, where), first = 4 + 2 * R;
  const bool other = chosen >= 4 && chosen < first;
  O& o = operand<O>([&] { return std::make_unique<O>(other ? impl::changed_extents(dims, chosen - 4) : dims, fill); });
  if (chosen == 0) return {};
  if (chosen == 1) o.writer = std::make_unique<Op<void>>(copy_into(mut(o.tensor), zeros<T>(dims)));
  if (chosen == 2 || chosen == 3) return impl::scattered<T, R>(o.values(), dims, chosen == 3);
  if (chosen >= first) return same[static_cast<std::size_t>(chosen - first)]->view();
  return o.view();
}

template <Element T, int R>
Shared<T, R> Call::shared(const Dims<R>& dims, Fill fill, SourceLocation where) {
  std::vector<Variant> variants{{"an empty Shared", Outcome::Rejected}};
  impl::add_extents<R>(variants);
  const int chosen = choose(variants, where);
  if (chosen == 0) return {};
  const Dims<R> d = chosen > 0 ? impl::changed_extents(dims, chosen - 1) : dims;
  return share(from(values_of<T>(d.numel(), fill), d).sync());
}

template <Element T, int R>
Op<Tensor<T, R>> Call::op(const Dims<R>& dims, Fill fill, SourceLocation where) {
  std::vector<Variant> variants{{"an operation that was run", Outcome::Rejected},
                                {"an operation whose extents are not known yet", Outcome::Same}};
  impl::add_extents<R>(variants);
  const int chosen = choose(variants, where);
  const Dims<R> d = chosen >= 2 ? impl::changed_extents(dims, chosen - 2) : dims;
  auto made = from(values_of<T>(d.numel(), fill), d);
  if (chosen == 0) (void)std::move(made).sync();
  if (chosen == 1) return std::move(made).then([](Tensor<T, R> t) { return clone(t); });
  return made;
}

/// A path of this process, and of none of its threads: rows run one after the other.
inline std::string path_of(const char* name) {
  return (std::filesystem::temp_directory_path() / concat("tessera_misuse_", getpid(), "_", name)).string();
}

}  // namespace tessera::misuse
