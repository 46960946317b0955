// Kernels compiled ahead of time: a file of cubins that a program takes instead of calling the assembler, so that it
// needs nothing but the driver. `tessera build` and tessera_add_kernels() (CMake) make bundles; docs/jit.md.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/jit/code_report.hpp"
#include "tessera/jit/disk_cache.hpp"
#include "tessera/jit/forms.hpp"
#include "tessera/passes/target.hpp"

namespace tessera::jit {

/// A bundle opened for reading. Entries are verified when they are taken.
class Bundle {
 public:
  /// Throws IoError if the file cannot be read, or is damaged, or of another version.
  explicit Bundle(const std::string& path);
  /// Empty if there is no entry of this key. Throws IoError if the entry is damaged.
  std::optional<CachedCubin> find(const CacheKey& key) const;
  /// Every entry, with its cubin. Throws IoError if one is damaged.
  std::vector<CachedCubin> list() const;
  /// True if it has an entry for this GPU ("sm_90").
  bool serves(const std::string& gpu) const;
  std::size_t size() const noexcept { return entries_.size(); }
  const std::string& path() const noexcept { return path_; }

 private:
  struct Entry {
    CacheKey key;
    std::uint64_t offset, bytes;
    std::uint32_t sm;
  };
  CachedCubin read(const Entry& entry) const;
  std::string path_;
  std::vector<Entry> entries_;
};

/// Writes a bundle; the file appears when it is complete. Equal keys are written once. Throws IoError.
void write_bundle(const std::string& path, const std::vector<std::pair<CacheKey, CachedCubin>>& entries);

/// The bundles of this process: those of TESSERA_BUNDLE (paths with ':' between them), else, if it is there, the file
/// that is named as the program with ".tessera" appended. Read once. Throws IoError for what TESSERA_BUNDLE names and
/// cannot be used.
const std::vector<Bundle>& bundles();
/// The first bundle's entry of this key.
std::optional<CachedCubin> find_in_bundles(const CacheKey& key);
bool bundles_serve(const std::string& gpu);

/// The entry of a kernel that is in the bundle in another form; `key` names the chosen one.
CacheKey form_key(const CacheKey& key, Form form);

/// A kernel in one of its forms, as bytecode.
struct CollectedForm {
  Form form;
  std::string file;    ///< path of the bytecode
  std::string report;  ///< path of what the compiler says about it (`tessera explain`)
  Asked asked;         ///< of it; `limited` of the chosen form
};
/// What a program that ran with TESSERA_COLLECT left in `folder`: per kernel, specialization and GPU.
struct Collected {
  CacheKey key;  ///< of the chosen form's entry in a bundle
  std::string gpu;
  std::string label;
  bool asked = false;  ///< a launch of the run had just these obligations; else it is for launches of other shapes
  std::vector<CollectedForm> forms;  ///< the chosen one, and fallback ones for an assembler that rejects it
};
std::vector<Collected> collected(const std::string& folder);
/// The first GPU of TESSERA_COLLECT_GPUS, as compiled for; the CPU without TESSERA_COLLECT. Throws a ConfigError if
/// they are no GPUs.
passes::Target collected_target();

}  // namespace tessera::jit
