// Where an assembler may be, in the order of docs/tileiras.md, and whether it is new enough.
#include <glob.h>

#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "codegen/tileiras/files.hpp"
#include "codegen/tileiras/probe.hpp"
#include "tessera/base/env.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/codegen/tileiras/tileiras.hpp"

namespace tessera::tileiras {

namespace {

struct Candidate {
  std::string path;
  std::string origin;
};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    for (std::size_t i = 0; i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
  globfree(&found);
  // Newest first: names such as cuda-13.5 sort before cuda-13.3.
  return {paths.rbegin(), paths.rend()};
}

std::vector<std::string> path_folders() {
  std::vector<std::string> folders(1);
  for (char c : environment("PATH")) {
    if (c == ':')
      folders.emplace_back();
    else
      folders.back() += c;
  }
  return folders;
}

void add_toolkits(std::vector<Candidate>& list) {
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (std::string root = environment(variable); !root.empty())
      list.push_back({root + "/bin/tileiras", concat("the CUDA toolkit of ", variable)});
  for (const std::string& folder : path_folders())
    if (!folder.empty()) list.push_back({folder + "/tileiras", "PATH"});
  for (const char* pattern : {"/usr/local/cuda/bin/tileiras", "/usr/local/cuda-1[3-9]*/bin/tileiras"})
    for (const std::string& path : matches(pattern)) list.push_back({path, "a CUDA toolkit"});
}

void add_site_packages(std::vector<Candidate>& list) {
  std::vector<std::string> roots;
  if (std::string venv = environment("VIRTUAL_ENV"); !venv.empty())
    roots.push_back(venv + "/lib/python3*/site-packages");
  for (const std::string& folder : path_folders())
    if (folder.ends_with("/bin")) roots.push_back(folder + "/../lib/python3*/site-packages");
  if (std::string home = environment("HOME"); !home.empty())
    roots.push_back(home + "/.local/lib/python3*/site-packages");
  roots.push_back("/usr/local/lib/python3*/dist-packages");
  roots.push_back("/usr/lib/python3*/dist-packages");
  for (const std::string& root : roots)
    for (const std::string& path : matches(root + "/nvidia/cu1[3-9]/bin/tileiras"))
      list.push_back({path, "Python's site-packages"});
}

/// The assembler of TESSERA_TILEIRAS, or else the fetched one.
void add_own(std::vector<Candidate>& list) {
  if (const char* given = env(Env::TILEIRAS))
    list.push_back({given, "TESSERA_TILEIRAS"});
  else
    list.push_back({fetched_folder() + "/bin/tileiras", "the user's cache"});
}

/// Places in order of preference. Later ones, which need a search of folders, are computed only if the earlier ones
/// have nothing.
using Source = void (*)(std::vector<Candidate>&);
std::vector<Source> sources() {
  if (env(Env::TILEIRAS) != nullptr) return {add_own};  // an explicit setting: nothing else is tried
  return {add_own, add_toolkits, add_site_packages};
}

/// The oldest release that compiles for a GPU: 13.1 for Blackwell, 13.2 for Ampere and Ada, 13.3 for Hopper, 13.4 for
/// sm_107.
int oldest_release(const std::string& gpu) {
  const int sm = gpu.starts_with("sm_") ? std::atoi(gpu.c_str() + 3) : 0;
  if (sm == 107) return 4;
  return sm >= 100 ? 1 : sm >= 90 ? 3 : 2;
}

}  // namespace

std::optional<Assembler> locate_assembler(const std::string& gpu, std::string* why) {
  const int oldest = oldest_release(gpu);
  std::string looked;
  const auto try_it = [&](const Candidate& candidate) -> std::optional<Assembler> {
    const bool there = is_executable(candidate.path);
    if (!there && candidate.origin == "PATH") return std::nullopt;  // one line for all its folders, below
    const Probe p = probe(candidate.path);
    std::string problem = p.problem;
    if (problem.empty() && (p.assembler.major < 13 || (p.assembler.major == 13 && p.assembler.minor < oldest)))
      problem = concat("release ", p.assembler.major, ".", p.assembler.minor, " is older than the 13.", oldest,
                       " that ", gpu, " needs");
    if (problem.empty()) {
      Assembler found = p.assembler;
      found.origin = candidate.origin;
      return found;
    }
    looked += concat("\n  ", candidate.path, " (", candidate.origin, "): ", problem);
    return std::nullopt;
  };
  for (const Source source : sources()) {
    std::vector<Candidate> places;
    source(places);
    for (const Candidate& place : places) {
      if (auto found = try_it(place)) return found;
    }
  }
  if (env(Env::TILEIRAS) == nullptr) looked += "\n  the folders of PATH, Python's site-packages";
  if (why != nullptr)
    *why = concat("NVIDIA's Tile IR assembler (tileiras) was not found: ", kHowToGet,
                  ", or set TESSERA_TILEIRAS to an assembler. Looked for:", looked);
  return std::nullopt;
}

Assembler find_assembler(const std::string& gpu) {
  std::string why;
  if (auto found = locate_assembler(gpu, &why)) return *found;
  throw CompileError(why);
}

std::optional<Assembler> assembler_for(const std::string& gpu, std::string* why) {
  static std::mutex mutex;
  static auto* known = new std::unordered_map<std::string, Assembler>;
  std::string key = gpu;
  for (const Env knob : {Env::TILEIRAS, Env::CACHE_DIR}) {
    const char* value = env(knob);
    key += concat("\n", value ? value : "");
  }
  const std::lock_guard lock(mutex);
  if (const auto it = known->find(key); it != known->end()) return it->second;
  auto found = locate_assembler(gpu, why);
  if (found) known->emplace(std::move(key), *found);
  return found;
}

}  // namespace tessera::tileiras
