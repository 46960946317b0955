// From what the rows of a table of predicates ask about a launch to claims with conditions.
// docs/compiler/obligations.md.
#include <algorithm>

#include "analysis/collector.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::analysis {

/// The contiguous axes of tensors, of which a block takes one tile.
std::vector<TakenAxis> Collector::axes_taken(const ir::Block& entry) const {
  std::vector<TakenAxis> axes;
  for (const TensorContract& t : contract_->tensors) {
    const auto bytes = ir::info(entry.arg(static_cast<std::size_t>(t.base_arg)).type().pointee().elem()).bytes;
    for (int a = 0; a < t.rank; ++a) {
      const int extent = t.base_arg + 1 + a, stride = extent + t.rank;
      if (entry.arg(static_cast<std::size_t>(stride)).has_uses()) continue;
      for (const CutAxis& cut : taken_once_)
        if (cut.first == extent && std::ranges::find(walked_, cut) == walked_.end())
          axes.push_back({extent, static_cast<std::int64_t>(cut.second), cut.second * bytes, t.rank > 1});
    }
  }
  return axes;
}

void Collector::answer_questions(const ir::Function& function) {
  const std::vector<TakenAxis> taken = axes_taken(function.body());
  const AskedKernel kernel{function, *contract_, has_products_, division_, taken};
  for (std::size_t row = 0; row < predicates_.size(); ++row)
    for (const LaunchQuestion& question : predicates_[row].ask(kernel)) answer(question, static_cast<int>(row));
}

/// The number that a bound is about; none where the contract does not determine it.
std::optional<Expr> Collector::subject_of(const LaunchBound& bound) {
  if (bound.of == LaunchBound::Of::Argument) return math().exprs().arg(bound.index);
  const std::optional<Expr> pieces = launch().pieces();
  if (!pieces || bound.of == LaunchBound::Of::Pieces) return pieces;
  const auto rank = static_cast<int>(contract_->piece.size());
  if (contract_->pieces_of_tensor < 0 || bound.index < 0) return std::nullopt;
  if (bound.of == LaunchBound::Of::PiecesAlong)
    return bound.index < rank ? std::optional(launch().pieces_along(bound.index)) : std::nullopt;
  if (bound.index > rank) return std::nullopt;
  Expr product = math().exprs().constant(1);
  for (int a = 0; a < bound.index; ++a) product = math().exprs().mul(product, launch().pieces_along(a));
  return product;
}

/// What a question says about arguments becomes claims about these, which apply_claims uses for all passes; what it
/// says about pieces becomes one claim, which passes look for by the row.
void Collector::answer(const LaunchQuestion& question, int row) {
  ExprPool& e = math().exprs();
  Conditions when = kAlways;
  for (const auto& [a, b] : question.equal)
    when = conditions_->both(when, conditions_->both(conditions_->less_equal(e.arg(a), e.arg(b)),
                                                     conditions_->less_equal(e.arg(b), e.arg(a))));
  bool of_pieces = false;
  for (const LaunchBound& bound : question.bounds) {
    const std::optional<Expr> subject = subject_of(bound);
    if (!subject) return;
    of_pieces = of_pieces || bound.of != LaunchBound::Of::Argument;
    if (bound.most != LaunchBound::kNoMost)
      when = conditions_->both(when, conditions_->less_equal(*subject, e.constant(bound.most)));
    if (bound.least != LaunchBound::kNoLeast)
      when = conditions_->both(when, conditions_->less_equal(e.constant(bound.least), *subject));
  }
  for (const LaunchBound& bound : question.bounds)
    if (bound.of == LaunchBound::Of::Argument) claim_bounded(bound.index, bound.least, bound.most, question.use, when);
  if (!of_pieces) return;
  for (const FoundClaim& other : found_)
    if (other.claim.kind == ClaimKind::OfLaunch && other.claim.index == row)
      throw InternalError(concat("the row ", predicates_[static_cast<std::size_t>(row)].name,
                                 " of the predicates asks two questions about pieces; expected at most one, because a "
                                 "pass looks for the row"));
  FoundClaim f;
  f.claim.kind = ClaimKind::OfLaunch;
  f.claim.question = &questions_->emplace_back(question);
  f.claim.index = row;
  f.use = question.use;
  f.when = when;
  f.where = question.where;
  found_.push_back(f);
}

}  // namespace tessera::analysis
