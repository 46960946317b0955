// Gaussian blur of a picture: PNG in, PNG out. Neighbours are read with load_at, which may look outside the picture;
// weights are summed over the neighbours that exist, so that borders do not darken.
#include <png.h>

#include "common.hpp"

using namespace tessera;

template <int R, int BM, int BN>
void blur(Mut<u8, 1, BM, BN> y, In<u8, dyn, dyn, dyn> x, Scalar<f32> sigma) {
  auto [channel, i, j] = y.origin();
  auto rows = iota<i32, 1, BM, 1>(axis<1>) + i;
  auto columns = iota<i32, 1, 1, BN>(axis<2>) + j;
  auto total = zeros<f32, 1, BM, BN>(), weights = zeros<f32, 1, BM, BN>();
  auto falloff = -1.0f / (2.0f * sigma * sigma);
  for (auto di : range(-R, R + 1))  // device loops: 49 unrolled loads would take the assembler minutes
    for (auto dj : range(-R, R + 1)) {
      auto inside = rows + di >= 0 && rows + di < x.dim(1) && columns + dj >= 0 && columns + dj < x.dim(2);
      auto w = where(inside, exp(cast<f32>(di * di + dj * dj) * falloff), 0.0f);
      total += w * cast<f32>(x.load_at(shape<1, BM, BN>, channel, i + di, j + dj));
      weights += w;
    }
  y.store(cast<u8>(total / weights + 0.5f));
}

namespace {

// A picture as planes, [channel, row, column], as the kernel's pieces require.
struct Picture {
  int channels = 3, height = 0, width = 0;
  std::vector<u8> planes;
  std::size_t at(int c, int i, int j) const { return (static_cast<std::size_t>(c) * height + i) * width + j; }
};

[[noreturn]] void fail(const std::string& file, const char* what) { throw IoError(file + ": " + what); }

Picture read_png(const std::string& file) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_file(&image, file.c_str())) fail(file, image.message);
  image.format = PNG_FORMAT_RGB;
  std::vector<u8> pixels(PNG_IMAGE_SIZE(image));
  if (!png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr)) fail(file, image.message);
  Picture p{3, static_cast<int>(image.height), static_cast<int>(image.width), std::vector<u8>(pixels.size())};
  for (int i = 0; i < p.height; ++i)
    for (int j = 0; j < p.width; ++j)
      for (int c = 0; c < 3; ++c) p.planes[p.at(c, i, j)] = pixels[(static_cast<std::size_t>(i) * p.width + j) * 3 + c];
  return p;
}

void write_png(const std::string& file, const Picture& p) {
  std::vector<u8> pixels(p.planes.size());
  for (int i = 0; i < p.height; ++i)
    for (int j = 0; j < p.width; ++j)
      for (int c = 0; c < 3; ++c) pixels[(static_cast<std::size_t>(i) * p.width + j) * 3 + c] = p.planes[p.at(c, i, j)];
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(p.width);
  image.height = static_cast<png_uint_32>(p.height);
  image.format = PNG_FORMAT_RGB;
  if (!png_image_write_to_file(&image, file.c_str(), 0, pixels.data(), 0, nullptr)) fail(file, image.message);
}

std::vector<u8> reference(const Picture& p, int radius, float sigma) {
  std::vector<u8> out(p.planes.size());
  for (int c = 0; c < p.channels; ++c)
    for (int i = 0; i < p.height; ++i)
      for (int j = 0; j < p.width; ++j) {
        double total = 0, weights = 0;
        for (int di = -radius; di <= radius; ++di)
          for (int dj = -radius; dj <= radius; ++dj) {
            if (i + di < 0 || i + di >= p.height || j + dj < 0 || j + dj >= p.width) continue;
            const double w = std::exp(-(di * di + dj * dj) / (2.0 * sigma * sigma));
            total += w * p.planes[p.at(c, i + di, j + dj)];
            weights += w;
          }
        out[p.at(c, i, j)] = static_cast<u8>(total / weights + 0.5);
      }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const example::Args args(argc, argv, "Blurs a picture.",
                           {{"in", "the picture, a PNG file", TESSERA_EXAMPLE_DATA "/picture.png"},
                            {"out", "where to write the result", "blurred.png"}});
  return example::guarded([&] {
    Picture picture = read_png(args.file("in"));
    constexpr int radius = 3;
    const float sigma = 1.5f;
    auto x = from(std::span<const u8>(picture.planes), {picture.channels, picture.height, picture.width}).sync();
    auto y = kernel<blur<radius, 32, 64>>(empty_like(x), x, sigma).sync();
    const double ms = example::fastest_ms(2, [&] { kernel<blur<radius, 32, 64>>(mut(y), x, sigma).sync(); });

    const auto expected = reference(picture, radius, sigma);
    picture.planes = host(y).sync();
    write_png(args.file("out"), picture);
    double largest = 0;  // rounding half way may fall to either side in float and in double: one step of 255
    for (std::size_t i = 0; i < expected.size(); ++i)
      largest = std::max(largest, std::abs(static_cast<double>(expected[i]) - picture.planes[i]));
    const std::string size = std::to_string(picture.width) + "x" + std::to_string(picture.height) + " RGB";
    return example::report("blur", size, largest, 1, ms);
  });
}
