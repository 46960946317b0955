// Transposed convolutions: the gradient of a convolution for its input, and layers that enlarge images.
//
//   auto x = kernels::convolution_transposed(y, w, {.stride = 2}).sync();
//
// Without a stride they are convolutions with the filter backwards (convolution_windows.hpp). With a stride, outputs
// whose coordinates have equal remainders form a phase, which has its own part of the filter (convolution_phases.hpp).
// A launch computes all phases that have equally many outputs.
#pragma once
#include "tessera/kernels/convolution_phases.hpp"
#include "tessera/kernels/convolution_windows.hpp"

namespace tessera::kernels {

/// Kernel arguments for one axis: those of convolutions::Phases, and the units between the elements of two taps.
struct PhaseAxis {
  Scalar<i32> place, extent, step, apart;
  convolutions::Taps<Scalar<i32>> taps(const Scalar<i32>& phase) const {
    return convolutions::taps_of(place + phase, extent, step);
  }
};
/// Where a block of one phase finds the input and the weights of its position f, of `positions`.
struct PhaseWalk {
  std::array<PhaseAxis, 3> axes;
  std::array<convolutions::Taps<Scalar<i32>>, 3> taps;
  Scalar<i32> positions, begin, units, filter;
  /// `first`: the unit of a phase that has none before it; `plane`: units of a plane. There are so many `units` in the
  /// view, and positions in the `filter`.
  PhaseWalk(std::array<PhaseAxis, 3> of, const Scalar<i32>& plane_phase, const Scalar<i32>& row_phase,
            const Scalar<i32>& column_phase, const Scalar<i32>& first, const Scalar<i32>& plane,
            const Scalar<i32>& of_view, const Scalar<i32>& of_filter)
      : axes(of),
        taps{of[0].taps(plane_phase), of[1].taps(row_phase), of[2].taps(column_phase)},
        positions(taps[0].count * taps[1].count * taps[2].count),
        begin(first + taps[0].ahead * plane + taps[1].ahead * of[1].apart + taps[2].ahead * of[2].apart),
        units(of_view),
        filter(of_filter) {}

  Scalar<i32> unit(const Scalar<i32>& f) const {
    const auto at = tap(f);
    return inside(begin - at[0] * axes[0].apart - at[1] * axes[1].apart - at[2] * axes[2].apart, units);
  }
  Scalar<i32> weights(const Scalar<i32>& f) const {
    const auto at = tap(f);
    const auto k = [&](std::size_t a) { return taps[a].first + at[a] * axes[a].step; };
    return inside((k(0) * axes[1].extent + k(1)) * axes[2].extent + k(2), filter);
  }

