// The subset construction, the removal of states without a match, and lengths of strings.
#include "grammar/dfa.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace mortar::grammar {
namespace {

using StateKind = NfaState::Kind;
using States = std::vector<std::uint32_t>;

struct HashStates {
  std::size_t operator()(const States& states) const {
    std::size_t hash = states.size();
    for (const std::uint32_t s : states) hash = (hash ^ s) * 0x9E3779B97F4A7C15 + (hash >> 29);
    return hash;
  }
};

/// The subset construction.
class Determinizer {
 public:
  Determinizer(const Nfa& nfa, Budget& budget) : nfa_(nfa.states()), budget_(budget), seen_(nfa_.size(), 0) {}

  Dfa run(std::uint32_t start) {
    find_classes();
    add({start}, true);
    for (std::uint32_t s = 0; s < sets_.size(); ++s) successors(s);
    return std::move(dfa_);
  }

 private:
  void find_classes() {
    std::array<bool, 257> begins{};
    begins[0] = true;
    for (const NfaState& state : nfa_) {
      if (state.kind != StateKind::Bytes) continue;
      begins[state.low] = true;
      begins[state.high + 1U] = true;
    }
    for (std::size_t byte = 0; byte < 256; ++byte) {
      if (begins[byte]) ++dfa_.classes;
      dfa_.class_of[byte] = static_cast<std::uint8_t>(dfa_.classes - 1);
    }
  }

  /// The states of kind Bytes that are reached without reading, sorted, and whether a match may end here.
  bool close(const States& from, bool at_start, bool at_end, States* bytes) {
    bool accepts = false;
    ++round_;
    stack_.assign(from.begin(), from.end());
    while (!stack_.empty()) {
      const std::uint32_t s = stack_.back();
      stack_.pop_back();
      if (seen_[s] == round_) continue;
      seen_[s] = round_;
      budget_.spend(1);
      const NfaState& state = nfa_[s];
      switch (state.kind) {
        case StateKind::Bytes:
          if (bytes != nullptr) bytes->push_back(s);
          break;
        case StateKind::Split:
          stack_.push_back(state.next);
          stack_.push_back(state.other);
          break;
        case StateKind::Begin:
          if (at_start) stack_.push_back(state.next);
          break;
        case StateKind::End:
          if (at_end) stack_.push_back(state.next);
          break;
        case StateKind::Accept: accepts = true; break;
      }
    }
    if (bytes != nullptr) std::sort(bytes->begin(), bytes->end());
    return accepts;
  }

  std::uint32_t add(const States& from, bool at_start) {
    States bytes;
    close(from, at_start, false, &bytes);
    const bool accepts = close(from, at_start, true, nullptr);
    if (bytes.empty() && !accepts) return Dfa::kDead;
    bytes.push_back(accepts ? 1 : 0);
    const auto [at, is_new] = known_.try_emplace(bytes, static_cast<std::uint32_t>(sets_.size()));
    if (is_new) {
      budget_.spend(dfa_.classes + bytes.size());
      bytes.pop_back();
      dfa_.accepts.push_back(accepts);
      dfa_.boundary.push_back(
          std::none_of(bytes.begin(), bytes.end(), [&](std::uint32_t s) { return nfa_[s].inside; }));
      sets_.push_back(std::move(bytes));
    }
    return at->second;
  }

  void successors(std::uint32_t s) {
    std::vector<States> reached(dfa_.classes);
    for (const std::uint32_t n : sets_[s]) {
      const NfaState& state = nfa_[n];
      for (std::size_t c = dfa_.class_of[state.low]; c <= dfa_.class_of[state.high]; ++c)
        reached[c].push_back(state.next);
    }
    for (States& states : reached) {
      budget_.spend(states.size() + 1);
      if (states.empty()) {
        dfa_.next.push_back(Dfa::kDead);
        continue;
      }
      const auto [at, is_new] = reached_.try_emplace(std::move(states), 0);
      if (is_new) at->second = add(at->first, false);
      dfa_.next.push_back(at->second);
    }
  }

  const std::vector<NfaState>& nfa_;
  Budget& budget_;
  Dfa dfa_;
  std::vector<std::uint32_t> seen_;
  std::uint32_t round_ = 0;
  States stack_;
  std::vector<States> sets_;
  std::unordered_map<States, std::uint32_t, HashStates> known_;
  std::unordered_map<States, std::uint32_t, HashStates> reached_;  // the same before closing, which costs more
};

/// By state: whether a match can follow.
std::vector<bool> live_states(const Dfa& dfa) {
  std::vector<States> before(dfa.size());
  for (std::uint32_t s = 0; s < dfa.size(); ++s) {
    std::uint32_t last = Dfa::kDead;
    for (std::uint32_t c = 0; c < dfa.classes; ++c) {
      const std::uint32_t to = dfa.next[std::size_t{s} * dfa.classes + c];
      if (to != Dfa::kDead && to != last) before[to].push_back(s);
      last = to;
    }
  }
  std::vector<bool> live = dfa.accepts;
  States work;
  for (std::uint32_t s = 0; s < dfa.size(); ++s) {
    if (live[s]) work.push_back(s);
  }
  while (!work.empty()) {
    const std::uint32_t s = work.back();
    work.pop_back();
    for (const std::uint32_t p : before[s]) {
      if (live[p]) continue;
      live[p] = true;
      work.push_back(p);
    }
  }
  return live;
}

Dfa without_dead_states(const Dfa& dfa, const std::vector<bool>& live) {
  Dfa out{.class_of = dfa.class_of, .classes = dfa.classes, .next = {}, .accepts = {}, .boundary = {}};
  States number(dfa.size(), Dfa::kDead);
  std::uint32_t count = 0;
  for (std::uint32_t s = 0; s < dfa.size(); ++s) {
    if (live[s]) number[s] = count++;
  }
  for (std::uint32_t s = 0; s < dfa.size(); ++s) {
    if (!live[s]) continue;
    out.accepts.push_back(dfa.accepts[s]);
    out.boundary.push_back(dfa.boundary[s]);
    for (std::uint32_t c = 0; c < dfa.classes; ++c) {
      const std::uint32_t to = dfa.next[std::size_t{s} * dfa.classes + c];
      out.next.push_back(to == Dfa::kDead ? to : number[to]);
    }
  }
  return out;
}

}  // namespace

