// From claims with conditions to numbered obligations and the program that a launch evaluates.
#include "tessera/analysis/facts.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <unordered_map>

#include "analysis/collector.hpp"
#include "analysis/launch_program.hpp"
#include "tessera/analysis/certificate.hpp"
#include "tessera/base/format.hpp"

namespace tessera::analysis {

struct Facts::Impl {
  std::vector<Obligation> obligations;
  std::vector<Claim> claims;
  std::deque<LaunchQuestion> questions;  // which claims point to
  std::vector<std::size_t> places;       // of the claims' operations in a walk of the entry
  LaunchPredicates conditions;
  Certificate certificate;
  LaunchContract contract;
};

namespace {

/// "arg2.dim(1)": parameters count from 1, as in the errors of a launch.
std::vector<std::string> argument_names(const LaunchContract& contract) {
  std::vector<std::string> names;
  int parameter = 0;
  for (const ArgContract& a : contract.args) {
    if (a.role == ArgRole::Base || a.role == ArgRole::Value) ++parameter;
    switch (a.role) {
      case ArgRole::Base: names.push_back(concat("arg", parameter, ".address")); break;
      case ArgRole::Dim: names.push_back(concat("arg", parameter, ".dim(", a.axis, ")")); break;
      case ArgRole::Stride: names.push_back(concat("arg", parameter, ".stride(", a.axis, ")")); break;
      case ArgRole::Value: names.push_back(concat("arg", parameter)); break;
      case ArgRole::Blocks: names.push_back("blocks"); break;
    }
  }
  return names;
}

const ir::Function* find_entry(const ir::Module& module) {
  for (const auto& f : module.functions) {
    if (f->entry) return f.get();
  }
  return nullptr;
}

/// The operations of the entry in the order of a walk.
template <class F>
void each_operation(const ir::Module& module, F&& f) {
  if (const ir::Function* entry = find_entry(module)) ir::walk(entry->body(), f);
}

constexpr std::array kClaimInfos = {
#define TESSERA_CLAIM(kind, each_run, text) ClaimInfo{each_run, text},
#include "tessera/analysis/claims.def"
};

/// What cannot be numbered any more.
constexpr int kDropped = -2;

}  // namespace

const ClaimInfo& info(ClaimKind kind) noexcept {
  static constexpr ClaimInfo kUnknown{false, "a claim of a kind that there is not"};
  const auto number = static_cast<std::size_t>(kind);
  return number < kClaimInfos.size() ? kClaimInfos[number] : kUnknown;
}

Facts Facts::analyze(const ir::Module& module, const LaunchContract& contract,
                     std::span<const LaunchPredicate> predicates) {
  auto impl = std::make_unique<Impl>();
  impl->contract = contract;
  const ir::Function* entry = find_entry(module);
  if (entry == nullptr || entry->body().num_args() != contract.args.size()) return Facts(std::move(impl));
  ExprPool exprs;
  ConditionPool conditions(exprs);
  Collector collector(contract, conditions, predicates, impl->questions);
  const std::vector<FoundClaim> found = collector.collect(*entry);
  const std::vector<std::string> names = argument_names(contract);
  const auto program = std::make_shared<LaunchProgram>();
  std::unordered_map<std::uint32_t, int> number;
  std::vector<Conditions> numbered;
  for (const ObligationUse use : {ObligationUse::Guard, ObligationUse::Inbounds, ObligationUse::Divisibility,
                                  ObligationUse::Division, ObligationUse::Vectors, ObligationUse::Pieces,
                                  ObligationUse::Copies, ObligationUse::Waves, ObligationUse::Mask}) {
    if (use == ObligationUse::Pieces) program->begin_refinements();
    for (const FoundClaim& f : found) {
      if (f.use != use || f.when.always() || f.when.never() || number.contains(f.when.id)) continue;
      const bool added = program->add(conditions, exprs, f.when);
      number.emplace(f.when.id, added ? static_cast<int>(impl->obligations.size()) : kDropped);
      if (!added) continue;
      numbered.push_back(f.when);
      impl->obligations.push_back({use, conditions.text(f.when, names), f.where});
    }
  }
  program->end_refinements();
  program->seal();
  impl->conditions = LaunchPredicates(program);
  impl->certificate = collector.certificate(*entry, numbered);
  for (const FoundClaim& f : found) {
    if (f.when.never()) continue;
    Claim c = f.claim;
    c.obligation = f.when.always() ? kHoldsAlways : number.at(f.when.id);
    if (c.obligation != kDropped) impl->claims.push_back(c);
  }
  std::unordered_map<const ir::Operation*, std::size_t> place;
  each_operation(module, [&](ir::Operation& op) { place.emplace(&op, place.size()); });
  for (const Claim& c : impl->claims) impl->places.push_back(c.op != nullptr ? place.at(c.op) : 0);
  return Facts(std::move(impl));
}

Facts::Facts(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Facts::Facts(Facts&&) noexcept = default;
Facts& Facts::operator=(Facts&&) noexcept = default;
Facts::~Facts() = default;

std::span<const Obligation> Facts::obligations() const noexcept { return impl_->obligations; }
std::span<const Claim> Facts::claims() const noexcept { return impl_->claims; }
const Certificate& Facts::certificate() const noexcept { return impl_->certificate; }
const LaunchContract& Facts::contract() const noexcept { return impl_->contract; }

std::vector<Claim> Facts::claims_of(const ir::Module& copy) const {
  std::vector<ir::Operation*> operations;
  each_operation(copy, [&](ir::Operation& op) { operations.push_back(&op); });
  std::vector<Claim> claims = impl_->claims;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    if (claims[i].op != nullptr) claims[i].op = operations.at(impl_->places[i]);
  }
  return claims;
}

const LaunchPredicates& Facts::predicates() const noexcept { return impl_->conditions; }

LaunchPredicates::LaunchPredicates() : program_(std::make_shared<const LaunchProgram>()) {}
LaunchPredicates::LaunchPredicates(std::shared_ptr<const LaunchProgram> program) noexcept
    : program_(std::move(program)) {}
LaunchPredicates::LaunchPredicates(const LaunchPredicates&) noexcept = default;
LaunchPredicates& LaunchPredicates::operator=(const LaunchPredicates&) noexcept = default;
LaunchPredicates::~LaunchPredicates() = default;

std::uint64_t LaunchPredicates::evaluate(std::span<const std::uint64_t> slots) const noexcept {
  return program_->evaluate(slots);
}
std::uint64_t LaunchPredicates::slot_mask(std::size_t slot) const noexcept { return program_->slot_mask(slot); }

std::uint64_t LaunchPredicates::refinements() const noexcept { return program_->refinements(); }

std::vector<std::byte> LaunchPredicates::bytes() const {
  BytesOut out;
  program_->write(out);
  return out.take();
}

std::optional<LaunchPredicates> LaunchPredicates::read(std::span<const std::byte> bytes) {
  BytesIn in(bytes);
  std::optional<LaunchProgram> program = LaunchProgram::read(in);
  if (!program || !in.ended_well()) return std::nullopt;
  return LaunchPredicates(std::make_shared<const LaunchProgram>(std::move(*program)));
}

}  // namespace tessera::analysis
