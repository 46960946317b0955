// Folders by system calls.
#include "tessera/base/folders.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace tessera {
namespace {

struct Folders : ::testing::Test {
  std::string root;
  Folders() {
    const char* const base = std::getenv("TMPDIR");
    root = std::string(base != nullptr ? base : "/tmp") + "/tessera-folders-XXXXXX";
    if (mkdtemp(root.data()) == nullptr) ADD_FAILURE() << root;
  }
  ~Folders() override { remove_folder(root); }
  std::vector<std::string> names(const std::string& folder) const {
    std::vector<std::string> found = names_in(folder);
    std::sort(found.begin(), found.end());
    return found;
  }
  static unsigned mode_of(const std::string& path) {
    struct stat info {};
    return stat(path.c_str(), &info) == 0 ? info.st_mode & 0777u : 0;
  }
};

TEST_F(Folders, AreMadeWithTheirParents) {
  make_folders(root + "/a/b/c", 0700);
  EXPECT_TRUE(path_exists(root + "/a/b/c"));
  EXPECT_EQ(mode_of(root + "/a/b/c"), 0700u);
  EXPECT_EQ(mode_of(root + "/a/b") & 0700u, 0700u);
  make_folders(root + "/a/b/c");  // again
  EXPECT_EQ(mode_of(root + "/a/b/c"), 0700u);
  make_folders(root + "/d//", 0700);
  EXPECT_EQ(mode_of(root + "/d"), 0700u) << "a slash at the end names no other folder";
}

TEST_F(Folders, NameWhatIsInThem) {
  EXPECT_EQ(names(root), std::vector<std::string>{});
  make_folders(root + "/folder");
  std::ofstream(root + "/.hidden") << 1;
  std::ofstream(root + "/file") << 2;
  EXPECT_EQ(names(root), (std::vector<std::string>{".hidden", "file", "folder"}));
  EXPECT_EQ(names(root + "/none"), std::vector<std::string>{});
  EXPECT_EQ(names(root + "/file"), std::vector<std::string>{});
}

TEST_F(Folders, AreRemovedWithAllThatIsInThemAndNothingElse) {
  make_folders(root + "/gone/inner");
  make_folders(root + "/kept");
  std::ofstream(root + "/gone/inner/file") << 1;
  std::ofstream(root + "/kept/file") << 2;
  ASSERT_EQ(symlink((root + "/kept").c_str(), (root + "/gone/link").c_str()), 0);
  remove_folder(root + "/gone");
  EXPECT_FALSE(path_exists(root + "/gone"));
  EXPECT_TRUE(path_exists(root + "/kept/file")) << "links are not followed";
  ASSERT_EQ(symlink((root + "/kept").c_str(), (root + "/link").c_str()), 0);
  remove_folder(root + "/link");
  EXPECT_EQ(names(root), std::vector<std::string>{"kept"});
  EXPECT_TRUE(path_exists(root + "/kept/file")) << "nor is a link in its place";
  remove_folder(root + "/none");
}

}  // namespace
}  // namespace tessera
