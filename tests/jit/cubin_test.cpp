// From a module to a cubin: assemblers that misbehave, the disk cache before them, many threads at once. The assemblers
// are scripts that count their runs; the real one is tried where there is one.
#include "tessera/jit/cubin.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "jit/rig.hpp"
#include "tessera/base/error.hpp"
#include "tessera/passes/lower_checks.hpp"

using namespace tessera;
using namespace jit_rig;
using testing::HasSubstr;
namespace fs = std::filesystem;

namespace {

/// An entry with a constant in it, so that different numbers are different modules.
std::unique_ptr<ir::Module> module_of(int number, bool with_check = false) {
  auto module = std::make_unique<ir::Module>();
  ir::Function& f = module->add_function("entry");
  const ir::Type i32 = ir::Type::element(ir::Elem::I32);
  const ir::Value pointer = f.body().add_arg(ir::Type::tile(ir::Type::pointer(i32), {}));
  ir::Builder b(f.body());
  b.loc = SourceLocation::current();
  if (with_check) {
    const std::int64_t shape[] = {4, 8};
    b.create(ir::Op::Assert, {b.constant_int(ir::Elem::I1, 0, shape)}, {},
             {{ir::AttrName::message, std::string("never true")}});
  }
  store_and_return(b, pointer, number);
  return module;
}

/// A folder with an assembler, a cache and a place for temporary files of its own.
class CubinTest : public testing::Test {
 protected:
  CubinTest()
      : assembler_("TESSERA_TILEIRAS", folder_ + "/tileiras"),
        cache_("TESSERA_CACHE_DIR", folder_ + "/cache"),
        temporary_("TMPDIR", folder_ + "/tmp") {
    fs::create_directory(folder_ + "/tmp");
  }

  void become(const std::string& body, const std::string& release = "13.5") {
    write_assembler(folder_ + "/tileiras", body, release);
  }
  int runs() const { return runs_in(folder_); }
  std::string error(const ir::Module& module) const {
    try {
      jit::make_cubin(module, "sm_90", "wanted");
    } catch (const CompileError& e) { return e.what(); }
    return "no error";
  }
  bool nothing_left() const { return fs::is_empty(folder_ + "/tmp"); }

