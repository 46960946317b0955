// The communicator's calls, checked and translated for NCCL.
#include "mesh/nccl_communicator.hpp"

#include <cstdlib>
#include <utility>

#include "mesh/exchange.hpp"
#include "mesh/nccl_group.hpp"
#include "tessera/base/env.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::mesh {

namespace {

using nccl::RankCall;

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(const nccl::Library& library, std::vector<Stream> streams, const NcclOptions& options,
                   std::shared_ptr<nccl::Group> group)
      : library_(library),
        streams_(std::move(streams)),
        options_(options),
        group_(std::move(group)),
        work_(group_->make_work()) {}

  int size() const noexcept override { return group_->size(); }
  int first() const noexcept override { return group_->first(); }
  int locals() const noexcept override { return static_cast<int>(group_->locals()); }
  const char* name() const noexcept override { return "NCCL"; }
  std::optional<GroupFailure> failure() const override { return group_->failure(); }

  void enqueue(const CollectiveCall& call) override {
    group_->throw_if_failed(call.label, call.where);
    std::vector<RankCall> calls;
    for (std::size_t i = 0; i < call.ranks.size(); ++i) calls.push_back(check(call, call.ranks[i]));
    if (call.ranks.size() != group_->locals())
      throw InternalError(concat(call.label, ": operands of ", call.ranks.size(), " ranks, of ", group_->locals()));
    if (call.count == 0 && call.kind != Collective::Barrier) return;
    group_->submit(work_, calls, call.ranks, call.label, call.where);
  }
  std::shared_ptr<Communicator> split(int colour, SourceLocation where) override {
    group_->throw_if_failed("splitting a mesh", where);
    if (colour < 0)
      throw MeshError(concat("the colour of a part of a mesh is ", colour, "; expected 0 or more"), where);
    auto part = std::make_shared<nccl::Group>(library_, streams_, options_);
    part->create_from(*group_, colour, where);
    return std::make_shared<NcclCommunicator>(library_, streams_, options_, std::move(part));
  }
  void abort(const GroupFailure& failure) noexcept override { group_->abort(failure); }

 private:
  RankCall check(const CollectiveCall& call, const RankOperands& operands) const {
    RankCall made;
    made.kind = call.kind;
    made.element = call.element;
    made.count = call.count;
    made.peer = call.peer;
    made.reads = operands.in != nullptr;
    made.writes = operands.out != nullptr;
    made.same = operands.in == operands.out && made.reads;
    made.in_offset = operands.in_offset;
    made.out_offset = operands.out_offset;
    const bool sums = call.kind == Collective::AllReduce || call.kind == Collective::ReduceScatter;
    if (sums && !nccl::can_sum(call.element))
      throw MeshError(
          concat(call.label, ": NCCL does not add elements of type ", info(call.element).name,
                 "; it adds f64, f32, f16, bf16, and integers of 8, 32 and 64 bits.\n  Convert them first."),
          call.where);
    const bool named =
        call.kind == Collective::Broadcast || call.kind == Collective::Send || call.kind == Collective::Receive;
    if (named && (call.peer < 0 || call.peer >= group_->size()))
      throw MeshError(concat(call.label, ": there is no rank ", call.peer, "; the group has ", group_->size()),
                      call.where);
    check_size(call, "reads", operands.in, operands.in_offset, made.in_bytes(group_->size()));
    check_size(call, "writes", operands.out, operands.out_offset, made.out_bytes(group_->size()));
    return made;
  }
  static void check_size(const CollectiveCall& call, const char* what, const runtime::StorageRef& storage,
                         std::size_t offset, std::size_t bytes) {
    if (storage == nullptr || (offset <= storage->bytes() && bytes <= storage->bytes() - offset)) return;
    throw InternalError(
        concat(call.label, " ", what, " ", bytes, " bytes from ", offset, " of a storage of ", storage->bytes()));
  }

  const nccl::Library& library_;
  std::vector<Stream> streams_;
  NcclOptions options_;
  std::shared_ptr<nccl::Group> group_;
  nccl::Work work_;
};

}  // namespace

NcclOptions nccl_options() {
  NcclOptions options;
  options.timeout_ms = timeout_of_environment();
  if (env_flag(Env::NCCL_WINDOWS, false)) options.window_bytes = kWindowBytes;
  return options;
}

nccl::UniqueId nccl_id(const nccl::Library& library, SourceLocation where) {
  nccl::UniqueId id;
  const nccl::Result result = library.ncclGetUniqueId(&id);
  if (result == nccl::Result::Success) return id;
  throw MeshError(concat("ncclGetUniqueId: ", nccl::result_text(library, result, nullptr),
                         "\n  NCCL looks for a network interface here; NCCL_SOCKET_IFNAME names one, and "
                         "NCCL_DEBUG=WARN says more."),
                  where);
}

void set_nccl_meeting_point(const MeetingPoint& point) {
  const bool ipv6 = point.address.find(':') != std::string::npos;
  const std::string host = ipv6 ? concat("[", point.address, "]") : point.address;
  setenv("NCCL_COMM_ID", concat(host, ":", point.nccl_port).c_str(), 0);
}

std::shared_ptr<Communicator> nccl_communicator(const nccl::Library& library, const nccl::UniqueId& id, int size,
                                                int first, std::span<const Stream> streams, const NcclOptions& options,
                                                SourceLocation where) {
  for (const Stream& stream : streams) {
    if (stream.device().kind() != DeviceKind::Cuda)
      throw DeviceError(concat("NCCL connects GPUs, and ", stream.device().name(),
                               " is none.\n  Use MPI or threads for ranks on the CPU."),
                        where);
  }
  runtime::check_not_capturing("creating a communicator", "Create it before the capture.", where);
  auto group = std::make_shared<nccl::Group>(library, streams, options);
  group->create(id, size, first, where);
  return std::make_shared<NcclCommunicator>(library, std::vector<Stream>(streams.begin(), streams.end()), options,
                                            std::move(group));
}

}  // namespace tessera::mesh
