// Elements of f32 that memory bounds, with several exponentials, logarithms, powers, or trigonometric functions each.
#include <cmath>
#include <numbers>

#include "cases.hpp"
#include "tessera/kernels/functions.hpp"

namespace generality {
namespace {

constexpr int kPiece = 1024;
constexpr float kPi = std::numbers::pi_v<float>;

/// x tanh(log(1 + e^x)).
template <int B>
void mish(Mut<f32, B> y, In<f32, dyn> x) {
  auto t = x.load_like(y);
  y.store(t * tanh(max(t, 0.0f) + log(1.0f + exp(-abs(t)))));
}

template <int B>
void exact_gelu(Mut<f32, B> y, In<f32, dyn> x) {
  y.store(kernels::functions::Gelu{}(x.load_like(y)));
}

template <int B>
void spherical_to_cartesian(Mut<f32, B> x, Mut<f32, B> y, Mut<f32, B> z, In<f32, dyn> radius, In<f32, dyn> polar,
                            In<f32, dyn> azimuth) {
  auto r = radius.load_like(x), theta = polar.load_like(x), phi = azimuth.load_like(x);
  auto flat = r * sin(theta);
  x.store(flat * cos(phi));
  y.store(flat * sin(phi));
  z.store(r * cos(theta));
}

/// Distances on a globe, from latitudes and longitudes.
template <int B>
void haversine(Mut<f32, B> y, In<f32, dyn> lat_a, In<f32, dyn> lon_a, In<f32, dyn> lat_b, In<f32, dyn> lon_b,
               Scalar<f32> radius) {
  auto a = lat_a.load_like(y), b = lat_b.load_like(y);
  auto up = sin(0.5f * (b - a)), along = sin(0.5f * (lon_b.load_like(y) - lon_a.load_like(y)));
  auto h = clamp(up * up + cos(a) * cos(b) * along * along, 0.0f, 1.0f);
  y.store(2.0f * radius * atan2(sqrt(h), sqrt(1.0f - h)));
}

/// Colours to linear light, and to a brightness by another power.
template <int B>
void srgb_to_linear(Mut<f32, B> y, In<u8, dyn> x, Scalar<f32> exposure) {
  auto t = cast<f32>(x.load_like(y)) * (1.0f / 255.0f);
  auto light = where(t <= 0.04045f, t * (1.0f / 12.92f), pow((t + 0.055f) * (1.0f / 1.055f), 2.4f));
  y.store(1.0f - exp(-exposure * light));
}

/// Radiance of a black body by wavelength (micrometres) and temperature (kilokelvin).
template <int B>
void black_body(Mut<f32, B> y, In<f32, dyn> wavelength, In<f32, dyn> temperature) {
  auto l = wavelength.load_like(y), t = temperature.load_like(y);
  auto square = l * l;
  y.store(119.1f / (square * square * l * (exp(14.388f / (l * t)) - 1.0f)));
}

/// log of the density of a log-normal distribution with means and deviations per element.
template <int B>
void log_normal_density(Mut<f32, B> y, In<f32, dyn> x, In<f32, dyn> mean, In<f32, dyn> log_deviation) {
  auto lx = log(x.load_like(y)), ls = log_deviation.load_like(y);
  auto z = (lx - mean.load_like(y)) * exp(-ls);
  y.store(-0.5f * z * z - lx - ls - 0.9189385332f);
}

/// Damped swings whose frequency grows: row by row another start.
template <int B>
void chirps(Mut<f32, 1, B> y, In<f32, dyn> frequency, In<f32, dyn> growth, Scalar<f32> step) {
  auto [row, column] = y.origin();
  auto t = cast<f32>(iota<i32, 1, B>(axis<1>) + column) * step;
  auto f = frequency.load_like(y, axes<0>), g = growth.load_like(y, axes<0>);
  y.store(exp(-t) * sin((f + g * t) * t));
}

/// The tables of a rotary embedding: cosines and sines of position times frequency.
template <int R, int D>
void rotary_tables(Mut<f32, R, D> cosines, Mut<f32, R, D> sines, In<i32, dyn> positions, Scalar<f32> log_base) {
  auto [i, j] = cosines.origin();
  auto pair = cast<f32>(iota<i32, 1, D>(axis<1>) + j);
  auto angle = cast<f32>(positions.load_like(cosines, axes<0>)) * exp(-log_base * pair / cast<f32>(cosines.dim(1)));
  cosines.store(cos(angle));
  sines.store(sin(angle));
}

/// Map coordinates by Mercator.
template <int B>
void mercator(Mut<f32, B> x, Mut<f32, B> y, In<f32, dyn> latitude, In<f32, dyn> longitude) {
  x.store(longitude.load_like(x) * (0.5f / kPi) + 0.5f);
  y.store(0.5f - log(tan(0.25f * kPi + 0.5f * latitude.load_like(y))) * (0.5f / kPi));
}

// -- the cases --------------------------------------------------------------------------------------------------------

Plan mish_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = normal<f32>(1, n);
  const auto wanted = [=](Size i) { return x.at(i) * std::tanh(std::log1p(std::exp(x.at(i)))); };
  return plan({2 * bytes_of<f32>(n)}, outputs(by_offset<f32>(wanted, n)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<mish<kPiece>>(mut(y), from).on(on); });
}

Plan exact_gelu_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = normal<f32>(1, n);
  const auto wanted = [=](Size i) { return 0.5 * x.at(i) * (1 + std::erf(x.at(i) / std::numbers::sqrt2)); };
  return plan({2 * bytes_of<f32>(n)}, outputs(by_offset<f32>(wanted, n)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<exact_gelu<kPiece>>(mut(y), from).on(on); });
}