  Folder own_{"cubin"};
  const std::string& folder_ = own_.path;
  Variable assembler_, cache_, temporary_;
};

TEST_F(CubinTest, IsAssembledOnceAndThenFoundOnDisk) {
  become(std::string(kGood) + "; echo 'warning: High register usage' >&2");
  const jit::Cubin first = jit::make_cubin(*module_of(1), "sm_90", "wanted");
  EXPECT_EQ(first.origin, jit::CubinOrigin::Assembled);
  EXPECT_EQ(first.code.cubin.size(), 204u);
  EXPECT_TRUE(first.code.register_pressure);
  const jit::Cubin second = jit::make_cubin(*module_of(1), "sm_90", "wanted");
  EXPECT_EQ(second.origin, jit::CubinOrigin::DiskCache);
  EXPECT_EQ(second.code.cubin, first.code.cubin);
  EXPECT_TRUE(second.code.register_pressure);
  EXPECT_THAT(second.code.warnings, HasSubstr("High register usage"));
  EXPECT_EQ(runs(), 1);
  jit::make_cubin(*module_of(1), "sm_100", "wanted");
  jit::make_cubin(*module_of(2), "sm_90", "wanted");
  EXPECT_EQ(runs(), 3) << "another GPU and another module are other entries";
  EXPECT_TRUE(nothing_left());
}

TEST_F(CubinTest, AnotherAssemblerCompilesAnew) {
  become(kGood);
  jit::make_cubin(*module_of(1), "sm_90", "wanted");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  become(std::string("# newer\n") + kGood);
  // Which assembler there is has been looked up in this process; another folder makes it look again.
  const Variable elsewhere("TESSERA_TILEIRAS", folder_ + "/./tileiras");
  EXPECT_EQ(jit::make_cubin(*module_of(1), "sm_90", "wanted").origin, jit::CubinOrigin::Assembled);
}

TEST_F(CubinTest, ADamagedEntryIsReplaced) {
  become(kGood);
  jit::make_cubin(*module_of(1), "sm_90", "wanted");
  for (const auto& file : fs::directory_iterator(folder_ + "/cache/kernels")) fs::resize_file(file, 100);
  EXPECT_EQ(jit::make_cubin(*module_of(1), "sm_90", "wanted").origin, jit::CubinOrigin::Assembled);
  EXPECT_EQ(jit::make_cubin(*module_of(1), "sm_90", "wanted").origin, jit::CubinOrigin::DiskCache);
}

TEST_F(CubinTest, TheCacheCanBeSwitchedOff) {
  become(kGood);
  const Variable off("TESSERA_CACHE", "0");
  for (int i = 0; i < 2; ++i) jit::make_cubin(*module_of(1), "sm_90", "wanted");
  EXPECT_EQ(runs(), 2);
  EXPECT_FALSE(fs::exists(folder_ + "/cache"));
}

TEST_F(CubinTest, FailuresAreErrorsAndTheNextCallWorks) {
  struct Row {
    const char* body;
    const char* says;
  };
  const Row rows[] = {
      {"echo 'loc(\"kernel.cpp\":12:3): error: too hard' >&2; exit 1", "kernel.cpp:12"},
      {"kill -SEGV $$", "crashed (signal 11)"},
      {"sleep 60", "did not finish within 1 s"},
      {"exit 0", "gave no file"},
      {"echo junk > \"$last\"", "are not a cubin"},
      // The first part of a cubin: the header says that there are sections.
      {"printf '\\177ELF' > \"$last\"; head -c 56 /dev/zero >> \"$last\"; head -c 200 /dev/urandom >> \"$last\"",
       "are not a cubin"},
      {"exit 3", "rejects the kernel"},
  };
  int number = 100;
  for (const Row& row : rows) {
    become(row.body);
    {
      const Variable limit("TESSERA_TILEIRAS_SECONDS", std::string(row.body) == "sleep 60" ? "1" : "60");
      EXPECT_THAT(error(*module_of(++number)), AllOf(HasSubstr(row.says), HasSubstr("wanted"))) << row.body;
    }
    EXPECT_TRUE(nothing_left()) << row.body;
    become(kGood);
    EXPECT_EQ(error(*module_of(number)), "no error") << "after " << row.body;
  }
}

/// For the body of an assembler: about a second of processor time.
constexpr const char* kComputes = "i=0; while [ $i -lt 1500000 ]; do i=$((i + 1)); done; ";

TEST_F(CubinTest, WhatIsTooSlowIsRememberedForAsMuchTime) {
  become(std::string(kComputes) + kGood);
  const auto made = [&](double seconds) {
    try {
      return jit::make_cubin(*module_of(1), "sm_90", "wanted", {}, {3, seconds}).origin == jit::CubinOrigin::Assembled
                 ? "assembled"
                 : "cached";
    } catch (const tileiras::TooSlow& error) {
      EXPECT_TRUE(error.by_processor());
      EXPECT_THAT(error.message(), HasSubstr("kernel wanted: the assembler did not finish within"));
      return "too slow";
    }
  };
  EXPECT_STREQ(made(0.2), "too slow");
  EXPECT_EQ(runs(), 1);
  EXPECT_STREQ(made(0.1), "too slow");
  EXPECT_STREQ(made(0.2), "too slow");
  EXPECT_EQ(runs(), 1) << "it is known";
  EXPECT_STREQ(made(0.3), "too slow");
  EXPECT_EQ(runs(), 2) << "more time might have been enough";
  become(kGood);
  const Variable elsewhere("TESSERA_TILEIRAS", folder_ + "/./tileiras");  // another assembler
  EXPECT_STREQ(made(0.2), "assembled");
  EXPECT_STREQ(made(0.1), "cached");
}

TEST_F(CubinTest, APatientCallIsNotStopped) {
  become(std::string(kComputes) + kGood);
  EXPECT_THROW(jit::make_cubin(*module_of(1), "sm_90", "wanted", {}, {3, 0.2}), tileiras::TooSlow);
  EXPECT_EQ(jit::make_cubin(*module_of(1), "sm_90", "wanted").origin, jit::CubinOrigin::Assembled);
  const jit::Cubin kept = jit::make_cubin(*module_of(1), "sm_90", "wanted", {}, {3, 0.2});
  EXPECT_EQ(kept.origin, jit::CubinOrigin::DiskCache) << "a cubin that is there is taken";
  EXPECT_GT(kept.code.seconds, 0.2) << "processor time";
  EXPECT_EQ(jit::make_cubin(*module_of(1), "sm_90", "wanted", {}, {0, 0}).origin, jit::CubinOrigin::Assembled)
      << "another effort is other code";
}

TEST_F(CubinTest, NoAssemblerAndAnOldOneSayHowToFixIt) {
  EXPECT_THAT(error(*module_of(1)), AllOf(HasSubstr("kernel wanted cannot be compiled for sm_90"),
                                          HasSubstr(tileiras::kHowToGet), HasSubstr("not there")));
  become(kGood, "13.2");
  EXPECT_THAT(error(*module_of(1)), HasSubstr("release 13.2 is older than the 13.3 that sm_90 needs"));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  become(kGood);
  EXPECT_EQ(error(*module_of(1)), "no error");
}

TEST_F(CubinTest, AnAssemblerThatVanishes) {
  become(kGood);
  jit::make_cubin(*module_of(1), "sm_90", "wanted");
  fs::remove(folder_ + "/tileiras");
  EXPECT_THAT(error(*module_of(2)), HasSubstr(tileiras::kHowToGet));
  EXPECT_EQ(error(*module_of(1)), "no error") << "it is in the cache";
}

TEST_F(CubinTest, EqualRequestsShareOneRunAndDifferentOnesRunAtOnce) {
  become(kGood);
  jit::make_cubin(*module_of(0), "sm_90", "warm");  // the search is over
  // Each run waits until four have begun: it fails after a minute if they come one after the other.
  const std::string begun = folder_ + "/begun.";
  become("touch " + begun + "$$; i=0; set -- " + begun +
         "*; while [ $# -lt 4 ]; do [ $i -lt 600 ] || exit 1; i=$((i + 1)); sleep 0.1; set -- " + begun + "*; done; " +
         kGood);
  const Variable patient("TESSERA_TILEIRAS_SECONDS", "120");
  std::vector<std::thread> threads;
  for (int i = 0; i < 12; ++i) {
    threads.emplace_back([i, this] { EXPECT_EQ(error(*module_of(1 + i % 4)), "no error"); });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(runs(), 1 + 4);
}

TEST_F(CubinTest, AFailureIsToldToAllWhoWaited) {
  become("while [ ! -e " + folder_ + "/go ]; do sleep 0.05; done; exit 1");
  std::vector<std::thread> threads;
  std::vector<std::string> errors(6);
  std::atomic<int> begun{0};
  for (std::string& e : errors)
    threads.emplace_back([this, &e, &begun] {
      ++begun;
      e = error(*module_of(1));
    });
  while (begun < 6 || runs() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::ofstream(folder_ + "/go") << "now\n";
  for (std::thread& t : threads) t.join();
  for (const std::string& e : errors) EXPECT_THAT(e, HasSubstr("rejects the kernel"));
  EXPECT_LT(runs(), 6) << "a thread that came late may have tried again, but not each";
}

TEST(CubinReal, ALoweredCheckIsAccepted) {
  std::string why;
  if (!jit::assembler_for("sm_90", &why)) GTEST_SKIP() << why;
  const auto module = module_of(1, true);
  ASSERT_EQ(passes::lower_checks(*module->functions.front()).size(), 1u);
  const jit::Cubin made = jit::make_cubin(*module, "sm_90", "checked");
  EXPECT_GT(made.code.cubin.size(), 1000u);
}

}  // namespace
