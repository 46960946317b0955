// `tessera cache`: lists, measures and clears the disk cache.
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "command_rows.hpp"
#include "tessera/base/folders.hpp"
#include "tessera/jit/disk_cache.hpp"
#include "tessera/jit/tuning.hpp"

namespace tessera {
namespace {

double kib(std::uint64_t bytes) { return static_cast<double>(bytes) / 1024; }

int list(const jit::DiskCache& cache) {
  const auto entries = cache.list();
  if (!entries.empty())
    std::printf("%-24s %-7s %9s %8s  %-16s  %s\n", "kernel", "GPU", "KiB", "s", "last use", "notes");
  for (const jit::CacheEntry& e : entries) {
    char when[32] = "";
    const std::time_t seconds = static_cast<std::time_t>(e.last_use);
    std::tm local{};
    if (localtime_r(&seconds, &local)) std::strftime(when, sizeof when, "%Y-%m-%d %H:%M", &local);
    const char* notes = !e.valid                   ? "damaged or of another version"
                        : e.code.register_pressure ? "register pressure"
                                                   : "";
    std::printf("%-24s %-7s %9.1f %8.2f  %-16s  %s\n", e.valid ? e.code.label.c_str() : "?", e.code.gpu.c_str(),
                kib(e.bytes), e.code.seconds, when, notes);
  }
  std::printf("%zu kernels in %s\n", entries.size(), cache.folder().c_str());
  return 0;
}

int size(const jit::DiskCache& cache) {
  std::uint64_t bytes = 0;
  const auto entries = cache.list();
  for (const jit::CacheEntry& e : entries) bytes += e.bytes;
  std::printf("%zu kernels, %.1f MiB of %.0f MiB, in %s\n", entries.size(), kib(bytes) / 1024,
              kib(cache.limit()) / 1024, cache.folder().c_str());
  return 0;
}

std::string learnt_file() {
  const std::string file = jit::learnt_records();
  if (file.empty())
    std::puts("nothing is learnt: the cache is switched off (TESSERA_CACHE=0), or there is no home folder");
  return file;
}

int list_learnt() {
  const std::string file = learnt_file();
  const auto records = file.empty() || !path_exists(file) ? std::vector<TuningRecord>() : read_records(file);
  if (!records.empty())
    std::printf("%-24s %-18s %10s %10s  %-10s  %s\n", "kernel", "device", "us", "as chosen", "date", "hints");
  constexpr double kMicroseconds = 1e3;
  for (const TuningRecord& r : records)
    std::printf("%-24s %-18s %10.2f %10.2f  %-10s  %s\n", r.kernel.c_str(), r.device.c_str(), kMicroseconds * r.ms,
                kMicroseconds * r.default_ms, r.date.c_str(),
                r.hints.empty() ? "as the compiler chooses" : r.hints.c_str());
  std::printf("%zu kernels have learnt%s%s\n", records.size(), file.empty() ? "" : ", in ", file.c_str());
  return 0;
}

int forget(const char* kernel) {
  const std::string file = learnt_file();
  std::printf("%zu records removed\n", file.empty() ? std::size_t{0} : remove_records(file, kernel));
  return 0;
}

/// Only what was learnt: records of the tuner have files of their own.
int merge(const char* from) {
  const std::string file = learnt_file();
  if (file.empty()) return 1;
  std::size_t added = 0;
  for (const TuningRecord& r : read_records(from)) {
    if (r.space != jit::kLearntSpace) continue;
    add_record(file, r);
    ++added;
  }
  std::printf("%zu records added to %s\n", added, file.c_str());
  return 0;
}

}  // namespace

int cache_command(Words words) {
  const CommandRow& row = row_of("cache");
  const char* what = words.empty() ? "list" : words[0];
  if (asks_for_help(words)) return print_usage(row);
  const bool takes_one = std::strcmp(what, "forget") == 0 || std::strcmp(what, "merge") == 0;
  if (words.size() > (takes_one ? 2u : 1u))
    return report_usage(row, UsageError(std::string("found an argument too many: ") + words.back()));
  if (std::strcmp(what, "learnt") == 0) return list_learnt();
  if (std::strcmp(what, "forget") == 0) return forget(words.size() > 1 ? words[1] : "");
  if (std::strcmp(what, "merge") == 0) {
    if (words.size() < 2) return report_usage(row, UsageError("merge takes the file to add"));
    return merge(words[1]);
  }
  const auto cache = jit::DiskCache::of_user();
  if (!cache) {
    std::puts("the cache is switched off (TESSERA_CACHE=0), or there is no home folder for it");
    return 0;
  }
  if (std::strcmp(what, "list") == 0) return list(*cache);
  if (std::strcmp(what, "size") == 0) return size(*cache);
  if (std::strcmp(what, "clear") == 0) {
    std::printf("%zu kernels removed from %s\n", cache->clear(), cache->folder().c_str());
    return 0;
  }
  return report_usage(row, UsageError(std::string("unknown argument ") + what));
}

}  // namespace tessera
