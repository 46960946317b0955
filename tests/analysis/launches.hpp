// Random launches of a kernel: tensors with real memory, run as recorded and with its claims applied.
#pragma once
#include <cstring>
#include <functional>
#include <random>

#include "analysis/support.hpp"
#include "passes/accepting.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/float_types.hpp"
#include "tessera/base/format.hpp"
#include "tessera/lang/trace.hpp"
#include "tessera/passes/passes.hpp"
#include "tessera/passes/predicates.hpp"

namespace tessera::test {

using Extents2 = std::vector<std::vector<std::int64_t>>;

/// One argument's memory: its elements, between zones that nothing may touch.
struct Memory {
  std::vector<std::byte> bytes;
  std::size_t size = 0;
  static constexpr std::size_t kZone = 256;
  std::byte* data() { return bytes.data() + kZone; }
};

inline std::uint64_t number_bits(ElementType type, std::mt19937_64& rng) {
  const double v = static_cast<double>(rng() % 33) / 8.0 - 1.0;
  std::uint64_t bits = 0;
  const auto put = [&](auto x) { std::memcpy(&bits, &x, sizeof x); };
  switch (type) {
    case ElementType::f32: put(static_cast<float>(v)); break;
    case ElementType::bf16: put(bf16(static_cast<float>(v))); break;
    case ElementType::f16: put(f16(static_cast<float>(v))); break;
    default: put(static_cast<std::int32_t>(rng() % 40)); break;
  }
  return bits;
}

class RandomLaunch {
 public:
  RandomLaunch(const lang::Trace& trace, const Extents2& dims, std::mt19937_64& rng) : trace_(&trace) {
    std::size_t tensor = 0;
    for (const lang::ParamInfo& p : trace.params) {
      if (!p.is_tensor()) {
        slots_.push_back(number_bits(p.element, rng));
        continue;
      }
      const auto& d = dims.at(tensor++);
      std::size_t n = 1;
      for (const std::int64_t extent : d) n *= static_cast<std::size_t>(extent);
      Memory& m = memories_.emplace_back();
      const std::size_t bytes = size_of(p.element);
      m.size = n * bytes;
      m.bytes.assign(m.size + 2 * Memory::kZone, std::byte{0x5A});
      for (std::size_t i = 0; i < n; ++i) {
        const std::uint64_t bits = number_bits(p.element, rng);
        std::memcpy(m.data() + i * bytes, &bits, bytes);
      }
      slots_.push_back(0);
      for (const std::int64_t extent : d) slots_.push_back(static_cast<std::uint64_t>(extent));
      for (std::size_t a = 0; a < d.size(); ++a) {
        std::int64_t stride = 1;
        for (std::size_t b = a + 1; b < d.size(); ++b) stride *= d[b];
        slots_.push_back(static_cast<std::uint64_t>(stride));
      }
    }
  }

  /// The argument slots, with the addresses of `memories`.
  std::vector<std::uint64_t> slots(std::vector<Memory>& memories) const {
    std::vector<std::uint64_t> out = slots_;
    std::size_t tensor = 0;
    for (const lang::ParamInfo& p : trace_->params) {
      if (p.is_tensor())
        out[static_cast<std::size_t>(p.first_arg)] = reinterpret_cast<std::uintptr_t>(memories[tensor++].data());
    }
    return out;
  }

  /// All memory after running `module` in checked mode. Throws what the run throws.
  std::vector<Memory> run(const ir::Module& module, cpu::Grid grid) const {
    std::vector<Memory> memories = memories_;
    std::vector<cpu::Region> regions;
    for (Memory& m : memories) regions.push_back({m.data(), m.size, "tensor", nullptr});
    cpu::RunOptions options;
    options.threads = 1;
    options.checked = true;
    options.regions = regions;
    cpu::Program::compile(module)->run(grid, slots(memories), options);
    return memories;
  }

