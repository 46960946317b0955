// The progress bar on a file (lines) and on a terminal (one line that is written anew).
#include "mortar/progress.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

namespace mortar {
namespace THIS_FILE {

using testing::HasSubstr;
using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

constexpr LoadProgress kHalf{4'000'000'000, 8'000'000'000, 2.0}, kDone{8'000'000'000, 8'000'000'000, 4.0};

std::string contents(std::FILE* file) {
  std::rewind(file);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  return text;
}

TEST(MortarProgress, Text) {
  EXPECT_EQ(progress_text(kHalf), "loading  50 %  4.00 of 8.00 GB  2.00 GB/s  2.0 s left");
  EXPECT_EQ(progress_text(kDone), "loaded  100 %  8.00 of 8.00 GB  2.00 GB/s  4.0 s");
  EXPECT_EQ(progress_text({0, 8'000'000'000, 0}), "loading   0 %  0.00 of 8.00 GB  0.00 GB/s  0.0 s left");
  EXPECT_THAT(progress_text({0, 0, 0}), HasSubstr("100 %"));
}

TEST(MortarProgress, AFileGetsALineNowAndThen) {
  const File file(std::tmpfile(), std::fclose);
  {
    ProgressBar bar(file.get());
    for (int tenths = 1; tenths < 120; ++tenths) bar({static_cast<std::uint64_t>(tenths), 120, tenths / 10.0});
    bar({120, 120, 12});
  }
  const std::string text = contents(file.get());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;  // at 5 s and 10 s, and the end
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_THAT(text, HasSubstr("loaded "));
}

TEST(MortarProgress, QuietWritesNothing) {
  const File file(std::tmpfile(), std::fclose);
  ProgressBar bar(file.get(), true);
  bar(kHalf);
  bar(kDone);
  EXPECT_EQ(contents(file.get()), "");
}

TEST(MortarProgress, ATerminalHasOneLine) {
  int main_end = -1, other_end = -1;
  ASSERT_EQ(openpty(&main_end, &other_end, nullptr, nullptr, nullptr), 0);
  const File file(fdopen(other_end, "w"), std::fclose);
  {
    ProgressBar bar(file.get());
    bar(kHalf);
  }  // interrupted: the line is ended
  std::string text;
  while (!text.ends_with('\n')) {  // the terminal may hand it over in parts
    char bytes[512];
    const ssize_t n = ::read(main_end, bytes, sizeof bytes);
    ASSERT_GT(n, 0) << text;
    text.append(bytes, static_cast<std::size_t>(n));
  }
  ::close(main_end);
  EXPECT_EQ(text, "\r" + progress_text(kHalf) + "\033[K\r\n") << "the terminal adds \\r to \\n";
}

}  // namespace THIS_FILE
}  // namespace mortar
