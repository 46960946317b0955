// TESSERA_DUMP: what the compiler made of a kernel, as files.
#include <cstdio>
#include <filesystem>
#include <string_view>

#include "jit/hash.hpp"
#include "tessera/base/env.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/ir/bytecode.hpp"
#include "tessera/ir/printer.hpp"
#include "tessera/jit/compile.hpp"

namespace tessera::jit {
namespace {

struct Wanted {
  bool ir = false, bytecode = false;
  std::string folder;
};

/// TESSERA_DUMP is a list of stages, or (short for bytecode there) a folder. Anything else is a ConfigError.
Wanted wanted() {
  Wanted w;
  const char* value = env(Env::DUMP);
  if (!value) return w;
  const std::string_view text = value;
  const char* folder = env(Env::DUMP_DIR);
  w.folder = folder ? folder : ".";
  if (text.find('/') != std::string_view::npos) {
    w.bytecode = true;
    w.folder = value;
    return w;
  }
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view stage = text.substr(at, end - at);
    const bool ir = stage == "ir" || stage == "all", bytecode = stage == "bytecode" || stage == "all";
    if (!ir && !bytecode) env_reject(Env::DUMP, "a list of ir and bytecode, all, or a folder");
    w.ir |= ir;
    w.bytecode |= bytecode;
    at = end + 1;
  }
  return w;
}

void write(const std::string& path, const void* data, std::size_t bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  const bool written = file && std::fwrite(data, 1, bytes, file) == bytes;
  if ((file && std::fclose(file) != 0) || !written) {
    throw IoError(
        concat("cannot write '", path, "', as TESSERA_DUMP asks: check the folder (TESSERA_DUMP_DIR) and its rights."));
  }
}

/// Only characters that are harmless in a file name.
std::string file_label(const std::string& label) {
  std::string s = label;
  for (char& c : s) {
    const bool plain =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
    if (!plain) c = '_';
  }
  return s;
}

}  // namespace

void dump(const ir::Module& module, const std::string& label) {
  const Wanted w = wanted();
  if (!w.ir && !w.bytecode) return;
  const char* filter = env(Env::DUMP_FILTER);
  if (filter && label.find(filter) == std::string::npos) return;
  std::error_code ignored;  // writing says what is wrong with the folder
  std::filesystem::create_directories(w.folder, ignored);
  const auto bytes = ir::write_bytecode(module);
  const std::string stem = concat(w.folder, "/", file_label(label), "-", hash_text(hash_bytes(bytes)));
  if (w.bytecode) write(stem + ".tilebc", bytes.data(), bytes.size());
  if (w.ir) {
    const std::string text = ir::print(module);
    write(stem + ".tileir", text.data(), text.size());
  }
}

}  // namespace tessera::jit
