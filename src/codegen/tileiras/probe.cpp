// The file of answers is a line per executable: path, identity (size and time), release, newest bytecode, and a
// checksum of the line; a line with a wrong checksum is ignored, and the executable is run again.
#include "codegen/tileiras/probe.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "codegen/tileiras/files.hpp"
#include "codegen/tileiras/process.hpp"
#include "tessera/base/env.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/folders.hpp"
#include "tessera/base/format.hpp"

namespace tessera::tileiras {
namespace {

constexpr double kProbeLimit = 20;  // seconds; a probe takes well under one
constexpr std::string_view kFile = "/assemblers";
constexpr std::size_t kMaxLines = 64;

/// `prefix`number.number in `text`.
bool parse_version(const std::string& text, std::string_view prefix, int& major, int& minor) {
  const std::size_t at = text.find(prefix);
  if (at == std::string::npos) return false;
  char* end = nullptr;
  major = static_cast<int>(std::strtol(text.c_str() + at + prefix.size(), &end, 10));
  if (end == nullptr || *end != '.') return false;
  minor = static_cast<int>(std::strtol(end + 1, nullptr, 10));
  return major > 0;
}

/// The newest version of `--list-versions` that Tessera writes too; older releases do not know the option.
ir::BytecodeVersion newest_bytecode(const Assembler& a) {
  const int known = ir::BytecodeVersion{}.minor;
  int newest = a.minor < known ? a.minor : known;
  const ProcessResult run = run_process({a.path, "--list-versions"}, {}, kProbeLimit);
  if (run.exit_code == 0) {
    newest = 1;
    for (int minor = 1; minor <= known; ++minor) {
      if (run.out.find(concat("13.", minor)) != std::string::npos) newest = minor;
    }
  }
  return {13, static_cast<std::uint8_t>(newest)};
}

Probe ask(const std::string& path, const std::string& identity) {
  Probe p;
  p.assembler.path = path;
  p.assembler.identity = identity;
  const ProcessResult run = run_process({path, "--version"}, {}, kProbeLimit);
  if (run.start_error != 0 || run.timed_out || run.signal != 0 || run.exit_code != 0)
    p.problem = "does not run";
  else if (!parse_version(run.out, "release ", p.assembler.major, p.assembler.minor))
    p.problem = "does not report its version: is it NVIDIA's tileiras?";
  else
    p.assembler.newest_bytecode = newest_bytecode(p.assembler);
  return p;
}

/// FNV-1a, 64 bits.
std::uint64_t checksum(std::string_view text) {
  std::uint64_t h = 0xCBF29CE484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return h;
}

std::string line_of(const Assembler& a) {
  const std::string text =
      concat(a.path, "\t", a.identity, "\t", a.major, "\t", a.minor, "\t", int{a.newest_bytecode.minor}, "\t");
  return concat(text, checksum(text), "\n");
}

/// The answer in `line`, if it is one for this executable as it is now.
bool read_line(std::string_view line, Assembler& a) {
  const std::size_t last = line.rfind('\t');
  if (last == std::string_view::npos) return false;
  if (line.substr(last + 1) != concat(checksum(line.substr(0, last + 1)))) return false;
  const std::string head = concat(a.path, "\t", a.identity, "\t");
  if (!line.starts_with(head)) return false;
  int bytecode = 0;
  if (std::sscanf(std::string(line.substr(head.size())).c_str(), "%d\t%d\t%d", &a.major, &a.minor, &bytecode) != 3)
    return false;
  a.newest_bytecode = {13, static_cast<std::uint8_t>(bytecode)};
  return true;
}

/// Calls f(line) for each line of the file; ends when it returns true.
template <class F>
bool any_line(std::string_view text, F&& f) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (f(text.substr(0, end))) return true;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

std::string kept_answers() {
  const auto bytes = read_file(cache_folder() + std::string(kFile));
  return bytes ? std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()) : std::string();
}

/// Best effort: without it the next process probes again.
void keep(const Assembler& a) {
  const std::string folder = cache_folder();
  if (folder.empty() || !env_flag(Env::CACHE, true)) return;
  std::string text = line_of(a);
  std::size_t lines = 1;
  any_line(kept_answers(), [&](std::string_view line) {
    if (!line.starts_with(a.path + "\t")) text += concat(line, "\n");
    return ++lines > kMaxLines;
  });
  const std::string temporary = concat(folder, kFile, ".tmp-", getpid());
  make_folders(folder);
  try {
    write_file(temporary, std::as_bytes(std::span(text)));
    if (rename(temporary.c_str(), (folder + std::string(kFile)).c_str()) != 0) unlink(temporary.c_str());
  } catch (const IoError&) { unlink(temporary.c_str()); }
}

}  // namespace

Probe probe(const std::string& path) {
  struct stat info {};
  if (!is_executable(path) || stat(path.c_str(), &info) != 0) return {{}, "not there"};
  const std::string identity = concat(info.st_size, "-", info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec);
  static std::mutex mutex;
  static auto* known = new std::unordered_map<std::string, Probe>;
  const std::lock_guard lock(mutex);
  Probe& p = (*known)[path];
  if (p.assembler.identity == identity) return p;
  Assembler kept;
  kept.path = path;
  kept.identity = identity;
  if (any_line(kept_answers(), [&](std::string_view line) { return read_line(line, kept); })) {
    p = {kept, ""};
  } else {
    p = ask(path, identity);
    if (p.problem.empty()) keep(p.assembler);
  }
  return p;
}

}  // namespace tessera::tileiras
