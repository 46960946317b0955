// Lifetimes, merging and placement of buffers (see the header for what is merged with what).
#include "codegen/cpu/plan.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>

namespace tessera::cpu {
namespace {

constexpr std::int64_t kAlign = 64;  // a cache line, and the widest vector

struct Point {
  int pos, loop;
};
struct Segment {
  int start, end;
  std::uint32_t buffer;
};
struct Loop {
  int parent, begin, end;
};
struct Touches {
  std::vector<Point> reads, writes;
};

class Planner {
 public:
  explicit Planner(std::vector<BufferInfo>& buffers)
      : buffers_(buffers), touches_(buffers.size()), borrowed_(buffers.size()), forwarded_(buffers.size()) {
    for (std::uint32_t b = 0; b < buffers.size(); ++b)
      if (buffers[b].branch != nullptr) results_of_[buffers[b].branch].push_back(b);
  }

  std::int64_t plan(Code& uniform, Code& block) {
    walk(uniform, -1);
    const int root = open_loop(-1);
    walk(block, root);
    close_loop(root);
    find_borrowed(uniform);
    find_borrowed(block);
    make_classes();
    merge();
    return place();
  }

 private:
  struct Candidate {
    int pos;
    InPlace pair;
    bool copy;
  };

  int open_loop(int parent) {
    loops_.push_back({parent, next_++, 0});
    return static_cast<int>(loops_.size()) - 1;
  }
  void close_loop(int loop) { loops_[static_cast<std::size_t>(loop)].end = next_++; }

  void walk(Code& code, int loop) {
    for (auto& instr : code) {
      const int pos = position_[instr.get()] = next_++;
      at_.resize(static_cast<std::size_t>(next_), nullptr);
      at_.back() = instr.get();
      for (const Access& a : instr->accesses) {
        auto& t = touches_[a.buffer];
        (a.write ? t.writes : t.reads).push_back({pos, loop});
      }
      const bool copy = instr->is_copy();
      for (const InPlace& p : instr->in_place) {
        candidates_.push_back({pos, p, copy});
        allowed_.insert({pos, p.source, p.destination});
      }
      auto children = instr->children();
      if (children.empty()) continue;
      int inner = loop;
      if (instr->is_loop()) loop_of_[instr.get()] = inner = open_loop(loop);
      for (Code* child : children) {
        walk(*child, inner);
        if (child == children.front()) first_child_end_[instr.get()] = next_++;
      }
      if (instr->is_loop()) close_loop(inner);
    }
  }

  /// Whether `loop` is `home` or around it.
  bool encloses(int loop, int home) const {
    for (int l = home; l != loop; l = loops_[static_cast<std::size_t>(l)].parent)
      if (l == -1) return false;
    return true;
  }
  /// Last position at which a value of `home` is needed because of a touch: the end of every loop around it that the
  /// value enters.
  int extended(Point p, int home) const {
    int end = p.pos;
    for (int l = p.loop; l != -1 && !encloses(l, home); l = loops_[static_cast<std::size_t>(l)].parent)
      end = loops_[static_cast<std::size_t>(l)].end;
    return end;
  }

  static bool writes_memory(Instr& instr) {
    if (instr.writes_memory()) return true;
    for (Code* child : instr.children())
      for (auto& inner : *child)
        if (writes_memory(*inner)) return true;
    return false;
  }

  /// Loads whose tile is only read in the same straight line of code, before anything there writes a tensor: the tile
  /// need not be copied out of memory. Its buffer then belongs to the tensor and is never overwritten in place.
  void find_borrowed(Code& code) {
    for (std::size_t i = 0; i < code.size(); ++i) {
      for (Code* child : code[i]->children()) find_borrowed(*child);
      forward_results(code, i);
      const std::int64_t b = code[i]->borrowable();
      if (b < 0 || touches_[static_cast<std::size_t>(b)].writes.size() != 1) continue;
      if (!only_read_before_writes(code, i, touches_[static_cast<std::size_t>(b)])) continue;
      code[i]->borrow();
      borrowed_[static_cast<std::size_t>(b)] = true;
      borrow_rows(*code[i], static_cast<std::uint32_t>(b));
    }
  }

  /// If all instructions that read the tile of a load can find its rows apart from each other, it need not be copied
  /// there either.
  void borrow_rows(Instr& load, std::uint32_t b) {
    const std::int64_t length = load.row_length();
    if (length == 0 || touches_[b].reads.empty()) return;
    for (Point p : touches_[b].reads)
      if (!at_[static_cast<std::size_t>(p.pos)]->takes_rows(b, length)) return;
    bool strides = true;
    for (Point p : touches_[b].reads) {
      Instr* reader = at_[static_cast<std::size_t>(p.pos)];
      reader->take_rows(b, length);
      strides = strides && reader->takes_strides(b);
    }
    load.borrow_rows();
    if (strides) load.borrow_strides();
  }

