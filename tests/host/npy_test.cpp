// .npy files: round trips, and every way in which a file can be wrong.
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <tessera/tessera.hpp>
#include <thread>
#include <vector>

#include "base/rounds.hpp"
#include "host/expect_error.hpp"
#include "host/npy_format.hpp"

namespace THIS_FILE {

using namespace tessera;

class Npy : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = (std::filesystem::temp_directory_path() /
             (std::string("tessera_npy_") + test->name() + "_" + std::to_string(getpid()) + ".npy"))
                .string();
  }
  void TearDown() override { std::remove(path_.c_str()); }

  void write(const std::string& bytes) {
    std::FILE* f = std::fopen(path_.c_str(), "wb");
    ASSERT_TRUE(f);
    ASSERT_EQ(std::fwrite(bytes.data(), 1, bytes.size(), f), bytes.size());
    std::fclose(f);
  }
  /// A file of version 1.0 with this dictionary and `data` bytes of elements.
  void write_file(const std::string& dictionary, std::size_t data) {
    std::string s("\x93NUMPY\x01\x00", 8);
    s += static_cast<char>(dictionary.size() & 0xFF);
    s += static_cast<char>(dictionary.size() >> 8);
    write(s + dictionary + std::string(data, '\0'));
  }
  template <class T, int R>
  void round_trip(TESSERA_ARG_LIVE const Tensor<T, R>& t) {
    save_npy(path_, t);
    auto back = load_npy<T, R>(path_).sync();
    EXPECT_EQ(back.dims(), t.dims());
    EXPECT_EQ(host(back).sync(), host(t).sync());
  }
  std::string path_;
};

TEST_F(Npy, RoundTripsEveryType) {
  round_trip(random::normal<f32>({3, 5}, 1).sync());
  round_trip(random::normal<f64>({7}, 1).sync());
  round_trip(cast<i8>(arange<i32>({2, 3, 4}, -12)).sync());
  round_trip(arange<u16>(9).sync());
  round_trip(arange<u64>(9).sync());
  round_trip(from(std::vector<bool>{true, false, true}, {3}).sync());
  round_trip(zeros<i32>({0, 4}).sync());
  const auto half = cast<f16>(arange<f32>(5)).sync();
  save_npy(path_, half);
  EXPECT_EQ(host(cast<f32>(load_npy<f16, 1>(path_))).sync(), (std::vector<f32>{0, 1, 2, 3, 4}));
  const auto t = arange<i32>({2, 3}).sync();
  save_npy(path_, t.permute<1, 0>());
  EXPECT_EQ(host(load_npy<i32, 2>(path_)).sync(), (std::vector<i32>{0, 3, 1, 4, 2, 5}));
}

TEST_F(Npy, SavesOfOneNameFromManyThreadsAreEachComplete) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 10; ++round) {
        try {
          save_npy(path_, full<f32>({20000}, static_cast<float>(t)));
          const auto h = host(load_npy<f32, 1>(path_)).sync();
          if (h != std::vector<f32>(20000, h[0])) ++wrong;
        } catch (const Error&) { ++wrong; }
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Npy, TouchesRegularFilesOnly) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_ERROR(IoError, (void)(load_npy<f32, 1>(path_)), "not a regular file");  // and does not wait for a writer
  EXPECT_ERROR(IoError, save_npy(path_, ones<f32>({3})), "not a regular file");
  EXPECT_TRUE(std::filesystem::is_fifo(path_));
}

TEST_F(Npy, WritesAnAlignedHeaderAsNumPyDoes) {
  save_npy(path_, zeros<f32>({2, 3}));
  EXPECT_EQ(std::filesystem::file_size(path_), 128u + 24u);
}

TEST_F(Npy, ReadsHeadersOfOtherVersionsAndSpellings) {
  write_file("{\"shape\":(2,),\"fortran_order\":False,\"descr\":\"=i4\"}", 8);
  EXPECT_EQ((load_npy<i32, 1>(path_).sync().size()), 2);
  const std::string dict = "{'descr': '<i4', 'fortran_order': False, 'shape': (2L, 1), }";
  std::string s("\x93NUMPY\x02\x00", 8);
  s += std::string{static_cast<char>(dict.size()), 0, 0, 0};
  write(s + dict + std::string(8, '\0'));
  EXPECT_EQ((load_npy<i32, 2>(path_).sync().dims()), (Dims{2, 1}));
}

TEST_F(Npy, BoolsAreNormalised) {
  write_file("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", 0);
  std::FILE* f = std::fopen(path_.c_str(), "ab");
  std::fputc(0xFF, f);
  std::fputc(0, f);
  std::fclose(f);
  EXPECT_EQ(host(load_npy<bool, 1>(path_)).sync(), (std::vector<bool>{true, false}));
}

