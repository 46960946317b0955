// The tessera command.
#include <cstdio>
#include <cstring>

#include "doctor.hpp"

namespace {

int usage(std::FILE* out) {
  std::fputs(
      "tessera <command>\n"
      "  doctor    what this machine has for compiling and running kernels, and how to get what is missing\n"
      "  help      this text\n",
      out);
  return out == stdout ? 0 : 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return usage(argc < 2 ? stdout : stderr);
  if (std::strcmp(argv[1], "doctor") == 0) return tessera::doctor();
  if (std::strcmp(argv[1], "help") == 0 || std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0)
    return usage(stdout);
  std::fprintf(stderr, "tessera: unknown command %s\n", argv[1]);
  return usage(stderr);
}
