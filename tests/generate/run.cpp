// Recordings, what they are made into, and running them over the memory of a launch.
#include "generate/run.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "generate/claims.hpp"
#include "generate/device.hpp"
#include "generate/memory.hpp"
#include "generate/number.hpp"
#include "generate/record.hpp"
#include "generate/reference.hpp"
#include "generate/reorder.hpp"
#include "host/launch_grid.hpp"
#include "host/recorded_kernel.hpp"
#include "ir/fixed_point.hpp"
#include "jit/compile/certified_claims.hpp"
#include "passes/accepting.hpp"
#include "tessera/analysis/facts.hpp"
#include "tessera/base/error.hpp"
#include "tessera/codegen/cpu/program.hpp"
#include "tessera/host/contract.hpp"
#include "tessera/ir/printer.hpp"
#include "tessera/ir/verifier.hpp"
#include "tessera/passes/pipeline.hpp"
#include "tessera/passes/predicates.hpp"
#include "tessera/passes/tuning_text.hpp"

namespace tessera::generate {

Counts& Counts::operator+=(const Counts& o) {
  programs += o.programs;
  launches += o.launches;
  rejected += o.rejected;
  too_long += o.too_long;
  runs += o.runs;
  claims += o.claims;
  held += o.held;
  judged += o.judged;
  uncertified += o.uncertified;
  coarsened += o.coarsened;
  of_axes += o.of_axes;
  return *this;
}
std::string to_text(const Counts& c) {
  return std::to_string(c.programs) + " programs, " + std::to_string(c.launches) + " launches (" +
         std::to_string(c.rejected) + " rejected, " + std::to_string(c.too_long) + " too long), " +
         std::to_string(c.runs) + " runs (" + std::to_string(c.coarsened) + " with several pieces a block, " +
         std::to_string(c.of_axes) + " with a grid of several axes), " + std::to_string(c.claims) +
         " claims asserted, " + std::to_string(c.uncertified) + " of " + std::to_string(c.judged) + " not certified";
}

namespace {

/// A stretch of memory with nothing mapped on either side: what leaves it by far is a fault.
class Arena {
 public:
  Arena() {
    constexpr std::size_t around = std::size_t{1} << 30;
    auto* const base = static_cast<std::byte*>(
        mmap(nullptr, kBytes + 2 * around, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (base == MAP_FAILED || mprotect(base + around, kBytes, PROT_READ | PROT_WRITE) != 0) std::abort();
    data_ = base + around;
  }
  std::byte* data() const { return data_; }
  static constexpr std::size_t kBytes = 1 << 19;

 private:
  std::byte* data_;
};

/// What a recording has been made into, for launches that fulfil the same obligations.
struct Made {
  std::string way, choices;
  std::uint64_t held = 0;
  std::shared_ptr<const cpu::Program> program;
  calling::KernelAbi abi;
};

/// One recording: launches whose extents and strides say the same of unit axes share it.
struct Recorded {
  detail::RecordingKey key;
  std::vector<std::uint64_t> constants;  ///< of the key
  lang::Trace trace;
  std::optional<analysis::Facts> facts;
  std::shared_ptr<const cpu::Program> as_is;
  std::vector<Made> made;
  std::unique_ptr<jit::Kernel> kernel;  ///< for the device
};

passes::Tuning random_tuning(Random& r) {
  passes::Tuning t;
  using enum passes::AccessPath;
  if (r.chance(35)) t.access = r.pick({Tma, View, Pointer, Pointer});
  if (r.chance(15)) t.stores = r.pick({Tma, View, Pointer});
  if (r.chance(25)) t.ahead = r.below(3);
  t.pipeline_mma = r.chance(85);
  t.split_loops = r.chance(85);
  t.order_blocks = r.chance(80);
  t.unmask = r.chance(85);
  t.split_tiles = r.chance(85);
  t.combine_atomics = r.chance(85);
  t.choose_hints = r.chance(80);
  t.grid_axes = r.chance(85);
  t.early_reads = r.chance(80);
  t.overlap = static_cast<passes::Overlap>(r.below(4));
  if (r.chance(40)) t.pieces = r.pick({1, 2, 4, 8, 32});
  if (r.chance(50)) t.guards = r.pick({0, 1, 1});
  if (r.chance(50)) t.early_tiles = r.below(passes::kMaxEarlyTiles + 1);
  return t;
}

}  // namespace

struct Runner::Impl {
  Options options;
  Arena arena;
  Memory memory;
  std::vector<std::byte> expected;
  std::vector<Recorded> recorded;

