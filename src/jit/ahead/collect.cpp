// Files are named <key>-<gpu>-<label>.tilebc: everything that `tessera build` has to know. Fallback forms have a word
// after the label, which has no dots: <key>-<gpu>-<label>.fallback.tilebc.
#include "jit/ahead/collect.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include "jit/compile/pipeline.hpp"
#include "jit/compile/report.hpp"
#include "jit/store/code_stores.hpp"
#include "jit/tuning/tuning_choice.hpp"
#include "tessera/base/env.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/folders.hpp"
#include "tessera/base/format.hpp"
#include "tessera/ir/bytecode.hpp"
#include "tessera/jit/build.hpp"
#include "tessera/jit/forms.hpp"
#include "tessera/machine/machine.hpp"
#include "tessera/passes/tuning_text.hpp"

namespace tessera::jit {
namespace {

constexpr std::string_view kSuffix = ".tilebc";
constexpr const char *kAsked = ".asked",
                     *kLimited = ".limited";       // empty files: Collected::asked, Asked::limited
constexpr const char* kOccupancy = ".occupancy-";  // begins the end of the name of an empty file: Asked::occupancy
constexpr int kHighestOccupancy = 32;

/// The GPUs of TESSERA_COLLECT_GPUS, as numbers.
std::vector<int> wanted_gpus() {
  const char* given = env(Env::COLLECT_GPUS);
  const std::string text = given ? given : "sm_90";
  std::vector<int> gpus;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string word = text.substr(at, end - at);
    const bool good = word.starts_with("sm_") && word.size() >= 5 && word.size() <= 6 &&
                      word.find_first_not_of("0123456789", 3) == std::string::npos;
    if (!good) env_reject(Env::COLLECT_GPUS, "a list such as sm_90,sm_100");
    gpus.push_back(std::stoi(word.substr(3)));
    at = end + 1;
  }
  return gpus;
}

std::string plain(const std::string& label) {
  std::string s = label;
  for (char& c : s) {
    const bool good = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!good) c = '_';
  }
  return s;
}

std::string suffix_of(Form form) { return form == Form::Chosen ? std::string() : concat(".", name_of(form)); }

void write(const std::string& path, std::span<const std::byte> bytes) {
  // Threads may write the same file, for launches that have something in common.
  static std::atomic<unsigned> number{0};
  const std::string temporary = concat(path, ".tmp-", getpid(), "-", number.fetch_add(1));
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  const bool written = file && (bytes.empty() || std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size());
  const bool closed = !file || std::fclose(file) == 0;
  if (written && closed && std::rename(temporary.c_str(), path.c_str()) == 0) return;
  std::remove(temporary.c_str());
  throw IoError(concat("cannot write '", path, "', as TESSERA_COLLECT asks: check the folder and its rights."));
}

bool read_key(std::string_view text, CacheKey& key) {
  if (text.size() != 2 * key.size()) return false;
  for (std::size_t i = 0; i < key.size(); ++i) {
    int value = 0;
    for (const char c : text.substr(2 * i, 2)) {
      if (c >= '0' && c <= '9')
        value = value * 16 + (c - '0');
      else if (c >= 'a' && c <= 'f')
        value = value * 16 + (c - 'a' + 10);
      else
        return false;
    }
    key[i] = static_cast<std::byte>(value);
  }
  return true;
}

}  // namespace

CacheKey bundle_key(const ir::Module& recording, const analysis::LaunchContract& contract, const analysis::Facts& facts,
                    std::uint64_t predicates, const Prepared& chosen, const passes::Tuning* tuning) {
  return bundle_name(recording, contract, facts, predicates, chosen.target.sm, hints_text(tuning), chosen.choices.abi);
}

void collect(const ir::Module& recording, const analysis::LaunchContract& contract, const analysis::Facts& facts,
             std::uint64_t predicates, const std::string& label, TuningId tuning, bool asked) {
  const char* folder = env(Env::COLLECT);
  if (!folder) return;
  make_folders(folder);
  for (const int sm : wanted_gpus()) {
    const std::string gpu = machine::gpu_name(sm);
    const passes::Target target = target_for(sm);
    const std::uint64_t common = facts.predicates().common_part(predicates);
    const passes::Tuning* hints = tuning_for(tuning, label, recording, common, nullptr, target);
    const Prepared chosen = prepare(recording, facts, predicates, target, hints, Form::Chosen, label);
    const CacheKey key = bundle_key(recording, contract, facts, predicates, chosen, hints);
    const ir::BytecodeVersion newest{13, static_cast<std::uint8_t>(target.bytecode_minor)};
    const std::string stem = concat(folder, "/", hex(key), "-", gpu, "-", plain(label));
    if (asked) write(stem + kAsked, {});
    if (chosen.asked.limited) write(stem + kLimited, {});
    for (const Form form : forms_for(hints)) {
      std::optional<Prepared> other;
      if (form != Form::Chosen) other = prepare(recording, facts, predicates, target, hints, form, label);
      const Prepared& prepared = other ? *other : chosen;
      // Forms of equal code may be for different causes; those that are the chosen one are for none.
      if (other && other->bytecode == chosen.bytecode && opt_level_of(form) == opt_level_of(Form::Chosen)) continue;
      const std::string text = report(facts, predicates, prepared, label), name = stem + suffix_of(form);
      write(name + ".txt", std::as_bytes(std::span(text)));
      if (prepared.asked.occupancy > 0) write(concat(name, kOccupancy, prepared.asked.occupancy), {});
      write(concat(name, kSuffix), bytecode_for(*prepared.module, newest));
    }
  }
}

passes::Target collected_target() { return env(Env::COLLECT) ? target_for(wanted_gpus().front()) : passes::Target(); }

std::vector<Collected> collected(const std::string& folder) {
  std::vector<Collected> found;
  for (const std::string& name : names_in(folder)) {
    if (!name.ends_with(kSuffix)) continue;
    const std::size_t first = name.find('-'), second = name.find('-', first + 1);
    Collected c;
    if (second == std::string::npos || !read_key(std::string_view(name).substr(0, first), c.key)) continue;
    c.gpu = name.substr(first + 1, second - first - 1);
    c.label = name.substr(second + 1, name.size() - second - 1 - kSuffix.size());
    if (c.label.find('.') != std::string::npos) continue;  // a fallback form, found with the chosen one
    const std::string path = concat(folder, "/", name), stem = path.substr(0, path.size() - kSuffix.size());
    for (const Form form : all_forms()) {
      const std::string of_form = stem + suffix_of(form);
      if (!path_exists(concat(of_form, kSuffix))) continue;
      Asked of{path_exists(stem + kLimited), 0, std::atoi(c.gpu.c_str() + std::string_view("sm_").size())};
      while (of.occupancy < kHighestOccupancy && !path_exists(concat(of_form, kOccupancy, of.occupancy)))
        ++of.occupancy;
      if (!path_exists(concat(of_form, kOccupancy, of.occupancy))) of.occupancy = 0;
      c.forms.push_back({form, concat(of_form, kSuffix), of_form + ".txt", of});
    }
    c.asked = path_exists(stem + kAsked);
    found.push_back(std::move(c));
  }
  std::sort(found.begin(), found.end(),
            [](const Collected& a, const Collected& b) { return a.forms.front().file < b.forms.front().file; });
  return found;
}

}  // namespace tessera::jit