Plan spherical_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto r = uniform<f32>(1, 0.5, 2, n), theta = uniform<f32>(2, 0, 3, n), phi = uniform<f32>(3, -3, 3, n);
  const auto x = [=](Size i) { return r.at(i) * std::sin(theta.at(i)) * std::cos(phi.at(i)); };
  const auto y = [=](Size i) { return r.at(i) * std::sin(theta.at(i)) * std::sin(phi.at(i)); };
  const auto z = [=](Size i) { return r.at(i) * std::cos(theta.at(i)); };
  return plan({6 * bytes_of<f32>(n)}, outputs(by_offset<f32>(x, n), by_offset<f32>(y, n), by_offset<f32>(z, n)),
              inputs(r, theta, phi), [](const Stream& on, auto& a, auto& b, auto& c, const auto&... in) {
                kernel<spherical_to_cartesian<kPiece>>(mut(a), mut(b), mut(c), in...).on(on);
              });
}

Plan haversine_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto lat_a = uniform<f32>(1, -1.5, 1.5, n), lon_a = uniform<f32>(2, -3, 3, n);
  const auto lat_b = uniform<f32>(3, -1.5, 1.5, n), lon_b = uniform<f32>(4, -3, 3, n);
  const auto wanted = [=](Size i) {
    const double a = lat_a.at(i), b = lat_b.at(i), up = std::sin((b - a) / 2),
                 along = std::sin((lon_b.at(i) - lon_a.at(i)) / 2);
    return 2 * 6371 * std::asin(std::sqrt(std::min(up * up + std::cos(a) * std::cos(b) * along * along, 1.0)));
  };
  return plan(
      {5 * bytes_of<f32>(n)}, outputs(by_offset<f32>(wanted, n).within(1e-4)), inputs(lat_a, lon_a, lat_b, lon_b),
      [](const Stream& on, auto& y, const auto&... in) { kernel<haversine<kPiece>>(mut(y), in..., 6371.0f).on(on); });
}

Plan srgb_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = whole<u8>(1, 0, 256, n);
  const auto wanted = [=](Size i) {
    const double t = x.at(i) / 255, light = t <= 0.04045 ? t / 12.92 : std::pow((t + 0.055) / 1.055, 2.4);
    return 1 - std::exp(-1.5 * light);
  };
  return plan(
      {5.0 * static_cast<double>(n)}, outputs(by_offset<f32>(wanted, n)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<srgb_to_linear<kPiece>>(mut(y), from, 1.5f).on(on); });
}

Plan black_body_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto wavelength = uniform<f32>(1, 0.5, 10, n), temperature = uniform<f32>(2, 1, 6, n);
  const auto wanted = [=](Size i) {
    const double l = wavelength.at(i), t = temperature.at(i);
    return static_cast<double>(119.1f) / (std::pow(l, 5) * std::expm1(static_cast<double>(14.388f) / (l * t)));
  };
  return plan({3 * bytes_of<f32>(n)}, outputs(by_offset<f32>(wanted, n)), inputs(wavelength, temperature),
              [](const Stream& on, auto& y, const auto&... in) { kernel<black_body<kPiece>>(mut(y), in...).on(on); });
}

