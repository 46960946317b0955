// The interpreter: performs each operation through the runtime's own interface, predicts what it must do, and passes to
// the device what each piece of work must find.
#include "runtime/model/run.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "runtime/model/graph_program.hpp"
#include "runtime/model/world.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/runtime/transfer.hpp"

namespace tessera::runtime::model {

namespace {

/// The operations whose failure something carries, one bit each. Several: one of them. Where failures become known
/// late, work with two failed inputs carries the failure that is known first.
using Failures = std::uint64_t;
constexpr Failures kNone = 0;
constexpr Failures failure_of(int operation) { return Failures{1} << operation; }
bool one_of_several(Failures failures) { return (failures & (failures - 1)) != 0; }

/// What the sequential program knows of a storage.
struct Object {
  std::uint64_t value = 0;
  bool known = false;
  Failures failure = kNone;  ///< that the contents carry
};

/// A handle of the program.
struct Handle {
  StorageRef storage;
  int object = 0;
};

/// A graph that has been captured.
struct CapturedGraph {
  std::shared_ptr<GraphProgram> program;
  Handle y, x;
  int memory = 0;  ///< the object of its temporaries
};

/// A mix that has been built and not enqueued.
struct Pending {
  Handle y, x;
  LeaseLink write, read;
};

class Interpreter {
 public:
  Interpreter(Choices& choices, World& world, bool foreign) : choices_(choices), world_(world), foreign_(foreign) {}

  void run(const Program& program) {
    set_up(program);
    world_.allow_faults(true);
    for (const Operation& op : program) {
      if (world_.stopped() || world_.dead()) break;
      number_ = static_cast<int>(&op - program.data());
      world_.note(concat("program: ", text(Program{op})));
      perform(op);
    }
    const bool dead = world_.dead();
    if (!dead) world_.allow_faults(false);
    tear_down();
    if (dead) world_.heal();
    world_.run_all();
    if (const std::string left = world_.left(); !left.empty() && !world_.stopped())
      world_.violate(concat("at the end there are left: ", left));
  }

 private:
  using How = Ended::How;

  template <class F>
  Ended attempt(F f) {
    try {
      f();
      return {};
    } catch (const BorrowError& error) { return {How::Rejected, -1, error.message()}; } catch (...) {
      return world_.classify();
    }
  }

  void violate(const std::string& text) { world_.violate(concat("operation ", number_, ": ", text)); }

  void set_up(const Program& program) {
    int streams = 1, storages = 1;
    for (const Operation& op : program) {
      streams = std::max({streams, op.stream + 1, op.kind == Kind::Renew ? op.x + 1 : 1});
      storages = std::max({storages, op.y + 1, op.kind == Kind::Renew ? 1 : op.x + 1});
    }
    for (int i = 0; i < streams; ++i) streams_.push_back(StreamCore::create(world_.device()));
    logs_.resize(streams_.size());
    for (int i = 0; i < storages; ++i) {
      const std::uint64_t value = 101u + static_cast<unsigned>(i);
      Handle handle;
      if (foreign_ && i == 0) {
        void* memory = nullptr;
        const auto owner = world_.make_foreign(&memory);
        handle.storage = Storage::adopt(world_.device(), memory, 8, owner);
      } else {
        handle.storage = Storage::allocate(world_.device(), 8);
      }
      copy_from_host(*handle.storage, 0, &value, sizeof value);
      handle.object = add_object({value, true, kNone});
      handles_.push_back(std::move(handle));
    }
  }

  void tear_down() {
    const bool streams_first = !world_.stopped() && choices_.pick(2) == 1;
    if (streams_first) streams_.clear();
    cancel();
    drop_graph();
    for (Handle& handle : handles_) drop(handle.storage);
    handles_.clear();
    streams_.clear();
  }

  int add_object(const Object& object) {
    objects_.push_back(object);
    return static_cast<int>(objects_.size()) - 1;
  }
  Object& object(const Handle& handle) { return objects_[static_cast<std::size_t>(handle.object)]; }

  void drop(StorageRef& storage) {
    if (storage && !world_.stopped()) world_.before_drop(*storage);
    storage.reset();
  }
  void cancel() {
    if (!pending_) return;
    const auto pending = std::move(pending_);
    pending->write.release();
    pending->read.release();
    drop(pending->y.storage);
    drop(pending->x.storage);
  }

