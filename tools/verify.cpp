// tessera verify: every problem of files of Tile IR.
#include <cstdio>

#include "command_rows.hpp"
#include "ir_file.hpp"
#include "tessera/base/format.hpp"

namespace tessera {
namespace {

std::size_t operations_of(const ir::Module& module) {
  std::size_t n = 0;
  for (const auto& f : module.functions) ir::walk(f->body(), [&](const ir::Operation&) { ++n; });
  return n;
}

std::string counted(std::size_t n, const char* one, const char* several) {
  return concat(n, " ", n == 1 ? one : several);
}

/// A file that cannot be opened has one problem, so that the others are looked at, too.
IrFile read_or_report(const std::string& path) {
  try {
    return read_ir_file(path);
  } catch (const IoError& error) {
    IrFile none;
    none.problems.emplace_back(error.message());
    return none;
  }
}

/// What a valid file holds: "bytecode 13.4, needs 13.1; 1 function, 12 operations".
std::string summary(const IrFile& file) {
  const auto text = [](ir::BytecodeVersion v) { return concat(int{v.major}, ".", int{v.minor}); };
  return concat(file.is_bytecode ? concat("bytecode ", text(file.version)) : std::string("text"), ", needs ",
                text(ir::required_version(*file.module)), "; ",
                counted(file.module->functions.size(), "function", "functions"), ", ",
                counted(operations_of(*file.module), "operation", "operations"));
}

}  // namespace

int verify_command(Words words) {
  if (asks_for_help(words)) return print_usage(row_of("verify"));
  std::vector<std::string> paths;
  try {
    const Given given(row_of("verify"), words);
    paths = given.words();
    if (paths.empty()) throw UsageError("expected files of Tile IR");
  } catch (const UsageError& error) { return report_usage(row_of("verify"), error); }
  bool valid = true;
  for (const std::string& path : paths) {
    const IrFile file = read_or_report(path);
    for (const std::string& problem : file.problems) std::fprintf(stderr, "%s\n", problem.c_str());
    valid = valid && file.problems.empty();
    if (file.problems.empty()) std::printf("%s: valid (%s)\n", path.c_str(), summary(file).c_str());
  }
  return valid ? 0 : 1;
}

}  // namespace tessera
