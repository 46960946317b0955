// Depth-first search over choices, with sleep sets (Godefroid, Partial-Order Methods for the Verification of Concurrent
// Systems, 1996): an action that was explored first at a node need not be explored behind a later one as long as only
// actions happen that are independent of it.
#include "runtime/model/choices.hpp"

#include <algorithm>

namespace tessera::runtime::model {

namespace {
constexpr char kDigits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
}

Choices Choices::all(bool reduced, std::size_t limit) {
  Choices made(Mode::All, reduced);
  made.limit_ = limit;
  return made;
}

Choices Choices::random(std::uint64_t seed, bool reduced) {
  Choices made(Mode::Random, reduced);
  made.random_.seed(seed);
  return made;
}

Choices Choices::replay(const std::string& text) {
  Choices made(Mode::Replay, text.empty() || text[0] != 'f');
  for (const char digit : text.substr(text.empty() ? 0 : 1)) {
    const char* at = std::find(std::begin(kDigits), std::end(kDigits) - 1, digit);
    made.replay_.push_back(static_cast<std::uint8_t>(at - kDigits));
  }
  return made;
}

std::string Choices::text() const {
  std::string text(1, reduced_ ? 'r' : 'f');
  for (const std::uint8_t choice : taken_) text += kDigits[choice];
  return text;
}

/// A choice of `n` > 1 alternatives, of which those in the mask `asleep` must not be taken (but one may).
unsigned Choices::take(unsigned n, std::uint16_t asleep) {
  unsigned choice = 0;
  while ((asleep >> choice & 1) != 0) ++choice;
  if (mode_ == Mode::Random) choice = static_cast<unsigned>(random_() % n);
  if (mode_ == Mode::Replay) {
    choice = position_ < replay_.size() ? std::min<unsigned>(replay_[position_], n - 1) : 0;
    ++position_;
  }
  if (mode_ == Mode::All) {
    explored_ = 0;
    if (position_ < nodes_.size()) {
      explored_ = nodes_[position_].explored;
      choice = nodes_[position_++].taken;
    } else if (nodes_.size() < limit_) {
      nodes_.push_back({static_cast<std::uint8_t>(choice), static_cast<std::uint8_t>(n), 0, asleep});
      ++position_;
    } else {
      truncated_ = true;
    }
  }
  taken_.push_back(static_cast<std::uint8_t>(choice));
  return choice;
}

unsigned Choices::pick(unsigned n) { return n <= 1 ? 0 : take(n, 0); }

bool Choices::sleeping(const Action& action) const {
  return std::any_of(sleep_.begin(), sleep_.begin() + static_cast<std::ptrdiff_t>(sleep_count_),
                     [&](const Action& other) { return same(action, other); });
}

unsigned Choices::schedule(std::span<const Action> actions) {
  const auto n = static_cast<unsigned>(actions.size());
  if (mode_ != Mode::All || !reduced_) return pick(n);
  unsigned asleep = 0;
  for (unsigned i = 0; i < n; ++i) asleep |= sleeping(actions[i]) ? 1u << i : 0u;
  if (asleep == (1u << n) - 1) return kRedundant;
  unsigned explored = 0, choice = 0;
  if (n > 1) {
    choice = take(n, static_cast<std::uint16_t>(asleep));
    explored = explored_;
  }
  for (unsigned i = 0; i < n; ++i) {
    if ((explored >> i & 1) != 0 && sleep_count_ < sleep_.size()) sleep_[sleep_count_++] = actions[i];
  }
  const auto awake = [&](const Action& other) { return dependent(other, actions[choice]); };
  Action* end = std::remove_if(sleep_.begin(), sleep_.begin() + static_cast<std::ptrdiff_t>(sleep_count_), awake);
  sleep_count_ = static_cast<std::size_t>(end - sleep_.begin());
  return choice;
}

bool Choices::next() {
  position_ = sleep_count_ = 0;
  taken_.clear();
  while (!nodes_.empty()) {
    Node& node = nodes_.back();
    node.explored = static_cast<std::uint16_t>(node.explored | 1u << node.taken);
    for (unsigned i = 0; i < node.of; ++i) {
      if (((node.explored | node.asleep) >> i & 1) != 0) continue;
      node.taken = static_cast<std::uint8_t>(i);
      return true;
    }
    nodes_.pop_back();
  }
  return false;
}

}  // namespace tessera::runtime::model
