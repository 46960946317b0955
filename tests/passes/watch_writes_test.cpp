// The shadow that a kernel keeps for a GPU's checked mode finds what the CPU's checked mode finds: the same kernels
// over the same tensors, once as they were recorded beside the CPU's own map of what was written, once as the pass
// makes them beside shadows, once after the passes for a GPU as well.
#include "tessera/passes/watch_writes.hpp"

#include <algorithm>
#include <random>

#include "base/rounds.hpp"
#include "lang/run_kernel.hpp"
#include "passes/accepting.hpp"
#include "passes/pass_support.hpp"
#include "tessera/base/error.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::test;

// ---- the text -------------------------------------------------------------------------------------------------------

void add_one(Mut<f32, 8> y, In<f32, dyn> x) { y.store(y.load() + x.load_like(y)); }

std::size_t occurrences(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

template <auto K>
lang::Trace record(std::vector<int> unit_axes) {
  lang::Specialization s;
  s.checked = true;
  for (const int axis : unit_axes) s.tensors.push_back({axis, 0, ~0u});
  return lang::trace<K>(s);
}

std::vector<passes::WatchedTensor> tensors_of(const lang::Trace& trace) {
  std::vector<passes::WatchedTensor> tensors;
  for (const lang::ParamInfo& p : trace.params)
    if (p.is_tensor()) tensors.push_back({p.first_arg, p.spelling});
  return tensors;
}

TEST(WatchWrites, AnAccessGetsOneOfTheShadowBeforeItInItsChain) {
  const lang::Trace trace = record<&add_one>({0, 0});
  ir::Function& f = *trace.module->functions.front();
  const std::size_t loads = count(f, ir::Op::LoadViewTko), stores = count(f, ir::Op::StoreViewTko);
  const std::size_t args = f.body().num_args();
  const std::vector<passes::WatchedTensor> tensors = tensors_of(trace);
  const std::vector<calling::WatchedArgument> expected{{tensors.at(0).arg, 0, 4}, {tensors.at(1).arg, 1, 4}};
  EXPECT_EQ(passes::watch_writes(f, tensors), expected);
  ASSERT_EQ(problems_of(*trace.module), "");
  EXPECT_EQ(f.body().num_args(), args + 2);
  EXPECT_EQ(count(f, ir::Op::LoadViewTko), 2 * loads);
  EXPECT_EQ(count(f, ir::Op::StoreViewTko), 2 * stores);
  ir::walk(f.body(), [&](const ir::Operation& op) {
    if (op.op() != ir::Op::StoreViewTko) return;
    const bool shadow = op.single("tile").type().elem() == ir::Elem::I8;
    const ir::Operation* before = op.single("token").def();
    ASSERT_NE(before, nullptr);
    EXPECT_EQ(before->op() == ir::Op::If, !shadow) << "the store waits for its shadow, which waits as the store did";
  });
  const std::string text = ir::print(*trace.module);
  EXPECT_EQ(occurrences(text, "load of an element that nothing has written: Mut<f32, 8>"), 1u) << text;
  EXPECT_EQ(occurrences(text, "load of an element that nothing has written: In<f32, dyn>"), 1u) << text;
}

TEST(WatchWrites, TheAssertionHasTheLineOfTheLoad) {
  const lang::Trace trace = record<&add_one>({0, 0});
  ir::Function& f = *trace.module->functions.front();
  passes::watch_writes(f, tensors_of(trace));
  std::size_t asserts = 0;
  ir::walk(f.body(), [&](const ir::Operation& op) {
    if (op.op() != ir::Op::Assert || op.parent_op() == nullptr) return;
    ++asserts;
    EXPECT_NE(std::string(op.loc.file).find("watch_writes_test.cpp"), std::string::npos);
  });
  EXPECT_EQ(asserts, 2u);
}

void raw(unsafe_::Ptr<f32> p, In<f32, dyn> x) {
  auto at = p + iota<i32, 8>();
  unsafe_::store(at, x.tiles(shape<8>).load(0) + unsafe_::load(at));
}
TEST(WatchWrites, RawPointersAreLeftAlone) {
  const lang::Trace trace = record<&raw>({0});
  ir::Function& f = *trace.module->functions.front();
  const std::size_t loads = count(f, ir::Op::LoadPtrTko), stores = count(f, ir::Op::StorePtrTko);
  passes::watch_writes(f, tensors_of(trace));
  EXPECT_EQ(count(f, ir::Op::LoadPtrTko), loads);
  EXPECT_EQ(count(f, ir::Op::StorePtrTko), stores);
  EXPECT_EQ(count(f, ir::Op::LoadViewTko), 2u) << "but the tensor is watched";
}

TEST(WatchWrites, WithoutTensorsNothingChanges) {
  const lang::Trace trace = record<&add_one>({0, 0});
  const std::string before = ir::print(*trace.module);
  EXPECT_TRUE(passes::watch_writes(*trace.module->functions.front(), {}).empty());
  EXPECT_EQ(ir::print(*trace.module), before);
}

TEST(WatchWrites, OtherTiledViewsAndElementsWithoutBytes) {
  Kernel k;
  const ir::Value base = k.pointer(ir::Elem::F16), n = k.arg(ir::Elem::I64);
  const std::int64_t shape[] = {ir::kDynamic}, strides[] = {1};
  const std::uint32_t groups[] = {1, 1, 0};
  const ir::Type tensor = ir::Type::tensor_view(ir::Elem::F16, shape, strides);
  const ir::Value operands[] = {base, n};
  const ir::Value view = k.b.create_grouped(ir::Op::MakeTensorView, operands, groups, {&tensor, 1})->result();
  const std::int32_t tile[] = {8}, step[] = {4};
  const ir::Value strided =
      k.op(ir::Op::MakeStridedView, {view}, ir::Type::strided_view(tensor, tile, step, {}, ir::PaddingValue::NaN));
  k.store(k.load(strided, {k.i32(0)})->result(0), strided, {k.i32(1)});
  ir::Function& f = k.function();
  EXPECT_EQ(passes::watch_writes(f, std::vector<passes::WatchedTensor>{{0, "x"}}),
            (std::vector<calling::WatchedArgument>{{0, 0, 2}}));
  EXPECT_EQ(problems_of(k.module), "");
  EXPECT_EQ(count(f, ir::Op::MakeStridedView), 2u);
  EXPECT_EQ(count(f, ir::Op::LoadViewTko), 2u);
  EXPECT_EQ(count(f, ir::Op::StoreViewTko), 2u);
  Kernel packed;
  packed.pointer(ir::Elem::F4E2M1FN);
  EXPECT_THROW(passes::watch_writes(packed.function(), std::vector<passes::WatchedTensor>{{0, "x"}}), InternalError);
}

// ---- what it finds
// ----------------------------------------------------------------------------------------------------

/// A tensor somewhere in an allocation, and which elements of that are written.
struct Placed {
  std::vector<float> memory;
  std::vector<std::uint8_t> written;  ///< one per element of the memory
  std::vector<std::int64_t> dims, strides;
  std::int64_t offset = 0;
  bool watched = true;

  std::size_t place(const std::vector<std::int64_t>& index) const {
    std::int64_t at = offset;
    for (std::size_t a = 0; a < index.size(); ++a) at += index[a] * strides[a];
    return static_cast<std::size_t>(at);
  }
  int unit_axis() const {
    for (std::size_t a = 0; a < strides.size(); ++a)
      if (strides[a] == 1) return static_cast<int>(a);
    return -1;
  }
};

enum class Form { Recorded, Watched, Optimized };

struct Outcome {
  std::string error;
  int line = 0;
  std::vector<Placed> tensors;
};

/// Runs one recording over copies of the tensors.
Outcome run(const lang::Trace& trace, Form form, std::vector<Placed> tensors, std::uint32_t blocks,
            const std::vector<std::uint64_t>& numbers) {
  const auto module = ir::clone(*trace.module);
  ir::Function& f = *module->functions.front();
  if (form != Form::Recorded) passes::watch_writes(f, tensors_of(trace));
  passes::Tuning tuning;
  tuning.early_reads = false;  // as the pipeline does in checked mode
  if (form == Form::Optimized) optimize_with_claims(*module, {90, 132}, &tuning);
  EXPECT_EQ(problems_of(*module), "");
  std::vector<std::uint64_t> slots, shadows;
  std::vector<std::vector<std::uint8_t>> maps, marks;
  for (const Placed& t : tensors) {
    maps.emplace_back();
    for (const std::uint8_t w : t.written) maps.back().insert(maps.back().end(), sizeof(float), w);
    marks.emplace_back();
    for (const std::uint8_t w : t.written) marks.back().push_back(w != 0 ? 0 : calling::kNeverWritten);
  }
  std::vector<cpu::Region> regions;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Placed& t = tensors[i];
    slots.push_back(reinterpret_cast<std::uintptr_t>(t.memory.data() + t.offset));
    for (const std::int64_t d : t.dims) slots.push_back(static_cast<std::uint64_t>(d));
    for (const std::int64_t s : t.strides) slots.push_back(static_cast<std::uint64_t>(s));
    shadows.push_back(t.watched ? reinterpret_cast<std::uintptr_t>(marks[i].data() + t.offset) : 0);
    const bool map = form == Form::Recorded && t.watched;
    regions.push_back({reinterpret_cast<std::byte*>(t.memory.data()), t.memory.size() * sizeof(float), "a tensor",
                       map ? maps[i].data() : nullptr});
    if (form != Form::Recorded)
      regions.push_back({reinterpret_cast<std::byte*>(marks[i].data()), marks[i].size(), "a shadow", nullptr});
  }
  slots.insert(slots.end(), numbers.begin(), numbers.end());
  if (lang::counts_blocks(trace.params)) slots.push_back(blocks);
  if (form != Form::Recorded) slots.insert(slots.end(), shadows.begin(), shadows.end());
  Outcome outcome;
  try {
    // The CPU's checked mode also sees what tokens order: a shadow that is asked too early is an error.
    cpu::RunOptions options;
    options.checked = true;
    options.regions = regions;
    cpu::Program::compile(*module)->run({blocks}, slots, options);
  } catch (const DeviceError& e) {
    outcome.error = e.message();
    outcome.line = static_cast<int>(e.where().line);
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (std::size_t e = 0; e < tensors[i].written.size(); ++e) {
      if (!tensors[i].watched) continue;
      tensors[i].written[e] = form == Form::Recorded ? maps[i][e * sizeof(float)] : marks[i][e] == 0;
    }
  }
  outcome.tensors = std::move(tensors);
  return outcome;
}

