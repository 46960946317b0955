// Running an assembler: fake ones that succeed, reject, hang, crash, lie; and the real one where there is one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "codegen/tileiras/files.hpp"
#include "codegen/tileiras/messages.hpp"
#include "tessera/base/error.hpp"
#include "tessera/codegen/tileiras/tileiras.hpp"

namespace tessera::tileiras {
namespace {

/// What is found here is nothing to remember in the user's cache.
[[maybe_unused]] const int kNoCache = setenv("TESSERA_CACHE", "0", 1);

using ::testing::HasSubstr;
using ::testing::Not;

/// Sets a variable for the time of a test; null: unset.
class WithEnv {
 public:
  WithEnv(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~WithEnv() { set(old_ ? old_->c_str() : nullptr); }

 private:
  void set(const char* value) { value ? setenv(name_, value, 1) : unsetenv(name_); }
  const char* name_;
  std::optional<std::string> old_;
};

/// A shell script in a folder of its own that stands for tileiras.
class FakeAssembler {
 public:
  explicit FakeAssembler(const std::string& body) : path(folder_.file("tileiras")) {
    std::ofstream(path) << "#!/bin/sh\n"
                        << "case \"$1\" in --version) echo 'Cuda compilation tools, release 13.5, V13.5.37'; exit 0;;\n"
                        << "--list-versions) printf '13.1\\n13.2\\n13.3\\n'; exit 0;; esac\n"
                        << "for last; do :; done\n"  // the output file
                        << body << "\n";
    chmod(path.c_str(), 0755);
  }

 private:
  TempFolder folder_;

 public:
  std::string path;
};

constexpr const char* kWriteCubin = "printf '\\177ELF' > \"$last\"; head -c 200 /dev/zero >> \"$last\"";

std::vector<std::byte> some_bytes() { return std::vector<std::byte>(16, std::byte{7}); }

AssembleResult run(const FakeAssembler& fake, double limit = 20) {
  AssembleOptions options;
  options.assembler = fake.path;
  options.time_limit_s = limit;
  return assemble(some_bytes(), options);
}

std::string error_of(const FakeAssembler& fake, double limit = 20) {
  try {
    run(fake, limit);
  } catch (const CompileError& e) { return e.what(); }
  return "no error";
}

int leftovers() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::temp_directory_path()))
    count += entry.path().filename().string().starts_with("tessera-") ? 1 : 0;
  return count;
}

TEST(Assemble, ReturnsTheCubinAndWarnings) {
  FakeAssembler fake(std::string(kWriteCubin) + "; echo 'warning: High register usage' >&2");
  AssembleResult result = run(fake);
  EXPECT_EQ(result.cubin.size(), 204u);
  EXPECT_TRUE(result.register_pressure);
  EXPECT_THAT(result.warnings, ::testing::ElementsAre("warning: High register usage"));
}

TEST(Assemble, PassesTargetAndOptions) {
  FakeAssembler fake(std::string("echo \"warning $*\" >&2; ") + kWriteCubin);
  AssembleOptions options;
  options.assembler = fake.path;
  options.gpu = "sm_100";
  options.opt_level = 1;
  options.line_info = false;
  const std::string words = assemble(some_bytes(), options).warnings.at(0);
  EXPECT_THAT(words, HasSubstr("--gpu-name=sm_100 --opt-level=1 "));
  EXPECT_THAT(words, Not(HasSubstr("--lineinfo")));
}

TEST(Assemble, ChildSeesNoCudaHomeAndItsOwnTemporaryFolder) {
  WithEnv cuda("CUDA_HOME", "/somewhere");
  FakeAssembler fake(std::string("echo \"warning [$CUDA_HOME] $TMPDIR\" >&2; ") + kWriteCubin);
  const std::string words = run(fake).warnings.at(0);
  EXPECT_THAT(words, HasSubstr("warning [] "));
  EXPECT_THAT(words, HasSubstr("/tessera-"));
}

TEST(Assemble, RejectionNamesReasonAndUsersLine) {
  FakeAssembler fake("echo 'src/kernel.cpp:12:7: error: unsupported tile' >&2; exit 5");
  const std::string text = error_of(fake);
  EXPECT_THAT(text, HasSubstr("src/kernel.cpp:12: CompileError: the assembler rejects the kernel for sm_90"));
  EXPECT_THAT(text, HasSubstr("unsupported tile"));
  EXPECT_THAT(text, HasSubstr("exit code 5"));
}

TEST(Assemble, SilentRejectionIsStillAnError) {
  EXPECT_THAT(error_of(FakeAssembler("exit 1")), HasSubstr("no reason given"));
}

TEST(Assemble, HangIsStoppedWithItsChildren) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(error_of(FakeAssembler("sleep 60 & sleep 60"), 0.3), HasSubstr("did not finish within 0.3 s"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(45));
}

