// Writes a checkpoint of full size with random data, from a config.json alone, for measuring how fast models are
// loaded.
//
//   mortar_make_checkpoint CONFIG FOLDER [SHARD_BYTES]
//
// CONFIG is a config.json; FOLDER is made if it does not exist. Tensors are in shards of at most SHARD_BYTES (default
// 4e9, as models are published), in the order of their names. Their values are random and finite.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "files/layout.hpp"
#include "mortar/errors.hpp"

namespace mortar {
namespace {

using nlohmann::ordered_json;

struct Tensor {
  std::string name;
  files::Stored stored;
  std::vector<std::int64_t> shape;
  std::uint64_t bytes;
};

std::vector<Tensor> tensors_of(const ModelSpec& model) {
  std::vector<Tensor> tensors;
  for (const files::WeightTensor& w : files::weight_tensors(model)) {
    for (const files::Part& part : w.parts) {
      Tensor t{part.name, w.stored, {}, static_cast<std::uint64_t>(part.rows * w.columns) * w.element_bytes()};
      if (!w.is_vector()) t.shape.push_back(part.rows);
      t.shape.push_back(w.columns);
      tensors.push_back(std::move(t));
    }
  }
  return tensors;
}

/// Random elements: the exponents of bf16 and f32 are made small, NaN of FP8 is avoided.
class Data {
 public:
  Data() {
    std::mt19937_64 random(1);
    for (std::vector<char>& block : blocks_) {
      block.resize(kBytes);
      for (std::size_t i = 0; i < kBytes; i += sizeof(std::uint64_t)) {
        const std::uint64_t word = random();
        std::memcpy(block.data() + i, &word, sizeof word);
      }
    }
    for (std::size_t i = 1; i < kBytes; i += 2) of(files::Stored::Bf16)[i] = small(of(files::Stored::Bf16)[i]);
    for (std::size_t i = 0; i < kBytes; ++i) of(files::Stored::Fp8)[i] &= static_cast<char>(0xBF);
    for (std::size_t i = 3; i < kBytes; i += 4) of(files::Stored::Scales)[i] = 0x3A;  // about 2^-10
  }
  /// Writes `n` bytes for elements of a kind.
  void write(std::ofstream& file, files::Stored stored, std::uint64_t n) {
    while (n > 0) {
      const std::uint64_t part = std::min<std::uint64_t>(n, kBytes);
      file.write(of(stored).data(), static_cast<std::streamsize>(part));
      n -= part;
    }
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{1} << 23;
  static char small(char top) { return static_cast<char>((top & 0x80) | 0x3C | (top & 1)); }
  std::vector<char>& of(files::Stored stored) { return blocks_[static_cast<std::size_t>(stored)]; }
  std::vector<char> blocks_[3];
};

void write_file(const std::filesystem::path& path, std::vector<Tensor> tensors, Data& data) {
  std::sort(tensors.begin(), tensors.end(), [](const Tensor& a, const Tensor& b) { return a.name < b.name; });
  ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  std::uint64_t end = 0;
  for (const Tensor& t : tensors) {
    constexpr const char* kTypes[] = {"BF16", "F8_E4M3", "F32"};
    header[t.name] = {{"dtype", kTypes[static_cast<std::size_t>(t.stored)]}, {"shape", t.shape}};
    header[t.name]["data_offsets"] = ordered_json::array({end, end + t.bytes});
    end += t.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // data is aligned, as other writers do
  std::ofstream file(path, std::ios::binary);
  const std::uint64_t length = text.size();
  for (int i = 0; i < 8; ++i) file.put(static_cast<char>(length >> (8 * i) & 0xFF));
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  for (const Tensor& t : tensors) data.write(file, t.stored, t.bytes);
  file.close();
  if (!file)
    throw ModelError(path.string() + ": expected a file that can be written, found an error of the file system");
}

void make(const std::filesystem::path& config, const std::filesystem::path& folder, std::uint64_t shard_bytes) {
  std::ifstream file(config, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const ModelSpec model = parse_config(text, config.string());
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json", std::ios::binary) << text;
  std::vector<std::vector<Tensor>> shards(1);
  std::uint64_t total = 0, size = 0;
  for (Tensor& t : tensors_of(model)) {
    if (size > 0 && size + t.bytes > shard_bytes) shards.emplace_back(), size = 0;
    size += t.bytes, total += t.bytes;
    shards.back().push_back(std::move(t));
  }
  Data data;
  if (shards.size() == 1) return write_file(folder / "model.safetensors", std::move(shards[0]), data);
  ordered_json index = {{"metadata", {{"total_size", total}}}};
  for (std::size_t i = 0; i < shards.size(); ++i) {
    char name[64];
    std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1, shards.size());
    for (const Tensor& t : shards[i]) index["weight_map"][t.name] = name;
    write_file(folder / name, std::move(shards[i]), data);
  }
  std::ofstream(folder / "model.safetensors.index.json") << index.dump(1) << '\n';
}

}  // namespace
}  // namespace mortar

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::fprintf(stderr, "usage: mortar_make_checkpoint CONFIG FOLDER [SHARD_BYTES]\n");
    return 2;
  }
  try {
    mortar::make(argv[1], argv[2], argc == 4 ? std::stoull(argv[3]) : 4'000'000'000);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mortar_make_checkpoint: %s\n", error.what());
    return 1;
  }
  return 0;
}