/// True if the kernel was found at fault; all three forms agree.
bool agree(const lang::Trace& trace, const std::vector<Placed>& tensors, std::uint32_t blocks,
           const std::vector<std::uint64_t>& numbers = {}) {
  const Outcome expected = run(trace, Form::Recorded, tensors, blocks, numbers);
  const bool fault = !expected.error.empty();
  EXPECT_TRUE(!fault || expected.error.find("nothing has written") != std::string::npos) << expected.error;
  for (const Form form : {Form::Watched, Form::Optimized}) {
    const Outcome found = run(trace, form, tensors, blocks, numbers);
    const char* const name = form == Form::Watched ? "as the pass makes it" : "optimized";
    EXPECT_EQ(found.error.find("nothing has written") != std::string::npos, fault)
        << name << "\n expected " << expected.error << "\n found " << found.error;
    EXPECT_TRUE(fault || found.error.empty()) << name << ": " << found.error;
    EXPECT_TRUE(form != Form::Watched || found.line == expected.line) << found.line << " and " << expected.line;
    for (std::size_t i = 0; i < tensors.size() && !fault; ++i) {
      EXPECT_EQ(found.tensors[i].memory, expected.tensors[i].memory) << name;
      EXPECT_EQ(found.tensors[i].written, expected.tensors[i].written) << name;
    }
  }
  return fault;
}

