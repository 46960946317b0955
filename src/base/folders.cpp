// Folders: made, listed, removed.
#include "tessera/base/folders.hpp"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

namespace tessera {

void make_folders(const std::string& folder, unsigned mode) noexcept try {
  const std::string path = folder.substr(0, folder.find_last_not_of('/') + 1);
  for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
    mkdir(path.substr(0, at).c_str(), 0755);
  mkdir(path.c_str(), mode);
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
  struct stat info {};
  if (lstat(folder.c_str(), &info) != 0) return;
  if (!S_ISDIR(info.st_mode)) {
    unlink(folder.c_str());
    return;
  }
  for (const std::string& name : names_in(folder)) remove_folder(folder + "/" + name);
  rmdir(folder.c_str());
} catch (...) {}  // no memory for a name

bool path_exists(const std::string& path) noexcept { return access(path.c_str(), F_OK) == 0; }

}  // namespace tessera
