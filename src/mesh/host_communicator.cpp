// A communicator whose data the host moves: over threads or MPI. Where the host reaches the memory of all local ranks,
// a collective is one piece of work in stream order, and can be captured; elsewhere it runs at once, on copies.
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

#include "mesh/exchange.hpp"
#include "mesh/host_collectives.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/runtime/at_line.hpp"
#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream_core.hpp"
#include "tessera/runtime/transfer.hpp"

namespace tessera::mesh {

Communicator::~Communicator() = default;

const char* text_of(Collective kind) noexcept {
  static constexpr const char* kTexts[] = {
#define TESSERA_COLLECTIVE(Name, text) text,
#include "tessera/mesh/collectives.def"
  };
  return kTexts[static_cast<std::size_t>(kind)];
}

namespace {

/// The exchange with what every call needs of it; work in flight keeps it.
class Line {
 public:
  Line(std::shared_ptr<Exchange> exchange, int ranks_each) : exchange_(std::move(exchange)), ranks_each_(ranks_each) {}

  Exchange& exchange() const { return *exchange_; }
  int ranks_each() const { return ranks_each_; }
  int first() const { return exchange_->me() * ranks_each_; }

  void fail(const GroupFailure& failure) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (!failed_) failed_ = failure;
    }
    exchange_->abort(failure);
  }
  std::optional<GroupFailure> failure() const {
    const std::lock_guard lock(mutex_);
    return failed_;
  }
  void throw_if_failed(const char* label, SourceLocation where) const {
    const std::lock_guard lock(mutex_);
    if (failed_) throw_group_failure(*failed_, label, where);
  }
  /// Runs one collective after the other. What goes wrong here ends the group.
  void run(CollectiveHead head, std::span<const std::byte* const> in, std::span<std::byte* const> out) {
    const std::lock_guard lock(running_);
    head.number = ++calls_;
    try {
      run_collective(*exchange_, ranks_each_, head, in, out);
    } catch (const GroupError& e) {
      fail(e.failure());
      throw_group_failure(e.failure(), head.label, head.where);
    } catch (const std::exception& e) {
      fail({first(), concat("failed in ", head.label, ": ", e.what())});
      throw;
    }
  }

 private:
  std::shared_ptr<Exchange> exchange_;
  const int ranks_each_;
  std::mutex running_;
  std::uint64_t calls_ = 0;  // under running_
  mutable std::mutex mutex_;
  std::optional<GroupFailure> failed_;
};

/// One collective as work of a stream.
class CollectiveWork final : public runtime::Launchable {
 public:
  /// The places of a rank's operands among the accesses; -1: it has none.
  struct Place {
    int in = -1, out = -1;
    std::size_t in_offset = 0, out_offset = 0, out_bytes = 0;
  };
  CollectiveWork(std::shared_ptr<Line> line, const CollectiveHead& head, std::vector<Place> places)
      : line_(std::move(line)), head_(head), places_(std::move(places)) {}

  void launch(const runtime::LaunchContext& context) const override {
    if (context.immediate && line_->exchange().members() > 1) reject_default_stream();
    std::vector<const std::byte*> in;
    std::vector<std::byte*> out;
    const auto storage = [&](int access) -> runtime::Storage& {
      return *context.accesses[static_cast<std::size_t>(access)].storage;
    };
    for (const Place& p : places_) {
      in.push_back(p.in < 0 ? nullptr : storage(p.in).data() + p.in_offset);
      out.push_back(p.out < 0 ? nullptr : storage(p.out).data() + p.out_offset);
    }
    line_->run(head_, in, out);
    for (const Place& p : places_)
      if (p.out >= 0) storage(p.out).host_wrote(p.out_offset, p.out_bytes);
  }

  /// The other members wait for this one, which does not come.
  void skipped() const noexcept override {
    try {
      line_->fail({line_->first(),
                   concat("could not take part in ", head_.label, ", because what it was to pass on has failed")});
    } catch (...) {  // no memory for the text
      line_->fail({line_->first(), {}});
    }
  }

 private:
  [[noreturn]] void reject_default_stream() const {
    const MeshError error(
        concat(head_.label,
               " in a graph that is replayed on the default stream of the CPU: all threads share that stream, "
               "so the other ranks could not come while this one waits.\n  Replay it on the rank's own: "
               ".sync(mesh.stream(rank))."),
        head_.where);
    line_->fail({line_->first(), concat("could not take part in ", head_.label, ": ", error.message())});
    throw error;
  }

  std::shared_ptr<Line> line_;
  CollectiveHead head_;
  std::vector<Place> places_;
};

/// Bytes that a rank reads and writes.
std::pair<std::size_t, std::size_t> bytes_of(const CollectiveCall& call, int size) {
  const auto one = static_cast<std::size_t>(call.count) * static_cast<std::size_t>(size_of(call.element));
  const auto all = one * static_cast<std::size_t>(size);
  switch (call.kind) {
    case Collective::AllGather: return {one, all};
    case Collective::ReduceScatter: return {all, one};
    case Collective::Barrier: return {0, 0};
    default: return {one, one};
  }
}