enum class Writes { All, None, AllButOne };

class Places {
 public:
  explicit Places(unsigned seed) : random_(seed) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }

  /// Dense, with gaps or transposed, inside guard elements that nothing has written.
  Placed place(std::vector<std::int64_t> dims, Writes writes) {
    Placed t;
    t.dims = dims;
    t.strides.assign(dims.size(), 1);
    const bool transposed = dims.size() == 2 && below(3) == 0;
    std::int64_t reach = transposed ? dims[0] : dims.back();
    if (dims.size() == 2) {
      reach += below(2) * below(4);
      t.strides[transposed ? 1 : 0] = reach;
      reach *= transposed ? dims[1] : dims[0];
    } else if (below(3) == 0) {
      t.strides[0] = 2;
      reach *= 2;
    }
    t.offset = below(6);
    t.memory.resize(static_cast<std::size_t>(t.offset + reach + 5));
    for (std::size_t i = 0; i < t.memory.size(); ++i) t.memory[i] = static_cast<float>(i % 7);
    t.written.assign(t.memory.size(), 0);
    if (writes == Writes::None) return t;
    for (std::int64_t i = 0; i < dims[0]; ++i)
      for (std::int64_t j = 0; j < (dims.size() == 2 ? dims[1] : 1); ++j)
        t.written[dims.size() == 2 ? t.place({i, j}) : t.place({i})] = 1;
    if (writes == Writes::AllButOne) {
      std::vector<std::int64_t> hole;
      for (const std::int64_t d : dims) hole.push_back(below(d));
      t.written[t.place(hole)] = 0;
    }
    return t;
  }
  Placed unwatched(std::vector<std::int64_t> dims) {
    Placed t = place(std::move(dims), Writes::None);
    t.watched = false;
    return t;
  }

 private:
  std::mt19937 random_;
};

