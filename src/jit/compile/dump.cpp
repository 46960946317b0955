// TESSERA_DUMP: writes the stages of a kernel's compilation to files.
#include "jit/compile/dump.hpp"

#include <algorithm>
#include <cstdio>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "jit/code/hash.hpp"
#include "tessera/base/env.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/folders.hpp"
#include "tessera/base/format.hpp"
#include "tessera/ir/bytecode.hpp"
#include "tessera/ir/printer.hpp"
#include "tessera/jit/compile.hpp"
#include "tessera/jit/forms.hpp"
#include "tessera/machine/machine.hpp"
#include "tessera/passes/tuning_text.hpp"

namespace tessera::jit {
namespace {

constexpr std::string_view kAfter = "after:";

struct Wanted {
  bool ir = false, bytecode = false;
  std::string folder;
  bool after_all = false;
  std::vector<std::string_view> after;  ///< passes
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
    at = end + 1;
    if (stage.starts_with(kAfter)) {
      const std::string_view pass = stage.substr(kAfter.size());
      w.after_all = w.after_all || pass == "all";
      if (pass != "all" && !passes::find_pass(pass))
        env_reject(Env::DUMP, "the name of a pass (tessera explain --passes lists them) or all, after \"after:\"");
      w.after.push_back(pass);
      continue;
    }
    const bool ir = stage == "ir" || stage == "all", bytecode = stage == "bytecode" || stage == "all";
    if (!ir && !bytecode) env_reject(Env::DUMP, "a list of ir, bytecode and after:PASS, all, or a folder");
    w.ir |= ir;
    w.bytecode |= bytecode;
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

/// False if TESSERA_DUMP_FILTER leaves this kernel out.
bool is_chosen(const std::string& label) {
  const char* filter = env(Env::DUMP_FILTER);
  return !filter || label.find(filter) != std::string::npos;
}

std::string stem_of(const Wanted& w, const std::string& label, std::uint64_t hash) {
  make_folders(w.folder);
  return concat(w.folder, "/", file_label(label), "-", hash_text(hash));
}

void write_text(const std::string& path, const ir::Module& module) {
  const std::string text = ir::print(module);
  write(path, text.data(), text.size());
}

class DumpAfterPasses final : public passes::PassObserver {
 public:
  DumpAfterPasses(const Wanted& w, std::string stem)
      : all_(w.after_all), names_(w.after.begin(), w.after.end()), stem_(std::move(stem)) {}
  void ran(const passes::PassInfo& pass, int number, const ir::Module& module) override {
    if (!all_ && std::find(names_.begin(), names_.end(), pass.name) == names_.end()) return;
    write_text(concat(stem_, number < 10 ? ".0" : ".", number, "-", pass.name, ".tileir"), module);
  }

 private:
  bool all_;
  std::vector<std::string> names_;
  std::string stem_;
};

}  // namespace

void dump(const ir::Module& module, const std::string& label) {
  const Wanted w = wanted();
  if ((!w.ir && !w.bytecode) || !is_chosen(label)) return;
  const auto bytes = ir::write_bytecode(module);
  const std::string stem = stem_of(w, label, hash_bytes(bytes));
  if (w.bytecode) write(stem + ".tilebc", bytes.data(), bytes.size());
  if (w.ir) write_text(stem + ".tileir", module);
}

std::unique_ptr<passes::PassObserver> dump_after_passes(const ir::Module& given, const passes::Target& target,
                                                        const passes::Tuning& tuning, Form form,
                                                        std::uint64_t predicates, const std::string& label) {
  const Wanted w = wanted();
  if (w.after.empty() || !is_chosen(label)) return nullptr;
  std::vector<std::byte> bytes = ir::write_bytecode(given);
  const std::string how =
      concat(target.num_sms, " 13.", target.bytecode_minor, " ", predicates, " ", passes::text_of(tuning));
  const auto more = std::as_bytes(std::span(how));
  bytes.insert(bytes.end(), more.begin(), more.end());
  const std::string fallback = form == Form::Chosen ? std::string() : concat("-", name_of(form));
  const std::string gpu = target.is_gpu() ? machine::gpu_name(target.sm) : std::string("cpu");
  return std::make_unique<DumpAfterPasses>(w, stem_of(w, concat(label, "-", gpu, fallback), hash_bytes(bytes)));
}

}  // namespace tessera::jit
