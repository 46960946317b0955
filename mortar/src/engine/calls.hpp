// The calls of Runners as messages: rank 0 sends each one before it makes it, and the other processes make the same.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/runner.hpp"
#include "engine/warm_up.hpp"
#include "model/messages.hpp"
#include "model/products.hpp"
#include "mortar/sampling.hpp"

namespace mortar {

/// What a message begins with. The end is an empty message.
enum class CallKind : std::uint32_t {
  Start = 1,
  Begin,
  Launch,
  Choose,
  Finish,
  Drop,
  Logits,
  LogLikelihoods,
  WarmUp,
  Prepare,
};
inline MessageWriter message_of(CallKind kind) { return MessageWriter().put(kind); }

/// The first message: what the caches of all ranks are made of.
struct StartCall {
  Numerics numerics;
  std::int64_t pages = 0;
};
MessageWriter message_of(const StartCall& call);
StartCall read_start(MessageReader& message);

/// A row with tokens and pages of its own. `plan` refers to them.
struct ReceivedRow {
  std::vector<TokenId> ids;
  std::vector<PageId> pages;
  RowPlan plan;
};
void put_row(MessageWriter& message, const RowPlan& row);
/// Moving the result leaves its spans as they are.
ReceivedRow read_row(MessageReader& message);

struct BeginCall {
  std::int64_t slots = 0, slot = 0, prompt = 0;
  std::vector<TokenId> ids;
  Sampling sampling;
};
MessageWriter message_of_begin(std::int64_t slots, std::int64_t slot, const TokenRange& ids, std::int64_t prompt,
                               const Sampling& sampling);
BeginCall read_begin(MessageReader& message);

/// Steps are named by numbers that rank 0 gives them, from 1 on.
struct LaunchCall {
  std::uint64_t step = 0, before = 0;  ///< before: 0 if there is none
  std::vector<ReceivedRow> rows;
  std::vector<RowPlan> plans;  ///< of `rows`
  StepRequest request;         ///< of `plans`
};
MessageWriter message_of_launch(std::uint64_t step, std::uint64_t before, const StepRequest& request);
LaunchCall read_launch(MessageReader& message);

MessageWriter message_of(const WarmUpLimits& limits);
WarmUpLimits read_warm_up(MessageReader& message);

}  // namespace mortar
