// The disk cache: what is stored is found, what is damaged is not, limits hold, and many processes may share it.
#include "tessera/jit/disk_cache.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "jit/code/sha256.hpp"
#include "jit/rig.hpp"
#include "jit/store/cache_file.hpp"
#include "tessera/base/error.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::jit;
namespace fs = std::filesystem;

/// A folder of its own per test, removed at the end.
class DiskCacheTest : public testing::Test {
 protected:
  DiskCache cache(std::uint64_t limit = 1 << 20) const { return DiskCache(folder_ + "/kernels", limit); }
  fs::path file_of(const CacheKey& key) const { return folder_ + "/kernels/" + hex(key) + ".tsk"; }
  std::size_t files() const {
    const auto all = fs::directory_iterator(folder_ + "/kernels");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }
  jit_rig::Folder own_{"cache"};
  const std::string& folder_ = own_.path;
};

CacheKey key(int n) { return Sha256().add_number(static_cast<std::uint64_t>(n)).finish(); }

/// Contents that follow from `n`, so that mixed-up entries show.
CachedCubin code(int n, std::size_t bytes = 200) {
  CachedCubin c;
  for (std::size_t i = 0; i < bytes; ++i)
    c.cubin.push_back(static_cast<std::byte>(static_cast<std::size_t>(n) * 31 + i));
  c.label = "kernel" + std::to_string(n);
  c.gpu = "sm_90";
  c.assembler = "13.5 (a test)";
  c.warnings = n % 2 ? "one\ntwo" : "";
  c.register_pressure = n % 3 == 0;
  c.seconds = 0.25;
  return c;
}