  // -- leases --
  bool must_reject(const Handle& wanted, bool write) const {
    if (!pending_) return false;
    if (wanted.storage == pending_->y.storage) return true;
    return write && wanted.storage == pending_->x.storage;
  }
  /// Takes a lease; true if it was granted. Any other result than the expected one is a violation.
  bool take(LeaseLink& link, const Handle& handle, bool write, bool reject) {
    const Ended ended = attempt([&] { link.take(*handle.storage, write, {.what = "model"}); });
    if (ended.how == How::Rejected && !reject) violate(concat("a lease was rejected: ", ended.text));
    if (ended.how == How::Well && reject) violate("a lease was granted although another conflicts with it");
    if (ended.how != How::Rejected && ended.how != How::Well) violate(concat("taking a lease: ", ended.text));
    return ended.how == How::Well;
  }

  // -- operations --
  void perform(const Operation& op) {
    Handle& y = handles_[op.kind == Kind::Read ? op.x : op.y];
    switch (op.kind) {
      case Kind::Mix:
      case Kind::Fail: mix(op, false); break;
      case Kind::Wait:
      case Kind::FailWait: mix(op, true); break;
      case Kind::Fill:
      case Kind::Read: {
        LeaseLink lease;
        const bool write = op.kind == Kind::Fill;
        if (!take(lease, y, write, must_reject(y, write))) break;
        Access access{y.storage, write ? AccessMode::Write : AccessMode::Read, &lease};
        submit(op.stream, {&access, 1}, {&y.object, 1}, false);
        break;
      }
      case Kind::Renew: renew(op, y); break;
      case Kind::HostRead: host_read(y); break;
      case Kind::HostWrite: host_write(y); break;
      case Kind::Build: {
        cancel();  // what could not be enqueued
        auto made = std::make_unique<Pending>();
        made->y = handles_[op.y], made->x = handles_[op.x];
        if (take(made->write, made->y, true, false) && take(made->read, made->x, false, op.x == op.y))
          pending_ = std::move(made);
        break;
      }
      case Kind::Submit: submit_pending(op); break;
      case Kind::Cancel: cancel(); break;
      case Kind::Sync: sync(op); break;
      case Kind::Restart: restart(op); break;
      case Kind::Capture: capture(op); break;
      case Kind::Replay: replay(op); break;
      case Kind::Number:
        if (graph_) graph_->program->change_number();
        break;
      case Kind::DropGraph: drop_graph(); break;
    }
  }

  void mix(const Operation& op, bool wait) {
    LeaseLink write, read;
    const Handle &y = handles_[op.y], &x = handles_[op.x];
    if (!take(write, y, true, must_reject(y, true))) return;
    if (!take(read, x, false, op.x == op.y || must_reject(x, false))) return;
    const std::array<Access, 2> accesses{
        {{y.storage, AccessMode::ReadWrite, &write}, {x.storage, AccessMode::Read, &read}}};
    const std::array<int, 2> objects{y.object, x.object};
    const bool fails = op.kind == Kind::Fail || op.kind == Kind::FailWait;
    const std::optional<Submitted> done = submit(op.stream, accesses, objects, fails);
    if (!done || !wait) return;
    const Ended ended = attempt([&] { runtime::wait(done->ticket, accesses); });
    if (ended.how == How::Injected) return;
    expect(ended, done->failure, "waiting for work");
    if (done->failure == kNone) return;
    report(ended);
    if (object(y).failure == done->failure) object(y).failure = kNone;
  }

  struct Submitted {
    Ticket ticket;
    Failures failure;
  };
  /// Enqueues work on `accesses`, the first of which is its target. Nothing if the call failed.
  std::optional<Submitted> submit(int stream, std::span<const Access> accesses, std::span<const int> objects,
                                  bool fails) {
    auto made = std::make_unique<Work>();
    Work& work = *made;
    work.operation = number_;
    work.fails = fails;
    work.overwrites = accesses[0].mode == AccessMode::Write;
    work.addend = 1000u + 7u * static_cast<unsigned>(number_);
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      const Object& o = objects_[static_cast<std::size_t>(objects[i])];
      work.touches.push_back({-1, 0, accesses[i].mode, o.known, o.value});
    }
    works_.push_back(std::move(made));
    Submitted result{{}, kNone};
    const auto& core = streams_[static_cast<std::size_t>(stream)];
    const Ended ended = attempt([&] { result.ticket = world_.submit(*core, work, accesses); });
    for (const Access& access : accesses) {
      const bool held = access.lease->storage() != nullptr;
      if (ended.how == How::Well && held) violate("work was enqueued and its lease is still held");
      if (ended.how != How::Well && !held) violate("work was rejected and its lease has ended");
    }
    if (ended.how == How::Injected) return std::nullopt;
    expect(ended, kNone, "enqueuing work");
    result.failure = effect(stream, accesses, objects, work);
    return result;
  }

