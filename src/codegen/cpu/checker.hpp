// The checked mode: verifies every access of a run. One Checker per run; checked runs use one thread and execute the
// blocks in order, so the first violation is always the same one.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/cpu/checker_site.hpp"
#include "tessera/codegen/cpu/program.hpp"

namespace tessera::cpu {

class Checker {
 public:
  Checker(std::string kernel, std::span<const Region> regions, std::span<const std::uint64_t> args);

  void start_block(const Frame&);

  /// One instruction begins an access. Returns its number, which becomes the value of the result token.
  std::int32_t begin(const Frame&, const Site&);
  /// One element of that access is touched. `object`: an address that belongs to the region the element must be in (the
  /// base of its view), or null where that is unknown (then the site's root argument says, or whichever region holds
  /// the address).
  void touch(const Site&, std::int32_t access, const std::byte* address, std::int64_t bytes, const std::byte* object);
  std::int32_t join(std::span<const std::int32_t> tokens);
  /// Memory that the kernel itself provides (alloca, globals): accesses of it are not compared with regions.
  void allow(const std::byte* base, std::int64_t bytes);

  [[noreturn]] void fail(const std::string& what, const Site&) const;

 private:
  struct Cell {
    std::int32_t writer_block = -1, reader_block = -1,
                 atomic_block = -1;            ///< -1: none; readers, atomics: -2 several blocks
    std::int32_t epoch = -1;                   ///< block of the two below
    std::int32_t last_write = 0, readers = 0;  ///< access number; reader set
  };
  struct Shadow {
    Region region;
    std::int64_t grain = 0;  ///< bytes per cell; 0: not touched yet
    std::vector<Cell> cells;
  };
  struct Allowed {
    const std::byte* base;
    std::int64_t bytes;
  };
  struct Node {
    std::vector<std::int32_t> after;
    const Site* site;
  };

  Shadow* find(const std::byte* address);
  Shadow* shadow_of(const Site&, const std::byte* address, std::int64_t bytes, const std::byte* object);
  void refine(Shadow&, std::int64_t bytes);
  bool reaches(std::int32_t from, std::int32_t target);
  std::int32_t add_reader(std::int32_t readers, std::int32_t access);
  void check_cell(Cell&, const Shadow&, const Site&, std::int32_t access, std::int64_t element);
  [[noreturn]] void conflict(const Shadow&, const Site&, std::int64_t element, std::int32_t other) const;
  [[noreturn]] void unordered(const Shadow&, const Site&, std::int64_t element, std::int32_t other) const;
  std::string element_text(const Shadow&, std::int64_t element) const;

  std::string kernel_;
  std::vector<Shadow> shadows_;  ///< sorted by base
  std::vector<Shadow*> root_;    ///< region of each entry argument that is an address
  std::vector<Allowed> allowed_;
  std::int32_t block_ = -1;  ///< number of the current block in order of execution
  std::vector<Node> nodes_;
  std::vector<std::vector<std::int32_t>> reader_sets_;
  std::unordered_map<std::uint64_t, std::int32_t> reader_set_;
  std::unordered_map<std::uint64_t, bool> reaches_;
};

}  // namespace tessera::cpu
