// C streams: those of C++ throw an exception of their own for a folder.
#include "read_input.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "mortar/errors.hpp"

namespace mortar::cli {

std::string read_input(const std::string& path) {
  const bool standard = path == "-";
  const auto fail = [&] {
    throw RequestError((standard ? std::string("standard input") : path) +
                       ": expected a file that can be read, found: " + std::strerror(errno));
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> opened(standard ? nullptr : std::fopen(path.c_str(), "rb"),
                                                               std::fclose);
  std::FILE* const file = standard ? stdin : opened.get();
  if (file == nullptr) fail();
  std::string text;
  char block[1 << 16];
  while (const std::size_t n = std::fread(block, 1, sizeof block, file)) text.append(block, n);
  if (std::ferror(file) != 0) fail();
  return text;
}

}  // namespace mortar::cli
