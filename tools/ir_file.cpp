// Finds out whether a file is text or bytecode, and collects what is wrong with it.
#include "ir_file.hpp"

#include <cstdio>
#include <filesystem>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/ir/parser.hpp"
#include "tessera/ir/verifier.hpp"

namespace tessera {
namespace {

constexpr std::size_t kMaxProblems = 100;

std::string content_of(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw IoError(concat("expected a file, found the folder ", path));
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) throw IoError(concat("cannot open ", path, ": check its name and its rights"));
  std::string content;
  char part[1 << 16];
  for (std::size_t n; (n = std::fread(part, 1, sizeof part, file)) != 0;) content.append(part, n);
  const bool broken = std::ferror(file) != 0;
  std::fclose(file);
  if (broken) throw IoError(concat("cannot read ", path));
  return content;
}

void read_as_text(const std::string& path, const std::string& content, IrFile& file) {
  try {
    file.module = ir::parse(content, {.file = path, .most_problems = kMaxProblems});
  } catch (const ir::ParseError& error) {
    for (const ir::TextProblem& p : error.problems())
      file.problems.push_back(concat(path, ":", p.line, ":", p.column, ": ", p.message));
  }
}

void read_as_bytecode(const std::string& path, const std::string& content, IrFile& file) {
  try {
    ir::ReadModule read =
        ir::read_bytecode(std::as_bytes(std::span(content.data(), content.size())), {.file = path, .verify = false});
    file.version = read.version;
    for (const ir::Diagnostic& d : ir::verify(*read.module)) {
      const std::string where = d.where.known() ? concat(d.where.file, ":", d.where.line, ": ") : std::string();
      file.problems.push_back(concat(path, ": ", where, d.message));
    }
    if (file.problems.empty()) file.module = std::move(read.module);
  } catch (const ir::BytecodeError& error) { file.problems.push_back(error.message()); }
}

}  // namespace

IrFile read_ir_file(const std::string& path) {
  const std::string content = content_of(path);
  IrFile file;
  file.is_bytecode = content.starts_with("\x7fTileIR");
  (file.is_bytecode ? read_as_bytecode : read_as_text)(path, content, file);
  return file;
}

IrFile valid_ir_file(const std::string& path) {
  IrFile file = read_ir_file(path);
  if (file.problems.empty()) return file;
  std::string message;
  for (const std::string& problem : file.problems) message += concat(message.empty() ? "" : "\n", problem);
  throw CompileError(message);
}

}  // namespace tessera
