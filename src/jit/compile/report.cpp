// Formats the facts and the module after the passes; it makes no decisions.
#include "jit/compile/report.hpp"

#include <string_view>

#include "jit/compile/advice.hpp"
#include "jit/compile/source_names.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/divisibility.hpp"
#include "tessera/base/format.hpp"
#include "tessera/jit/forms.hpp"

namespace tessera::jit {
namespace {

using ir::AttrName;
using ir::Op;

/// `text` and blanks up to `width`.
std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

const char* purpose(analysis::ObligationUse use) {
  switch (use) {
    case analysis::ObligationUse::Guard: return "its guard stays in the kernel";
    case analysis::ObligationUse::Inbounds: return "accesses are masked or clipped";
    case analysis::ObligationUse::Divisibility: return "no vector or tensor copies along it";
    case analysis::ObligationUse::Division: return "every block divides to find its piece";
    case analysis::ObligationUse::Mask: return "more of the tile of such a row is masked";
    case analysis::ObligationUse::Pieces: return "a block takes one piece";
    case analysis::ObligationUse::Copies: return "loops load without tensor copies";
    case analysis::ObligationUse::Waves: return "two blocks share an SM";
    case analysis::ObligationUse::Vectors: return "accesses are no wider than what divides its rows";
  }
  return "";
}

/// A hint of an access for any architecture, as text; empty if there is none.
std::string hint(const ir::Operation& op, std::string_view name) {
  const ir::Attribute* hints = op.attr(AttrName::optimization_hints);
  const auto* all = hints ? hints->as<ir::DictAttr>() : nullptr;
  if (!all) return "";
  for (const auto& [arch, of_arch] : all->entries) {
    const auto* dict = of_arch.as<ir::DictAttr>();
    if (!dict) continue;
    for (const auto& [key, value] : dict->entries) {
      if (key != name) continue;
      if (const bool* flag = value.as<bool>()) return *flag ? "true" : "false";
      if (const auto* number = value.as<ir::IntAttr>()) return concat(number->value);
    }
  }
  return "";
}

std::string inbounds(const ir::Operation& op) {
  const ir::Attribute* attr = op.attr(AttrName::inbounds);
  const auto* flags = attr ? attr->as<ir::BoolArrayAttr>() : nullptr;
  if (!flags) return "clipped along every axis";
  std::string clipped;
  for (std::size_t a = 0; a < flags->values.size(); ++a) {
    if (!flags->values[a]) clipped += concat(clipped.empty() ? "clipped along axis " : ", ", a);
  }
  return clipped.empty() ? "in bounds" : clipped;
}

struct AccessText {
  const char* verb;
  std::string tile, path, bounds;
};

AccessText describe(const analysis::Access& access) {
  constexpr const char* kVerbs[] = {"load", "store", "atomic"};  // in the order of AccessKind
  const char* verb = kVerbs[static_cast<std::size_t>(access.kind)];
  const std::string tile = access.tile.str();
  if (!access.view) return {verb, tile, "pointers", access.mask ? "masked" : "no mask"};
  if (!access.through_view()) return {verb, tile, "view", "clipped"};
  const std::string latency = hint(*access.op, "latency");
  std::string path = hint(*access.op, "allow_tma") == "false" ? "view, plain" : "view, tensor copies where possible";
  if (!latency.empty()) path += concat(", latency ", latency);
  return {verb, tile, std::move(path), inbounds(*access.op)};
}

std::string or_left(int value) { return value > 0 ? concat(value) : std::string("left to the assembler"); }

}  // namespace

std::string report(const analysis::Facts& facts, std::uint64_t predicates, const Prepared& prepared,
                   const std::string& label) {
  std::string text = concat("kernel ", label, " for sm_", prepared.target.sm, "\n");
  text += "  predicates of the launch (+ holds, - does not)\n";
  if (facts.obligations().empty()) text += "    none\n";
  const std::vector<std::string> names = parameter_names(entry_of(*prepared.module).loc, label);
  std::uint64_t bits = predicates;
  for (const analysis::Obligation& o : facts.obligations()) {
    const bool holds = (bits & 1) != 0;
    bits >>= 1;
    if (!holds && o.use == analysis::ObligationUse::Mask) continue;  // a row has one length: most of these never hold
    text += concat("    ", holds ? "+ " : "- ", padded(place(o.where), 28), " ", with_names(o.text, names));
    text += holds ? std::string("\n") : concat("\n        so ", purpose(o.use), "\n");
  }
  text += "  accesses\n";
  const ir::Function& entry = entry_of(*prepared.module);
  const analysis::Divisibility known(entry);
  ir::walk(entry.body(), [&](const ir::Operation& op) {
    const auto access = analysis::access_of(op);
    if (!access || op.op() == ir::Op::AtomicCASTko) return;  // these are of lowered checks alone
    AccessText a = describe(*access);
    if (const std::int64_t bytes = analysis::vector_bytes(op, known); bytes > 0)
      a.bounds += concat("; ", bytes, bytes == 1 ? " byte at a time" : " bytes at a time");
    text += concat("    ", padded(place(op.loc), 28), " ", padded(a.verb, 6), " ", padded(a.tile, 22), " ", a.path,
                   "; ", a.bounds, "\n");
  });
  for (const SourceLocation& loc : prepared.whole_tiles)
    text += concat("  ", place(loc), ": the region is a whole tile of its tensor, and is loaded as one\n");
  const passes::Choices& c = prepared.choices;
  text +=
      concat("  hints: warps ", or_left(c.warps), ", CTAs per cluster ", c.ctas, ", occupancy ", or_left(c.occupancy),
             ", latency ", or_left(c.latency), "; ", c.abi.persistent_blocks, " blocks fill the GPU\n");
  if (c.abi.pieces > 1) text += concat("  a block takes ", c.abi.pieces, " neighbouring pieces\n");
  if (c.abi.grid.used) text += "  the grid has an axis for each axis of the pieces\n";
  if (!prepared.tuning.empty()) text += concat("  tuning record: ", prepared.tuning, "\n");
  if (prepared.form != Form::Chosen)
    text += concat("  form ", name_of(prepared.form), ": ", text_of(prepared.form), "\n");
  const bool one_by_one = c.abi.early_alone > 0 && c.early_tiles == 0;
  if (!c.abi.early_reads.empty())
    text += concat("  reads before it waits for the kernel before it: ", c.abi.early_reads.size(),
                   one_by_one ? " tensors, up to the first that has an in-flight writer\n"
                              : " tensors, if they have no in-flight writer\n");
  if (c.early_tiles > 0)
    text += concat("  the tiles of one of them even if others have one: of the loop's first ", c.early_tiles,
                   c.early_tiles == 1 ? " iteration\n" : " iterations\n");
  if (!c.abi.checks.empty()) text += concat("  checks: ", c.abi.checks.size(), "\n");
  if (prepared.target.is_gpu())
    for (const std::string& a : advice(prepared)) text += concat("  advice: ", a, "\n");
  if (const std::string largest = largest_tile(prepared); prepared.target.is_gpu() && !largest.empty())
    text += concat("  largest tile: ", largest, "\n");
  return text;
}

}  // namespace tessera::jit
