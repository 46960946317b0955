// The forms in which a kernel can be compiled: the one that the passes choose; others where that spills registers,
// where fewer of its blocks fit on an SM than it was compiled for, where the assembler rejects it, and where the
// assembler takes too long. docs/jit.md, "Forms".
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/codegen/tileiras/tileiras.hpp"
#include "tessera/jit/code_report.hpp"
#include "tessera/passes/optimize.hpp"

namespace tessera::jit {

/// Why another form than the chosen one is compiled.
enum class Cause : std::uint8_t {
  None,       ///< the chosen form is taken
  Spills,     ///< it spills registers, or its code would never end
  Occupancy,  ///< fewer blocks of it fit on an SM than it asks for
  FewWarps,   ///< an SM holds few of its warps, because their threads take many registers or much shared memory
  Rejected,   ///< the assembler rejects it
  Slow,       ///< the assembler did not finish within its limit (kFormSeconds, TESSERA_TILEIRAS_SECONDS)
};

/// The tuning that the passes get; null for Form::Chosen.
const passes::Tuning* tuning_of(Form form) noexcept;
/// The tuning as text, "stores=view", and "opt-level=0" where that is not 3; empty for Form::Chosen.
std::string text_of(Form form);
/// For names of files: "fallback"; empty for Form::Chosen.
const char* name_of(Form form) noexcept;
/// The assembler's --opt-level.
int opt_level_of(Form form) noexcept;
/// The step of the ladder for `cause` in which the form is compiled, from 1 on; 0: it is not for that.
int step_of(Form form, Cause cause) noexcept;
inline constexpr int kLastStep = 3;  ///< of any ladder

std::span<const Form> all_forms() noexcept;
/// The forms that a kernel may be compiled as, in the order in which they are tried: all of them, or the chosen one
/// alone if hints are given, by TESSERA_TUNING or by a record (`tuning`; null: none) that has any.
std::span<const Form> forms_for(const passes::Tuning* tuning);

/// What a form asks for.
struct Asked {
  bool limited = false;  ///< registers are limited for the sake of more warps (passes::Choices)
  int occupancy = 0;     ///< blocks of an SM; 0: left to the assembler
  int sm = 0;            ///< the GPU's compute capability
};

/// How much a kernel spills: the bytes that a thread spills, and 1 more where the assembler warned of high
/// register usage. 0: nothing. kNeverEnds: such code waits for registers forever.
unsigned spill_cost(const CodeNotes& notes) noexcept;
/// True if other forms may be better: if it spills. In blocks of 16 warps with so few registers that two fit on an SM a
/// quarter of them may spill, and an eighth where registers are `limited` for the sake of more warps: another resident
/// block gains more than a few spilled registers cost.
bool spills_too_much(const CodeNotes& notes, bool limited) noexcept;
/// Instructions that a block issues, in relation to how many an SM issues with the warps that it can hold: an estimate
/// of the time of code without loops, comparable between forms of one kernel.
double issue_time(const CubinResources& resources) noexcept;
/// True if form `a` of a kernel is better than form `b`: by issue_time() for code without loops whose registers are
/// `limited`, because that is bound by instructions or loads neighbours; else by what it spills.
bool is_better(const CodeNotes& a, const CodeNotes& b, bool limited) noexcept;
/// Blocks that fit on an SM, if these are fewer than the form asks for; else 0.
int fewer_blocks(const Asked& asked, const CodeNotes& notes) noexcept;
/// The form for code of which no more than `blocks` fit on an SM; empty: there is none.
std::optional<Form> form_of_blocks(int blocks) noexcept;
/// True if the SM holds so few warps of a kernel that they rarely hide a wait at a barrier, though nothing was asked
/// about blocks. Its threads exchange elements through shared memory, and it copies nothing there ahead.
bool has_few_warps(const Asked& asked, const CodeNotes& notes) noexcept;
/// True if the SM holds at least twice the warps of code `after`, and it spills no more; or little, where shared memory
/// was the limit before.
bool gains_warps(const Asked& asked, const CodeNotes& before, const CodeNotes& after) noexcept;
/// One sentence about a chosen form that is not taken because it spills, or because too few blocks fit.
std::string reason_of_spills(const CodeNotes& notes);
std::string reason_of_blocks(const Asked& asked, int blocks);
std::string reason_of_few_warps(const Asked& asked, const CodeNotes& notes);
inline constexpr unsigned kNeverEnds = static_cast<unsigned>(-1);
[[noreturn]] void throw_never_ends(const CodeNotes& notes);
/// Throws tileiras::Rejection for code that never ends.
inline void check_ends(const CodeNotes& notes) {
  if (waits_for_registers(notes.resources)) throw_never_ends(notes);
}

/// A kernel in the form that was taken. P: the prepared module; M: the compiled code.
template <class P, class M>
struct BestForm {
  P prepared;
  M made;
  Cause cause = Cause::None;
  std::string reason = {};  ///< why the chosen form is not taken: the assembler's message, or what the report says
};

namespace detail {

inline Form form_of(Form form) { return form; }
template <class F>
Form form_of(const F& f) {
  return f.form;
}

/// work(data, 0), ..., work(data, count - 1), each in a thread of its own as far as there are any. They throw nothing.
void run_at_once(std::size_t count, void (*work)(void* data, std::size_t number), void* data);

/// The forms of one kernel, each prepared and made at most once.
template <class Forms, class Prepare, class Make, class Notes>
class Ladder {
 public:
  using P = std::decay_t<std::invoke_result_t<Prepare&, decltype(*std::begin(std::declval<const Forms&>()))>>;
  using M = std::decay_t<std::invoke_result_t<Make&, const P&>>;
  using Best = BestForm<P, M>;
  Ladder(const Forms& forms, Prepare& prepare, Make& make, Notes& notes_of)
      : forms_(forms), prepare_(prepare), make_(make), notes_of_(notes_of) {}

