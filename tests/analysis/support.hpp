// Recorded kernels with their launch contract, and launches of them, for the tests of analyses and passes.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "api/kernels.hpp"
#include "lang/run_kernel.hpp"
#include "tessera/analysis/facts.hpp"
#include "tessera/ir/printer.hpp"
#include "tessera/lang/trace.hpp"
#include "tessera/passes/apply_claims.hpp"
#include "tessera/passes/predicates.hpp"

namespace tessera::test {

/// What a host says about a launch of these parameters.
inline analysis::LaunchContract contract_of(const std::vector<lang::ParamInfo>& params) {
  analysis::LaunchContract c;
  for (const lang::ParamInfo& p : params) {
    if (p.is_constant()) continue;
    if (!p.is_tensor()) {
      c.args.push_back({});
      continue;
    }
    const int tensor = static_cast<int>(c.tensors.size());
    c.args.push_back({analysis::ArgRole::Base, tensor, -1});
    for (int a = 0; a < p.rank; ++a) c.args.push_back({analysis::ArgRole::Dim, tensor, a});
    for (int a = 0; a < p.rank; ++a) c.args.push_back({analysis::ArgRole::Stride, tensor, a});
    const auto with_blocks = [](const lang::ParamInfo& q) {
      return q.kind == lang::ParamKind::Mut || q.kind == lang::ParamKind::UnsafeMut ||
             q.kind == lang::ParamKind::MutTiles;
    };
    const bool own = with_blocks(p) && p.kind != lang::ParamKind::MutTiles;
    const bool only = with_blocks(p) && std::count_if(params.begin(), params.end(), with_blocks) == 1;
    const bool written = p.kind != lang::ParamKind::In;
    c.tensors.push_back({p.first_arg, p.rank, written, written, own || only});
    if (c.pieces_of_tensor < 0 && (p.kind == lang::ParamKind::Mut || p.kind == lang::ParamKind::UnsafeMut)) {
      c.pieces_of_tensor = tensor;
      c.piece = p.extents;
    }
  }
  if (lang::counts_blocks(params)) {
    c.blocks_arg = static_cast<int>(c.args.size());
    c.args.push_back({analysis::ArgRole::Blocks, -1, -1});
  }
  return c;
}

/// Row-major specialization: the last axis has stride 1, and no extent is 1.
inline lang::Specialization row_major(const std::vector<lang::ParamInfo>& params) {
  lang::Specialization s;
  for (const lang::ParamInfo& p : params) {
    if (p.is_tensor()) s.tensors.push_back({p.rank - 1, 0, (1u << p.rank) - 1});
  }
  return s;
}

/// A kernel's recording with all that is known of it.
struct Recorded {
  lang::Trace trace;
  analysis::LaunchContract contract;
  analysis::Facts facts;

  /// Argument slots of tensors with these extents (row-major, addresses multiples of 256), in the order of the
  /// parameters; values are 0. `blocks`: of kernels that are launched with their number.
  std::vector<std::uint64_t> slots(const std::vector<std::vector<std::int64_t>>& dims, std::uint64_t blocks = 1) const {
    std::vector<std::uint64_t> out;
    std::size_t tensor = 0;
    for (const lang::ParamInfo& p : trace.params) {
      if (p.is_constant()) continue;
      if (!p.is_tensor()) {
        out.push_back(0);
        continue;
      }
      const auto& d = dims.at(tensor++);
      out.push_back(0x10000 * tensor);
      for (const std::int64_t n : d) out.push_back(static_cast<std::uint64_t>(n));
      for (std::size_t a = 0; a < d.size(); ++a) {
        std::int64_t stride = 1;
        for (std::size_t b = a + 1; b < d.size(); ++b) stride *= d[b];
        out.push_back(static_cast<std::uint64_t>(stride));
      }
    }
    if (lang::counts_blocks(trace.params)) out.push_back(blocks);
    return out;
  }
  std::uint64_t held(const std::vector<std::vector<std::int64_t>>& dims, std::uint64_t blocks = 1) const {
    return facts.evaluate(slots(dims, blocks));
  }

  /// The module of launches that hold these obligations.
  std::unique_ptr<ir::Module> claimed(std::uint64_t bits) const {
    auto module = ir::clone(*trace.module);
    const analysis::Facts own = analysis::Facts::analyze(*module, contract, passes::predicate_table());
    passes::apply_claims(*module, own, bits);
    EXPECT_EQ(problems(*module), "");
    return module;
  }
  std::unique_ptr<ir::Module> claimed(const std::vector<std::vector<std::int64_t>>& dims) const {
    return claimed(held(dims));
  }

  std::string obligations() const {
    std::string text;
    for (const auto& o : facts.obligations()) text += o.text + "\n";
    return text;
  }
};

template <auto K>
Recorded recorded(lang::Specialization (*specialize)(const std::vector<lang::ParamInfo>&) = row_major) {
  const auto params = lang::trace<K>({}).params;
  lang::Trace trace = lang::trace<K>(specialize(params));
  analysis::LaunchContract contract = contract_of(trace.params);
  analysis::Facts facts = analysis::Facts::analyze(*trace.module, contract, passes::predicate_table());
  return {std::move(trace), std::move(contract), std::move(facts)};
}

inline int count(const ir::Module& module, ir::Op op) {
  int n = 0;
  for (const auto& f : module.functions)
    ir::walk(f->body(), [&](const ir::Operation& o) { n += o.op() == op ? 1 : 0; });
  return n;
}

/// Per access through a view, in program order: "11" is inside along both axes, "10" along the first only.
inline std::vector<std::string> inbounds(const ir::Module& module) {
  std::vector<std::string> all;
  for (const auto& f : module.functions) {
    ir::walk(f->body(), [&](const ir::Operation& o) {
      if (o.op() != ir::Op::LoadViewTko && o.op() != ir::Op::StoreViewTko) return;
      std::string text(o.group("index").size(), '0');
      if (const auto* a = o.attr(ir::AttrName::inbounds)) {
        const auto& flags = a->as<ir::BoolArrayAttr>()->values;
        for (std::size_t i = 0; i < flags.size(); ++i) text[i] = flags[i] ? '1' : '0';
      }
      all.push_back(text);
    });
  }
  return all;
}

}  // namespace tessera::test
