// save_npy and existing files: links, modes, protection, several names, and paths that are not regular files.
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <tessera/tessera.hpp>
#include <vector>

#include "host/expect_error.hpp"

namespace THIS_FILE {

using namespace tessera;
namespace fs = std::filesystem;

class Save : public testing::Test {
 protected:
  Save() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() / concat("tessera_save_", test->name(), "_", getpid());
    fs::create_directory(folder_);
    umask(022);
  }
  ~Save() override { fs::remove_all(folder_); }

  std::string at(const char* name) const { return folder_ / name; }
  void save(const char* name, float value) { save_npy(at(name), full<f32>({2}, value)); }
  float value(const char* name) { return host(load_npy<f32, 1>(at(name))).sync()[0]; }
  unsigned mode(const char* name) {
    struct stat status {};
    EXPECT_EQ(stat(at(name).c_str(), &status), 0);
    return status.st_mode & 07777;
  }
  ino_t inode(const char* name) {
    struct stat status {};
    EXPECT_EQ(stat(at(name).c_str(), &status), 0);
    return status.st_ino;
  }
  std::ptrdiff_t files() const { return std::distance(fs::directory_iterator(folder_), fs::directory_iterator()); }

  fs::path folder_;
};

TEST_F(Save, WritesTheFileThatALinkMeans) {
  fs::create_directory(at("sub"));
  save("real.npy", 1);
  fs::create_symlink("real.npy", at("link.npy"));
  fs::create_symlink(at("link.npy"), at("again.npy"));
  fs::create_symlink("../real.npy", folder_ / "sub" / "up.npy");
  for (const char* name : {"link.npy", "again.npy", "sub/up.npy"}) {
    save("real.npy", 1);
    save(name, 7);
    EXPECT_TRUE(fs::is_symlink(at(name)));
    EXPECT_EQ(value("real.npy"), 7.0f) << name;
  }
  fs::create_symlink("new.npy", at("ahead.npy"));
  save("ahead.npy", 3);  // a link to a file that does not exist yet
  EXPECT_EQ(value("new.npy"), 3.0f);
  EXPECT_TRUE(fs::is_symlink(at("ahead.npy")));
  EXPECT_EQ(files(), 6) << "and nothing else";
}

TEST_F(Save, LinksInACircleAreAnError) {
  fs::create_symlink("b.npy", at("a.npy"));
  fs::create_symlink("a.npy", at("b.npy"));
  EXPECT_ERROR(IoError, save("a.npy", 1), "a.npy", "save_test.cpp", "symbolic links");
  EXPECT_EQ(files(), 2);
}

TEST_F(Save, KeepsTheModeOfAFile) {
  save("x.npy", 1);
  EXPECT_EQ(mode("x.npy"), 0644u) << "what the umask leaves";
  for (const unsigned m : {0600u, 0640u, 0666u, 0200u}) {
    chmod(at("x.npy").c_str(), m);
    save("x.npy", 2);
    EXPECT_EQ(mode("x.npy"), m);
  }
  umask(077);
  save("secret.npy", 1);
  EXPECT_EQ(mode("secret.npy"), 0600u);
}

TEST_F(Save, RejectsWhatIsWriteProtected) {
  save("x.npy", 1);
  chmod(at("x.npy").c_str(), 0444);
  EXPECT_ERROR(IoError, save("x.npy", 2), "x.npy", "write-protected", "save_test.cpp");
  EXPECT_EQ(value("x.npy"), 1.0f);
  EXPECT_EQ(mode("x.npy"), 0444u);
  chmod(at("x.npy").c_str(), 0644);
  save("x.npy", 2);
  EXPECT_EQ(value("x.npy"), 2.0f);

  fs::create_directory(at("sub"));
  save("sub/y.npy", 1);
  chmod(at("sub").c_str(), 0555);
  EXPECT_ERROR(IoError, save("sub/y.npy", 2), "sub", "write-protected");
  EXPECT_ERROR(IoError, save("sub/z.npy", 2), "sub", "write-protected");
  chmod(at("sub").c_str(), 0755);
  EXPECT_EQ(value("sub/y.npy"), 1.0f);
  EXPECT_FALSE(fs::exists(at("sub/z.npy")));
}

TEST_F(Save, AFileWithSeveralNamesStaysOne) {
  save_npy(at("a.npy"), full<f32>({100}, 1.0f));
  fs::create_hard_link(at("a.npy"), at("b.npy"));
  save("a.npy", 5);  // shorter than before
  EXPECT_EQ(inode("a.npy"), inode("b.npy"));
  EXPECT_EQ(value("b.npy"), 5.0f);
  EXPECT_EQ(files(), 2);
}

TEST_F(Save, WhoReadsTheOldFileGoesOnReadingIt) {
  save("x.npy", 1);
  std::ifstream old(at("x.npy"), std::ios::binary);
  const std::string head(std::istreambuf_iterator<char>(old), {});
  old.seekg(0);
  save("x.npy", 2);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(old), {}), head);
  EXPECT_EQ(value("x.npy"), 2.0f);
}

TEST_F(Save, WhatFailsHalfwayLeavesTheOldFileAndNoOther) {
  save("x.npy", 1);
  const auto x = zeros<f32>({1 << 16}).sync();
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{4096, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_ERROR(IoError, save_npy(at("x.npy"), x), "x.npy", "File too large", "save_test.cpp");
  EXPECT_ERROR(IoError, save_npy(at("y.npy"), x), "y.npy");
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(value("x.npy"), 1.0f);
  EXPECT_EQ(files(), 1);
  save_npy(at("x.npy"), x);
  EXPECT_EQ((load_npy<f32, 1>(at("x.npy")).sync().size()), 1 << 16);
}

TEST_F(Save, AnOperationThatFailsLeavesNothing) {
  save("x.npy", 1);
  auto failing = zeros<f32>({2}).then([](Tensor<f32, 1>) -> Op<Tensor<f32, 1>> { throw ShapeError("not today"); });
  EXPECT_ERROR(ShapeError, save_npy(at("x.npy"), std::move(failing)), "not today");
  EXPECT_EQ(value("x.npy"), 1.0f);
  EXPECT_EQ(files(), 1);
}

TEST_F(Save, WhatIsNoFile) {
  EXPECT_ERROR(IoError, save_npy(folder_, ones<f32>({3})), "a folder");
  EXPECT_ERROR(IoError, save_npy("/dev/full", ones<f32>({3})), "/dev/full", "not a regular file");
  EXPECT_ERROR(IoError, save_npy("", ones<f32>({3})), "cannot write ''");
  EXPECT_ERROR(IoError, save_npy(at("no/such.npy"), ones<f32>({3})), "no/such.npy", "No such file");
  EXPECT_ERROR(IoError, save_npy(at("new/"), ones<f32>({3})), "new/");
  save("x.npy", 1);
  EXPECT_ERROR(IoError, save_npy(at("x.npy/"), ones<f32>({3})), "x.npy/");
  EXPECT_ERROR(IoError, save_npy(at("x.npy/y"), ones<f32>({3})), "x.npy/y");
  EXPECT_ERROR(IoError, save_npy(folder_ / std::string(300, 'n'), ones<f32>({3})), "too long");
  const std::string longest = folder_ / std::string(255, 'n');
  save_npy(longest, ones<f32>({3}));  // the twin
  EXPECT_EQ((load_npy<f32, 1>(longest).sync().size()), 3);
  EXPECT_EQ(files(), 2);
}

}  // namespace THIS_FILE