  /// Results of an `if` that are only read after it in the same straight line of code: the copies that end its arms
  /// pass the addresses of what they would copy, so that a tile borrowed within an arm stays borrowed. What is passed
  /// lives as long as the result, and no tensor is written meanwhile.
  void forward_results(Code& code, std::size_t at) {
    const auto results = results_of_.find(code[at].get());
    if (results == results_of_.end()) return;
    for (const std::uint32_t b : results->second) {
      if (touches_[b].reads.empty()) continue;
      std::vector<Instr*> copies = final_copies(*code[at], b);
      if (copies.size() != touches_[b].writes.size() || !only_read_before_writes(code, at, touches_[b])) continue;
      for (Instr* copy : copies) {
        hand_on(copy->accesses[0].buffer, touches_[b].reads);
        forwarded_[b].push_back(copy->accesses[0].buffer);
        copy->forward();
      }
      borrowed_[b] = true;
    }
  }

  /// `reads` find the elements of `source` through another buffer. Nothing may take its place there, whatever the
  /// reading instruction tolerates of the buffers that it names: it does not know that two of them are one. The same
  /// holds for what `source` itself was handed on from.
  void hand_on(std::uint32_t source, const std::vector<Point>& reads) {
    auto& own = touches_[source].reads;
    own.insert(own.end(), reads.begin(), reads.end());
    for (Point p : reads)
      allowed_.erase(allowed_.lower_bound({p.pos, source, 0}), allowed_.lower_bound({p.pos, source + 1, 0}));
    for (std::uint32_t from : forwarded_[source]) hand_on(from, reads);
  }

  /// The copies to the buffer at the end of the arms, if all their sources are written once; else none.
  std::vector<Instr*> final_copies(Instr& branch, std::uint32_t b) const {
    std::vector<Instr*> copies;
    for (Code* arm : branch.children())
      for (auto instr = arm->rbegin(); instr != arm->rend() && (*instr)->is_copy(); ++instr) {
        const auto& accesses = (*instr)->accesses;
        if (accesses[1].buffer != b) continue;
        const BufferInfo& source = buffers_[accesses[0].buffer];
        const bool once = touches_[accesses[0].buffer].writes.size() == 1 && source.loop == nullptr;
        if (source.kind == BufferKind::Arena && !once) return {};
        copies.push_back(instr->get());
      }
    return copies;
  }

  bool only_read_before_writes(Code& code, std::size_t load, const Touches& t) const {
    std::size_t last = load;
    for (Point p : t.reads) {
      const auto at = std::find_if(code.begin() + static_cast<std::ptrdiff_t>(load), code.end(),
                                   [&](const auto& instr) { return position_.at(instr.get()) == p.pos; });
      if (at == code.end()) return false;
      last = std::max(last, static_cast<std::size_t>(at - code.begin()));
    }
    for (std::size_t i = load + 1; i < last; ++i)
      if (writes_memory(*code[i])) return false;
    return last == load || !writes_memory(*code[last]) || code[last]->copies_any_source();
  }

  void make_classes() {
    class_of_.resize(buffers_.size());
    segments_.resize(buffers_.size());
    for (std::uint32_t b = 0; b < buffers_.size(); ++b) {
      class_of_[b] = b;
      if (buffers_[b].kind == BufferKind::Arena && !touches_[b].writes.empty()) segments_[b] = segments_of(b);
    }
  }

  std::vector<Segment> segments_of(std::uint32_t b) const {
    const BufferInfo& info = buffers_[b];
    const Touches& t = touches_[b];
    const int start = t.writes.front().pos;
    if (info.carried) return carried_segments(b);
    const int home = info.loop != nullptr ? loop_of_.at(info.loop) : t.writes.front().loop;
    int end = t.writes.back().pos;
    for (Point p : t.reads) end = std::max(end, extended(p, home));
    for (Point p : t.writes) end = std::max(end, extended(p, home));
    if (info.whole_scope) end = home == -1 ? next_ : loops_[static_cast<std::size_t>(home)].end;
    if (info.branch != nullptr) {
      const int arm_end = first_child_end_.at(info.branch);
      if (start < arm_end && t.writes.back().pos > arm_end) {
        auto other = std::find_if(t.writes.begin(), t.writes.end(), [&](Point p) { return p.pos > arm_end; });
        return {{start, arm_end, b}, {other->pos, end, b}};
      }
    }
    return {{start, end, b}};
  }

