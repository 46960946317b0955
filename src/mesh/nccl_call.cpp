// One collective of one rank on its way to NCCL.
#include <utility>

#include "mesh/nccl_group.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace tessera::mesh::nccl {

namespace {

struct AddedType {
  DataType type{};
  bool exists = false;
};
AddedType added_type(ElementType element) noexcept {
  switch (element) {
    case ElementType::f64: return {DataType::Float64, true};
    case ElementType::f32: return {DataType::Float32, true};
    case ElementType::f16: return {DataType::Float16, true};
    case ElementType::bf16: return {DataType::Bfloat16, true};
    case ElementType::i64: return {DataType::Int64, true};
    case ElementType::u64: return {DataType::Uint64, true};
    case ElementType::i32: return {DataType::Int32, true};
    case ElementType::u32: return {DataType::Uint32, true};
    case ElementType::i8: return {DataType::Int8, true};
    case ElementType::u8: return {DataType::Uint8, true};
    default: return {};
  }
}

}  // namespace

bool can_sum(ElementType element) noexcept { return added_type(element).exists; }

RankCall::Slots RankCall::slots() const noexcept {
  const std::uint64_t flags = (reads ? 1U : 0U) | (writes ? 2U : 0U) | (same ? 4U : 0U);
  return {static_cast<std::uint64_t>(kind) | static_cast<std::uint64_t>(element) << 8 |
              static_cast<std::uint64_t>(operation) << 16 | flags << 24 | static_cast<std::uint64_t>(peer) << 32,
          static_cast<std::uint64_t>(count), in_offset, out_offset, 0};
}

RankCall RankCall::of(std::span<const std::uint64_t> slots) noexcept {
  RankCall call;
  call.kind = static_cast<Collective>(slots[0] & 0xFF);
  call.element = static_cast<ElementType>(slots[0] >> 8 & 0xFF);
  call.operation = static_cast<Operation>(slots[0] >> 16 & 0xFF);
  call.reads = (slots[0] >> 24 & 1) != 0;
  call.writes = (slots[0] >> 24 & 2) != 0;
  call.same = (slots[0] >> 24 & 4) != 0;
  call.peer = static_cast<int>(slots[0] >> 32);
  call.count = static_cast<std::int64_t>(slots[1]);
  call.in_offset = slots[2];
  call.out_offset = slots[3];
  return call;
}

std::size_t RankCall::in_bytes(int ranks) const noexcept {
  if (!reads) return 0;
  const std::size_t bytes = static_cast<std::size_t>(count) * static_cast<std::size_t>(size_of(element));
  return kind == Collective::ReduceScatter ? bytes * static_cast<std::size_t>(ranks) : bytes;
}
std::size_t RankCall::out_bytes(int ranks) const noexcept {
  if (!writes) return 0;
  const std::size_t bytes = static_cast<std::size_t>(count) * static_cast<std::size_t>(size_of(element));
  return kind == Collective::AllGather ? bytes * static_cast<std::size_t>(ranks) : bytes;
}

Group::Which Group::which(Collective kind) noexcept {
  const bool message = kind == Collective::Send || kind == Collective::Receive;
  return message ? &Rank::comm : &Rank::calls;
}

void CollectiveWork::launch(const runtime::LaunchContext& context) const { group_->launch(local_, context); }

/// What only moves elements moves bytes.
Result Group::issue(Rank& rank, const RankCall& call, const std::byte* in, std::byte* out, void* stream) const {
  const Comm comm = rank.*which(call.kind);
  const auto count = static_cast<std::size_t>(call.count);
  const std::size_t bytes = count * static_cast<std::size_t>(size_of(call.element));
  const DataType type = added_type(call.element).type;
  switch (call.kind) {
    case Collective::AllReduce: return library_.ncclAllReduce(in, out, count, type, call.operation, comm, stream);
    case Collective::ReduceScatter:
      return library_.ncclReduceScatter(in, out, count, type, call.operation, comm, stream);
    case Collective::AllGather: return library_.ncclAllGather(in, out, bytes, DataType::Uint8, comm, stream);
    case Collective::Broadcast:
      return library_.ncclBroadcast(in != nullptr ? in : out, out, bytes, DataType::Uint8, call.peer, comm, stream);
    case Collective::Send: return library_.ncclSend(in, bytes, DataType::Uint8, call.peer, comm, stream);
    case Collective::Receive: return library_.ncclRecv(out, bytes, DataType::Uint8, call.peer, comm, stream);
    case Collective::Barrier: {
      void* const token = rank.token->data();
      return library_.ncclAllReduce(token, token, 1, DataType::Int32, Operation::Min, comm, stream);
    }
  }
  throw InternalError("a collective that NCCL does not have");
}

/// The collectives for which NCCL has kernels over symmetric windows.
bool Group::goes_through_window(const Rank& rank, const RankCall& call) const noexcept {
  if (rank.registered == nullptr || call.count == 0) return false;
  const bool kind = call.kind == Collective::AllReduce || call.kind == Collective::AllGather ||
                    call.kind == Collective::ReduceScatter;
  return kind && call.in_bytes(size_) <= options_.window_bytes && call.out_bytes(size_) <= options_.window_bytes;
}

