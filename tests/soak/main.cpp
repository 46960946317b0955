// The soak program: random operations over random streams by several threads, with operations that are dropped, flows
// that are spawned, forked, cancelled and that throw, graphs, pinned buffers and failures. Every result equals a
// sequential replay on the host, and after every round the device's memory is where it was. docs/testing.md.
//
//   soak [--seconds N] [--rounds N] [--seed N|today] [--workers N] [--actions N] [--limit N] [--device cpu|cuda]
//
// Ends after N seconds (default 10) or N rounds. A failure names the seed of its round: --seed N --rounds 1 repeats it,
// as far as the order of threads does. A hang, --limit seconds (default 60) without a new action, does so too.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include "soak/watchdog.hpp"
#include "soak/worker.hpp"
#include "tessera/runtime/memory.hpp"

namespace soak {
namespace {

struct Options {
  double seconds = 10, limit = 60;
  std::uint64_t rounds = ~std::uint64_t{0}, seed = 1;
  int workers = 3, actions = 150;
  std::string device;
};

[[noreturn]] void usage() {
  std::fprintf(stderr,
               "usage: soak [--seconds N] [--rounds N] [--seed N|today] [--workers N] [--actions N] [--limit N] "
               "[--device cpu|cuda]\n");
  std::exit(2);
}

std::uint64_t number(const char* text) {
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 10);
  if (end == text || *end != '\0') usage();
  return value;
}

Options parsed(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; i += 2) {
    const std::string key = argv[i];
    if (i + 1 == argc) usage();
    const char* const value = argv[i + 1];
    if (key == "--seconds")
      o.seconds = static_cast<double>(number(value));
    else if (key == "--rounds")
      o.rounds = number(value);
    else if (key == "--seed" && std::strcmp(value, "today") == 0)
      o.seed = static_cast<std::uint64_t>(std::time(nullptr)) / 86400 * 1000000;
    else if (key == "--seed")
      o.seed = number(value);
    else if (key == "--workers")
      o.workers = static_cast<int>(number(value));
    else if (key == "--actions")
      o.actions = static_cast<int>(number(value));
    else if (key == "--limit")
      o.limit = static_cast<double>(number(value));
    else if (key == "--device")
      o.device = value;
    else
      usage();
  }
  if (o.workers < 1 || o.actions < 1 || o.limit < 1) usage();
  return o;
}

Device chosen_device(const std::string& name) {
  if (name == "cpu") return Device::cpu();
  if (name == "cuda") return Device::cuda(0);
  if (!name.empty()) usage();
  return default_device();
}

Inputs make_inputs(Random& random) {
  Inputs inputs;
  const auto size = static_cast<std::size_t>(1 + below(random, one_in(random, 8) ? 100000 : 3000));
  for (int i = 0; i < 2; ++i) {
    Numbers numbers(size);
    for (i32& v : numbers) v = static_cast<i32>(random());
    inputs.lines.push_back(share(from(numbers, {size}).sync()));
    inputs.numbers.push_back(std::move(numbers));
  }
  return inputs;
}

/// Out of memory is an error that names the sizes, and leaves everything usable.
void exhaust_memory(Device device) {
  const std::size_t in_use = memory_stats(device).in_use;
  set_memory_limit(device, in_use + (1 << 16));
  bool thrown = false;
  try {
    (void)empty<i32>({1 << 20}).sync();
  } catch (const OutOfMemoryError& error) { thrown = error.sizes().asked >= std::size_t{4} << 20; }
  set_memory_limit(device, kNoMemoryLimit);
  if (!thrown) throw Wrong{"an allocation above the limit was not rejected with its size"};
}

/// Blocks until the memory in use is back at `before`: work that has ended frees what it kept, at the latest when the
/// next calls come.
void expect_memory(Device device, std::size_t before) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  for (;;) {
    Stream::default_of(device).synchronize();
    trim_memory(device);
    const std::size_t now = memory_stats(device).in_use;
    if (now == before) return;
    if (std::chrono::steady_clock::now() > deadline)
      throw Wrong{std::to_string(now) + " bytes are in use after the round, " + std::to_string(before) +
                  " were before"};
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void round(std::uint64_t seed, Device device, const Options& options, Watchdog& watchdog, Counts& counts,
           Controls& all) {
  const std::size_t before = memory_stats(device).in_use;
  watchdog.begin_round(seed);
  {
    Random random(seed);
    const Inputs inputs = make_inputs(random);
    const std::vector<Stream> shared = {Stream(device), Stream(device), Stream::default_of(device)};
    std::mutex mutex;
    std::exception_ptr first;
    std::vector<std::thread> threads;
    for (int i = 0; i < options.workers; ++i) {
      threads.emplace_back([&, i, worker_seed = random()] {
        try {
          Worker worker(worker_seed, device, inputs, shared, watchdog.worker(i));
          worker.run(options.actions);
          const std::lock_guard lock(mutex);
          for (std::size_t a = 0; a < kActions; ++a) counts[a] += worker.counts()[a];
          const Controls ran = Worker::ran();
          all.runs_of_loops += ran.runs_of_loops;
          all.branches += ran.branches;
          all.inner_graphs += ran.inner_graphs;
        } catch (...) {
          const std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (first) std::rethrow_exception(first);
    exhaust_memory(device);
    for (Stream stream : shared) {
      try {
        stream.synchronize();
      } catch (const DeviceError& error) {
        if (std::strstr(error.what(), kFailure) == nullptr) throw;
      }
    }
  }
  expect_memory(device, before);
}

int main_of(const Options& options) {
  const Device device = chosen_device(options.device);
  set_default_device(device);
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  Watchdog watchdog(options.workers, options.limit);
  Counts counts{};
  Controls ran;
  std::uint64_t done = 0;
  const auto failed = [&](const std::string& why) {
    std::printf("WRONG in the round of seed %llu: %s\n", static_cast<unsigned long long>(options.seed + done),
                why.c_str());
    return 1;
  };
  try {
    for (; done < options.rounds && (done == 0 || seconds() < options.seconds); ++done)
      round(options.seed + done, device, options, watchdog, counts, ran);
  } catch (const Wrong& wrong) { return failed(wrong.what); } catch (const std::exception& e) {
    return failed(e.what());
  }
  std::uint64_t all = 0;
  for (std::size_t a = 0; a < kActions; ++a) {
    std::printf("%-14s %llu\n", name(static_cast<Action>(a)), static_cast<unsigned long long>(counts[a]));
    all += counts[a];
  }
  std::printf("runs of loops %llu, branches %llu, inner graphs %llu\n",
              static_cast<unsigned long long>(ran.runs_of_loops), static_cast<unsigned long long>(ran.branches),
              static_cast<unsigned long long>(ran.inner_graphs));
  if (done > 20 && (ran.runs_of_loops == 0 || ran.branches == 0 || ran.inner_graphs == 0))
    return failed("loops, branches or inner graphs did not come up");
  std::printf("RESULT ok: %llu rounds, %llu actions in %.0f s on %s, memory in use as before\n",
              static_cast<unsigned long long>(done), static_cast<unsigned long long>(all), seconds(),
              device.name().c_str());
  return 0;
}

}  // namespace
}  // namespace soak

int main(int argc, char** argv) { return soak::main_of(soak::parsed(argc, argv)); }
