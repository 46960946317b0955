// Opening libnccl.so.2. PyTorch's package brings one (nvidia-nccl-cu13, in site-packages/nvidia/nccl).
#include "mesh/nccl_library.hpp"

#include <dlfcn.h>
#include <glob.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "tessera/base/env.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/mesh/processes.hpp"

namespace tessera::mesh::nccl {

Config::Config(int library) noexcept
    : size(library >= kGraphsVersion ? sizeof(Config) : offsetof(Config, channels_per_net_peer)),
      version(static_cast<unsigned>(library >= kGraphsVersion ? kGraphsVersion : kOldestVersion)) {}

bool Library::mixes_graphs() const noexcept {
  const char* const asked = std::getenv("NCCL_GRAPH_MIXING_SUPPORT");  // stronger than a configuration
  return asked != nullptr && *asked != '\0' ? std::atoi(asked) != 0 : version < kGraphsVersion;
}

namespace {

std::atomic<bool> is_ours{false};  // nccl_is_ours

constexpr const char* kName = "libnccl.so.2";
constexpr const char* kFix =
    "\n  Install it (pip install nvidia-nccl-cu13; Ubuntu with NVIDIA's repository: apt-get install libnccl2), or set "
    "TESSERA_NCCL to its path.";

/// Empty, or what is wrong.
std::string load(Library& library, const std::string& path) {
  // Multicast memory (NVLink SHARP) cannot be mapped on all systems that report it, and a failure to map it is fatal.
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  // All ranks are connected when a communicator is made. Otherwise NCCL connects them in the first call that needs it,
  // and a collective could wait there for another rank, on the host.
  setenv("NCCL_RUNTIME_CONNECT", "0", 0);
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: NCCL's threads live in it
  if (handle == nullptr) {
    const char* const reason = dlerror();
    return concat("cannot be opened (", reason != nullptr ? reason : "no reason given", ")");
  }
  const char* missing = nullptr;
  const auto find = [&]<class F>(F& function, const char* name, bool required) {
    function = reinterpret_cast<F>(dlsym(handle, name));
    if (function == nullptr && required && missing == nullptr) missing = name;
  };
#define TESSERA_NCCL(name, ...) find(library.name, #name, true);
#define TESSERA_NCCL_NEWER(name, ...) find(library.name, #name, false);
#include "mesh/nccl_functions.def"
  find(library.ncclGetErrorString, "ncclGetErrorString", true);
  find(library.ncclGetLastError, "ncclGetLastError", true);
  library.path = path;
  if (library.ncclGetVersion != nullptr && library.ncclGetVersion(&library.version) != Result::Success)
    library.version = 0;
  if (library.version != 0 && library.version < kOldestVersion)
    return concat("is NCCL ", version_text(library.version), ", and Tessera needs ", version_text(kOldestVersion),
                  " or newer");
  if (missing != nullptr) return concat("has no function ", missing);
  // NCCL reads it when the first communicator is made.
  if (is_ours.load() && library.version < kGraphsVersion) setenv("NCCL_GRAPH_MIXING_SUPPORT", "0", 0);
  if (library.version == 0) return "does not say its version (ncclGetVersion)";
  return {};
}

/// Libraries by path: each is loaded once and stays.
struct Opened {
  std::unique_ptr<Library> library;
  std::string why;
};
const Opened& opened(const std::string& path) {
  static std::mutex& mutex = *new std::mutex;
  static auto& all = *new std::map<std::string, Opened>;
  const std::lock_guard lock(mutex);
  auto found = all.find(path);
  if (found == all.end()) {
    Opened made{std::make_unique<Library>(), {}};
    made.why = load(*made.library, path);
    found = all.emplace(path, std::move(made)).first;
  }
  return found->second;
}

void add_packages(std::vector<std::string>& list, const std::string& root) {
  glob_t found{};
  if (glob((root + "/nvidia/nccl/lib/" + kName).c_str(), 0, nullptr, &found) == 0)
    list.insert(list.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
}

}  // namespace

std::string version_text(int version) {
  return concat(version / 10000, ".", version % 10000 / 100, ".", version % 100);
}

std::string result_text(const Library& library, Result result, Comm comm) {
  const char* const text = library.ncclGetErrorString(result);
  const char* const last = library.ncclGetLastError(comm);
  std::string all = text != nullptr ? text : concat("result ", static_cast<int>(result));
  if (last != nullptr && *last != '\0') all += concat(" (", last, ")");
  return all;
}

const Library& open_library(const std::string& path, SourceLocation where) {
  const Opened& found = opened(path);
  if (found.why.empty()) return *found.library;
  throw MeshError(concat("NCCL cannot be used: ", path, " ", found.why, ".", kFix), where);
}

std::vector<std::string> candidates() {
  if (const char* const path = env(Env::NCCL)) return {path};
  std::vector<std::string> list{kName};
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const char* const folder = std::getenv(variable);
    if (folder != nullptr && *folder != '\0') add_packages(list, concat(folder, "/lib/python3*/site-packages"));
  }
  const char* const path = std::getenv("PATH");
  std::string_view rest = path != nullptr ? path : "";
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    if (folder.ends_with("/bin")) add_packages(list, concat(folder, "/../lib/python3*/site-packages"));
    rest.remove_prefix(folder.size() < rest.size() ? folder.size() + 1 : rest.size());
  }
  if (const char* const home = std::getenv("HOME"))
    add_packages(list, concat(home, "/.local/lib/python3*/site-packages"));
  for (const char* root : {"/usr/local/lib/python3*/dist-packages", "/usr/lib/python3*/dist-packages"})
    add_packages(list, root);
  return list;
}

const Library& installed_library(SourceLocation where) {
  std::string tried;
  for (const std::string& path : candidates()) {
    const Opened& found = opened(path);
    if (found.why.empty()) return *found.library;
    tried += concat("\n  ", path, " ", found.why);
  }
  throw MeshError(concat("NCCL cannot be used; tried:", tried, kFix), where);
}

bool available(std::string* why) noexcept {
  try {
    installed_library();
    return true;
  } catch (const std::exception& error) {
    if (why != nullptr) *why = error.what();
    return false;
  }
}

}  // namespace tessera::mesh::nccl

void tessera::mesh::nccl_is_ours() noexcept { nccl::is_ours.store(true); }
