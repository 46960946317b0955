// Finds chains. A chain collects elementwise instructions over the same elements as they come; what comes between them
// and neither reads their results nor writes what they read goes ahead of the chain (elementwise instructions are pure,
// so they may run later). Anything else ends the chain. Instructions stay in one straight line of code.
#include "codegen/cpu/fuse.hpp"

#include <algorithm>
#include <unordered_map>

#include "codegen/cpu/absorb.hpp"
#include "codegen/cpu/strip_instr.hpp"

namespace tessera::cpu {
namespace {

/// Fewer elements than this are not worth a chain.
constexpr std::int64_t kWorthwhile = 64;

bool writes_memory(Instr& instr) {
  if (instr.writes_memory()) return true;
  for (Code* child : instr.children())
    for (auto& inner : *child)
      if (writes_memory(*inner)) return true;
  return false;
}

/// Element (r, c) of the iteration is element r * cols + c of the buffer.
bool is_full(const ElementwiseInstr::Source& s, std::int64_t rows, std::int64_t cols) {
  return s.ref.offset == 0 && !s.splat && (rows == 1 || s.row_stride == cols * s.elem_bytes);
}

/// A chain that is being collected.
struct Chain {
  std::vector<std::unique_ptr<ElementwiseInstr>> links;
  std::int64_t rows = 1, cols = 1;
  std::vector<std::uint32_t> reads, writes;

  bool touches(const std::vector<std::uint32_t>& set, std::uint32_t buffer) const {
    return std::find(set.begin(), set.end(), buffer) != set.end();
  }
  bool conflicts(Instr& other) const {
    for (const Access& a : other.accesses)
      if (touches(writes, a.buffer) || (a.write && touches(reads, a.buffer))) return true;
    for (Code* child : other.children())
      for (auto& inner : *child)
        if (conflicts(*inner)) return true;
    return false;
  }
  bool takes(const ElementwiseInstr& e) const {
    if (links.empty()) return true;
    if (rows * cols != e.rows * e.cols || (rows > 1 && e.rows > 1 && rows != e.rows)) return false;
    if (touches(reads, e.dst.buffer) || touches(writes, e.dst.buffer)) return false;
    for (int i = 0; i < e.sources; ++i)
      if (touches(writes, e.source[i].ref.buffer) && !is_full(e.source[i], e.rows, e.cols)) return false;
    return true;
  }
  void add(std::unique_ptr<ElementwiseInstr> e) {
    if (links.empty() || e->rows > 1) {
      rows = e->rows;
      cols = e->cols;
    }
    for (const Access& a : e->accesses) (a.write ? writes : reads).push_back(a.buffer);
    links.push_back(std::move(e));
  }
};

class Fuser {
 public:
  explicit Fuser(std::vector<BufferInfo>& buffers) : buffers_(buffers), reads_(buffers.size()) {}

  void count_reads(Code& code) {
    for (auto& instr : code) {
      for (const Access& a : instr->accesses) reads_[a.buffer] += !a.write;
      for (Code* child : instr->children()) count_reads(*child);
    }
  }

  void fuse(Code& code) {
    Code out;
    Chain chain;
    for (auto& instr : code) {
      for (Code* child : instr->children()) fuse(*child);
      if (is_link(*instr)) {
        std::unique_ptr<ElementwiseInstr> e(static_cast<ElementwiseInstr*>(instr.release()));
        if (!chain.takes(*e)) end(chain, out, nullptr);
        chain.add(std::move(e));
      } else if (ends_with(chain, *instr)) {
        end(chain, out, std::unique_ptr<ViewStoreInstr>(static_cast<ViewStoreInstr*>(instr.release())));
      } else {
        if (!chain.links.empty() && (chain.conflicts(*instr) || writes_memory(*instr))) end(chain, out, nullptr);
        out.push_back(std::move(instr));
      }
    }
    end(chain, out, nullptr);
    code = std::move(out);
  }

 private:
  static bool is_link(const Instr& instr) {
    const auto* e = dynamic_cast<const ElementwiseInstr*>(&instr);
    return e != nullptr && e->outer.empty() && e->rows * e->cols >= kWorthwhile;
  }

  /// Only the instructions that touch it know the buffer.
  bool is_plain(std::uint32_t b) const {
    const BufferInfo& info = buffers_[b];
    return info.kind == BufferKind::Arena && info.loop == nullptr && info.branch == nullptr && !info.whole_scope;
  }

