// The plainer forms: what is left out are the rotations of loops first, because they multiply what a loop keeps at
// hand, as several pieces a block do, with the splitting of masks, and then the hints that fix how much room that has.
#include "tessera/jit/plain_form.hpp"

#include "tessera/base/env.hpp"
#include "tessera/passes/tuning_text.hpp"

namespace tessera::jit {
namespace {

constexpr Form kForms[] = {Form::Chosen, Form::Plain, Form::Bare};

constexpr passes::Tuning plain(bool with_hints) {
  passes::Tuning t;
  t.ahead = 0;
  t.pieces = 1;
  t.pipeline_mma = false;
  t.unmask = false;
  t.choose_hints = with_hints;
  return t;
}

}  // namespace

const passes::Tuning* tuning_of(Form form) noexcept {
  static constexpr passes::Tuning kPlain = plain(true), kBare = plain(false);
  switch (form) {
    case Form::Chosen: return nullptr;
    case Form::Plain: return &kPlain;
    case Form::Bare: return &kBare;
  }
  return nullptr;
}

std::string text_of(Form form) {
  const passes::Tuning* tuning = tuning_of(form);
  return tuning ? passes::text_of(*tuning) : std::string();
}

std::span<const Form> forms_for(const passes::Tuning* tuning) {
  const bool asked = env(Env::TUNING) != nullptr || (tuning && *tuning != passes::Tuning{});
  return std::span(kForms).first(asked ? 1 : std::size(kForms));
}

}  // namespace tessera::jit
