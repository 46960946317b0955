// Extraction and evaluation of scalar expressions over entry arguments (see the header). A program is a straight line
// of steps over a small file of registers that evaluate() keeps on its stack; registers are reused after a value's last
// use.
#include "tessera/ir/scalar_program.hpp"

#include <array>
#include <unordered_map>

#include "tessera/ir/semantics.hpp"

namespace tessera::ir {

struct ScalarProgram::Step {
  enum class Kind : std::uint8_t { Constant, Argument, Element };
  Kind kind = Kind::Constant;
  std::uint16_t dst = 0;
  std::array<std::uint16_t, 3> sources{};
  std::uint64_t value = 0;  ///< Constant: bits; Argument: mask of the element's width
  std::uint32_t argument = 0;
  ElementOp op;
  bool operator==(const Step&) const = default;
};

namespace {

using Step = ScalarProgram::Step;
constexpr std::uint32_t kRegisters = 64;

std::uint64_t width_mask(Elem e) {
  const int bits = info(e).bits;
  return bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
}
Elem number(Type t) { return t.is_pointer() ? Elem::I64 : t.elem(); }

/// Writes steps with one virtual register each; throws nothing, reports the first obstacle in `why`.
class Extractor {
 public:
  std::vector<Step> steps;
  std::string why;

  std::optional<std::uint16_t> visit(Value v) {
    if (const auto it = known_.find(v.impl()); it != known_.end()) return it->second;
    const auto reg = compute(v);
    if (reg) known_.emplace(v.impl(), *reg);
    return reg;
  }

 private:
  std::optional<std::uint16_t> fail(std::string reason) {
    if (why.empty()) why = std::move(reason);
    return std::nullopt;
  }

  std::optional<std::uint16_t> append(Step s) {
    if (steps.size() >= 0xFFFF) return fail("the expression has more than 65535 steps");
    s.dst = static_cast<std::uint16_t>(steps.size());
    steps.push_back(s);
    return s.dst;
  }

  std::optional<std::uint16_t> append_constant(std::uint64_t bits) {
    Step s;
    s.value = bits;
    return append(s);
  }

  std::optional<std::uint16_t> append_convert(std::uint16_t source, Elem from, Elem to) {
    if (from == to) return source;
    Step s;
    s.kind = Step::Kind::Element;
    s.op = {.op = info(to).bits > info(from).bits ? Op::ExtI : Op::TruncI,
            .source = from,
            .result = to,
            .is_signed = false,
            .arity = 1};
    s.sources[0] = source;
    return append(s);
  }

  std::optional<std::uint16_t> compute(Value v) {
    if (!v.type().is_tile() || v.type().num_elements() != 1)
      return fail("it uses a value of type " + v.type().str() + ", which is not a scalar");
    if (Block* block = v.argument_block()) return compute_argument(v, *block);
    const Operation& op = *v.def();
    switch (op.op()) {
      case Op::Constant: return compute_constant(op);
      case Op::Reshape:
      case Op::Broadcast:
      case Op::Permute: return visit(op.operand(0));
      case Op::GetTensorShape: return compute_dim(op.operand(0), v.index(), number(v.type()));
      case Op::GetIndexSpaceShape: return compute_count(op, v.index(), number(v.type()));
      default: return compute_element(op);
    }
  }

  std::optional<std::uint16_t> compute_argument(Value v, const Block& block) {
    if (block.parent()) return fail("it depends on a value that a loop carries");
    Step s;
    s.kind = Step::Kind::Argument;
    s.argument = v.index();
    s.value = width_mask(number(v.type()));
    return append(s);
  }

  std::optional<std::uint16_t> compute_constant(const Operation& op) {
    const auto& data = *op.attr(AttrName::value)->as<DenseAttr>();
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < data.bytes.size() && i < sizeof bits; ++i)
      bits |= std::to_integer<std::uint64_t>(data.bytes[i]) << (8 * i);
    return append_constant(bits & width_mask(number(op.result().type())));
  }

  std::optional<std::uint16_t> compute_element(const Operation& op) {
    const auto element = element_op(op);
    if (!element) return fail("it depends on the result of " + std::string(op.info().mnemonic));
    Step s;
    s.kind = Step::Kind::Element;
    s.op = *element;
    for (std::size_t i = 0; i < element->arity; ++i) {
      const auto source = visit(op.operand(i));
      if (!source) return std::nullopt;
      s.sources[i] = *source;
    }
    return append(s);
  }

