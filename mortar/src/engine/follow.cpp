// A process of rank 1 or later: it makes the calls that rank 0 sends.
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "engine/calls.hpp"
#include "engine/runners.hpp"
#include "mortar/engine.hpp"
#include "mortar/errors.hpp"
#include "tessera/base/format.hpp"

namespace mortar {

namespace {

class Follower {
 public:
  explicit Follower(Model& model) : model_(model), messages_(*model.messages) {}

  void run() {
    std::vector<std::byte> message = messages_.receive();
    if (message.empty()) return;  // rank 0 has ended before it began
    start(MessageReader(message));
    for (message = messages_.receive(); !message.empty(); message = messages_.receive()) make(MessageReader(message));
  }

 private:
  void start(MessageReader m) {
    const auto kind = m.number<CallKind>();
    if (kind != CallKind::Start) reject(kind);
    const StartCall call = read_start(m);
    runners_.emplace(model_, call.numerics, call.pages);
  }

  void make(MessageReader m) {
    const auto kind = m.number<CallKind>();
    switch (kind) {
      case CallKind::Begin: return begin(read_begin(m));
      case CallKind::Launch: return launch(read_launch(m));
      case CallKind::Choose: return choose(m);
      case CallKind::Finish: (void)runners_->finish(take(m)); return;
      case CallKind::Drop: return runners_->drop(take(m));
      case CallKind::Logits: return logits(m);
      case CallKind::LogLikelihoods: return log_likelihoods(m);
      case CallKind::WarmUp: (void)runners_->begin_warm_up(read_warm_up(m)); return;
      case CallKind::Prepare: return prepare(m);
      case CallKind::Start: break;
    }
    reject(kind);
  }
  [[noreturn]] static void reject(CallKind kind) {
    throw RanksError(tessera::concat("a message of rank 0: found one of kind ", static_cast<std::uint32_t>(kind),
                                     ", which is not expected here"));
  }

  void begin(const BeginCall& call) { runners_->begin(call.slots, call.slot, call.ids, call.prompt, call.sampling); }
  void launch(const LaunchCall& call) {
    const Runners::Launched* const before = call.before == 0 ? nullptr : &step(call.before);
    // Rank 0 launches a step while it has at most the one before it. Others have been given up there without a call.
    std::erase_if(steps_, [&](const auto& open) { return open.first != call.before; });
    steps_.insert_or_assign(call.step, runners_->launch(call.request, before));
  }
  void choose(MessageReader& m) {
    Runners::Launched& chosen = step(m.number<std::uint64_t>());
    const std::vector<std::uint32_t> masks = m.list<std::uint32_t>();
    m.end();
    runners_->choose(chosen, masks);
  }
  void logits(MessageReader& m) {
    const ReceivedRow row = read_row(m);
    m.end();
    (void)runners_->logits(row.plan);
  }
  void log_likelihoods(MessageReader& m) {
    const ReceivedRow row = read_row(m);
    const std::vector<TokenId> next = m.list<TokenId>();
    m.end();
    (void)runners_->log_likelihoods(row.plan, next);
  }
  void prepare(MessageReader& m) {
    const auto part = m.number<std::uint64_t>();
    m.end();
    runners_->prepare(part);
  }

  Runners::Launched& step(std::uint64_t number) {
    const auto found = steps_.find(number);
    if (found == steps_.end())
      throw RanksError(
          tessera::concat("a message of rank 0: expected a step that has been launched, found step ", number));
    return found->second;
  }
  Runners::Launched take(MessageReader& m) {
    const auto number = m.number<std::uint64_t>();
    m.end();
    Runners::Launched taken = std::move(step(number));
    steps_.erase(number);
    return taken;
  }

  Model& model_;
  Messages& messages_;
  std::optional<Runners> runners_;
  std::map<std::uint64_t, Runners::Launched> steps_;  // ends before the runners
};

}  // namespace

void follow(Model model) {
  if (model.messages == nullptr || model.messages->is_first())
    throw RequestError("follow: expected a model of rank 1 or later of several processes (Mesh::from_environment)");
  const tessera::Mesh mesh = model.parts.front().mesh;
  const auto end = [&](const std::string& reason) {
    mesh.abort(reason);
    model.messages->abort(reason);
  };
  try {
    Follower(model).run();
  } catch (const RanksError& error) {  // of a call, which has told the others; or of a message
    end(error.message());
    throw;
  } catch (const tessera::MeshError& error) {  // the group has ended
    throw RanksError(mesh.failure().value_or(error.message()));
  } catch (const tessera::Error& error) {
    end(error.message());
    throw;
  } catch (const std::exception& error) {
    end(error.what());
    throw;
  }
}

}  // namespace mortar