std::uint32_t pieces(std::int64_t n, std::int64_t piece) { return static_cast<std::uint32_t>((n + piece - 1) / piece); }

void copied(Mut<f32, 4, 8> y, In<f32, dyn, dyn> x) { y.store(x.load_like(y)); }

TEST(WatchWrites, CopiesOfAnyShapeAndLayout) {
  Places places(1);
  for (std::uint64_t i = 0; i < rounds(60); ++i) {
    const std::vector<std::int64_t> dims{1 + places.below(11), 1 + places.below(21)};
    const std::uint32_t blocks = pieces(dims[0], 4) * pieces(dims[1], 8);
    for (const Writes writes : {Writes::All, Writes::None, Writes::AllButOne}) {
      const std::vector<Placed> tensors{places.place(dims, Writes::None), places.place(dims, writes)};
      const lang::Trace trace = record<&copied>({tensors[0].unit_axis(), tensors[1].unit_axis()});
      EXPECT_EQ(agree(trace, tensors, blocks), writes != Writes::All);
    }
    const std::vector<Placed> none{places.unwatched(dims), places.unwatched(dims)};
    EXPECT_FALSE(agree(record<&copied>({none[0].unit_axis(), none[1].unit_axis()}), none, blocks));
  }
}

void stored_and_loaded(Mut<f32, 4, 8> y, In<f32, dyn, dyn> x) {
  y.store(x.load_like(y));
  auto parts = y.sub(shape<2, 8>);
  for (auto i : range(2)) parts.store(i, 0, parts.load(i, 0) * 2.0f);
  y.store(y.load() + 1.0f);
}
void half_stored(Mut<f32, 4, 8> y) {
  auto parts = y.sub(shape<2, 8>);
  for (auto i : range(1)) parts.store(i, 0, full<f32, 2, 8>(3.0f));
  y.store(y.load() + 1.0f);
}
void loaded_before_stored(Mut<f32, 4, 8> y) {
  auto t = y.load();
  y.store(full<f32, 4, 8>(3.0f));
  y.store(t + y.load());
}

TEST(WatchWrites, WhatABlockHasStoredItself) {
  Places places(2);
  for (std::uint64_t i = 0; i < rounds(20); ++i) {
    const std::vector<std::int64_t> dims{3 + places.below(9), 1 + places.below(21)};
    const std::uint32_t blocks = pieces(dims[0], 4) * pieces(dims[1], 8);
    const Placed y = places.place(dims, Writes::None), x = places.place(dims, Writes::All);
    EXPECT_FALSE(agree(record<&stored_and_loaded>({y.unit_axis(), x.unit_axis()}), {y, x}, blocks));
    EXPECT_TRUE(agree(record<&half_stored>({y.unit_axis()}), {y}, blocks));
    EXPECT_FALSE(agree(record<&half_stored>({x.unit_axis()}), {x}, blocks));
    EXPECT_TRUE(agree(record<&loaded_before_stored>({y.unit_axis()}), {y}, blocks)) << "what it reads comes later";
    EXPECT_FALSE(agree(record<&loaded_before_stored>({x.unit_axis()}), {x}, blocks));
    // Without shadows the accesses keep the order that they have.
    const Placed v = places.unwatched(dims), w = places.unwatched(dims);
    EXPECT_FALSE(agree(record<&stored_and_loaded>({v.unit_axis(), w.unit_axis()}), {v, w}, blocks));
    EXPECT_FALSE(agree(record<&loaded_before_stored>({v.unit_axis()}), {v}, blocks));
  }
}

void picked(Mut<f32, 8> y, In<f32, dyn> x, In<f32, dyn, dyn> t, Scalar<i32> n) {
  auto [i] = y.index();
  auto at = cast<i32>(x.tiles(shape<8>).load(i));
  y.store(t.gather(at, at * 0 + n) + reshape(t.load_at(shape<8, 1>, i * 8 - 2, n), shape<8>));
}
void scattered(Mut<f32, 8> y, In<f32, dyn> x) {
  y.scatter(axis<0>, cast<i32>(x.tiles(shape<8>).load(0)), full<f32, 8>(2.0f));
  y.store(y.load() * 2.0f);
}

