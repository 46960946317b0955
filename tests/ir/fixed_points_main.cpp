// Fixed points of kernels that programs wrote with TESSERA_DUMP=all:
//
//   ir_fixed_points FOLDER     reads every *.tilebc and *.tileir there; what is written of it again must be the same
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "ir/fixed_point.hpp"

namespace {

using namespace tessera::ir;
namespace fs = std::filesystem;

std::string content_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string problem_of(const fs::path& path) {
  const std::string content = content_of(path);
  try {
    if (path.extension() == ".tileir") {
      const auto module = parse(content);
      const std::string again = print(*module);
      return again == content ? testing::bytecode_problem(*module) : testing::difference(content, again);
    }
    const auto read = read_bytecode(std::as_bytes(std::span(content.data(), content.size())));
    const auto again = write_bytecode(*read.module, {read.version, true});
    const std::string bytes(reinterpret_cast<const char*>(again.data()), again.size());
    if (bytes != content) return "the bytecode of what was read differs from what was read";
    if (std::string problem = testing::text_problem(*read.module); !problem.empty()) return problem;
    return testing::bytecode_problem(*read.module);
  } catch (const std::exception& error) { return error.what(); }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: ir_fixed_points FOLDER\n");
    return 2;
  }
  int files = 0, broken = 0;
  for (const auto& entry : fs::directory_iterator(argv[1])) {
    const fs::path& path = entry.path();
    if (path.extension() != ".tilebc" && path.extension() != ".tileir") continue;
    ++files;
    if (const std::string problem = problem_of(path); !problem.empty()) {
      ++broken;
      std::printf("%s: %s\n", path.filename().c_str(), problem.c_str());
    }
  }
  std::printf("%d files of text and bytecode are read, %d of them not as they were written\n", files, broken);
  return broken == 0 ? 0 : 1;
}
