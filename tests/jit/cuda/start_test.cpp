// Starts with a warm disk cache: what a process launches that found notes about its kernels is what the process
// launched that compiled them. Every start is a process of its own, with a fake driver; the parent has neither devices
// nor threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>

#include <tessera/tessera.hpp>

#include "jit/cuda/kernels.hpp"
#include "jit/rig.hpp"
#include "runtime/cuda_rig.hpp"
#include "tessera/jit/tuning.hpp"

namespace {

using namespace tessera;
using namespace cuda_kernels;
namespace fake = runtime::cuda::fake;
namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

/// What the driver was asked to run, in a process that does nothing else.
std::ostringstream seen;

void note_call(const char* kernel, const fake::Call& call) {
  seen << kernel << " grid " << call.grid[0] << "," << call.grid[1] << "," << call.grid[2] << " of " << call.args.size()
       << "\n";
}
void run_twice(const fake::Call& call) {
  note_call("twice", call);
  const std::size_t n = call.args[1];
  auto* y = static_cast<float*>(call.memory(0, n * 4));
  const auto* x = static_cast<const float*>(call.memory(3, n * 4));
  for (std::size_t i = 0; y && x && i < n; ++i) y[i] = 2 * x[i];
}
/// Its check fails in the third block.
void run_careful(const fake::Call& call) {
  note_call("careful", call);
  auto* record = reinterpret_cast<std::int32_t*>(call.args[7]);  // after the launch flags
  record[0] = 1;
  record[1] = 3;
  record[2] = record[3] = 1;
}
void run_persistent(const fake::Call& call) { note_call("persistent", call); }

/// In a process of its own: a GPU, the three kernels, and their results as text.
std::string launch_all(int length) {
  fake::FakeDriver driver;
  driver.add_kernel("twice", {6, run_twice});
  driver.add_kernel("careful", {8, run_careful});
  driver.add_kernel("persistent", {3, run_persistent});
  runtime::cuda::CudaBackend backend(driver.table(), 0);
  set_default_device(Device(backend));
  auto x = from(std::vector<float>(static_cast<std::size_t>(length), 1.5f), {length}).sync();
  auto y = zeros<f32>({length}).sync();
  kernel<&twice>(mut(y), x).sync();
  seen << "y " << host(y).sync()[length - 1] << "\n";
  try {
    kernel<&careful>(mut(y), x).sync();
    seen << "no error\n";
  } catch (const DeviceError& error) { seen << error.what() << "\n"; }
  auto many = zeros<f32>({64 * 5000}).sync();
  kernel<&persistent>(mut(many)).sync();
  driver.run_all();
  seen << driver.violation();
  return seen.str();
}

/// In a process of its own: launches `twice` until what it has learnt is in the file, or `most` times; says whether
/// each result was right.
std::string launch_many(const std::string& learnt, int most) {
  fake::FakeDriver driver;
  driver.add_kernel("twice", {6, run_twice});
  runtime::cuda::CudaBackend backend(driver.table(), 0);
  set_default_device(Device(backend));
  const auto x = from(std::vector<float>(256, 1.5f), {256}).sync();
  int right = 0, launches = 0;
  while (launches < most && !fs::exists(learnt)) {
    ++launches;
    driver.spend(1);
    auto y = zeros<f32>({256}).sync();
    kernel<&twice>(mut(y), x).sync();
    right += host(y).sync()[255] == 3;
    if (launches % 50 == 0) usleep(20000);  // the assembler works meanwhile
  }
  return (right == launches ? "right" : "WRONG") + std::string(fs::exists(learnt) ? ", learnt" : ", not learnt") +
         driver.violation();
}

class WarmStart : public testing::Test {
 protected:
  WarmStart() {
    setenv("TESSERA_CACHE_DIR", (folder_ + "/cache").c_str(), 1);
    setenv("TESSERA_TILEIRAS", (folder_ + "/tileiras").c_str(), 1);
    for (const char* name : {"twice", "careful", "persistent"}) {
      const auto image = fake::FakeDriver::image(name);
      const std::string file = folder_ + "/image." + name;
      std::ofstream(file, std::ios::binary)
          .write(reinterpret_cast<const char*>(image.data()), static_cast<std::streamsize>(image.size()));
    }
    become("");
  }
  ~WarmStart() override {
    for (const char* name : {"TESSERA_CACHE_DIR", "TESSERA_TILEIRAS", "TESSERA_TUNING", "TESSERA_LEARN"})
      unsetenv(name);
  }
  /// An assembler that gives the three kernels, unless `before` ends it.
  void become(const std::string& before) const {
    std::string script = before;
    for (const char* name : {"twice", "careful", "persistent"})
      script +=
          std::string("if grep -q ") + name + " \"$in\"; then cp " + folder_ + "/image." + name + " \"$last\"; fi\n";
    jit_rig::write_assembler(folder_ + "/tileiras", script);
  }

