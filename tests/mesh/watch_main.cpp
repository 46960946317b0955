// One process of a group that is watched: watch_main PORT RANK SIZE ACTION SILENCE_MS PROGRESS_MS. What happens is
// written to stdout, line by line; the tests (watch_test.cpp) start several and kill some.
#include <dirent.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "mesh/watch.hpp"
#include "tessera/base/error.hpp"

namespace {

using tessera::mesh::Watch;

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

int descriptors() {
  DIR* const folder = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

void step(Watch& watch) {
  watch.begin_step();
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  watch.throw_if_failed("a step");
  watch.end_step();
}

void run(const tessera::mesh::WatchOptions& options, const std::string& action) {
  say("starts");
  if (action == "before") {
    say("before");
    pause();
  }
  std::atomic<bool> aborted{false};
  {
    Watch watch(options, [&](const tessera::mesh::GroupFailure&) { aborted = true; });
    say("connected");
    for (int i = 0; i < 10; ++i) step(watch);
    if (action == "idle") {
      while (!watch.failure()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    } else if (action == "work") {
      while (true) step(watch);
    } else if (action == "waits") {  // in a collective that does not end
      watch.begin_step();
      watch.progress();
      while (!watch.failure()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    } else if (action == "hangs") {
      watch.begin_step();
      say("hangs");
      pause();
    } else if (action == "throws") {
      throw std::runtime_error("a bug");
    } else if (action == "reports") {
      watch.report("out of memory");
    } else if (action == "exits") {
      std::_Exit(0);
    } else if (action == "late") {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    } else if (action == "leaves") {
      say("leaves");
    }
    if (action != "leaves" && watch.failure()) {  // a failure that comes after that word is none of its own
      for (int i = 0; i < 100 && !aborted; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      say(aborted ? "abort" : "no abort");
      watch.throw_if_failed("the end");
    }
  }
  say("left");
  if (action == "stays") pause();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  const std::string action = argv[4];
  const int before = descriptors();
  try {
    tessera::mesh::WatchOptions options;
    options.address = "127.0.0.1";
    options.port = std::atoi(argv[1]);
    options.rank = std::atoi(argv[2]);
    options.size = std::atoi(argv[3]);
    options.start_ms = action == "short" ? 700 : action == "longer" ? 3'000 : 60'000;
    options.silence_ms = std::atoi(argv[5]);
    options.progress_ms = std::atoi(argv[6]);
    options.beat_ms = 100;
    run(options, action);
  } catch (const tessera::MeshError& error) {
    say(std::string("error: ") + error.what());
  } catch (const std::exception& error) { say(std::string("exception: ") + error.what()); }
  if (descriptors() != before) say("a descriptor is leaked");
  return 0;
}