struct Bad {
  const char* dictionary;
  std::size_t data;
  const char* says;
};
class BadNpy : public Npy, public testing::WithParamInterface<Bad> {};
TEST_P(BadNpy, IsATypedError) {
  path_ += std::to_string(GetParam().data) + "x" + std::to_string(std::hash<std::string>{}(GetParam().dictionary));
  std::replace(path_.begin() + 5, path_.end(), '/', '_');
  write_file(GetParam().dictionary, GetParam().data);
  EXPECT_ERROR(IoError, (void)(load_npy<f32, 2>(path_)), GetParam().says, "npy_test.cpp");
}
INSTANTIATE_TEST_SUITE_P(
    Headers, BadNpy,
    testing::Values(
        Bad{"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 23, "truncated"},
        Bad{"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 25, "too long"},
        Bad{"{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }", 24, "big-endian"},
        Bad{"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", 24, "Fortran"},
        Bad{"{'descr': '<f4', 'fortran_order': 1, 'shape': (2, 3), }", 24, "neither True nor False"},
        Bad{"{'descr': '<c8', 'fortran_order': False, 'shape': (2, 3), }", 48, "unknown"},
        Bad{"{'descr': '|O', 'fortran_order': False, 'shape': (2, 3), }", 48, "unknown"},
        Bad{"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3), }", 24, "structured"},
        Bad{"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }", 48, "holds f64, but f32"},
        Bad{"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", 24, "1 axes, but 2"},
        Bad{"{'descr': '<f4', 'fortran_order': False, 'shape': (), }", 4, "0 axes, but 2"},
        Bad{"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", 0, "overflows"},
        Bad{"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 2), }", 0, "too large"},
        Bad{"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000), }", 64, "truncated"},
        Bad{"{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }", 24, "not a number"},
        Bad{"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4294967296), }", 0, "at most 2147483647"},
        Bad{"{'descr': '<f4', 'fortran_order': False, }", 0, "lacks"},
        Bad{"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (0, 0)}", 0, "twice"},
        Bad{"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 0), 'x': 1}", 0, "unknown entry"},
        Bad{"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 0)} import os", 0, "continues after"},
        Bad{"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}", 24, "commas"},
        Bad{"{'descr': '<f4", 0, "does not end"}, Bad{"", 0, "'{'"}));

TEST_F(Npy, RejectsBrokenFiles) {
  EXPECT_ERROR(IoError, (void)(load_npy<f32, 2>("/nonexistent/x.npy")), "/nonexistent/x.npy", "open");
  EXPECT_ERROR(IoError, (void)(load_npy<f32, 2>("/tmp")), "");
  write("");
  EXPECT_ERROR(IoError, (void)(load_npy<f32, 2>(path_)), "truncated");
  write("GIF89a..........");
  EXPECT_ERROR(IoError, (void)(load_npy<f32, 2>(path_)), "does not begin");
  write(
      std::string("\x93NUMPY\x07\x00\x10\x00"
                  "abcd",
                  14));
  EXPECT_ERROR(IoError, (void)(load_npy<f32, 2>(path_)), "version 7");
  write(std::string("\x93NUMPY\x01\x00\xFF\xFF{", 11));
  EXPECT_ERROR(IoError, (void)(load_npy<f32, 2>(path_)), "truncated");
  write(std::string("\x93NUMPY\x02\x00\xFF\xFF\xFF\xFF{}", 14));
  EXPECT_ERROR(IoError, (void)(load_npy<f32, 2>(path_)), "header claims 4294967295 bytes");
  EXPECT_ERROR(IoError, save_npy("/nonexistent/x.npy", zeros<f32>({1})), "/nonexistent");
}

TEST(NpyHeader, FuzzedDictionariesAreReadOrRejected) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  std::uint64_t state = 12345;
  const auto next = [&] {
    return static_cast<std::size_t>((state = state * 6364136223846793005u + 1442695040888963407u) >> 33);
  };
  int read = 0, rejected = 0;
  for (std::uint64_t i = 0; i < test::rounds(50000); ++i) {
    std::string s = good;
    for (std::size_t k = next() % 3 + 1; k-- > 0;) s[next() % s.size()] = static_cast<char>(next() % 128);
    try {
      const auto h = detail::npy_dictionary(s, 64, 64 + 24, "fuzz", {});
      EXPECT_EQ(h.elements * static_cast<std::uint64_t>(size_of(h.element)), 24u) << s;
      ++read;
    } catch (const IoError&) { ++rejected; }
  }
  EXPECT_GT(read, static_cast<int>(test::rounds(100)));
  EXPECT_GT(rejected, static_cast<int>(test::rounds(30000)));
}

}  // namespace THIS_FILE