TEST(Assemble, HangAfterClosingItsOutputIsStopped) {
  EXPECT_THAT(error_of(FakeAssembler("exec >&- 2>&-; sleep 60"), 0.3), HasSubstr("did not finish"));
}

TEST(Assemble, CrashIsReported) {
  EXPECT_THAT(error_of(FakeAssembler("kill -SEGV $$")), HasSubstr("crashed (signal 11)"));
}

/// Errors that another form of the kernel might avoid are distinguished from all others.
TEST(Assemble, RejectionsAreATypeOfTheirOwn) {
  const auto rejects = [](const std::string& body, double limit = 20) {
    try {
      run(FakeAssembler(body), limit);
    } catch (const Rejection&) { return true; } catch (const CompileError&) {
      return false;
    }
    ADD_FAILURE() << "no error: " << body;
    return false;
  };
  EXPECT_TRUE(rejects("exit 1"));
  EXPECT_TRUE(rejects("echo 'error: failed to compile Tile IR program' >&2; exit 5"));
  EXPECT_TRUE(rejects("kill -SEGV $$"));
  EXPECT_TRUE(rejects("kill -ABRT $$"));
  EXPECT_FALSE(rejects("sleep 60", 0.3)) << "too slow";
  EXPECT_FALSE(rejects("exit 0")) << "no cubin";
  EXPECT_FALSE(rejects("echo hello > \"$last\"")) << "no cubin";
  for (const char* signal : {"HUP", "INT", "QUIT", "TERM", "KILL", "XCPU", "XFSZ"})
    EXPECT_FALSE(rejects(std::string("kill -") + signal + " $$")) << "killed from outside";
  EXPECT_FALSE(rejects("echo 'error: No space left on device' >&2; exit 1")) << "the machine's affair";
  EXPECT_FALSE(rejects("echo \"what():  std::bad_alloc\" >&2; kill -ABRT $$")) << "the machine's affair";
  AssembleOptions options;
  options.assembler = "/nowhere/tileiras";
  try {
    assemble(some_bytes(), options);
    FAIL() << "no error";
  } catch (const Rejection&) { FAIL() << "it cannot be started"; } catch (const CompileError&) {
  }
}

TEST(Assemble, KilledFromOutsideSaysSo) {
  EXPECT_THAT(error_of(FakeAssembler("kill -KILL $$")),
              ::testing::AllOf(HasSubstr("was killed (signal 9)"), HasSubstr("enough memory")));
  EXPECT_THAT(error_of(FakeAssembler("kill -TERM $$")),
              ::testing::AllOf(HasSubstr("was killed (signal 15)"), Not(HasSubstr("memory"))));
}

TEST(Assemble, MissingOrGarbageCubinIsReported) {
  EXPECT_THAT(error_of(FakeAssembler("exit 0")), HasSubstr("gave no file"));
  EXPECT_THAT(error_of(FakeAssembler("echo hello > \"$last\"")), HasSubstr("6 bytes that are not a cubin"));
}

TEST(Assemble, MuchOutputDoesNotBlock) {
  FakeAssembler fake(
      std::string("head -c 3000000 /dev/zero | tr '\\0' 'x'; head -c 3000000 /dev/zero | tr '\\0' 'y' >&2; ") +
      kWriteCubin);
  EXPECT_EQ(run(fake).cubin.size(), 204u);
}

TEST(Assemble, UnstartableAssemblerSaysHowToFixIt) {
  AssembleOptions options;
  options.assembler = "/nowhere/tileiras";
  try {
    assemble(some_bytes(), options);
    FAIL() << "expected a CompileError";
  } catch (const CompileError& e) {
    EXPECT_THAT(e.what(), HasSubstr("cannot start the assembler /nowhere/tileiras"));
    EXPECT_THAT(e.what(), HasSubstr(kHowToGet));
  }
}

TEST(Assemble, TemporaryFolderThatCannotBeUsedIsAnIoError) {
  FakeAssembler fake(kWriteCubin);
  WithEnv missing("TMPDIR", "/nowhere/at/all");
  AssembleOptions options;
  options.assembler = fake.path;
  EXPECT_THROW(assemble(some_bytes(), options), IoError);
}

TEST(Assemble, FullDiskIsAnIoError) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "there is no /dev/full here";
  EXPECT_THROW(write_file("/dev/full", some_bytes()), IoError);
}

TEST(Assemble, LeavesNothingBehind) {
  TempFolder own;  // a folder of our own, so that other programs do not disturb the count
  FakeAssembler good(std::string("touch \"$TMPDIR/mlir-rest\"; ") + kWriteCubin), bad("exit 3"), hang("sleep 60");
  WithEnv tmp("TMPDIR", own.path().c_str());
  run(good);
  error_of(bad);
  error_of(hang, 0.2);
  EXPECT_EQ(leftovers(), 0);
}

