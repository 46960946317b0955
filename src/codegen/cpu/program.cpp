// A translated kernel and its runs: blocks are scheduled to threads in chunks of the row-major block order; every
// thread has an arena for its tiles, computes what no block changes once, then goes through its chunks.
#include "tessera/codegen/cpu/program.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>

#include "codegen/cpu/checker.hpp"
#include "codegen/cpu/fuse.hpp"
#include "codegen/cpu/threads.hpp"
#include "codegen/cpu/translate.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/stack.hpp"

namespace tessera::cpu {
namespace {

constexpr std::size_t kMemoryAlign = 64;

/// Chunks per thread: enough that threads finish together although blocks differ in cost.
constexpr std::uint64_t kChunksPerThread = 16;

/// Memory of one thread, kept between runs and grown on demand.
class Arena {
 public:
  std::byte* reserve(std::size_t bytes) {
    if (bytes > size_) {
      memory_.reset();
      size_ = 0;
      const std::size_t rounded = (bytes + kMemoryAlign - 1) / kMemoryAlign * kMemoryAlign;
      memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kMemoryAlign, rounded)));
      if (memory_ == nullptr)
        throw DeviceError(
            concat("the CPU backend needs ", rounded, " bytes for the tiles of one thread: out of memory"));
      size_ = rounded;
    }
    return memory_.get();
  }
  std::vector<std::byte*> bases, homes;
  std::vector<const std::byte*> previous;
  std::vector<std::int64_t> pitches, steps;
  Lookahead ahead;
  bool in_use = false;

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t size_ = 0;
};

class ProgramImpl final : public Program {
 public:
  ProgramImpl(std::string name, Translator&& t)
      : name_(std::move(name)),
        uniform_(std::move(t.uniform)),
        block_(std::move(t.block)),
        globals_(std::move(t.globals)),
        constants_(t.constants.size() + kMemoryAlign) {
    fuse_chains(t.buffers, uniform_, block_);
    arena_bytes_ = static_cast<std::size_t>(plan_buffers(t.buffers, uniform_, block_));
    const auto address = reinterpret_cast<std::uintptr_t>(constants_.data());
    constant_base_ = constants_.data() + ((address + kMemoryAlign - 1) / kMemoryAlign * kMemoryAlign - address);
    if (!t.constants.empty()) std::memcpy(constant_base_, t.constants.data(), t.constants.size());
    for (const BufferInfo& b : t.buffers) {
      places_.push_back({b.kind, b.where});
      if (b.kind == BufferKind::Argument) arguments_ = std::max(arguments_, static_cast<std::size_t>(b.where) + 1);
    }
    drop_planning(uniform_);
    drop_planning(block_);
  }

  const std::string& name() const override { return name_; }

  void run(Grid grid, std::span<const std::uint64_t> args, const RunOptions& options) const override;

 private:
  struct Place {
    BufferKind kind;
    std::int64_t where;
  };
  struct Launch;

  /// What only the planner reads.
  static void drop_planning(Code& code) {
    for (auto& instr : code) {
      instr->accesses = {};
      instr->in_place = {};
      for (Code* child : instr->children()) drop_planning(*child);
    }
  }

  void prepare(Frame& frame, Arena& arena, std::span<const std::uint64_t> args) const {
    std::byte* tiles = arena.reserve(arena_bytes_);
    arena.bases.resize(places_.size());
    auto* slots = reinterpret_cast<std::byte*>(const_cast<std::uint64_t*>(args.data()));
    for (std::size_t i = 0; i < places_.size(); ++i) {
      std::byte* from = places_[i].kind == BufferKind::Arena      ? tiles
                        : places_[i].kind == BufferKind::Constant ? constant_base_
                                                                  : slots;
      arena.bases[i] = from + places_[i].where * (places_[i].kind == BufferKind::Argument ? 8 : 1);
    }
    arena.homes = arena.bases;
    frame.base = arena.bases.data();
    frame.home = arena.homes.data();
    arena.previous.assign(places_.size(), nullptr);
    arena.ahead.forget();
    frame.previous = arena.previous.data();
    arena.pitches.resize(places_.size());
    frame.pitch = arena.pitches.data();
    arena.steps.resize(places_.size());
    frame.step = arena.steps.data();
    frame.ahead = &arena.ahead;
  }

  std::string name_;
  Code uniform_, block_;
  std::vector<GlobalMemory> globals_;
  std::vector<std::byte> constants_;
  std::byte* constant_base_ = nullptr;
  std::vector<Place> places_;
  std::size_t arena_bytes_ = 0, arguments_ = 0;
};

