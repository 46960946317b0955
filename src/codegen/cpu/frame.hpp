// A program is a tree of instructions over numbered buffers; a Frame is one thread's view of them while it runs
// blocks. Independent of the IR.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codegen/cpu/lookahead.hpp"

namespace tessera::cpu {

class Checker;

/// How an instruction ends: with the next one, or by leaving the innermost loop, its iteration, or the kernel.
enum class Status : std::uint8_t { Next, Break, Continue, Return };

/// A place in a numbered buffer. Buffers get their addresses per thread, when a run starts: constants and arguments are
/// shared, everything else lies in the thread's arena at the offset that the plan gave it.
struct Ref {
  std::uint32_t buffer = 0;
  std::int64_t offset = 0;  ///< bytes
};

struct Frame {
  std::byte** base = nullptr;  ///< one address per buffer
  std::byte* const* home =
      nullptr;  ///< the same as planned: `base` may point into a tensor while a load is only borrowed
  /// Per buffer: bytes from row to row of a tile whose rows are used where they lie in memory, one apart from the
  /// other. Set by its load, read by the instructions that take such rows.
  std::int64_t* pitch = nullptr;
  std::int64_t* step = nullptr;          ///< the same from element to element of a row
  const std::byte** previous = nullptr;  ///< per buffer: where its tile lay in memory the last time; null: unknown
  Lookahead* ahead = nullptr;
  std::int32_t block[3] = {0, 0, 0};
  std::int32_t grid[3] = {1, 1, 1};
  const std::atomic<bool>* stop = nullptr;  ///< another thread failed
  const std::string* kernel = nullptr;      ///< its name, for errors
  Checker* checker = nullptr;               ///< checked mode only

  template <class T>
  T* at(Ref r) const {
    return reinterpret_cast<T*>(base[r.buffer] + r.offset);
  }
};

/// How an instruction touches a buffer; read by the planner, dropped afterwards.
struct Access {
  std::uint32_t buffer;
  bool write;
};
/// The instruction tolerates that source and destination are the same memory.
struct InPlace {
  std::uint32_t source, destination;
};

class Instr;
using Code = std::vector<std::unique_ptr<Instr>>;

class Instr {
 public:
  Instr() = default;
  Instr(const Instr&) = delete;
  Instr& operator=(const Instr&) = delete;
  virtual ~Instr() = default;
  virtual Status run(Frame&) const = 0;
  /// Nested code in order of execution; the planner walks it.
  virtual std::vector<Code*> children() { return {}; }
  virtual bool is_loop() const { return false; }
  virtual bool writes_memory() const { return false; }  ///< of tensors
  /// A store that may read its tile from the memory of a tensor, even one that overlaps its destination.
  virtual bool copies_any_source() const { return false; }
  /// The buffer of a load that may use its tile where it lies in memory, if the planner finds that nothing writes the
  /// tensor before the tile's last use; -1: none.
  virtual std::int64_t borrowable() const { return -1; }
  virtual void borrow() {}
  /// Elements of a row, for a load that may also use a tile whose rows lie apart in memory; 0: none.
  virtual std::int64_t row_length() const { return 0; }
  virtual void borrow_rows() {}
  /// As well a tile in whose rows elements lie apart.
  virtual void borrow_strides() {}
  /// Whether the instruction can read the buffer's tile as rows of `length` elements that are Frame::pitch apart.
  virtual bool takes_rows(std::uint32_t /*buffer*/, std::int64_t /*length*/) const { return false; }
  /// Whether it can also find elements that are Frame::step apart in a row.
  virtual bool takes_strides(std::uint32_t /*buffer*/) const { return false; }
  /// From now on it does.
  virtual void take_rows(std::uint32_t /*buffer*/, std::int64_t /*length*/) {}
  virtual bool is_copy() const { return false; }  ///< does nothing where source and destination are one
  /// A copy that from now on passes its source's address on instead of the elements, where it can.
  virtual void forward() {}

  std::vector<Access> accesses;
  std::vector<InPlace> in_place;
};

inline Status run(const Code& code, Frame& frame) {
  for (const auto& instr : code)
    if (Status s = instr->run(frame); s != Status::Next) return s;
  return Status::Next;
}

}  // namespace tessera::cpu