 private:
  const lang::Trace* trace_;
  std::vector<std::uint64_t> slots_;
  std::vector<Memory> memories_;
};

/// What the host would specialize a recording by, for row-major tensors of these extents.
inline lang::Specialization specialize(const std::vector<lang::ParamInfo>& params, const Extents2& dims) {
  lang::Specialization s;
  std::size_t tensor = 0;
  for (const lang::ParamInfo& p : params) {
    if (!p.is_tensor()) continue;
    lang::TensorFacts f;
    f.unit_axis = p.rank - 1;
    for (int a = 0; a < p.rank; ++a) {
      const std::uint32_t bit = 1u << a;
      (dims[tensor][static_cast<std::size_t>(a)] == 1 ? f.unit_dims : f.long_dims) |= bit;
    }
    ++tensor;
    s.tensors.push_back(f);
  }
  return s;
}

inline cpu::Grid grid_for(const analysis::LaunchContract& c, const std::vector<std::uint64_t>& slots,
                          std::mt19937_64& rng) {
  if (c.pieces_of_tensor < 0) return {static_cast<std::uint32_t>(1 + rng() % 5), 1, 1};
  const auto first = static_cast<std::size_t>(c.tensors[static_cast<std::size_t>(c.pieces_of_tensor)].base_arg) + 1;
  std::uint64_t n = 1;
  for (std::size_t a = 0; a < c.piece.size(); ++a) {
    const auto piece = static_cast<std::uint64_t>(c.piece[a]);
    n *= (slots[first + a] + piece - 1) / piece;
  }
  return {static_cast<std::uint32_t>(n), 1, 1};
}

/// An extent at or around a multiple of `tile`.
inline std::int64_t around(std::mt19937_64& rng, std::int64_t tile, std::int64_t tiles = 3) {
  const std::int64_t at = tile * static_cast<std::int64_t>(1 + rng() % static_cast<std::uint64_t>(tiles));
  const std::int64_t by[] = {0, 0, 0, -1, 1, -tile / 2};
  return std::max<std::int64_t>(1, at + by[rng() % 6]);
}

struct Fuzzed {
  int launches = 0, rejected = 0, unguarded = 0, unmasked = 0;
};

/// Through pointers, with the masks that they then have, as far as they are needed: what a GPU gets of the accesses.
inline bool through_pointers(ir::Module& module) {
  ir::Function& entry = *module.functions.front();
  passes::Tuning pointers;
  pointers.access = passes::AccessPath::Pointer;
  passes::choose_access_paths(entry, passes::Target{90, 132}, pointers);
  const bool unmasked = passes::unmask(entry, &kAcceptAll);
  EXPECT_EQ(problems(module), "");
  return unmasked;
}

/// Launches K over random extents: with the claims that hold it must compute the same bits, and checked mode must find
/// nothing wrong with what is claimed.
template <auto K>
Fuzzed fuzz(int launches, const std::function<Extents2(std::mt19937_64&)>& extents) {
  Fuzzed seen;
  std::mt19937_64 rng(7);
  const auto params = lang::trace<K>({}).params;
  for (int i = 0; i < launches; ++i) {
    const Extents2 dims = extents(rng);
    const lang::Trace trace = lang::trace<K>(specialize(params, dims));
    const analysis::LaunchContract contract = contract_of(trace.params);
    const analysis::Facts facts = analysis::Facts::analyze(*trace.module, contract, passes::predicate_table());
    const RandomLaunch launch(trace, dims, rng);
    std::vector<Memory> scratch(dims.size());
    for (Memory& m : scratch) m.bytes.resize(2 * Memory::kZone);
    const auto slots = launch.slots(scratch);
    const auto holds = [&](const lang::Requirement& r) { return r.condition.holds(slots); };
    if (!std::all_of(trace.requirements.begin(), trace.requirements.end(), holds)) {
      ++seen.rejected;
      continue;
    }
    const auto claimed = ir::clone(*trace.module);
    passes::apply_claims(*claimed, analysis::Facts::analyze(*claimed, contract, passes::predicate_table()),
                         facts.evaluate(slots));
    EXPECT_EQ(problems(*claimed), "");
    const cpu::Grid grid = grid_for(contract, slots, rng);
    std::string shapes;
    for (const auto& d : dims) shapes += concat("[", join(d), "] ");
    SCOPED_TRACE(shapes);
    try {
      const std::vector<Memory> expected = launch.run(*trace.module, grid), found = launch.run(*claimed, grid);
      for (std::size_t t = 0; t < expected.size(); ++t) EXPECT_EQ(expected[t].bytes, found[t].bytes) << "tensor " << t;
      seen.unmasked += through_pointers(*claimed) ? 1 : 0;
      const std::vector<Memory> pointed = launch.run(*claimed, grid);
      for (std::size_t t = 0; t < expected.size(); ++t)
        EXPECT_EQ(expected[t].bytes, pointed[t].bytes) << "tensor " << t << " through pointers";
    } catch (const Error& e) { ADD_FAILURE() << e.what() << "\n" << ir::print(*claimed); }
    ++seen.launches;
    seen.unguarded += count(*claimed, ir::Op::If) < count(*trace.module, ir::Op::If) ? 1 : 0;
    if (testing::Test::HasFailure()) break;
  }
  return seen;
}

}  // namespace tessera::test
