// The parts of operations that do not depend on template parameters, and their allocator: every launch creates and
// destroys an operation, so each thread reuses the blocks of its last few, by size.
#include "tessera/host/op.hpp"

#include <array>
#include <new>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/sanitizers.hpp"
#include "tessera/lang/tracer.hpp"
#include "tessera/runtime/stream_core.hpp"
#include "tessera/runtime/sync_scope.hpp"

// Not under the address sanitizer, so that it detects every use after free.
#define TESSERA_REUSE_OPERATIONS !TESSERA_ASAN

namespace tessera::detail {
namespace {

constexpr std::size_t kStep = 128, kClasses = 24;  // operations of up to 3 KiB
constexpr unsigned kMost = 8;                      // blocks kept of each size: operations alive at once are few

struct Block {
  Block* next;
};

struct Pool {
  struct Class {
    Block* first = nullptr;
    unsigned count = 0;
  };
  std::array<Class, kClasses> classes;
  bool ended = false;  // an operation may outlive its thread's pool while the thread ends
  ~Pool() {
    ended = true;
    for (Class& c : classes) {
      while (Block* block = c.first) {
        c.first = block->next;
        ::operator delete(block);
      }
    }
  }
};

thread_local Pool pool;

}  // namespace

void* OpBase::operator new(std::size_t bytes) {
  const std::size_t index = (bytes + kStep - 1) / kStep;
  if (index >= kClasses) return ::operator new(bytes);
  if (TESSERA_REUSE_OPERATIONS && !pool.ended) {
    Pool::Class& c = pool.classes[index];
    if (Block* block = c.first) {
      c.first = block->next;
      --c.count;
      return block;
    }
  }
  return ::operator new(index* kStep);
}

void OpBase::operator delete(void* memory, std::size_t bytes) noexcept {
  const std::size_t index = (bytes + kStep - 1) / kStep;
  if (TESSERA_REUSE_OPERATIONS && index < kClasses && !pool.ended) {
    Pool::Class& c = pool.classes[index];
    if (c.count < kMost) {
      c.first = new (memory) Block{c.first};
      ++c.count;
      return;
    }
  }
  ::operator delete(memory);
}

void* OpBase::operator new(std::size_t bytes, std::align_val_t alignment) { return ::operator new(bytes, alignment); }
void OpBase::operator delete(void* memory, std::size_t, std::align_val_t alignment) noexcept {
  ::operator delete(memory, alignment);
}

OpBase::~OpBase() = default;
void OpBase::before_waiting(const Stream&, std::vector<runtime::Ticket>&) {}
bool OpBase::compile(const CompileRequest&, jit::CodeReport&) { return false; }
runtime::Backend* OpBase::device() const noexcept { return nullptr; }
bool OpBase::promise(std::span<std::int64_t>, std::span<std::int64_t>) const noexcept { return false; }

void throw_spent_op(SourceLocation where) {
  throw BorrowError(
      "this operation has been run or moved already: an Op runs once.\n  Build it again, or keep its result instead of "
      "the operation.",
      where);
}

void throw_null_function(const char* what, SourceLocation where) {
  throw BorrowError(concat(what,
                           ": expected a function, found a null function pointer or an empty std::function.\n  "
                           "Assign it before this call."),
                    where);
}

bool recording_a_kernel() noexcept { return lang::Tracer::maybe() != nullptr; }

void throw_while_recording(const char* what, SourceLocation where) {
  const std::string recorded = lang::Tracer::current().kernel_name();
  throw TraceError(
      concat(what != nullptr ? what : "an operation of the host", what != nullptr ? " was launched" : " was run",
             " while kernel ", recorded,
             " is being recorded: a kernel's body runs once, on the host, so this would run then, and never in the "
             "kernel.\n  Launch it before or after ",
             recorded, "; to make what a kernel does part of another one, call a helper function."),
      where);
}

void throw_no_memory_to_run(SourceLocation where) {
  throw DeviceError("out of host memory while this operation was compiled and enqueued.\n  Free what is not needed.",
                    where);
}

void check_can_wait(const Stream& stream, SourceLocation where) {
  if (!stream.core()->capturing()) [[likely]]
    return;
  throw DeviceError(
      "sync() on a stream that is being captured into a graph: the work does not run now, so nothing can wait for it.\n"
      "  Write .on(stream), and wait for the replay.",
      where);
}

void run_operation(void (*run)(void*), void* state, const Stream& stream, bool wait, SourceLocation where) {
  try {
    if (!wait) return with_stack([&] { run(state); });
    check_can_wait(stream, where);
    runtime::SyncScope scope;  // this operation's work only: the stream may be shared with other threads
    with_stack([&] { run(state); });
    scope.wait();
  } catch (const std::bad_alloc&) { throw_no_memory_to_run(where); }
}

Stream stream_for(const OpBase& op, SourceLocation where) {
  runtime::Backend* backend = device_of(op);
  return Stream::default_of(backend ? Device(*backend) : default_device(where));
}

}  // namespace tessera::detail
