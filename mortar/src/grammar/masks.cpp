// Masks: what is known, slices of strings, and walks over the trie of tokens.
#include "grammar/masks.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace mortar::grammar {
namespace {

constexpr std::size_t kLongestKey = 4096;   // words; a mask with a longer one is not kept
constexpr std::size_t kFewTokens = 1024;    // a mask of fewer is kept as their ids
constexpr std::uint32_t kSliceFrom = 48;    // tokens of a subtree; smaller ones are walked
constexpr std::uint32_t kEnd = 0xFFFFFFFF;  // ends the edges of a node in a key

}  // namespace

std::size_t MaskCache::Hash::operator()(const Words& key) const {
  std::size_t hash = key.size();
  for (const std::uint32_t word : key) hash = (hash ^ word) * 0x9E3779B97F4A7C15 + (hash >> 29);
  return hash;
}

MaskCache::Found MaskCache::find(const Words& key) {
  const std::scoped_lock lock(mutex_);
  const auto at = known_.find(key);
  return at == known_.end() ? Found{} : at->second;
}

std::size_t MaskCache::bytes() const {
  const std::scoped_lock lock(mutex_);
  return bytes_ + slices.bytes();
}

void MaskCache::make_room(std::size_t bytes) {
  if (bytes_ + bytes > kLimit) {
    known_.clear();
    bytes_ = 0;
  }
  bytes_ += bytes;
}

void MaskCache::add(const Words& key, std::span<const std::uint32_t> words) {
  auto mask = std::make_shared<Mask>();
  std::size_t count = 0;
  for (const std::uint32_t word : words) count += static_cast<std::size_t>(std::popcount(word));
  if (count < kFewTokens) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      for (std::uint32_t rest = words[i]; rest != 0; rest &= rest - 1)
        mask->ids.push_back(static_cast<TokenId>(i * 32) + std::countr_zero(rest));
    }
  } else {
    mask->words.assign(words.begin(), words.end());
  }
  const std::scoped_lock lock(mutex_);
  make_room((key.size() + mask->words.size() + mask->ids.size()) * 4 + 200);
  known_[key] = {std::move(mask), false};
}

void MaskCache::add_deeper(const Words& key) {
  const std::scoped_lock lock(mutex_);
  make_room(key.size() * 4 + 200);
  known_[key] = {nullptr, true};
}

MaskMaker::MaskMaker(const Program& program, const Vocabulary::State& vocabulary, MaskCache& cache, Stacks& stacks,
                     const std::vector<TokenId>& token_ids)
    : program_(program),
      vocabulary_(vocabulary),
      cache_(cache),
      stacks_(stacks),
      token_ids_(token_ids),
      stepper_(program, stacks),
      mask_(vocabulary.tokens.words(), 0) {}

MaskMaker::Body MaskMaker::body_of(const Thread& thread) const {
  static const LengthTable any(0, LengthTable::kUnbounded);
  const Instruction& i = program_.at(thread.pc);
  if (i.op == Op::Body) return {&program_.dfa_of(i.a), i.a, thread.sub, &program_.lengths_of(i.b)};
  if (i.op == Op::OtherName && (thread.sub & kLeftNames) != 0)
    return {&key_body(), kKeyBody, thread.sub & ~kLeftNames, &any};
  return {nullptr, 0, 0, nullptr};
}

/// Counts that no single token can distinguish share a key.
std::uint32_t MaskMaker::item_key(Pc ret, std::uint32_t count) const {
  const Instruction& i = program_.at(ret);
  if (i.op != Op::Item) return count;
  const Bounds& bounds = program_.bounds_of(i.a);
  const std::uint32_t most = vocabulary_.most_commas + 2;
  const bool at_least = count >= bounds.min || bounds.min - count > most;
  const bool at_most = bounds.max == Bounds::kUnbounded || bounds.max - count > most;
  if (!at_least || !at_most) return count;
  return count >= bounds.min ? kEnd - 1 : kEnd - 2;
}