void Group::launch(std::size_t local, const runtime::LaunchContext& context) {
  Rank& rank = *ranks_[local];
  const RankCall call = RankCall::of(context.args);
  const char* const text = text_of(call.kind);
  const runtime::StorageRef* next = nullptr;
  std::size_t used = 0;
  const bool windowed = goes_through_window(rank, call);
  const auto take = [&](bool exists) { return exists ? &context.accesses[used++].storage : next; };
  const runtime::StorageRef* const in = take(call.reads && !windowed);
  const runtime::StorageRef* const out = call.same ? in : take(call.writes && !windowed);
  const std::byte* from = in != nullptr ? (*in)->data() + call.in_offset : nullptr;
  std::byte* to = out != nullptr ? (*out)->data() + call.out_offset : nullptr;
  if (windowed) {
    from = rank.window->data();
    to = rank.window->data() + options_.window_bytes;
  }
  const Calling calling(rank);
  const Result result = with_lock(rank, [&] { return issue(rank, call, from, to, context.native_queue); });
  // Within a group of NCCL's, the end of the group says how the calls went.
  if (locals() == 1 || result != Result::InProgress) settle(rank, which(call.kind), result, text, text, {});
}

std::vector<runtime::Access> Group::accesses_of(Rank& rank, const RankCall& call, const RankOperands& operands) const {
  using runtime::AccessMode;
  std::vector<runtime::Access> accesses;
  if (call.reads)
    accesses.push_back({operands.in, call.same && call.writes ? AccessMode::ReadWrite : AccessMode::Read});
  if (call.writes) {
    const bool whole = call.out_offset == 0 && call.out_bytes(size_) == operands.out->bytes();
    if (!call.same) accesses.push_back({operands.out, whole ? AccessMode::Write : AccessMode::ReadWrite});
    operands.out->count_as_written();  // NCCL does not know the record of checked mode
  }
  accesses.push_back({rank.token, AccessMode::ReadWrite});
  return accesses;
}

/// The copy into the window, the collective, and the copy out of it, each as work of its own: what has been enqueued
/// when one of them fails is known to the storages. (In a group of several local ranks there are no windows, because
/// NCCL enqueues at the group's end.)
runtime::Ticket Group::submit_through_window(Rank& rank, const std::shared_ptr<const runtime::Launchable>& collective,
                                             const RankCall& call, const RankOperands& operands, const char* label,
                                             SourceLocation where) {
  using runtime::Access;
  using runtime::AccessMode;
  const auto put = [&](const std::shared_ptr<const runtime::Launchable>& work, std::span<const std::uint64_t> slots,
                       std::span<const Access> accesses) {
    runtime::Submission submission{work, {}, slots, accesses, label, where};
    submission.movable = true;
    return operands.stream.core()->submit(submission);
  };
  const std::array<std::uint64_t, 3> in{0, call.in_offset, call.in_bytes(size_)};
  put(rank.copy, in, std::array{Access{rank.window, AccessMode::ReadWrite}, Access{operands.in, AccessMode::Read}});
  put(collective, call.slots(),
      std::array{Access{rank.window, AccessMode::ReadWrite}, Access{rank.token, AccessMode::ReadWrite}});
  const std::array<std::uint64_t, 3> out{call.out_offset, options_.window_bytes, call.out_bytes(size_)};
  // The token, for which the group's end waits, too.
  return put(rank.copy, out,
             std::array{Access{operands.out, AccessMode::ReadWrite}, Access{rank.window, AccessMode::Read},
                        Access{rank.token, AccessMode::ReadWrite}});
}

void Group::submit(const Work& work, std::span<const RankCall> calls, std::span<const RankOperands> operands,
                   const char* label, SourceLocation where) {
  std::vector<std::vector<runtime::Access>> accesses;
  for (std::size_t i = 0; i < calls.size(); ++i) accesses.push_back(accesses_of(*ranks_[i], calls[i], operands[i]));
  const auto submit_one = [&](std::size_t i) -> runtime::Ticket {
    const RankCall::Slots slots = calls[i].slots();
    if (goes_through_window(*ranks_[i], calls[i]))
      return submit_through_window(*ranks_[i], work[i], calls[i], operands[i], label, where);
    runtime::Submission submission{work[i], {}, slots, accesses[i], label, where};
    submission.movable = true;
    return operands[i].stream.core()->submit(submission);
  };
  if (locals() == 1) {
    Rank& rank = *ranks_.front();
    const bool captured = operands.front().stream.core()->capturing();
    if (!captured) wait_for_graphs(rank, label, where);
    runtime::Ticket ticket = submit_one(0);
    const std::lock_guard lock(rank.mutex);
    if (!captured) rank.launched = std::move(ticket);
    return;
  }
  for (const RankOperands& one : operands) {
    if (one.stream.core()->capturing())
      throw MeshError(concat(label,
                             ": collectives of a thread with several ranks cannot be captured into a graph, because "
                             "each device has a graph of its own.\n  Capture in one thread for each rank."),
                      where);
  }
  as_one(which(calls.front().kind), label, label, where, [&](std::size_t i) {
    const bool only_here = calls[i].kind == Collective::Send || calls[i].kind == Collective::Receive;
    if (!only_here || calls[i].reads || calls[i].writes) submit_one(i);
    return Result::Success;
  });
  // Only now NCCL has enqueued its kernels: the uses are noted behind them.
  for (std::size_t i = 0; i < calls.size(); ++i) {
    for (const runtime::Access& access : accesses[i]) access.storage->record(operands[i].stream.core(), access.mode);
  }
}

}  // namespace tessera::mesh::nccl
