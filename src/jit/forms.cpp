// The table of forms. Those for spills first raise the limit of registers, where there is one, or give a thread fewer
// vectors; the others leave out the limit and need fewer registers: stores from registers avoid the copy of the tile
// that a store through shared memory needs, a load by tensor copy keeps its tile in shared memory until it is used,
// twice the warps hold half of a tile each, and one piece per block is less than several. The fallback forms first
// leave out software pipelining, which increases the state that a loop keeps, and narrowed masks; then the hints as
// well.
#include "tessera/jit/forms.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <system_error>
#include <thread>

#include "tessera/base/env.hpp"
#include "tessera/base/format.hpp"
#include "tessera/passes/tuning_text.hpp"

namespace tessera::jit {
namespace {

using passes::Tuning;

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
  if (plain_stores) t.stores = passes::AccessPath::View;
  return t;
}

constexpr Tuning tensor_copies() {
  Tuning t = no_limit();
  t.access = passes::AccessPath::Tma;
  return t;
}

constexpr Tuning one_piece() {
  Tuning t = no_limit();
  t.pieces = 1;
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

struct Row {
  Form form;
  const char* name;
  bool for_spills;
  Tuning tuning;
};
constexpr Row kRows[] = {
    {Form::Chosen, "", false, {}},
    {Form::Registers96, "registers_96", true, more_registers(96)},
    {Form::Registers128, "registers_128", true, more_registers(128)},
    {Form::TwoVectors, "two_vectors", true, fewer_vectors(2)},
    {Form::OneVector, "one_vector", true, fewer_vectors(1)},
    {Form::Unlimited, "unlimited", true, no_limit()},
    {Form::PlainStores, "stores", true, spread(1, true)},
    {Form::TensorCopies, "copies", true, tensor_copies()},
    {Form::MoreWarps, "warps", true, spread(2, false)},
    {Form::MoreWarpsPlainStores, "warps_stores", true, spread(2, true)},
    {Form::OnePiece, "piece", true, one_piece()},
    {Form::Fallback, "fallback", false, plain(true)},
    {Form::Bare, "bare", false, plain(false)},
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
std::string text_of(Form form) { return passes::text_of(row_of(form).tuning); }
const char* name_of(Form form) noexcept { return row_of(form).name; }
bool is_for_spills(Form form) noexcept { return row_of(form).for_spills; }
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

/// Bytes that a thread may spill for the sake of another resident block.
unsigned bearable_spill(const CubinResources& r, bool limited) noexcept {
  constexpr unsigned kManyThreads = 16 * 32, kRegistersOfTwo = 64;
  if (r.threads >= kManyThreads && r.registers <= kRegistersOfTwo) return r.registers * kRegisterBytes / 4;
  return limited ? r.registers * kRegisterBytes / 8 : 0;
}

/// Warps on an SM (CUDA C++ Programming Guide, technical specifications; registers are allocated eight at a time).
double resident_warps(const CubinResources& r) noexcept {
  constexpr unsigned kRegisters = 65536, kMostWarps = 64, kMostBlocks = 32, kWarp = 32;
  const unsigned warps = std::max(r.threads / kWarp, 1U), registers = std::max((r.registers + 7) / 8 * 8, 8U);
  return warps * std::max(std::min({kRegisters / (registers * kWarp * warps), kMostWarps / warps, kMostBlocks}), 1U);
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

void check_ends(const CodeNotes& notes) {
  const CubinResources& r = notes.resources;
  if (!waits_for_registers(r)) return;
  throw tileiras::Rejection(
      concat("the assembler's code would wait forever: a block of ", r.threads, " threads has ", r.registers,
             " registers a thread, and some of its warps wait until they have ", r.asked_registers,
             " while others keep ", r.kept_registers,
             ".\n  Without TESSERA_TUNING and records of the tuner another form is chosen where one ends; else "
             "use other pieces."));
}

}  // namespace tessera::jit