/// The threads, as a key shows them. False: the mask is computed faster than it is found.
bool MaskMaker::add_threads(const Threads& threads, Words& key) {
  order_.clear();
  place_.clear();
  expanded_ = 0;
  for (const Thread& thread : threads) {
    std::uint32_t count = thread.count;
    if (const Body body = body_of(thread); body.dfa != nullptr) {
      const LengthTable& lengths = *body.lengths;
      const bool any = lengths.any_text() && (lengths.max() == LengthTable::kUnbounded ||
                                              (lengths.max() >= count && lengths.max() - count > vocabulary_.longest));
      if (any && count >= lengths.min())
        count = kEnd - 1;
      else if (lengths.any_text() && lengths.max() != LengthTable::kUnbounded && threads.size() == 1)
        return false;
    }
    const auto [place, is_new] = place_.try_emplace(thread.stack, static_cast<std::uint32_t>(order_.size()));
    if (is_new) order_.push_back(thread.stack);
    key.insert(key.end(), {thread.pc, thread.sub, count, place->second});
  }
  key.push_back(kEnd);
  return true;
}

/// Adds the edges of the nodes that the key names and does not show yet. False: there are none.
bool MaskMaker::add_level(Words& key) {
  const std::size_t end = order_.size();
  if (expanded_ == end) return false;
  for (; expanded_ < end; ++expanded_) {
    for (std::uint32_t e = stacks_.first_edge(order_[expanded_]); e != 0; e = stacks_.edge(e).next) {
      const Stacks::Edge& edge = stacks_.edge(e);
      const auto [place, is_new] = place_.try_emplace(edge.parent, static_cast<std::uint32_t>(order_.size()));
      if (is_new) order_.push_back(edge.parent);
      key.insert(key.end(), {edge.ret, item_key(edge.ret, edge.count), place->second});
    }
    key.push_back(kEnd);
  }
  return true;
}

std::span<const std::uint32_t> MaskMaker::make(const Threads& threads) {
  key_.clear();
  if (!add_threads(threads, key_)) {
    stepper_.watch({});
    compute(threads);
    return mask_;
  }
  std::vector<std::uint32_t> levels(stacks_.size(), 0);
  std::vector<std::size_t> lengths;  // of the keys that show 0, 1, ... levels
  std::uint32_t depth = 0;
  bool known = true;
  for (std::size_t at = 0;; ++depth) {
    for (; at < order_.size(); ++at) levels[order_[at]] = depth;
    lengths.push_back(key_.size());
    if (known && key_.size() <= kLongestKey) {
      const MaskCache::Found found = cache_.find(key_);
      if (found.mask != nullptr) {
        if (!found.mask->words.empty()) {
          mask_ = found.mask->words;
        } else {
          std::fill(mask_.begin(), mask_.end(), 0);
          for (const TokenId id : found.mask->ids) set(id);
        }
        return mask_;
      }
      known = found.is_deeper;
    }
    if (!add_level(key_)) break;
  }
  stepper_.watch(std::move(levels));
  compute(threads);
  const std::uint32_t needed = stepper_.deepest();
  if (lengths[needed] <= kLongestKey) {
    const auto shown = [&](std::uint32_t d) {
      return Words(key_.begin(), key_.begin() + static_cast<std::ptrdiff_t>(lengths[d]));
    };
    for (std::uint32_t d = 0; d < needed; ++d) cache_.add_deeper(shown(d));
    cache_.add(shown(needed), mask_);
  }
  return mask_;
}

Threads& MaskMaker::level(std::size_t depth) {
  while (levels_.size() <= depth) levels_.emplace_back();
  return levels_[depth];
}

void MaskMaker::compute(const Threads& threads) {
  std::fill(mask_.begin(), mask_.end(), 0);
  const Stacks::Mark mark = stacks_.mark();
  Threads& rest = level(0);
  rest.clear();
  for (const Thread& thread : threads) {
    const Instruction& i = program_.at(thread.pc);
    if (i.op == Op::Token) {
      set(token_ids_[i.a]);
    } else if (i.op == Op::OtherName && (thread.sub & kLeftNames) == 0) {
      apply_other_name(thread, 1);
    } else if (i.op != Op::Finish) {
      rest.push_back(thread);
    }
  }
  const TokenTrie& tokens = vocabulary_.tokens;
  walk(tokens.trie, 0, 0, [&](std::uint32_t first, std::uint32_t end) {
    for (; first < end; ++first) set(tokens.tokens[first]);
  });
  stacks_.release(mark);
}