std::optional<Dfa> make_dfa(const Regex& regex, Spelling spelling, Budget& budget) {
  Nfa nfa(spelling, budget);
  const std::uint32_t start = nfa.emit(regex, Nfa::kAccept);
  const Dfa dfa = Determinizer(nfa, budget).run(start);
  if (dfa.size() == 0) return std::nullopt;
  const std::vector<bool> live = live_states(dfa);
  if (!live[0]) return std::nullopt;
  return without_dead_states(dfa, live);
}

Regex within_text(Regex regex) {
  Regex any{.kind = Regex::Kind::Repeat, .min = 0, .max = Regex::kUnbounded};
  any.parts.push_back({.kind = Regex::Kind::Chars, .chars = CharSet::all()});
  Regex out;
  out.parts.push_back(any);
  out.parts.push_back(std::move(regex));
  out.parts.push_back(std::move(any));
  return out;
}

Dfa text_until(std::string_view end) {
  Budget budget(1'000'000);
  Regex any{.kind = Regex::Kind::Repeat, .min = 0, .max = Regex::kUnbounded};
  any.parts.push_back({.kind = Regex::Kind::Chars, .chars = CharSet::all()});
  Regex all;
  all.parts.push_back(std::move(any));
  all.parts.push_back(regex_of_text(end));
  Dfa dfa = *make_dfa(all, Spelling::Raw, budget);
  for (std::uint32_t s = 0; s < dfa.size(); ++s) {  // nothing follows the first occurrence
    if (!dfa.accepts[s]) continue;
    for (std::uint32_t c = 0; c < dfa.classes; ++c) dfa.next[std::size_t{s} * dfa.classes + c] = Dfa::kDead;
  }
  return dfa;
}

Dfa text_without(std::string_view end) {
  Dfa dfa = text_until(end);
  for (std::uint32_t& to : dfa.next) {
    if (to != Dfa::kDead && dfa.accepts[to]) to = Dfa::kDead;
  }
  for (std::uint32_t s = 0; s < dfa.size(); ++s) dfa.accepts[s] = dfa.boundary[s] && !dfa.accepts[s];
  return dfa;
}

LengthTable::LengthTable(const Dfa& dfa, std::uint32_t min, std::uint32_t max, Budget& budget)
    : min_(min), max_(max), states_(dfa.size()) {
  std::vector<States> after(dfa.size());
  std::size_t edges = 0;
  for (std::uint32_t s = 0; s < dfa.size(); ++s) {
    after[s].assign(dfa.next.begin() + std::ptrdiff_t{s} * dfa.classes,
                    dfa.next.begin() + (std::ptrdiff_t{s} + 1) * dfa.classes);
    std::sort(after[s].begin(), after[s].end());
    after[s].erase(std::unique(after[s].begin(), after[s].end()), after[s].end());
    if (!after[s].empty() && after[s].back() == Dfa::kDead) after[s].pop_back();
    edges += after[s].size() + 1;
  }
  const std::uint32_t last = max == kUnbounded ? min : max;
  budget.spend(edges);
  if (edges > 0 && last >= SIZE_MAX / edges) budget.spend(SIZE_MAX);
  budget.spend(edges * last);
  viable_.assign((std::size_t{last} + 1) * states_, max == kUnbounded);
  const auto at = [&](std::uint32_t count, std::uint32_t state) { return std::size_t{count} * states_ + state; };
  for (std::uint32_t count = last + 1; count-- > 0;) {
    if (max == kUnbounded && count == last) continue;
    for (std::uint32_t s = 0; s < states_;
         ++s) {  // code points begin here; inner states follow those of the next count
      if (!dfa.boundary[s]) continue;
      bool viable = dfa.accepts[s] && count >= min;
      for (const std::uint32_t t : after[s]) viable = viable || (count < last && viable_[at(count + 1, t)]);
      viable_[at(count, s)] = viable;
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (std::uint32_t s = 0; s < states_; ++s) {
        if (dfa.boundary[s] || viable_[at(count, s)]) continue;
        for (const std::uint32_t t : after[s]) {
          if (!viable_[at(count, t)]) continue;
          viable_[at(count, s)] = changed = true;
          break;
        }
      }
    }
  }
}

}  // namespace mortar::grammar
