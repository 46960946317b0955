// The state of one answer: free text, the grammar's, or ended.
#include <algorithm>

#include "grammar/grammar_state.hpp"
#include "mortar/errors.hpp"
#include "mortar/grammar.hpp"
#include "tessera/base/format.hpp"

namespace mortar {
namespace {

using grammar::MaskMaker;
using grammar::Op;
using grammar::Stacks;
using grammar::Stepper;
using grammar::Threads;

constexpr std::size_t kCompactFrom = 1024;  // nodes of stacks

/// What does not change, shared by clones.
struct Shared {
  std::shared_ptr<const Grammar> grammar;
  std::shared_ptr<const Vocabulary> vocabulary;
  ConstraintOptions options;
  std::vector<TokenId> token_ids;  // of the tokens that the program names
  std::shared_ptr<grammar::MaskCache> masks;

  const grammar::Program& program() const { return grammar->state()->program; }
};

class GrammarConstraint final : public TokenConstraint {
 public:
  enum class Stage : std::uint8_t { Before, Free, Inside, Ended };

  explicit GrammarConstraint(std::shared_ptr<const Shared> shared)
      : shared_(std::move(shared)),
        stepper_(shared_->program(), stacks_),
        maker_(shared_->program(), shared_->vocabulary->state(), *shared_->masks, stacks_, shared_->token_ids) {
    if (shared_->options.begins_after.has_value())
      stage_ = Stage::Before;
    else
      begin(false);
  }
  GrammarConstraint(const GrammarConstraint& other) : GrammarConstraint(other.shared_) {
    stage_ = other.stage_;
    stacks_ = other.stacks_;
    threads_ = other.threads_;
  }
  GrammarConstraint& operator=(const GrammarConstraint&) = delete;

  bool restricts() const override { return stage_ == Stage::Inside || stage_ == Stage::Ended; }

  void fill_mask(std::span<std::uint32_t> mask) override {
    if (!restricts()) {
      fill_all(mask);
      return;
    }
    std::size_t words = 0;
    if (stage_ == Stage::Inside) {
      const auto made = maker_.make(threads_);
      words = std::min(mask.size(), made.size());
      std::copy_n(made.begin(), words, mask.begin());
    }
    std::fill(mask.begin() + static_cast<std::ptrdiff_t>(words), mask.end(), 0);
    if (!may_end()) return;
    for (const TokenId id : shared_->options.eos) set(mask, id);
  }

  bool accept(TokenId id) override {
    if (stage_ == Stage::Before) {
      if (id == shared_->options.begins_after)
        begin(true);
      else if (is_begin_of_call(id))
        begin_call(id);
      return true;
    }
    if (stage_ == Stage::Free) {
      if (id == shared_->options.triggered_by) enter(false);
      return true;
    }
    if (const auto& eos = shared_->options.eos; may_end() && std::find(eos.begin(), eos.end(), id) != eos.end()) {
      stage_ = Stage::Ended;
      threads_.clear();
      return true;
    }
    return stage_ == Stage::Inside && advance(id);
  }

  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<GrammarConstraint>(*this); }

 private:
  static void set(std::span<std::uint32_t> mask, TokenId id) {
    if (id >= 0 && static_cast<std::size_t>(id) / 32 < mask.size())
      mask[static_cast<std::size_t>(id) / 32] |= 1U << (id % 32);
  }
  void fill_all(std::span<std::uint32_t> mask) const {
    std::fill(mask.begin(), mask.end(), 0);
    const TokenId size = shared_->vocabulary->state().tokens.size;
    for (TokenId id = 0; id < size; ++id) set(mask, id);
  }