/// Does threads within strings at once, if the subtree is large, and removes them.
void MaskMaker::take_slices(std::uint32_t node, Threads& threads, std::size_t depth) {
  const Trie& trie = vocabulary_.tokens.trie;
  if (trie.subtree_end(node) - trie.own_end(node) < kSliceFrom) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < threads.size(); ++i) {
    const Thread thread = threads[i];
    const Body body = body_of(thread);
    if (body.dfa == nullptr) {
      threads[kept++] = thread;
      continue;
    }
    SliceCache& slices = body.number < kSharedBodies ? vocabulary_.slices : cache_.slices;
    apply(*slices.get(body.number, *body.dfa, body.state, vocabulary_.tokens, node), thread, body, depth + 1);
  }
  threads.resize(kept);
}

void MaskMaker::apply(const Slice& slice, const Thread& thread, const Body& body, std::size_t depth) {
  apply_stay(slice, thread, body);
  if (slice.closing_tokens.empty()) return;
  const Stacks::Mark mark = stacks_.mark();
  stepper_.close_body(thread, level(depth));
  const LengthTable& lengths = *body.lengths;
  const std::uint64_t min = lengths.min(), max = lengths.max();
  const auto emit = [&](std::uint32_t first, std::uint32_t end) {
    for (; first < end; ++first) {
      const std::uint64_t chars = std::uint64_t{thread.count} + slice.closing_chars[first];
      if (chars >= min && chars <= max) set(slice.closing_tokens[first]);
    }
  };
  if (!level(depth).empty()) emit(slice.closings.first(0), slice.closings.own_end(0));
  walk(slice.closings, 0, depth, emit);
  stacks_.release(mark);
}

void MaskMaker::apply_stay(const Slice& slice, const Thread& thread, const Body& body) {
  const LengthTable& lengths = *body.lengths;
  const auto viable = [&](const Slice::Group& group) {
    std::uint64_t count = std::uint64_t{thread.count} + group.chars;
    if (lengths.max() == LengthTable::kUnbounded) count = std::min<std::uint64_t>(count, lengths.min());
    return count <= lengths.max() && lengths.viable(group.state, static_cast<std::uint32_t>(count));
  };
  std::size_t fits = 0;
  for (const Slice::Group& group : slice.groups) fits += viable(group) ? group.end - group.first : 0;
  if (slice.dense.empty() || fits * 2 < slice.stay.size()) {
    for (const Slice::Group& group : slice.groups) {
      if (!viable(group)) continue;
      for (std::uint32_t i = group.first; i < group.end; ++i) set(slice.stay[i]);
    }
    return;
  }
  const Words* words = &slice.dense;
  if (fits != slice.stay.size()) {
    other_mask_ = slice.dense;
    for (const Slice::Group& group : slice.groups) {
      if (viable(group)) continue;
      for (std::uint32_t i = group.first; i < group.end; ++i) {
        const TokenId id = slice.stay[i];
        other_mask_[static_cast<std::size_t>(id) / 32] &= ~(1U << (id % 32));
      }
    }
    words = &other_mask_;
  }
  for (std::size_t i = 0; i < mask_.size(); ++i) mask_[i] |= (*words)[i];
}

/// At the beginning of tokens: all that a string without escapes may begin with, less those that end one of the names.
void MaskMaker::apply_other_name(const Thread& thread, std::size_t depth) {
  const Names& names = program_.names_of(program_.at(thread.pc).a);
  Words before(mask_.size(), 0);
  before.swap(mask_);
  Thread left = thread;
  left.sub = names.body[thread.sub] | kLeftNames;
  const Body body = body_of(left);
  apply(*vocabulary_.slices.get(kKeyBody, key_body(), body.state, vocabulary_.tokens, 0), left, body, depth);
  clear_names(names, thread.sub, 0);
  for (std::size_t i = 0; i < mask_.size(); ++i) mask_[i] |= before[i];
}