  Best climb() {
    P chosen = prepare_(*std::begin(forms_));
    is_new(chosen);
    chosen.patient = std::next(std::begin(forms_)) == std::end(forms_);  // there is no other form
    try {
      M made = make_(std::as_const(chosen));
      Best best{std::move(chosen), std::move(made)};
      fit_occupancy(best);
      if (!add_blocks(best)) improve(best);
      check_ends(notes(best.made));
      return best;
    } catch (const tileiras::Rejection& error) {
      if (auto other = plainer(Cause::Rejected, error.message())) return std::move(*other);
      throw;
    } catch (const tileiras::TooSlow& error) {
      slow_ = std::begin(forms_);
      if (auto other = plainer(Cause::Slow, error.message())) return std::move(*other);
      throw;
    }
  }

 private:
  using Place = decltype(std::begin(std::declval<const Forms&>()));
  decltype(auto) notes(const M& made) { return notes_of_(made); }

  /// True the first time that code is to be made with an effort of the assembler.
  bool is_new(const P& form) {
    std::pair code(opt_level_of(form.form), form.bytecode);
    if (std::find(seen_.begin(), seen_.end(), code) != seen_.end()) return false;
    seen_.push_back(std::move(code));
    return true;
  }

  /// The forms of a step whose code has not been made yet.
  std::vector<std::pair<Place, P>> step(Cause cause, int number) {
    std::vector<std::pair<Place, P>> found;
    for (auto form = std::next(std::begin(forms_)); form != std::end(forms_); ++form) {
      if (step_of(form_of(*form), cause) != number) continue;
      P other = prepare_(*form);
      if (is_new(other)) found.emplace_back(form, std::move(other));
    }
    return found;
  }

  /// Makes them at the same time. The best one that ends replaces `best` if it is better; errors other than rejections
  /// and slowness are thrown if there is no code at all.
  void take_best(std::optional<Best>& best, std::vector<std::pair<Place, P>> others, bool limited) {
    std::vector<std::optional<M>> made(others.size());
    std::vector<std::exception_ptr> errors(others.size());
    auto run = [&](std::size_t i) {
      try {
        made[i].emplace(make_(std::as_const(others[i].second)));
      } catch (...) { errors[i] = std::current_exception(); }
    };
    run_at_once(
        others.size(), [](void* f, std::size_t i) { (*static_cast<decltype(run)*>(f))(i); }, &run);
    std::exception_ptr failure;
    for (std::size_t i = 0; i < others.size(); ++i) {
      if (!made[i]) {
        if (!says_nothing(errors[i], others[i].first) && !failure) failure = errors[i];
        continue;
      }
      if (spill_cost(notes(*made[i])) == kNeverEnds && !best) continue;
      if (!best || is_better(notes(*made[i]), notes(best->made), limited))
        best = Best{std::move(others[i].second), std::move(*made[i])};
    }
    if (!best && failure) std::rethrow_exception(failure);
  }

  /// True for errors about the program, which do not end the search.
  bool says_nothing(const std::exception_ptr& error, Place form) {
    try {
      std::rethrow_exception(error);
    } catch (const tileiras::Rejection&) { return true; } catch (const tileiras::TooSlow&) {
      slow_ = form;
      return true;
    } catch (...) { return false; }
  }

  /// Code of which fewer blocks fit on an SM than it was compiled for is made for as many as fit.
  void fit_occupancy(Best& best) {
    const int blocks = fewer_blocks(best.prepared.asked, notes(best.made));
    const std::optional<Form> wanted = blocks > 0 ? form_of_blocks(blocks) : std::nullopt;
    if (!wanted) return;
    const auto fits = [&](const P& other, const M& made) {
      return fewer_blocks(other.asked, notes(made)) == 0 && !is_better(notes(best.made), notes(made), false);
    };
    replace(best, *wanted, Cause::Occupancy, reason_of_blocks(best.prepared.asked, blocks), fits);
  }

