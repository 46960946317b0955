// The forms in which a kernel can be compiled: the one that the passes choose; alternatives where that spills
// registers; fallbacks where the assembler rejects it. docs/jit.md, "Forms".
#pragma once
#include <algorithm>
#include <cstddef>
#include <exception>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/codegen/tileiras/tileiras.hpp"
#include "tessera/jit/code_report.hpp"
#include "tessera/passes/optimize.hpp"

namespace tessera::jit {

/// The tuning that the passes get; null for Form::Chosen.
const passes::Tuning* tuning_of(Form form) noexcept;
/// The same as text, "stores=view"; empty for Form::Chosen.
std::string text_of(Form form);
/// For names of files: "fallback"; empty for Form::Chosen.
const char* name_of(Form form) noexcept;
/// True for the forms that are tried where the chosen one spills; the others are for rejections of the assembler.
bool is_for_spills(Form form) noexcept;

std::span<const Form> all_forms() noexcept;
/// The forms that a kernel may be compiled as, in the order in which they are tried: all of them, or the chosen one
/// alone if hints are given, by TESSERA_TUNING or by a record (`tuning`; null: none) that has any.
std::span<const Form> forms_for(const passes::Tuning* tuning);

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
inline constexpr unsigned kNeverEnds = static_cast<unsigned>(-1);
/// Throws tileiras::Rejection for code that never ends.
void check_ends(const CodeNotes& notes);

/// A kernel in the form that was taken. P: the prepared module; M: the compiled code.
template <class P, class M>
struct BestForm {
  P prepared;
  M made;
  /// The assembler's message if it rejected the chosen form; empty if it did not.
  std::string rejection = {};
};

namespace detail {

inline Form form_of(Form form) { return form; }
template <class F>
Form form_of(const F& f) {
  return f.form;
}

/// work(data, 0), ..., work(data, count - 1), each in a thread of its own as far as there are any. They throw nothing.
void run_at_once(std::size_t count, void (*work)(void* data, std::size_t number), void* data);

using Bytecode = std::vector<std::byte>;
inline bool has(const std::vector<Bytecode>& seen, const Bytecode& bytecode) {
  return std::find(seen.begin(), seen.end(), bytecode) != seen.end();
}

/// The first fallback form that the assembler accepts. Nothing if it accepts none.
template <class P, class M, class Forms, class Prepare, class Make, class Notes>
std::optional<BestForm<P, M>> first_accepted(const Forms& forms, Prepare& prepare, Make& make, Notes& notes_of,
                                             const Bytecode& chosen, const std::string& rejection) {
  std::vector<Bytecode> rejected{chosen};
  for (auto form = std::next(std::begin(forms)); form != std::end(forms); ++form) {
    if (is_for_spills(form_of(*form))) continue;
    P fallback = prepare(*form);
    if (has(rejected, fallback.bytecode)) continue;
    try {
      M made = make(std::as_const(fallback));
      check_ends(notes_of(std::as_const(made)));
      return BestForm<P, M>{std::move(fallback), std::move(made), rejection};
    } catch (const tileiras::Rejection&) { rejected.push_back(std::move(fallback.bytecode)); }
  }
  return std::nullopt;
}

/// Makes the forms for spills, all at the same time; the best of them replaces `best` if it is better.
template <class P, class M, class Forms, class Prepare, class Make, class Notes>
void take_best_of_forms(BestForm<P, M>& best, const Forms& forms, Prepare& prepare, Make& make, Notes& notes_of) {
  std::vector<Bytecode> seen{best.prepared.bytecode};
  std::vector<P> others;
  for (auto form = std::next(std::begin(forms)); form != std::end(forms); ++form) {
    if (!is_for_spills(form_of(*form))) continue;
    P other = prepare(*form);
    if (has(seen, other.bytecode)) continue;
    seen.push_back(other.bytecode);
    others.push_back(std::move(other));
  }
  std::vector<std::optional<M>> made(others.size());
  auto run = [&](std::size_t i) {
    try {
      made[i].emplace(make(std::as_const(others[i])));
    } catch (const std::exception&) {}  // there is code already
  };
  run_at_once(
      others.size(), [](void* f, std::size_t i) { (*static_cast<decltype(run)*>(f))(i); }, &run);
  const bool limited = best.prepared.limited;
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (made[i] && is_better(notes_of(std::as_const(*made[i])), notes_of(std::as_const(best.made)), limited))
      best = {std::move(others[i]), std::move(*made[i])};
  }
}

}  // namespace detail

/// Makes a kernel in the first of `forms` (things of which form_of() gives a Form), and looks at the report: where that
/// says that it spills, or that its code would never end, the forms for spills are made as well, at the same time, and
/// the best one is taken. Where the assembler rejects the first form, or no form so far ends, the fallback
/// ones are tried one after the other; if none serves, the first rejection is thrown. Other errors of the first form
/// end it at once.
///
/// `prepare(form)` gives something with the members `bytecode` (equal bytecode is not made twice) and `limited` (as
/// is_better has it). `make(prepared)` makes
/// code, from several threads. `notes_of(made)` gives its CodeNotes.
template <class Forms, class Prepare, class Make, class Notes>
auto best_form(const Forms& forms, Prepare&& prepare, Make&& make, Notes&& notes_of) {
  using P = std::decay_t<decltype(prepare(*std::begin(forms)))>;
  using M = std::decay_t<decltype(make(std::declval<const P&>()))>;
  P chosen = prepare(*std::begin(forms));
  const detail::Bytecode bytecode = chosen.bytecode;  // a form that never ends is rejected after it has been moved
  try {
    M made = make(std::as_const(chosen));
    BestForm<P, M> best{std::move(chosen), std::move(made)};
    if (spills_too_much(notes_of(std::as_const(best.made)), best.prepared.limited))
      detail::take_best_of_forms(best, forms, prepare, make, notes_of);
    check_ends(notes_of(std::as_const(best.made)));
    return best;
  } catch (const tileiras::Rejection& rejection) {
    auto other = detail::first_accepted<P, M>(forms, prepare, make, notes_of, bytecode, rejection.message());
    if (other) return std::move(*other);
    throw;
  }
}

}  // namespace tessera::jit