void expect_equal(const std::optional<CachedCubin>& found, const CachedCubin& expected) {
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->cubin, expected.cubin);
  EXPECT_EQ(found->label, expected.label);
  EXPECT_EQ(found->gpu, expected.gpu);
  EXPECT_EQ(found->assembler, expected.assembler);
  EXPECT_EQ(found->warnings, expected.warnings);
  EXPECT_EQ(found->register_pressure, expected.register_pressure);
  EXPECT_DOUBLE_EQ(found->seconds, expected.seconds);
}

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write_text(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

TEST_F(DiskCacheTest, WhatIsStoredIsFound) {
  const DiskCache c = cache();
  EXPECT_FALSE(c.find(key(1)).has_value());
  ASSERT_TRUE(c.store(key(1), code(1)));
  ASSERT_TRUE(c.store(key(2), code(2, 0)));
  expect_equal(c.find(key(1)), code(1));
  expect_equal(c.find(key(2)), code(2, 0));
  EXPECT_FALSE(c.find(key(3)).has_value());
  ASSERT_TRUE(c.store(key(1), code(3)));  // replaces
  expect_equal(c.find(key(1)), code(3));
  EXPECT_EQ(files(), 2u);
}

TEST_F(DiskCacheTest, OnlyTheUserMayReadIt) {
  ASSERT_TRUE(cache().store(key(1), code(1)));
  struct stat info {};
  ASSERT_EQ(stat(file_of(key(1)).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(stat((folder_ + "/kernels").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(DiskCacheTest, EveryFlippedBitIsFound) {
  const DiskCache c = cache();
  ASSERT_TRUE(c.store(key(1), code(1, 40)));
  const std::string good = read_text(file_of(key(1)));
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    write_text(file_of(key(1)), bad);
    ASSERT_FALSE(c.find(key(1)).has_value()) << "byte " << i;
    ASSERT_FALSE(fs::exists(file_of(key(1)))) << "a damaged file stays";
  }
  ASSERT_TRUE(c.store(key(1), code(1, 40)));
  expect_equal(c.find(key(1)), code(1, 40));
}

TEST_F(DiskCacheTest, EveryTruncationAndExtensionIsFound) {
  const DiskCache c = cache();
  ASSERT_TRUE(c.store(key(1), code(1, 40)));
  const std::string good = read_text(file_of(key(1)));
  for (std::size_t n = 0; n < good.size(); ++n) {
    write_text(file_of(key(1)), good.substr(0, n));
    ASSERT_FALSE(c.find(key(1)).has_value()) << n << " bytes";
  }
  write_text(file_of(key(1)), good + "x");
  EXPECT_FALSE(c.find(key(1)).has_value());
}

/// Good checksums do not help against wrong contents: another key's entry, another version, lengths that lie.
TEST_F(DiskCacheTest, ForeignFilesAreNotBelieved) {
  const DiskCache c = cache();
  ASSERT_TRUE(c.store(key(1), code(1)));
  fs::copy_file(file_of(key(1)), file_of(key(2)));
  EXPECT_FALSE(c.find(key(2)).has_value()) << "under another entry's name";
  const CacheKey k = key(3);
  for (const std::size_t at : {std::size_t{0}, std::size_t{8}, std::size_t{12}, std::size_t{16}, std::size_t{22}}) {
    std::vector<std::byte> bytes = write_cache_file(k, code(3));
    bytes.resize(bytes.size() - sizeof(Digest));
    bytes[at] = static_cast<std::byte>(std::to_integer<int>(bytes[at]) + 1);
    const Digest checksum = sha256(bytes);
    bytes.insert(bytes.end(), checksum.begin(), checksum.end());
    EXPECT_FALSE(read_cache_file(bytes, &k).has_value()) << "field at " << at;
  }
  CachedCubin slow = code(3);
  slow.seconds = 1e12;
  EXPECT_FALSE(read_cache_file(write_cache_file(k, slow), &k).has_value()) << "compiled for thousands of years";
  EXPECT_TRUE(read_cache_file(write_cache_file(k, code(3)), &k).has_value());
  fs::create_symlink(file_of(key(1)), file_of(key(4)));
  EXPECT_FALSE(c.find(key(4)).has_value()) << "a link";
  fs::create_directory(file_of(key(5)));
  EXPECT_FALSE(c.find(key(5)).has_value()) << "a folder";
}

void age(const fs::path& path, int seconds) {
  fs::last_write_time(path, fs::last_write_time(path) - std::chrono::seconds(seconds));
}

TEST_F(DiskCacheTest, TheLeastRecentlyUsedGoFirst) {
  const DiskCache large = cache(1 << 20);
  for (int n = 0; n < 10; ++n) {
    ASSERT_TRUE(large.store(key(n), code(n, 1000)));
    age(file_of(key(n)), 100 - n);
  }
  EXPECT_TRUE(large.find(key(0)).has_value());  // now the most recently used
  const std::uint64_t each = fs::file_size(file_of(key(0)));
  const DiskCache small = cache(8 * each);
  EXPECT_LE(small.evict(), 7 * each);
  EXPECT_TRUE(fs::exists(file_of(key(0))));
  EXPECT_FALSE(fs::exists(file_of(key(1))));
  EXPECT_FALSE(fs::exists(file_of(key(2))));
  EXPECT_TRUE(fs::exists(file_of(key(9))));
  EXPECT_FALSE(cache(100).store(key(1), code(1, 1000))) << "larger than the whole cache";
}

TEST_F(DiskCacheTest, StoresKeepTheLimit) {
  const DiskCache c = cache(64 << 10);
  for (int n = 0; n < 200; ++n) ASSERT_TRUE(c.store(key(n), code(n, 2000)));
  std::uint64_t total = 0;
  for (const auto& file : fs::directory_iterator(folder_ + "/kernels")) total += file.file_size();
  EXPECT_LE(total, (64u << 10) * 17 / 16);  // the count is brought up to date at every sixteenth
  EXPECT_TRUE(c.find(key(199)).has_value());
}

TEST_F(DiskCacheTest, ListAndClear) {
  const DiskCache c = cache();
  EXPECT_TRUE(c.list().empty());
  EXPECT_EQ(c.clear(), 0u);
  ASSERT_TRUE(c.store(key(1), code(1)));
  ASSERT_TRUE(c.store(key(2), code(2)));
  age(file_of(key(1)), 50);
  write_text(file_of(key(3)), "damaged");
  age(file_of(key(3)), 90);
  const auto list = c.list();
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].code.label, "kernel2");
  EXPECT_EQ(list[1].code.label, "kernel1");
  EXPECT_EQ(list[1].cubin_bytes, 200u);
  EXPECT_TRUE(list[1].valid);
  EXPECT_FALSE(list[2].valid);
  EXPECT_EQ(c.clear(), 3u);
  EXPECT_EQ(files(), 0u);
}

std::vector<std::byte> note(int n) { return code(n, 60).cubin; }

TEST_F(DiskCacheTest, NotesAreKeptBesideKernels) {
  const DiskCache c = cache();
  EXPECT_FALSE(c.find_note(key(1)).has_value());
  ASSERT_TRUE(c.store_note(key(1), note(1)));
  ASSERT_TRUE(c.store(key(1), code(2)));
  ASSERT_TRUE(c.store_note(key(2), {}));
  EXPECT_EQ(c.find_note(key(1)), note(1));
  EXPECT_EQ(c.find_note(key(2)), std::vector<std::byte>());
  expect_equal(c.find(key(1)), code(2));
  EXPECT_EQ(c.list().size(), 1u) << "kernels only";
  EXPECT_EQ(c.clear(), 1u);
  EXPECT_EQ(files(), 0u);
}

TEST_F(DiskCacheTest, NothingDamagedOrForeignPassesForANote) {
  const DiskCache c = cache();
  ASSERT_TRUE(c.store_note(key(1), note(1)));
  const fs::path file = folder_ + "/kernels/" + hex(key(1)) + ".tsn";
  const std::string good = read_text(file);
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    write_text(file, bad);
    ASSERT_FALSE(c.find_note(key(1)).has_value()) << "byte " << i;
    ASSERT_FALSE(fs::exists(file)) << "a damaged file stays";
    write_text(file, good.substr(0, i));
    ASSERT_FALSE(c.find_note(key(1)).has_value()) << i << " bytes";
  }
  write_text(folder_ + "/kernels/" + hex(key(2)) + ".tsn", good);
  EXPECT_FALSE(c.find_note(key(2)).has_value()) << "another note";
  ASSERT_TRUE(c.store(key(3), code(3)));
  fs::copy_file(file_of(key(3)), folder_ + "/kernels/" + hex(key(3)) + ".tsn");
  EXPECT_FALSE(c.find_note(key(3)).has_value()) << "a kernel";
  write_text(file_of(key(1)), good);
  EXPECT_FALSE(c.find(key(1)).has_value()) << "a note for a kernel";
}

TEST_F(DiskCacheTest, NotesGoWhenNobodyUsesThem) {
  const DiskCache c = cache();
  ASSERT_TRUE(c.store_note(key(1), note(1)));
  ASSERT_TRUE(c.store_note(key(2), note(2)));
  age(folder_ + "/kernels/" + hex(key(1)) + ".tsn", 40 * 86400);
  age(folder_ + "/kernels/" + hex(key(2)) + ".tsn", 20 * 86400);
  c.evict();
  EXPECT_FALSE(c.find_note(key(1)).has_value());
  EXPECT_TRUE(c.find_note(key(2)).has_value());
  const auto last_use = fs::last_write_time(folder_ + "/kernels/" + hex(key(2)) + ".tsn");
  EXPECT_LT(fs::file_time_type::clock::now() - last_use, std::chrono::hours(1)) << "finding is using";
  const DiskCache small = cache(100);
  EXPECT_LE(small.evict(), 100u) << "they count, too";
}

TEST_F(DiskCacheTest, WhatCannotBeWrittenIsNotCached) {
  const DiskCache nowhere("/proc/nowhere/kernels", 1 << 20);
  EXPECT_FALSE(nowhere.store(key(1), code(1)));
  EXPECT_FALSE(nowhere.find(key(1)).has_value());
  EXPECT_EQ(nowhere.evict(), 0u);
  write_text(folder_ + "/file", "not a folder");
  EXPECT_FALSE(DiskCache(folder_ + "/file/kernels", 1 << 20).store(key(1), code(1)));
  // A disk that rejects to take more than a few bytes.
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{64, 64};
    setrlimit(RLIMIT_FSIZE, &limit);
    _exit(cache().store(key(1), code(1)) ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "stored on a full disk";
  EXPECT_EQ(files(), 0u) << "a part of a file is left";
}

TEST_F(DiskCacheTest, WhatIsNoFileIsNotWaitedFor) {
  const DiskCache c = cache();
  ASSERT_TRUE(c.store(key(1), code(1)));
  fs::remove(file_of(key(1)));
  ASSERT_EQ(mkfifo(file_of(key(1)).c_str(), 0600), 0);
  EXPECT_FALSE(c.find(key(1)).has_value());
  EXPECT_TRUE(c.store(key(1), code(1)));
  expect_equal(c.find(key(1)), code(1));
  fs::remove(file_of(key(1)));
  fs::create_directory(file_of(key(1)));
  EXPECT_FALSE(c.find(key(1)).has_value());
  EXPECT_FALSE(c.store(key(1), code(1)));
  EXPECT_EQ(files(), 1u) << "a part of a file is left";
}

TEST_F(DiskCacheTest, AKilledWriterLeavesNothingForLong) {
  const DiskCache c = cache();
  ASSERT_TRUE(c.store(key(1), code(1)));
  write_text(folder_ + "/kernels/.tmp-999999-0", "half an ent");
  c.evict();
  EXPECT_EQ(files(), 2u) << "its writer may be alive";
  age(folder_ + "/kernels/.tmp-999999-0", 3600);
  c.evict();
  EXPECT_EQ(files(), 1u);
  expect_equal(c.find(key(1)), code(1));
}

/// Stores, finds and evicts at random; returns how often it found something that it should not have.
int hammer(const DiskCache& c, unsigned seed) {
  int wrong = 0;
  for (int i = 0; i < 300; ++i) {
    seed = seed * 1664525u + 1013904223u;
    const int n = static_cast<int>(seed >> 16) % 20;
    const auto bytes = static_cast<std::size_t>(500 + n * 100);
    if (seed % 3 == 0) {
      c.store(key(n), code(n, bytes));
    } else if (const auto found = c.find(key(n))) {
      wrong += found->cubin != code(n, bytes).cubin;
    }
    if (seed % 50 == 0) c.evict();
  }
  return wrong;
}

TEST_F(DiskCacheTest, ManyProcessesAndOneThatIsKilled) {
  const DiskCache c = cache(16 << 10);
  std::vector<pid_t> children;
  for (unsigned p = 0; p < 6; ++p) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(hammer(c, p + 1) != 0);
    children.push_back(child);
  }
  const pid_t victim = fork();
  if (victim == 0) {
    for (;;) hammer(c, 99);
  }
  usleep(20000);
  kill(victim, SIGKILL);
  int status = 0;
  waitpid(victim, &status, 0);
  for (const pid_t child : children) {
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(hammer(c, 7), 0);
  for (const CacheEntry& e : c.list()) EXPECT_TRUE(e.valid) << e.file;
}

TEST_F(DiskCacheTest, ManyThreads) {
  const DiskCache c = cache(16 << 10);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (unsigned t = 0; t < 4; ++t) threads.emplace_back([&, t] { wrong[t] = hammer(c, t + 50); });
  for (std::thread& t : threads) t.join();
  for (const int w : wrong) EXPECT_EQ(w, 0);
}

TEST_F(DiskCacheTest, TheEnvironmentMovesLimitsAndDisablesIt) {
  setenv("TESSERA_CACHE_DIR", folder_.c_str(), 1);
  setenv("TESSERA_CACHE_MB", "3", 1);
  const auto c = DiskCache::of_user();
  ASSERT_TRUE(c.has_value());
  EXPECT_EQ(c->folder(), folder_ + "/kernels");
  EXPECT_EQ(c->limit(), 3u << 20);
  setenv("TESSERA_CACHE_MB", "0", 1);
  EXPECT_THROW(DiskCache::of_user(), Error);
  unsetenv("TESSERA_CACHE_MB");
  setenv("TESSERA_CACHE", "0", 1);
  EXPECT_FALSE(DiskCache::of_user().has_value());
  unsetenv("TESSERA_CACHE");
  unsetenv("TESSERA_CACHE_DIR");
}

}  // namespace THIS_FILE
