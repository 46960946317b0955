// What the verifier's files share: collecting diagnostics, and the rules of single operations.
#pragma once
#include <string>
#include <unordered_set>

#include "tessera/base/format.hpp"
#include "tessera/ir/verifier.hpp"

namespace tessera::ir {

/// Collects diagnostics. `fail` returns false, so that rules can end with `return c.fail(...)`.
class Checker {
 public:
  explicit Checker(const Module& module) : module_(module) {}
  const Module& module() const { return module_; }

  template <class... Parts>
  bool fail(const Operation& op, const Parts&... parts) {
    found_.push_back({&op, op.loc, concat(op.info().mnemonic, ": ", parts...)});
    return false;
  }
  template <class... Parts>
  bool fail(const Function& f, const Parts&... parts) {
    found_.push_back({nullptr, f.loc, concat(parts...), &f});
    return false;
  }
  template <class... Parts>
  bool fail(const Global& g, const Parts&... parts) {
    found_.push_back({nullptr, {}, concat(parts...), nullptr, &g});
    return false;
  }
  std::size_t count() const { return found_.size(); }
  std::vector<Diagnostic> take() { return std::move(found_); }

 private:
  const Module& module_;
  std::vector<Diagnostic> found_;
};

/// A rule returns false after having reported what is wrong.
using OpRule = bool (*)(Checker&, const Operation&);

/// Rules beyond what the op table says (classes of operands, attributes, equal types); null where there are none.
OpRule math_rule(Op);     ///< arithmetic, comparison, conversion
OpRule shape_rule(Op);    ///< constants, shapes, products, reductions, assumptions
OpRule memory_rule(Op);   ///< views, loads, stores, atomics, tokens
OpRule control_rule(Op);  ///< loops, branches, terminators

/// What a type may be by itself; empty: well formed.
std::string type_problem(Type);
/// What is wrong with hints of an entry (`op` null) or of a load or store; empty: nothing.
std::string hints_problem(const DictAttr& hints, const Operation* op);
/// What is wrong with constant data; empty: nothing.
std::string dense_problem(const DenseAttr&);

inline std::string shape_text(std::span<const std::int64_t> shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i)
    out += concat(i == 0 ? "" : ", ", shape[i] == kDynamic ? std::string("?") : std::to_string(shape[i]));
  return out + "]";
}
inline bool same_shape(Type a, Type b) {
  auto x = a.shape(), y = b.shape();
  return std::vector<std::int64_t>(x.begin(), x.end()) == std::vector<std::int64_t>(y.begin(), y.end());
}

}  // namespace tessera::ir