  std::vector<Segment> carried_segments(std::uint32_t b) const {
    const Touches& t = touches_[b];
    const int inner = loop_of_.at(buffers_[b].loop);
    const Loop& loop = loops_[static_cast<std::size_t>(inner)];
    const int start = t.writes.front().pos;
    int inside = loop.begin, end = loop.end, again = -1;
    for (Point p : t.reads) {
      if (p.pos > loop.begin && p.pos < loop.end) {
        inside = std::max(inside, extended(p, inner));
      } else {
        end = std::max(end, extended(p, loop.parent));
      }
    }
    for (Point p : t.writes)
      if (p.pos > loop.begin && again < 0) again = p.pos;
    if (again < 0 || again < inside) return {{start, end, b}};
    return {{start, inside, b}, {again, end, b}};
  }

  std::uint32_t find(std::uint32_t b) {
    while (class_of_[b] != b) b = class_of_[b] = class_of_[class_of_[b]];
    return b;
  }

  bool compatible(const Segment& first, const Segment& second) const {
    if (first.start < second.start && first.end <= second.start)
      return first.end < second.start || allowed_.contains({second.start, first.buffer, second.buffer});
    return false;
  }

  void try_merge(std::uint32_t a, std::uint32_t b) {
    if (borrowed_[a] || borrowed_[b]) return;
    a = find(a);
    b = find(b);
    if (a == b || segments_[a].empty() || segments_[b].empty()) return;
    for (const Segment& s : segments_[a])
      for (const Segment& t : segments_[b])
        if (!compatible(s, t) && !compatible(t, s)) return;
    class_of_[b] = a;
    segments_[a].insert(segments_[a].end(), segments_[b].begin(), segments_[b].end());
    segments_[b].clear();
    buffers_[a].bytes = std::max(buffers_[a].bytes, buffers_[b].bytes);
  }

  /// Copies first: a merged copy costs nothing, an in-place result only saves cache.
  void merge() {
    for (const bool copy : {true, false})
      for (const Candidate& c : candidates_)
        if (c.copy == copy) try_merge(c.pair.destination, c.pair.source);
  }

  std::int64_t place() {
    struct Item {
      int start, end;
      std::int64_t offset, bytes;
      std::uint32_t buffer;
    };
    std::vector<Item> items;
    for (std::uint32_t b = 0; b < buffers_.size(); ++b) {
      if (segments_[b].empty()) continue;
      Item it{segments_[b][0].start, segments_[b][0].end, 0, buffers_[b].bytes, b};
      for (const Segment& s : segments_[b]) {
        it.start = std::min(it.start, s.start);
        it.end = std::max(it.end, s.end);
      }
      // Scalars share lines; whole tiles start on one.
      const std::int64_t unit = it.bytes < kAlign ? 8 : kAlign;
      it.bytes = (it.bytes + unit - 1) / unit * unit;
      items.push_back(it);
    }
    std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
      return std::tuple(a.start, -a.bytes, a.buffer) < std::tuple(b.start, -b.bytes, b.buffer);
    });
    std::int64_t total = 0;
    std::vector<Item> active;  // sorted by offset
    for (Item& it : items) {
      std::erase_if(active, [&](const Item& other) { return other.end < it.start; });
      const std::int64_t align = it.bytes < kAlign ? 8 : kAlign;
      std::int64_t at = 0;
      auto slot = active.begin();
      for (; slot != active.end(); ++slot) {
        if (at + it.bytes <= slot->offset) break;
        at = std::max(at, (slot->offset + slot->bytes + align - 1) / align * align);
      }
      it.offset = at;
      active.insert(slot, it);
      buffers_[it.buffer].where = at;
      total = std::max(total, at + it.bytes);
    }
    for (std::uint32_t b = 0; b < buffers_.size(); ++b)
      if (buffers_[b].kind == BufferKind::Arena) buffers_[b].where = buffers_[find(b)].where;
    return total;
  }

  std::vector<BufferInfo>& buffers_;
  std::vector<Touches> touches_;
  std::vector<Loop> loops_;
  std::vector<bool> borrowed_;
  std::vector<std::vector<std::uint32_t>> forwarded_;  ///< per result of an `if`: what its copies pass on by address
  std::unordered_map<const Instr*, std::vector<std::uint32_t>> results_of_;  ///< buffers of the results of an `if`
  std::vector<Instr*> at_;                                                   ///< by position; null: no instruction
  std::unordered_map<const Instr*, int> loop_of_, first_child_end_, position_;
  std::vector<Candidate> candidates_;
  std::set<std::tuple<int, std::uint32_t, std::uint32_t>> allowed_;
  std::vector<std::uint32_t> class_of_;
  std::vector<std::vector<Segment>> segments_;
  int next_ = 0;
};

}  // namespace

std::int64_t plan_buffers(std::vector<BufferInfo>& buffers, Code& uniform, Code& block) {
  return Planner(buffers).plan(uniform, block);
}

}  // namespace tessera::cpu