void MaskMaker::clear_names(const Names& names, std::uint32_t name, std::uint32_t node) {
  const TokenTrie& tokens = vocabulary_.tokens;
  if (names.trie.ends(name)) {
    const std::uint32_t quote = tokens.trie.child(node, '"');
    if (quote != Trie::kNone) {
      for (std::uint32_t e = tokens.trie.first(quote); e < tokens.trie.subtree_end(quote); ++e) {
        const TokenId id = tokens.tokens[e];
        mask_[static_cast<std::size_t>(id) / 32] &= ~(1U << (id % 32));
      }
    }
  }
  for (std::uint32_t c = name + 1; c < names.trie.after(name); c = names.trie.after(c)) {
    const std::uint32_t child = tokens.trie.child(node, names.trie.byte(c));
    if (child != Trie::kNone) clear_names(names, c, child);
  }
}

/// False: any byte may be allowed.
bool MaskMaker::first_bytes(const Threads& threads, std::array<bool, 256>& allowed) const {
  for (const Thread& thread : threads) {
    const Instruction& i = program_.at(thread.pc);
    if (i.op == Op::Text) {
      allowed[static_cast<std::uint8_t>(program_.text_of(i.a)[thread.sub])] = true;
    } else if (i.op == Op::Names) {
      const Trie& trie = program_.names_of(i.a).trie;
      for (std::uint32_t c = thread.sub + 1; c < trie.after(thread.sub); c = trie.after(c))
        allowed[trie.byte(c)] = true;
    } else if (i.op == Op::Dfa || i.op == Op::Counted) {
      const Dfa& dfa = program_.dfa_of(i.a);
      for (std::size_t byte = 0; byte < 256; ++byte) {
        if (dfa.step(thread.sub, static_cast<std::uint8_t>(byte)) != Dfa::kDead) allowed[byte] = true;
      }
    } else if (i.op == Op::Body || i.op == Op::OtherName) {
      return false;
    }
  }
  return true;
}

/// Calls emit(first, end) for the entries of `trie` below `node` that the threads of level(depth) can read.
template <class Emit>
void MaskMaker::walk(const Trie& trie, std::uint32_t node, std::size_t depth, const Emit& emit) {
  Threads& threads = level(depth);
  if (&trie == &vocabulary_.tokens.trie) take_slices(node, threads, depth);
  if (threads.empty()) return;
  if (threads.size() == 1 && program_.at(threads[0].pc).op == Op::Dfa) {
    const Thread thread = threads[0];
    return walk_dfa(trie, node, thread, depth, emit);
  }
  std::array<bool, 256> allowed{};
  const bool filter = trie.after(node) - node > 16 && first_bytes(threads, allowed);
  Threads& after = level(depth + 1);
  for (std::uint32_t c = node + 1; c < trie.after(node); c = trie.after(c)) {
    if (filter && !allowed[trie.byte(c)]) continue;
    const Stacks::Mark mark = stacks_.mark();
    stepper_.step(threads, trie.byte(c), after);
    if (!after.empty()) {
      emit(trie.first(c), trie.own_end(c));
      if (!trie.is_leaf(c)) walk(trie, c, depth + 1, emit);
    }
    stacks_.release(mark);
  }
}

/// As walk(), for a single thread in an automaton: without copies of threads as long as it stays there.
template <class Emit>
void MaskMaker::walk_dfa(const Trie& trie, std::uint32_t node, const Thread& thread, std::size_t depth,
                         const Emit& emit) {
  const Instruction& i = program_.at(thread.pc);
  const Dfa& dfa = program_.dfa_of(i.a);
  const bool ends = program_.at(i.next).op == Op::Finish;
  for (std::uint32_t c = node + 1; c < trie.after(node); c = trie.after(c)) {
    const std::uint32_t state = dfa.step(thread.sub, trie.byte(c));
    if (state == Dfa::kDead) continue;
    emit(trie.first(c), trie.own_end(c));
    if (trie.is_leaf(c)) continue;
    Thread after = thread;
    after.sub = state;
    if (!dfa.accepts[state] || ends) {
      walk_dfa(trie, c, after, depth, emit);
      continue;
    }
    const Stacks::Mark mark = stacks_.mark();
    level(depth).assign(1, thread);
    stepper_.step(level(depth), trie.byte(c), level(depth + 1));
    walk(trie, c, depth + 1, emit);
    stacks_.release(mark);
  }
}

}  // namespace mortar::grammar
