// Calls as messages. Each pair of functions has the fields in one order.
#include "engine/calls.hpp"

#include <iterator>
#include <utility>

#include "mortar/errors.hpp"
#include "tessera/base/format.hpp"

namespace mortar {

namespace {

/// As in Sampling, without what only the row of a step has.
void put_sampling(MessageWriter& m, const Sampling& s) {
  m.put(s.repetition_penalty).put(s.presence_penalty).put(s.frequency_penalty);
  m.put(static_cast<std::uint64_t>(s.logit_bias.size()));
  for (const auto& [id, bias] : s.logit_bias) m.put(id).put(bias);
}
Sampling read_sampling(MessageReader& m) {
  Sampling s;
  s.repetition_penalty = m.number<float>();
  s.presence_penalty = m.number<float>();
  s.frequency_penalty = m.number<float>();
  for (std::size_t n = m.count(sizeof(std::int32_t) + sizeof(float)); n > 0; --n) {
    const auto id = m.number<std::int32_t>();
    s.logit_bias.emplace_back(id, m.number<float>());
  }
  return s;
}

void put_ids(MessageWriter& m, const TokenRange& ids) {
  std::vector<TokenId> all;
  all.reserve(ids.size());
  ids.copy_to(std::back_inserter(all));
  m.list(std::span<const TokenId>(all));
}

}  // namespace

static_assert(sizeof(Numerics) == 4 * sizeof(bool), "every member of Numerics is sent");
MessageWriter message_of(const StartCall& call) {
  MessageWriter m = message_of(CallKind::Start);
  m.put(call.pages);
  m.put(call.numerics.strict)
      .put(call.numerics.batch_invariant)
      .put(call.numerics.may_dequantize)
      .put(call.numerics.fp8_activations);
  return m;
}
StartCall read_start(MessageReader& m) {
  StartCall call;
  call.pages = m.number<std::int64_t>();
  call.numerics.strict = m.flag();
  call.numerics.batch_invariant = m.flag();
  call.numerics.may_dequantize = m.flag();
  call.numerics.fp8_activations = m.flag();
  m.end();
  return call;
}

void put_row(MessageWriter& m, const RowPlan& row) {
  m.put(row.first).put(row.wants_token).put(row.stored).put(row.after);
  for (const std::int32_t field : row.sampling) m.put(field);
  put_ids(m, row.ids);
  m.list(row.pages);
}
ReceivedRow read_row(MessageReader& m) {
  ReceivedRow row;
  row.plan.first = m.number<std::int64_t>();
  row.plan.wants_token = m.flag();
  row.plan.stored = m.flag();
  row.plan.after = m.number<std::int32_t>();
  for (std::int32_t& field : row.plan.sampling) field = m.number<std::int32_t>();
  row.ids = m.list<TokenId>();
  row.pages = m.list<PageId>();
  row.plan.ids = row.ids, row.plan.pages = row.pages;
  return row;
}

MessageWriter message_of_begin(std::int64_t slots, std::int64_t slot, const TokenRange& ids, std::int64_t prompt,
                               const Sampling& sampling) {
  MessageWriter m = message_of(CallKind::Begin);
  m.put(slots).put(slot).put(prompt);
  put_ids(m, ids);
  put_sampling(m, sampling);
  return m;
}
BeginCall read_begin(MessageReader& m) {
  BeginCall call;
  call.slots = m.number<std::int64_t>();
  call.slot = m.number<std::int64_t>();
  call.prompt = m.number<std::int64_t>();
  call.ids = m.list<TokenId>();
  call.sampling = read_sampling(m);
  m.end();
  return call;
}

MessageWriter message_of_launch(std::uint64_t step, std::uint64_t before, const StepRequest& request) {
  MessageWriter m = message_of(CallKind::Launch);
  m.put(step).put(before).put(static_cast<std::uint64_t>(request.prompts)).put(request.scores);
  m.put(request.how.counted).put(request.how.greedy).put(request.masked).put(request.penalised);
  m.put(static_cast<std::uint64_t>(request.rows.size()));
  for (const RowPlan& row : request.rows) put_row(m, row);
  return m;
}
LaunchCall read_launch(MessageReader& m) {
  LaunchCall call;
  call.step = m.number<std::uint64_t>();
  call.before = m.number<std::uint64_t>();
  call.request.prompts = m.number<std::uint64_t>();
  call.request.scores = m.number<std::int64_t>();
  call.request.how.counted = m.flag();
  call.request.how.greedy = m.flag();
  call.request.masked = m.flag();
  call.request.penalised = m.flag();
  constexpr std::size_t kLeast = sizeof(SamplingRow) + 2 * sizeof(std::uint64_t);  // fields, and two counts
  const std::size_t rows = m.count(kLeast);
  if (call.request.prompts > rows)
    throw RanksError(tessera::concat("a message of rank 0: expected at most ", rows, " rows of prompts, found ",
                                     call.request.prompts));
  call.rows.reserve(rows);
  for (std::size_t i = 0; i < rows; ++i) call.plans.push_back(call.rows.emplace_back(read_row(m)).plan);
  call.request.rows = call.plans;
  m.end();
  return call;
}

MessageWriter message_of(const WarmUpLimits& limits) {
  MessageWriter m = message_of(CallKind::WarmUp);
  m.put(limits.batch).put(limits.prefill).put(limits.pages).put(limits.memory);
  return m;
}
WarmUpLimits read_warm_up(MessageReader& m) {
  WarmUpLimits limits;
  limits.batch = m.number<std::int64_t>();
  limits.prefill = m.number<std::int64_t>();
  limits.pages = m.number<std::int64_t>();
  limits.memory = m.number<std::int64_t>();
  m.end();
  return limits;
}

}  // namespace mortar
