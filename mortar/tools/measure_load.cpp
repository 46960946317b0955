// Measures how fast a model is loaded, compared with reading its files from the page cache.
//
//   mortar_measure_load FOLDER [--device cpu|cuda:0] [--repetitions N] [--threads N]
//
// Prints, of each repetition: opening and verifying the files, reading all bytes into memory that is used again (with
// as many threads as loading has), loading, and the ratio of the last two. One round before the first brings the files
// into the page cache.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "model/load_paths.hpp"
#include "model/pieces.hpp"
#include "mortar/load.hpp"
#include "tessera/runtime/device.hpp"

namespace mortar {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double read_files(const Checkpoint& checkpoint, int threads) {
  constexpr std::uint64_t kBytes = std::uint64_t{1} << 22;
  struct Part {
    const TensorFile* file;
    std::uint64_t begin, bytes;
  };
  std::vector<Part> parts;
  for (const auto& file : checkpoint.files())
    for (std::uint64_t at = 0; at < file->size(); at += kBytes)
      parts.push_back({file.get(), at, std::min(kBytes, file->size() - at)});
  const auto start = std::chrono::steady_clock::now();
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < threads; ++t)
    readers.emplace_back([&] {
      std::vector<std::byte> memory(kBytes);
      for (std::size_t i = next++; i < parts.size(); i = next++)
        parts[i].file->read(parts[i].begin, {memory.data(), parts[i].bytes});
    });
  for (std::thread& t : readers) t.join();
  return seconds_since(start);
}

int run(const std::vector<std::string>& words) {
  std::string folder, device_name = "cpu";
  int repetitions = 5;
  LoadOptions options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool has_value = i + 1 < words.size();
    if (words[i] == "--device" && has_value)
      device_name = words[++i];
    else if (words[i] == "--repetitions" && has_value)
      repetitions = std::atoi(words[++i].c_str());
    else if (words[i] == "--threads" && has_value)
      options.threads = std::atoi(words[++i].c_str());
    else
      folder = words[i];
  }
  const tessera::Device device = tessera::runtime::parse_device(device_name);
  const int threads = model::reading_threads(options);
  const bool staged_too = device.kind() == tessera::DeviceKind::Cpu;
  std::printf("%s on %s, %d threads\n   open s   read s  GB/s   load s  GB/s  load/read%s\n", folder.c_str(),
              device_name.c_str(), threads, staged_too ? "   through buffers s" : "");
  for (int i = -1; i < repetitions; ++i) {
    auto start = std::chrono::steady_clock::now();
    const Checkpoint checkpoint(folder);
    const ModelSpec config = checkpoint.verify(read_config(folder));
    const double opened = seconds_since(start), read = read_files(checkpoint, threads);
    const double gigabytes = static_cast<double>(model_size(config).bytes.total()) / 1e9;
    start = std::chrono::steady_clock::now();
    { const Weights weights = load_weights(config, checkpoint, device, options); }
    const double loaded = seconds_since(start);
    if (i < 0) continue;
    std::printf("%9.4f %8.3f %5.1f %8.3f %5.1f %10.2f", opened, read, gigabytes / read, loaded, gigabytes / loaded,
                loaded / read);
    if (staged_too) {
      start = std::chrono::steady_clock::now();
      { const Weights weights = model::load_staged(config, checkpoint, device, options); }
      std::printf(" %19.3f", seconds_since(start));
    }
    std::printf("\n");
  }
  return 0;
}

}  // namespace
}  // namespace mortar

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: mortar_measure_load FOLDER [--device NAME] [--repetitions N] [--threads N]\n");
    return 2;
  }
  try {
    return mortar::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mortar_measure_load: %s\n", error.what());
    return 1;
  }
}
