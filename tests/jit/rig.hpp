// What the tests of compiling share: folders and variables that are restored, assemblers that are scripts, and the
// smallest kernel.
#pragma once
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "tessera/ir/operation.hpp"

namespace jit_rig {

using namespace tessera;

/// A folder of temporary files that goes with everything in it.
class Folder {
 public:
  explicit Folder(const std::string& name) {
    path = std::filesystem::temp_directory_path().string() + "/tessera-" + name + "-XXXXXX";
    path = mkdtemp(path.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path;
};

/// An environment variable, until the end of the scope.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

/// Writes a script that answers as tileiras does, in one step: also while another one is being run. `body` sees the
/// bytecode as $in and the output file as $last; each run adds a line to `runs` beside it.
inline void write_assembler(const std::string& path, const std::string& body, const std::string& release = "13.5") {
  const std::string fresh = path + ".new";
  const std::string runs = std::filesystem::path(path).parent_path().string() + "/runs";
  std::ofstream(fresh) << "#!/bin/sh\ncase \"$1\" in --version) echo 'Cuda compilation tools, release " << release
                       << ", V'; exit 0;;\n--list-versions) echo 13.1 13.2 13.3 13.4; exit 0;; esac\n"
                       << "for last; do :; done\nfor a; do if [ -f \"$a\" ]; then in=$a; fi; done\n"
                       << "echo run >> " << runs << "\n"
                       << body << "\n";
  chmod(fresh.c_str(), 0755);
  std::filesystem::rename(fresh, path);
}
/// How often the assemblers of a folder have run.
inline int runs_in(const std::string& folder) {
  std::ifstream in(folder + "/runs");
  return static_cast<int>(std::count(std::istreambuf_iterator<char>(in), {}, '\n'));
}
/// For the body: a file that looks like a cubin.
inline constexpr const char* kGood = "printf '\\177ELF' > \"$last\"; head -c 200 /dev/zero >> \"$last\"";
/// Rejects kernels that say how many warps they want.
inline constexpr const char* kRejectsWarps =
    "if grep -q num_worker_warps_per_cta \"$in\"; then echo 'error: too many warps' >&2; exit 1; fi\n";

/// Ends a kernel with *pointer = number.
inline void store_and_return(ir::Builder& b, ir::Value pointer, int number, ir::Elem element = ir::Elem::I32) {
  const ir::Value values[] = {pointer, b.constant_int(element, number)};
  const std::uint32_t groups[] = {1, 1, 0, 0};
  const ir::Type token = ir::Type::token();
  b.create_grouped(ir::Op::StorePtrTko, values, groups, {&token, 1},
                   {{ir::AttrName::memory_ordering_semantics, ir::MemoryOrdering::Weak}});
  b.create(ir::Op::Return, {}, {});
}

}  // namespace jit_rig