TEST(Assemble, ManyAtOnce) {
  FakeAssembler fake(kWriteCubin);
  std::vector<std::thread> threads;
  std::vector<std::size_t> sizes(8);
  for (std::size_t i = 0; i < sizes.size(); ++i) threads.emplace_back([&, i] { sizes[i] = run(fake).cubin.size(); });
  for (auto& t : threads) t.join();
  EXPECT_THAT(sizes, ::testing::Each(204u));
}

TEST(Find, TesseraTileirasIsTakenAlone) {
  FakeAssembler fake(kWriteCubin);
  WithEnv given("TESSERA_TILEIRAS", fake.path.c_str());
  Assembler found = find_assembler("sm_90");
  EXPECT_EQ(found.path, fake.path);
  EXPECT_EQ(found.origin, "TESSERA_TILEIRAS");
  EXPECT_EQ(found.minor, 5);
  EXPECT_EQ(found.newest_bytecode, (ir::BytecodeVersion{13, 3}));
}

TEST(Find, NothingFoundSaysWhereAndHow) {
  WithEnv given("TESSERA_TILEIRAS", "/nowhere/tileiras");
  std::string why;
  EXPECT_FALSE(locate_assembler("sm_90", &why));
  EXPECT_THAT(why, HasSubstr(kHowToGet));
  EXPECT_THAT(why, HasSubstr("/nowhere/tileiras (TESSERA_TILEIRAS): not there"));
  EXPECT_THROW(find_assembler("sm_90"), CompileError);
}

TEST(Find, OldReleaseIsRejectedForNewGpus) {
  FakeAssembler old("exit 0");
  std::ofstream(old.path) << "#!/bin/sh\necho 'release 13.1, V13.1.80'\n";
  WithEnv given("TESSERA_TILEIRAS", old.path.c_str());
  std::string why;
  EXPECT_FALSE(locate_assembler("sm_90", &why));
  EXPECT_THAT(why, HasSubstr("release 13.1 is older than the 13.3 that sm_90 needs"));
  EXPECT_TRUE(locate_assembler("sm_100"));
}

TEST(Find, SomethingElseIsNotAnAssembler) {
  FakeAssembler other("exit 0");
  std::ofstream(other.path) << "#!/bin/sh\necho hello\n";
  WithEnv given("TESSERA_TILEIRAS", other.path.c_str());
  std::string why;
  EXPECT_FALSE(locate_assembler("sm_90", &why));
  EXPECT_THAT(why, HasSubstr("does not report its version"));
}

TEST(Find, CacheFolderComesFirstAndIsNamed) {
  TempFolder cache;
  WithEnv none("TESSERA_TILEIRAS", nullptr);
  WithEnv dir("TESSERA_CACHE_DIR", cache.path().c_str());
  EXPECT_EQ(fetched_folder(), cache.path() + "/tileiras-" + kPinnedVersion);
  std::filesystem::create_directories(fetched_folder() + "/bin");
  FakeAssembler fake(kWriteCubin);
  std::filesystem::copy_file(fake.path, fetched_folder() + "/bin/tileiras");
  EXPECT_EQ(find_assembler("sm_80").path, fetched_folder() + "/bin/tileiras");
}

TEST(Messages, LocationsInTheirForms) {
  EXPECT_EQ(read_messages("loc(\"a b.cpp\":3:4): error: no").where.line, 3u);
  EXPECT_STREQ(read_messages("\"x.cpp\":3:4: error: no").where.file, "x.cpp");
  EXPECT_EQ(read_messages("x.cpp:9: error: no").where.line, 9u);
  EXPECT_FALSE(read_messages("error: no").where.known());
  EXPECT_EQ(read_messages("error: first\nx.cpp:2:1: error: second").first_error, "first");
  EXPECT_EQ(read_messages("error: first\nx.cpp:2:1: error: second").where.line, 2u);
}

TEST(RealAssembler, CompilesForEveryGeneration) {
  std::string why;
  auto assembler = locate_assembler("sm_90", &why);
  if (!assembler && std::getenv("TESSERA_REQUIRE_TILEIRAS")) FAIL() << why;
  if (!assembler) GTEST_SKIP() << why;
  ir::Module module;
  ir::Builder(module.add_function("empty").body()).create(ir::Op::Return, {}, {});
  const auto bytecode = ir::write_bytecode(module, {assembler->newest_bytecode, true});
  for (const char* gpu : {"sm_80", "sm_90", "sm_100", "sm_120"}) {
    AssembleOptions options;
    options.gpu = gpu;
    EXPECT_GT(assemble(bytecode, options).cubin.size(), 64u) << gpu;
  }
  EXPECT_THROW(assemble(std::span(bytecode).first(40), {}), CompileError);
}

}  // namespace
}  // namespace tessera::tileiras
