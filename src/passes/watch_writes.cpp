// Checked mode on a GPU: detects loads of elements that were never written. Each tensor has a shadow with a byte for
// each element, which the kernel itself updates and checks. docs/compiler/watch_writes.md.
//
//   store x through view, token t            =>   t' = if has_shadow { store 0 through shadow, token t }
//                                                 store x through view, token t'
//   x = load view, token t                   =>   t' = if has_shadow { s = load shadow, token t; assert s == 0 }
//                                                 x = load view, token t'
//
// The shadow's access precedes the tensor's in the same token chain, so both have the same order.
#include "tessera/passes/watch_writes.hpp"
#include "tessera/analysis/access.hpp"

#include <optional>
#include <unordered_map>

#include "passes/rewriter.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::Builder;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::TypeKind;
using ir::Value;

using analysis::Access;

namespace {

/// One tensor argument and what the kernel knows of its shadow.
struct Tensor {
  const WatchedTensor* watched;
  Value shadow;   ///< the entry's argument
  Value present;  ///< i1: it is not null
};

/// The shadow's counterpart of a pointer or a view.
struct Twin {
  const Tensor* tensor = nullptr;  ///< null: not derived from a watched argument
  Value value;
};

/// The same view of another tensor view. What is outside the tensor reads as written.
Type view_of(Type tensor, Type like) {
  constexpr auto kPadding = ir::PaddingValue::Zero;
  switch (like.kind()) {
    case TypeKind::PartitionView: return Type::partition_view(tensor, like.tile_shape(), like.dim_map(), kPadding);
    case TypeKind::StridedView:
      return Type::strided_view(tensor, like.tile_shape(), like.traversal_strides(), like.dim_map(), kPadding);
    default: return Type::gather_scatter_view(tensor, like.tile_shape(), like.sparse_dim(), kPadding);
  }
}

class Watch {
 public:
  Watch(ir::Function& f, std::span<const WatchedTensor> tensors) : f_(f) {
    tensors_.reserve(tensors.size());  // twins point into this vector
    for (const WatchedTensor& t : tensors) add(t);
  }

  void rewrite() {
    std::vector<Operation*> accesses;
    ir::walk(f_.body(), [&](Operation& op) {
      if (analysis::is_access(op)) accesses.push_back(&op);
    });
    for (Operation* op : accesses) {
      const Access access = *analysis::access_of(*op);
      const Twin twin = twin_of(access.reached_through());
      if (twin.tensor != nullptr) watch(*op, access, twin);
    }
  }

 private:
  void add(const WatchedTensor& t) {
    Tensor& tensor = tensors_.emplace_back();
    tensor.watched = &t;
    tensor.shadow = f_.body().add_arg(pointer_type());
    const Value of = f_.body().arg(static_cast<std::size_t>(t.arg));
    twins_[of.impl()] = {&tensor, tensor.shadow};
    if (!of.has_uses()) return;
    Builder b = Builder::before(f_.body().front());
    b.loc = f_.loc;
    const Type i64 = Type::tile(Elem::I64);
    const Value address = b.create(Op::PtrToInt, {tensor.shadow}, {i64})->result();
    tensor.present = b.create(Op::CmpI, {address, b.constant_int(Elem::I64, 0)}, {Type::tile(Elem::I1)},
                              {{AttrName::comparison_predicate, ir::ComparisonPredicate::NotEqual},
                               {AttrName::signedness, ir::Signedness::Unsigned}})
                         ->result();
  }
  static Type pointer_type() { return Type::tile(Type::pointer(Type::element(Elem::I8)), {}); }

  /// Follows a pointer or a view to the argument that it comes from, and derives the same from the shadow.
  Twin twin_of(Value v) {
    if (const auto known = twins_.find(v.impl()); known != twins_.end()) return known->second;
    Twin twin;
    if (Operation* def = v.def(); def != nullptr) {
      if (const auto from = followed(*def)) twin = twin_of(def->operand(*from));
      if (twin.tensor != nullptr) twin.value = beside(*def, twin.value);
    }
    return twins_[v.impl()] = twin;
  }
  /// The operand that decides which tensor the result belongs to; none where that is unknown (another pointer type, an
  /// integer, a value that a loop or branch yields: raw pointers).
  static std::optional<std::size_t> followed(const Operation& def) {
    switch (def.op()) {
      case Op::Offset:
      case Op::Reshape:
      case Op::Broadcast:
      case Op::Permute:
      case Op::Extract:
      case Op::Assume:
      case Op::MakeTensorView:
      case Op::MakePartitionView:
      case Op::MakeStridedView:
      case Op::MakeGatherScatterView: return 0;
      case Op::PtrToPtr: return has_same_elements(def) ? std::optional<std::size_t>(0) : std::nullopt;
      default: return std::nullopt;
    }
  }
  /// The result points to elements of the same size.
  static bool has_same_elements(const Operation& cast) {
    const auto bits = [](Value v) { return ir::info(v.type().pointee().elem()).bits; };
    return bits(cast.operand(0)) == bits(cast.result());
  }
  /// A copy of `def` with `from` as its first operand. Offsets and strides count elements, so they are unchanged.
  static Value beside(Operation& def, Value from) {
    // An assumption about the tensor's address says nothing about the shadow's, whose elements have one type.
    if (def.op() == Op::Assume || def.op() == Op::PtrToPtr) return from;
    Builder b = Builder::before(def.next());
    b.loc = def.loc;
    std::vector<Value> operands = def.operand_values();
    operands[0] = from;
    const Type old = def.result().type();
    Type type;
    if (def.op() == Op::MakeTensorView)
      type = Type::tensor_view(Elem::I8, old.shape(), old.strides());
    else if (old.is_view())
      type = view_of(from.type(), old);
    else
      type = old.with_element(pointer_type().element_type());
    Operation* made = b.create_grouped(def.op(), operands, def.group_sizes(), {&type, 1});
    for (const ir::NamedAttr& a : def.attrs()) made->set_attr(a.name, a.value);
    return made->result();
  }