  // ---- one program --------------------------------------------------------------------------------------------------
  Program* program = nullptr;
  Counts* counts = nullptr;
  const Launch* launch = nullptr;
  std::vector<std::uint64_t> slots, constants;
  std::vector<std::size_t> addresses;  ///< which slots are addresses
  Blocks blocks;

  std::optional<Failure> run_program() {
    recorded.clear();
    for (const Launch& l : program->launches) {
      launch = &l;
      if (auto failure = run_launch()) return failure;
    }
    return {};
  }

  std::optional<Failure> run_launch() {
    if (!memory.make(*program, *launch) || memory.initial.size() > Arena::kBytes) return {};
    ++counts->launches;
    expected = memory.initial;
    const Outcome outcome = run_reference(*program, *launch, memory, expected.data());
    if (outcome == Outcome::TooLong) {
      ++counts->too_long;
      return {};
    }
    blocks = blocks_of(*program, *launch);
    if (!blocks.agree) {
      ++counts->rejected;
      return {};
    }
    fill_slots();
    Recorded* r = nullptr;
    std::string way = "record";
    try {
      r = &recording();
      bool holds = true;
      for (const lang::Requirement& q : r->trace.requirements) holds = holds && q.condition.holds(slots);
      for (const lang::SameExtent& s : r->trace.same_extents) holds = holds && s.holds(slots);
      if (holds != (outcome != Outcome::Rejected))
        return Failure{"requirement", holds ? "is held to be true" : "is held to be false"};
      if (!holds) {
        ++counts->rejected;
        return {};
      }
      if (blocks.count == 0) return {};
      return run_ways(*r, way);
    } catch (const std::exception& e) { return Failure{way, e.what()}; }
  }

  /// What the analysis claims about this launch, and the checker does not prove.
  std::optional<Failure> judge(const Recorded& r) {
    const std::uint64_t held = r.facts->evaluate(slots);
    const auto claims = r.facts->claims_of(*r.trace.module);
    const auto asked = std::ranges::count_if(claims, [&](const analysis::Claim& c) { return c.holds(held); });
    const auto certified = static_cast<std::ptrdiff_t>(jit::certified_claims(*r.trace.module, *r.facts, held).size());
    counts->judged += asked;
    counts->uncertified += asked - certified;
    ++counts->runs;
    if (certified == asked) return {};
    return Failure{"uncertified", std::to_string(asked - certified) + " of " + std::to_string(asked) + " claims"};
  }

  std::optional<Failure> run_ways(Recorded& r, std::string& way) {
    if (options.judge) return judge(r);
    way = "recorded";
    Made as_is;
    as_is.way = way;
    as_is.program = r.as_is;
    if (auto f = compare(as_is)) return f;
    if (options.device) {
      way = "device";
      return run_there(r, way);
    }
    const std::uint64_t held = r.facts->evaluate(slots);
    counts->held += __builtin_popcountll(held);
    Random random(program->seed * 7919 + 1);
    const bool gpu = random.chance(options.gpu_percent), checked = random.chance(options.checked_percent);
    const bool asserted = random.chance(options.claims_percent), cpu = !gpu || random.chance(options.cpu_percent);
    for (const char* const name : {"cpu", "claims", "gpu"}) {
      if (!(name[0] == 'g' ? gpu : name[1] == 'p' ? cpu : asserted)) continue;
      way = name;
      const Made& made = find_or_make(r, way, held);
      if (auto f = compare(made)) return f;
      if (!checked || way == "claims") continue;
      way = "checked " + way;
      if (auto f = run_checked(way, made)) return f;
    }
    return {};
  }

  const Made& find_or_make(Recorded& r, const std::string& way, std::uint64_t held) {
    for (const Made& m : r.made) {
      if (m.held == held && m.way == way) return m;
    }
    Made made;
    made.way = way;
    made.held = held;
    const auto module = ir::clone(*r.trace.module);
    if (way == "claims") {
      counts->claims += assert_claims(*module, *r.facts, held);
    } else {
      optimize(r, *module, made);
    }
    made.program = cpu::Program::compile(*read_back(*module));
    r.made.push_back(std::move(made));
    return r.made.back();
  }