  /// Code of which an SM holds few warps is made for more blocks. True if that is taken.
  bool add_blocks(Best& best) {
    const Asked asked = best.prepared.asked;
    const bool chosen = best.prepared.form == Form::Chosen && spill_cost(notes(best.made)) == 0;
    if (!chosen || !has_few_warps(asked, notes(best.made))) return false;
    const auto gains = [&](const P&, const M& made) { return gains_warps(asked, notes(best.made), notes(made)); };
    replace(best, Form::MoreBlocks, Cause::FewWarps, reason_of_few_warps(asked, notes(best.made)), gains);
    return best.prepared.form == Form::MoreBlocks;
  }

  /// Makes the form, which replaces `best` if `is_taken(prepared, made)`.
  template <class Taken>
  void replace(Best& best, Form wanted, Cause cause, std::string reason, Taken is_taken) {
    const auto place =
        std::find_if(std::begin(forms_), std::end(forms_), [&](const auto& form) { return form_of(form) == wanted; });
    if (place == std::end(forms_)) return;
    P other = prepare_(*place);
    if (!is_new(other)) return;
    try {
      M made = make_(std::as_const(other));
      if (is_taken(std::as_const(other), std::as_const(made)))
        best = Best{std::move(other), std::move(made), cause, std::move(reason)};
    } catch (const std::exception&) {}  // there is code already
  }

  /// The best of the forms for spills, if the code spills: those of a step only if none of the steps before is enough.
  /// Where registers were limited, the first step has forms that may have all of them.
  void improve(Best& best) {
    if (!spills_too_much(notes(best.made), best.prepared.asked.limited)) return;
    std::string reason = reason_of_spills(notes(best.made));
    const bool limited = best.prepared.asked.limited;
    const Form before = best.prepared.form;
    std::optional<Best> found(std::move(best));
    const int last = limited ? 1 : kLastStep;
    for (int number = 1; number <= last && spills_too_much(notes(found->made), limited); ++number)
      take_best(found, step(Cause::Spills, number), limited);
    best = std::move(*found);
    if (best.prepared.form != before) best.cause = Cause::Spills, best.reason = std::move(reason);
  }

  /// The best form of the first steps until one does not spill; those of the last step only if the assembler accepts
  /// none before. If it accepts none at all but was stopped, the plainest of those that it was stopped at gets as much
  /// time as TESSERA_TILEIRAS_SECONDS says. Nothing if it rejects all.
  std::optional<Best> plainer(Cause cause, const std::string& reason) {
    std::optional<Best> best;
    const auto enough = [&](int number) {
      return best && (number == kLastStep || !spills_too_much(notes(best->made), false));
    };
    for (int number = 1; number <= kLastStep && !enough(number); ++number) take_best(best, step(cause, number), false);
    if (!best && slow_) {
      P last = prepare_(**slow_);
      last.patient = true;
      M made = make_(std::as_const(last));
      check_ends(notes(made));
      best = Best{std::move(last), std::move(made)};
    }
    if (best) best->cause = cause, best->reason = reason;
    return best;
  }

  const Forms& forms_;
  Prepare& prepare_;
  Make& make_;
  Notes& notes_of_;
  std::vector<std::pair<int, std::vector<std::byte>>> seen_;  ///< --opt-level and bytecode that have been prepared
  std::optional<Place> slow_;                                 ///< the last form that the assembler was stopped at
};

}  // namespace detail

/// Makes a kernel in the first of `forms` (things of which form_of() gives a Form), and looks at the report:
/// - if fewer blocks fit on an SM than the form asks for, it is made for as many as fit;
/// - if an SM holds few warps of it (has_few_warps), it is made for more blocks, which is taken if gains_warps();
/// - if it spills, or its code would never end, the steps of the ladder for spills are climbed until one does not: the
///   forms of a step are made at the same time, and the best one of all is taken;
/// - if the assembler rejects it, no form so far ends, or the assembler was stopped, the steps of the ladder for that
///   are climbed: the forms of a step are made at the same time, and the best accepted one is taken, as soon as there
///   is one that does not spill. The last step is tried only if nothing has been accepted. If nothing is, the first
///   rejection is thrown.
/// Other errors of the first form end it at once.
///
/// `prepare(form)` gives something with the members `form`, `bytecode` (equal bytecode is not made twice), `asked` (an
/// Asked) and `patient`: make() is to give the assembler all the time that TESSERA_TILEIRAS_SECONDS says.
/// `make(prepared)` makes code, from several threads. `notes_of(made)` gives its CodeNotes.
template <class Forms, class Prepare, class Make, class Notes>
auto best_form(const Forms& forms, Prepare&& prepare, Make&& make, Notes&& notes_of) {
  return detail::Ladder<Forms, std::remove_reference_t<Prepare>, std::remove_reference_t<Make>,
                        std::remove_reference_t<Notes>>(forms, prepare, make, notes_of)
      .climb();
}

}  // namespace tessera::jit
