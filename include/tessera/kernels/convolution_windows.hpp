// What convolutions are made of: the kernels of a convolution, the frame around its input, the view of windows, and the
// launches. The functions for callers are in convolution.hpp.
#pragma once
#include "tessera/kernels/convolution_plan.hpp"
#include "tessera/kernels/epilogue.hpp"

namespace tessera::kernels {

/// x in a frame: [images, space, space, space * groups, channels] at `before` elements from the frame's start; zeros
/// elsewhere.
template <class T, int BW, int BC>
void frame_input(Mut<T, 1, 1, 1, BW, BC> y, In<T, dyn, dyn, dyn, dyn, dyn> x, Scalar<i32> before_0,
                 Scalar<i32> before_1, Scalar<i32> before_2) {
  auto [image, i, j, k, channel] = y.origin();
  y.store(x.load_at(shape<1, 1, 1, BW, BC>, image, i - before_0, j - before_1, k - before_2, channel));
}
/// Where a block finds the input of filter position f: a unit of the view of windows.
struct WindowWalk {
  Scalar<i32> images_apart, second, third, apart_0, apart_1, apart_2, reversed;
  Scalar<i32> positions, image, group;  ///< image: 0 if images are an axis of the view
  Scalar<i32> unit(const Scalar<i32>& f) const {
    auto in_plane = f % (second * third);
    return image * images_apart + group + f / (second * third) * apart_0 + in_plane / third * apart_1 +
           in_plane % third * apart_2;
  }
  /// The filter position of the weights: of the last one first if `reversed` is 1.
  Scalar<i32> weights(const Scalar<i32>& f) const { return where(reversed == 0, f, positions - 1 - f); }
};

/// The product of a block: BM positions in boxes of X, which begin at i, j, k, and BN outputs of one group. w: [groups,
/// outputs, filter positions, channels]. The walk says which positions there are.
template <class M, int BK, int BM, int BN, class T, int... B>
auto sums_of_windows(const In<T, dyn, dyn, dyn, dyn, dyn>& x, Shape<B...> box, const In<T, dyn, dyn, dyn, dyn>& w,
                     const auto& walk, const Scalar<i32>& i, const Scalar<i32>& j, const Scalar<i32>& k,
                     const Scalar<i32>& group, const Scalar<i32>& column) {
  auto X = x.tiles(box);
  auto W = w.tiles(shape<1, BN, 1, BK>);
  const auto lines = W.count(3);
  auto sums = zeros<acc_t<M>, BM, BN>();
  for (auto step : range(walk.positions * lines)) {
    auto f = step / lines, c = step % lines;
    auto in = X.load(i, walk.unit(f), j, k, c);
    auto weights = W.load(group, column, walk.weights(f), c);
    sums = multiply<M>(reshape(in, shape<BM, BK>), transpose(reshape(weights, shape<BN, BK>)), sums);
  }
  return sums;
}
/// A convolution's box: BI x B0 x B1 x B2 positions, of several images or of several planes.
template <class M, int BK, int BI, int B0, int B1, int B2, int BN, class T>
auto sums_of_box(const In<T, dyn, dyn, dyn, dyn, dyn>& x, const In<T, dyn, dyn, dyn, dyn>& w, WindowWalk walk,
                 const Scalar<i32>& i, const Scalar<i32>& j, const Scalar<i32>& k, const Scalar<i32>& column) {
  static_assert(BI == 1 || B0 == 1);
  const auto image = walk.image;
  if constexpr (BI > 1) walk.image = 0;
  return sums_of_windows<M, BK, BI * B0 * B1 * B2, BN>(x, shape<BI * B0, 1, B1, B2, BK>, w, walk, BI == 1 ? i : image,
                                                       j, k, walk.group, column);
}
template <class E, class M, int BK, class U, class T, int BI, int B0, int B1, int B2, int BN, class... P>
void convolution_windows(Mut<U, BI, B0, B1, B2, BN> y, In<T, dyn, dyn, dyn, dyn, dyn> x, In<T, dyn, dyn, dyn, dyn> w,
                         Scalar<i32> images_apart, Scalar<i32> second, Scalar<i32> third, Scalar<i32> apart_0,
                         Scalar<i32> apart_1, Scalar<i32> apart_2, Scalar<i32> reversed, P... operands) {
  auto [image, i, j, k, column] = y.index();
  auto sums = sums_of_box<M, BK, BI, B0, B1, B2, BN>(
      x, w, {images_apart, second, third, apart_0, apart_1, apart_2, reversed, w.dim(2), image, 0}, i, j, k, column);
  y.store(narrow<U>(E{}(reshape(sums, shape<BI, B0, B1, B2, BN>), y, operands...)));
}
/// The convolution of an input whose channels are divided into several groups.
template <class E, class M, int BK, class U, class T, int BI, int B0, int B1, int B2, int BN, class... P>
void convolution_groups(Mut<U, BI, B0, B1, B2, 1, BN> y, In<T, dyn, dyn, dyn, dyn, dyn> x, In<T, dyn, dyn, dyn, dyn> w,
                        Scalar<i32> images_apart, Scalar<i32> second, Scalar<i32> third, Scalar<i32> apart_0,
                        Scalar<i32> apart_1, Scalar<i32> apart_2, Scalar<i32> reversed, P... operands) {
  auto [image, i, j, k, group, column] = y.index();
  auto sums = sums_of_box<M, BK, BI, B0, B1, B2, BN>(
      x, w, {images_apart, second, third, apart_0, apart_1, apart_2, reversed, w.dim(2), image, group}, i, j, k,
      column);
  y.store(narrow<U>(E{}(reshape(sums, shape<BI, B0, B1, B2, 1, BN>), y, operands...)));
}

/// The sums of a piece of B1 x B2 positions with one output for each channel. w: [filter positions, channels].
template <int B1, int B2, int BC, class T>
auto sums_by_channel(const In<T, dyn, dyn, dyn, dyn, dyn>& x, const In<T, dyn, dyn>& w, const auto& walk,
                     const Scalar<i32>& i, const Scalar<i32>& j, const Scalar<i32>& k, const Scalar<i32>& column) {
  auto X = x.tiles(shape<1, 1, B1, B2, BC>);
  auto W = w.tiles(shape<1, BC>);
  auto sums = zeros<compute_t<T>, 1, 1, B1, B2, BC>();
  for (auto f : range(walk.positions)) {
    auto in = widen(X.load(i, walk.unit(f), j, k, column));
    auto weights = W.load(walk.weights(f), column);
    sums = fma(in, reshape(widen(weights), shape<1, 1, 1, 1, BC>), sums);
  }
  return sums;
}
/// One output for each channel, of that channel alone.
template <class E, class U, class T, int B1, int B2, int BC, class... P>
void convolution_by_channel(Mut<U, 1, 1, B1, B2, BC> y, In<T, dyn, dyn, dyn, dyn, dyn> x, In<T, dyn, dyn> w,
                            Scalar<i32> images_apart, Scalar<i32> second, Scalar<i32> third, Scalar<i32> apart_0,
                            Scalar<i32> apart_1, Scalar<i32> apart_2, Scalar<i32> reversed, P... operands) {
  auto [image, i, j, k, column] = y.index();
  const WindowWalk walk{images_apart, second, third, apart_0, apart_1, apart_2, reversed, w.dim(0), image, 0};
  y.store(narrow<U>(E{}(sums_by_channel<B1, B2, BC>(x, w, walk, i, j, k, column), y, operands...)));
}

/// The tiles of a list of Count, a power of two, one after the other along axis K.
template <int K, int Count, class Tile>
auto joined(const std::vector<Tile>& tiles, std::size_t first = 0) {
  if constexpr (Count == 1) {
    return tiles[first];
  } else {
    const auto before = joined<K, Count / 2>(tiles, first);
    const auto behind = joined<K, Count / 2>(tiles, first + Count / 2);
    return cat(before, behind, axis<K>);
  }
}
/// One output for each channel, of filters with few rows and a stride of 1 along the last axis: a piece of B1 rows
/// loads and converts each row of the input once, for all of its own rows. x: the input, without a frame.
template <class E, class U, class T, int B1, int B2, int BC, class... P>
void convolution_by_rows(Mut<U, 1, 1, B1, B2, BC> y, In<T, dyn, dyn, dyn, dyn, dyn> x, In<T, dyn, dyn> w,
                         Constant<int> rows, Constant<int> stride_1, Constant<int> dilation_1, Scalar<i32> before_0,
                         Scalar<i32> before_1, Scalar<i32> before_2, Scalar<i32> stride_0, Scalar<i32> dilation_0,
                         Scalar<i32> dilation_2, Scalar<i32> planes, Scalar<i32> columns, Scalar<i32> reversed,
                         P... operands) {
  auto [image, i, j, k, channel] = y.origin();
  auto block = channel / BC;
  auto W = w.tiles(shape<1, BC>);
  std::vector<Tile<compute_t<T>, 1, 1, 1, B2, BC>> sums(B1, zeros<compute_t<T>, 1, 1, 1, B2, BC>());
  for (auto f : range(planes)) {
    for (auto s : range(columns)) {
      std::vector<Tile<compute_t<T>, 1, 1, 1, 1, BC>> weights;
      for (int r = 0; r < rows; ++r) {
        auto place = (f * rows + r) * columns + s;
        auto row = W.load(where(reversed == 0, place, w.dim(0) - 1 - place), block);
        weights.push_back(reshape(widen(row), shape<1, 1, 1, 1, BC>));
      }
      for (const int p : convolutions::rows_of_input(B1, rows, stride_1, dilation_1)) {
        auto in = widen(x.load_at(shape<1, 1, 1, B2, BC>, image, i * stride_0 + f * dilation_0 - before_0,
                                  j * stride_1 + p - before_1, k + s * dilation_2 - before_2, channel));
        for (int o = 0; o < B1; ++o)
          for (int r = 0; r < rows; ++r)
            if (o * stride_1 + r * dilation_1 == p) sums[o] = fma(in, weights[r], sums[o]);
      }
    }
  }
  y.store(narrow<U>(E{}(joined<2, B1>(sums), y, operands...)));
}

namespace convolutions {

/// The axes of a tensor [first, space..., last] of rank R as [first, three axes in space, last].
template <int R>
Dims<5> in_space(const Dims<R>& d, SourceLocation where) {
  std::array<std::int64_t, 5> all{d[0], 1, 1, 1, d[R - 1]};
  for (int a = 0; a < R - 2; ++a) all[static_cast<std::size_t>(6 - R + a)] = d[a + 1];
  return Dims<5>::from(all, where);
}
template <int S>
Axes on_axes(const PerAxis<S>& p, std::int64_t otherwise) {
  Axes all;
  all.fill(otherwise);
  std::copy(p.of.begin(), p.of.end(), all.end() - S);
  return all;
}
[[noreturn]] inline void wrong_option(const char* kernel, const std::string& what, SourceLocation where) {
  throw ShapeError(std::string("kernels::") + kernel + ": " + what, where);
}
template <int S>
void expect_option(const char* kernel, const char* name, const PerAxis<S>& p, std::int64_t least,
                   SourceLocation where) {
  for (const std::int64_t n : p.of)
    if (n < least || n > 0x7fffffff)
      wrong_option(
          kernel,
          std::string(name) + " is " + std::to_string(n) + ": it must be " + std::to_string(least) + " to 2147483647",
          where);
}

/// A contiguous copy of x: [a, b, c, d, e] in a frame of `to`, `before` from its start.
template <Element T>
Op<Tensor<T, 5>> framed(const View<T, 5>& x, const Dims<5>& to, std::int64_t groups, const Axes& before,
                        SourceLocation where) {
  const auto n = [](std::int64_t v) { return static_cast<std::int32_t>(v); };
  constexpr int kChoices = static_cast<int>(std::size(kBytesOfFramePieces));
  return with_constant<kChoices>(frame_piece_of(to[3], to[4], sizeof(T)), [&](auto choice) {
    constexpr int BC = kBytesOfFramePieces[choice] / static_cast<int>(sizeof(T)), BW = kElementsOfFramePieces / BC;
    return kernel<frame_input<T, BW, BC>>(empty<T>(to, where), x, n(before[0]), n(before[1]), n(before[2] * groups),
                                          where);
  });
}

/// The output [images, three axes in space, outputs] of one group, [images, ..., groups, outputs] of several.
template <bool Groups>
auto output_of(const Sizes& s, SourceLocation where) {
  if constexpr (Groups)
    return Dims<6>({s.images, s.out[0], s.out[1], s.out[2], s.groups, s.outputs}, where);
  else
    return Dims<5>({s.images, s.out[0], s.out[1], s.out[2], s.outputs}, where);
}
/// What an epilogue's operand is for that output: of several groups a vector of all outputs becomes [groups, outputs],
/// and the last axis of a tensor of the output's five axes becomes these two.
template <bool Groups, class A>
auto for_output(const A& a, const Sizes& s, SourceLocation where) {
  if constexpr (!Operand<A>) {
    return a;
  } else if constexpr (A::rank == 1 && Groups) {
    return tessera::reshape(a.view(where), Dims<2>({s.groups, s.outputs}, where), where);
  } else if constexpr (A::rank == 5 && Groups) {
    const Dims<5> d = a.dims(where);
    return tessera::reshape(a.view(where), Dims<6>({d[0], d[1], d[2], d[3], s.groups, s.outputs}, where), where);
  } else {
    return a.view(where);
  }
}
/// An epilogue whose operands of the caller's rank R have five axes: what follows is the same for every R.
template <int R, class A>
auto operand_in_space(const A& a, SourceLocation where) {
  if constexpr (has_rank<R, A>())
    return tessera::reshape(a, in_space(a.dims(where), where), where);
  else
    return a;
}
template <int R, class E, class... P>
auto epilogue_in_space(const Fused<E, P...>& epilogue, SourceLocation where) {
  return std::apply(
      [&](const auto&... p) {
        return Fused<E, decltype(operand_in_space<R>(p, where))...>{{operand_in_space<R>(p, where)...}};
      },
      epilogue.operands);
}
template <bool Groups, class A>
using for_output_t = decltype(for_output<Groups>(std::declval<const A&>(), std::declval<const Sizes&>(), {}));
/// The kernel of a form: of one group, or of several.
template <bool Groups, class E, class M, int BK, class U, class T, Box B, int BN, class... P>
constexpr auto windows_launcher() {
  if constexpr (Groups)
    return kernel<convolution_groups<E, M, BK, U, T, B.images, B.extents[0], B.extents[1], B.extents[2], BN, P...>>.launcher();
  else
    return kernel<convolution_windows<E, M, BK, U, T, B.images, B.extents[0], B.extents[1], B.extents[2], BN, P...>>.launcher();
}
/// launch(the arguments that say where the input of a filter position is).
template <class F>
auto with_walk(const Windows& v, bool reversed, F launch) {
  const auto n = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  return launch(n(v.walk.images_apart), n(v.walk.filter[1]), n(v.walk.filter[2]), n(v.walk.apart[0]),
                n(v.walk.apart[1]), n(v.walk.apart[2]), reversed ? 1 : 0);
}

/// Groups have few channels each; what is not multiplied by tensor cores has small tiles.
template <class M, bool Groups>
constexpr int tile_choices() {
  return std::is_same_v<M, f32> || std::is_same_v<M, f64> || Groups ? kSmallTileCount : kTileCount;
}

/// The product of framed input and filter. `lines`: as windows_of; `reversed`: the last filter position is first.
template <bool Groups, class U, class M, Element T, class E, class... P>
auto of_windows(const Sizes& s, const Frame& f, const View<T, 1>& x, const View<T, 4>& w, bool lines, bool reversed,
                const Fused<E, P...>& epilogue, SourceLocation where) {
  constexpr int kStep = 128 / static_cast<int>(sizeof(T));  // 128 bytes of channels
  constexpr int kChoices = tile_choices<M, Groups>();
  const int tile = tile_of(s, target_of(x.device(where)), kChoices);
  const auto launch = with_constant<kChoices>(tile, [&](auto t) {
    return windows_launcher<Groups, E, M, kStep, U, T, kTiles[t].box, kTiles[t].columns,
                            epilogue_param<for_output_t<Groups, P>>...>();
  });
  const Windows v = windows_of(s, f, kTiles[static_cast<std::size_t>(tile)].box.images > 1, lines);
  const View<T, 5> windows = tessera::windows(x, Dims<5>::from(v.dims, where), v.strides, where);
  return std::apply(
      [&](const auto&... p) {
        return with_walk(v, reversed, [&](auto... walk) {
          return launch(empty<U>(output_of<Groups>(s, where), where), windows, w, walk...,
                        for_output<Groups>(p, s, where)..., where);
        });
      },
      epilogue.operands);
}
/// One output for each channel; s: of a group of all channels. w: [filter positions, channels].
template <class U, Element T, class E, class... P>
Op<Tensor<U, 5>> by_channel(const Sizes& s, const Frame& f, const View<T, 1>& x, const View<T, 2>& w, bool reversed,
                            const Fused<E, P...>& epilogue, SourceLocation where) {
  constexpr int kChannels = 128 / static_cast<int>(sizeof(T));
  const Windows v = windows_of(s, f, false, false);
  const View<T, 5> windows = tessera::windows(x, Dims<5>::from(v.dims, where), v.strides, where);
  return std::apply(
      [&](const auto&... p) {
        return with_walk(v, reversed, [&](auto... walk) {
          return kernel<convolution_by_channel<E, U, T, 4, 8, kChannels,
                                               epilogue_param<decltype(for_output<false>(p, s, where))>...>>(
              empty<U>(output_of<false>(s, where), where), windows, w, walk..., for_output<false>(p, s, where)...,
              where);
        });
      },
      epilogue.operands);
}

/// by_channel() of an input without a frame; w: [filter positions, channels].
template <class U, Element T, class E, class... P>
Op<Tensor<U, 5>> by_rows(const Sizes& s, const View<T, 5>& x, const View<T, 2>& w, bool reversed,
                         const Fused<E, P...>& epilogue, SourceLocation where) {
  constexpr int kChannels = 128 / static_cast<int>(sizeof(T));
  // A thread has 16 bytes of each row of a piece. Beside the weights of many rows it needs all registers that it can
  // get.
  const Hints hints{.warps = 2, .occupancy = s.filter[1] <= 5 ? 3 : 0};
  const auto n = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  return with_constant<2>(s.out[1] == 1 ? 1 : 0, [&](auto line) {
    constexpr int B1 = line ? 1 : 8, B2 = line ? 32 : 8;
    return std::apply(
        [&](const auto&... p) {
          return kernel<convolution_by_rows<E, U, T, B1, B2, kChannels,
                                            epilogue_param<decltype(for_output<false>(p, s, where))>...>>.hints(hints)(
              empty<U>(output_of<false>(s, where), where), x, w, n(s.filter[1]), n(s.stride[1]), n(s.dilation[1]),
              n(s.before[0]), n(s.before[1]), n(s.before[2]), n(s.stride[0]), n(s.dilation[0]), n(s.dilation[2]),
              n(s.filter[0]), n(s.filter[2]), reversed ? 1 : 0, for_output<false>(p, s, where)..., where);
        },
        epilogue.operands);
  });
}

/// next(framed x, as a line of elements): x itself if it needs no frame.
template <Element T, class F>
auto with_frame(std::int64_t groups, const Axes& before, const Frame& f, const View<T, 5>& x, SourceLocation where,
                F next) -> decltype(next(std::declval<View<T, 1>>())) {
  const auto line = [where](const auto& of) {
    return tessera::reshape(of, Dims<1>({of.dims().numel(where)}, where), where);
  };
  if (!f.copied) return next(line(x));
  const Dims<5> d = x.dims(where);
  const Dims<5> grouped({d[0], d[1], d[2], d[3] * groups, d[4] / groups}, where);
  const Dims<5> to({d[0], f.extents[0], f.extents[1], f.extents[2] * groups, f.channels}, where);
  return framed(tessera::reshape(x, grouped, where), to, groups, before, where)
      .then([=](Tensor<T, 5> made) { return next(line(made.view())); }, where);
}
/// The filter [groups, outputs, positions, channels] with channels up to `channels`. One whose outputs are neighbours
/// is read as it is if tensor copies can: of few outputs it is copied, which makes the channels neighbours.
template <Element T, class F>
auto with_filter(const View<T, 4>& w, std::int64_t channels, SourceLocation where, F next)
    -> decltype(next(std::declval<View<T, 4>>())) {
  const bool whole_vectors = w.dim(1) * static_cast<std::int64_t>(sizeof(T)) % 16 == 0;
  if (w.dim(3) == channels && (w.stride(3) == 1 || (w.stride(1) == 1 && whole_vectors))) return next(w);
  const auto copy = [=](const View<T, 4>& from) {
    if (from.dim(3) == channels) return next(from);
    const Dims<5> five({w.dim(0), 1, w.dim(1), w.dim(2), w.dim(3)}, where);
    const Dims<5> to({w.dim(0), 1, w.dim(1), w.dim(2), channels}, where);
    return framed(tessera::reshape(from, five, where), to, 1, Axes{0, 0, 0}, where)
        .then(
            [=](Tensor<T, 5> made) {
              return next(
                  tessera::reshape(made.view(), Dims<4>({w.dim(0), w.dim(1), w.dim(2), channels}, where), where));
            },
            where);
  };
  if (w.contiguous(where)) return copy(w);
  return clone(w, where).then([=](Tensor<T, 4> made) { return copy(made.view()); }, where);
}
/// next([filter positions, channels]), of a filter with one output for each channel.
template <Element T, class F>
auto with_weights_by_channel(const View<T, 4>& w, SourceLocation where, F next) {
  const View<T, 2> filter = tessera::reshape(w, Dims<2>({w.dim(0), w.dim(2)}, where), where);
  return clone(filter.template permute<1, 0>(), where)
      .then([=](Tensor<T, 2> made) { return next(made.view()); }, where);
}

/// The sizes of the output that a caller sees.
template <int R>
Dims<R> output_dims(const Sizes& s, SourceLocation where) {
  std::array<std::int64_t, R> d{};
  d[0] = s.images, d[R - 1] = s.groups * s.outputs;
  for (int a = 0; a < R - 2; ++a) d[static_cast<std::size_t>(a + 1)] = s.out[static_cast<std::size_t>(5 - R + a)];
  return Dims<R>::from(d, where);
}
/// The convolution of these sizes, [images, three axes in space, outputs]. w: [groups, outputs, filter positions,
/// channels]; reversed: of its last position first.
template <class U, class M, Element T, class E, class... P>
Op<Tensor<U, 5>> run(const Sizes& s, const View<T, 5>& x, const View<T, 4>& w, bool reversed,
                     const Fused<E, P...>& epilogue, SourceLocation where) {
  if (s.channels == 1 && s.outputs == 1 && s.groups > 1) {
    Sizes one = s;  // a group of all channels, of which each is multiplied by itself
    one.groups = 1, one.channels = one.outputs = s.groups;
    const Frame f = frame_of(one, sizeof(T));
    const auto with_weights = [=](const auto& next) { return with_weights_by_channel(w, where, next); };
    if (few_rows(one))
      return with_weights([=](const View<T, 2>& made) { return by_rows<U>(one, x, made, reversed, epilogue, where); });
    return with_frame(one.groups, one.before, f, x, where, [=](const View<T, 1>& framed_x) {
      return with_weights(
          [=](const View<T, 2>& made) { return by_channel<U>(one, f, framed_x, made, reversed, epilogue, where); });
    });
  }
  const Frame f = frame_of(s, sizeof(T));
  return with_frame(s.groups, s.before, f, x, where, [=](const View<T, 1>& framed_x) {
    return with_filter(w, f.channels, where, [=](const View<T, 4>& filter) {
      // The elements of a window along the last axis are one line with their channels, if the filter's are, too.
      const bool lines = !reversed && s.groups == 1 && s.dilation[2] == 1 && filter.contiguous(where);
      const Dims<4> in_lines({1, s.outputs, s.filter[0] * s.filter[1], s.filter[2] * f.channels}, where);
      const View<T, 4> right = lines ? tessera::reshape(filter, in_lines, where) : filter;
      if (s.groups == 1) return of_windows<false, U, M>(s, f, framed_x, right, lines, reversed, epilogue, where);
      return tessera::reshape(of_windows<true, U, M>(s, f, framed_x, right, lines, reversed, epilogue, where),
                              output_dims<5>(s, where), where);
    });
  });
}

/// A result of five axes as one of R.
template <int R, class U>
Op<Tensor<U, R>> of_rank(const Sizes& s, Op<Tensor<U, 5>> y, SourceLocation where) {
  if constexpr (R == 5)
    return y;
  else
    return tessera::reshape(std::move(y), output_dims<R>(s, where), where);
}

/// The checks that both kinds of convolution share; `inner`, `outer`: the names of the extents of w.
template <int S, Operand X, Operand W>
void check(const char* name, const X& x, const W& w, std::int64_t groups, SourceLocation where) {
  static_assert(S >= 1 && S <= 3, "a convolution has one to three axes in space: x is [images, space..., channels]");
  static_assert(W::rank == X::rank, "x is [images, space..., channels] and w [outputs, filter..., channels / groups]");
  static_assert(std::is_same_v<element_of<X>, element_of<W>>, "x and w must have one element type: cast one of them");
  if (groups < 1) wrong_option(name, "groups is " + std::to_string(groups) + ": it must be at least 1", where);
  expect_shape(x.dim(X::rank - 1, where) % groups == 0, name, "x", x, "its channels must be a multiple of groups",
               where);
  for (int a = 1; a <= S; ++a) expect_shape(w.dim(a, where) >= 1, name, "w", w, "a filter has elements", where);
}

/// With leases on all operands, of which some are read behind the copy of others.
template <class T, class E, class... P>
Op<T> reading_all(Op<T> op, const auto& x, const auto& w, const Fused<E, P...>& epilogue, SourceLocation where) {
  return std::apply(
      [&](const auto&... p) {
        [[maybe_unused]] const auto leased = [&](Op<T> all, const auto& operand) {
          if constexpr (Operand<std::remove_cvref_t<decltype(operand)>>)
            return tessera::reading(std::move(all), where, operand);
          else
            return all;
        };
        Op<T> all = tessera::reading(std::move(op), where, x, w);
        ((all = leased(std::move(all), p)), ...);
        return all;
      },
      epilogue.operands);
}

}  // namespace convolutions
}  // namespace tessera::kernels