  /// The module as it is read from its text or from its bytecode, both of which are fixed points: what runs has passed
  /// through them.
  std::unique_ptr<ir::Module> read_back(const ir::Module& module) const {
    std::string problem = ir::testing::text_problem(module);
    if (problem.empty()) problem = ir::testing::bytecode_problem(module);
    if (!problem.empty()) throw std::runtime_error(problem);
    if (program->seed % 2 == 0) return ir::parse(ir::print(module, {true}));
    return ir::read_bytecode(ir::write_bytecode(module)).module;
  }

  void optimize(const Recorded& r, ir::Module& module, Made& made) {
    Random random(program->seed * 104729 + made.way.size());
    passes::Target target;
    passes::Tuning tuning;
    if (made.way == "gpu") {
      target.sm = random.pick({80, 90, 90, 100, 120});
      target.num_sms = random.pick({1, 3, 108, 132});
      target.bytecode_minor = random.chance(80) ? 4 : random.pick({1, 2, 3});
      tuning = random_tuning(random);
    }
    const bool moved = random.chance(50);
    const bool certified = random.chance(40);
    const std::uint64_t used = random.chance(85) ? made.held : made.held & random.next();
    made.choices = "sm " + std::to_string(target.sm) + " minor " + std::to_string(target.bytecode_minor) + " held " +
                   std::to_string(used) + " of " + std::to_string(made.held) + " tuning \"" + passes::text_of(tuning) +
                   "\"" + (moved ? " reordered" : "") + (certified ? " certified" : "");
    // What launches use is what the checker certifies; the analysis is held to all that it claims.
    auto claims = r.facts->claims_of(module);
    if (certified) {
      const auto held = [&] {
        return std::ranges::count_if(claims, [&](const analysis::Claim& c) { return c.holds(used); });
      };
      const auto asked = held();
      claims = jit::certified_claims(module, *r.facts, used);
      counts->judged += asked;
      counts->uncertified += asked - held();
    }
    passes::Work work;
    work.claims = claims;
    work.predicates = used;
    const jit::CertifierOfPasses certifier(*r.facts, used);
    work.certifier = certified ? static_cast<const passes::Certifier*>(&certifier) : &test::kAcceptAll;
    work.contract = &r.facts->contract();
    const passes::Choices choices = passes::run_passes(module, target, &tuning, work).choices;
    made.abi = choices.abi;
    if (moved) reorder(module, random);
    ir::verify_or_throw(module);
  }

  // ---- one run ------------------------------------------------------------------------------------------------------

  void fill_slots() {
    slots.clear();
    constants.clear();
    addresses.clear();
    std::size_t tensor = 0, scalar = 0;
    for (const Param& p : program->params) {
      if (!p.is_tensor()) {
        const Cell v = literal(p.elem, launch->scalars[scalar++]);
        std::uint64_t slot = 0;
        generate::store(p.elem, reinterpret_cast<std::byte*>(&slot), v);
        (p.kind == ParamKind::Constant ? constants : slots).push_back(slot);
        continue;
      }
      const Placed& placed = memory.tensors[tensor++];
      addresses.push_back(slots.size());
      slots.push_back(reinterpret_cast<std::uintptr_t>(arena.data() + placed.origin));
      for (const std::int64_t d : placed.layout->dims) slots.push_back(static_cast<std::uint64_t>(d));
      for (const std::int64_t s : placed.layout->strides) slots.push_back(static_cast<std::uint64_t>(s));
    }
    if (lang::counts_blocks(param_infos(*program))) slots.push_back(static_cast<std::uint64_t>(blocks.count));
  }

  Recorded& recording() {
    const bool wide = launch->wide_grid;
    detail::RecordingKey key;
    for (std::size_t t = 0; t < launch->tensors.size(); ++t) {
      key.tensors[t] = detail::tensor_bits(launch->tensors[t].dims, launch->tensors[t].strides);
    }
    key.flags = detail::flag_bits(wide, CheckMode::Off, true, lang::Accuracy::Precise);
    key.constants = constants;
    for (Recorded& r : recorded) {
      if (r.key == key) return r;
    }
    const auto infos = param_infos(*program);
    Recorded r;
    r.constants = constants;
    r.key = key;
    r.key.constants = r.constants;
    r.trace = record(*program, detail::specialization(key, infos));
    ir::verify_or_throw(*r.trace.module);
    r.facts.emplace(analysis::Facts::analyze(
        *r.trace.module, detail::launch_contract(infos, wide, r.trace.same_extents), passes::predicate_table()));
    r.as_is = cpu::Program::compile(*read_back(*r.trace.module));
    recorded.push_back(std::move(r));
    return recorded.back();
  }

