// Induction values as start plus iteration times step (see affine.hpp).
#include "tessera/analysis/affine.hpp"

#include <cstdlib>
#include <unordered_map>

#include "tessera/analysis/values.hpp"

namespace tessera::analysis {

using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

constexpr std::int64_t kLarge = std::int64_t{1} << 24;  // scale * 32 bits * a few terms stays far below 2^63

bool is_small(const Affine& a) {
  bool ok = std::llabs(a.coefficient) < kLarge && std::llabs(a.constant) < (std::int64_t{1} << 40);
  for (const Affine::Term& t : a.terms) ok = ok && std::llabs(t.scale) < kLarge;
  return ok && a.terms.size() <= 4;
}

Affine scaled(Affine a, std::int64_t by) {
  a.coefficient *= by;
  a.constant *= by;
  for (Affine::Term& t : a.terms) t.scale *= by;
  return a;
}

Affine sum(Affine a, const Affine& b) {
  a.coefficient += b.coefficient;
  a.constant += b.constant;
  a.terms.insert(a.terms.end(), b.terms.begin(), b.terms.end());
  return a;
}

class Reader {
 public:
  explicit Reader(const Operation& loop) : body_(loop.region(0)), induction_(loop.region(0).arg(0)) {}

  std::optional<Affine> read(Value v) {
    if (v == induction_) return Affine{1, 0, {}};
    if (const auto c = constant_int(v)) return Affine{0, *c, {}};
    if (defined_outside(v, body_)) return Affine{0, 0, {{v, 1, ir::Signedness::Signed}}};
    const Operation* def = v.def();
    if (!def) return std::nullopt;
    if (const auto known = read_.find(v.impl()); known != read_.end()) return known->second;
    auto form = combined(*def);
    if (form && !is_small(*form)) form.reset();
    if (form) steps.push_back({*form, ir::info(v.type().elem()).bits});
    return read_[v.impl()] = form;
  }
  std::vector<AffineValue::Step> steps;

 private:
  std::optional<Affine> combined(const Operation& def) {
    if (def.op() != Op::AddI && def.op() != Op::SubI && def.op() != Op::MulI) return std::nullopt;
    const auto x = read(def.operand(0)), y = read(def.operand(1));
    if (!x || !y) return std::nullopt;
    if (def.op() == Op::AddI) return sum(*x, *y);
    if (def.op() == Op::SubI) return sum(*x, scaled(*y, -1));
    const auto is_constant = [](const Affine& a) { return a.coefficient == 0 && a.terms.empty(); };
    if (is_constant(*y) && std::llabs(y->constant) < kLarge) return scaled(*x, y->constant);
    if (is_constant(*x) && std::llabs(x->constant) < kLarge) return scaled(*y, x->constant);
    return std::nullopt;
  }

  const ir::Block& body_;
  Value induction_;
  std::unordered_map<const ir::ValueImpl*, std::optional<Affine>> read_;  ///< what is used in many places, once
};

}  // namespace

std::optional<AffineValue> affine_value(Value v, const Operation& loop) {
  const ir::Type t = v.type();
  if (t.rank() != 0 || t.is_pointer() || t.is_float() || ir::info(t.elem()).bits > 32) return std::nullopt;
  Reader reader(loop);
  const auto form = reader.read(v);
  if (!form) return std::nullopt;
  return AffineValue{*form, std::move(reader.steps)};
}

}  // namespace tessera::analysis