TEST(WatchWrites, ElementsByPosition) {
  Places places(3);
  int faults = 0;
  for (std::uint64_t i = 0; i < std::max<std::uint64_t>(rounds(40), 12); ++i) {
    const std::vector<std::int64_t> dims{16};
    const Placed y = places.place(dims, Writes::None), x = places.place(dims, Writes::All);
    Placed t = places.place({2 + places.below(20), 1 + places.below(3)}, i % 2 == 0 ? Writes::All : Writes::AllButOne);
    const std::vector<int> axes{y.unit_axis(), x.unit_axis(), t.unit_axis()};
    // Positions 0 to 6 and, from -2 on, 16: a hole may be among what is read or not.
    const bool fault = agree(record<&picked>(axes), {y, x, t}, 2, {static_cast<std::uint64_t>(places.below(2))});
    EXPECT_FALSE(fault && i % 2 == 0);
    faults += fault;
    EXPECT_TRUE(agree(record<&scattered>({y.unit_axis(), x.unit_axis()}), {y, x}, 1)) << "not every position is stored";
  }
  EXPECT_GE(faults, static_cast<int>(rounds(3)));
  EXPECT_LT(faults, 20);
}

/// Tile IR leaves open what a masked element without padding is.
TEST(WatchWrites, MaskedElementsOfAShadowAreWritten) {
  const lang::Trace trace = record<&picked>({0, 0, 1});
  ir::Function& f = *trace.module->functions.front();
  passes::watch_writes(f, tensors_of(trace));
  std::size_t masked = 0;
  ir::walk(f.body(), [&](const ir::Operation& op) {
    if (op.op() != ir::Op::LoadPtrTko || op.result().type().elem() != ir::Elem::I8) return;
    EXPECT_EQ(static_cast<bool>(op.single("mask")), static_cast<bool>(op.single("paddingValue")));
    masked += static_cast<bool>(op.single("mask"));
  });
  EXPECT_EQ(masked, 2u);
}

void summed(Acc<f32, dyn, dyn> a, In<f32, dyn> x) {
  auto [b] = block_id<1>();
  a.add(cast<i32>(x.tiles(shape<8>).load(b)), iota<i32, 8>() % 2, 1.0f);
  a.tiles(shape<4, 2>).add(0, 0, full<f32, 4, 2>(1.0f));
}
TEST(WatchWrites, AtomicUpdatesReadToo) {
  Places places(4);
  for (std::uint64_t i = 0; i < rounds(20); ++i) {
    const Placed x = places.place({16}, Writes::All);
    const auto run_on = [&](Writes writes) {
      const Placed a = places.place({4, 2}, writes);
      return agree(record<&summed>({a.unit_axis(), x.unit_axis()}), {a, x}, 2);
    };
    EXPECT_FALSE(run_on(Writes::All));
    EXPECT_TRUE(run_on(Writes::AllButOne));
    EXPECT_TRUE(run_on(Writes::None));
  }
}

void persistent(MutTiles<f32, 4, 8> y, In<f32, dyn, dyn> x, Scalar<i32> n) {
  for (auto out : y) {
    auto [i, j] = out.index();
    auto sum = zeros<f32, 4, 8>();
    for (auto k : range(n)) sum += x.tiles(shape<4, 8>).load(i, j) * cast<f32>(k);
    tile_if (j == 0) { sum += x.load_at(shape<4, 8>, i * 4, 8); }
    out.store(sum);
  }
}
TEST(WatchWrites, InLoopsAndBranches) {
  Places places(5);
  for (std::uint64_t i = 0; i < rounds(20); ++i) {
    const std::vector<std::int64_t> dims{1 + places.below(11), 9 + places.below(12)};
    const std::uint64_t steps = static_cast<std::uint64_t>(places.below(3));
    const auto run_on = [&](Writes writes) {
      const Placed y = places.place(dims, Writes::None), x = places.place(dims, writes);
      return agree(record<&persistent>({y.unit_axis(), x.unit_axis()}), {y, x}, 3, {steps});
    };
    EXPECT_FALSE(run_on(Writes::All));
    EXPECT_TRUE(run_on(Writes::None));
    const bool one = run_on(Writes::AllButOne);
    EXPECT_TRUE(one || steps == 0);
  }
}

void overlapping(unsafe_::Mut<f32, 8> y) {
  auto [i] = y.index();
  y.store(full<f32, 8>(1.0f));
  y.store_at(i * 8 + 2, y.load_at(shape<4>, i * 8) * 2.0f);
}
TEST(WatchWrites, OverlappingPieces) {
  Places places(6);
  for (std::uint64_t i = 0; i < rounds(10); ++i) {
    const Placed y = places.place({16}, Writes::None);
    EXPECT_FALSE(agree(record<&overlapping>({y.unit_axis()}), {y}, 2));
  }
}

}  // namespace THIS_FILE
