// Rules of views, loads, stores, atomics, tokens, globals, printing.
#include <cstring>

#include "ir/verify_rules.hpp"

namespace tessera::ir {

namespace {

bool make_view(Checker& c, const Operation& op) {
  Type given = op.operand(0).type(), wanted = op.result().type().tensor();
  if (given == wanted) return true;
  return c.fail(op, "expected a tensor_view of type ", wanted.str(), ", found ", given.str());
}

std::size_t dynamic_entries(std::span<const std::int64_t> entries) {
  std::size_t n = 0;
  for (std::int64_t e : entries) n += e == kDynamic ? 1 : 0;
  return n;
}

bool make_tensor_view(Checker& c, const Operation& op) {
  Type base = op.single("base").type(), view = op.result().type();
  if (base.pointee() != Type::element(view.elem()))
    return c.fail(op, "expected a pointer to ", info(view.elem()).text, ", found ", base.str());
  std::vector<Value> shape = op.group("dynamicShape"), strides = op.group("dynamicStrides");
  if (shape.size() != dynamic_entries(view.shape()))
    return c.fail(op, "expected ", dynamic_entries(view.shape()), " dynamic extents, found ", shape.size());
  if (strides.size() != dynamic_entries(view.strides()))
    return c.fail(op, "expected ", dynamic_entries(view.strides()), " dynamic strides, found ", strides.size());
  shape.insert(shape.end(), strides.begin(), strides.end());
  for (Value v : shape)
    if (v.type() != shape.front().type())
      return c.fail(op, "expected dynamic extents and strides of one type, found ", shape.front().type().str(), " and ",
                    v.type().str());
  return true;
}

bool shape_query(Checker& c, const Operation& op) {
  Type view = op.operand(0).type();
  const auto rank = static_cast<std::size_t>(view.rank());
  if (op.num_results() != rank) return c.fail(op, "expected ", rank, " results, found ", op.num_results());
  for (std::size_t i = 1; i < rank; ++i)
    if (op.result(i).type() != op.result(0).type()) return c.fail(op, "expected results of one type");
  return true;
}

// ---- memory order -----------------------------------------------------------------------------------------------

constexpr unsigned bit(MemoryOrdering m) { return 1u << static_cast<unsigned>(m); }

bool check_ordering(Checker& c, const Operation& op, unsigned allowed) {
  const auto order = op.enum_attr<MemoryOrdering>(AttrName::memory_ordering_semantics);
  if ((allowed & bit(order)) != 0) return true;
  std::string names;
  for (std::uint8_t m = 0; m <= 4; ++m)
    if ((allowed >> m & 1) != 0) names += concat(names.empty() ? "" : ", ", enum_text(AttrKind::MemoryOrdering, m));
  return c.fail(op, "expected a memory ordering out of ", names, ", found ",
                enum_text(AttrKind::MemoryOrdering, static_cast<std::uint8_t>(order)));
}

/// Weak accesses have no scope, all others have one.
bool check_access(Checker& c, const Operation& op) {
  const bool load = op.info().has(traits::Read);
  if (!check_ordering(c, op,
                      bit(MemoryOrdering::Weak) | bit(MemoryOrdering::Relaxed) |
                          bit(load ? MemoryOrdering::Acquire : MemoryOrdering::Release)))
    return false;
  const auto order = op.enum_attr<MemoryOrdering>(AttrName::memory_ordering_semantics);
  const bool scoped = op.has_attr(AttrName::memory_scope);
  if (order == MemoryOrdering::Weak && scoped) return c.fail(op, "a weak access has no memory scope, found one");
  if (order != MemoryOrdering::Weak && !scoped)
    return c.fail(op, "expected a memory scope for a ",
                  enum_text(AttrKind::MemoryOrdering, static_cast<std::uint8_t>(order)), " access, found none");
  const Attribute* hints = op.attr(AttrName::optimization_hints);
  const std::string problem = hints ? hints_problem(*hints->as<DictAttr>(), &op) : "";
  return problem.empty() || c.fail(op, problem);
}

// ---- views ------------------------------------------------------------------------------------------------------

bool check_indices(Checker& c, const Operation& op, Type view) {
  std::vector<Value> indices = op.group("index");
  const std::size_t rank = view.tile_shape().size();
  if (indices.size() != rank) return c.fail(op, "expected ", rank, " indices, found ", indices.size());
  const bool gather = view.kind() == TypeKind::GatherScatterView;
  Type scalar;
  for (std::size_t i = 0; i < rank; ++i) {
    Type t = indices[i].type();
    if (gather && static_cast<std::int32_t>(i) == view.sparse_dim()) {
      if (t.rank() != 1 || t.shape()[0] != view.tile_shape()[i])
        return c.fail(op, "expected a one-axis tile of ", view.tile_shape()[i], " indices for the sparse axis ", i,
                      ", found ", t.str());
      continue;
    }
    if (t.rank() != 0) return c.fail(op, "expected a scalar index for axis ", i, ", found ", t.str());
    if (!scalar) scalar = t;
    if (t != scalar) return c.fail(op, "expected scalar indices of one type, found ", scalar.str(), " and ", t.str());
  }
  return true;
}

bool view_access(Checker& c, const Operation& op) {
  Type view = op.single("view").type();
  Type tile = op.op() == Op::LoadViewTko ? op.result(0).type() : op.single("tile").type();
  if (!check_indices(c, op, view)) return false;
  if (tile != view.view_tile())
    return c.fail(op, "expected a tile of type ", view.view_tile().str(), ", found ", tile.str());
  if (const Attribute* inbounds = op.attr(AttrName::inbounds)) {
    const std::size_t flags = inbounds->as<BoolArrayAttr>()->values.size();
    if (flags != view.tile_shape().size())
      return c.fail(op, "expected ", view.tile_shape().size(), " inbounds flags, found ", flags);
  }
  return check_access(c, op);
}

// ---- pointers ---------------------------------------------------------------------------------------------------

bool matches_pointers(Checker& c, const Operation& op, Type pointers, Type values, const char* what) {
  Type expected = pointers.with_element(pointers.pointee());
  if (values == expected) return true;
  return c.fail(op, "expected ", what, " of type ", expected.str(), " for pointers of type ", pointers.str(),
                ", found ", values.str());
}

bool check_mask(Checker& c, const Operation& op, Type pointers) {
  Value mask = op.single("mask");
  if (!mask || same_shape(mask.type(), pointers)) return true;
  return c.fail(op, "expected a mask of shape ", shape_text(pointers.shape()), ", found ",
                shape_text(mask.type().shape()));
}

bool load_pointers(Checker& c, const Operation& op) {
  Type pointers = op.single("source").type(), result = op.result(0).type();
  if (!matches_pointers(c, op, pointers, result, "a result") || !check_mask(c, op, pointers)) return false;
  Value padding = op.single("paddingValue");
  if (padding && padding.type() != result)
    return c.fail(op, "expected a padding value of type ", result.str(), ", found ", padding.type().str());
  if (padding && !op.single("mask")) return c.fail(op, "a padding value needs a mask, found none");
  return check_access(c, op);
}

bool store_pointers(Checker& c, const Operation& op) {
  Type pointers = op.single("destination").type();
  return matches_pointers(c, op, pointers, op.single("value").type(), "a value") && check_mask(c, op, pointers) &&
         check_access(c, op);
}

// ---- atomics ----------------------------------------------------------------------------------------------------

bool check_mode(Checker& c, const Operation& op, Elem e) {
  const auto mode = op.enum_attr<AtomicMode>(AttrName::mode);
  const char* name = enum_text(AttrKind::AtomicMode, static_cast<std::uint8_t>(mode));
  const bool wide = info(e).bits == 32 || info(e).bits == 64;
  switch (mode) {
    case AtomicMode::AddF:
      if (info(e).is_float && info(e).arithmetic) return true;
      return c.fail(op, "mode addf needs f16, bf16, f32 or f64, found ", info(e).text);
    case AtomicMode::Xchg:
      if (wide && e != Elem::TF32) return true;
      return c.fail(op, "mode xchg needs elements of 32 or 64 bits, found ", info(e).text);
    default:
      if (e == Elem::I32 || e == Elem::I64) return true;
      return c.fail(op, "mode ", name, " needs i32 or i64, found ", info(e).text);
  }
}

constexpr unsigned kAtomic = bit(MemoryOrdering::Relaxed) | bit(MemoryOrdering::Acquire) |
                             bit(MemoryOrdering::Release) | bit(MemoryOrdering::AcqRel);

bool atomic_rmw(Checker& c, const Operation& op) {
  Type pointers = op.single("pointers").type(), arg = op.single("arg").type();
  if (!matches_pointers(c, op, pointers, arg, "an argument")) return false;
  if (op.result(0).type() != arg)
    return c.fail(op, "expected a result of type ", arg.str(), ", found ", op.result(0).type().str());
  return check_mask(c, op, pointers) && check_mode(c, op, arg.elem()) && check_ordering(c, op, kAtomic);
}

bool atomic_cas(Checker& c, const Operation& op) {
  Type pointers = op.single("pointers").type(), value = op.single("val").type();
  if (!matches_pointers(c, op, pointers, value, "a value")) return false;
  for (Type t : {op.single("cmp").type(), op.result(0).type()})
    if (t != value)
      return c.fail(op, "expected cmp, val and result of one type, found ", value.str(), " and ", t.str());
  const int bits = info(value.elem()).bits;
  if ((bits != 32 && bits != 64) || value.elem() == Elem::TF32)
    return c.fail(op, "expected elements of 32 or 64 bits, found ", info(value.elem()).text);
  return check_mask(c, op, pointers) && check_ordering(c, op, kAtomic);
}

bool atomic_red_view(Checker& c, const Operation& op) {
  Type view = op.single("view").type(), value = op.single("value").type();
  if (view.kind() == TypeKind::GatherScatterView)
    return c.fail(op, "expected a partition or strided view, found a gather_scatter_view");
  if (view.padding()) return c.fail(op, "expected a view without padding value, found ", text(*view.padding()));
  if (value != view.view_tile())
    return c.fail(op, "expected a value of type ", view.view_tile().str(), ", found ", value.str());
  if (op.enum_attr<AtomicMode>(AttrName::mode) == AtomicMode::Xchg)
    return c.fail(op, "mode xchg has no meaning without a result");
  if (op.enum_attr<MemoryScope>(AttrName::memory_scope) == MemoryScope::System)
    return c.fail(op, "expected memory scope tl_blk or device, found sys");
  return check_mode(c, op, value.elem()) && check_ordering(c, op, bit(MemoryOrdering::Relaxed)) &&
         check_indices(c, op, view);
}

// ---- the rest ---------------------------------------------------------------------------------------------------

bool join_tokens(Checker& c, const Operation& op) {
  if (op.num_operands() >= 2) return true;
  return c.fail(op, "expected two or more tokens, found ", op.num_operands());
}

bool get_global(Checker& c, const Operation& op) {
  const std::string& name = *op.attr(AttrName::name)->as<std::string>();
  for (const Global& g : c.module().globals) {
    if (g.name != name) continue;
    if (op.result().type().pointee() == g.value.type.element_type()) return true;
    return c.fail(op, "expected a pointer to ", g.value.type.element_type().str(), " for @", name, ", found ",
                  op.result().type().str());
  }
  return c.fail(op, "there is no global @", name);
}

bool alloca_op(Checker& c, const Operation& op) {
  const std::int64_t elements = op.int_attr(AttrName::num_elem), alignment = op.int_attr(AttrName::alignment);
  if (elements < 0) return c.fail(op, "expected num_elem of at least 0, found ", elements);
  if (alignment <= 0 || (alignment & (alignment - 1)) != 0)
    return c.fail(op, "expected an alignment that is a power of two, found ", alignment);
  const Elem e = op.result().type().elem();
  if (alignment < info(e).bytes)
    return c.fail(op, "expected an alignment of at least ", int{info(e).bytes}, " for ", info(e).text, ", found ",
                  alignment);
  return true;
}

/// As many arguments as the format has conversions (%% is none).
bool print_op(Checker& c, const Operation& op) {
  const std::string& format = *op.attr(AttrName::str)->as<std::string>();
  std::size_t conversions = 0;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') continue;
    std::size_t end = format.find_first_of("diuoxXeEfFgGaAcsSpn%", i + 1);
    if (end == std::string::npos) return c.fail(op, "the format ends inside a conversion: \"", format, "\"");
    if (end != i + 1 || format[end] != '%') ++conversions;
    i = end;
  }
  const std::size_t args = op.group("args").size();
  if (conversions == args) return true;
  return c.fail(op, "expected ", conversions, " arguments for the format, found ", args);
}

}  // namespace

OpRule memory_rule(Op op) {
  switch (op) {
    case Op::MakePartitionView:
    case Op::MakeStridedView:
    case Op::MakeGatherScatterView: return make_view;
    case Op::MakeTensorView: return make_tensor_view;
    case Op::GetTensorShape:
    case Op::GetIndexSpaceShape: return shape_query;
    case Op::LoadViewTko:
    case Op::StoreViewTko: return view_access;
    case Op::LoadPtrTko: return load_pointers;
    case Op::StorePtrTko: return store_pointers;
    case Op::AtomicRMWTko: return atomic_rmw;
    case Op::AtomicCASTko: return atomic_cas;
    case Op::AtomicRedViewTko: return atomic_red_view;
    case Op::JoinTokens: return join_tokens;
    case Op::GetGlobal: return get_global;
    case Op::Alloca: return alloca_op;
    case Op::PrintTko: return print_op;
    default: return nullptr;
  }
}

}  // namespace tessera::ir