  /// Before `access`: if there is a shadow, clears what is stored or asserts that what is read is clear.
  void watch(Operation& op, const Access& access, const Twin& twin) {
    Builder b = Builder::before(&op);
    b.loc = op.loc;
    const Value token = access.token;
    std::vector<Type> handed;
    if (token) handed.push_back(Type::token());
    const Value present[] = {twin.tensor->present};
    Operation* branch = b.create(Op::If, present, handed);
    Builder with(branch->add_region());
    with.loc = b.loc;
    Operation* made = access.stores() ? clear(with, access, twin.value) : ask(with, access, twin);
    Builder without(branch->add_region());
    without.loc = b.loc;
    if (!token) {
      with.create(Op::Yield, {}, {});
      without.create(Op::Yield, {}, {});
      return;
    }
    with.create(Op::Yield, {made->result(made->num_results() - 1)}, {});
    without.create(Op::Yield, {token}, {});
    set_token(op, branch->result());
  }

  /// The operands of an access through the shadow, whose index, mask and token are those of the access itself.
  struct Operands {
    std::vector<Value> values;
    std::vector<std::uint32_t> groups;
    void add(std::span<const Value> group) {
      values.insert(values.end(), group.begin(), group.end());
      groups.push_back(static_cast<std::uint32_t>(group.size()));
    }
    void add(Value v) { add(std::span(&v, v ? 1 : 0)); }
    void add_place(const Access& access) {
      if (access.view) return add(access.index);
      add(access.mask);
    }
  };
  static Operation* create(Builder& b, Op op, const Access& access, const Operands& o, std::span<const Type> results) {
    Operation* made = b.create_grouped(op, o.values, o.groups, results,
                                       {{AttrName::memory_ordering_semantics, ir::MemoryOrdering::Weak}});
    if (const ir::Attribute* inbounds = access.op->attr(AttrName::inbounds))
      made->set_attr(AttrName::inbounds, *inbounds);
    return made;
  }

  static Operation* clear(Builder& b, const Access& access, Value shadow) {
    const Value zeros = b.constant_int(Elem::I8, 0, access.tile.shape());
    Operands o;
    o.add(access.view ? zeros : shadow);
    o.add(access.view ? shadow : zeros);
    o.add_place(access);
    o.add(access.token);
    const Type token = Type::token();
    return create(b, access.op->op(), access, o, {&token, 1});
  }

  static Operation* ask(Builder& b, const Access& access, const Twin& twin) {
    const bool view = static_cast<bool>(access.view);
    const Type tile = view ? twin.value.type().view_tile() : twin.value.type().with_element(Elem::I8);
    Operands o;
    o.add(twin.value);
    o.add_place(access);
    if (!view) o.add(access.mask ? b.constant_int(Elem::I8, 0, tile.shape()) : Value());  // masked ones are not read
    o.add(access.token);
    const Type results[] = {tile, Type::token()};
    Operation* load = create(b, view ? Op::LoadViewTko : Op::LoadPtrTko, access, o, results);
    const Value written =
        b.create(Op::CmpI, {load->result(0), b.constant_int(Elem::I8, 0, tile.shape())}, {tile.with_element(Elem::I1)},
                 {{AttrName::comparison_predicate, ir::ComparisonPredicate::Equal},
                  {AttrName::signedness, ir::Signedness::Unsigned}})
            ->result();
    b.create(Op::Assert, {written}, {},
             {{AttrName::message, concat(access.loads() ? "load" : "atomic update",
                                         " of an element that nothing has written: ", twin.tensor->watched->label)}});
    return load;
  }

  ir::Function& f_;
  std::vector<Tensor> tensors_;
  std::unordered_map<const ir::ValueImpl*, Twin> twins_;
};

/// A shadow has a byte for each element: elements that share a byte of memory have none.
int element_bytes(const ir::Function& f, const WatchedTensor& t) {
  const ir::ElemInfo& element = ir::info(f.body().arg(static_cast<std::size_t>(t.arg)).type().elem());
  if (element.bits > 1 && element.bits < 8)
    throw InternalError(
        concat(t.label, ": elements of ", element.text, " are smaller than a byte and cannot be checked for writes"));
  return element.bytes;
}

}  // namespace

std::vector<calling::WatchedArgument> watch_writes(ir::Function& f, std::span<const WatchedTensor> tensors) {
  std::vector<calling::WatchedArgument> watched;
  for (const WatchedTensor& t : tensors)
    watched.push_back({t.arg, static_cast<int>(watched.size()), element_bytes(f, t)});
  Watch(f, tensors).rewrite();
  return watched;
}

}  // namespace tessera::passes
