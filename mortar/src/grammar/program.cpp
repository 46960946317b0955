// Building programs, and the checks when one is complete.
#include "grammar/program.hpp"

#include <algorithm>

#include "mortar/errors.hpp"

namespace mortar::grammar {
namespace {

Dfa make_body(std::string_view expression) {
  Budget budget(1'000'000);
  Dfa dfa = *make_dfa(parse_regex(expression, "string", budget), Spelling::Raw, budget);
  dfa.boundary = dfa.accepts;  // an escape is one code point
  return dfa;
}

std::shared_ptr<const Dfa> unowned(const Dfa& dfa) { return {std::shared_ptr<const Dfa>(), &dfa}; }

}  // namespace

const Dfa& free_body() {
  static const Dfa dfa =
      make_body(R"((?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u(?:[0-9a-cA-Ce-fE-F][0-9a-fA-F]{3}|[dD][0-7])"
                R"([0-9a-fA-F]{2}|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})))*)");
  return dfa;
}

const Dfa& key_body() {
  static const Dfa dfa = make_body(R"([^"\\\x00-\x1f]*)");
  return dfa;
}

Program::Program(Budget& budget) : budget_(&budget), dfas_{unowned(free_body()), unowned(key_body())} {}

Pc Program::add(Instruction instruction) {
  budget_->spend(1);
  code_.push_back(instruction);
  return static_cast<Pc>(code_.size() - 1);
}

Pc Program::text(std::string_view text, Pc next) {
  if (text.empty()) return next;
  budget_->spend(text.size() / 8 + 1);
  texts_.emplace_back(text);
  return add({Op::Text, static_cast<std::uint32_t>(texts_.size() - 1), 0, next});
}

Pc Program::names(std::vector<std::string> texts, Pc next) {
  if (texts.size() == 1) return text(texts[0], next);
  Names names{.texts = std::move(texts), .trie = {}, .body = {}};
  std::sort(names.texts.begin(), names.texts.end());
  names.texts.erase(std::unique(names.texts.begin(), names.texts.end()), names.texts.end());
  const std::vector<std::string_view> views(names.texts.begin(), names.texts.end());
  names.trie = Trie(views);
  budget_->spend(names.trie.size());
  names_.push_back(std::move(names));
  return add({Op::Names, static_cast<std::uint32_t>(names_.size() - 1), 0, next});
}

Pc Program::other_name(const std::vector<std::string>& taken, Pc next) {
  Names names;
  const Dfa& dfa = key_body();
  const auto fits = [&dfa](const std::string& name) {  // others have escapes, and are different anyway
    std::uint32_t s = 0;
    for (std::size_t i = 0; i < name.size() && s != Dfa::kDead; ++i)
      s = dfa.step(s, static_cast<std::uint8_t>(name[i]));
    return s != Dfa::kDead;
  };
  std::copy_if(taken.begin(), taken.end(), std::back_inserter(names.texts), fits);
  std::sort(names.texts.begin(), names.texts.end());
  const std::vector<std::string_view> views(names.texts.begin(), names.texts.end());
  names.trie = Trie(views);
  budget_->spend(names.trie.size());
  names.body.assign(names.trie.size(), 0);
  for (std::uint32_t node = 0; node < names.trie.size(); ++node) {
    for (std::uint32_t c = node + 1; c < names.trie.after(node); c = names.trie.after(c))
      names.body[c] = dfa.step(names.body[node], names.trie.byte(c));
  }
  names_.push_back(std::move(names));
  return add({Op::OtherName, static_cast<std::uint32_t>(names_.size() - 1), 0, next});
}

Pc Program::with_lengths(Op op, std::uint32_t number, LengthTable lengths, Pc next) {
  lengths_.push_back(std::move(lengths));
  return add({op, number, static_cast<std::uint32_t>(lengths_.size() - 1), next});
}

Pc Program::token(std::string_view name, Pc next) {
  auto at = std::find(token_names_.begin(), token_names_.end(), name);
  if (at == token_names_.end()) at = token_names_.insert(at, std::string(name));
  return add({Op::Token, static_cast<std::uint32_t>(at - token_names_.begin()), 0, next});
}

Pc Program::split(std::vector<Pc> targets) {
  if (targets.size() == 1) return targets[0];
  budget_->spend(targets.size());
  const auto first = static_cast<std::uint32_t>(targets_.size());
  targets_.insert(targets_.end(), targets.begin(), targets.end());
  return add({Op::Split, first, static_cast<std::uint32_t>(targets.size()), 0});
}

Pc Program::forward() {
  targets_.push_back(0);
  return add({Op::Split, static_cast<std::uint32_t>(targets_.size() - 1), 1, 0});
}

void Program::set_target(Pc forward, Pc target) { targets_[code_[forward].a] = target; }

std::uint32_t Program::add_dfa(Dfa dfa) {
  dfas_.push_back(std::make_shared<const Dfa>(std::move(dfa)));
  return static_cast<std::uint32_t>(dfas_.size() - 1);
}