  /// The grammar's part begins, or the text in which its trigger is looked for.
  void begin(bool after_thinking) {
    if (shared_->options.triggered_by.has_value())
      stage_ = Stage::Free;
    else
      enter(after_thinking);
  }
  /// A call also ends the thinking.
  bool is_begin_of_call(TokenId id) const {
    const auto& ids = shared_->token_ids;
    return id == shared_->options.triggered_by ||
           (!shared_->options.triggered_by.has_value() && std::find(ids.begin(), ids.end(), id) != ids.end());
  }
  void begin_call(TokenId id) {
    enter(false);
    if (shared_->options.triggered_by.has_value() || advance(id)) return;
    stage_ = Stage::Before;  // another token of calls, without their beginning
    threads_.clear();
  }
  void enter(bool after_thinking) {
    const grammar::Program& program = shared_->program();
    stage_ = Stage::Inside;
    stacks_ = Stacks();
    stepper_.begin(after_thinking ? program.root_after_newlines() : program.root(), threads_);
  }
  bool has_finished() const {
    return std::any_of(threads_.begin(), threads_.end(),
                       [&](const grammar::Thread& t) { return shared_->program().at(t.pc).op == Op::Finish; });
  }
  bool may_end() const {
    return stage_ == Stage::Ended || (stage_ == Stage::Inside && !shared_->grammar->state()->is_call && has_finished());
  }

  bool advance(TokenId id) {
    const Stacks::Mark mark = stacks_.mark();
    Threads now = threads_, next;
    const auto& ids = shared_->token_ids;
    if (const auto named = std::find(ids.begin(), ids.end(), id); named != ids.end()) {
      stepper_.token(now, static_cast<std::uint32_t>(named - ids.begin()), next);
      now.swap(next);
    } else {
      const Vocabulary::State& vocabulary = shared_->vocabulary->state();
      if (id < 0 || static_cast<std::size_t>(id) >= vocabulary.is_text.size() ||
          !vocabulary.is_text[static_cast<std::size_t>(id)])
        return false;
      for (const char byte : vocabulary.tokenizer.bytes(id)) {
        stepper_.step(now, static_cast<std::uint8_t>(byte), next);
        now.swap(next);
        if (now.empty()) break;
      }
    }
    if (now.empty()) {
      stacks_.release(mark);
      return false;
    }
    threads_ = std::move(now);
    if (stacks_.size() > compact_from_) {
      stacks_.compact(threads_);
      compact_from_ = std::max(kCompactFrom, 2 * stacks_.size());
    }
    if (shared_->grammar->state()->is_call && has_finished()) end_call();
    return true;
  }

  void end_call() {
    threads_.clear();
    stage_ = shared_->grammar->state()->repeats ? Stage::Free : Stage::Ended;
  }

  std::shared_ptr<const Shared> shared_;
  Stage stage_ = Stage::Inside;
  Stacks stacks_;
  std::size_t compact_from_ = kCompactFrom;
  Threads threads_;
  Stepper stepper_;
  MaskMaker maker_;
};

}  // namespace

std::unique_ptr<TokenConstraint> constrain(std::shared_ptr<const Grammar> grammar,
                                           std::shared_ptr<const Vocabulary> vocabulary,
                                           const ConstraintOptions& options) {
  if (options.eos.empty()) throw RequestError("a constraint needs at least one token that ends the answer");
  const bool is_call = grammar->state()->is_call;
  if (is_call != options.triggered_by.has_value())
    throw RequestError(is_call ? "a grammar of calls (CallChoice::Auto) needs triggered_by"
                               : "triggered_by is for grammars of calls (CallChoice::Auto)");
  auto shared = std::make_shared<Shared>(Shared{.grammar = std::move(grammar),
                                                .vocabulary = std::move(vocabulary),
                                                .options = options,
                                                .token_ids = {},
                                                .masks = nullptr});
  const Vocabulary::State& state = shared->vocabulary->state();
  for (const std::string& name : shared->program().token_names()) {
    const std::optional<TokenId> id = state.tokenizer.find(name);
    if (!id.has_value() || !state.tokenizer.is_added(*id))
      throw RequestError(tessera::concat("the grammar needs the token ", name, ", which the tokenizer does not have"));
    shared->token_ids.push_back(*id);
  }
  shared->masks = shared->grammar->state()->masks(state);
  return std::make_unique<GrammarConstraint>(std::move(shared));
}

}  // namespace mortar
