// Work in flight, measured: launches, chains of small kernels, awaits, many streams, pinned pipelines. Prints a line of
// JSON for each figure; scripts/gpu-check.sh runs it (docs/gpu.md).
//
//   in_flight_bench [--device cuda|cpu] [--tiny] [--svg FILE] [launch] [dependent] [await] [queue] [batches] [timeline]
//
// Without a name: all. in_flight_null is the same program with a driver that does nothing: it shows that the program
// works where there is no GPU.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "count_allocations.hpp"
#include "in_flight/figures.hpp"
#ifdef TESSERA_NULL_DRIVER
#include "null_gpu.hpp"
#endif

namespace in_flight {

long allocations_so_far() { return allocations.load(); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

std::optional<bool> met(const Figure& f) {
  const bool none_allocated = !f.allocations || *f.allocations == 0;
  switch (f.asked.kind) {
    case Asked::Kind::Nothing: return f.allocations ? std::optional(none_allocated) : std::nullopt;
    case Asked::Kind::Above: return f.value - f.peer_value <= f.asked.limit && none_allocated;
    case Asked::Kind::Times: return f.value <= f.asked.limit * f.peer_value && none_allocated;
    case Asked::Kind::Most: return f.value <= f.asked.limit && none_allocated;
    case Asked::Kind::Least: return f.value >= f.asked.limit && none_allocated;
    case Asked::Kind::Faster: return f.value >= f.asked.limit * f.peer_value && none_allocated;
  }
  return std::nullopt;
}

void print(const Figure& f) {
  static constexpr const char* kKinds[] = {"", "above", "times", "most", "least", "faster"};
  std::printf(
      "{\"name\": \"%s\", \"unit\": \"%s\", \"value\": %.6g, \"peer\": \"%s\", \"peer_value\": %.6g, \"asked\": "
      "\"%s\", \"limit\": %.6g",
      f.name.c_str(), f.unit.c_str(), f.value, f.peer.c_str(), f.peer_value, kKinds[static_cast<int>(f.asked.kind)],
      f.asked.limit);
  if (f.allocations) std::printf(", \"allocations\": %.3g", *f.allocations);
  if (const auto is_met = met(f)) std::printf(", \"met\": %s", *is_met ? "true" : "false");
  std::puts("}");
  std::fflush(stdout);
}

namespace {

constexpr struct Group {
  const char* name;
  void (*measure)(const Options&);
} kGroups[] = {{"launch", measure_launches}, {"dependent", measure_dependent}, {"await", measure_awaits},
               {"queue", measure_queue},     {"batches", measure_batches},     {"timeline", measure_timeline}};

int main_of(int argc, char** argv) {
  Options options;
  std::string device = "cuda";
  std::vector<const Group*> chosen;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool last = i + 1 == argc;
    const Group* group = nullptr;
    for (const Group& g : kGroups) group = word == g.name ? &g : group;
    if (word == "--device" && !last)
      device = argv[++i];
    else if (word == "--svg" && !last)
      options.svg = argv[++i];
    else if (word == "--tiny")
      options.tiny = true;
    else if (group != nullptr)
      chosen.push_back(group);
    else {
      std::fprintf(stderr, "usage: %s [--device cuda|cpu] [--tiny] [--svg FILE] [GROUP...]\n", argv[0]);
      return 2;
    }
  }
#ifdef TESSERA_NULL_DRIVER
  const null_gpu::TemporaryFolder folder;
  null_gpu::use_empty_images(folder);
  options.executes = false;
#endif
  options.device = device == "cpu" ? Device::cpu() : Device::cuda(0);
  set_default_device(options.device);
  int failed = 0;
  for (const Group& group : kGroups) {
    if (!chosen.empty() && std::find(chosen.begin(), chosen.end(), &group) == chosen.end()) continue;
    try {
      group.measure(options);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s: %s\n", group.name, e.what());
      failed = 1;
    }
  }
  return failed;
}

}  // namespace
}  // namespace in_flight

int main(int argc, char** argv) { return in_flight::main_of(argc, argv); }
