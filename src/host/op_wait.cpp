// How a flow awaits an operation, whatever its result.
#include "tessera/host/flow_run.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace tessera::detail {

OpWait::OpWait(const OpBase& op, FlowBranch& branch, SourceLocation where)
    : branch_(branch), where_(where), stream_(branch.stream ? *branch.stream : stream_for(op, where)) {}

bool OpWait::ready(OpBase& op) {
  if (stream_.core()->capturing()) return true;  // run() rejects what would wait
  before_waiting_for(op, stream_, work_);
  return work_.empty() || has_ended(work_);
}

void OpWait::await_suspend(std::coroutine_handle<> flow) { branch_.run->resume_after(flow, std::move(work_), where_); }

const Stream* captured_stream(const FlowBranch& branch) noexcept {
  return branch.stream && branch.stream->core()->capturing() ? &*branch.stream : nullptr;
}

}  // namespace tessera::detail
