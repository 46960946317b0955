// A fake of NCCL's library for tests: a shared library with the same functions, which is opened as the real one is. It
// moves data among the communicators of this process, in the order of the fake CUDA driver's streams, counts every
// call, fails or hangs at selected calls, and records every misuse.
#pragma once
#include <cstddef>
#include <functional>
#include <string>

namespace tessera::mesh::fake {

/// What the fake needs of the CUDA driver.
struct Driver {
  virtual ~Driver() = default;
  virtual int current_device() = 0;
  /// Enqueues a call on a stream of a device: it runs in the stream's order, once `ready` returns true.
  virtual void enqueue(int device, void* stream, std::function<bool()> ready, std::function<void()> run) = 0;
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* memory) = 0;
  /// Whether these bytes are memory that work may use now.
  virtual bool live(const void* memory, std::size_t bytes) = 0;
};

class Nccl {
 public:
  virtual ~Nccl() = default;
  /// Forgets everything. `driver` is used until the next reset.
  virtual void reset(Driver* driver) = 0;
  /// The `k`-th call from now (0: the next) that can fail returns `result`.
  virtual void fail_at(int k, int result) = 0;
  /// The `k`-th call from now stays in progress for ever, and does nothing.
  virtual void hang_at(int k) = 0;
  virtual bool fault_happened() const = 0;
  /// From now on this rank's communicators report `result` when they are asked.
  virtual void break_rank(int rank, int result) = 0;
  virtual void support_windows(bool on) = 0;
  virtual int calls() const = 0;
  virtual int aborts() const = 0;
  /// Collectives and messages of communicators that block.
  virtual int calls_that_blocked() const = 0;
  /// Collectives whose operands were in registered windows on all ranks.
  virtual int in_windows() const = 0;
  /// Empty if nothing was misused.
  virtual std::string violation() const = 0;
  /// "2 communicators": what was created and has not ended; empty if nothing.
  virtual std::string leaks() const = 0;
};

}  // namespace tessera::mesh::fake

extern "C" tessera::mesh::fake::Nccl* fake_nccl();
