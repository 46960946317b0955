// Loads and stores of parameters, run on the CPU: padding, clipping, broadcasting, offsets of any sign, sub-partitions.
#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>

#include "tessera/base/format.hpp"

#include "lang/run_kernel.hpp"
#include "tessera/lang/trace.hpp"

namespace tessera {
namespace THIS_FILE {

using test::Array;
using test::run;

constexpr float kInf = std::numeric_limits<float>::infinity();
lang::Specialization none;

std::uint32_t blocks(std::int64_t n, std::int64_t tile) { return static_cast<std::uint32_t>((n + tile - 1) / tile); }

// ---- paddings -------------------------------------------------------------------------------------------------------

void pad_zero(Mut<f32, 8> y, In<f32, dyn> x) { y.store(x.tiles(shape<8>).load(0)); }
void pad_neg(Mut<f32, 8> y, In<f32, dyn> x) { y.store(x.tiles(shape<8>, pad::neg_inf).load(0)); }
void pad_pos(Mut<f32, 8> y, In<f32, dyn> x) { y.store(x.tiles(shape<8>, pad::pos_inf).load(0)); }
void pad_nan(Mut<f32, 8> y, In<f32, dyn> x) { y.store(x.tiles(shape<8>, pad::nan).load(0)); }
void pad_value(Mut<f32, 8> y, In<f32, dyn> x) { y.store(x.tiles(shape<8>, pad(7)).load(0)); }
void pad_scalar(Mut<f32, 8> y, In<f32, dyn> x, Scalar<f32> p) { y.store(x.tiles(shape<8>, pad(p * 2.0f)).load(0)); }

template <auto K, class... A>
std::vector<float> padded(A... extra) {
  Array<float> y({8}, -1.0f), x({5});
  x.each([](std::int64_t i) { return static_cast<float>(i + 1); });
  run<K>({1}, none, y, x, extra...);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(y.data[static_cast<std::size_t>(i)], static_cast<float>(i + 1));
  return {y.data.begin() + 5, y.data.end()};
}
TEST(Padding, EveryKind) {
  EXPECT_EQ(padded<pad_zero>(), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(padded<pad_neg>(), (std::vector<float>{-kInf, -kInf, -kInf}));
  EXPECT_EQ(padded<pad_pos>(), (std::vector<float>{kInf, kInf, kInf}));
  EXPECT_EQ(padded<pad_value>(), (std::vector<float>{7, 7, 7}));
  EXPECT_EQ(padded<pad_scalar>(1.5f), (std::vector<float>{3, 3, 3}));
  for (float v : padded<pad_nan>()) EXPECT_TRUE(std::isnan(v));
}

void whole_tile(Mut<f32, 8> y, In<f32, dyn> x, Scalar<i32> i) { y.store(x.tiles(shape<8>, pad(5)).load(i)); }
TEST(Padding, AnyIndexOutsideTheGridIsPadding) {
  for (std::int32_t i :
       {-1, 2, 3, 1000000000, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()}) {
    Array<float> y({8}, -1.0f), x({16}, 1.0f);
    run<whole_tile>({1}, none, y, x, i);
    EXPECT_EQ(y.data, std::vector<float>(8, 5.0f)) << i;
  }
  Array<float> y({8}), x({16}, 1.0f);
  std::int32_t i = 1;
  run<whole_tile>({1}, none, y, x, i);
  EXPECT_EQ(y.data, std::vector<float>(8, 1.0f));
}
TEST(Padding, AnEmptyTensorIsAllPadding) {
  Array<float> y({8}), x({0});
  std::int32_t i = 0;
  run<whole_tile>({1}, none, y, x, i);
  EXPECT_EQ(y.data, std::vector<float>(8, 5.0f));
}

void int_padding(Mut<i32, 8> y, In<i32, dyn> x) { y.store(x.tiles(shape<8>, pad(-1)).load(0)); }
TEST(Padding, IntegersTakeAnyValue) {
  Array<std::int32_t> y({8}), x({3}, 9);
  run<int_padding>({1}, none, y, x);
  EXPECT_EQ(y.data, (std::vector<std::int32_t>{9, 9, 9, -1, -1, -1, -1, -1}));
}

// ---- pieces ---------------------------------------------------------------------------------------------------------

void fill_index(Mut<i32, 4, 8> y) {
  auto [i, j] = y.index();
  auto [r, c] = y.origin();
  y.store(full<i32, 4, 8>(0) + (i * 100 + j) + (r + c) * 10000);
}
TEST(Pieces, ClippedAtTheEdgesAndNumberedRowMajor) {
  Array<std::int32_t> y({10, 19}, -1);
  // Room after the tensor that must stay untouched: a strided window of a larger array.
  Array<std::int32_t> room({14, 32}, -1);
  std::vector<std::uint64_t> slots{reinterpret_cast<std::uintptr_t>(room.data.data()), 10, 19, 32, 1};
  const auto t = lang::trace<fill_index>();
  ASSERT_EQ(test::problems(*t.module), "");
  cpu::Program::compile(*t.module)->run({9}, slots);
  for (std::int64_t r = 0; r < 14; ++r) {
    for (std::int64_t c = 0; c < 32; ++c) {
      const std::int64_t i = r / 4, j = c / 8;
      const auto expected = r < 10 && c < 19 ? i * 100 + j + (i * 4 + j * 8) * 10000 : -1;
      ASSERT_EQ(room.at({r, c}), expected) << r << "," << c;
    }
  }
}

TEST(Pieces, AWideGridSkipsTheSurplusBlocks) {
  lang::Specialization wide;
  wide.wide_grid = true;
  Array<std::int32_t> y({10, 19}, -1), z({10, 19}, -1);
  run<fill_index>({9}, none, y);
  run<fill_index>({4, 3}, wide, z);  // 12 blocks for 9 pieces
  EXPECT_EQ(y.data, z.data);
}

void write_offsets(Mut<i64, 4, 8> y) { y.store(y.offsets()); }
TEST(Pieces, OffsetsCountTheWholeTensor) {
  Array<std::int64_t> y({10, 19});
  run<write_offsets>({9}, none, y);
  for (std::size_t i = 0; i < y.data.size(); ++i) ASSERT_EQ(y.data[i], static_cast<std::int64_t>(i));
}

void both(Mut<f32, 4> y, Mut<f32, 8> z) {
  y.store(y.load() + 1.0f);
  z.store(z.load() + 2.0f);
}
TEST(Pieces, SeveralMutsShareTheNumber) {
  Array<float> y({10}), z({20});
  run<both>({3}, none, y, z);
  EXPECT_EQ(y.data, std::vector<float>(10, 1.0f));
  EXPECT_EQ(z.data, std::vector<float>(20, 2.0f));
}

void dims(Mut<i32, 8> y, In<f32, dyn, 3> x) {
  auto [i] = block_id<1>();
  y.store(full<i32, 8>(0) + (x.dim(0) * 1000 + x.dim(1) * 100 + y.dim(0) + i * 10000 + num_blocks() * 100000 +
                             cast<i32>(x.stride(0)) * 1000000));
}
TEST(Pieces, DimensionsAndBlocks) {
  Array<std::int32_t> y({16});
  Array<float> x({5, 3});
  run<dims>({2}, none, y, x);
  EXPECT_EQ(y.data[0], 3205316);
  EXPECT_EQ(y.data[15], 3215316);
}

void numbered(Mut<i32, 8> y, In<i32, dyn> x) {
  auto number = block_id<1>();
  auto [same] = block_id<1>();
  const auto [also] = block_id<1>();
  auto [first, second] = block_id<2>();
  Scalar<i32> converted = block_id<1>();
  auto t = x.tiles(shape<8>).load(block_id<1>()) + x.load_at(shape<8>, block_id<1>() * 8) + x.gather(block_id<1>());
  tile_if (block_id<1>() == 1) { t += number + same + also + first + second + converted; }
  y.store(t);
}
TEST(Pieces, ABlockNumberIsOneIndex) {
  Array<std::int32_t> y({16}), x({16});
  x.each([](std::int64_t i) { return static_cast<std::int32_t>(i); });
  run<numbered>({2}, none, y, x);
  for (std::int32_t i = 0; i < 16; ++i)
    EXPECT_EQ(y.data[static_cast<std::size_t>(i)], 2 * i + (i < 8 ? 0 : 1 + 5)) << i;
}

// ---- sub-partitions -------------------------------------------------------------------------------------------------

void sub_pieces(Mut<i32, 8, 8> y) {
  auto s = y.sub(shape<4, 2>);
  for (auto i : range(s.count(0)))
    for (auto j : range(s.count(1))) s.store(i, j, s.load(i, j) + (i * 10 + j));
}
TEST(SubPieces, CoverThePieceAndAreClipped) {
  Array<std::int32_t> y({13, 11}, 1000);
  run<sub_pieces>({4}, none, y);
  for (std::int64_t r = 0; r < 13; ++r)
    for (std::int64_t c = 0; c < 11; ++c) ASSERT_EQ(y.at({r, c}), 1000 + (r % 8 / 4) * 10 + c % 8 / 2) << r << "," << c;
}
void sub_outside(Mut<i32, 8> y, Scalar<i32> i) {
  auto s = y.sub(shape<4>);
  auto t = s.load(i, pad(77));
  s.store(i, t + 1);
  s.store(0, t);
}
TEST(SubPieces, IndicesOutsideThePieceReadPaddingAndStoreNothing) {
  for (std::int32_t i : {-1, 2, 3, 1 << 30, std::numeric_limits<std::int32_t>::min()}) {
    Array<std::int32_t> y({8}, 5);
    run<sub_outside>({1}, none, y, i);
    EXPECT_EQ(y.data, (std::vector<std::int32_t>{77, 77, 77, 77, 5, 5, 5, 5})) << i;
  }
}
void sub_neighbour(Mut<i32, 8> y) {
  auto s = y.sub(shape<4>);
  s.store(2, full<i32, 4>(9));  // the next block's piece: must not be written
}
TEST(SubPieces, NeverReachTheNextPiece) {
  Array<std::int32_t> y({16}, 5);
  run<sub_neighbour>({2}, none, y);
  EXPECT_EQ(y.data, std::vector<std::int32_t>(16, 5));
}

// ---- load_like ------------------------------------------------------------------------------------------------------

void like(Mut<f32, 4, 8> y, In<f32, dyn, dyn> x) { y.store(x.load_like(y, pad(-3))); }
void like_partial(Mut<f32, 4, 8> y, In<f32, dyn, dyn> x) { y.store(x.load_like(y, partial, pad(-3))); }

/// Extents of y and of x.
struct Regions2 {
  std::int64_t yr, yc, xr, xc;
  bool agree() const { return (xr == yr || xr == 1) && (xc == yc || xc == 1); }
  std::string text() const { return concat("y ", yr, "x", yc, " from x ", xr, "x", xc); }
  /// The facts that a launch knows about them.
  lang::Specialization facts() const {
    const auto bits = [](std::int64_t a, std::int64_t b, bool one) {
      return static_cast<std::uint32_t>(((a == 1) == one ? 1 : 0) | ((b == 1) == one ? 2 : 0));
    };
    lang::Specialization s;
    s.tensors = {{1, bits(yr, yc, true), bits(yr, yc, false)}, {1, bits(xr, xc, true), bits(xr, xc, false)}};
    return s;
  }
};
const Regions2 kRegions[] = {{10, 19, 10, 19}, {10, 19, 1, 19},  {10, 19, 10, 1},  {10, 19, 1, 1},
                             {1, 19, 1, 19},   {1, 1, 1, 1},     {4, 8, 1, 8},     {10, 1, 10, 1},
                             {10, 19, 7, 9},   {10, 19, 30, 40}, {10, 19, 10, 18}, {10, 19, 9, 19},
                             {1, 19, 2, 19},   {10, 1, 10, 2},   {10, 19, 0, 19},  {10, 19, 2, 1}};

template <auto K>
void expect_like(const Regions2& c, const lang::Specialization& s, bool broadcasts) {
  Array<float> y({c.yr, c.yc}, -1.0f), x({c.xr, c.xc});
  x.each([](std::int64_t i) { return static_cast<float>(i + 1); });
  run<K>({blocks(c.yr, 4) * blocks(c.yc, 8)}, s, y, x);
  for (std::int64_t i = 0; i < c.yr; ++i) {
    for (std::int64_t j = 0; j < c.yc; ++j) {
      const std::int64_t si = broadcasts && c.xr == 1 ? 0 : i, sj = broadcasts && c.xc == 1 ? 0 : j;
      const float expected = si < c.xr && sj < c.xc ? x.at({si, sj}) : -3.0f;
      ASSERT_EQ(y.at({i, j}), expected) << i << "," << j << " of " << c.text();
    }
  }
}
template <auto K>
bool accepted(const Regions2& c, const lang::Specialization& s) {
  Array<float> y({c.yr, c.yc}), x({c.xr, c.xc});
  test::Slots slots;
  slots.add(y);
  slots.add(x);
  const auto trace = lang::trace<K>(s);
  return std::all_of(trace.same_extents.begin(), trace.same_extents.end(),
                     [&](const auto& e) { return e.holds(slots.values()); });
}
TEST(LoadLike, RegionsAgreeOrAreBroadcast) {
  for (const Regions2& c : kRegions) {
    for (const auto& s : {none, c.facts()}) {
      EXPECT_EQ(accepted<like>(c, s), c.agree()) << c.text();
      if (c.agree()) expect_like<like>(c, s, true);
    }
  }
}
TEST(LoadLike, PartialReadsPaddingOutside) {
  for (const Regions2& c : kRegions) {
    for (const auto& s : {none, c.facts()}) {
      EXPECT_TRUE(accepted<like_partial>(c, s)) << c.text();
      expect_like<like_partial>(c, s, false);
    }
  }
}

void every_form(Mut<f32, 4, 8> y, In<f32, dyn, dyn> x, In<f32, dyn> w) {
  auto a = x.load_like(y, partial), b = x.load_like(y, partial, pad::zero);
  auto c = w.load_like(y, axes<1>, partial, pad(2)), d = w.load_like(y, axes<1>, partial);
  auto e = x.permuted(order<1, 0>).load_like(y, axes<1, 0>, partial);
  y.store(a + b + c + d + e);
}
TEST(LoadLike, PartialStandsBeforeThePadding) {
  Array<float> y({4, 8}), x({3, 7}, 1.0f), w({5}, 10.0f);
  run<every_form>({1}, none, y, x, w);
  for (std::int64_t r = 0; r < 4; ++r)
    for (std::int64_t c = 0; c < 8; ++c)
      ASSERT_EQ(y.at({r, c}), (r < 3 && c < 7 ? 3.0f : 0.0f) + (c < 5 ? 20.0f : 2.0f)) << r << "," << c;
}

// The axes of arguments that must agree.
void named(Mut<f32, 4, 8> z, MutTiles<f32, 96> c, In<f32, dyn, dyn> x, In<f32, dyn, 16> t, In<f32, dyn> w) {
  auto tile = x.permuted(order<1, 0>).load_like(z);
  for (int twice = 0; twice < 2; ++twice) tile += t.load_like(z);
  z.store(tile);
  for (auto out : c) {
    auto [wide, narrow] = out.parts();
    wide.store(w.load_like(wide));
    narrow.store(w.load_like(narrow, partial));
  }
}
TEST(LoadLike, SaysWhichAxesMustAgree) {
  lang::Specialization s;
  for (const std::uint32_t rank : {2u, 1u, 2u, 2u, 1u}) s.tensors.push_back({-1, 0, (1u << rank) - 1});
  std::vector<std::string> found;
  for (const auto& e : lang::trace<named>(s).same_extents) {
    found.push_back(concat(e.loaded.param, ".", e.loaded.axis, " = ", e.piece.param, ".", e.piece.axis,
                           e.or_one ? " or 1" : "", " (slots ", e.loaded.slot, ", ", e.piece.slot, ")"));
  }
  EXPECT_EQ(found,
            (std::vector<std::string>{"2.1 = 0.0 (slots 10, 1)", "2.0 = 0.1 (slots 9, 2)", "3.0 = 0.0 (slots 14, 1)",
                                      "3.1 = 0.1 (slots 15, 2)", "4.0 = 1.0 (slots 19, 6)"}));
}

void like_axes(Mut<f32, 2, 4, 8> y, In<f32, dyn, dyn> x, In<f32, dyn> w) {
  y.store(full<f32, 2, 4, 8>(0) + x.load_like(y, axes<2, 0>) + w.load_like(y, axes<1>) * 1000.0f);
}
TEST(LoadLike, NamedAxesInAnyOrder) {
  Array<float> y({3, 5, 9}), x({9, 3}), w({5});
  x.each([](std::int64_t i) { return static_cast<float>(i); });
  w.each([](std::int64_t i) { return static_cast<float>(i + 1); });
  run<like_axes>({2 * 2 * 2}, none, y, x, w);
  for (std::int64_t a = 0; a < 3; ++a)
    for (std::int64_t b = 0; b < 5; ++b)
      for (std::int64_t c = 0; c < 9; ++c) ASSERT_EQ(y.at({a, b, c}), x.at({c, a}) + 1000 * w.at({b}));
}
void like_static(Mut<f32, 4, 8> y, In<f32, dyn, 1> x) { y.store(x.load_like(y)); }
TEST(LoadLike, AStaticExtentOfOneBroadcasts) {
  Array<float> y({6, 12}), x({6, 1});
  x.each([](std::int64_t i) { return static_cast<float>(i + 1); });
  run<like_static>({4}, none, y, x);
  for (std::int64_t r = 0; r < 6; ++r)
    for (std::int64_t c = 0; c < 12; ++c) ASSERT_EQ(y.at({r, c}), static_cast<float>(r + 1));
}

// ---- element offsets, views, gathers --------------------------------------------------------------------------------

void at_offset(Mut<f32, 4, 4> y, In<f32, dyn, dyn> x, Scalar<i32> di, Scalar<i32> dj) {
  auto [i, j] = y.origin();
  y.store(x.load_at(shape<4, 4>, i + di, j + dj, pad(-9)));
}
TEST(LoadAt, AnyOffsetOfAnySign) {
  Array<float> x({7, 9});
  x.each([](std::int64_t i) { return static_cast<float>(i); });
  const std::int32_t far = std::numeric_limits<std::int32_t>::max(), low = std::numeric_limits<std::int32_t>::min();
  for (auto [di, dj] : {std::pair{0, 0}, {-1, 2}, {3, -3}, {-100, 0}, {far - 4, 0}, {0, low}, {low, far - 8}}) {
    Array<float> y({7, 9}, -1.0f);
    run<at_offset>({6}, none, y, x, di, dj);
    for (std::int64_t r = 0; r < 7; ++r) {
      for (std::int64_t c = 0; c < 9; ++c) {
        const std::int64_t sr = r + di, sc = c + dj;
        const float expected = sr >= 0 && sr < 7 && sc >= 0 && sc < 9 ? x.at({sr, sc}) : -9.0f;
        ASSERT_EQ(y.at({r, c}), expected) << r << "," << c << " by " << di << "," << dj;
      }
    }
  }
}

void at_unsigned(Mut<f32, 8> y, In<f32, dyn> x, Scalar<u32> at) { y.store(x.load_at(shape<8>, at, pad(-9))); }
void at_constant(Mut<f32, 8> y, In<f32, dyn> x) {
  y.store(x.load_at(shape<8>, Scalar<u32>(4294967293u), pad(-9)) + x.load_at(shape<8>, Scalar<u32>(60u), pad(-9)));
}
void at_signed(Mut<f32, 8> y, In<f32, dyn> x, Scalar<i32> at) { y.store(x.load_at(shape<8>, at, pad(-9))); }
void store_at_unsigned(unsafe_::Mut<f32, 8> y, Scalar<u32> at) {
  y.store_at(at, full<f32, 8>(1.0f) + y.load_at(shape<8>, at, pad(-9)));
}
TEST(LoadAt, UnsignedOffsetsDoNotWrapAround) {
  Array<float> x({64});
  x.each([](std::int64_t i) { return static_cast<float>(i); });
  for (const std::uint32_t at : {0u, 60u, 64u, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFF9u, 0xFFFFFFFFu}) {
    Array<float> y({8}), z({64});
    run<at_unsigned>({1}, none, y, x, at);
    run<store_at_unsigned>({1}, none, z, at);
    for (std::int64_t i = 0; i < 8; ++i) {
      const std::int64_t p = std::int64_t{at} + i;
      ASSERT_EQ(y.at({i}), p < 64 ? static_cast<float>(p) : -9.0f) << i << " at " << at;
    }
    for (std::int64_t p = 0; p < 64; ++p)
      ASSERT_EQ(z.at({p}), p >= std::int64_t{at} && p < std::int64_t{at} + 8 ? 1.0f : 0.0f) << p << " at " << at;
  }
  Array<float> y({8});
  run<at_constant>({1}, none, y, x);
  EXPECT_EQ(y.data, (std::vector<float>{51, 52, 53, 54, -18, -18, -18, -18}));
}
TEST(LoadAt, CheckedModeReportsNoUnsignedOffsetOutside) {
  lang::Specialization s;
  s.checked = true;
  const auto program = cpu::Program::compile(*lang::trace<at_unsigned>(s).module);
  Array<float> y({8}), x({64}, 1.0f);
  const cpu::Region regions[] = {{reinterpret_cast<std::byte*>(y.data.data()), 8 * sizeof(float), "y"},
                                 {reinterpret_cast<std::byte*>(x.data.data()), 64 * sizeof(float), "x"}};
  cpu::RunOptions options;
  options.checked = true;
  options.regions = regions;
  for (const std::uint32_t at : {60u, 0x7FFFFFFFu, 0xFFFFFFFDu}) {
    test::Slots slots;
    slots.add(y);
    slots.add(x);
    slots.add(at);
    program->run({1}, slots.values(), options);
    EXPECT_EQ(y.data[0], at == 60 ? 1.0f : -9.0f) << at;
    EXPECT_EQ(y.data[7], -9.0f) << at;
  }
}
TEST(LoadAt, SignedOffsetsAreAddedInTheirOwnType) {
  const auto wide_sums = [](const lang::Trace& t) {
    std::istringstream text(ir::print(*t.module->functions[0]));
    bool found = false;
    for (std::string line; std::getline(text, line);)
      found = found || (line.find("addi") != std::string::npos && line.find("tile<8xi64>") != std::string::npos);
    return found;
  };
  EXPECT_FALSE(wide_sums(lang::trace<at_signed>()));
  EXPECT_TRUE(wide_sums(lang::trace<at_unsigned>()));
}

void transposed(Mut<f32, 4, 8> y, In<f32, dyn, dyn> x) {
  auto [i, j] = y.index();
  y.store(x.permuted(order<1, 0>).tiles(shape<4, 8>).load(i, j));
}
TEST(Views, Permuted) {
  Array<float> y({6, 10}), x({10, 6});
  x.each([](std::int64_t i) { return static_cast<float>(i); });
  lang::Specialization unit;
  unit.tensors = {{1, 0, 0}, {1, 0, 0}};
  for (const auto& s : {none, unit}) {
    run<transposed>({4}, s, y, x);
    for (std::int64_t r = 0; r < 6; ++r)
      for (std::int64_t c = 0; c < 10; ++c) ASSERT_EQ(y.at({r, c}), x.at({c, r}));
  }
}

void rows_by_index(Mut<f32, 4, 8> y, In<f32, dyn, 8> table, In<i64, dyn> ids) {
  y.store(table.gather(axis<0>, ids.load_like(y, axes<0>), pad::neg_inf));
}
TEST(Gather, RowsByIndexAndPaddingOutside) {
  Array<float> y({6, 8}), table({5, 8});
  table.each([](std::int64_t i) { return static_cast<float>(i); });
  Array<std::int64_t> ids({6});
  ids.data = {4, -1, 0, 5, 2, std::int64_t{1} << 40};
  run<rows_by_index>({2}, none, y, table, ids);
  for (std::int64_t r = 0; r < 6; ++r) {
    for (std::int64_t c = 0; c < 8; ++c) {
      const std::int64_t id = ids.data[static_cast<std::size_t>(r)];
      ASSERT_EQ(y.at({r, c}), id >= 0 && id < 5 ? table.at({id, c}) : -kInf) << r << "," << c;
    }
  }
}
void element_gather(Mut<f32, 8> y, In<f32, dyn, dyn> x, In<i32, dyn> i, In<u8, dyn> j) {
  y.store(x.gather(i.load_like(y), j.load_like(y)));
}
TEST(Gather, OneElementPerIndex) {
  Array<float> y({8}), x({4, 200});
  x.each([](std::int64_t i) { return static_cast<float>(i + 1); });
  Array<std::int32_t> i({8});
  Array<std::uint8_t> j({8});
  i.data = {0, 1, 2, 3, -1, 4, 3, 0};
  j.data = {0, 199, 3, 150, 0, 0, 200, 255};
  run<element_gather>({1}, none, y, x, i, j);
  EXPECT_EQ(y.data, (std::vector<float>{1, 400, 404, 751, 0, 0, 0, 0}));
}

void padded_elements(Mut<f32, 8> y, In<f32, dyn, dyn> x, In<i32, dyn> i, In<u8, dyn> j, Scalar<f32> outside) {
  auto at = i.load_like(y);
  y.store(max(x.gather(at, j.load_like(y), pad::neg_inf), x.gather(at, 0, pad(outside))));
}
TEST(Gather, ElementsOutsideReadThePadding) {
  Array<float> y({8}), x({4, 200});
  x.each([](std::int64_t i) { return static_cast<float>(i + 1); });
  Array<std::int32_t> i({8});
  Array<std::uint8_t> j({8});
  i.data = {0, 1, 2, 3, 3, 1, -1, 4};
  j.data = {0, 199, 3, 150, 200, 255, 0, 0};
  const float outside = 7.0f;
  run<padded_elements>({1}, none, y, x, i, j, outside);
  EXPECT_EQ(y.data, (std::vector<float>{1, 400, 404, 751, 601, 201, 7, 7}));
}

constexpr unsigned kGatherLine = __LINE__ + 6;
void lines_of_elements(Mut<f32, 8, 16> y, In<f32, dyn, dyn> x) {
  auto [i, j] = y.origin();
  auto r = iota<i32, 8, 1>(axis<0>) + i;
  auto c = iota<i32, 1, 16>(axis<1>) + j;

  y.store(x.gather(r, c));

  y.scatter(3, 2, 1.0f);
}
TEST(Gather, ElementsAreAtTheLineOfTheirCall) {
  const lang::Trace trace = lang::trace<lines_of_elements>();
  std::vector<unsigned> loads, stores;
  ir::walk(trace.module->functions[0]->body(), [&](ir::Operation& op) {
    if (op.op() == ir::Op::LoadPtrTko) loads.push_back(op.loc.line);
    if (op.op() == ir::Op::StorePtrTko) stores.push_back(op.loc.line);
  });
  EXPECT_EQ(loads, std::vector<unsigned>{kGatherLine});
  EXPECT_EQ(stores, std::vector<unsigned>{kGatherLine + 2});
}

void overlapping(unsafe_::Mut<f32, 4> y, In<f32, dyn> x) {
  auto [i] = y.origin();
  y.store_at(i + 1, x.load_at(shape<4>, i));
}
TEST(Unsafe, StoresAtAnyOffsetAreClipped) {
  Array<float> y({10}, -1.0f), x({10});
  x.each([](std::int64_t i) { return static_cast<float>(i); });
  run<overlapping>({3}, none, y, x);
  EXPECT_EQ(y.data, (std::vector<float>{-1, 0, 1, 2, 3, 4, 5, 6, 7, 8}));
}

void store_load_store(Mut<f32, 8> y) {
  y.store(y.load() + 1.0f);
  y.store(y.load() * 2.0f);
}
TEST(Pieces, LaterLoadsSeeEarlierStores) {
  Array<float> y({20}, 3.0f);
  run<store_load_store>({3}, none, y);
  EXPECT_EQ(y.data, std::vector<float>(20, 8.0f));
}

}  // namespace THIS_FILE
}  // namespace tessera
