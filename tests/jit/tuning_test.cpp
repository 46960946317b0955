// Tuning records: as text, in files that are whole, damaged or shared by processes, and as hints of a compilation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "jit/code/sha256.hpp"
#include "jit/rig.hpp"
#include "tessera/base/error.hpp"
#include "tessera/jit/tuning.hpp"

namespace {

using namespace tessera;
namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

TuningRecord sample(int n = 1) {
  TuningRecord r;
  r.kernel = "gemm";
  r.space = "products";
  r.choice = "128x\"128\"\\x64\n";  // what has to be quoted
  r.hints = "warps=4 latency=2";
  r.arguments = "f16[" + std::to_string(n) + ", 4]:4,1";
  r.hash = std::string(64, 'a');
  r.predicates = "3ff";
  r.device = "NVIDIA H200";
  r.gpu = "sm_90";
  r.assembler = "13.5";
  r.library = jit::library_version();
  r.date = "2026-11-21";
  r.runner_up = "64x64x64, warps=2";
  r.ms = 0.1 + 0.2;
  r.default_ms = 1e-7;
  r.runner_up_ms = 12345.678901234567;
  return r;
}

std::string error_of(const std::string& line) {
  try {
    jit::record_of(line);
  } catch (const IoError& error) { return error.message(); }
  return "";
}

TEST(TuningRecord, IsReadBackAsWritten) {
  const std::string line = jit::line_of(sample());
  EXPECT_EQ(line.find('\n'), line.npos);
  EXPECT_EQ(jit::record_of(line), sample());
  EXPECT_STREQ(jit::library_version(), "0.1.0");
}

TEST(TuningRecord, EveryChangedByteIsRejected) {
  const std::string line = jit::line_of(sample());
  for (std::size_t i = 0; i < line.size(); ++i) {
    std::string damaged = line;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_FALSE(error_of(damaged).empty()) << i;
    EXPECT_FALSE(error_of(line.substr(0, i)).empty()) << i;
  }
  EXPECT_TRUE(error_of(line).empty());
  std::string by_hand = line;
  by_hand.replace(by_hand.find("warps=4"), 7, "warps=8");
  EXPECT_THAT(error_of(by_hand), HasSubstr("changed by hand"));
}

TEST(TuningRecord, ARightChecksumDoesNotMakeARecord) {
  const auto with_sum = [](const std::string& body) {
    return body + ",\"sum\":\"" + jit::hex(jit::sha256(std::as_bytes(std::span(body)))).substr(0, 16) + "\"}";
  };
  EXPECT_THAT(error_of(with_sum("{\"kernel\":1")), HasSubstr("expected a tuning record"));
  TuningRecord r = sample();
  r.hints = "warps=many";
  EXPECT_THAT(error_of(jit::line_of(r)), HasSubstr("hints that are none"));
  r = sample();
  r.hash.pop_back();
  EXPECT_THAT(error_of(jit::line_of(r)), HasSubstr("the hash"));
  r = sample();
  r.ms = -1;
  EXPECT_THAT(error_of(jit::line_of(r)), HasSubstr("a time that is none"));
  std::string line = jit::line_of(sample());
  const std::string body = line.substr(0, line.find(",\"sum\""));
  EXPECT_THAT(error_of(with_sum(body + ",\"later\":1")), HasSubstr("more fields"));
  EXPECT_TRUE(error_of(with_sum(body)).empty());
}

class TuningFile : public testing::Test {
 protected:
  std::string path() const { return folder_ + "/test.tune"; }
  void write(const std::string& text) const { std::ofstream(path(), std::ios::binary) << text; }
  std::string text() const {
    std::ifstream in(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string read_error() const {
    try {
      read_records(path());
    } catch (const IoError& error) { return error.message(); }
    return "";
  }
  jit_rig::Folder own_{"tuning"};
  const std::string& folder_ = own_.path;
};

TEST_F(TuningFile, RecordsAreAddedAndReplaced) {
  add_record(path(), sample(1));
  add_record(path(), sample(2));
  TuningRecord better = sample(1);
  better.ms = 0.25;
  add_record(path(), better);
  EXPECT_THAT(read_records(path()), ElementsAre(sample(2), better));
  TuningRecord elsewhere = better;
  elsewhere.device = "NVIDIA H100";
  add_record(path(), elsewhere);
  EXPECT_EQ(read_records(path()).size(), 3u);
}

TEST_F(TuningFile, RecordsAreRemovedByTheNameOfTheKernel) {
  EXPECT_EQ(remove_records(path(), ""), 0u) << "there is no file";
  TuningRecord other = sample(2);
  other.kernel = "softmax";
  add_record(path(), sample(1));
  add_record(path(), other);
  const std::string before = text();
  EXPECT_EQ(remove_records(path(), "norm"), 0u);
  EXPECT_EQ(text(), before);
  EXPECT_EQ(remove_records(path(), "soft"), 1u);
  EXPECT_THAT(read_records(path()), ElementsAre(sample(1)));
  EXPECT_EQ(remove_records(path(), ""), 1u);
  EXPECT_TRUE(read_records(path()).empty());
  write("no records");
  EXPECT_THROW(remove_records(path(), ""), IoError);
  EXPECT_EQ(text(), "no records");
}

TEST_F(TuningFile, EveryDamageIsAnErrorAndTheFileIsLeftAsItIs) {
  add_record(path(), sample(1));
  add_record(path(), sample(2));
  const std::string whole = text();
  for (std::size_t i = 0; i < whole.size(); i += 7) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    write(damaged);
    EXPECT_THAT(read_error(), HasSubstr(path())) << i;
    EXPECT_THROW(add_record(path(), sample(3)), IoError);
    EXPECT_EQ(text(), damaged);
    write(whole.substr(0, i));
    EXPECT_FALSE(read_error().empty()) << i;
  }
  write(whole.substr(0, whole.rfind("{\"kernel")));  // a whole line less
  EXPECT_THAT(read_error(), HasSubstr("expected 2 records, found 1"));
  write(whole + whole.substr(whole.rfind("{\"kernel")));
  EXPECT_THAT(read_error(), HasSubstr("expected 2 records, found 3"));
  write("[1, 2]\n");
  EXPECT_THAT(read_error(), HasSubstr("expected a file of tuning records"));
  write(whole);
  EXPECT_EQ(read_error(), "");
}

TEST_F(TuningFile, WhatIsNotThereOrCannotBeWrittenIsAnError) {
  EXPECT_THAT(read_error(), HasSubstr("there is no file"));
  EXPECT_THROW(read_records(folder_), IoError);  // a folder
  EXPECT_THROW(add_record(folder_ + "/no/such/folder.tune", sample()), IoError);
  TuningRecord nobody = sample();
  nobody.hash = "";
  EXPECT_THROW(add_record(path(), nobody), IoError);  // without provenance
  EXPECT_FALSE(fs::exists(path()));
  add_record(path(), sample());
  EXPECT_EQ(read_records(path()).size(), 1u);
}

TEST_F(TuningFile, ProcessesAddAtTheSameTime) {
  constexpr int kProcesses = 4, kEach = 12;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      int code = 0;
      try {
        for (int i = 0; i < kEach; ++i) add_record(path(), sample(p * kEach + i));
      } catch (...) { code = 1; }
      _exit(code);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  std::set<std::string> found;
  for (const TuningRecord& r : read_records(path())) found.insert(r.arguments);
  EXPECT_EQ(found.size(), std::size_t{kProcesses * kEach});
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 2) << "the file and its lock";
}

TEST(TuningHints, AreCombined) {
  EXPECT_THAT(jit::hint_combinations(""), ElementsAre(""));
  EXPECT_THAT(
      jit::hint_combinations(" warps=2,4  access=tma,pointer "),
      ElementsAre("warps=2 access=tma", "warps=2 access=pointer", "warps=4 access=tma", "warps=4 access=pointer"));
  for (const char* wrong : {"warps", "warps=", "warps=2,", "warps=2,x", "speed=9", "=", "access=tma,fast"})
    EXPECT_THROW(jit::hint_combinations(wrong), CompileError) << wrong;
  std::string eight, larger;  // of 2^16 points, and of 2^18
  for (int i = 0; i < 8; ++i) eight += "warps=1,2,4,8 ";
  larger = eight + "latency=1,2,3,4";
  EXPECT_EQ(jit::hint_combinations(eight).size(), std::size_t{1} << 16);
  EXPECT_THROW(jit::hint_combinations(larger), CompileError);
}

TEST(TuningHints, AScopeGivesThemToItsThread) {
  EXPECT_EQ(jit::scoped_tuning, 0u);
  {
    const TuningScope outer("warps=4 occupancy=0");
    const jit::TuningId given = jit::scoped_tuning;
    EXPECT_EQ(jit::interned_tuning(given).hints, "warps=4 occupancy=0");
    {
      const TuningScope none("");
      EXPECT_EQ(jit::scoped_tuning, 0u);
    }
    EXPECT_THROW(TuningScope("speed=9"), CompileError);
    EXPECT_EQ(jit::scoped_tuning, given) << "a scope that fails changes nothing";
    std::thread([] { EXPECT_EQ(jit::scoped_tuning, 0u); }).join();
  }
  EXPECT_EQ(jit::scoped_tuning, 0u);
}

TEST(TuningHints, EqualRecordsHaveOneNumber) {
  const jit::TuningId one = jit::intern_tuning(sample(101)), two = jit::intern_tuning(sample(102));
  EXPECT_NE(one, 0u);
  EXPECT_NE(one, two);
  EXPECT_EQ(jit::intern_tuning(sample(101)), one);
  EXPECT_EQ(jit::interned_tuning(two), sample(102));
  TuningRecord wrong;
  wrong.hints = "warps=many";
  EXPECT_THROW(jit::intern_tuning(wrong), CompileError);
}

}  // namespace