class HostCommunicator final : public Communicator {
 public:
  HostCommunicator(std::shared_ptr<Exchange> exchange, int ranks_each)
      : line_(std::make_shared<Line>(std::move(exchange), ranks_each)),
        turn_(runtime::Storage::allocate(Device::cpu(), 1)) {}

  int size() const noexcept override { return line_->exchange().members() * line_->ranks_each(); }
  int first() const noexcept override { return line_->first(); }
  int locals() const noexcept override { return line_->ranks_each(); }
  const char* name() const noexcept override { return line_->exchange().name(); }

  void enqueue(const CollectiveCall& call) override {
    line_->throw_if_failed(call.label, call.where);
    bool reached = true;
    for (const RankOperands& r : call.ranks) reached = reached && r.stream.device().backend().host_accessible();
    reached ? enqueue_work(call) : run_on_copies(call);
  }

  std::shared_ptr<Communicator> split(int colour, SourceLocation where) override {
    line_->throw_if_failed("split", where);
    return host_communicator(line_->exchange().split(colour), line_->ranks_each());
  }

  std::shared_ptr<Communicator> companion(SourceLocation where) override {
    line_->throw_if_failed("a companion of a mesh", where);
    return host_communicator(line_->exchange().companion(), line_->ranks_each());
  }

  void abort(const GroupFailure& failure) noexcept override { line_->fail(failure); }
  std::optional<GroupFailure> failure() const override { return line_->failure(); }

 private:
  static CollectiveHead head_of(const CollectiveCall& call) {
    return {call.kind, call.element, call.count, call.peer, 0, call.label, call.where};
  }

  /// The storages, each once, with how they are used.
  static int add_access(std::vector<runtime::Access>& all, const runtime::StorageRef& storage,
                        runtime::AccessMode mode) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].storage != storage) continue;
      if (all[i].mode != mode) all[i].mode = runtime::AccessMode::ReadWrite;
      return static_cast<int>(i);
    }
    all.push_back({storage, mode});
    return static_cast<int>(all.size()) - 1;
  }

  void enqueue_work(const CollectiveCall& call) {
    using runtime::AccessMode;
    const auto [read, written] = bytes_of(call, size());
    std::vector<runtime::Access> accesses{{turn_, AccessMode::ReadWrite}};
    std::vector<CollectiveWork::Place> places;
    for (const RankOperands& r : call.ranks) {
      CollectiveWork::Place place{-1, -1, r.in_offset, r.out_offset, written};
      if (r.in && read != 0) place.in = add_access(accesses, r.in, AccessMode::Read);
      if (r.out && written != 0)
        place.out = add_access(accesses, r.out, written == r.out->bytes() ? AccessMode::Write : AccessMode::ReadWrite);
      places.push_back(place);
    }
    const auto work = std::make_shared<const CollectiveWork>(line_, head_of(call), std::move(places));
    runtime::Submission submission{work, {}, {}, accesses, call.label, call.where};
    submission.movable = true;
    call.ranks.front().stream.core()->submit(submission);
  }

  void run_on_copies(const CollectiveCall& call) {
    runtime::check_not_capturing(
        call.label, "The ranks' data passes through the host here: use NCCL, or run it outside the graph.", call.where);
    const auto [read, written] = bytes_of(call, size());
    std::vector<std::vector<std::byte>> from, to;
    std::vector<const std::byte*> in;
    std::vector<std::byte*> out;
    try {
      for (const RankOperands& r : call.ranks) {
        from.emplace_back(r.in ? read : 0), to.emplace_back(r.out ? written : 0);
        if (r.in && read != 0) runtime::copy_to_host(from.back().data(), *r.in, r.in_offset, read);
        in.push_back(r.in ? from.back().data() : nullptr);
        out.push_back(r.out ? to.back().data() : nullptr);
      }
    } catch (const std::exception& e) {
      line_->fail({first(), concat("could not take part in ", call.label, ": ", e.what())});
      throw;
    }
    line_->run(head_of(call), in, out);
    for (std::size_t i = 0; i < call.ranks.size(); ++i) {
      const RankOperands& r = call.ranks[i];
      if (r.out && written != 0) runtime::copy_from_host(*r.out, r.out_offset, to[i].data(), written);
    }
  }

  std::shared_ptr<Line> line_;
  /// Every collective writes it, so that they run in the order in which they were enqueued, whatever their streams.
  runtime::StorageRef turn_;
};

}  // namespace

std::shared_ptr<Communicator> host_communicator(std::shared_ptr<Exchange> exchange, int ranks_each) {
  return std::make_shared<HostCommunicator>(std::move(exchange), ranks_each);
}

std::vector<std::shared_ptr<Communicator>> thread_communicators(int members, int ranks_each, int timeout_ms) {
  std::vector<std::shared_ptr<Communicator>> all;
  for (auto& exchange : thread_exchanges(members, timeout_ms))
    all.push_back(host_communicator(std::move(exchange), ranks_each));
  return all;
}

}  // namespace tessera::mesh
