// .npy files: the header alone, and whole files through load_npy and save_npy.
#include "tessera/host/npy.hpp"

#include "fuzz/fuzz.hpp"
#include "host/npy_format.hpp"

namespace tessera::fuzz {
namespace {

const std::string kPath = "input.npy";

/// The result of reading `file`, whose stated size is `size` bytes.
detail::NpyHeader header_of(std::string_view file, std::uint64_t size) {
  std::uint32_t length = 0;
  const std::uint32_t start = detail::npy_prefix(file.substr(0, 12), size, length, kPath, {});
  FUZZ_REQUIRE(start + std::uint64_t{length} <= size);
  if (start + std::size_t{length} > file.size()) throw IoError("the header is not there");
  return detail::npy_dictionary(file.substr(start, length), start + std::uint64_t{length}, size, kPath, {});
}

void require_whole(const detail::NpyHeader& h, std::uint64_t size) {
  FUZZ_REQUIRE(h.rank >= 0 && h.rank <= detail::kNpyMaxRank);
  unsigned __int128 elements = 1;
  bool none = false;
  for (int i = 0; i < h.rank; ++i) {
    const std::int64_t d = h.dims[static_cast<std::size_t>(i)];
    FUZZ_REQUIRE(d >= 0);
    none = none || d == 0;
    if (!none) elements *= static_cast<std::uint64_t>(d);
  }
  if (none) elements = 0;
  FUZZ_REQUIRE(elements == h.elements);
  FUZZ_REQUIRE(h.data_offset + elements * static_cast<unsigned>(size_of(h.element)) == size);
}

/// Loads the file as a Tensor<T, R>; false if it is another.
template <class T, int R>
bool load_and_save(const std::string& path) {
  View<T, R> loaded;
  if (!accepted([&] { loaded = load_npy<T, R>(path).sync(Stream::default_of(Device::cpu())).view(); })) return false;
  const std::string copy = folder() + "/copy.npy";
  save_npy(copy, loaded);
  const auto again = load_npy<T, R>(copy).sync(Stream::default_of(Device::cpu()));
  FUZZ_REQUIRE(again.dims() == loaded.dims());
  const auto original = read_file(path), saved = read_file(copy);
  const std::size_t bytes = static_cast<std::size_t>(loaded.size()) * sizeof(T);
  FUZZ_REQUIRE(original.size() >= bytes && saved.size() >= bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    const std::byte was = original[original.size() - bytes + i], is = saved[saved.size() - bytes + i];
    constexpr bool truths = std::is_same_v<T, bool>;  // any byte but 0 is read as 1
    FUZZ_REQUIRE(truths ? (was != std::byte{0}) == (is == std::byte{1}) : was == is);
  }
  return true;
}

std::string npy_of(ElementType element, std::initializer_list<std::int64_t> dims, std::size_t bytes) {
  return detail::npy_header(element, dims.begin(), static_cast<int>(dims.size())) + std::string(bytes, '\1');
}

}  // namespace

/// The stated size of the file, then its beginning.
void fuzz_npy_header(Bytes bytes) {
  Input in(bytes);
  const auto size = in.number<std::uint64_t>();
  const std::string_view file = text_of(in.rest());
  detail::NpyHeader h;
  if (!accepted([&] { h = header_of(file, size); })) return;
  require_whole(h, size);
  const std::string written = detail::npy_header(h.element, h.dims.data(), h.rank);
  const detail::NpyHeader again =
      header_of(written, written.size() + h.elements * static_cast<std::uint64_t>(size_of(h.element)));
  FUZZ_REQUIRE(again.element == h.element && again.rank == h.rank && again.dims == h.dims);
}

Seeds seeds_npy_header() {
  Seeds seeds;
  const auto add = [&](const std::string& header, std::uint64_t data) {
    const std::uint64_t size = header.size() + data;
    seeds.push_back(std::string(reinterpret_cast<const char*>(&size), sizeof size) + header);
  };
  add(npy_of(ElementType::f32, {2, 3}, 0), 24);
  add(npy_of(ElementType::boolean, {7}, 0), 7);
  add(npy_of(ElementType::i64, {}, 0), 8);
  add(npy_of(ElementType::f16, {0, 5, 1, 2}, 0), 0);
  std::string longer("\x93NUMPY\x02\x00\x3a\x00\x00\x00", 12);
  longer += "{\"shape\":(2L,1), 'fortran_order':False,'descr':\"=u2\"     }\n";
  longer[8] = static_cast<char>(longer.size() - 12);
  add(longer, 4);
  return seeds;
}

void fuzz_npy_file(Bytes bytes) {
  const std::string path = write_file("input.npy", bytes);
  const int accepted_as = load_and_save<f32, 2>(path) + load_and_save<bool, 1>(path) + load_and_save<i64, 3>(path) +
                          load_and_save<f16, 1>(path) + load_and_save<u8, 8>(path);
  FUZZ_REQUIRE(accepted_as <= 1);  // a file has one type and one rank
}

Seeds seeds_npy_file() {
  return {npy_of(ElementType::f32, {2, 3}, 24), npy_of(ElementType::boolean, {7}, 7),
          npy_of(ElementType::i64, {1, 2, 1}, 16), npy_of(ElementType::f16, {0}, 0),
          npy_of(ElementType::u8, {1, 1, 2, 1, 1, 1, 2, 1}, 4)};
}

}  // namespace tessera::fuzz
