// What a kernel is compiled as where the assembler refuses what the passes chose for it. docs/jit.md, "When the
// assembler refuses".
#pragma once
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "tessera/codegen/tileiras/tileiras.hpp"
#include "tessera/jit/code_report.hpp"
#include "tessera/passes/optimize.hpp"

namespace tessera::jit {

/// What the passes are told; null for Form::Chosen: nothing.
const passes::Tuning* tuning_of(Form form) noexcept;
/// The same as text, "ahead=0 pieces=1 pipeline=0 unmask=0"; empty for Form::Chosen.
std::string text_of(Form form);

/// The forms that a kernel may be compiled as, in the order in which they are tried: all of them, or the chosen one
/// alone if hints were asked for, by TESSERA_TUNING or by a record (`tuning`; null: none) that has any.
std::span<const Form> forms_for(const passes::Tuning* tuning);

/// `make(prepare(form), why)` of the first form that the assembler does not refuse. `prepare` gives something with a
/// member `bytecode`; what was refused once is not tried again. `why` is the refusal of the first form; null for that
/// one itself. If all are refused, the first refusal is thrown; other errors end it at once.
template <class Forms, class Prepare, class Make>
auto first_accepted(const Forms& forms, Prepare&& prepare, Make&& make) {
  auto form = std::begin(forms);
  auto chosen = prepare(*form);
  try {
    return make(chosen, static_cast<const tileiras::Refusal*>(nullptr));
  } catch (const tileiras::Refusal& first) {
    std::vector<std::vector<std::byte>> refused{std::move(chosen.bytecode)};
    while (++form != std::end(forms)) {
      auto plainer = prepare(*form);
      if (std::find(refused.begin(), refused.end(), plainer.bytecode) != refused.end()) continue;
      try {
        return make(plainer, &first);
      } catch (const tileiras::Refusal&) { refused.push_back(std::move(plainer.bytecode)); }
    }
    throw;
  }
}

}  // namespace tessera::jit