  /// The failure of what is read.
  Failures inherited(std::span<const Access> accesses, std::span<const int> objects) const {
    Failures failure = kNone;
    for (std::size_t i = accesses.size(); i-- > 0;) {
      const Object& o = objects_[static_cast<std::size_t>(objects[i])];
      if (accesses[i].mode == AccessMode::Write || o.failure == kNone) continue;
      failure = world_.failures_come_late() ? failure | o.failure : o.failure;
    }
    return failure;
  }
  /// What the work does in the sequential program; the failure that it ends with.
  Failures effect(int stream, std::span<const Access> accesses, std::span<const int> objects, const Work& work) {
    Failures failure = inherited(accesses, objects);
    if (failure == kNone && work.fails) failure = failure_of(work.operation);
    if (failure != kNone) logs_[static_cast<std::size_t>(stream)].push_back(failure);
    Object& target = objects_[static_cast<std::size_t>(objects[0])];
    if (accesses[0].mode == AccessMode::Read) return failure;
    target.failure = failure;
    if (failure != kNone) {
      target.known = false;
    } else if (work.overwrites) {
      target.known = true;
      target.value = work.addend;
    } else {
      const Object& x = objects_[static_cast<std::size_t>(objects[1])];
      target.known = target.known && x.known;
      target.value = mixed(target.value, x.value, work.addend);
    }
    return failure;
  }

  void submit_pending(const Operation& op) {
    if (!pending_) return;  // building it was rejected
    Pending& pending = *pending_;
    const std::array<Access, 2> accesses{{{pending.y.storage, AccessMode::ReadWrite, &pending.write},
                                          {pending.x.storage, AccessMode::Read, &pending.read}}};
    const std::array<int, 2> objects{pending.y.object, pending.x.object};
    if (submit(op.stream, accesses, objects, false)) cancel();  // its leases have ended, its references go
  }

  void renew(const Operation& op, Handle& y) {
    Handle made;
    Ended ended = attempt([&] { made.storage = Storage::allocate(streams_[op.stream], 8); });
    if (ended.how == How::Injected) return;
    expect(ended, kNone, "allocating");
    if (!made.storage) return;
    made.object = add_object({});
    bool enqueued = false;
    {
      LeaseLink lease;
      take(lease, made, true, false);
      const Access access{made.storage, AccessMode::Write, &lease};
      enqueued = submit(op.x, {&access, 1}, {&made.object, 1}, false).has_value();
    }
    if (enqueued) std::swap(made, y);
    drop(made.storage);
  }

  void host_read(const Handle& y) {
    LeaseLink lease;
    if (!take(lease, y, false, must_reject(y, false))) return;
    std::uint64_t value = 0;
    const Ended ended = attempt([&] { copy_to_host(&value, *y.storage, 0, sizeof value); });
    if (ended.how == How::Injected) return;
    expect(ended, object(y).failure, "reading");
    if (object(y).failure != kNone) return report(ended);
    if (object(y).known && value != object(y).value)
      violate("the host reads other contents than those of the program's order");
  }

  void host_write(const Handle& y) {
    LeaseLink lease;
    if (!take(lease, y, true, must_reject(y, true))) return;
    const std::uint64_t value = 5000u + static_cast<unsigned>(number_);
    const Ended ended = attempt([&] { copy_from_host(*y.storage, 0, &value, sizeof value); });
    if (ended.how == How::Injected && world_.failed_writes_write()) object(y).known = false;
    if (ended.how == How::Injected) return;
    expect(ended, kNone, "writing");
    object(y) = {value, true, kNone};
  }

  void sync(const Operation& op) {
    const auto& log = logs_[op.stream];
    Failures first = kNone, all = kNone;
    for (const Failures failure : log) {
      all |= failure;
      if (one_of_several(failure)) unsure_ |= failure;
      if (first == kNone) first = failure & ~reported_;
    }
    const Ended ended = attempt([&] { streams_[op.stream]->synchronize(); });
    if (ended.how == How::Injected) return;
    if (world_.failures_come_late() && first != kNone) first = all & ~reported_;
    if ((all & unsure_) == 0 || ended.how == How::Rejected || ended.how == How::Strange)
      expect(ended, first, "synchronizing");
    reported_ |= all;
  }

  // -- graphs --
  void capture(const Operation& op) {
    CapturedGraph made{nullptr, handles_[op.y], handles_[op.x], 0};
    const Ended ended = attempt(
        [&] { made.program = std::make_shared<GraphProgram>(world_, made.y.storage, made.x.storage, number_); });
    if (ended.how != How::Injected) expect(ended, kNone, "capturing");
    if (!made.program) return;
    made.memory = add_object({});
    graph_ = std::move(made);
  }

