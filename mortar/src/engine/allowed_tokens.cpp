// Masks of allowed tokens.
#include "engine/allowed_tokens.hpp"

#include <algorithm>

namespace mortar {

namespace {

constexpr std::int64_t kBits = 32;

void set_all(std::span<std::uint32_t> mask, std::int64_t valid) {
  std::ranges::fill(mask, 0U);
  std::ranges::fill(mask.first(static_cast<std::size_t>(valid / kBits)), ~0U);
  if (valid % kBits != 0) mask[static_cast<std::size_t>(valid / kBits)] = (1U << (valid % kBits)) - 1;
}
void set(std::span<std::uint32_t> mask, TokenId id) {
  mask[static_cast<std::size_t>(id / kBits)] |= 1U << (id % kBits);
}
void reset(std::span<std::uint32_t> mask, TokenId id) {
  mask[static_cast<std::size_t>(id / kBits)] &= ~(1U << (id % kBits));
}
bool has(std::span<const std::uint32_t> mask, TokenId id) {
  return (mask[static_cast<std::size_t>(id / kBits)] >> (id % kBits) & 1U) != 0;
}
bool any(std::span<const std::uint32_t> mask) {
  return std::ranges::any_of(mask, [](std::uint32_t word) { return word != 0; });
}

}  // namespace

AllowedTokens::AllowedTokens(const Request& request, std::shared_ptr<TokenConstraint> constraint,
                             const TokenMeanings& meanings)
    : request_(request),
      constraint_(std::move(constraint)),
      meanings_(meanings),
      end_ids_(request.stop_ids),
      thinking_(request.starts_thinking) {
  if (!request.ignore_eos) end_ids_.insert(end_ids_.end(), meanings.eos_ids.begin(), meanings.eos_ids.end());
  if (request.allowed_ids.empty() && request.banned_ids.empty()) return;
  fixed_.resize(static_cast<std::size_t>(meanings.words()));
  if (request.allowed_ids.empty()) set_all(fixed_, meanings.valid);
  for (const TokenId id : request.allowed_ids) set(fixed_, id);
  for (const TokenId id : request.banned_ids) reset(fixed_, id);
}

bool AllowedTokens::restricts(const Request& r) {
  return r.constraint || !r.allowed_ids.empty() || !r.banned_ids.empty() || r.min_tokens > 0 || r.thinking_budget >= 0;
}

bool AllowedTokens::must_end_thinking(std::int64_t unknown) const {
  const std::int64_t budget = request_.thinking_budget;
  return budget >= 0 && (thinking_ || unknown > 0) && thought_ + unknown >= budget;
}

bool AllowedTokens::may_restrict(std::int64_t unknown) const {
  return constraint_ || !fixed_.empty() || accepted_ + unknown < request_.min_tokens || must_end_thinking(unknown);
}

void AllowedTokens::clear(std::span<std::uint32_t> mask, std::span<const TokenId> ids) const {
  for (const TokenId id : ids) reset(mask, id);
}

AllowedTokens::Filled AllowedTokens::fill(std::span<std::uint32_t> mask) {
  const bool constrained = constraint_ && constraint_->restricts();
  if (constrained)
    constraint_->fill_mask(mask);
  else
    set_all(mask, meanings_.valid);
  Filled filled = constrained ? Filled::Some : Filled::All;
  if (!fixed_.empty()) {
    for (std::size_t i = 0; i < fixed_.size(); ++i) mask[i] &= fixed_[i];
    filled = Filled::Some;
  }
  // An answer that can only end ends, however short it is.
  if (accepted_ < request_.min_tokens) {
    std::vector<TokenId> cleared;
    for (const TokenId id : end_ids_)
      if (id >= 0 && id < meanings_.valid && has(mask, id)) cleared.push_back(id);
    clear(mask, cleared);
    if (!any(mask))
      for (const TokenId id : cleared) set(mask, id);
    filled = Filled::Some;
  }
  if (must_end_thinking(0) && has(mask, meanings_.end_thinking)) {
    std::ranges::fill(mask, 0U);
    set(mask, meanings_.end_thinking);
    return Filled::Some;
  }
  return filled == Filled::All || any(mask) ? filled : Filled::None;
}

bool AllowedTokens::ends(TokenId id) const { return std::ranges::find(end_ids_, id) != end_ids_.end(); }

bool AllowedTokens::accept(TokenId id) {
  if (constraint_ && !ends(id) && !constraint_->accept(id)) return false;
  ++accepted_;
  if (thinking_) ++thought_;
  if (id == meanings_.think) thinking_ = true;
  if (id == meanings_.end_thinking) thinking_ = false;
  return true;
}

}  // namespace mortar