  /// A process that is on its way.
  struct Started {
    pid_t child = -1;
    int from = -1;
    std::string result(int expected = 0) {
      std::string text;
      char buffer[4096];
      for (ssize_t n; (n = read(from, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
      close(from);
      int status = -1;
      waitpid(child, &status, 0);
      EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, expected) << text;
      return text;
    }
  };
  static Started begin(int length = 256) {
    return begin([length] { return launch_all(length); });
  }
  static Started begin(const std::function<std::string()>& work) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    Started s{fork(), ends[0]};
    if (s.child == 0) {
      std::string text;
      int status = 1;
      try {
        text = work();
        status = 0;
      } catch (const std::exception& error) { text = error.what(); }
      const bool told = write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
      _exit(told ? status : 1);
    }
    close(ends[1]);
    return s;
  }
  static std::string start(int length = 256) { return begin(length).result(); }
  static std::string fails() { return begin().result(1); }

  int runs() const { return jit_rig::runs_in(folder_); }
  std::vector<fs::path> files(const char* extension) const {
    std::vector<fs::path> found;
    for (const auto& f : fs::directory_iterator(folder_ + "/cache/kernels")) {
      if (f.path().extension() == extension) found.push_back(f.path());
    }
    return found;
  }
  void make_notes_old() const {
    for (const fs::path& f : files(".tsn")) fs::last_write_time(f, now() - std::chrono::hours(1));
  }
  int notes_used() const {
    int n = 0;
    for (const fs::path& f : files(".tsn")) n += now() - fs::last_write_time(f) < std::chrono::minutes(30);
    return n;
  }
  static fs::file_time_type now() { return fs::file_time_type::clock::now(); }
  jit_rig::Folder own_{"start"};
  const std::string& folder_ = own_.path;
};

TEST_F(WarmStart, LaunchesWhatTheFirstStartLaunched) {
  const std::string first = start();
  EXPECT_THAT(first,
              AllOf(HasSubstr("twice grid 4,1,1 of 6"), HasSubstr("y 3\n"), HasSubstr("x must not be negative"),
                    HasSubstr("jit/cuda/kernels.hpp:"), HasSubstr("block (2, 0, 0)"), HasSubstr("persistent grid")));
  EXPECT_EQ(runs(), 3);
  EXPECT_EQ(files(".tsn").size(), 6u) << "per kernel: its conditions and its code";
  make_notes_old();
  EXPECT_EQ(start(), first);
  EXPECT_EQ(runs(), 3);
  EXPECT_EQ(notes_used(), 6) << "the second start went another way";
  EXPECT_EQ(files(".tsn").size(), 6u);
}

TEST_F(WarmStart, OtherObligationsAndOtherHintsAreOtherCode) {
  const std::string even = start();
  const std::string odd = start(250);
  EXPECT_THAT(odd, HasSubstr("y 3\n"));
  EXPECT_EQ(files(".tsn").size(), 8u) << "twice and careful anew, under the conditions that were there";
  setenv("TESSERA_TUNING", "warps=8", 1);
  const int before = runs();
  make_notes_old();
  EXPECT_THAT(start(), HasSubstr("y 3\n"));
  EXPECT_EQ(files(".tsn").size(), 11u);
  EXPECT_EQ(notes_used(), 6) << "three conditions found, and the code of three kernels kept";
  EXPECT_EQ(runs(), before + 3);
  unsetenv("TESSERA_TUNING");
  EXPECT_EQ(start(), even);
  EXPECT_EQ(start(250), odd);
  EXPECT_EQ(runs(), before + 3);
}

TEST_F(WarmStart, DamagedNotesAreFoundOutAnew) {
  const std::string first = start();
  for (const fs::path& f : files(".tsn")) std::ofstream(f, std::ios::app) << "x";
  EXPECT_EQ(start(), first);
  EXPECT_EQ(runs(), 3) << "the cubins were fine";
  EXPECT_EQ(files(".tsn").size(), 6u);
  for (const fs::path& f : files(".tsk")) std::ofstream(f, std::ios::app) << "x";
  EXPECT_EQ(start(), first);
  EXPECT_EQ(runs(), 6) << "the notes were fine, but without cubins they are nothing";
  for (const fs::path& f : files(".tsn")) fs::remove(f);
  EXPECT_EQ(start(), first);
  EXPECT_EQ(runs(), 6);
}

TEST_F(WarmStart, WhatWasLearntIsUsedByLaterProcesses) {
  const std::string learnt = folder_ + "/cache/learnt.tune";
  const auto many = [&](int most) { return begin([&] { return launch_many(learnt, most); }).result(); };
  EXPECT_EQ(many(300), "right, not learnt") << "nothing is learnt without TESSERA_LEARN";
  EXPECT_EQ(runs(), 1);
  setenv("TESSERA_LEARN", "1", 1);
  EXPECT_EQ(many(200'000), "right, learnt");  // it launches until it has learnt: the number bounds the wait
  const int compiled = runs();
  EXPECT_GT(compiled, 3) << "other hints were compiled";
  const std::vector<TuningRecord> records = read_records(learnt);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].kernel, "twice");
  EXPECT_EQ(records[0].space, jit::kLearntSpace);
  EXPECT_EQ(records[0].hints, "") << "all are equally fast here";
  EXPECT_GT(records[0].default_ms, -1);
  EXPECT_FALSE(records[0].hash.empty());
  unsetenv("TESSERA_LEARN");
  start();
  EXPECT_EQ(runs(), compiled + 2) << "careful and persistent are compiled; what twice has learnt is there";
  TuningRecord other = records[0];
  other.hints = "warps=8";
  add_record(learnt, other);
  EXPECT_THAT(start(), HasSubstr("y 3\n"));
  EXPECT_EQ(runs(), compiled + 3) << "twice is compiled with the hints of the file";
  setenv("TESSERA_LEARN", "0", 1);
  start();
  EXPECT_EQ(runs(), compiled + 3) << "as the compiler chooses, which is there";
  unsetenv("TESSERA_LEARN");
}

TEST_F(WarmStart, ADamagedFileOfWhatWasLearntIsAsNone) {
  start();
  std::ofstream(folder_ + "/cache/learnt.tune") << "no records";
  EXPECT_THAT(start(), HasSubstr("y 3\n"));
}

TEST_F(WarmStart, EachKindOfNoteComesBackAlone) {
  const std::string first = start();
  std::vector<fs::path> notes = files(".tsn");
  std::sort(notes.begin(), notes.end());
  for (const fs::path& f : notes) {
    fs::remove(f);
    EXPECT_EQ(start(), first);
    EXPECT_TRUE(fs::exists(f)) << "it would be missed by every start to come";
  }
  EXPECT_EQ(files(".tsn").size(), 6u);
  EXPECT_EQ(runs(), 3);
}

TEST_F(WarmStart, WhatTheAssemblerRejectsIsNotTriedAgain) {
  const std::string usual = start();
  fs::remove_all(folder_ + "/cache");
  become(jit_rig::kRejectsWarps);
  int before = runs();
  const std::string first = start();
  EXPECT_EQ(first.substr(0, first.find("persistent")), usual.substr(0, usual.find("persistent")));
  EXPECT_EQ(runs(), before + 12) << "each kernel in the forms whose code differs";
  EXPECT_EQ(files(".tsn").size(), 6u);
  EXPECT_EQ(start(), first);
  EXPECT_EQ(runs(), before + 12) << "the chosen form was tried again";
  setenv("TESSERA_TUNING", "warps=2", 1);
  before = runs();
  EXPECT_THAT(fails(), HasSubstr("too many warps"));
  EXPECT_EQ(runs(), before + 1) << "a launch with requested hints gets the error at once";
}

TEST_F(WarmStart, ManyProcessesAtOnce) {
  const std::string alone = start();
  for (const bool warm : {false, true}) {
    if (!warm) fs::remove_all(folder_ + "/cache");
    std::vector<Started> all;
    for (int i = 0; i < 8; ++i) all.push_back(begin());
    for (Started& s : all) EXPECT_EQ(s.result(), alone);
    EXPECT_EQ(files(".tsn").size(), 6u);
    for (const auto& f : fs::directory_iterator(folder_ + "/cache/kernels"))
      EXPECT_FALSE(f.path().filename().string().starts_with(".tmp-")) << f.path();
  }
}

}  // namespace
