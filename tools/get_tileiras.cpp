// `tessera get-tileiras`: downloads the wheels of NVIDIA's assembler, checks them, and keeps the few files that are
// needed in the folder where the library looks for the assembler. scripts/get-tileiras.sh compiles this file without
// the library.
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "child.hpp"
#include "command_rows.hpp"
#include "download.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tileiras_release.hpp"
#include "wheel.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kNeededSpace = 1'000'000'000, kBundleLimit = 54 << 20;

/// One package of the release, for this machine.
struct Package {
  std::string name, file, sha256;
};

std::string machine() {
  utsname about{};
  if (uname(&about) != 0) throw IoError(concat("uname: ", std::strerror(errno)));
  return about.machine;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw IoError(concat("cannot read ", path));
  return text;
}

/// The packages that the library pins.
std::vector<Package> pinned_packages(const std::string& architecture) {
  std::vector<Package> found;
  for (const ReleaseRow& row : kReleaseRows) {
    if (architecture != row.architecture) continue;
    std::string file = row.file;
    file.replace(file.find('$'), 1, tileiras::kPinnedVersion);
    found.push_back({row.package, file, row.sha256});
  }
  return found;
}

/// Those of a file with lines of ARCHITECTURE PACKAGE NAME SHA256; # begins a comment.
std::vector<Package> packages_in(const std::string& path, const std::string& architecture) {
  std::vector<Package> found;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string of;
    Package p;
    if (!(words >> of)) continue;
    if (!(words >> p.name >> p.file >> p.sha256))
      throw IoError(concat(path, ": expected ARCHITECTURE PACKAGE NAME SHA256, found ", line));
    if (of == architecture) found.push_back(p);
  }
  return found;
}

std::vector<const char*> kept_files() {
  std::vector<const char*> files(std::begin(kNeededFiles), std::end(kNeededFiles));
  files.insert(files.end(), std::begin(kMoreFiles), std::end(kMoreFiles));
  return files;
}

/// Empty if the assembler in the folder says the pinned version; otherwise what it says. CUDA_HOME would make it load
/// another CUDA's libraries.
std::string problem_of(const std::string& folder) {
  const Finished done = run_child({folder + "/bin/tileiras", "--version"}, "", {"CUDA_HOME"});
  const bool right = done.code == 0 && done.output.find(concat("V", tileiras::kPinnedVersion)) != std::string::npos;
  return right ? "" : concat("exit code ", done.code, ", ", last_line(done.output));
}

bool is_complete(const std::string& folder) {
  for (const char* file : kept_files()) {
    std::error_code missing;
    if (fs::file_size(concat(folder, "/", file), missing) == 0 || missing) return false;
  }
  return problem_of(folder).empty();
}

/// A new folder beside the one to fill, removed with what is in it.
class WorkFolder {
 public:
  explicit WorkFolder(const fs::path& beside) {
    fs::create_directories(beside);
    path = beside.string() + "/.tileiras-XXXXXX";
    if (!mkdtemp(path.data()))
      throw IoError(concat("cannot make a folder in ", beside.string(), ": ", std::strerror(errno)));
    const std::uintmax_t free = fs::space(path).available;
    if (free < kNeededSpace)
      throw IoError(
          concat("1 GB of free space is needed in ", beside.string(), ", there are ", free / 1'000'000, " MB"));
  }
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  std::string path;
};

/// Downloads one package and checks it; returns the path of the wheel.
std::string fetch(const Package& package, const std::string& index, const std::string& work) {
  std::printf("fetching %s\n", package.file.c_str());
  std::fflush(stdout);
  const std::string page_url = concat(index, "/", package.name, "/"), page = work + "/page.html";
  download(page_url, page);
  const std::string url = address_in(read_file(page), page_url, package.file);
  if (url.empty()) throw IoError(concat(page_url, " has no file ", package.file, ". Does the index mirror pypi.org?"));
  const std::string wheel = concat(work, "/", package.file);
  download(url, wheel);
  if (const std::string found = sha256_of(wheel); found != package.sha256)
    throw IoError(concat(url, " has the SHA-256 sum ", found, ", expected ", package.sha256,
                         ": it was damaged or changed on its way, and is not used"));
  return wheel;
}

