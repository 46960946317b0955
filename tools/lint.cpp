// Finds what C++ allows in the recorded parts of a kernel and what does something else there than it says: searches of
// the syntax tree by clang-query, which is looked for by version, the newest first.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "child.hpp"
#include "command_rows.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr const char kSearches[] =
#include "lint_regions.inc"
    ;

struct Check {
  std::string name, message;
};
struct Searches {
  std::vector<std::string> commands;  ///< of clang-query, in order
  std::vector<Check> checks;          ///< one for each command that searches
};

/// The searches as commands of clang-query: a line that begins with spaces continues the one before.
Searches searches() {
  Searches found;
  std::istringstream text(kSearches);
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("check ")) {
      const std::size_t end = line.find(' ', 6);
      found.checks.push_back({line.substr(6, end - 6), line.substr(end + 1)});
    } else if (line.starts_with(" ")) {
      found.commands.back() += line.substr(line.find_first_not_of(' ') - 1);
    } else if (!line.empty()) {
      found.commands.push_back(line);
    }
  }
  return found;
}

struct LintOptions {
  std::string query, database;
  std::vector<std::string> files, flags;
};

/// The newest clang-query on the path, or the requested one.
std::string find_query(const std::string& asked) {
  std::vector<std::string> names;
  if (!asked.empty()) {
    names.push_back(asked);
  } else {
    for (int version = 22; version >= 14; --version) names.push_back(concat("clang-query-", version));
    names.emplace_back("clang-query");
  }
  for (const std::string& name : names)
    if (run_child({name, "--version"}).code == 0) return name;
  throw Error("LintError",
              concat(asked.empty() ? "clang-query" : asked,
                     " is not installed: apt-get install clang-tools-16 (14 to 19 will do), or --clang-query FILE"),
              {});
}

/// The folder that has tessera/tessera.hpp: beside the installed command, or in the source tree that it was built in.
std::string include_folder() {
  std::error_code ignored;
  fs::path at = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (; !at.empty(); at = at.parent_path()) {
    if (fs::exists(at / "include/tessera/tessera.hpp", ignored)) return (at / "include").string();
    if (at == at.root_path()) break;
  }
  return "";
}

/// True for a header of the library: it lies under a folder that has tessera/tessera.hpp.
bool is_of_library(const fs::path& file) {
  std::error_code ignored;
  for (fs::path at = file.parent_path(); at.has_relative_path(); at = at.parent_path())
    if (at.filename() == "tessera" && fs::exists(at / "tessera.hpp", ignored)) return true;
  return false;
}

std::string line_of(const fs::path& file, int number) {
  std::ifstream in(file);
  std::string line;
  for (int i = 0; i < number && std::getline(in, line); ++i) {}
  return line;
}

using Finding = std::tuple<std::string, int, std::string>;  // file, line, what

/// A file that clang-query names: with a database, relative to a folder that is in the database.
fs::path found_file(const std::string& name, const LintOptions& o, const std::string& source) {
  std::error_code ignored;
  for (const fs::path& folder : {fs::path(), fs::path(o.database), fs::path(source).parent_path()})
    if (fs::exists(folder / name, ignored)) return folder / name;
  return fs::path(name).filename() == fs::path(source).filename() ? fs::path(source) : fs::path(name);
}

/// The lines "FILE:LINE:COLUMN: note: "root" binds here" of one search in `source`.
void collect(const std::string& text, const Check& check, const LintOptions& o, const std::string& source,
             std::set<Finding>& findings) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t note = line.find(": note: \"root\" binds here");
    if (note == std::string::npos) continue;
    const std::size_t column = line.rfind(':', note - 1), row = column == 0 ? 0 : line.rfind(':', column - 1);
    if (column == std::string::npos || row == std::string::npos) continue;
    std::error_code ignored;
    const fs::path name = found_file(line.substr(0, row), o, source);
    const fs::path file = fs::weakly_canonical(name, ignored);
    const int number = std::atoi(line.c_str() + row + 1);
    if (is_of_library(file)) continue;
    if (line_of(file, number).find(concat("NOLINT(", check.name, ")")) != std::string::npos) continue;
    findings.insert({name.string(), number, concat(check.message, " [", check.name, "]")});
  }
}

/// True if the text has a line "... error: ...".
bool has_error(const std::string& text) {
  return text.find(" error: ") != std::string::npos || text.starts_with("error: ");
}

/// Searches one file. Returns false, with the reason printed, if it could not be read.
bool search(const LintOptions& o, const Searches& s, const std::string& file, std::set<Finding>& findings) {
  std::vector<std::string> words{o.query};
  for (const std::string& command : s.commands) words.insert(words.end(), {"-c", command});
  if (!o.database.empty()) {
    words.insert(words.end(), {"-p", o.database, "--extra-arg=-w", "--extra-arg=-Wno-unknown-warning-option", file});
  } else {
    words.insert(words.end(), {file, "--", "-std=c++20", "-w"});
    if (const std::string folder = include_folder(); !folder.empty()) words.push_back("-I" + folder);
    words.insert(words.end(), o.flags.begin(), o.flags.end());
  }
  const Finished done = run_child(words);
  // Each search ends with a line "3 matches."; one that could not be read has none.
  std::vector<std::string> parts(1);
  std::istringstream lines(done.output);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with(" matches.") || line.ends_with(" match."))
      parts.emplace_back();
    else
      parts.back() += line + "\n";
  }
  if (done.code != 0 || has_error(done.output) || parts.size() != s.checks.size() + 1) {
    std::fprintf(stderr, "%s could not read %s:\n%s", o.query.c_str(), file.c_str(), done.output.c_str());
    std::fprintf(
        stderr,
        "give the folder of your build's compile_commands.json with -p, or the options of the compiler after --; "
        "clang-query before 16 cannot read structured bindings in the condition of a tile_while\n");
    return false;
  }
  for (std::size_t i = 0; i < s.checks.size(); ++i) collect(parts[i], s.checks[i], o, file, findings);
  return true;
}

LintOptions parse_lint(Words words) {
  const Given given(row_of("lint"), words);
  LintOptions o;
  o.files = given.words();
  o.database = given.text("-p");
  o.query = given.text("--clang-query");
  for (const char* flag : given.program()) o.flags.emplace_back(flag);
  if (o.files.empty()) throw UsageError("expected the C++ files to look at");
  if (!o.database.empty() && !o.flags.empty())
    throw UsageError("options of the compiler come from the database of -p or follow --, not both");
  std::error_code ignored;
  if (!o.database.empty() && !fs::exists(fs::path(o.database) / "compile_commands.json", ignored))
    throw UsageError(concat("there is no compile_commands.json in ", o.database,
                            " (cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON makes one)"));
  for (const std::string& file : o.files)
    if (!fs::is_regular_file(file, ignored)) throw UsageError(concat("there is no file ", file));
  return o;
}

}  // namespace

int lint_command(Words words) {
  if (asks_for_help(words)) return print_usage(row_of("lint"));
  LintOptions o;
  try {
    o = parse_lint(words);
  } catch (const UsageError& error) { return report_usage(row_of("lint"), error); }
  o.query = find_query(o.query);
  const Searches s = searches();
  std::set<Finding> findings;
  bool all_read = true;
  for (const std::string& file : o.files) all_read = search(o, s, file, findings) && all_read;
  for (const auto& [file, line, what] : findings) std::printf("%s:%d: %s\n", file.c_str(), line, what.c_str());
  return findings.empty() && all_read ? 0 : 1;
}

}  // namespace tessera
