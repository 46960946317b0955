// The parts of operations that do not depend on template parameters.
#include "tessera/host/op.hpp"

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/lang/tracer.hpp"
#include "tessera/runtime/stream_core.hpp"
#include "tessera/runtime/sync_scope.hpp"

namespace tessera::detail {

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
