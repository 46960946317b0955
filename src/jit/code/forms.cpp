// The table of forms. Those for spills first raise the limit of registers, where there is one, or give a thread fewer
// vectors; the others leave out the limit and need fewer registers: stores from registers avoid the copy of the tile
// that a store through shared memory needs, a load by tensor copy keeps its tile in shared memory until it is used,
// twice the warps hold half of a tile each, and one piece per block is less than several. What spills in all of these
// is compiled for fewer blocks of an SM, whose threads may have more registers, and then with other accesses, which
// need other registers for addresses, masks and what is prefetched. What the assembler rejects is
// compiled for fewer blocks, with fewer steps in flight, with plain stores or in more warps before it loses its
// software pipelining, and that before it loses its hints. What takes the assembler too long has, in this order, fewer
// steps that it unrolls, twice the warps in one block, accesses by pointers, and loops; no software pipelining; no
// effort.
#include "tessera/jit/forms.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <system_error>
#include <thread>

#include "tessera/base/env.hpp"
#include "tessera/base/format.hpp"
#include "tessera/machine/machine.hpp"
#include "tessera/passes/tuning_text.hpp"

namespace tessera::jit {
namespace {

using passes::AccessPath;
using passes::Tuning;

constexpr int kFullEffort = 3;  // --opt-level
// Steps in flight in twice the warps: with six, what the assembler adds to them often leaves shared memory for two.
constexpr int kStepsOfMoreWarps = 3;
constexpr int kRegistersOfMoreBlocks = 64;  // of a thread: 32 warps of an SM

constexpr Tuning no_limit() {
  Tuning t;
  t.limit_registers = false;
  return t;
}

constexpr Tuning more_registers(int most) {
  Tuning t;
  t.registers = most;
  return t;
}

constexpr Tuning fewer_vectors(int most) {
  Tuning t;
  t.vectors = most;
  return t;
}

constexpr Tuning spread(int times, bool plain_stores) {
  Tuning t = no_limit();
  t.spread = times;
  if (times > 1) t.max_latency = kStepsOfMoreWarps;
  if (plain_stores) t.stores = AccessPath::View;
  return t;
}

constexpr Tuning one_piece() {
  Tuning t = no_limit();
  t.pieces = 1;
  return t;
}

constexpr Tuning fewer_blocks_of(int most) {
  Tuning t;
  t.max_occupancy = most;
  return t;
}

constexpr Tuning two_blocks_fewer_steps() {
  Tuning t;
  t.min_occupancy = 2;
  t.max_latency = 2;
  return t;
}

constexpr Tuning more_blocks() {
  Tuning t;
  t.crowd = kRegistersOfMoreBlocks;
  return t;
}

constexpr Tuning one_block_spread(int times) {
  Tuning t = spread(times, false);
  t.max_occupancy = 1;
  return t;
}

constexpr Tuning fewer_steps() {
  Tuning t = no_limit();
  t.max_latency = 2;
  return t;
}

constexpr Tuning accesses_by(AccessPath path, int times = 1) {
  Tuning t = spread(times, false);
  t.max_latency = {};
  t.access = path;
  return t;
}

constexpr Tuning without_hints() {
  Tuning t = no_limit();
  t.choose_hints = false;
  return t;
}

constexpr Tuning rolled(Tuning t) {
  t.roll = 1;
  return t;
}

constexpr Tuning plain(bool with_hints) {
  Tuning t = one_piece();
  t.ahead = 0;
  t.guards = 0;
  t.pipeline_mma = false;
  t.unmask = false;
  t.split_tiles = false;
  t.choose_hints = with_hints;
  return t;
}

/// The steps of the ladders in which a form is compiled; 0: in none.
struct Steps {
  int spills = 0, rejected = 0, slow = 0;
};
struct Row {
  Form form;
  const char* name;
  Steps steps;
  Tuning tuning;
  int opt_level = kFullEffort;
};
constexpr Steps kSpills{1, 0, 0}, kFewerBlocks{2, 1, 0}, kOtherAccesses{3, 0, 0};
constexpr Row kRows[] = {
    {Form::Chosen, "", {}, {}},
    {Form::Registers96, "registers_96", kSpills, more_registers(96)},
    {Form::Registers128, "registers_128", kSpills, more_registers(128)},
    {Form::TwoVectors, "two_vectors", kSpills, fewer_vectors(2)},
    {Form::OneVector, "one_vector", kSpills, fewer_vectors(1)},
    {Form::Unlimited, "unlimited", kSpills, no_limit()},
    {Form::TwoBlocksFewerSteps, "two_blocks_steps", kSpills, two_blocks_fewer_steps()},
    {Form::MoreBlocks, "more_blocks", {}, more_blocks()},
    {Form::ThreeBlocks, "three_blocks", kFewerBlocks, fewer_blocks_of(3)},
    {Form::TwoBlocks, "two_blocks", kFewerBlocks, fewer_blocks_of(2)},
    {Form::OneBlock, "one_block", kFewerBlocks, fewer_blocks_of(1)},
    {Form::FewerSteps, "steps", {0, 1, 1}, fewer_steps()},
    {Form::PlainStores, "stores", {1, 1, 0}, spread(1, true)},
    {Form::TensorCopies, "copies", kSpills, accesses_by(AccessPath::Tma)},
    {Form::MoreWarps, "warps", {1, 1, 0}, spread(2, false)},
    {Form::MoreWarpsPlainStores, "warps_stores", {1, 1, 0}, spread(2, true)},
    {Form::OneBlockMoreWarps, "one_block_warps", {2, 0, 1}, one_block_spread(2)},
    {Form::OnePiece, "piece", kSpills, one_piece()},
    {Form::Views, "views", kOtherAccesses, accesses_by(AccessPath::View)},
    {Form::Pointers, "pointers", {3, 2, 1}, accesses_by(AccessPath::Pointer)},
    {Form::MoreWarpsPointers, "warps_pointers", kOtherAccesses, accesses_by(AccessPath::Pointer, 2)},
    {Form::WithoutHints, "no_hints", kOtherAccesses, without_hints()},
    {Form::RolledMoreWarps, "rolled_warps", {0, 0, 1}, rolled(spread(2, false))},
    {Form::Fallback, "fallback", {0, 2, 0}, plain(true)},
    {Form::RolledFallback, "rolled_fallback", {0, 0, 2}, rolled(plain(true))},
    {Form::Bare, "bare", {0, 3, 0}, plain(false)},
    {Form::Quick, "quick", {0, 0, 3}, rolled(plain(false)), 0},
};
constexpr auto kForms = [] {
  std::array<Form, std::size(kRows)> forms{};
  for (std::size_t i = 0; i < forms.size(); ++i) forms[i] = kRows[i].form;
  return forms;
}();

const Row& row_of(Form form) noexcept { return kRows[static_cast<std::size_t>(form)]; }
static_assert([] {
  for (std::size_t i = 0; i < std::size(kRows); ++i)
    if (static_cast<std::size_t>(kRows[i].form) != i) return false;
  return true;
}());

}  // namespace

const Tuning* tuning_of(Form form) noexcept { return form == Form::Chosen ? nullptr : &row_of(form).tuning; }
std::string text_of(Form form) {
  const std::string words = passes::text_of(row_of(form).tuning);
  return opt_level_of(form) == kFullEffort ? words : concat(words, " opt-level=", opt_level_of(form));
}
const char* name_of(Form form) noexcept { return row_of(form).name; }
int opt_level_of(Form form) noexcept { return row_of(form).opt_level; }

int step_of(Form form, Cause cause) noexcept {
  const Steps& steps = row_of(form).steps;
  switch (cause) {
    case Cause::Spills: return steps.spills;
    case Cause::Rejected: return steps.rejected;
    case Cause::Slow: return steps.slow;
    case Cause::Occupancy:
    case Cause::FewWarps:
    case Cause::None: break;
  }
  return 0;
}

std::optional<Form> form_of_blocks(int blocks) noexcept {
  constexpr Form kForms[] = {Form::OneBlock, Form::TwoBlocks, Form::ThreeBlocks};
  if (blocks < 1 || blocks > static_cast<int>(std::size(kForms))) return std::nullopt;
  return kForms[blocks - 1];
}
std::span<const Form> all_forms() noexcept { return kForms; }

std::span<const Form> forms_for(const Tuning* tuning) {
  const bool asked = env(Env::TUNING) != nullptr || (tuning && *tuning != Tuning{});
  return all_forms().first(asked ? 1 : kForms.size());
}

void detail::run_at_once(std::size_t count, void (*work)(void* data, std::size_t number), void* data) {
  std::vector<std::thread> threads;
  std::size_t next = 0;
  try {
    for (; next < count; ++next) threads.emplace_back(work, data, next);
  } catch (const std::system_error&) {}  // no thread can be created: the rest is done here
  for (; next < count; ++next) work(data, next);
  for (std::thread& t : threads) t.join();
}

namespace {

// bench/notes/choose_hints.md has the measurements behind these constants (H200, tileiras 13.5.37).
constexpr unsigned kRegisterBytes = 4;
/// A spilled register costs that many instructions each time it is stored or loaded.
constexpr double kLocalAccess = 8;
/// With fewer resident warps an SM issues proportionally fewer instructions; more help little.
constexpr double kEnoughWarps = 16, kGainOfMore = 1.0 / 6;
/// Blocks of fewer threads gain nothing from more of them: their tiles are small, and a warp has many loads in flight.
constexpr unsigned kFewestThreads = 128;

/// Bytes that a thread may spill for the sake of another resident block.
unsigned bearable_spill(const CubinResources& r, bool limited) noexcept {
  constexpr unsigned kManyThreads = 16 * 32, kRegistersOfTwo = 64;
  if (r.threads >= kManyThreads && r.registers <= kRegistersOfTwo) return r.registers * kRegisterBytes / 4;
  return limited ? r.registers * kRegisterBytes / 8 : 0;
}

/// Warps on an SM of the generation that holds most.
double resident_warps(const CubinResources& r) noexcept {
  constexpr unsigned kWarp = machine::kThreadsAWarp, kGranule = machine::kRegisterGranule;
  const unsigned warps = std::max(r.threads / kWarp, 1U);
  const unsigned registers = std::max((r.registers + kGranule - 1) / kGranule * kGranule, kGranule);
  return warps * std::max(std::min({machine::kRegisters / (registers * kWarp * warps), machine::kMaxWarps / warps,
                                    unsigned{machine::kMaxBlocks}}),
                          1U);
}

}  // namespace

double issue_time(const CubinResources& r) noexcept {
  const double warps = resident_warps(r) / kEnoughWarps;
  const double rate = warps < 1 ? warps : std::pow(warps, kGainOfMore);
  const double of_a_warp = static_cast<double>(r.instructions) + kLocalAccess * static_cast<double>(r.local_accesses);
  return of_a_warp * std::max(r.threads / 32, 1U) / rate;
}

unsigned spill_cost(const CodeNotes& notes) noexcept {
  if (waits_for_registers(notes.resources)) return kNeverEnds;
  return notes.resources.stack + (notes.register_pressure ? 1 : 0);
}

bool spills_too_much(const CodeNotes& notes, bool limited) noexcept {
  return spill_cost(notes) == kNeverEnds || notes.register_pressure ||
         notes.resources.stack > bearable_spill(notes.resources, limited);
}

bool is_better(const CodeNotes& a, const CodeNotes& b, bool limited) noexcept {
  const bool comparable = !a.resources.loops && !b.resources.loops && a.resources.instructions != 0 &&
                          b.resources.instructions != 0 && !waits_for_registers(a.resources) &&
                          !waits_for_registers(b.resources);
  return limited && comparable ? issue_time(a.resources) < issue_time(b.resources) : spill_cost(a) < spill_cost(b);
}

int fewer_blocks(const Asked& asked, const CodeNotes& notes) noexcept {
  const CubinResources& r = notes.resources;
  if (asked.limited || asked.occupancy <= 1) return 0;
  const int fit = machine::resident_blocks(asked.sm, r.registers, r.threads, r.shared);
  return fit < asked.occupancy ? std::max(fit, 1) : 0;
}

namespace {

/// Bytes that a thread may spill where that lets an SM hold more blocks than shared memory did.
constexpr unsigned kSpillForMoreBlocks = 160;

unsigned warps_of(const Asked& asked, const CubinResources& r, std::uint64_t shared) noexcept {
  return static_cast<unsigned>(machine::resident_blocks(asked.sm, r.registers, r.threads, shared)) *
         (r.threads / machine::kThreadsAWarp);
}
/// True if the SM holds fewer blocks because of shared memory.
bool is_bound_by_shared(const Asked& asked, const CubinResources& r) noexcept {
  return warps_of(asked, r, r.shared) < warps_of(asked, r, 0);
}

}  // namespace

bool has_few_warps(const Asked& asked, const CodeNotes& notes) noexcept {
  const CubinResources& r = notes.resources;
  if (asked.limited || asked.occupancy != 0 || r.threads < kFewestThreads || r.asked_registers > 0) return false;
  return r.shared_loads > 0 && !r.copies_ahead && warps_of(asked, r, r.shared) <= static_cast<unsigned>(kEnoughWarps);
}

bool gains_warps(const Asked& asked, const CodeNotes& before, const CodeNotes& after) noexcept {
  const CubinResources &a = after.resources, &b = before.resources;
  const unsigned bearable = is_bound_by_shared(asked, b) ? kSpillForMoreBlocks : 0;
  return a.stack <= std::max(b.stack, bearable) && !waits_for_registers(a) &&
         warps_of(asked, a, a.shared) >= 2 * warps_of(asked, b, b.shared);
}

std::string reason_of_few_warps(const Asked& asked, const CodeNotes& notes) {
  const CubinResources& r = notes.resources;
  const std::string what = is_bound_by_shared(asked, r)
                               ? concat("a block takes ", (r.shared + 1023) / 1024, " KiB of shared memory")
                               : concat("a thread takes ", r.registers, " registers");
  return concat("an SM holds ", warps_of(asked, r, r.shared), " warps of the chosen form, because ", what);
}

std::string reason_of_spills(const CodeNotes& notes) {
  if (spill_cost(notes) == kNeverEnds) return "the chosen form would wait for registers forever";
  if (notes.resources.stack == 0) return "the assembler warns of register pressure in the chosen form";
  return concat("the chosen form spills ", notes.resources.stack, " bytes of a thread");
}

std::string reason_of_blocks(const Asked& asked, int blocks) {
  return concat(blocks, blocks == 1 ? " block" : " blocks", " of the chosen form ", blocks == 1 ? "fits" : "fit",
                " on an SM, not ", asked.occupancy);
}

void throw_never_ends(const CodeNotes& notes) {
  const CubinResources& r = notes.resources;
  throw tileiras::Rejection(
      concat("the assembler's code would wait forever: a block of ", r.threads, " threads has ", r.registers,
             " registers a thread, and some of its warps wait until they have ", r.asked_registers,
             " while others keep ", r.kept_registers,
             ".\n  Without TESSERA_TUNING and records of the tuner another form is chosen where one ends; else "
             "use other pieces."));
}

}  // namespace tessera::jit