/// One run: what the threads share.
struct ProgramImpl::Launch final : Job {
  const ProgramImpl& program;
  Grid grid;
  std::span<const std::uint64_t> args;
  Checker* checker = nullptr;
  std::uint64_t blocks = 0, chunk = 1;
  /// A stretch of blocks that one thread starts with, and others help to finish: neighbouring blocks mostly read
  /// neighbouring memory.
  struct alignas(64) Stretch {
    std::atomic<std::uint64_t> next{0};
    std::uint64_t end = 0;
  };
  std::vector<Stretch> stretches;
  std::atomic<std::size_t> arrived{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::exception_ptr error;

  Launch(const ProgramImpl& p, Grid g, std::span<const std::uint64_t> a) : program(p), grid(g), args(a) {}

  void work() override {
    // A kernel launched from within a kernel's own thread (a print callback, say) must not share the arena.
    static thread_local Arena shared;
    Arena own;
    Arena& arena = shared.in_use ? own : shared;
    arena.in_use = true;
    try {
      with_stack([&] { go(arena); }, kStackOfRegions);
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
      stop.store(true, std::memory_order_relaxed);
    }
    arena.in_use = false;
  }

  /// Every thread has a stretch, if there are as many blocks.
  void divide(int threads) {
    const auto count = static_cast<std::uint64_t>(threads);
    chunk = threads == 1 ? blocks : std::max<std::uint64_t>(1, blocks / (count * kChunksPerThread));
    stretches = std::vector<Stretch>(static_cast<std::size_t>(threads));
    for (std::uint64_t t = 0; t < count; ++t) {
      stretches[t].next.store(blocks * t / count, std::memory_order_relaxed);
      stretches[t].end = blocks * (t + 1) / count;
    }
  }
  /// The next chunk, of stretch `at` or else of the ones after it; false: there is none.
  bool take(std::size_t& at, std::uint64_t& first, std::uint64_t& last) {
    for (std::size_t tried = 0; tried < stretches.size(); ++tried) {
      Stretch& s = stretches[at];
      if (s.next.load(std::memory_order_relaxed) < s.end) {
        first = s.next.fetch_add(chunk, std::memory_order_relaxed);
        last = std::min(s.end, first + chunk);
        if (first < s.end) return true;
      }
      at = (at + 1) % stretches.size();
    }
    return false;
  }

  void go(Arena& arena) {
    std::size_t stretch = arrived.fetch_add(1, std::memory_order_relaxed) % stretches.size();
    std::uint64_t first = 0, last = 0;
    if (!take(stretch, first, last)) return;
    Frame frame;
    frame.grid[0] = static_cast<std::int32_t>(grid.x);
    frame.grid[1] = static_cast<std::int32_t>(grid.y);
    frame.grid[2] = static_cast<std::int32_t>(grid.z);
    frame.stop = &stop;
    frame.kernel = &program.name_;
    frame.checker = checker;
    program.prepare(frame, arena, args);
    cpu::run(program.uniform_, frame);
    do {
      const std::uint64_t row = first / grid.x;
      std::uint32_t x = static_cast<std::uint32_t>(first % grid.x), y = static_cast<std::uint32_t>(row % grid.y),
                    z = static_cast<std::uint32_t>(row / grid.y);
      for (std::uint64_t b = first; b < last; ++b) {
        if (stop.load(std::memory_order_relaxed)) return;
        frame.block[0] = static_cast<std::int32_t>(x);
        frame.block[1] = static_cast<std::int32_t>(y);
        frame.block[2] = static_cast<std::int32_t>(z);
        arena.ahead.start_block();
        if (checker != nullptr) checker->start_block(frame);
        cpu::run(program.block_, frame);
        if (++x == grid.x) {
          x = 0;
          if (++y == grid.y) {
            y = 0;
            ++z;
          }
        }
      }
    } while (take(stretch, first, last));
  }
};

void ProgramImpl::run(Grid grid, std::span<const std::uint64_t> args, const RunOptions& options) const {
  if (args.size() < arguments_)
    throw DeviceError(concat("kernel ", name_, " takes ", arguments_, " argument slots, found ", args.size()));
  Launch launch(*this, grid, args);
  launch.blocks = static_cast<std::uint64_t>(grid.x) * grid.y * grid.z;
  if (launch.blocks == 0) return;
  std::unique_ptr<Checker> checker;
  int threads = options.threads > 0 ? options.threads : default_threads();
  if (options.checked) {
    checker = std::make_unique<Checker>(name_, options.regions, args);
    for (const GlobalMemory& g : globals_) checker->allow(g.base, g.bytes);
    launch.checker = checker.get();
    threads = 1;  // blocks in order: the same violation is found first every time
  }
  threads = static_cast<int>(std::min<std::uint64_t>(static_cast<std::uint64_t>(threads), launch.blocks));
  launch.divide(threads);
  run_with_helpers(launch, threads - 1);
  if (launch.error) std::rethrow_exception(launch.error);
}

}  // namespace

std::shared_ptr<const Program> Program::compile(const ir::Module& module) {
  const ir::Function* entry = nullptr;
  for (const auto& f : module.functions) {
    if (!f->entry) continue;
    if (entry != nullptr)
      throw CompileError(concat("the CPU backend runs modules with one entry, found @", entry->name, " and @", f->name),
                         f->loc);
    entry = f.get();
  }
  if (entry == nullptr) throw CompileError("the CPU backend runs modules with one entry, found none");
  Translator translator(module);
  with_stack([&] { translator.translate(*entry); }, kStackOfRegions);
  return std::make_shared<ProgramImpl>(entry->name, std::move(translator));
}

}  // namespace tessera::cpu