 private:
  std::array<Scalar<i32>, 3> tap(const Scalar<i32>& f) const {
    auto in_plane = f % (taps[1].count * taps[2].count);
    return {f / (taps[1].count * taps[2].count), in_plane / taps[2].count, in_plane % taps[2].count};
  }
  /// The index as it is: the host has chosen the numbers so. But no launch can prove it, and a guard in the loop would
  /// keep loads out of flight.
  static Scalar<i32> inside(const Scalar<i32>& index, const Scalar<i32>& count) {
    return min(max(index, 0), count - 1);
  }
};

/// Phases of a transposed convolution. y: [images, planes, rows of a phase, phases, columns of a phase, phases,
/// outputs]. x: windows of the input, [images or 1, units, rows, columns, channels]; w: as of sums_of_windows().
template <class E, class M, int BK, class U, class T, int BI, int B1, int B2, int BN, class... P>
void transposed_phases(Mut<U, BI, 1, B1, 1, B2, 1, BN> y, In<T, dyn, dyn, dyn, dyn, dyn> x, In<T, dyn, dyn, dyn, dyn> w,
                       Scalar<i32> start, Scalar<i32> images_apart, Scalar<i32> plane, Scalar<i32> advance,
                       Scalar<i32> place_0, Scalar<i32> extent_0, Scalar<i32> step_0, Scalar<i32> apart_0,
                       Scalar<i32> place_1, Scalar<i32> extent_1, Scalar<i32> step_1, Scalar<i32> apart_1,
                       Scalar<i32> place_2, Scalar<i32> extent_2, Scalar<i32> step_2, Scalar<i32> apart_2,
                       P... operands) {
  auto [image, i, j, row_phase, k, column_phase, column] = y.index();
  const PhaseWalk walk({PhaseAxis{place_0, extent_0, step_0, apart_0},
                        {place_1, extent_1, step_1, apart_1},
                        {place_2, extent_2, step_2, apart_2}},
                       i * advance, row_phase, column_phase, start + image * images_apart, plane, x.dim(1), w.dim(2));
  auto sums = sums_of_windows<M, BK, BI * B1 * B2, BN>(x, shape<BI, 1, B1, B2, BK>, w, walk,
                                                       BI == 1 ? Scalar<i32>(0) : image, j, k, 0, column);
  y.store(narrow<U>(E{}(reshape(sums, shape<BI, 1, B1, 1, B2, 1, BN>), y, operands...)));
}
/// As transposed_phases(), for an input whose channels are divided into several groups.
template <class E, class M, int BK, class U, class T, int BI, int B1, int B2, int BN, class... P>
void transposed_phases_groups(Mut<U, BI, 1, B1, 1, B2, 1, 1, BN> y, In<T, dyn, dyn, dyn, dyn, dyn> x,
                              In<T, dyn, dyn, dyn, dyn> w, Scalar<i32> start, Scalar<i32> images_apart,
                              Scalar<i32> plane, Scalar<i32> advance, Scalar<i32> place_0, Scalar<i32> extent_0,
                              Scalar<i32> step_0, Scalar<i32> apart_0, Scalar<i32> place_1, Scalar<i32> extent_1,
                              Scalar<i32> step_1, Scalar<i32> apart_1, Scalar<i32> place_2, Scalar<i32> extent_2,
                              Scalar<i32> step_2, Scalar<i32> apart_2, P... operands) {
  auto [image, i, j, row_phase, k, column_phase, group, column] = y.index();
  const PhaseWalk walk({PhaseAxis{place_0, extent_0, step_0, apart_0},
                        {place_1, extent_1, step_1, apart_1},
                        {place_2, extent_2, step_2, apart_2}},
                       i * advance, row_phase, column_phase, start + image * images_apart + group, plane, x.dim(1),
                       w.dim(2));
  auto sums = sums_of_windows<M, BK, BI * B1 * B2, BN>(x, shape<BI, 1, B1, B2, BK>, w, walk,
                                                       BI == 1 ? Scalar<i32>(0) : image, j, k, group, column);
  y.store(narrow<U>(E{}(reshape(sums, shape<BI, 1, B1, 1, B2, 1, 1, BN>), y, operands...)));
}
/// One output for each channel, of that channel alone. w: [filter positions, channels].
template <class E, class U, class T, int B1, int B2, int BC, class... P>
void transposed_phases_by_channel(Mut<U, 1, 1, B1, 1, B2, 1, BC> y, In<T, dyn, dyn, dyn, dyn, dyn> x, In<T, dyn, dyn> w,
                                  Scalar<i32> start, Scalar<i32> images_apart, Scalar<i32> plane, Scalar<i32> advance,
                                  Scalar<i32> place_0, Scalar<i32> extent_0, Scalar<i32> step_0, Scalar<i32> apart_0,
                                  Scalar<i32> place_1, Scalar<i32> extent_1, Scalar<i32> step_1, Scalar<i32> apart_1,
                                  Scalar<i32> place_2, Scalar<i32> extent_2, Scalar<i32> step_2, Scalar<i32> apart_2,
                                  P... operands) {
  auto [image, i, j, row_phase, k, column_phase, column] = y.index();
  const PhaseWalk walk({PhaseAxis{place_0, extent_0, step_0, apart_0},
                        {place_1, extent_1, step_1, apart_1},
                        {place_2, extent_2, step_2, apart_2}},
                       i * advance, row_phase, column_phase, start + image * images_apart, plane, x.dim(1), w.dim(0));
  auto sums = sums_by_channel<B1, B2, BC>(x, w, walk, 0, j, k, column);
  y.store(narrow<U>(E{}(reshape(sums, shape<1, 1, B1, 1, B2, 1, BC>), y, operands...)));
}

namespace convolutions {

/// The axes of outputs that are divided into phases; of several groups, one more.
template <bool Groups>
inline constexpr int kPhaseAxes = Groups ? 8 : 7;

/// The part of a tensor [images, three in space, outputs] that a launch computes or reads, with an axis of phases
/// behind rows and behind columns; of several groups the outputs are [groups, outputs]. `l.dims` are those of the
/// output, or 1 for all elements of an axis.
template <bool Groups>
tessera::detail::Layout<kPhaseAxes<Groups>> in_phases(tessera::detail::Layout<5> l, const PhasesOfLaunch& p,
                                                      std::int64_t groups, std::int64_t outputs) {
  tessera::detail::Layout<kPhaseAxes<Groups>> part{std::move(l.storage), l.offset, {}, {}};
  std::size_t at = 0;
  const auto push = [&](std::int64_t extent, std::int64_t stride) {
    part.dims[at] = extent, part.strides[at] = stride, ++at;
  };
  const bool some = std::find(l.dims.begin(), l.dims.end(), 0) == l.dims.end();
  push(l.dims[0], l.strides[0]);
  for (std::size_t a = 0; a < 3; ++a) {
    const Phases& of = p[a];
    const bool one = l.dims[a + 1] == 1;
    push(one ? 1 : of.count, l.strides[a + 1] * of.spacing);
    if (a > 0) push(one ? 1 : of.width, l.strides[a + 1]);
    if (!one && some) part.offset += of.first * l.strides[a + 1];
  }
  if (Groups) push(groups, l.strides[4] * outputs);
  push(Groups ? outputs : l.dims[4], l.strides[4]);
  return part;
}
/// What an epilogue's operand is for that output: as for_output(), and a tensor of the output's five axes in phases.
template <bool Groups, class A>
auto operand_in_phases(const A& a, const Transposed& t, const PhasesOfLaunch& p, SourceLocation where) {
  using tessera::detail::Reach;
  if constexpr (!has_rank<5, A>()) {
    Sizes s;
    s.groups = t.groups, s.outputs = t.outputs;
    return for_output<Groups>(a, s, where);
  } else {
    for (int axis = 0; axis < 5; ++axis) {
      const auto of = static_cast<std::size_t>(axis);
      const std::int64_t extent = axis == 0 ? t.images : axis == 4 ? t.groups * t.outputs : t.axes[of - 1].out;
      if (Groups || a.dim(axis, where) != 1)
        expect_dim("convolution_transposed", "operand of the epilogue", a, axis, extent, where);
    }
    return Reach::make<View<typename A::element, kPhaseAxes<Groups>>>(
        in_phases<Groups>(Reach::layout(a), p, t.groups, t.outputs));
  }
}
template <bool Groups, class A>
using operand_in_phases_t = decltype(operand_in_phases<Groups>(
    std::declval<const A&>(), std::declval<const Transposed&>(), std::declval<const PhasesOfLaunch&>(), {}));

/// launch(the arguments of the kernel's walk).
template <class F>
auto with_phases(const PhaseWindows& v, const PhasesOfLaunch& p, F launch) {
  const auto n = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  const auto apart = [&](std::size_t a) { return n(p[a].apart * v.pitch[a]); };
  return launch(n(v.start), n(v.images_apart), n(v.pitch[0]), n(p[0].advance),  //
                n(p[0].place), n(p[0].extent), n(p[0].step), apart(0),          //
                n(p[1].place), n(p[1].extent), n(p[1].step), apart(1),          //
                n(p[2].place), n(p[2].extent), n(p[2].step), apart(2));
}

template <bool Groups, class E, class M, int BK, class U, class T, Box B, int BN, class... P>
constexpr auto phases_launcher() {
  if constexpr (Groups)
    return kernel<transposed_phases_groups<E, M, BK, U, T, B.images, B.extents[1], B.extents[2], BN, P...>>.launcher();
  else
    return kernel<transposed_phases<E, M, BK, U, T, B.images, B.extents[1], B.extents[2], BN, P...>>.launcher();
}
/// Fills `y`, the part of the output for these phases. x: framed, as a line of elements; w: [groups, outputs, filter
/// positions, channels].
template <bool Groups, class M, class U, Element T, class E, class... P>
auto fill_phases(Tensor<U, kPhaseAxes<Groups>> y, const Transposed& t, const PhasesOfLaunch& p, const Frame& f,
                 const View<T, 1>& x, const View<T, 4>& w, const Fused<E, P...>& epilogue, SourceLocation where) {
  constexpr int kStep = 128 / static_cast<int>(sizeof(T));
  constexpr int kChoices = tile_choices<M, Groups>();
  const int tile = tile_of(sizes_of(t, p), target_of(x.device(where)), kChoices);
  const auto launch = with_constant<kChoices>(tile, [&](auto c) {
    return phases_launcher<Groups, E, M, kStep, U, T, kTiles[c].box, kTiles[c].columns,
                           epilogue_param<operand_in_phases_t<Groups, P>>...>();
  });
  const PhaseWindows v = windows_of(t, f, p, kTiles[static_cast<std::size_t>(tile)].box.images > 1);
  const View<T, 5> windows = tessera::windows(x, Dims<5>::from(v.dims, where), v.strides, where);
  return std::apply(
      [&](const auto&... operands) {
        return with_phases(v, p, [&](auto... walk) {
          return launch(std::move(y), windows, w, walk..., operand_in_phases<Groups>(operands, t, p, where)..., where);
        });
      },
      epilogue.operands);
}
/// As above, with one output for each channel; t describes one group of all channels. w: [filter positions, channels].
template <class U, Element T, class E, class... P>
auto fill_phases_by_channel(Tensor<U, 7> y, const Transposed& t, const PhasesOfLaunch& p, const Frame& f,
                            const View<T, 1>& x, const View<T, 2>& w, const Fused<E, P...>& epilogue,
                            SourceLocation where) {
  constexpr int kChannels = 128 / static_cast<int>(sizeof(T));
  const PhaseWindows v = windows_of(t, f, p, false);
  const View<T, 5> windows = tessera::windows(x, Dims<5>::from(v.dims, where), v.strides, where);
  return std::apply(
      [&](const auto&... operands) {
        return with_phases(v, p, [&](auto... walk) {
          return kernel<
              transposed_phases_by_channel<E, U, T, 4, 8, kChannels, epilogue_param<operand_in_phases_t<false, P>>...>>(
              std::move(y), windows, w, walk..., operand_in_phases<false>(operands, t, p, where)..., where);
        });
      },
      epilogue.operands);
}

/// y after fill(part of y, launch) for each of the launches.
template <bool Groups, class U, class F>
Op<Tensor<U, 5>> fill_all(Tensor<U, 5> y, const Transposed& t, std::vector<PhasesOfLaunch> launches, F fill,
                          SourceLocation where) {
  using tessera::detail::Layout;
  using tessera::detail::Reach;
  if (launches.empty()) return ready(std::move(y));
  const PhasesOfLaunch now = launches.back();
  launches.pop_back();
  Layout<5> whole = std::move(Reach::layout(y));
  auto part = Reach::make<Tensor<U, kPhaseAxes<Groups>>>(in_phases<Groups>(whole, now, t.groups, t.outputs));
  whole.storage.reset();
  return fill(std::move(part), now)
      .then(
          [=](Tensor<U, kPhaseAxes<Groups>> made) {
            Layout<5> all = whole;
            all.storage = std::move(Reach::layout(made).storage);
            return fill_all<Groups>(Reach::make<Tensor<U, 5>>(std::move(all)), t, launches, fill, where);
          },
          where);
}
/// A new output on the device of x, filled by fill_all().
template <bool Groups, class U, Element T, class F>
Op<Tensor<U, 5>> filled(const Transposed& t, const View<T, 1>& x, F fill, SourceLocation where) {
  const Dims<5> dims({t.images, t.axes[0].out, t.axes[1].out, t.axes[2].out, t.groups * t.outputs}, where);
  return tessera::detail::make<U>(dims, tessera::detail::recipe<U>("empty", nullptr, where), &x.device(where).backend())
      .then([=](Tensor<U, 5> y) { return fill_all<Groups>(std::move(y), t, launches_of(t), fill, where); }, where);
}

/// The transposed convolution, [images, three axes in space, outputs]. w: [groups, outputs, filter positions,
/// channels].
template <class U, class M, Element T, class E, class... P>
Op<Tensor<U, 5>> run_transposed(const Transposed& t, const View<T, 5>& x, const View<T, 4>& w,
                                const Fused<E, P...>& epilogue, SourceLocation where) {
  const Axes before{t.axes[0].before(), t.axes[1].before(), t.axes[2].before()};
  if (t.channels == 1 && t.outputs == 1 && t.groups > 1) {
    Transposed one = t;  // a group of all channels, of which each is multiplied by itself
    one.groups = 1, one.channels = one.outputs = t.groups;
    const Frame f = frame_of(one, sizeof(T));
    return with_frame(1, before, f, x, where, [=](const View<T, 1>& framed_x) {
      return with_weights_by_channel(w, where, [=](const View<T, 2>& weights) {
        return filled<false, U>(
            one, framed_x,
            [=](Tensor<U, 7> y, const PhasesOfLaunch& p) {
              return fill_phases_by_channel<U>(std::move(y), one, p, f, framed_x, weights, epilogue, where);
            },
            where);
      });
    });
  }
  const Frame f = frame_of(t, sizeof(T));
  return with_frame(t.groups, before, f, x, where, [=](const View<T, 1>& framed_x) {
    return with_filter(w, f.channels, where, [=](const View<T, 4>& filter) {
      const auto in_groups = [=](auto groups) {
        constexpr bool kGroups = groups == 1;
        return filled<kGroups, U>(
            t, framed_x,
            [=](Tensor<U, kPhaseAxes<kGroups>> y, const PhasesOfLaunch& p) {
              return fill_phases<kGroups, M>(std::move(y), t, p, f, framed_x, filter, epilogue, where);
            },
            where);
      };
      return with_constant<2>(t.groups > 1 ? 1 : 0, in_groups);
    });
  });
}

}  // namespace convolutions

/// The transpose of convolution(., w): what it maps outputs to, back to inputs, and its gradient for its input. x is
/// [images, space..., channels], w [channels, filter..., outputs / groups], as of the convolution that is transposed;
/// the result is [images, space..., outputs]. Types, epilogues and errors are those of convolution(). With a stride the
/// epilogue sees axes of phases behind rows and columns: [images, planes, rows / stride, stride, columns / stride,
/// stride, outputs], or some of these phases.
template <class U = void, class M = void, Operand X, Operand W, class E = epilogues::Plain, class... P>
Op<Tensor<product_t<U, element_of<X>>, X::rank>> convolution_transposed(
    const X& x, const W& w, const TransposedConvolutionOptions<X::rank - 2>& options = {},
    const Fused<E, P...>& epilogue = Fused<E, P...>{}, SourceLocation where = SourceLocation::current()) {
  using T = element_of<X>;
  using C = product_t<U, T>;
  using Y = std::conditional_t<std::is_void_v<M>, T, M>;
  constexpr int R = X::rank, S = R - 2;
  constexpr const char* name = "convolution_transposed";
  convolutions::check<S>(name, x, w, options.groups, where);
  convolutions::expect_option(name, "stride", options.stride, 1, where);
  convolutions::expect_option(name, "dilation", options.dilation, 1, where);
  convolutions::expect_option(name, "padding", options.padding, 0, where);
  convolutions::expect_option(name, "output_padding", options.output_padding, 0, where);
  expect_dim(name, "w", w, 0, x.dim(R - 1, where), where);
  const Dims<5> in = convolutions::in_space(x.dims(where), where),
                filter = convolutions::in_space(w.dims(where), where);
  const convolutions::Axes stride = convolutions::on_axes(options.stride, 1),
                           dilation = convolutions::on_axes(options.dilation, 1),
                           padding = convolutions::on_axes(options.padding, 0),
                           more = convolutions::on_axes(options.output_padding, 0);
  convolutions::Transposed t;
  t.images = in[0], t.groups = options.groups, t.channels = in[4] / t.groups, t.outputs = filter[4];
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t extent = in[static_cast<int>(a) + 1], positions = filter[static_cast<int>(a) + 1];
    const std::int64_t out = (extent - 1) * stride[a] - 2 * padding[a] + (positions - 1) * dilation[a] + 1 + more[a];
    if (more[a] >= std::max(stride[a], dilation[a]))
      convolutions::wrong_option(name, "output_padding must be less than stride or dilation", where);
    expect_shape(extent >= 1 && out >= 1, name, "x", x, "with this padding no output is left", where);
    t.axes[a] = {extent, out, positions, stride[a], padding[a], dilation[a]};
  }
  const convolutions::Sizes s = convolutions::backwards(t);
  check_epilogue(epilogue, name, convolutions::output_dims<R>(s, where), where);
  expect_shape(x.contiguous(where), name, "x", x, "it must be contiguous: clone it", where);
  expect_shape(w.contiguous(where), name, "w", w, "it must be contiguous: clone it", where);
  const Dims<4> by_channel({s.groups, s.channels, s.filter[0] * s.filter[1] * s.filter[2], s.outputs}, where);
  const View<T, 4> filters = tessera::reshape(w.view(where), by_channel, where).template permute<0, 3, 2, 1>(where);
  const View<T, 5> input = tessera::reshape(x.view(where), in, where);
  const auto in_space = convolutions::epilogue_in_space<R>(epilogue, where);
  auto y = stride == convolutions::Axes{1, 1, 1}
               ? convolutions::run<C, Y>(s, input, filters, true, in_space, where)
               : convolutions::run_transposed<C, Y>(t, input, filters, in_space, where);
  return convolutions::reading_all(convolutions::of_rank<R>(s, std::move(y), where), x, w, epilogue, where);
}

}  // namespace tessera::kernels