std::uint32_t Program::add_bounds(Bounds bounds) {
  bounds_.push_back(bounds);
  return static_cast<std::uint32_t>(bounds_.size() - 1);
}

std::uint32_t Program::add_rule() {
  budget_->spend(1);
  rules_.push_back(0);
  return static_cast<std::uint32_t>(rules_.size() - 1);
}

bool Program::may_be_empty(const Instruction& i) const {
  if (i.op == Op::Names) return names_[i.a].trie.ends(0);
  if (i.op == Op::Counted && !lengths_[i.b].may_end(0)) return false;
  return (i.op == Op::Dfa || i.op == Op::Counted) && dfas_[i.a]->accepts[0];
}

void Program::finish(Pc root, const std::vector<std::string>& rule_names) {
  root_ = root;
  const Pc one = split({root, text("\n", root)});
  root_after_newlines_ = split({one, text("\n", one)});
  reject_left_recursion(rule_names);
  find_live();
  if (!live_[root])
    throw RequestError("no answer is possible: every way to complete a value needs another one within it");
  budget_ = nullptr;
}

/// The least set: an instruction is live if what follows it is, and a call if its rule is too.
void Program::find_live() {
  live_.assign(code_.size(), false);
  const auto live = [this](const Instruction& i) {
    switch (i.op) {
      case Op::Return:
      case Op::Finish: return true;
      case Op::Split:
        return std::any_of(targets_.begin() + i.a, targets_.begin() + i.a + i.b, [this](Pc t) { return live_[t]; });
      case Op::Call: return live_[rules_[i.a]] && live_[i.next];
      case Op::Item: return live_[i.next] || live_[i.b];
      default: return bool{live_[i.next]};
    }
  };
  for (bool changed = true; changed;) {
    changed = false;
    budget_->spend(code_.size() / 4 + 1);
    for (Pc pc = 0; pc < code_.size(); ++pc) {
      if (live_[pc] || !live(code_[pc])) continue;
      live_[pc] = changed = true;
    }
  }
}

void Program::reject_left_recursion(const std::vector<std::string>& rule_names) const {
  enum class Mark : std::uint8_t { New, Open, Done };
  std::vector<Mark> marks(rules_.size(), Mark::New);
  std::vector<std::uint32_t> visited(code_.size(), 0);
  // The rules that a rule calls before it reads anything.
  const auto first_calls = [&](std::uint32_t rule) {
    std::vector<std::uint32_t> calls;
    std::vector<Pc> work = {rules_[rule]};
    while (!work.empty()) {
      const Pc pc = work.back();
      work.pop_back();
      if (visited[pc] == rule + 1) continue;
      visited[pc] = rule + 1;
      budget_->spend(1);
      const Instruction& i = code_[pc];
      if (i.op == Op::Split) work.insert(work.end(), targets_.begin() + i.a, targets_.begin() + i.a + i.b);
      if (i.op == Op::Call) calls.push_back(i.a);
      if (may_be_empty(i)) work.push_back(i.next);
    }
    return calls;
  };
  struct Frame {
    std::uint32_t rule;
    std::vector<std::uint32_t> calls;
  };
  for (std::uint32_t start = 0; start < rules_.size(); ++start) {
    if (marks[start] != Mark::New) continue;
    std::vector<Frame> frames;
    const auto open = [&](std::uint32_t rule) {
      marks[rule] = Mark::Open;
      frames.push_back({rule, first_calls(rule)});
    };
    open(start);
    while (!frames.empty()) {
      Frame& top = frames.back();
      if (top.calls.empty()) {
        marks[top.rule] = Mark::Done;
        frames.pop_back();
        continue;
      }
      const std::uint32_t called = top.calls.back();
      top.calls.pop_back();
      if (marks[called] == Mark::Open)
        throw RequestError(tessera::concat(called < rule_names.size() ? rule_names[called] : std::string("a rule"),
                                           ": refers to itself without a value around it"));
      if (marks[called] == Mark::New) open(called);
    }
  }
}

std::size_t Program::bytes() const {
  std::size_t sum = code_.size() * sizeof(Instruction) + targets_.size() * sizeof(Pc) + live_.size() / 8;
  sum += rules_.size() * sizeof(Pc) + bounds_.size() * sizeof(Bounds);
  for (const auto* texts : {&texts_, &token_names_})
    for (const std::string& text : *texts) sum += sizeof(text) + text.size();
  for (const auto& [key, number] : dfa_numbers_) sum += sizeof(key) + key.size();
  for (const Names& names : names_) {
    sum += names.trie.bytes() + names.body.size() * 4;
    for (const std::string& text : names.texts) sum += sizeof(text) + text.size();
  }
  for (std::size_t i = kSharedBodies; i < dfas_.size(); ++i) sum += dfas_[i]->bytes();
  for (const LengthTable& lengths : lengths_) sum += sizeof(lengths) + lengths.bytes();
  return sum;
}

}  // namespace mortar::grammar
