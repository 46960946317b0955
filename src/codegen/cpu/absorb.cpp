// Finds conversions with one reader. The conversion then happens later, so nothing in between may write its operand.
#include "codegen/cpu/absorb.hpp"

#include <algorithm>

#include "codegen/cpu/tile_instr.hpp"

namespace tessera::cpu {
namespace {

bool writes(Instr& instr, std::uint32_t buffer) {
  for (const Access& a : instr.accesses)
    if (a.write && a.buffer == buffer) return true;
  for (Code* child : instr.children())
    for (auto& inner : *child)
      if (writes(*inner, buffer)) return true;
  return false;
}

class Absorber {
 public:
  explicit Absorber(const std::vector<BufferInfo>& buffers) : buffers_(buffers), reads_(buffers.size()) {}

  void count_reads(Code& code) {
    for (auto& instr : code) {
      for (const Access& a : instr->accesses) reads_[a.buffer] += !a.write;
      for (Code* child : instr->children()) count_reads(*child);
    }
  }

  void absorb(Code& code) {
    for (std::size_t at = 0; at < code.size(); ++at) {
      for (Code* child : code[at]->children()) absorb(*child);
      const auto* conversion = dynamic_cast<const ElementwiseInstr*>(code[at].get());
      if (conversion == nullptr || conversion->sources != 1 || !conversion->outer.empty()) continue;
      if (!has_one_reader(conversion->dst)) continue;
      if (ElementwiseInstr* user = reader(code, at); user != nullptr && join(*conversion, *user)) code[at].reset();
    }
    std::erase(code, nullptr);
  }

 private:
  /// Only the instructions that touch it know the buffer, and one of them reads it.
  bool has_one_reader(Ref r) const {
    const BufferInfo& info = buffers_[r.buffer];
    return r.offset == 0 && reads_[r.buffer] == 1 && info.kind == BufferKind::Arena && info.loop == nullptr &&
           info.branch == nullptr && !info.whole_scope;
  }

  /// The elementwise instruction after `at` that reads the conversion's result; null: it is none, or what it converts
  /// is written before.
  static ElementwiseInstr* reader(Code& code, std::size_t at) {
    const auto* conversion = static_cast<const ElementwiseInstr*>(code[at].get());
    for (std::size_t i = at + 1; i < code.size(); ++i) {
      if (code[i] == nullptr) continue;
      for (const Access& a : code[i]->accesses)
        if (!a.write && a.buffer == conversion->dst.buffer) return dynamic_cast<ElementwiseInstr*>(code[i].get());
      if (writes(*code[i], conversion->source[0].ref.buffer)) return nullptr;
    }
    return nullptr;
  }

  static bool join(const ElementwiseInstr& conversion, ElementwiseInstr& user) {
    int operand = 0;
    while (user.source[operand].ref.buffer != conversion.dst.buffer) ++operand;
    const ElementwiseInstr::Source& from = conversion.source[0];
    ElementwiseInstr::Source& read = user.source[operand];
    const bool same_rows = conversion.rows == user.rows && conversion.cols == user.cols;
    const bool flat = conversion.rows == 1 || from.row_stride == conversion.cols * from.elem_bytes;
    if (!user.outer.empty() || read.ref.offset != 0 || read.splat || from.splat || !(same_rows || flat)) return false;
    if (user.rows > 1 && read.row_stride != user.cols * read.elem_bytes) return false;
    const prims::Elementwise fused = prims::converting(user.fn, operand, conversion.fn);
    if (!fused) return false;
    user.fn = fused;
    read = from;
    if (!same_rows) read.row_stride = user.cols * from.elem_bytes;
    std::ranges::replace_if(
        user.accesses, [&](const Access& a) { return !a.write && a.buffer == conversion.dst.buffer; },
        Access{from.ref.buffer, false});
    // The result may not take the converted operand's place: its elements may be narrower.
    std::erase_if(user.in_place,
                  [&](const InPlace& p) { return p.source == conversion.dst.buffer || p.source == from.ref.buffer; });
    return true;
  }

  const std::vector<BufferInfo>& buffers_;
  std::vector<int> reads_;  ///< per buffer, in all code
};

}  // namespace

void absorb_conversions(std::vector<BufferInfo>& buffers, Code& uniform, Code& block) {
  Absorber absorber(buffers);
  for (Code* code : {&uniform, &block}) absorber.count_reads(*code);
  for (Code* code : {&uniform, &block}) absorber.absorb(*code);
}

}  // namespace tessera::cpu