Plan log_normal_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = uniform<f32>(1, 0.1, 5, n), mean = normal<f32>(2, n), deviation = uniform<f32>(3, -1, 1, n);
  const auto wanted = [=](Size i) {
    const double lx = std::log(x.at(i)), z = (lx - mean.at(i)) * std::exp(-deviation.at(i));
    return -0.5 * z * z - lx - deviation.at(i) - 0.9189385332;
  };
  return plan(
      {4 * bytes_of<f32>(n)}, outputs(by_offset<f32>(wanted, n)), inputs(x, mean, deviation),
      [](const Stream& on, auto& y, const auto&... in) { kernel<log_normal_density<kPiece>>(mut(y), in...).on(on); });
}

Plan chirps_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), length = size_of_case(args, "length");
  const auto frequency = uniform<f32>(1, 1, 20, rows), growth = uniform<f32>(2, 0, 5, rows);
  const float step = 4.0f / static_cast<float>(length);
  const auto wanted = [=](Size at) {
    const double t = static_cast<double>(static_cast<float>(at % length) * step);
    return std::exp(-t) * std::sin((frequency(at / length) + growth(at / length) * t) * t);
  };
  return plan({bytes_of<f32>(rows * length)}, outputs(by_offset<f32>(wanted, rows, length).within(1e-4)),
              inputs(frequency, growth), [=](const Stream& on, auto& y, const auto&... in) {
                kernel<chirps<kPiece>>(mut(y), in..., step).on(on);
              });
}

Plan rotary_tables_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), depth = size_of_case(args, "depth");
  const auto positions = whole<i32>(1, 0, 1000, rows);
  const double log_base = std::log(10000.0);
  const auto angle = [=](Size at) {
    return positions(at / depth) * std::exp(-log_base * static_cast<double>(at % depth) / static_cast<double>(depth));
  };
  const auto cosine = [=](Size at) { return std::cos(angle(at)); };
  const auto sine = [=](Size at) { return std::sin(angle(at)); };
  // An angle of 1000 is known to 6e-5.
  return plan({2 * bytes_of<f32>(rows * depth)},
              outputs(by_offset<f32>(cosine, rows, depth).within(1e-3), by_offset<f32>(sine, rows, depth).within(1e-3)),
              inputs(positions), [=](const Stream& on, auto& c, auto& s, const auto& from) {
                kernel<rotary_tables<16, 64>>(mut(c), mut(s), from, static_cast<float>(log_base)).on(on);
              });
}

Plan mercator_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto latitude = uniform<f32>(1, -1.4, 1.4, n), longitude = uniform<f32>(2, -3, 3, n);
  constexpr double kTurn = 2 * std::numbers::pi;
  const auto x = [=](Size i) { return longitude.at(i) / kTurn + 0.5; };
  const auto y = [=](Size i) { return 0.5 - std::log(std::tan(kTurn / 8 + latitude.at(i) / 2)) / kTurn; };
  return plan({4 * bytes_of<f32>(n)}, outputs(by_offset<f32>(x, n), by_offset<f32>(y, n)), inputs(latitude, longitude),
              [](const Stream& on, auto& a, auto& b, const auto&... in) {
                kernel<mercator<kPiece>>(mut(a), mut(b), in...).on(on);
              });
}

}  // namespace

std::vector<Entry> transcendental_entries() {
  const char *one = "n=134217728; n=100000007; n=30000001", *several = "n=50331648; n=40000003; n=5000011",
             *small = "n=8192; n=5001";
  return {entry<mish_plan>("mish", "transcendental", one, small),
          entry<exact_gelu_plan>("exact_gelu", "transcendental", one, small),
          entry<spherical_plan>("spherical_to_cartesian", "transcendental", several, small),
          entry<haversine_plan>("haversine", "transcendental", several, small),
          entry<srgb_plan>("srgb_to_linear", "transcendental", one, small),
          entry<black_body_plan>("black_body", "transcendental", one, small),
          entry<log_normal_plan>("log_normal_density", "transcendental", several, small),
          entry<chirps_plan>("chirps", "transcendental",
                             "rows=4096 length=32768; rows=50001 length=1777; rows=333 length=100003",
                             "rows=4 length=2048; rows=3 length=1501"),
          entry<rotary_tables_plan>("rotary_tables", "transcendental",
                                    "rows=524288 depth=128; rows=700001 depth=72; rows=300007 depth=67",
                                    "rows=32 depth=64; rows=21 depth=48"),
          entry<mercator_plan>("mercator", "transcendental", several, small)};
}

}  // namespace generality