/// Unpacks the files that are kept out of the wheels into `folder`.
void unpack_all(const std::vector<std::string>& wheels, const std::string& folder) {
  std::vector<const char*> missing = kept_files();
  for (const std::string& wheel : wheels) {
    for (const WheelEntry& entry : wheel_entries(wheel)) {
      const auto wanted = std::find_if(missing.begin(), missing.end(), [&](const char* file) {
        return entry.name.starts_with("nvidia/") && entry.name.ends_with(concat("/", file));
      });
      if (wanted == missing.end()) continue;
      const fs::path path = concat(folder, "/", *wanted);
      fs::create_directories(path.parent_path());
      unpack(wheel, entry, path.string());
      fs::permissions(path, fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec |
                                fs::perms::others_read | fs::perms::others_exec);
      missing.erase(wanted);
    }
  }
  if (!missing.empty())
    throw IoError(concat(missing[0], " is in none of the packages of ", tileiras::kPinnedVersion,
                         ": expected the layout that NVIDIA's packages of this release have"));
}

/// Fills `folder`, by renaming, so that programs never see half of it.
void install(const std::vector<Package>& packages, const std::string& index, const fs::path& folder) {
  const WorkFolder work(folder.parent_path());
  std::vector<std::string> wheels;
  for (const Package& package : packages) wheels.push_back(fetch(package, index, work.path));
  const std::string made = work.path + "/new";
  unpack_all(wheels, made);
  if (const std::string problem = problem_of(made); !problem.empty())
    throw IoError(concat("the fetched assembler does not run on this machine: ", problem));
  if (fs::exists(folder)) fs::rename(folder, work.path + "/old");
  fs::rename(made, folder);
}

void make_bundle(const std::string& folder, const std::string& file) {
  const std::string part = file + ".part", filter = machine() == "x86_64" ? "--x86" : "--arm64";
  std::printf("packing %s (some minutes, 3 GB of memory)\n", file.c_str());
  std::fflush(stdout);
  std::vector<std::string> words = {"tar", "-C", folder, "-I", concat("xz ", filter, " --lzma2=preset=9e,dict=256MiB"),
                                    "-cf", part};
  words.insert(words.end(), std::begin(kNeededFiles), std::end(kNeededFiles));
  const Finished done = run_child(words);
  if (done.code != 0)
    throw IoError(concat("tar and xz (apt-get install xz-utils) cannot pack ", file, ": ", last_line(done.output)));
  const std::uintmax_t bytes = fs::file_size(part);
  if (bytes > kBundleLimit) throw IoError(concat(part, " has ", bytes, " bytes, expected at most ", kBundleLimit));
  fs::rename(part, file);
  std::printf(
      "%s: %ju MiB; unpack it on the other machine with\n"
      "  d=${XDG_CACHE_HOME:-$HOME/.cache}/tessera/tileiras-%s; mkdir -p $d && tar -xf %s -C $d\n",
      file.c_str(), bytes >> 20, tileiras::kPinnedVersion, fs::path(file).filename().c_str());
}

std::string index_of(const Given& given) {
  const char* of_pip = std::getenv("PIP_INDEX_URL");
  std::string index = given.text("--index", of_pip != nullptr && *of_pip != '\0' ? of_pip : "https://pypi.org/simple");
  while (index.ends_with("/")) index.pop_back();
  return index;
}

int run(const Given& given) {
  const std::string folder = tileiras::fetched_folder();
  if (tileiras::cache_folder().empty())
    throw IoError("there is no home folder: set TESSERA_CACHE_DIR to a folder for the assembler");
  if (given.has("--where")) return std::puts(folder.c_str()) < 0;
  if (!given.has("--force") && is_complete(folder)) {
    std::printf("tileiras %s is in %s already\n", tileiras::kPinnedVersion, folder.c_str());
  } else {
    const std::string architecture = machine();
    const auto packages =
        given.has("--release") ? packages_in(given.text("--release"), architecture) : pinned_packages(architecture);
    if (packages.empty())
      throw IoError(concat("there is no assembler for ", architecture, ": expected x86_64 or aarch64"));
    install(packages, index_of(given), folder);
    std::printf("tileiras %s is in %s\n", tileiras::kPinnedVersion, folder.c_str());
  }
  if (given.has("--bundle")) make_bundle(folder, given.text("--bundle"));
  return 0;
}

}  // namespace

int get_tileiras_command(Words words) {
  const CommandRow& row = row_of("get-tileiras");
  if (asks_for_help(words)) return print_usage(row);
  try {
    const Given given(row, words);
    if (!given.words().empty()) throw UsageError(concat("expected no argument, found ", given.words()[0]));
    return run(given);
  } catch (const UsageError& error) { return report_usage(row, error); }
}

}  // namespace tessera