  /// A store of a whole result of the chain that nothing else reads.
  bool ends_with(const Chain& chain, const Instr& instr) const {
    const auto* store = dynamic_cast<const ViewStoreInstr*>(&instr);
    if (store == nullptr || store->access.sparse >= 0 || store->access.nibbles || store->src.offset != 0) return false;
    const std::uint32_t tile = store->src.buffer;
    if (reads_[tile] != 1 || !is_plain(tile)) return false;
    if (!std::any_of(chain.links.begin(), chain.links.end(), [&](auto& e) { return e->dst.buffer == tile; }))
      return false;
    for (const Access& a : store->accesses)  // the index may be computed by the chain
      if (a.buffer != tile && chain.touches(chain.writes, a.buffer)) return false;
    std::int64_t step = store->access.elem_bytes;
    for (std::size_t a = store->access.axes.size(); a-- > 0;) {
      const std::int64_t n = store->access.axes[a].tile;
      if (n != 1 && store->src_stride[a] != step) return false;
      step *= n;
    }
    return step == chain.rows * chain.cols * store->access.elem_bytes;
  }

  void end(Chain& chain, Code& out, std::unique_ptr<ViewStoreInstr> store) {
    // One link of several strips is also built as a chain, which fetches ahead after each of them.
    if (chain.links.size() == 1 && store == nullptr && chain.rows * chain.cols <= StripInstr::kLongestStrip) {
      out.push_back(std::move(chain.links[0]));
    } else if (!chain.links.empty()) {
      out.push_back(build(chain, std::move(store)));
    }
    chain = {};
  }

  /// Number of the step that reads a result last; results that only the chain reads need no more than a strip.
  struct Result {
    std::size_t last = 0;
    int reads = 0;
    bool in_strip = false;
    std::size_t slot = 0;
  };
  using Results = std::unordered_map<std::uint32_t, Result>;

  Results results_of(const Chain& chain) const {
    Results results;
    for (std::size_t k = 0; k < chain.links.size(); ++k) {
      const ElementwiseInstr& e = *chain.links[k];
      for (int i = 0; i < e.sources; ++i)
        if (auto r = results.find(e.source[i].ref.buffer); r != results.end()) {
          r->second.last = k;
          ++r->second.reads;
        }
      results[e.dst.buffer].last = k;
    }
    for (auto& [buffer, r] : results) r.in_strip = r.reads == reads_[buffer] && is_plain(buffer);
    return results;
  }

  /// Gives results that stay in strips a place in the scratch buffer, reusing those of results that are not read any
  /// more (also in place, where elements do not grow); returns the number of places.
  static std::size_t assign_slots(const Chain& chain, Results& results) {
    struct Slot {
      std::size_t free_from = 0;
      std::int64_t elem_bytes = 0;  ///< of its present result
    };
    std::vector<Slot> slots;
    for (std::size_t k = 0; k < chain.links.size(); ++k) {
      const ElementwiseInstr& e = *chain.links[k];
      Result& r = results.at(e.dst.buffer);
      if (!r.in_strip) continue;
      const auto found = std::find_if(slots.begin(), slots.end(), [&](const Slot& s) {
        return s.free_from < k || (s.free_from == k && s.elem_bytes >= e.elem_bytes);
      });
      r.slot = static_cast<std::size_t>(found - slots.begin());
      if (found == slots.end()) slots.emplace_back();
      slots[r.slot] = {r.last == k ? k + 1 : r.last, e.elem_bytes};
    }
    return slots.size();
  }

  StripInstr::Source source_of(const ElementwiseInstr& e, int i, const Chain& chain, const Results& results) const {
    const ElementwiseInstr::Source& s = e.source[i];
    StripInstr::Source out;
    out.ref = s.ref;
    out.elem_bytes = s.elem_bytes;
    out.col_stride = s.splat ? 0 : s.elem_bytes;
    out.row_stride = e.rows > 1 ? s.row_stride : chain.cols * out.col_stride;
    const auto r = results.find(s.ref.buffer);
    out.in_strip = r != results.end() && r->second.in_strip;
    return out;
  }

  static bool is_one_value(const StripInstr::Source& s, const Chain& chain) {
    return s.col_stride == 0 && (chain.rows == 1 || s.row_stride == 0);
  }

  /// Bytes of an element of the chain, at the most.
  static std::int64_t widest_element(const Chain& chain) {
    std::int64_t widest = 1;
    for (const auto& e : chain.links) {
      widest = std::max(widest, e->elem_bytes);
      for (int i = 0; i < e->sources; ++i) widest = std::max(widest, e->source[i].elem_bytes);
    }
    return widest;
  }
  /// As many elements as keep the strips of the chain in the first-level cache together.
  std::int64_t strip_length(const Chain& chain, const Results& results, std::size_t slots) const {
    auto places = static_cast<std::int64_t>(slots);
    for (const auto& e : chain.links)
      for (int i = 0; i < e->sources; ++i) {
        const StripInstr::Source source = source_of(*e, i, chain, results);
        places += !source.in_strip && is_one_value(source, chain);
      }
    constexpr std::int64_t unit = StripInstr::kShortestStrip;
    const std::int64_t fitting = StripInstr::kStripBytes / (std::max<std::int64_t>(places, 1) * widest_element(chain));
    return std::clamp(fitting / unit * unit, unit, StripInstr::kLongestStrip);
  }

