// `tessera cache`: lists, measures and clears the disk cache.
#include <cstdio>
#include <cstring>
#include <ctime>

#include "command_rows.hpp"
#include "tessera/jit/disk_cache.hpp"

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

}  // namespace

int cache_command(Words words) {
  const CommandRow& row = row_of("cache");
  const char* what = words.empty() ? "list" : words[0];
  if (asks_for_help(words)) return print_usage(row);
  if (words.size() > 1)
    return report_usage(row, UsageError(std::string("expected at most one argument, found also ") + words[1]));
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
