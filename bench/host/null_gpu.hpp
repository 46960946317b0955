// A simulated GPU: the null driver in place of NVIDIA's (the program is linked with it, so that a request for
// libcuda.so.1 finds it loaded), and, if the code of kernels does not matter, an assembler that gives every kernel the
// same empty image.
#pragma once
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

extern "C" unsigned long tessera_null_driver_launches();
extern "C" int cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t flags, int* found);

namespace null_gpu {

/// A temporary folder, removed by the destructor.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = std::filesystem::temp_directory_path().string() + "/tessera-bench-XXXXXX";
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A 64-bit little-endian ELF file for EM_CUDA (190) with one empty section, accepted as a cubin (System V ABI, "Object
/// Files"). As large as the cubins of attention kernels.
inline void write_image(const std::string& file) {
  std::vector<char> image(96 << 10);
  const unsigned char head[] = {0x7F, 'E', 'L', 'F', 2, 1, 1};
  std::copy(std::begin(head), std::end(head), image.begin());
  const auto put = [&](std::size_t at, unsigned value) { image[at] = static_cast<char>(value); };
  put(16, 2), put(18, 190), put(20, 1);               // an executable, its machine, the format's version
  put(40, 64), put(52, 64), put(58, 64), put(60, 1);  // the table of sections: where, and how large
  std::ofstream(file, std::ios::binary).write(image.data(), static_cast<std::streamsize>(image.size()));
}

/// Makes kernels "compile" for the null driver: no assembler is run that does any work. Call before anything else.
inline void use_empty_images(const TemporaryFolder& folder) {
  write_image(folder.path() + "/image");
  const std::string script = folder.path() + "/tileiras";
  std::ofstream(script) << "#!/bin/sh\ncase \"$1\" in --version) echo 'release 13.5, V13.5.0'; exit 0;;\n"
                           "--list-versions) echo 13.1 13.2 13.3 13.4; exit 0;; esac\nfor last; do :; done\n"
                           "cp \"$(dirname \"$0\")/image\" \"$last\"\n";
  chmod(script.c_str(), 0700);
  setenv("TESSERA_TILEIRAS", script.c_str(), 1);
  setenv("TESSERA_CACHE_DIR", (folder.path() + "/cache").c_str(), 1);
}

}  // namespace null_gpu
