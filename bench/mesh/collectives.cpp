// All-reduce of f32 by size: a chain of calls of which each needs the result of the one before, launched one by one and
// replayed as a graph. A thread drives each rank. Prints a JSON object for each size.
//
//   collective_bench [--device cuda|cpu] [--ranks N] [--least BYTES] [--most BYTES] [--chain N] [--repeats N]
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <tessera/mesh.hpp>

#include "tessera/mesh/processes.hpp"
#include "tessera/mesh/thread_meshes.hpp"
#include "tessera/runtime/thread_device.hpp"

namespace {

using namespace tessera;
using Clock = std::chrono::steady_clock;

struct Options {
  bool gpu = false;
  int ranks = 2, chain = 10, repeats = 15;
  std::int64_t least = 8 << 10, most = 64 << 20;  ///< bytes of a rank's summand
};

[[noreturn]] void usage(const char* what) {
  std::fprintf(stderr, "collective_bench: %s; the top of bench/mesh/collectives.cpp has the options\n", what);
  std::exit(2);
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i + 1 < argc + 1; i += 2) {
    const std::string_view name = argv[i];
    if (i + 1 == argc) usage("an option has no value");
    const char* const value = argv[i + 1];
    const auto number = [&] {
      const long long n = std::atoll(value);
      if (n < 1) usage("expected a number from 1");
      return static_cast<std::int64_t>(n);
    };
    if (name == "--device") {
      o.gpu = std::string_view(value) == "cuda";
    } else if (name == "--ranks") {
      o.ranks = static_cast<int>(number());
    } else if (name == "--chain") {
      o.chain = static_cast<int>(number());
    } else if (name == "--repeats") {
      o.repeats = static_cast<int>(number());
    } else if (name == "--least") {
      o.least = number();
    } else if (name == "--most") {
      o.most = number();
    } else {
      usage("unknown option");
    }
  }
  return o;
}

/// Random numbers that stay finite when they are added over all ranks again and again.
std::vector<float> summand(std::int64_t n, int rank) {
  std::vector<float> all(static_cast<std::size_t>(n));
  std::mt19937 random(static_cast<std::uint32_t>(rank));
  for (float& x : all) x = std::ldexp(static_cast<float>(random() % 65536) - 32768.0F, -60);
  return all;
}

/// The sum over all ranks, `calls` times one after the other.
Flow<Tensor<f32, 1>> chain(Mesh mesh, Tensor<f32, 1> part, int calls) {
  for (int i = 0; i < calls; ++i) {
    std::vector<Tensor<f32, 1>> parts;
    parts.push_back(std::move(part));
    auto all = co_await all_reduce(detail::PlacedReach::make<Partial<f32, 1>>(mesh, std::move(parts)));
    part = co_await std::move(all).local(mesh.first_rank());
  }
  co_return part;
}

/// Microseconds of one call, measured by every rank.
struct Times {
  std::vector<double> launched, replayed;
};

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options), together_(options.ranks) {}

  int run() {
    std::vector<Device> devices;
    for (int i = 0; i < options_.ranks; ++i) devices.push_back(options_.gpu ? Device::cuda(i) : Device::cpu());
    const std::vector<Mesh> meshes = mesh::thread_meshes(devices);
    for (std::int64_t bytes = options_.least; bytes <= options_.most; bytes *= 2) {
      times_ = {};
      std::vector<std::thread> threads;
      for (const Mesh& mesh : meshes) threads.emplace_back([this, &mesh, bytes] { measure(mesh, bytes); });
      for (std::thread& thread : threads) thread.join();
      if (!error_.empty()) return std::fprintf(stderr, "collective_bench: %s\n", error_.c_str()), 1;
      print("launched", bytes, times_.launched);
      print("graph", bytes, times_.replayed);
    }
    return 0;
  }

 private:
  void measure(const Mesh& mesh, std::int64_t bytes) noexcept {
    try {
      const int rank = mesh.first_rank();
      Stream stream = mesh.stream(rank);
      const Dims<1> dims({bytes / static_cast<std::int64_t>(sizeof(f32))});
      const auto values = summand(dims[0], rank);
      auto part = from(values, dims).sync(stream);
      const auto renew = [&] { part = from(values, dims).sync(stream); };
      const auto launched = [&] { part = chain(mesh, std::move(part), options_.chain).on(stream); };
      time(stream, renew, launched, times_.launched);
      renew();
      const runtime::ThreadDevice device(stream.device());  // a graph is captured for the default device
      auto graph = capture([&](Tensor<f32, 1>& t) { return chain(mesh, std::move(t), options_.chain); },
                           from(values, dims).sync(stream));
      time(
          stream, [] {}, [&] { graph.replay().on(stream); }, times_.replayed);
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      if (error_.empty()) error_ = error.what();
      mesh.abort(error.what());
      together_.arrive_and_drop();
    }
  }
  /// A repetition takes as long as the slowest rank, which begins when all do.
  void time(Stream& stream, const auto& renew, const auto& enqueue, std::vector<double>& times) {
    for (int i = -2; i < options_.repeats; ++i) {  // two to warm up
      renew();
      together_.arrive_and_wait();
      const auto begin = Clock::now();
      enqueue();
      stream.synchronize();
      const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / options_.chain;
      if (i < 0) continue;
      const std::lock_guard lock(mutex_);
      const auto place = static_cast<std::size_t>(i);
      if (times.size() <= place) times.resize(place + 1);
      times[place] = std::max(times[place], us);
    }
  }
  void print(const char* how, std::int64_t bytes, std::vector<double> us) const {
    std::ranges::sort(us);
    const double median = us[us.size() / 2];
    // Bytes that each link carries: what nccl-tests calls bus bandwidth.
    const double ranks = options_.ranks, share = 2 * (ranks - 1) / ranks;
    std::printf(
        "{\"program\": \"tessera\", \"ranks\": %d, \"how\": \"%s\", \"bytes\": %lld, \"us\": %.3f, \"least_us\": %.3f, "
        "\"gb_per_s\": %.3f}\n",
        options_.ranks, how, static_cast<long long>(bytes), median, us.front(),
        share * static_cast<double>(bytes) / median / 1e3);
    std::fflush(stdout);
  }

  Options options_;
  std::barrier<> together_;
  std::mutex mutex_;
  Times times_;
  std::string error_;
};

}  // namespace

int main(int argc, char** argv) {
  mesh::nccl_is_ours();
  try {
    return Bench(parse(argc, argv)).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "collective_bench: %s\n", error.what());
    return 1;
  }
}