  void replay(const Operation& op) {
    if (!graph_) return;  // capturing it failed
    const auto recorded = graph_->program->recording().accesses();
    std::vector<Access> accesses(recorded.begin(), recorded.end());
    std::vector<LeaseLink> leases(accesses.size());
    std::vector<int> objects;
    Failures failure = kNone;
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      const bool is_y = accesses[i].storage == graph_->y.storage, is_x = accesses[i].storage == graph_->x.storage;
      const Handle used{accesses[i].storage, is_y ? graph_->y.object : is_x ? graph_->x.object : graph_->memory};
      const bool write = accesses[i].mode != AccessMode::Read;
      if (!take(leases[i], used, write, must_reject(used, write))) return;
      accesses[i].lease = &leases[i];
      objects.push_back(used.object);
    }
    const auto& core = streams_[op.stream];
    const Ended ended = attempt([&] { core->submit(graph_->program->replay(accesses)); });
    for (const LeaseLink& lease : leases) {
      if ((ended.how == How::Well) == (lease.storage() != nullptr)) violate("the leases of a replay after it");
    }
    if (ended.how == How::Injected) return;
    expect(ended, kNone, "enqueuing a replay");
    failure = inherited(accesses, objects);
    if (failure != kNone) logs_[op.stream].push_back(failure);
    Object &y = object(graph_->y), &x = object(graph_->x);
    y.failure = x.failure = failure;
    y.known = y.known && failure == kNone;
    x.known = x.known && failure == kNone;
    graph_->program->apply(y.value, x.value);
  }

  void drop_graph() {
    if (!graph_) return;
    if (!world_.stopped()) {
      for (const Access& access : graph_->program->recording().accesses()) world_.before_drop(*access.storage);
    }
    ended_graphs_.push_back(graph_->program->end());
    graph_.reset();
  }

  void restart(const Operation& op) {
    std::shared_ptr<StreamCore> made;
    const Ended ended = attempt([&] { made = StreamCore::create(world_.device()); });
    if (ended.how == How::Injected) return;
    expect(ended, kNone, "making a stream");
    streams_[op.stream] = std::move(made);
    logs_[op.stream].clear();
  }

  /// `failures`: what the operation must throw one of.
  void expect(const Ended& ended, Failures failures, const char* what) {
    if (ended.how == How::Well && failures != kNone) violate(concat(what, ": a failure was not thrown"));
    if (ended.how == How::Failed && (failures & failure_of(ended.failure)) == 0)
      violate(concat(what, " threw the failure of operation ", ended.failure, ", which has not reached it"));
    if (ended.how == How::Rejected || ended.how == How::Strange) violate(concat(what, ": ", ended.text));
  }
  void report(const Ended& ended) {
    if (ended.how == How::Failed) reported_ |= failure_of(ended.failure);
  }

  Choices& choices_;
  std::vector<std::unique_ptr<Work>> works_;                      // longer than the device's steps
  std::vector<std::vector<std::unique_ptr<Work>>> ended_graphs_;  // the same
  World& world_;
  bool foreign_;
  int number_ = 0;
  std::vector<std::shared_ptr<StreamCore>> streams_;
  std::vector<std::vector<Failures>> logs_;  // of each stream: the failures of its work
  std::vector<Object> objects_;
  std::vector<Handle> handles_;
  std::unique_ptr<Pending> pending_;
  std::optional<CapturedGraph> graph_;
  Failures reported_ = kNone;  // thrown at least once
  Failures unsure_ = kNone;    // may have been
};

constexpr std::array kOnNames{"gpu", "cpu", "cuda"};
constexpr std::array kFaultNames{"", "-fault", "-dead"};

}  // namespace

std::string text(const Setting& setting) {
  return concat(kOnNames[static_cast<std::size_t>(setting.on)], kFaultNames[static_cast<std::size_t>(setting.fault)],
                setting.foreign ? "-foreign" : "", setting.defect != 0 ? concat("-defect", setting.defect) : "");
}

Setting parse_setting(const std::string& given) {
  for (int on = 0; on < 3; ++on) {
    for (int fault = 0; fault < 3; ++fault) {
      for (int more = 0; more < 6; ++more) {
        const Setting setting{static_cast<Setting::On>(on), static_cast<Setting::Fault>(fault), more % 2 == 1,
                              more / 2};
        if (text(setting) == given) return setting;
      }
    }
  }
  throw std::invalid_argument("not a device of the model check: " + given);
}

void interpret(const Program& program, World& world, Choices& choices, bool foreign) {
  Interpreter(choices, world, foreign).run(program);
}

Outcome run(const Program& program, const Setting& setting, Choices& choices, bool log) {
  return setting.on == Setting::On::Cuda ? run_cuda(program, setting, choices, log)
                                         : run_model(program, setting, choices, log);
}

}  // namespace tessera::runtime::model