  cpu::Grid grid() const {
    const auto n = static_cast<std::uint32_t>(blocks.count);
    if (!launch->wide_grid) return {n, 1, 1};
    bool own = false;
    for (const Param& p : program->params) own = own || p.kind == ParamKind::Mut;
    return own ? cpu::Grid{(n + 1) / 2, 2, 1} : cpu::Grid{n, 1, 1};
  }

  void run_on_arena(const Made& made, cpu::RunOptions options_of_run) {
    const bool launch_flags = made.abi.launch_flags;
    const auto pieces = static_cast<std::uint32_t>(made.abi.pieces);
    cpu::Grid blocks_of_run = grid();
    blocks_of_run.x = (blocks_of_run.x + pieces - 1) / pieces;
    if (made.abi.grid.used) {
      const runtime::LaunchGrid axes = detail::launch_grid(made.abi.grid, blocks_of_run.x, slots);
      blocks_of_run = {axes.x, axes.y, axes.z};
      ++counts->of_axes;
    }
    ++counts->runs;
    counts->coarsened += pieces > 1;
    std::memcpy(arena.data(), memory.initial.data(), memory.initial.size());
    options_of_run.threads = 1;
    if (launch_flags) slots.push_back((std::uint64_t{1} << calling::kTriggerBit) + 1);
    try {
      made.program->run(blocks_of_run, slots, options_of_run);
    } catch (...) {
      if (launch_flags) slots.pop_back();
      throw;
    }
    if (launch_flags) slots.pop_back();
  }

  std::optional<Failure> compare(const Made& made) {
    run_on_arena(made, {});
    return differs(made.way, made.choices);
  }
  std::optional<Failure> differs(const std::string& way, const std::string& choices, const std::byte* found = nullptr) {
    const std::string difference =
        memory.difference(*program, expected.data(), found != nullptr ? found : arena.data());
    if (difference.empty()) return {};
    return Failure{way,
                   choices + "\n" + difference + "  in launch " + std::to_string(launch - program->launches.data())};
  }

  std::optional<Failure> run_there(Recorded& r, const std::string& way) {
    if (!r.kernel) {
      jit::CompileOptions with;
      with.label = "generated";
      with.raw_writes = false;
      r.kernel = std::make_unique<jit::Kernel>(
          ir::clone(*r.trace.module),
          detail::launch_contract(param_infos(*program), launch->wide_grid, r.trace.same_extents), with);
    }
    ++counts->runs;
    std::vector<std::uint64_t> there = slots;
    for (const std::size_t slot : addresses) there[slot] -= reinterpret_cast<std::uintptr_t>(arena.data());
    const auto found = run_on_device(*r.kernel, memory.initial, std::move(there), addresses, grid());
    return differs(way, "", found.data());
  }

  std::optional<Failure> run_checked(const std::string& way, const Made& made) {
    std::vector<cpu::Region> regions;
    for (const Placed& t : memory.tensors) {
      regions.push_back({arena.data() + t.storage, t.bytes, "parameter " + std::to_string(t.param), nullptr});
    }
    cpu::RunOptions with;
    with.checked = true;
    with.regions = regions;
    try {
      run_on_arena(made, with);
    } catch (const DeviceError& e) {
      // Arithmetic of indices may overflow in a program that is right: only checked mode calls it a mistake.
      if (std::strstr(e.what(), "index arithmetic overflows") != nullptr) return {};
      return Failure{way, made.choices + "\n" + e.what()};
    }
    return differs(way, made.choices);
  }
};

Runner::Runner(Options options) : impl_(std::make_unique<Impl>()) { impl_->options = options; }
Runner::~Runner() = default;

std::optional<Failure> Runner::run(Program& program, Counts& counts) {
  ++counts.programs;
  if (const std::string wrong = check(program); !wrong.empty()) return Failure{"ill-formed", wrong};
  impl_->program = &program;
  impl_->counts = &counts;
  return impl_->run_program();
}

}  // namespace tessera::generate