  std::unique_ptr<Instr> build(const Chain& chain, std::unique_ptr<ViewStoreInstr> store) {
    auto strip = std::make_unique<StripInstr>();
    strip->rows = chain.rows;
    strip->cols = chain.cols;
    Results results = results_of(chain);
    const std::size_t slots = assign_slots(chain, results);
    strip->strip = strip_length(chain, results, slots);
    const std::int64_t slot_bytes = strip->strip * widest_element(chain);
    const auto scratch = static_cast<std::uint32_t>(buffers_.size());
    const auto place = [&](Ref r, bool in_strip) {
      return in_strip ? Ref{scratch, slot_bytes * static_cast<std::int64_t>(results.at(r.buffer).slot)} : r;
    };
    for (const auto& e : chain.links) {
      StripInstr::Step step;
      step.fn = e->fn;
      step.sources = e->sources;
      step.elem_bytes = e->elem_bytes;
      step.in_strip = results.at(e->dst.buffer).in_strip;
      step.dst = place(e->dst, step.in_strip);
      for (int i = 0; i < e->sources; ++i) {
        step.source[i] = source_of(*e, i, chain, results);
        if (!step.source[i].in_strip) strip->accesses.push_back({step.source[i].ref.buffer, false});
        step.source[i].ref = place(step.source[i].ref, step.source[i].in_strip);
        // Where there is one strip, the primitive spreads the value itself, if it needs to.
        const bool strips = chain.rows * chain.cols > strip->strip;
        if (strips && !step.source[i].in_strip && is_one_value(step.source[i], chain)) {
          const Ref at{scratch, slot_bytes * static_cast<std::int64_t>(slots + strip->spreads.size())};
          strip->spreads.push_back({step.source[i].ref, at, step.source[i].elem_bytes});
          step.source[i] = {at, true, true, 0, 0, step.source[i].elem_bytes};
        }
      }
      if (!step.in_strip) strip->accesses.push_back({e->dst.buffer, true});
      if (store != nullptr && store->src.buffer == e->dst.buffer) strip->stored = strip->steps.size();
      step.choose_loop();
      strip->steps.push_back(step);
    }
    add_in_place(*strip);
    if (const std::size_t n = slots + strip->spreads.size(); n > 0) {
      BufferInfo info;
      info.bytes = slot_bytes * static_cast<std::int64_t>(n);
      buffers_.push_back(info);
      strip->accesses.push_back({scratch, true});
    }
    if (store != nullptr) {
      strip->accesses.insert(strip->accesses.end(), store->accesses.begin(), store->accesses.end());
      strip->in_place.insert(strip->in_place.end(), store->in_place.begin(), store->in_place.end());
      strip->store = std::move(store);
    }
    strip->finish();
    return strip;
  }

  /// A result may take the place of an operand that every step reads element by element, the last one not after the
  /// result is written.
  static void add_in_place(StripInstr& strip) {
    const auto is_full_source = [&](const StripInstr::Source& s) {
      return s.ref.offset == 0 && s.col_stride != 0 && (strip.rows == 1 || s.row_stride == strip.cols * s.col_stride);
    };
    const auto may_follow = [&](std::uint32_t source, std::size_t written) {
      for (std::size_t k = 0; k < strip.steps.size(); ++k)
        for (int i = 0; i < strip.steps[k].sources; ++i) {
          const StripInstr::Source& s = strip.steps[k].source[i];
          if (s.in_strip || s.ref.buffer != source) continue;
          if (k > written || !is_full_source(s) || s.elem_bytes < strip.steps[written].elem_bytes) return false;
        }
      return true;
    };
    for (std::size_t w = 0; w < strip.steps.size(); ++w) {
      if (strip.steps[w].in_strip) continue;
      for (std::size_t k = 0; k <= w; ++k)
        for (int i = 0; i < strip.steps[k].sources; ++i) {
          const StripInstr::Source& s = strip.steps[k].source[i];
          if (!s.in_strip && s.ref.buffer != strip.steps[w].dst.buffer && may_follow(s.ref.buffer, w))
            strip.in_place.push_back({s.ref.buffer, strip.steps[w].dst.buffer});
        }
    }
  }

  std::vector<BufferInfo>& buffers_;
  std::vector<int> reads_;  ///< per buffer, in all code
};

}  // namespace

void fuse_chains(std::vector<BufferInfo>& buffers, Code& uniform, Code& block) {
  Fuser fuser(buffers);
  absorb_conversions(buffers, uniform, block);
  for (Code* code : {&uniform, &block}) fuser.count_reads(*code);
  for (Code* code : {&uniform, &block}) fuser.fuse(*code);
}

}  // namespace tessera::cpu