  /// Extent `dim` of a tensor view: static, or an operand of make_tensor_view.
  std::optional<std::uint16_t> compute_dim(Value view, std::uint32_t dim, Elem to) {
    const auto shape = view.type().shape();
    if (shape[dim] != kDynamic) return append_constant(static_cast<std::uint64_t>(shape[dim]) & width_mask(to));
    const Operation* make = view.def();
    if (!make || make->op() != Op::MakeTensorView) return fail("it depends on the shape of a view made elsewhere");
    std::size_t dynamic = 0;
    for (std::uint32_t i = 0; i < dim; ++i) dynamic += shape[i] == kDynamic ? 1 : 0;
    const Value extent = make->group("dynamicShape")[dynamic];
    const auto source = visit(extent);
    return source ? append_convert(*source, number(extent.type()), to) : std::nullopt;
  }

  /// Number of tiles along one axis of a partition or strided view: ceil(extent / step).
  std::optional<std::uint16_t> compute_count(const Operation& query, std::uint32_t axis, Elem to) {
    const Value view = query.operand(0);
    const Type type = view.type();
    const bool strided = type.kind() == TypeKind::StridedView;
    if (!strided && type.kind() != TypeKind::PartitionView)
      return fail("it depends on the index space of a " + type.str());
    if (!view.def()) return fail("it depends on the shape of a view made elsewhere");
    const auto dim = static_cast<std::uint32_t>(type.dim_map()[axis]);
    const std::int64_t step = strided ? type.traversal_strides()[axis] : type.tile_shape()[axis];
    const auto extent = compute_dim(view.def()->operand(0), dim, Elem::I64);
    const auto divisor = append_constant(static_cast<std::uint64_t>(step));
    if (!extent || !divisor) return std::nullopt;
    Step s;
    s.kind = Step::Kind::Element;
    s.op = {.op = Op::DivI,
            .source = Elem::I64,
            .result = Elem::I64,
            .rounding = Rounding::PositiveInf,
            .is_signed = false,
            .arity = 2};
    s.sources = {*extent, *divisor, 0};
    const auto count = append(s);
    return count ? append_convert(*count, Elem::I64, to) : std::nullopt;
  }

  std::unordered_map<const ValueImpl*, std::uint16_t> known_;
};

std::size_t num_sources(const Step& s) { return s.kind == Step::Kind::Element ? s.op.arity : 0; }

/// Maps virtual registers (one per step) to the evaluator's few. The last step's register is the result.
bool assign_registers(std::vector<Step>& steps) {
  std::vector<std::size_t> last_use(steps.size(), 0);
  for (std::size_t i = 0; i < steps.size(); ++i)
    for (std::size_t k = 0; k < num_sources(steps[i]); ++k) last_use[steps[i].sources[k]] = i;
  std::vector<std::uint16_t> free, physical(steps.size());
  for (std::uint32_t r = kRegisters; r > 0; --r) free.push_back(static_cast<std::uint16_t>(r - 1));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Step& s = steps[i];
    for (std::size_t k = 0; k < num_sources(s); ++k) {
      const std::uint16_t virtual_register = s.sources[k];
      s.sources[k] = physical[virtual_register];
      if (last_use[virtual_register] == i) {
        free.push_back(s.sources[k]);
        last_use[virtual_register] = steps.size();  // once, also where a value is used twice here
      }
    }
    if (free.empty()) return false;
    physical[i] = s.dst = free.back();
    free.pop_back();
  }
  return true;
}

}  // namespace

std::optional<ScalarProgram> ScalarProgram::extract(Value value, std::string* why) {
  Extractor e;
  const auto result = e.visit(value);
  bool fits = false;
  if (result) {
    e.steps.resize(std::size_t{*result} + 1);  // the result is the last step
    fits = assign_registers(e.steps);
    if (!fits) e.why = "it keeps more than " + std::to_string(kRegisters) + " values at a time";
  }
  if (!fits) {
    if (why) *why = e.why;
    return std::nullopt;
  }
  ScalarProgram program;
  program.steps_ = std::make_shared<const std::vector<Step>>(std::move(e.steps));
  return program;
}

bool ScalarProgram::reads(std::size_t slot) const noexcept {
  for (const Step& s : *steps_) {
    if (s.kind == Step::Kind::Argument && s.argument == slot) return true;
  }
  return false;
}

bool ScalarProgram::operator==(const ScalarProgram& other) const { return *steps_ == *other.steps_; }

std::uint64_t ScalarProgram::evaluate(std::span<const std::uint64_t> args) const {
  std::array<std::uint64_t, kRegisters> registers;
  std::uint64_t result = 0;
  for (const Step& s : *steps_) {
    switch (s.kind) {
      case Step::Kind::Constant: result = s.value; break;
      case Step::Kind::Argument: result = s.argument < args.size() ? args[s.argument] & s.value : 0; break;
      case Step::Kind::Element: {
        std::array<std::uint64_t, 3> operands{};
        for (std::size_t i = 0; i < s.op.arity; ++i) operands[i] = registers[s.sources[i]];
        result = evaluate_element(s.op, operands);
        break;
      }
    }
    registers[s.dst] = result;
  }
  return result;
}

}  // namespace tessera::ir
