// Folders: made, listed, removed.
#include "tessera/base/folders.hpp"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

namespace tessera {

void make_folders(const std::string& folder, unsigned mode) noexcept try {
  for (std::size_t at = folder.find('/', 1); at != std::string::npos; at = folder.find('/', at + 1))
    mkdir(folder.substr(0, at).c_str(), 0755);
  mkdir(folder.c_str(), mode);
} catch (...) {}  // no memory for a name

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder.c_str()), closedir);
  while (dir) {
    const dirent* entry = readdir(dir.get());
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  return names;
}

void remove_folder(const std::string& folder) noexcept try {
  for (const std::string& name : names_in(folder)) {
    const std::string path = folder + "/" + name;
    struct stat info {};
    if (lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode))
      remove_folder(path);
    else
      unlink(path.c_str());
  }
  rmdir(folder.c_str());
} catch (...) {}  // no memory for a name

bool path_exists(const std::string& path) noexcept { return access(path.c_str(), F_OK) == 0; }

}  // namespace tessera
